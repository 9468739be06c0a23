"""No power cut and no failing disk leaves a release without its spend, or loses a saved release."""

import pytest

from eigenveil.accounting import PrivacyLedger
from eigenveil.errors import EigenveilError, ReleaseFileError
from eigenveil.releases.record import load_release
from power_cuts import can_trace, files_after, forgetful_disks, lost, recorded, write

pytestmark = pytest.mark.skipif(not can_trace(), reason="needs strace, and the right to trace a process")

START = """
import socket, sys
from pathlib import Path
folder = Path(sys.argv[1])
marks = socket.socketpair()
event = lambda text: marks[0].send(text.encode())
"""
FITS = """
import numpy as np
from eigenveil import PrivacyLedger, RowBound, SecondMoments, release
from eigenveil.mechanisms import MECHANISMS
moments = SecondMoments(RowBound(1.0, bits=8), 2).update(np.eye(2))
mechanism = MECHANISMS["laplace"](epsilon=0.125, n_features=2)
ledger = PrivacyLedger.create(folder / "ledger", epsilon=1.0, data_set="study")
for number in range({times}):
    drawn = release(mechanism, moments, ledger=ledger)
    event("given")
    drawn.save(folder / f"{{number}}.npz")
    event("saved")
"""
TRIED_AGAIN = """
import numpy as np
from eigenveil import PrivacyLedger, RowBound, SecondMoments, release
from eigenveil.errors import EigenveilError
from eigenveil.mechanisms import MECHANISMS
moments = SecondMoments(RowBound(1.0, bits=8), 2).update(np.eye(2))
mechanism = MECHANISMS["laplace"](epsilon=0.125, n_features=2)
path, saved = folder / "ledger", 0
for attempt in range(4):  # as people do whose disk has failed once
    try:
        ledger = PrivacyLedger(path) if path.exists() else PrivacyLedger.create(path, epsilon=1.0, data_set="study")
        drawn = release(mechanism, moments, ledger=ledger)
        event("given")
        drawn.save(folder / f"{saved}.npz")
        event("saved")
        saved += 1
    except EigenveilError as error:
        event(str(error))
"""
CARELESS = """
import eigenveil.accounting.ledger as book, eigenveil.files as files
book._DURABLE = "PRAGMA synchronous = FULL"
files.sync_folder = lambda path: None
"""
DEAF = """
import contextlib, os
honest = os.fsync
def deaf(number):
    with contextlib.suppress(OSError):
        honest(number)
os.fsync = deaf
"""


def events(steps):
    return [step.data.decode() for step in steps if step.kind == "event"]


def wrong_with_fits(folder, told):
    """What is wrong with the ledger and the files after a run that had told so much."""
    try:
        spends = len(PrivacyLedger(folder / "ledger").entries())
    except EigenveilError:
        spends = 0
    found = ["a release without its spend"] if told.count("given") > spends else []
    for number in range(told.count("saved")):
        try:
            load_release(folder / f"{number}.npz")
        except ReleaseFileError:
            found.append("a saved release is gone")
    return found


def cut_everywhere(tmp_path, code, wrong, every=1, failing=None):
    """Cut a run at every so many steps; return how many disks there may be, and what was wrong with them by rule.

    Many cuts leave the same files after the same events: these are looked at once.
    """
    (tmp_path / "run").mkdir(parents=True)
    steps, found, disks, seen = recorded(START + code, tmp_path / "run", failing), {"posix": [], "ext4": []}, 0, {}
    assert failing is None or any(step.kind.startswith("failed") for step in steps)
    for cut in range(0, len(steps) + 1, every):
        told = events(steps[:cut])
        for rule, problems in found.items():
            for kept in forgetful_disks(steps[:cut], rule):
                files = files_after(kept)
                disk = (len(told), frozenset(files.items()))
                if disk not in seen:
                    write(files, tmp_path / "disk")
                    seen[disk] = wrong(tmp_path / "disk", told)
                problems += seen[disk]
                disks += 1
    return disks, found


def test_no_cut_leaves_a_release_without_its_spend_or_loses_a_saved_one(tmp_path):
    disks, found = cut_everywhere(tmp_path, FITS.format(times=2), wrong_with_fits)
    assert found == {"posix": [], "ext4": []}
    assert disks > 200


@pytest.mark.heavy
def test_no_cut_of_a_longer_run_leaves_a_release_without_its_spend(tmp_path):
    disks, found = cut_everywhere(tmp_path, FITS.format(times=8), wrong_with_fits)
    assert found == {"posix": [], "ext4": []}
    assert disks > 720


# A synchronization that failed: what it was for may be gone for good, though a later one works.

EVERY_SYNC = [("fsync", turn) for turn in range(1, 16)] + [("fdatasync", turn) for turn in range(1, 12)]
OF_A_FOLDER = ("fsync", 2)  # that of a ledger which was just made


@pytest.mark.parametrize(
    "failing",
    [one if one == OF_A_FOLDER else pytest.param(one, marks=pytest.mark.heavy) for one in EVERY_SYNC],
    ids=str,
)
def test_a_failed_synchronization_is_not_believed(tmp_path, failing):
    _, found = cut_everywhere(tmp_path, TRIED_AGAIN, wrong_with_fits, failing=failing)
    assert found == {"posix": [], "ext4": []}


def test_control_a_writer_that_ignores_failed_synchronizations_is_caught(tmp_path):
    _, found = cut_everywhere(tmp_path, DEAF + TRIED_AGAIN, wrong_with_fits, failing=OF_A_FOLDER)
    assert "a release without its spend" in found["posix"]


def test_control_what_is_not_synchronized_is_missed(tmp_path):
    _, found = cut_everywhere(tmp_path, CARELESS + FITS.format(times=2), wrong_with_fits, every=4)
    assert {"a release without its spend", "a saved release is gone"} <= set(found["posix"])
    assert found["ext4"]


def test_control_the_rules_differ():
    from power_cuts import Step

    run = [Step("create", "a", 0), Step("write", "a", 0, 0, b"x"), Step("sync", "a", 0)]
    assert lost(run, "posix") == {0}  # its name was not brought to the disk
    assert lost(run, "ext4") == set()
    assert lost(run[:2], "ext4") == {0, 1}
    refused = [*run[:2], Step("failed sync", "a", 0), run[2]]  # tried again after it failed, and told to have worked
    assert lost(refused, "posix") == {0, 1}
    again = [Step("create", "a", 0), Step("failed sync_folder"), Step("sync_folder")]
    assert lost(again, "posix") == {0}
    assert lost([*again[:2], Step("create", "b", 1), again[2]], "posix") == set()


def test_control_a_folder_keeps_its_own_names_only():
    from power_cuts import Step

    run = [Step("mkdir", "draft", 0), Step("create", "a", 1, folder=0), Step("rename", "draft", 0, other="made")]
    assert lost([*run, Step("sync_folder", folder=0)], "posix") == {0, 2}
    assert lost([*run, Step("sync_folder")], "posix") == {1}
    assert {str(path) for path in files_after(run)} == {"made", "made/a"}
