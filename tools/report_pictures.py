"""Draw the pictures of the report in the docs: a release of scikit-learn's breast cancer table, seen by Chromium.

    python tools/report_pictures.py

The noise is fresh every time, so every picture shows another release.
"""

import html
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from sklearn.datasets import load_breast_cancer

from eigenveil import PrivacyLedger, PrivatePCA, Schema, score_map
from eigenveil.report import render_report
from eigenveil.tables.schema import Column

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# As a radiologist might declare them. The table is public, so nobody's privacy hangs on how they were guessed.
RANGES = (
    (5, 30), (5, 40), (40, 200), (100, 3000), (0.05, 0.2), (0, 0.4), (0, 0.5), (0, 0.25), (0.1, 0.35), (0.04, 0.1),
)  # fmt: skip
# Each picture shows the page on a desk in light, and on a phone in dark.
WINDOWS = ((1010, "light"), (390, "dark"))
# Name of a picture, its height, and where the page is scrolled to.
PICTURES = (("report", 1180, None), ("report_loadings", 860, "loadings"), ("report_officer", 1000, "officer"))


def page(folder: Path) -> str:
    """Return the report of a private PCA with a schema, a ledger and a map of scores."""
    frame = load_breast_cancer(as_frame=True).data.iloc[:, : len(RANGES)]
    columns = tuple(Column(name, range=ends) for name, ends in zip(frame.columns, RANGES, strict=True))
    schema = Schema(columns, "the clinic's data office", "2026-01-31", "tumours, measured in images", "1989 to 1991")
    ledger = PrivacyLedger.create(folder / "tumours.ledger", epsilon=15.0, delta=1e-5, data_set="tumours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page says it
        pca = PrivatePCA(3, epsilon=8.0, delta=1e-6, schema=schema, standardize=True, ledger=ledger).fit(frame)
        cloud = score_map(frame, pca.release_, epsilon=4.0, ledger=ledger)
    return render_report(pca.release_, ledger=ledger, scores=cloud, title="Tumours of a clinic")


def draw(text: str, name: str, height: int, start: str | None, folder: Path, chromium: str) -> None:
    """Write one picture."""
    frames = "".join(
        f'<iframe width="{width}" height="{height}" srcdoc="'
        f'{html.escape(text.replace("<html ", f"<html data-theme={theme} "))}"></iframe>'
        for width, theme in WINDOWS
    )
    top = f'd.getElementById("{start}").closest("section").getBoundingClientRect().top-12' if start else "0"
    each = f"const d=f.contentDocument;d.defaultView.scrollTo(0,{top})"
    scroll = f'for(const f of document.querySelectorAll("iframe")){{{each}}}'
    file = folder / "frames.html"
    head = "<!DOCTYPE html><meta charset=utf-8><style>body{margin:0;display:flex}iframe{border:0}</style>"
    file.write_text(f'{head}{frames}<script>addEventListener("load",()=>{{{scroll}}})</script>', encoding="utf-8")
    command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = f"{sum(width for width, _ in WINDOWS)},{height}"
    command += [f"--user-data-dir={folder / 'profile'}", f"--window-size={size}"]
    subprocess.run([*command, f"--screenshot={IMAGES / f'{name}.png'}", file.as_uri()], check=True, capture_output=True)


def main() -> None:
    """Draw all pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("The pictures need Chromium.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = page(folder)
        for picture in PICTURES:
            draw(text, *picture, folder, chromium)


if __name__ == "__main__":
    main()
