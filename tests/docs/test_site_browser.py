"""The site in a real browser: rules of accessibility, three widths, both themes; nothing loads from another host."""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(os.environ.get("EIGENVEIL_AXE", ROOT / "node_modules/axe-core/axe.min.js"))
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="needs axe-core: npm install --no-save --no-package-lock axe-core"
)
FRAMES, SEARCH = (
    Path(__file__).with_name(f"site_{name}.js").read_text(encoding="utf-8") for name in ("frames", "search")
)
COMMAND = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
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


class Server(SimpleHTTPRequestHandler):
    """Serves a built site, and at /frames the page that looks at it; takes what that page posts."""

    frames, found, posted = "", {}, threading.Event()

    def do_GET(self) -> None:
        if self.path != "/frames":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.frames.encode())
        return None

    def do_POST(self) -> None:
        Server.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.posted.set()

    def log_message(self, *_) -> None:
        pass


def frames(script: str, **texts: str) -> str:
    held = "".join(f'<pre hidden id="{name}">{html.escape(text)}</pre>' for name, text in texts.items())
    return f'<!DOCTYPE html><meta charset="utf-8"><body>{held}<pre id="found"></pre><script>{script}</script>'


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Return where the built site is served."""
    pytest.importorskip("zensical", reason="needs the docs extra")
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    site = tool.build(tmp_path_factory.mktemp("site") / "built")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def looked_at(address, tmp_path):
    """Return what opens pages in frames, and returns what a browser finds in each."""

    def look(wanted: list[dict], theme: str) -> list[dict]:
        Server.frames = frames(FRAMES, axe=AXE.read_text(encoding="utf-8"), wanted=json.dumps(wanted))
        scheme = f"--blink-settings=preferredColorScheme={['dark', 'light'].index(theme)}"
        options = [f"--user-data-dir={tmp_path / theme}", "--window-size=2000,1000", scheme]
        # What is awaited is done before the document is written out.
        command = [*COMMAND, *options, "--virtual-time-budget=10000000", "--dump-dom", f"{address}/frames"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(html.unescape(re.search('<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL).group(1)))

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


def test_the_search_finds_each_page_first_by_the_words_of_its_title(address, tmp_path):
    Server.frames = frames(SEARCH, wanted=json.dumps([*TITLES, "zzzqqq"]))
    # A worker searches, for which virtual time does not wait: the page posts what it found.
    with subprocess.Popen(
        [*COMMAND, f"--user-data-dir={tmp_path}", "--remote-debugging-port=0", f"{address}/frames"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        came = Server.posted.wait(300)
        browser.terminate()
    assert came
    assert {title: Server.found[title][0][0] for title in TITLES} == TITLES
    assert all(Server.found[title][0][1].startswith(title) for title in TITLES)
    assert Server.found["zzzqqq"] == []
