"""The chain of a ledger: what is changed, removed, inserted, replaced or rolled back is refused in one sentence."""

import contextlib
import json
import shutil
import sqlite3

import pytest

from eigenveil.accounting import PrivacyLedger
from eigenveil.accounting.ledger import DATABASE, LedgerHead, entry_hash
from eigenveil.errors import LedgerError
from eigenveil.guarantee import Guarantee, Numerics
from helpers import refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def filled(path, spends=4):
    ledger = PrivacyLedger.create(path, epsilon=10.0, delta=1e-3, data_set="ward 3")
    for number in range(spends):
        ledger.spend(Guarantee(0.5, 1e-6, numerics=Numerics.EXACT), f"release {number}")
    return ledger


def behind_its_back(path, *statements):
    """Change the file with another tool, triggers and all."""
    with contextlib.closing(sqlite3.connect(path / DATABASE)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)


def assert_refused_everywhere(path, *handles):
    with refused(LedgerError):
        PrivacyLedger(path)
    for handle in handles:
        for attempt in (lambda h=handle: h.spend(Guarantee(0.1), "more"), handle.entries, lambda h=handle: h.spent):
            with refused(LedgerError):
                attempt()


CHEAPER = json.dumps(Guarantee(0.1, 1e-6, numerics=Numerics.EXACT).to_dict())
COLUMNS = "spent_at, what, guarantee, hash"


@pytest.mark.parametrize(
    "statements",
    {
        "a cheaper entry": (f"UPDATE spend SET guarantee = '{CHEAPER}' WHERE entry = 2",),
        "another purpose": ("UPDATE spend SET what = 'something else' WHERE entry = 4",),
        "another time": ("UPDATE spend SET spent_at = '1999-01-01' WHERE entry = 1",),
        "the first removed": ("DELETE FROM spend WHERE entry = 1",),
        "one removed": ("DELETE FROM spend WHERE entry = 2",),
        "one removed, the rest moved up": (
            "DELETE FROM spend WHERE entry = 2",
            "UPDATE spend SET entry = entry - 1 WHERE entry > 2",
        ),
        "the last removed": ("DELETE FROM spend WHERE entry = 4",),
        "all removed": ("DELETE FROM spend",),
        "two exchanged": (
            "UPDATE spend SET entry = 9 WHERE entry = 2",
            "UPDATE spend SET entry = 2 WHERE entry = 3",
            "UPDATE spend SET entry = 3 WHERE entry = 9",
        ),
        "one repeated": (f"INSERT INTO spend SELECT 5, {COLUMNS} FROM spend WHERE entry = 4",),
        "one inserted": (f"INSERT INTO spend VALUES (5, '', 'mine', '{CHEAPER}', 'f00d')",),
        "one before the first": (f"INSERT INTO spend SELECT 0, {COLUMNS} FROM spend WHERE entry = 1",),
        "a higher limit": ("UPDATE ledger SET epsilon = '100.0'",),
        "another delta": ("UPDATE ledger SET delta = '0.1'",),
        "another adjacency": ("UPDATE ledger SET adjacency = 'add_or_remove_one'",),
        "another unit": ("UPDATE ledger SET unit = 'person'",),
        "another format": ("UPDATE ledger SET format = 2",),
        "another composition": ("UPDATE ledger SET composition = 'zcdp'",),
        "another data set": ("UPDATE ledger SET data_set = 'ward 4'",),
        "another birth": ("UPDATE ledger SET nonce = '00'",),
        "no head": ("DELETE FROM ledger",),
        "no table": ("DROP TABLE spend",),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_changed_file_is_refused_by_new_and_open_handles(path, statements):
    ledger = filled(path)
    behind_its_back(path, *statements[1])
    assert_refused_everywhere(path, ledger)


def test_control_dropping_the_triggers_alone_changes_nothing(path):
    ledger = filled(path)
    behind_its_back(path)
    assert len(PrivacyLedger(path).entries()) == 4
    assert ledger.spend(Guarantee(0.1), "more").entry == 5


def test_every_field_of_the_head_is_bound(path):
    head = filled(path)._file.head
    fields = vars(head)
    assert set(fields) == {"epsilon", "delta", "adjacency", "composition", "data_set", "created", "nonce", "unit"}
    others = {LedgerHead(**{**fields, name: value + "x"}).hash for name, value in fields.items()}
    assert len(others | {head.hash}) == len(fields) + 1


def test_an_entry_holds_the_hash_over_its_content_and_the_one_before(path):
    ledger = filled(path)
    link = ledger._file.head.hash
    with contextlib.closing(sqlite3.connect(path / DATABASE)) as connection:
        rows = connection.execute("SELECT entry, spent_at, what, guarantee, hash FROM spend ORDER BY entry").fetchall()
    for row, entry in zip(rows, ledger.entries(), strict=True):
        link = entry_hash(link, *row[:4])
        assert row[4] == entry.hash == link
        assert len(link) == 64
    assert ledger.seal == link


def test_a_rewritten_chain_is_refused_by_whoever_saw_the_old_one(path, tmp_path):
    # Whoever can write the file can compute hashes too: a consistent forgery opens. A handle that saw the old chain
    # refuses it, and so does a person who wrote the seal down.
    ledger = filled(path)
    seal = ledger.seal
    forged = PrivacyLedger.create(tmp_path / "forged", epsilon=10.0, delta=1e-3, data_set="ward 3")
    shutil.copy(forged.path / DATABASE, path / DATABASE)
    assert PrivacyLedger(path).seal != seal
    for attempt in (lambda: ledger.spend(Guarantee(0.1), "more"), ledger.entries, lambda: ledger.remaining):
        with refused(LedgerError):
            attempt()
    assert PrivacyLedger(path).entries() == []


def test_a_ledger_set_back_to_a_backup_is_refused_by_an_open_handle(path, tmp_path):
    ledger = filled(path, spends=2)
    backup = tmp_path / "backup"
    shutil.copy(path / DATABASE, backup)
    ledger.spend(Guarantee(0.5), "after the backup")  # this handle never read its own last entry
    shutil.copy(backup, path / DATABASE)
    with refused(LedgerError):
        ledger.spend(Guarantee(0.5), "again")
    with refused(LedgerError):
        ledger.check(Guarantee(0.5))
    assert len(PrivacyLedger(path).entries()) == 2  # a new handle cannot know


def test_a_deleted_ledger_made_anew_is_refused_by_an_open_handle(path):
    ledger = filled(path, spends=0)
    shutil.rmtree(path)
    again = PrivacyLedger.create(path, epsilon=10.0, delta=1e-3, data_set="ward 3")  # the same limits
    with refused(LedgerError):
        ledger.spend(Guarantee(0.5), "into the wrong book")
    assert again.entries() == []


def test_a_file_moved_away_during_a_spend_pays_for_nothing(path, tmp_path, monkeypatch):
    ledger = filled(path, spends=1)
    honest = PrivacyLedger._check

    def move_first(self, guarantee, entries):
        honest(self, guarantee, entries)
        path.rename(tmp_path / "elsewhere")
        shutil.copytree(tmp_path / "elsewhere", path)

    monkeypatch.setattr(PrivacyLedger, "_check", move_first)
    with refused(LedgerError):
        ledger.spend(Guarantee(0.5), "where is it?")
    monkeypatch.undo()
    assert len(PrivacyLedger(path).entries()) == 1


def test_handles_of_one_file_follow_each_other(path):
    first = filled(path, spends=0)
    second = PrivacyLedger(path)
    for number in range(3):
        assert first.spend(Guarantee(0.1), "first").entry == 2 * number + 1
        assert second.spend(Guarantee(0.1), "second").entry == 2 * number + 2
    assert first.entries() == second.entries()
    assert first.seal == second.seal
