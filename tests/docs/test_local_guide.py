"""docs/how_to/collect_from_devices.md, run as written: devices, server and analyst, the server killed midway."""

import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import load_release
from eigenveil.cli import app
from eigenveil.local import Aggregate, LocalProtocol, aggregate, encode
from eigenveil.local.protocol import to_line

GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "collect_from_devices.md"
DEVICES = 150


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def start(folder: Path, *command: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> str:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


def run_command(line: str) -> str:
    """Run an `eigenveil local ...` command of the guide, in the current folder."""
    words = shlex.split(line)
    assert words[:2] == ["eigenveil", "local"]
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, result.exception
    return result.output


def wait_for_reports(folder: Path, count: int, *running: subprocess.Popen) -> None:
    """Wait until `count` reports are stored; a process that died instead fails the test."""
    while True:
        if any(process.poll() is not None for process in running):
            for process in running:  # what still runs would never end, and the test would hang instead of failing
                process.kill()
            pytest.fail(str([process.communicate() for process in running]))
        stored = folder / "reports.txt"
        if (folder / "address.txt").exists() and stored.exists() and len(stored.read_bytes().split()) >= count:
            return
        time.sleep(0.02)


@pytest.mark.heavy
def test_the_guide_runs_with_a_server_that_is_killed_midway(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        (tmp_path / name[1]).write_text(block, encoding="utf-8")
    params, merging = (block.strip() for block in blocks("bash"))
    shown = run_command(params)
    assert "4-DP (pure)" in shown

    server = start(tmp_path, "server.py")
    devices = start(tmp_path, "devices.py", str(DEVICES))
    for goal in (DEVICES // 4, DEVICES // 2):
        wait_for_reports(tmp_path, goal, server, devices)
        server.send_signal(signal.SIGKILL)
        server.communicate()
        server = start(tmp_path, "server.py")
    finish(devices)
    server.kill()
    server.communicate()

    printed = finish(start(tmp_path, "analyst.py"))
    assert printed.startswith(f"{DEVICES} reports")
    # What the files hold is the exact sum of what the devices sent: nothing lost, nothing counted twice.
    sent = [bytes.fromhex(line) for line in (tmp_path / "sent.log").read_text().split()]
    assert len(sent) == DEVICES
    protocol = LocalProtocol.load("protocol.json")
    stored, whole = aggregate(protocol, "reports.txt"), aggregate(protocol, sent)
    assert stored.n_reports == DEVICES
    assert (stored.totals.sums == whole.totals.sums).all()
    assert stored.totals.ones == whole.totals.ones
    assert set(stored.refused) <= {"repeated"}
    release = load_release(tmp_path / "release.npz")
    assert release.guarantee.epsilon == 4.0
    assert release.guarantee.is_private
    assert np.allclose(release.covariance, whole.release().covariance)

    # A file with the same reports again and a few new ones, by the command line of the guide.
    more = [*sent[:10], *(encode(protocol, np.ones(8)) for _ in range(5))]
    (tmp_path / "more-reports.txt").write_bytes(b"".join(map(to_line, more)))
    for command in merging.splitlines():
        run_command(command)
    found = Aggregate.load("tuesday.npz")
    assert found.n_reports == DEVICES + 5
    assert found.refused["repeated"] >= 10


def test_the_plan_of_the_guide_runs(capsys):
    plan = next(block for block in blocks("python") if block.startswith("# plan.py"))
    exec(plan, {})  # in this process: it needs no other, and scikit-learn takes seconds to start
    assert capsys.readouterr().out.strip() == "True"
