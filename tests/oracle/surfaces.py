"""What surfaces say of thirty releases of the oracle, as text: summary, report page, officer's record, registry, JSON.

`tools/oracle.py --check` and `--write` compare and write `surfaces/`, one file a release. Each text is made from a
release that was loaded from its file and of which nothing was read before.
"""

import json
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

import eigenveil

HERE = Path(__file__).parent / "surfaces"
NAMES = (
    "PrivateCovariance/norm_found",
    "PrivateCovariance/bounds/add_or_remove_one/delta",
    "PrivateCovariance/kendall/standardized",
    "PrivateRidge/alpha",
    "PrivateRidge/bounds/replace_one/pure",
    "PrivateScaler/bounds/replace_one/delta",
    "PrivateSparsePCA/bounds/replace_one/pure",
    "PrivateSparsePCA/wide",
    "covariance/ranges/replace_one/pure",
    "federation/auto/replace_one/1",
    "gate/eigenvector_sampling/tight/replace_one/2",
    "gate/frobenius/tight/replace_one/2",
    "gate/laplace/tight/add_or_remove_one/2",
    "gate/none/None/replace_one/2",
    "gate/random_projection/None/replace_one/2",
    "local/pca/gaussian_paper/unit",
    "local/reports/double_cap/any",
    "pca/auto/replace_one/pure/centred",
    "pca/bounds/replace_one/delta/centred",
    "pca/bounds_by_name",
    "pca/components/above_noise",
    "pca/mod_sulq/paper/replace_one",
    "pca/ppca/tight/replace_one",
    "pca/ranges/standardized/replace_one/delta",
    "pca/wishart/tight/replace_one",
    "schema/PrivateRidge",
    "schema/pca/csv",
    "stages/2/centred/PrivatePCA",
    "unit/by_rows/replace_one/delta/bounds",
    "weighted/covariance",
)


class _Text(HTMLParser):
    """Collects what a reader of a page sees, one piece a line; style and script are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.hidden += tag in ("style", "script")
        self.pieces += [f"[{name}] {value}" for name, value in attrs if name in ("aria-label", "title", "alt")]

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if data.strip() and not self.hidden:
            self.pieces.append(" ".join(data.split()))


def page_text(html: str) -> str:
    """Return the text of a page, one element a line."""
    reader = _Text()
    reader.feed(html)
    return "\n".join(reader.pieces)


def surfaces(file: Path) -> str:
    """Return everything that is said of a release file, under a heading for each surface."""
    from eigenveil import report

    def summary(made: eigenveil.Release) -> str:
        return f"{made.summary()}\n{made.summary().to_latex()}"

    makers = {
        "summary": summary,
        "summary as JSON": lambda made: made.summary().to_json(),
        "page": lambda made: page_text(report.render_report(made)),
        "record": lambda made: json.dumps(report.report_record(made), indent=1, ensure_ascii=False, default=str),
        "registry": lambda made: yaml.safe_dump(report.registry_record(made), sort_keys=False, allow_unicode=True),
        "JSON": lambda made: made.to_json(),
        "repr": repr,
    }
    parts = []
    for title, make in makers.items():
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                text = make(eigenveil.load_release(file))
            except eigenveil.errors.EigenveilError as error:
                text = f"refused: {error}"
        told = sorted({f"{one.category.__name__}: {one.message}" for one in heard})
        parts.append("\n".join([f"==== {title}", text, *told]))
    return _dateless("\n\n".join(parts)) + "\n"


def _dateless(text: str) -> str:
    months = "January|February|March|April|May|June|July|August|September|October|November|December"
    text = re.sub(r"20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:[\d.]+)?)?( UTC|\+00:00|Z)?", "DATE", text)
    text = re.sub(rf"\d{{1,2}} ({months}) 20\d\d(,? (at )?\d\d:\d\d(:\d\d)?)?( UTC)?", "DATE", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text).replace(eigenveil.__version__, "VERSION")


def file_of(name: str) -> Path:
    """Return the frozen text of a configuration."""
    return HERE / (name.replace("/", "-") + ".txt")
