"""A database under a second name: what was recorded is never rolled back, because such a name is refused.

SQLite finds the journal of an interrupted transaction beside the name that it was given, and beside no other.
"""

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys

import pytest

from eigenveil.accounting import PrivacyLedger
from eigenveil.accounting.ledger import DATABASE
from eigenveil.errors import InvalidParameterError, LedgerError
from eigenveil.guarantee import Guarantee
from helpers import refused, start_child

COST = Guarantee(0.125)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def made(path):
    ledger = PrivacyLedger.create(path, epsilon=10.0, data_set="study")
    ledger.spend(COST, "first")
    return ledger


def killed_in_a_transaction(connection):
    """Write some pages of a transaction to the database, its journal before them, and end by SIGKILL."""
    connection.execute("PRAGMA cache_size = 1")  # pages that do not fit are written before the commit
    connection.execute("BEGIN IMMEDIATE")
    for number in range(2, 40):
        connection.execute("INSERT INTO spend VALUES (?, '', ?, '', '')", (number, "x" * 9000))
    os.kill(os.getpid(), signal.SIGKILL)


def leave_hot_journal(path):
    """Let a process be killed in the midst of a spend, and return whether its journal is one to roll back."""

    def spend():
        with PrivacyLedger(path)._file._connection() as connection:
            killed_in_a_transaction(connection)

    child = start_child(spend)
    assert os.WIFSIGNALED(os.waitpid(child.pid, 0)[1])
    os.close(child.pipe)
    journal = path / f"{DATABASE}-journal"
    return journal.exists() and any(journal.read_bytes()[:8])


def second_folder(path, link):
    """Return another folder in which `link` has made the same database."""
    other = path.with_name("second.ledger")
    other.mkdir()
    link(path / DATABASE, other / DATABASE)
    return other


def test_no_spend_is_recorded_under_a_hard_link(path):
    ledger = made(path)
    assert leave_hot_journal(path)
    other = second_folder(path, os.link)
    for attempt in (
        lambda: PrivacyLedger(other),
        lambda: PrivacyLedger(path),
        lambda: ledger.spend(COST, "by a handle that was open"),
        lambda: ledger.check(COST),
    ):
        with refused(LedgerError) as info:
            attempt()
        assert "hard link" in str(info.value)
    shutil.rmtree(other)
    assert ledger.spend(COST, "after").entry == 2
    assert [entry.what for entry in PrivacyLedger(path).entries()] == ["first", "after"]


def test_control_sqlite_alone_loses_what_was_recorded_under_a_hard_link(path, monkeypatch):
    made(path)
    monkeypatch.setattr("eigenveil.accounting.ledger.sole_name", os.lstat)
    assert leave_hot_journal(path)
    journal = path / f"{DATABASE}-journal"
    content = journal.read_bytes()
    PrivacyLedger(path)  # rolls back, which leaves the database as one that no page of the transaction had reached
    PrivacyLedger(second_folder(path, os.link)).spend(COST, "recorded under the second name")
    journal.write_bytes(content)
    assert [entry.what for entry in PrivacyLedger(path).entries()] == ["first"]


def test_no_spend_is_recorded_under_a_symbolic_link(path):
    made(path)
    other = second_folder(path, lambda target, name: name.symlink_to(target))
    with refused(LedgerError):
        PrivacyLedger(other)
    assert PrivacyLedger(path).spend(COST, "second").entry == 2


def test_a_folder_may_have_a_symbolic_link(path):
    made(path)
    link = path.with_name("link.ledger")
    link.symlink_to(path)
    assert leave_hot_journal(link)
    assert PrivacyLedger(link).spend(COST, "second").entry == 2
    assert len(PrivacyLedger(path).entries()) == 2


MOUNTED = """
import os, signal, sys
from pathlib import Path
from eigenveil import Guarantee, PrivacyLedger
from eigenveil.errors import LedgerError
first, second = map(Path, sys.argv[1:])
pid = os.fork()
if not pid:
    with PrivacyLedger(first)._file._connection() as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        for number in range(2, 40):
            connection.execute("INSERT INTO spend VALUES (?, '', ?, '', '')", (number, "x" * 9000))
        os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
try:
    PrivacyLedger(second).spend(Guarantee(0.125), "under the mount")
except LedgerError as error:
    print(error)
"""


def in_a_namespace(target, name, *words):
    """Mount `target` at `name` for one run of `MOUNTED`, which nobody else sees; return what it prints."""
    mount = 'mount --bind "$0" "$1" && shift && exec "$@"'
    unshare = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    try:
        subprocess.run([*unshare, mount, target, name, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this system lets nobody mount anything: {error}")
    run = [*unshare, mount, target, name, sys.executable, "-c", MOUNTED, *words]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


def test_no_spend_is_recorded_under_a_mount_of_the_file(path):
    made(path)
    other = second_folder(path, lambda target, name: name.touch())
    said = in_a_namespace(path / DATABASE, other / DATABASE, path, other)
    assert "mounted by itself" in said
    assert said.count("\n") == 1
    assert [entry.what for entry in PrivacyLedger(path).entries()] == ["first"]


# The folder.


def test_a_file_is_no_ledger(path):
    path.write_bytes(b"")
    for attempt in (PrivacyLedger, lambda where: PrivacyLedger.create(where, epsilon=1.0, data_set="study")):
        with refused(LedgerError):
            attempt(path)
    assert path.read_bytes() == b""


@pytest.mark.skipif(os.name != "posix", reason="needs permission bits")
def test_the_folder_is_private_to_its_user(path):
    before = os.umask(0)
    try:
        made(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [file.name for file in path.iterdir()] == [DATABASE]


# Parameters of the wrong type.


@pytest.mark.parametrize("value", [5, None, b"study.ledger", ["study.ledger"], "a\0b"])
def test_a_path_is_a_path(value):
    for attempt in (PrivacyLedger, lambda where: PrivacyLedger.create(where, epsilon=1.0, data_set="study")):
        with refused(InvalidParameterError):
            attempt(value)


@pytest.mark.parametrize(
    ("guarantee", "what"), [(0.5, "look"), (None, "look"), ("1", "look"), (COST, 5), (COST, None), (COST, "\ud800")]
)
def test_a_spend_of_the_wrong_type_is_refused(path, guarantee, what):
    ledger = made(path)
    with refused(InvalidParameterError):
        ledger.spend(guarantee, what)
    if guarantee is not COST:
        with refused(InvalidParameterError):
            ledger.check(guarantee)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("error", [MemoryError(), sqlite3.OperationalError("out of memory")])
def test_too_little_memory_is_not_called_damage(path, monkeypatch, error):
    ledger = made(path)

    def full(*_, **__):
        raise error

    monkeypatch.setattr(sqlite3, "connect", full)
    for attempt in (lambda: PrivacyLedger(path), lambda: ledger.spend(COST, "second")):
        with refused(LedgerError) as info:
            attempt()
        assert "not enough memory" in str(info.value)
    monkeypatch.undo()
    assert len(ledger.entries()) == 1
