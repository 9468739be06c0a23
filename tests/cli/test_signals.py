"""Ctrl-C and SIGTERM at each step of a command that fits: before the spend it ends, after it the release is written."""

import os
import signal

import pytest

from eigenveil import PrivacyLedger, files, gate, load_release
from eigenveil.accounting.ledger import LedgerFile
from eigenveil.estimators import PrivatePCA, fit
from helpers import command_result

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
# Where the signal comes: before the spend; just after its commit; when the release is drawn; when it gets its name.
POINTS = {
    "before": (fit, "pay", False),
    "committed": (LedgerFile, "append", True),
    "drawing": (gate, "draw", False),
    "written": (files.os, "fsync", True),
    "named": (files.os, "replace", False),
}


@pytest.fixture
def study(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n" + "1,0\n0,1\n" * 50)
    return PrivacyLedger.create(tmp_path / "study.ledger", epsilon=1.0, data_set="study")


def interrupted(study, monkeypatch, point, times, *signals):
    """Run a fit to which signals come at a point; return its result, and the names of the files that are left."""
    owner, name, after = POINTS[point]
    honest, folder, left = getattr(owner, name), study.path.parent, list(signals) * times

    def signalled(*arguments, **options):
        answer = honest(*arguments, **options) if after else None
        while left:
            os.kill(os.getpid(), left.pop())
        return answer if after else honest(*arguments, **options)

    monkeypatch.setattr(owner, name, signalled)
    before = [signal.getsignal(one) for one in CODES]
    words = ("pca", folder / "table.csv", "-k", 1, "--epsilon", 0.5, "--norm-bound", 1, "--yes")
    result = command_result(*words, "--ledger", study.path, "--output", folder / "out.npz")
    monkeypatch.undo()
    assert [signal.getsignal(one) for one in CODES] == before
    return result, {path.name for path in folder.iterdir()} - {"table.csv", "study.ledger"}


@pytest.mark.parametrize("number", CODES)
def test_before_the_spend_a_signal_ends_the_command(study, monkeypatch, number):
    result, left = interrupted(study, monkeypatch, "before", 1, number)
    assert result.exit_code == CODES[number]
    assert left == set()
    assert study.entries() == []


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("point", [point for point in POINTS if point != "before"])
def test_after_the_spend_the_release_is_written_first(study, monkeypatch, point, number):
    result, left = interrupted(study, monkeypatch, point, 1, number)
    assert result.exit_code == CODES[number]
    assert left == {"out.npz"}
    assert load_release(study.path.parent / "out.npz").origin.ledger_entry == 1
    assert f"entry 1 of the ledger {study.path}, is complete in" in result.stderr
    assert len(study.entries()) == 1


@pytest.mark.parametrize("point", ["drawing", "named"])
def test_a_second_signal_stops_and_the_entry_is_named(study, monkeypatch, point):
    result, left = interrupted(study, monkeypatch, point, 2, signal.SIGINT)
    assert result.exit_code == 130
    assert left == set()
    assert f"entry 1 of the ledger {study.path} is spent, and no release was written." in result.stderr
    assert len(study.entries()) == 1


def test_a_release_that_cannot_be_saved_names_its_entry(study, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    folder = study.path.parent
    words = ("pca", folder / "table.csv", "-k", 1, "--epsilon", 0.5, "--norm-bound", 1, "--yes")
    result = command_result(*words, "--ledger", study.path, "--output", folder / "out.npz")
    assert "No space left" in str(result.exception)
    assert f"entry 1 of the ledger {study.path} is spent" in result.stderr
    assert not [path for path in folder.iterdir() if path.suffix in (".part", ".npz")]


def test_an_ignored_signal_stays_ignored(study, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result, left = interrupted(study, monkeypatch, "drawing", 1, signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 0
    assert left == {"out.npz"}


def test_in_python_an_interrupt_after_the_spend_names_the_entry(study, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(gate, "draw", interrupt)
    model = PrivatePCA(1, epsilon=0.5, norm_bound=1.0, ledger=study)
    with pytest.raises(KeyboardInterrupt) as info:
        model.fit([[1.0, 0.0], [0.0, 1.0]] * 50)
    assert info.value.__notes__ == ["Entry 1 of the ledger has been paid for, and no release came of it."]
