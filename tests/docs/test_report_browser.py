"""The report in a real browser: three widths, both themes, rules of accessibility; nothing overflows, nothing loads."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import browser
from browser import AXE, needs_axe, needs_chromium
from eigenveil import Guarantee, PrivacyLedger, PrivatePCA, RowBound, Schema, score_map
from eigenveil.releases.origin import ComponentsRequest, RegressionRequest
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


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("ledgers")
    wide = {"bound": RowBound(60.0), "names": names_of(200), "request": ComponentsRequest(7)}
    made = {
        "200 features": drawn("gaussian", rows_of(200, 9000), epsilon=8.0, **wide),
        "subspace": drawn("ppca", n_components=2),
        "not private": drawn("none", n_components=2),
    }
    pages = {name: render_report(release) for name, release in made.items()}
    return {"cloud": with_cloud(folder), "sections": with_every_section(folder), **pages}


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
FLAWS = ("outside", "over", "wider", "cut", "cells", "resources", "small")


def flaws(one: dict) -> dict[str, list[str]]:
    """Return what is wrong in a frame, folded and opened: labels cut or over each other, columns out of sight."""
    found = {name: one["found"][name] + one["opened"][name] for name in FLAWS}
    found["width"] = (
        [] if max(one["found"]["scrollWidth"], one["opened"]["scrollWidth"]) <= one["width"] else ["scrolls"]
    )
    found["letters"] = [] if one["found"]["smallest"] >= 9.9 else [f"{one['found']['smallest']:.1f} px"]
    found["script"] = ["ran"] if one["found"]["hacked"] else []
    return {name: told for name, told in found.items() if told}


@pytest.mark.heavy
def test_nothing_is_cut_at_any_width_and_nothing_is_loaded(pages, tmp_path):
    wanted = [{"page": page, "width": width} for page in pages for width in WIDTHS]
    found = looked_at(pages, wanted, tmp_path)
    assert len(found) == len(wanted)
    assert {(one["page"], one["width"]): flaws(one) for one in found if flaws(one)} == {}
    assert all(one["found"]["width"] == one["width"] for one in found)


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


def test_control_what_is_cut_or_out_of_sight_is_noticed_and_the_policy_stops_scripts(pages, tmp_path):
    page = pages["subspace"]
    wide = f'<div class="wide">{300 * "x"}</div><style>.wide{{width:900px}}</style>'
    texts = '<text x="390" y="20">beyond the edge</text><text x="5" y="20">one</text><text x="6" y="22">two</text>'
    chart = f'<svg class="chart" viewBox="0 0 400 40" aria-labelledby="a-title">{texts}</svg>'
    clipped = f'<p class="clipped">{90 * "y "}</p><style>.clipped{{overflow:hidden;white-space:nowrap}}</style>'
    planted = page.replace("<footer>", f'<script>hacked=true</script><img src="file:///x.png" alt="">{wide}<footer>')
    open_to_all = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    bad = {
        "wide": open_to_all.replace("<footer>", f"<script>hacked=true</script>{wide}<footer>"),
        "drawn": open_to_all.replace("<footer>", f"{chart}<footer>"),
        "clipped": open_to_all.replace("<footer>", f"{clipped}<footer>"),
    }
    wanted = [{"page": name, "width": 390} for name in bad]
    found = {one["page"]: set(flaws(one)) for one in looked_at(bad, wanted, tmp_path)}
    assert found["wide"] >= {"wider", "width", "script"}
    assert found["drawn"] == {"outside", "over"}
    assert found["clipped"] == {"cut"}
    # With the policy of the page in place, the same script and a request do not run, and the console says so.
    (tmp_path / "guarded.html").write_text(planted, encoding="utf-8")
    with browser.served(tmp_path) as server:
        _, console = browser.looked_at(server, tmp_path / "guarded", GUARDED)
    assert sum("Content Security Policy" in line for line in console) >= 2
