"""`Coordinator`: a small reference server that collects contributions over HTTP. TLS is left to the operator.

It holds no secret. Its state is a folder with one file for every site that contributed, written whole and synced before
it is acknowledged, and the release. Killed at any moment and started again, it goes on where it was.
"""

import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import ReleaseFileError
from ..files import read_bounded, sync_folder, whole_file
from .combining import combine
from .rounds import Round
from .terms import FederationError
from .wire import ContributionError, Objection, contribution_bytes, opened

RELEASE = "release.npz"
_CODES = {
    Objection.MALFORMED: 400,
    Objection.FOREIGN: 403,
    Objection.FORGED: 403,
    Objection.REPEATED: 409,
    Objection.LATE: 410,
}
_STALLED_SECONDS, _WHOLE_REQUEST_SECONDS, _MOST_AT_ONCE = 30, 600, 64
_MOST_FORGOTTEN, _LONGEST_NUMBER, _LARGEST = 2**20, 20, 2**31


class Coordinator:
    """Collects the contributions to one round in a folder, and writes the release once when all are there.

    Parameters
    ----------
    agreed : Round
        Closed.
    folder : path
        Made if it is not there, resumed if it is.
    """

    def __init__(self, agreed: Round, folder: str | PathLike[str]) -> None:
        self.agreed, self.folder = agreed, Path(folder)
        self.longest = contribution_bytes(agreed)
        self.failure: str | None = None
        self._one_at_a_time = threading.Lock()
        with self._stored():
            self.folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self.folder)
        kept = self.folder / "round.json"
        if not kept.exists():
            agreed.save(kept)
        elif Round.load(kept).fingerprint != agreed.fingerprint:
            raise FederationError(f"The folder {folder} was begun for another round; name another one.")
        self._finish()

    def add(self, content: bytes) -> None:
        """Store a contribution, durably, or raise `ContributionError`; the same bytes again are no second one."""
        with self._one_at_a_time:
            place = opened(self.agreed, content).place
            file = self._file(place)
            with self._stored():
                before = file.read_bytes() if file.exists() else None
            if before not in (None, content):
                raise ContributionError(Objection.REPEATED, self.agreed.sites[place])
            if before is None and self.agreed.terms.is_over:
                raise ContributionError(Objection.LATE, self.agreed.sites[place])
            # Also where it is there: it may not have been acknowledged because the disk was not sure of it.
            with self._stored(), whole_file(file) as stored:
                stored.write(content)
            self._finish()

    @contextmanager
    def _stored(self) -> Iterator[None]:
        """Tell what the disk refuses in one sentence."""
        try:
            yield
        except OSError as error:
            raise FederationError(f"The folder {self.folder} cannot be used: {error.strerror}.") from error

    def _file(self, place: int) -> Path:
        return self.folder / f"{place:04d}.contribution"

    @property
    def release(self) -> Path:
        """Where the release is, or will be."""
        return self.folder / RELEASE

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that have not contributed."""
        return tuple(site for place, site in enumerate(self.agreed.sites) if not self._file(place).exists())

    def _finish(self) -> None:
        """Write the release where all contributions are there, once."""
        if self.missing or self.release.exists():
            return
        try:
            combine(self.agreed, map(self._file, range(len(self.agreed.members)))).save(self.release)
        except FederationError as error:  # nothing that could be put right by waiting
            self.failure = str(error)

    @property
    def status(self) -> dict[str, Any]:
        """Public facts: who is missing, and whether the release is there."""
        return {
            "fingerprint": self.agreed.fingerprint,
            "missing": list(self.missing),
            "over": self.agreed.terms.is_over,
            "released": self.release.exists(),
            "failure": self.failure,
        }

    def server(self, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
        """Return an HTTP server: `GET /round`, `/status`, `/release` and `POST /contributions`."""
        return _Server((host, port), type("Handler", (_Handler,), {"coordinator": self}))


class _Server(ThreadingHTTPServer):
    """One that answers so many at once, each within so many seconds, and hangs up on all others.

    A client that sends a byte from time to time is never silent: without an end to the whole request it would hold its
    thread for ever.
    """

    def __init__(self, *args: Any, most: int = _MOST_AT_ONCE, seconds: float = _WHOLE_REQUEST_SECONDS) -> None:
        super().__init__(*args)
        self._free, self._seconds = threading.BoundedSemaphore(most), seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hang up where too many are here already."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Hang up on a request that takes too long."""
        over = threading.Timer(self._seconds, _hang_up, (request,))
        over.daemon = True
        over.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            over.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _hang_up(request: Any) -> None:
    with suppress(OSError):  # it was closed just now
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    coordinator: Coordinator
    timeout = _STALLED_SECONDS

    def do_GET(self) -> None:
        """Serve what is public."""
        if self.path == "/round":
            self._answer(200, self.coordinator.agreed.to_json().encode())
        elif self.path == "/status":
            self._answer(200, json.dumps(self.coordinator.status).encode())
        elif self.path == "/release" and self.coordinator.release.exists():
            self._answer(200, self.coordinator.release.read_bytes(), "application/octet-stream")
        else:
            self._answer(404, b"{}")

    def do_POST(self) -> None:
        """Take a contribution; nothing longer than one is kept."""
        told = self.headers.get("Content-Length", "")
        length = int(told) if told.isdecimal() and len(told) < _LONGEST_NUMBER else None
        if self.path != "/contributions" or length is None or length > self.coordinator.longest:
            self.close_connection = True
            # Some of it is read and forgotten: a client that is cut off while it sends would not see the answer.
            self.rfile.read(min(length or 0, _MOST_FORGOTTEN))
            self._refuse(413 if self.path == "/contributions" else 404, Objection.MALFORMED.value)
            return
        try:
            self.coordinator.add(self.rfile.read(length))
        except ContributionError as error:
            self._refuse(_CODES[error.objection], error.objection.value)
        except (OSError, FederationError, ReleaseFileError):  # a client that stalled, or a disk that is full
            self._refuse(503, "not stored")
        else:
            self._answer(200, b'{"stored": true}')

    def _refuse(self, code: int, reason: str) -> None:
        self._answer(code, json.dumps({"stored": False, "refused": reason}).encode())

    def _answer(self, code: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing: an operator's own server logs."""


def send(contribution: bytes | str | PathLike[str], address: str) -> None:
    """Send a contribution to a coordinator; sent again it is the same one.

    Parameters
    ----------
    contribution : bytes or path
    address : str
        Of the coordinator, such as ``http://127.0.0.1:8000``; in production behind TLS.
    """
    if not isinstance(contribution, bytes):
        contribution = read_bounded(contribution, "The contribution", FederationError, _LARGEST)
    request = urllib.request.Request(f"{address.rstrip('/')}/contributions", data=contribution, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=_STALLED_SECONDS):
            return
    except urllib.error.HTTPError as error:
        with error:
            answer = error.read(1000).decode(errors="replace")
        reason = next((one for one in Objection if f'"{one.value}"' in answer), None)
        told = "it could not be stored; send it again" if reason is None else f"it is {reason.value}"
        raise FederationError(f"The coordinator refused the contribution: {told}.") from None
    except (OSError, ValueError) as error:
        raise FederationError(f"There is no coordinator at {address}, or not yet; send it again.") from error
