"""PrivacyLedger: exact limits, entries that are never changed, one clear sentence where it cannot be used."""

import contextlib
import functools
import math
import operator
import os
import shutil
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.accounting import PrivacyLedger, compose, exact, zcdp_epsilon, zcdp_rho
from eigenveil.accounting.ledger import DATABASE
from eigenveil.errors import BudgetError, InvalidParameterError, LedgerError
from eigenveil.guarantee import Adjacency, Guarantee, Numerics
from helpers import in_child, refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def raw(path, statement, *values):
    """Run SQL behind the ledger's back."""
    with contextlib.closing(sqlite3.connect(path / DATABASE)) as connection, connection:
        return connection.execute(statement, values).fetchall()


# Limits.


def test_spends_add_up_in_exact_decimals(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, data_set="study")
    for number in range(10):
        entry = ledger.spend(Guarantee(0.1, 1e-7), f"look {number}")
        assert entry.entry == number + 1
    assert ledger.spent == (1.0, 1e-6)
    assert ledger.remaining == (0.0, 0.0)
    assert functools.reduce(operator.add, [0.1] * 10) != 1.0  # the control: binary sums would have missed the limit
    with refused(BudgetError):
        ledger.spend(Guarantee(1e-12), "one too many")
    assert len(ledger.entries()) == 10


def test_the_refusal_says_what_is_left(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, data_set="study")
    ledger.spend(Guarantee(0.75, 1e-7), "first")
    with refused(BudgetError) as info:
        ledger.spend(Guarantee(0.5, 1e-7), "second")
    assert "0.5" in str(info.value)
    assert "0.25 and delta = 9e-07 is left" in str(info.value)
    assert [entry.what for entry in ledger.entries()] == ["first"]
    ledger.spend(Guarantee(0.25, 9e-7), "what is left")
    assert ledger.remaining == (0.0, 0.0)


@settings(max_examples=30)
@given(st.lists(st.decimals("0.001", "0.5", places=3), min_size=1, max_size=8), st.decimals("0.1", "2", places=3))
def test_no_sequence_passes_the_limit(costs, limit):
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger.create(Path(folder) / "l", epsilon=float(limit), data_set="study")
        total = Fraction(0)
        for cost in costs:
            if total + Fraction(cost) <= Fraction(limit):
                ledger.spend(Guarantee(float(cost)), "fits")
                total += Fraction(cost)
            else:
                with refused(BudgetError):
                    ledger.spend(Guarantee(float(cost)), "does not fit")
        assert exact(ledger.spent[0]) == total
        assert exact(ledger.remaining[0]) == Fraction(limit) - total


def test_check_raises_what_spend_would_and_spends_nothing(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="study")
    ledger.check(Guarantee(1.0))
    with refused(BudgetError):
        ledger.check(Guarantee(1.1))
    assert ledger.entries() == []


def test_an_entry_keeps_the_whole_guarantee(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-5, data_set="study")
    guarantee = compose(
        [Guarantee(0.1, numerics=Numerics.EXACT), Guarantee(0.2, 1e-6, rho=0.01, assumptions=("Café: ε.",))]
    )
    entry = ledger.spend(guarantee, "naïve ε-release; DROP TABLE spend")
    assert entry.guarantee == guarantee
    assert PrivacyLedger(path).entries() == [entry]


@pytest.mark.parametrize("guarantee", [Guarantee(math.inf), Guarantee(0.1).marked_reproducible()])
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6, "composition": "zcdp"}])
def test_what_is_not_private_cannot_be_paid_for(path, guarantee, options):
    ledger = PrivacyLedger.create(path, epsilon=1.0, **options, data_set="study")
    for attempt in (lambda: ledger.spend(guarantee, "seeded"), lambda: ledger.check(guarantee)):
        with refused(BudgetError):
            attempt()
    assert ledger.entries() == []


def test_a_ledger_counts_one_relation(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, adjacency="add_or_remove_one", data_set="study")
    assert ledger.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    with refused(LedgerError):
        ledger.spend(Guarantee(0.1), "replace")
    ledger.spend(Guarantee(0.1, adjacency=Adjacency.ADD_OR_REMOVE_ONE), "add or remove")
    assert len(ledger.entries()) == 1


# zCDP.


def test_concentrated_spends_add_their_rho(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, composition="zcdp", data_set="study")
    limit = zcdp_rho(1.0, 1e-6)
    part = Guarantee(0.5, 1e-6, rho=limit / 4)
    for _ in range(4):
        ledger.spend(part, "quarter")
    with refused(BudgetError) as info:
        ledger.spend(part, "fifth")
    assert "rho" in str(info.value)
    spent = ledger.spent
    assert spent[0] <= 1.0
    assert math.isclose(spent[0], zcdp_epsilon(limit, 1e-6), rel_tol=1e-12)
    assert spent[1] == 1e-6


def test_a_concentrated_ledger_refuses_what_it_cannot_count(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, composition="zcdp", data_set="study")
    with refused(LedgerError):
        ledger.spend(Guarantee(0.1, 1e-9), "bare")
    assert ledger.entries() == []
    assert ledger.spent == (0.0, 0.0)


def test_a_concentrated_ledger_needs_a_delta(path):
    with refused(LedgerError):
        PrivacyLedger.create(path, epsilon=1.0, composition="zcdp", data_set="study")
    assert not path.exists()


@pytest.mark.parametrize("spends", [(), (0.1,), (0.1, 0.03), (0.01,) * 7, (0.123456789,)])
@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_what_remains_can_be_spent(path, composition, spends):
    ledger = PrivacyLedger.create(path, epsilon=0.9, delta=1e-6, composition=composition, data_set="study")
    for cost in spends:
        ledger.spend(Guarantee(cost), "before")
    epsilon, rho = ledger.remaining[0], ledger.remaining_rho
    if rho is None:
        ledger.spend(Guarantee(epsilon), "the rest")
    else:
        assert epsilon == pytest.approx(zcdp_epsilon(rho, 1e-6))
        # As a release is calibrated that is given what remains.
        ledger.spend(Guarantee(epsilon, 1e-6, rho=zcdp_rho(epsilon, 1e-6)), "the rest")
        assert ledger.remaining_rho <= 1e-9
    assert ledger.remaining[0] <= (1e-6 if rho is None else 1e-3)


def test_what_a_concentrated_ledger_has_left_is_not_the_largest_pure_release(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, composition="zcdp", data_set="study")
    assert ledger.remaining == (pytest.approx(1.0, rel=1e-6), 1e-6)
    assert ledger.remaining_rho == pytest.approx(zcdp_rho(1.0, 1e-6))
    ledger.spend(Guarantee(0.1), "first")
    assert ledger.remaining_rho == pytest.approx(zcdp_rho(1.0, 1e-6) - 0.1**2 / 2)


def test_what_is_spent_with_further_releases(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="study")
    ledger.spend(Guarantee(0.1), "first")
    assert ledger.spent_with(Guarantee(0.2), Guarantee(0.9)) == (1.2, 0.0)
    assert ledger.spent == (0.1, 0.0)
    with refused(LedgerError):
        ledger.spent_with(Guarantee(0.2, adjacency="add_or_remove_one"))


# Opening again.


def test_a_ledger_opens_again_with_its_limits(path):
    first = PrivacyLedger.create(
        path, epsilon=0.3, delta=1e-6, adjacency="add_or_remove_one", composition="zcdp", data_set=" Café, ward 3 "
    )
    first.spend(Guarantee(0.05, adjacency=Adjacency.ADD_OR_REMOVE_ONE), "one")
    for again in (PrivacyLedger(path), PrivacyLedger(str(path))):
        assert (again.epsilon, again.delta) == (0.3, 1e-6)
        assert (again.adjacency, again.composition) == (Adjacency.ADD_OR_REMOVE_ONE, "zcdp")
        assert again.data_set == "Café, ward 3"
        assert again.entries() == first.entries()
        assert again.seal == first.seal == first.entries()[-1].hash
    assert "0.3" in repr(first)
    assert "ward 3" in repr(first)


@pytest.mark.parametrize("data_set", ["", "  ", "two\nlines", "x" * 201, None, 3, "a\x00b"])
def test_a_data_set_has_a_name(path, data_set):
    with refused(InvalidParameterError):
        PrivacyLedger.create(path, epsilon=1.0, data_set=data_set)
    with pytest.raises(TypeError):
        PrivacyLedger.create(path, epsilon=1.0)
    assert not path.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -0.1},
        {"epsilon": 1.0, "adjacency": "swap"},
        {"epsilon": 1.0, "composition": "advanced"},
    ],
)
def test_limits_out_of_range_are_refused_and_no_file_is_made(path, options):
    with refused(InvalidParameterError):
        PrivacyLedger.create(path, data_set="study", **options)
    assert not path.exists()


def test_opening_makes_no_ledger(path):
    with refused(LedgerError):
        PrivacyLedger(path)
    with pytest.raises(TypeError):  # what version 0.1 took for an order to begin anew
        PrivacyLedger(path, epsilon=1.0)
    assert not path.exists()


def test_a_ledger_removed_behind_our_back_is_not_made_anew(path):
    ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="study")
    shutil.rmtree(path)
    for attempt in (lambda: ledger.spend(Guarantee(0.1), "gone"), ledger.entries, lambda: ledger.remaining):
        with refused(LedgerError) as info:
            attempt()
        assert "no ledger" in str(info.value)
    assert not path.exists()


def test_odd_paths(tmp_path):
    folder = tmp_path / "a #? %41 'b' ü"
    folder.mkdir()
    ledger = PrivacyLedger.create(folder / "l?mode=memory#x.db", epsilon=1.0, data_set="study")
    ledger.spend(Guarantee(0.5), "one")
    assert len(PrivacyLedger(folder / "l?mode=memory#x.db").entries()) == 1
    for attempt in (PrivacyLedger, lambda where: PrivacyLedger.create(where, epsilon=1.0, data_set="study")):
        with refused(LedgerError):
            attempt(folder)
    with refused(LedgerError):
        PrivacyLedger.create(tmp_path / "missing" / "l", epsilon=1.0, data_set="study")


# Entries are never changed.


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE spend SET guarantee = '{}'",
        "UPDATE spend SET entry = 7 WHERE entry = 1",
        "UPDATE OR REPLACE spend SET what = 'nothing'",
        "DELETE FROM spend",
        "DELETE FROM spend WHERE entry = 1",
        "UPDATE ledger SET epsilon = '100.0'",
        "DELETE FROM ledger",
        "INSERT OR REPLACE INTO spend VALUES (1, '', 'cheaper', '{}', '')",
        "REPLACE INTO ledger SELECT * FROM ledger",
        "INSERT INTO ledger VALUES (2, 3, '100.0', '0.0', 'replace', 'basic', 'study', '', '', 'row', '')",
    ],
)
def test_no_statement_changes_what_was_written(path, statement):
    ledger = PrivacyLedger.create(path, epsilon=1.0, data_set="study")
    ledger.spend(Guarantee(0.25), "first")
    ledger.spend(Guarantee(0.5), "second")
    before = ledger.entries()
    with pytest.raises(sqlite3.IntegrityError):
        raw(path, statement)
    assert PrivacyLedger(path).entries() == before


# Files that cannot be used.


def filled(path, spends=5):
    ledger = PrivacyLedger.create(path, epsilon=100.0, delta=1e-3, data_set="study")
    for number in range(spends):
        ledger.spend(Guarantee(0.1, 1e-6, assumptions=("x" * 500,)), f"release {number}")
    return (path / DATABASE).read_bytes()


def use(path):
    """Open, read and spend: all that a release does with a ledger."""
    ledger = PrivacyLedger(path)
    entries = ledger.entries()
    ledger.spend(Guarantee(0.1), "one more")
    return entries, ledger.spent, ledger.remaining


@pytest.mark.parametrize(
    "harm", [lambda path: (path / DATABASE).write_bytes(b""), lambda path: (path / DATABASE).unlink()]
)
def test_an_emptied_ledger_is_refused_and_not_taken_for_a_new_one(path, harm):
    PrivacyLedger.create(path, epsilon=1.0, data_set="study").spend(Guarantee(0.5), "look")
    harm(path)
    for attempt in (PrivacyLedger, lambda where: PrivacyLedger.create(where, epsilon=1.0, data_set="study")):
        with refused(LedgerError):
            attempt(path)
    assert not any(file.stat().st_size for file in path.iterdir())


def test_another_sqlite_file_is_refused_and_left_alone(path):
    path.mkdir()
    raw(path, "CREATE TABLE spend (x)")
    content = (path / DATABASE).read_bytes()
    for attempt in (PrivacyLedger, lambda where: PrivacyLedger.create(where, epsilon=1.0, data_set="study")):
        with refused(LedgerError):
            attempt(path)
    assert (path / DATABASE).read_bytes() == content


def test_a_later_format_is_refused(path):
    filled(path)
    raw(path, "DROP TRIGGER ledger_UPDATE")
    raw(path, "UPDATE ledger SET format = 99")
    with refused(LedgerError):
        PrivacyLedger(path)


@pytest.mark.parametrize(
    "column", ["epsilon", "delta", "adjacency", "unit", "composition", "data_set", "created", "nonce", "hash"]
)
@pytest.mark.parametrize("value", ["x", "-1.0", "nan", b"\xff\xfe"])
def test_damaged_limits_are_refused(path, column, value):
    filled(path)
    raw(path, "DROP TRIGGER ledger_UPDATE")
    raw(path, f"UPDATE ledger SET {column} = ?", value)
    with refused(LedgerError):
        PrivacyLedger(path)


@pytest.mark.parametrize("value", ["", "{}", "[]", "3", "null", '{"epsilon": "0.1"}', b"\xff\xfe", '"text"'])
def test_damaged_entries_are_refused(path, value):
    filled(path)
    raw(path, "DROP TRIGGER spend_UPDATE")
    ledger = PrivacyLedger(path)
    raw(path, "UPDATE spend SET guarantee = ? WHERE entry = 3", value)
    spend = lambda: ledger.spend(Guarantee(0.1), "more")  # noqa: E731
    for attempt in (lambda: PrivacyLedger(path), ledger.entries, spend, lambda: ledger.spent):
        with refused(LedgerError):
            attempt()


# Rights.


def as_ordinary_user(function):
    """Run in a child without the rights of root, which no permission stops."""

    def drop_and_run():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return function()

    return in_child(drop_and_run, expected=(Exception,))


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="eigenveil-ledger-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


needs_users = pytest.mark.skipif(not hasattr(os, "setuid"), reason="needs users and os.fork")


def assert_unwritable(error):
    with refused(LedgerError) as info:
        raise error
    assert "writ" in str(info.value) or "read" in str(info.value)


@needs_users
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_a_read_only_ledger_can_be_read_and_refuses_spends(open_folder, file_mode, folder_mode):
    path = open_folder / "l"
    PrivacyLedger.create(path, epsilon=1.0, data_set="study").spend(Guarantee(0.1), "one")
    (path / DATABASE).chmod(file_mode)
    path.chmod(folder_mode)
    assert as_ordinary_user(lambda: len(PrivacyLedger(path).entries())) == 1
    assert_unwritable(as_ordinary_user(lambda: PrivacyLedger(path).spend(Guarantee(0.1), "two")))
    assert len(PrivacyLedger(path).entries()) == 1


@needs_users
@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o000, 0o777), (0o666, 0o000)])
def test_a_ledger_that_may_not_be_read_is_refused(open_folder, file_mode, folder_mode):
    path = open_folder / "l"
    PrivacyLedger.create(path, epsilon=1.0, data_set="study")
    (path / DATABASE).chmod(file_mode)
    path.chmod(folder_mode)
    assert_unwritable(as_ordinary_user(lambda: PrivacyLedger(path)))


@needs_users
def test_no_ledger_is_made_in_a_read_only_folder(open_folder):
    open_folder.chmod(0o555)
    assert_unwritable(as_ordinary_user(lambda: PrivacyLedger.create(open_folder / "l", epsilon=1.0, data_set="study")))
