"""A disk that fails at any call: no release without its spend, no lost report, whole files, one sentence; and cuts."""

import contextlib
import shutil
from itertools import chain, product

import numpy as np
import pytest

import eigenveil.accounting.ledger as ledgers
import eigenveil.files as files
from disk_faults import IDLE, every_fault, outcomes
from faulted_runs import RUNS
from helpers import assert_one_sentence
from made_rounds import needs_cryptography
from power_cuts import can_trace, files_after, forgetful_disks, steps_in, write

pytestmark = pytest.mark.skipif(not can_trace(), reason="needs strace, and the right to trace a process")
needs_cryptography()

CHANGES = [call for call in IDLE if call not in ("read", "pread64")]
SYNCS = ("fsync", "fdatasync")
COMMANDS = "commands"
BATCH = 100  # runs of one tracer: the numbers of their processes must differ
FILES = [name for name in RUNS if name != COMMANDS]


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Every fault of every run; what is loaded once has been loaded before."""
    folder = tmp_path_factory.mktemp("faults")
    runs = {name: run for name, (run, _) in RUNS.items()}
    for name, run in runs.items():
        (folder / name).mkdir()
        run(folder / name, lambda text: None)
    return every_fault(runs, folder / "count")


def problems(outcome):
    """What is wrong with a run that met a fault."""
    found = [] if outcome.failed else ["the fault was not met"]
    for text in outcome.told:
        if text.startswith("crash"):
            found.append(text)
        if text.startswith("refused: "):
            assert_one_sentence(text)
    return found + RUNS[outcome.fault.run][1](outcome.folder, outcome.told)


def found_by(faults, folder, **options):
    """Return what is wrong with the runs of these faults, by fault."""
    runs, found = {name: run for name, (run, _) in RUNS.items()}, {}
    folder.mkdir()
    for start in range(0, len(faults), BATCH):
        for outcome in outcomes(runs, faults[start : start + BATCH], folder / str(start), **options):
            wrong = problems(outcome)
            if wrong:
                found[outcome.fault] = wrong
        shutil.rmtree(folder / str(start))
    return found


FAULTS = "calls of a failing disk"


def sample(faults, count):
    return [faults[place] for place in np.random.default_rng().choice(len(faults), count, replace=False)]


@pytest.mark.parametrize(("error", "lasting"), [("EIO", False), ("EIO", True), ("ENOSPC", False)])
def test_some_faults_lose_nothing_and_are_told_in_one_sentence(faults, tmp_path, error, lasting, noted):
    chosen = sample([fault for fault in faults if fault.run in FILES and fault.call in CHANGES], 16)
    found = found_by(chosen, tmp_path / "runs", error=error, lasting=lasting)
    noted(FAULTS, len(chosen), len(found))
    assert found == {}


@pytest.mark.heavy
@pytest.mark.parametrize(("error", "lasting"), [("EIO", False), ("EIO", True), ("ENOSPC", False), ("ENOSPC", True)])
def test_no_fault_loses_anything(faults, tmp_path, error, lasting, noted):
    # No disk is too full to be read.
    calls = IDLE if error == "EIO" else CHANGES
    chosen = [fault for fault in faults if fault.run in FILES and fault.call in calls]
    assert len(chosen) > 320
    found = found_by(chosen, tmp_path / "runs", error=error, lasting=lasting)
    noted(FAULTS, len(chosen), len(found))
    assert found == {}


@pytest.mark.heavy
def test_no_fault_ends_a_command_in_a_raw_error(faults, tmp_path):
    chosen = [fault for fault in faults if fault.run == COMMANDS]
    assert len(chosen) > 200
    assert found_by(chosen, tmp_path / "runs") == {}


# A synchronization that failed: what it was for may be gone for good, though a later one works.


def believed(faults, folder):
    """Cut the power whenever a run has told something, and at its end; return what is missed then, by fault.

    Many cuts leave the same files after the same was told: these are looked at once.
    """
    runs, found = {name: run for name, (run, _) in RUNS.items()}, {}
    for outcome in outcomes(runs, faults, folder):
        steps, seen = steps_in(outcome.trace, outcome.folder), set()
        cuts = [place + 1 for place, step in enumerate(steps) if step.kind == "event"]
        for cut, rule in product({*cuts, len(steps)}, ("posix", "ext4")):
            told = outcome.told[: sum(place <= cut for place in cuts)]
            for left in map(files_after, forgetful_disks(steps[:cut], rule)):
                disk = len(told), frozenset(left.items())
                if disk not in seen:
                    seen.add(disk)
                    write(left, folder / "disk")
                    wrong = RUNS[outcome.fault.run][1](folder / "disk", told)
                    if wrong:
                        found[outcome.fault] = wrong
    return found


def about_syncs(faults, *runs):
    """Faults of synchronizations, and of opening a folder to synchronize it."""
    return [fault for fault in faults if fault.run in runs and fault.call in (*SYNCS, "openat")]


def test_a_failed_synchronization_is_not_believed(faults, tmp_path):
    # Always a folder that is made and the first commit in it; what comes later does the same again.
    every = about_syncs(faults, "fits")
    calls = ("openat", "fsync")  # SQLite synchronizes by fdatasync, and tells where that fails
    first = [fault for fault in every if fault.of_folder and fault.call in calls and not fault.told]
    assert {(fault.run, fault.call) for fault in first} == set(product(("fits",), calls))
    rest = sample([fault for fault in every if fault not in first], 4)
    assert believed(first + rest, tmp_path / "runs") == {}


@pytest.mark.heavy
def test_no_failed_synchronization_is_believed(faults, tmp_path):
    chosen = about_syncs(faults, "fits", "contributes")
    assert len(chosen) > 80
    assert believed(chosen, tmp_path / "runs") == {}


def test_control_a_writer_that_ignores_failed_synchronizations_is_caught(faults, tmp_path, monkeypatch):
    honest = files.os.fsync

    def deaf(number):
        with contextlib.suppress(OSError):
            honest(number)

    monkeypatch.setattr(files.os, "fsync", deaf)
    chosen = [fault for fault in faults if fault.run == "fits" and fault.call == "fsync"]
    assert "a saved release is gone" in chain.from_iterable(believed(chosen, tmp_path / "runs").values())


@pytest.mark.heavy
def test_control_sqlite_alone_believes_a_folder_that_it_could_not_open(faults, tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "sync_database", lambda file: files.sync_folder(file.parent))
    chosen = [fault for fault in faults if fault.run == "fits" and fault.call == "openat"]
    found = believed(chosen, tmp_path / "runs").values()
    assert "a release without its spend" in chain.from_iterable(found)
