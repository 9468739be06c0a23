"""A PostgreSQL server of the tests' own, in a temporary folder, on a socket without a network address."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    """Return the folder with PostgreSQL's server programs, or None where there are none."""
    asked = shutil.which("pg_config")
    if asked is not None:
        answer = subprocess.run([asked, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        if answer and Path(answer, "initdb").exists():
            return Path(answer)
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@contextmanager
def server() -> Iterator[Path]:
    """Run a server, and give the folder of its socket; its user is ``tester``."""
    programs = binaries()
    assert programs is not None
    # The server refuses root, who may become another user.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
        data, socket = folder / "data", folder / "socket"

        def run(*command: object) -> None:
            subprocess.run(list(map(str, command)), user=user, cwd=folder, check=True, capture_output=True)

        run("mkdir", socket)
        run(programs / "initdb", "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses='' -c unix_socket_directories='{socket}' -c fsync=off"
        run(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-o", options, "-w", "start")
        try:
            yield socket
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
