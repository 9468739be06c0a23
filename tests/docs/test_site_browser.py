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
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm install --no-save --no-package-lock axe-core"),
]
SCRIPT = Path(__file__).with_name("site_frames.js").read_text(encoding="utf-8")
PAGES = ("/", "/tutorials/first_release/", "/reference/api/estimators/", "/gallery/")
WIDTHS = (400, 1280, 1920)
SCHEMES = {"light": "default", "dark": "slate"}


class Server(SimpleHTTPRequestHandler):
    """Serves a built site, and the page of frames at /frames."""

    frames = ""

    def do_GET(self) -> None:
        if self.path != "/frames":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.frames.encode())
        return None

    def log_message(self, *_) -> None:
        pass


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory):
    """Return what opens pages in frames, and returns what a browser finds in each."""
    pytest.importorskip("zensical", reason="needs the docs extra")
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools" / "build_site.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = tmp_path_factory.mktemp("site")
    site = tool.build(folder / "built")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def look(wanted: list[dict], theme: str) -> list[dict]:
        texts = {"axe": AXE.read_text(encoding="utf-8"), "wanted": json.dumps(wanted)}
        held = "".join(f'<pre hidden id="{name}">{html.escape(text)}</pre>' for name, text in texts.items())
        Server.frames = (
            f'<!DOCTYPE html><meta charset="utf-8"><body>{held}<pre id="found"></pre><script>{SCRIPT}</script>'
        )
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        command += [f"--user-data-dir={folder / theme}", "--window-size=2000,1000", "--virtual-time-budget=10000000"]
        command += [f"--blink-settings=preferredColorScheme={['dark', 'light'].index(theme)}", "--dump-dom"]
        address = f"http://127.0.0.1:{server.server_address[1]}/frames"
        done = subprocess.run([*command, address], capture_output=True, text=True, check=True)
        return json.loads(html.unescape(re.search('<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL).group(1)))

    yield look
    server.shutdown()
    server.server_close()


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


def test_four_pages_follow_the_rules_of_accessibility(looked_at):
    check(looked_at([{"page": page, "width": 400} for page in PAGES], "light"), "light")
    check(looked_at([{"page": page, "width": 1280} for page in PAGES], "dark"), "dark")


@pytest.mark.heavy
@pytest.mark.parametrize("theme", SCHEMES)
def test_they_do_at_every_width_in_both_themes(looked_at, theme):
    check(looked_at([{"page": page, "width": width} for page in PAGES for width in WIDTHS], theme), theme)


def test_control_a_broken_rule_is_found(looked_at):
    planted = '<img src="data:,"><p style="color:#777;background:#888">pale</p>'
    (found,) = looked_at([{"page": "/gallery/", "width": 400, "planted": planted}], "light")
    assert {one.partition(":")[0] for one in found["violations"]} >= {"image-alt", "color-contrast"}
