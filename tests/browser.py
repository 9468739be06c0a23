"""Pages in a real browser: a page posts what its script finds, and a browser that does not answer fails the test.

`--dump-dom` with virtual time is not used: Chromium now and then stops there for good.
"""

import html
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(os.environ.get("EIGENVEIL_AXE", Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"))
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="needs axe-core: npm install --no-save --no-package-lock axe-core"
)
PATIENCE = 300
"""Seconds after which a browser that has not answered is taken for dead; a page takes a few."""
_COMMAND = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_COMMAND += ["--no-first-run", "--enable-logging=stderr", "--remote-debugging-port=0"]
_REPORTING = """const report = found => fetch("/found", { method: "POST", body: JSON.stringify(found) });
addEventListener("error", event => report({ failed: String(event.message) }));
addEventListener("unhandledrejection", event => report({ failed: String(event.reason) }));
"""


class _Handler(SimpleHTTPRequestHandler):
    """Serves a folder, and at /page the page of the test; takes what that page posts."""

    def do_GET(self) -> None:
        if self.path != "/page":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.page.encode())
        return None

    def do_POST(self) -> None:
        self.server.posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[ThreadingHTTPServer]:
    """Serve a folder on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def looked_at(
    server: ThreadingHTTPServer, profile: Path, script: str, *options: str, **texts: str
) -> tuple[Any, list[str]]:
    """Return what a script posts by `report(found)` from a page with these texts, and what the console said."""
    held = "".join(f'<pre hidden id="{name}">{html.escape(text)}</pre>' for name, text in texts.items())
    head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
    server.page = f"{head}<body>{held}<script>{_REPORTING}{script}</script>"
    server.posted = queue.Queue()
    address = f"http://127.0.0.1:{server.server_address[1]}/page"
    profile.mkdir(parents=True, exist_ok=True)
    log = profile / "stderr"
    with log.open("wb") as said:
        command = [*_COMMAND, f"--user-data-dir={profile}", *options, address]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True)
        try:
            found = server.posted.get(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail(f"The browser did not answer: {log.read_text(errors='replace')[-2000:]}")
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
    assert not (isinstance(found, dict) and "failed" in found), found
    return found, [line for line in log.read_text(errors="replace").splitlines() if "CONSOLE" in line]
