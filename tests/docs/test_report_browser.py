"""The report in a real browser: nothing overflows on a phone, nothing loads, both themes and the keyboard work."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from eigenveil import Guarantee, PrivacyLedger, RowBound
from eigenveil.origin import RegressionRequest
from eigenveil.report import render_report
from made_releases import drawn

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

# The report stands in a frame of the wanted width: a window of headless Chromium is never narrower than 500 pixels.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><body><iframe width="{width}" height="800" srcdoc="{page}"></iframe>
<pre id="found"></pre><script>
addEventListener("load", () => {{
  const view = document.querySelector("iframe").contentWindow, page = view.document, root = page.documentElement;
  const charts = [...page.querySelectorAll("svg")];
  const outside = charts.flatMap(chart => [...chart.querySelectorAll("text")].filter(text => {{
    const box = text.getBBox(), frame = chart.viewBox.baseVal;
    return box.x < -0.5 || box.x + box.width > frame.width + 0.5 || box.y + box.height > frame.height + 0.5;
  }}).map(text => text.textContent));
  const zoom = chart => chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  const sizes = charts.flatMap(chart => [...chart.querySelectorAll("text")].map(text =>
    parseFloat(view.getComputedStyle(text).fontSize) * zoom(chart)));
  const wider = [...page.querySelectorAll("body *")].filter(e => !e.closest(".scroll table, .skip, svg")
    && e.getBoundingClientRect().right > view.innerWidth + 0.5).map(e => e.tagName + "." + e.className);
  const scrollWidth = root.scrollWidth;
  const colour = () => view.getComputedStyle(page.body).backgroundColor;
  const button = page.getElementById("theme"), before = colour(), label = button.textContent;
  button.focus();
  const focused = page.activeElement === button;
  button.click();
  const after = colour(), labelAfter = button.textContent;
  page.querySelectorAll("details").forEach(d => {{ d.open = true; }});
  document.getElementById("found").textContent = JSON.stringify({{
    width: view.innerWidth, scrollWidth, outside, wider, smallest: Math.min(...sizes),
    resources: view.performance.getEntriesByType("resource").map(e => e.name), charts: charts.length,
    before, after, label, labelAfter, focused, visible: button.offsetHeight, openedWidth: root.scrollWidth,
    tall: [...page.querySelectorAll("summary, button")].map(e => e.offsetHeight), hacked: view.hacked === true,
  }});
}});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    generator = np.random.default_rng(2)
    names = ["age", "a name of a feature that does not fit in its column", "<script>hacked=true</script>", 17 * "W"]
    names += [f"feature_{i}" for i in range(26)]
    rows = generator.normal(size=(4000, 2)) @ generator.normal(size=(2, 30)) + 0.3 * generator.normal(size=(4000, 30))
    ledger = PrivacyLedger.create(
        tmp_path_factory.mktemp("ledger") / "study.ledger", epsilon=5.0, delta=1e-5, data_set="study"
    )
    ledger.spend(Guarantee(1.0), "an earlier release of this study")
    # A regression has every section there is.
    request = RegressionRequest(29)
    bound = RowBound(20.0)
    release = drawn("gaussian", rows, epsilon=2.0, bound=bound, names=names, request=request, ledger=ledger)
    return render_report(release, ledger=ledger, title="A long title of a report on a study of many features")


def in_chromium(path, profile, *options: str) -> tuple[str, str]:
    """Return the document after its scripts ran, and what the console said."""
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--enable-logging=stderr", "--disable-background-networking", "--no-first-run", *options]
    done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def measured(page: str, width: int, folder, *options: str) -> dict:
    path = folder / f"frame{width}.html"
    path.write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
    document, console = in_chromium(path, folder / "profile", *options)
    assert console == ""
    return json.loads(html.unescape(re.search('<pre id="found">(.*?)</pre>', document, re.DOTALL).group(1)))


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (1200, "dark")], ids=["phone in light", "desktop in dark"]
)
def test_layout_themes_and_silence(page, width, scheme, tmp_path):
    # 0 is dark and 1 is light in Chromium's own numbering.
    found = measured(page, width, tmp_path, f"--blink-settings=preferredColorScheme={int(scheme == 'light')}")
    assert found["width"] == width
    assert found["scrollWidth"] <= width
    assert found["openedWidth"] <= width
    assert found["wider"] == []
    assert found["outside"] == []
    assert found["smallest"] >= 9.9
    assert found["resources"] == []
    assert not found["hacked"]
    assert found["charts"] == 5 + 6  # beliefs, scree, shares, correlations, loadings, and six components
    light, dark = "rgb(246, 245, 241)", "rgb(19, 22, 27)"
    assert (found["before"], found["after"]) == ((light, dark) if scheme == "light" else (dark, light))
    assert (found["label"], found["labelAfter"]) == (
        ("Dark theme", "Light theme") if scheme == "light" else ("Light theme", "Dark theme")
    )
    assert found["focused"]
    assert found["visible"] >= 44
    assert min(found["tall"]) >= 24


def test_control_an_overflow_and_a_script_are_noticed_and_the_policy_stops_them(page, tmp_path):
    wide = f"<table><tr><td>{300 * 'x'}</td></tr></table>"
    planted = page.replace("<footer>", f'<script>hacked=true</script><img src="file:///x.png" alt="">{wide}<footer>')
    unguarded = re.sub(
        '<meta http-equiv="Content-Security-Policy"[^>]*>', "", planted.replace('src="file:///x.png"', "")
    )
    found = measured(unguarded, 390, tmp_path)
    assert found["scrollWidth"] > 390
    assert found["wider"]
    assert found["hacked"]
    # With the policy of the page in place, the same script and a request do not run, and the console says so.
    path = tmp_path / "guarded.html"
    path.write_text(planted, encoding="utf-8")
    _, console = in_chromium(path, tmp_path / "profile")
    assert console.count("Content Security Policy") >= 2
