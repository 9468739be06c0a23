"""Disks that fail: one call of a run ends in an error, or every call from one on, at each point of the run.

`strace` makes the call fail that is the `TURN`-th of its kind in a process. Every run is a process of its own, and
first makes as many idle calls as bring the one that shall fail to its turn. So one tracer does for thousands of runs,
and what is loaded once is not loaded again.
"""

import contextlib
import ctypes
import json
import os
import re
import socket
import subprocess
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from helpers import fork, start_child
from power_cuts import CALLS

TURN = 1000  # more calls of one kind than any run makes
_NO_FILE, _NO_NAME = 10**6, "/no/such/folder/file"
IDLE = {
    "write": lambda: os.write(_NO_FILE, b""),
    "pwrite64": lambda: os.pwrite(_NO_FILE, b"", 0),
    "writev": lambda: os.writev(_NO_FILE, [b""]),
    "fsync": lambda: os.fsync(_NO_FILE),
    "fdatasync": lambda: os.fdatasync(_NO_FILE),
    "openat": lambda: os.open(_NO_NAME, os.O_RDONLY),
    "ftruncate": lambda: os.ftruncate(_NO_FILE, 0),
    "mkdir": lambda: os.mkdir(_NO_NAME),
    "rename": lambda: os.rename(_NO_NAME, _NO_NAME),
    "unlink": lambda: os.unlink(_NO_NAME),
    "link": lambda: os.link(_NO_NAME, _NO_NAME),
    "read": lambda: os.read(_NO_FILE, 0),
    "pread64": lambda: os.pread(_NO_FILE, 1, 0),
}
"""The calls that can fail, and one of each that does nothing."""
ALLOW_TRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)  # where the system lets no process trace but its descendants


@dataclass(frozen=True)
class Fault:
    """The call of a run that fails, by its number from 1 on; None is no fault.

    Of a run without it: whether the call is about a folder, and how much had been told before.
    """

    run: str
    call: str | None = None
    number: int = 0
    of_folder: bool = False
    told: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of a run: what it told, in order, the folder it worked in, and its calls as `strace` wrote them."""

    fault: Fault
    told: list[str]
    folder: Path
    trace: Path

    @property
    def calls(self):
        """Its calls about files of its folder, as the fields of a fault."""
        ours, counts, found = "".join(f"\\x{byte:02x}" for byte in bytes(self.folder)), Counter(), []
        folders = {ours}
        for line in self.trace.read_text().splitlines():
            call = line.partition("(")[0]
            counts[call] += 1
            if call in IDLE and ours in line:
                places = re.findall(rf'[<"]({re.escape(ours)}[^>"]*)', line)
                if call == "mkdir" or (call == "rename" and places[0] in folders):
                    folders.add(places[-1])
                found.append((call, counts[call], places[0] in folders, counts["sendto"]))
        assert max(counts.values()) < TURN
        return found

    @property
    def failed(self):
        """How many calls were made to fail."""
        return self.trace.read_text().count("(INJECTED)")


def outcomes(runs, faults, folder, error="EIO", lasting=False):
    """Run functions of a folder and a callable that takes what they tell, each with its fault; return the outcomes."""
    folder.mkdir()
    go, waiting = socket.socketpair()
    child = start_child(lambda: _serve(runs, faults, folder, waiting))
    waiting.close()
    when = f":error={error}:when={TURN}{'+' if lasting else ''}"
    injected = [word for call in IDLE for word in ("-e", f"inject={call}{when}")] if error else []
    traced = f"trace={CALLS},{','.join(IDLE)}"
    command = ["strace", "-ff", "-y", "-xx", "-s", "1000000", "-e", traced, *injected]
    tracer = subprocess.Popen(
        [*command, "-o", folder / "trace", "-p", str(child.pid)], stderr=subprocess.PIPE, text=True
    )
    assert "attached" in tracer.stderr.readline()
    go.send(b"go")
    found = child.result()
    tracer.communicate()
    go.close()
    return [
        Outcome(fault, told, folder / str(place), folder / f"trace.{pid}")
        for place, (fault, (pid, told)) in enumerate(zip(faults, found, strict=True))
    ]


def _serve(runs, faults, folder, waiting):
    ctypes.CDLL(None).prctl(ALLOW_TRACER, ANY, 0, 0, 0)
    waiting.recv(2)
    found = []
    for place, fault in enumerate(faults):
        own = folder / str(place)
        own.mkdir()
        here, there = socket.socketpair()
        pid = fork()
        if not pid:
            here.close()
            _run(runs[fault.run], fault, own, there)
        there.close()
        found.append((pid, _received(here)))
        os.waitpid(pid, 0)
    return found


def _received(here):
    content = b""
    while part := here.recv(2**16):
        content += part
    here.close()
    return [json.loads(line) for line in content.splitlines()]


def _run(run, fault, folder, channel):
    """Run with a fault, and leave the process. What is told goes by a call that never fails."""

    def tell(text):
        channel.send(json.dumps(text).encode() + b"\n")

    try:
        for _ in range(TURN - fault.number if fault.call else 0):
            with contextlib.suppress(OSError):
                IDLE[fault.call]()
        run(folder, tell)
    except BaseException:
        tell(f"crash: {traceback.format_exc()}")
    finally:
        os._exit(0)


def every_fault(runs, folder):
    """Return each fault that these runs can meet: every call about a file of theirs, by its number."""
    whole = outcomes(runs, [Fault(run) for run in runs], folder, error=None)
    for outcome in whole:
        assert not [text for text in outcome.told if re.match("crash|refused", text)], outcome.told
    return [Fault(outcome.fault.run, *call) for outcome in whole for call in outcome.calls]
