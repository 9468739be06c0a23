"""The report in a real browser: rules of accessibility, and no script or request of a hostile name."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import browser
from browser import AXE, needs_axe, needs_chromium
from eigenveil import Guarantee, PrivacyLedger, PrivatePCA, RowBound, Schema, score_map
from eigenveil.releases.origin import RegressionRequest
from eigenveil.report import Statement, render_report
from eigenveil.tables.schema import Column
from made_releases import drawn, quietly

pytestmark = needs_chromium

SCRIPT = Path(__file__).with_name("report_frames.js").read_text(encoding="utf-8")
WIDTHS, THEMES = (390, 768, 1280), ("light", "dark")
CENTRED = RowBound(20.0, constant=20.0)
LONG = [
    "the number of days since the last visit to any of the wards",
    "Krankenversicherungsträgerbeitragsbemessungsgrenzenüberprüfung",
    "<script>hacked=true</script>",
    17 * "W",
    "血液中のヘモグロビン濃度の平均値とその標準偏差の比率の対数変換値",
    "متوسط ضغط الدم الانقباضي خلال الأشهر الستة الماضية للمريض",
    "👩🏽‍⚕️🩸📈 emoji_and_under_scores_without_a_blank_to_break_at_00",
    "age",
]


def rows_of(d: int, n: int = 4000) -> np.ndarray:
    generator = np.random.default_rng(2)
    return generator.normal(size=(n, 2)) @ generator.normal(size=(2, d)) + 0.3 * generator.normal(size=(n, d))


def names_of(d: int) -> list[str]:
    return [*LONG, *(f"feature_{i}" for i in range(d))][:d]


def with_cloud(folder: Path) -> str:
    """Return the page of a PCA with everything beside it: a schema, a ledger and a score map by groups."""
    import pandas as pd

    frame = pd.DataFrame(rows_of(4), columns=list("abcd")).assign(ward=np.where(np.arange(4000) % 3, "A", "B"))
    columns = (*(Column(name, range=(-12, 12)) for name in "abcd"), Column("ward", "category", categories=("A", "B")))
    schema = Schema(columns, "the data office", "2026-01-31", "patients of a clinic", "2024 and 2025")
    ledger = PrivacyLedger.create(folder / "study.ledger", epsilon=20.0, delta=1e-5, data_set="study")
    pca = quietly(lambda: PrivatePCA(3, epsilon=4.0, delta=1e-6, schema=schema, ledger=ledger).fit(frame))
    cloud = quietly(lambda: score_map(frame, pca.release_, epsilon=4.0, groups="ward", ledger=ledger))
    return render_report(pca.release_, ledger=ledger, scores=cloud, title="Everything beside it")


def with_every_section(folder: Path) -> str:
    ledger = PrivacyLedger.create(folder / "long.ledger", epsilon=50.0, delta=1e-5, data_set="study")
    ledger.spend(Guarantee(1.0), "an earlier release of this study")
    release = drawn(
        "gaussian",
        rows_of(30),
        epsilon=20.0,
        bound=CENTRED,
        names=names_of(30),
        request=RegressionRequest(29),
        ledger=ledger,
    )
    statement = Statement(" ".join(LONG), LONG[1], LONG[2], 17 * "W" + "\n" + LONG[4], LONG[6])
    return render_report(
        release, ledger=ledger, title="A long title of a report on a study of many features", statement=statement
    )


KINDS = {"subspace": "ppca", "not private": "none"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("ledgers")
    made = {name: render_report(drawn(mechanism, n_components=2)) for name, mechanism in KINDS.items()}
    return {"cloud": with_cloud(folder), "sections": with_every_section(folder), **made}


def looked_at(pages: dict[str, str], wanted: list[dict], folder: Path, *options: str) -> list[dict]:
    """Return what a browser finds in every frame that is wanted, by one start of it."""
    axe = AXE.read_text(encoding="utf-8") if any(one.get("axe") for one in wanted) else ""
    with browser.served(folder) as server:
        texts = {"axe": axe, "wanted": json.dumps(wanted), **pages}
        found, console = browser.looked_at(server, folder / "profile", SCRIPT, *options, **texts)
    assert console == []
    return found


GUARDED = """const frame = document.createElement("iframe");
frame.onload = () => report(frame.contentWindow.hacked === true);
frame.src = "/guarded.html";
document.body.append(frame);"""

EVERYWHERE = [(width, theme) for width in WIDTHS for theme in THEMES]


def violations(pages: dict[str, str], seen: dict[str, list[tuple[int, str]]], folder: Path) -> dict:
    """Return the rules that are broken, by page, width and theme; a rule that breaks must be found on the way."""
    pale = '<img src="data:,"><p id="pale">pale</p><style>#pale{color:#777;background:#888}</style><footer>'
    bad = {"bad": pages["subspace"].replace("<footer>", pale)}
    wanted = [
        {"page": page, "width": width, "theme": theme, "axe": True}
        for page, places in (*seen.items(), ("bad", [(768, "light")]))
        for width, theme in places
    ]
    *found, control = looked_at({**pages, **bad}, wanted, folder)
    assert len(found) == sum(map(len, seen.values()))
    assert {one.partition(":")[0] for one in control["rules"]["violations"]} >= {"image-alt", "color-contrast"}
    assert min(one["rules"]["passed"] for one in found) > 20
    for one in found:
        assert one["found"]["paper"] == {"light": "rgb(246, 245, 241)", "dark": "rgb(19, 22, 27)"}[one["theme"]]
    return {
        (one["page"], one["width"], one["theme"]): one["rules"]["violations"]
        for one in found
        if one["rules"]["violations"]
    }


@needs_axe
def test_accessibility_rules_hold_at_three_widths_in_both_themes(pages, tmp_path):
    seen = {
        "cloud": EVERYWHERE,
        "sections": EVERYWHERE[1::4],
        "not private": EVERYWHERE[:1],
    }
    assert violations(pages, seen, tmp_path) == {}


def test_the_policy_of_the_page_stops_scripts_and_requests(pages, tmp_path):
    planted = '<script>hacked=true</script><img src="http://127.0.0.1:1/x.png" alt=""><footer>'
    (tmp_path / "guarded.html").write_text(pages["subspace"].replace("<footer>", planted), encoding="utf-8")
    open_to_all = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", pages["subspace"])
    unguarded = {"page": open_to_all.replace("<footer>", "<script>hacked=true</script><footer>")}
    (control,) = looked_at(unguarded, [{"page": "page", "width": 390}], tmp_path)
    assert control["found"]["hacked"]
    with browser.served(tmp_path) as server:
        ran, console = browser.looked_at(server, tmp_path / "guarded", GUARDED)
    assert not ran
    assert sum("Content Security Policy" in line for line in console) >= 2


def test_a_page_with_hostile_names_runs_and_loads_nothing(pages, tmp_path):
    (found,) = looked_at(pages, [{"page": "sections", "width": 390}], tmp_path)
    assert not found["found"]["hacked"]
    assert found["found"]["resources"] == []
