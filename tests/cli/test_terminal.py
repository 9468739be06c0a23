"""What a terminal is sent: nothing that steers it, whoever named files and columns; and signals to every command."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.cli import app, messages
from eigenveil.local import LocalProtocol
from helpers import command_result, invoked

# It clears the screen, in two ways; writes from right to left; rings.
STEERS = "a\x1b[2J\x9b2J\u202eb\x07"
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")


def steered(text):
    return [one for one in text if not one.isprintable() and one != "\n"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to work in with releases and a table whose names steer a terminal, and so do those of their columns."""
    frame = pd.DataFrame(np.random.default_rng(2).normal(size=(500, 3)), columns=[STEERS, f"{STEERS}2", "c"])
    with contextlib.chdir(tmp_path_factory.mktemp("terminal")):
        for name, model in (("pca", PrivatePCA(2, norm_bound=3.0)), ("covariance", PrivateCovariance(norm_bound=3.0))):
            model.set_params(epsilon=5.0).fit(frame).release_.save(f"{name}{STEERS}.npz")
        frame.to_parquet(f"table{STEERS}.parquet")
        yield


def said(*words):
    """Run a command as a terminal does; return all that it prints, and its exit code."""
    printed, code = io.StringIO(), 0
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        pytest.MonkeyPatch.context() as typed,
    ):
        typed.setattr(sys, "argv", ["eigenveil", *map(str, words)])
        try:
            messages.run(app)
        except SystemExit as end:
            code = end.code
    return printed.getvalue(), code


COMMANDS = {
    "show": (("show", f"pca{STEERS}.npz"), 0),
    "show --json": (("show", f"pca{STEERS}.npz", "--json"), 0),
    "matrix": (("show", f"covariance{STEERS}.npz"), 0),
    "compare": (("compare", f"pca{STEERS}.npz", f"pca{STEERS}.npz"), 0),
    "ridge": (("ridge", f"covariance{STEERS}.npz", "--target", "c"), 0),
    "export": (("export", f"pca{STEERS}.npz"), 0),
    "report": (("report", f"pca{STEERS}.npz"), 0),
    "draft": (("schema", f"table{STEERS}.parquet"), 0),
    "fit": (("pca", f"table{STEERS}.parquet", "-k", 1, "--epsilon", 1, "--norm-bound", 3, "-o", f"{STEERS}.npz"), 0),
    "ledger": (("ledger", "create", f"{STEERS}.ledger", "--epsilon", 1, "--data-set", "study"), 0),
    "no target": (("ridge", f"covariance{STEERS}.npz", "--target", STEERS * 2), 1),
    "no file": (("show", f"{STEERS}none.npz"), 1),
    "no release": (("show", f"table{STEERS}.parquet"), 1),
    "no range": (("covariance", f"table{STEERS}.parquet", "--epsilon", 1, "--bounds", "c=0:1", "-o", "out.npz"), 1),
    "no number": (("pca", "table", "--epsilon", STEERS), 2),
    "too much": (("show", f"pca{STEERS}.npz", STEERS), 2),
    "no command": ((STEERS,), 2),
    "no option": (("show", f"--{STEERS}"), 2),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_steers_the_terminal(folder, name):
    words, expected = COMMANDS[name]
    text, code = said(*words)
    assert code == expected, text
    assert text
    assert steered(text) == []


def test_names_stay_readable(folder):
    text, _ = said("show", f"pca{STEERS}.npz")
    assert r"a\x1b[2J\x9b2J\u202eb\x07" in text


def test_control_a_plain_console_is_steered():
    printed = io.StringIO()
    Console(file=printed, markup=False).print(STEERS)
    assert steered(printed.getvalue())


def test_colours_are_still_there_on_a_terminal():
    console = messages._console(True, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(STEERS, style="red")
    assert console.file.getvalue() == "\x1b[31m" + r"a\x1b[2J\x9b2J\u202eb\x07" + "\x1b[0m\n"


# Signals.


def signalled(number, ready, *words, given=b""):
    """Start a command that waits for its input, signal it when it is ready, and return its code and what it says."""
    command = [sys.executable, "-m", "eigenveil.cli", *map(str, words)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        process.stdin.write(given)
        process.stdin.flush()
        while not ready():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(number)
        told = process.stderr.read().decode()
    return process.returncode, told


def test_a_signal_to_encode_leaves_no_half_file(tmp_path):
    protocol, out = LocalProtocol(2, 1.0), tmp_path / "reports"
    (tmp_path / "protocol.json").write_text(protocol.to_json())
    # Its draft is there, and more rows may come.
    ready = lambda: list(tmp_path.glob(".reports.*.part"))  # noqa: E731
    code, told = signalled(signal.SIGTERM, ready, "local", "encode", tmp_path / "protocol.json", "-", "-o", out)
    assert code == 143
    assert [path.name for path in tmp_path.iterdir()] == ["protocol.json"]
    assert told.startswith("eigenveil: interrupted; no half-written file is left")
    assert told.count("\n") == 1


# Files of which nobody knows the end.


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_table_is_a_regular_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    result = command_result("covariance", tmp_path / name, "--epsilon", 1, "-o", tmp_path / "out.npz")
    assert "is no regular file; copy it to one, or on the command line give - for a pipe." in str(result.exception)


def test_rows_reports_and_contributions_are_regular_files(tmp_path):
    from eigenveil.errors import InvalidDataError

    (tmp_path / "protocol.json").write_text(LocalProtocol(2, 1.0).to_json())
    os.mkfifo(tmp_path / "pipe")
    for words in (("encode", tmp_path / "protocol.json"), ("aggregate", "--protocol", tmp_path / "protocol.json")):
        told = invoked("local", *words, tmp_path / "pipe", fails=InvalidDataError)
        assert "no regular file" in told
