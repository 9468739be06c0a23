"""No release without its spend: under kills at each step, and in races for the last of the budget."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.accounting import PrivacyLedger, exact
from eigenveil.errors import BudgetError, LedgerError, ReleaseFileError
from eigenveil.gate import release as released
from eigenveil.guarantee import Guarantee
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.releases.record import load_release
from helpers import in_child, start_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

COST = 0.001
D = 8


def make_mechanism():
    return MECHANISMS["matrix_laplace"](epsilon=COST, delta=0.0, n_features=D, n_components=2, adjacency="replace_one")


@pytest.fixture(scope="module")
def moments():
    rows = np.random.default_rng(1).normal(size=(100, D))
    return SecondMoments(RowBound(1.0, bits=8), D).update(rows)


def problems(folder, path):
    """What is wrong with a folder of release files and the ledger that should have paid for them."""
    ledger = PrivacyLedger(path)  # must open: a killed writer leaves no damage
    paid = {entry.entry for entry in ledger.entries()}
    found, complete = [], []
    for file in folder.iterdir():
        try:
            release = load_release(file)
        except ReleaseFileError:
            if not file.name.startswith("."):
                found.append(f"{file.name} is incomplete under its final name")
            complete.append(None)  # some of it may have been seen, so it counts as a release
            continue
        complete.append(release.origin.ledger_entry)
        if complete[-1] not in paid:
            found.append(f"{file.name} names a spend that is not in the ledger")
    named = [entry for entry in complete if entry is not None]
    if len(named) != len(set(named)):
        found.append("two releases name one spend")
    if len(complete) > len(paid):
        found.append("there are more releases than spends")
    if sum(exact(entry.guarantee.epsilon) for entry in ledger.entries()) > exact(ledger.epsilon):
        found.append("the ledger is over its limit")
    return found


def killed_by_itself(function):
    """Run in a child that ends itself by SIGKILL somewhere inside `function`."""
    child = start_child(function)
    status = os.waitpid(child.pid, 0)[1]
    os.close(child.pipe)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("point", ["before the spend", "inside the transaction", "after the spend", "at the save"])
def test_a_kill_at_each_step_is_on_the_safe_side(tmp_path, moments, monkeypatch, point):
    folder, path = tmp_path / "releases", tmp_path / "ledger"
    folder.mkdir()
    ledger, mechanism = PrivacyLedger.create(path, epsilon=1.0, data_set="study"), make_mechanism()

    def run():
        if point == "before the spend":
            monkeypatch.setattr(PrivacyLedger, "spend", die)
        if point == "inside the transaction":
            with ledger._file._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO spend VALUES (1, '', '', '', '')")
                die()
        if point == "after the spend":
            monkeypatch.setattr(type(mechanism), "draw", die)
        if point == "at the save":
            monkeypatch.setattr(os, "replace", die)
        released(mechanism, moments, ledger=ledger).save(folder / "release.npz")

    assert killed_by_itself(run)
    assert problems(folder, path) == []
    spent = 0 if point in ("before the spend", "inside the transaction") else 1
    assert len(PrivacyLedger(path).entries()) == spent
    assert not (folder / "release.npz").exists()


def test_control_the_flawed_order_is_caught(tmp_path, moments):
    # Sample and save first, spend after: a kill between the two is a release that nobody paid for.
    folder, path = tmp_path / "releases", tmp_path / "ledger"
    folder.mkdir()
    ledger, mechanism = PrivacyLedger.create(path, epsilon=1.0, data_set="study"), make_mechanism()

    def flawed(kill):
        release = released(mechanism, moments)
        entry = len(ledger.entries()) + 1
        planted = replace(release, origin=replace(release.origin, ledger_entry=entry))
        planted.save(folder / f"release-{entry}.npz")
        if kill:
            die()
        ledger.spend(release.guarantee, "flawed")

    in_child(lambda: flawed(kill=False))
    assert problems(folder, path) == []  # unharmed, the flaw cannot be seen
    assert killed_by_itself(lambda: flawed(kill=True))
    assert problems(folder, path) == [
        "release-2.npz names a spend that is not in the ledger",
        "there are more releases than spends",
    ]


def race(attempt, processes=8):
    """Let `attempt` loose in all processes at once; return what each came back with."""
    waiting, starting = os.pipe()

    def wait_and_try():
        os.close(starting)
        os.read(waiting, 1)  # ends for all of them when the parent closes the other end
        return attempt()

    children = [start_child(wait_and_try, expected=(BudgetError,)) for _ in range(processes)]
    os.close(waiting)
    os.close(starting)
    return [child.result() for child in children]


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.heavy) for turn in range(1, 100))])
@pytest.mark.parametrize(("left", "cost", "winners"), [(0.25, 0.1, 2), (0.3, 0.1, 3)])
def test_a_race_for_the_last_of_the_budget_has_as_many_winners_as_fit(tmp_path, left, cost, winners, turn):
    nothing, path = tmp_path / "releases", tmp_path / "ledger"
    nothing.mkdir()
    ledger = PrivacyLedger.create(path, epsilon=1.5 + left, data_set="study")
    ledger.spend(Guarantee(1.5), "before")
    answers = race(lambda: PrivacyLedger(path).spend(Guarantee(cost), "race").entry)
    won = [answer for answer in answers if not isinstance(answer, BudgetError)]
    assert len(won) == len(set(won)) == winners
    assert len(answers) == 8
    assert sorted(won) == [entry.entry for entry in ledger.entries()][1:]
    assert problems(nothing, path) == []


def test_a_race_of_whole_releases(tmp_path, moments):
    folder, path = tmp_path / "releases", tmp_path / "ledger"
    folder.mkdir()
    PrivacyLedger.create(path, epsilon=3 * COST, data_set="study")
    ledger, mechanism = PrivacyLedger(path), make_mechanism()

    def attempt():
        release = released(mechanism, moments, ledger=ledger)
        release.save(folder / f"{os.getpid()}.npz")
        return release.integers["matrix"].tolist()

    answers = race(attempt)
    won = [answer for answer in answers if not isinstance(answer, BudgetError)]
    assert len(won) == 3
    assert len({str(answer) for answer in won}) == 3  # no two children drew the same noise
    assert problems(folder, path) == []
    assert len(list(folder.iterdir())) == 3


def test_a_race_to_make_the_ledger_makes_one(tmp_path):
    path = tmp_path / "ledger"

    def attempt():
        try:
            PrivacyLedger.create(path, epsilon=0.3, data_set="study")
            made = True
        except LedgerError:
            made = False
        return made, PrivacyLedger(path).spend(Guarantee(0.1), "race").entry

    answers = race(attempt)
    assert sum(not isinstance(answer, BudgetError) for answer in answers) == 3
    assert sum(answer[0] for answer in answers if not isinstance(answer, BudgetError)) <= 1


def test_control_check_before_spend_without_a_lock_is_caught(tmp_path):
    # Two processes that both look first and write later: what BEGIN IMMEDIATE is for.
    folder, path = tmp_path / "releases", tmp_path / "ledger"
    folder.mkdir()
    first, second = PrivacyLedger.create(path, epsilon=1.0, data_set="study"), PrivacyLedger(path)
    guarantee = Guarantee(0.75)
    first.check(guarantee)
    second.check(guarantee)
    for ledger in (first, second):
        ledger._file.append(guarantee, "looked at before", lambda entries: None)
    assert problems(folder, path) == ["the ledger is over its limit"]
