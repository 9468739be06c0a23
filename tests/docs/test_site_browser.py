"""The site in a real browser: rules of accessibility, three widths, both themes; nothing loads from another host."""

import importlib.util
import json
from pathlib import Path

import pytest

import browser
from browser import AXE, needs_axe, needs_chromium

ROOT = Path(__file__).parents[2]
pytestmark = needs_chromium
FRAMES, SEARCH = (
    Path(__file__).with_name(f"site_{name}.js").read_text(encoding="utf-8") for name in ("frames", "search")
)
PAGES = ("/", "/tutorials/first_release/", "/reference/api/estimators/", "/gallery/")
WIDTHS = (400, 1280, 1920)
SCHEMES = {"light": "default", "dark": "slate"}


TITLES = {
    "Which mechanism should I use?": "/explanation/choosing/",
    "How the privacy budget is split": "/explanation/privacy_budget/",
    "What exact numerics means": "/explanation/exact_numerics/",
    "Privacy units: several rows per person": "/explanation/privacy_units/",
    "Assumptions and known limits": "/explanation/assumptions/",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return what serves the built site."""
    pytest.importorskip("zensical", reason="needs the docs extra")
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    with browser.served(tool.build(tmp_path_factory.mktemp("site") / "built")) as server:
        yield server


@pytest.fixture
def looked_at(site, tmp_path):
    """Return what opens pages in frames, and returns what a browser finds in each."""

    def look(wanted: list[dict], theme: str) -> list[dict]:
        scheme = f"--blink-settings=preferredColorScheme={['dark', 'light'].index(theme)}"
        texts = {"axe": AXE.read_text(encoding="utf-8"), "wanted": json.dumps(wanted)}
        return browser.looked_at(site, tmp_path / theme, FRAMES, "--window-size=2000,1000", scheme, **texts)[0]

    return look


def check(found: list[dict], theme: str) -> None:
    assert {(one["page"], one["width"]): one["violations"] for one in found if one["violations"]} == {}
    for one in found:
        where = (one["page"], one["width"])
        assert one["passed"] > 20, where
        assert one["resources"] == [], where
        assert one["scheme"] == SCHEMES[theme], where
        assert one["wide"] == 0, where  # no page scrolls sideways
        assert abs(one["header"]) < 1, where  # the header is as wide as the page
        # Labels of figures have 9 points at 200 pixels an inch: legible from 9 pixels on.
        assert all(9 / 72 * 200 * small >= 9 for small in one["small"]), where


@needs_axe
def test_four_pages_follow_the_rules_of_accessibility(looked_at):
    check(looked_at([{"page": page, "width": 400} for page in PAGES], "light"), "light")
    check(looked_at([{"page": page, "width": 1280} for page in PAGES], "dark"), "dark")


@needs_axe
@pytest.mark.heavy
@pytest.mark.parametrize("theme", SCHEMES)
def test_they_do_at_every_width_in_both_themes(looked_at, theme):
    check(looked_at([{"page": page, "width": width} for page in PAGES for width in WIDTHS], theme), theme)


@needs_axe
def test_control_a_broken_rule_is_found(looked_at):
    planted = '<img src="data:,"><p style="color:#777;background:#888">pale</p>'
    (found,) = looked_at([{"page": "/gallery/", "width": 400, "planted": planted}], "light")
    assert {one.partition(":")[0] for one in found["violations"]} >= {"image-alt", "color-contrast"}


def test_the_search_finds_each_page_first_by_the_words_of_its_title(site, tmp_path):
    found, _ = browser.looked_at(site, tmp_path, SEARCH, wanted=json.dumps([*TITLES, "zzzqqq"]))
    assert {title: found[title][0][0] for title in TITLES} == TITLES
    assert all(found[title][0][1].startswith(title) for title in TITLES)
    assert found["zzzqqq"] == []
