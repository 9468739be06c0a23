"""The unit of privacy in words and accounts: one row, or one person with all of their rows."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import Adjacency, Guarantee, PrivacyLedger, RowBound, SecondMoments, gate, load_release, release
from eigenveil.accounting.composition import compose
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError, LedgerError
from eigenveil.guarantee import Numerics, Unit
from eigenveil.mechanisms import MECHANISMS
from eigenveil.moments.units import Blocks
from eigenveil.releases.compare import compare
from eigenveil.report import write_report
from helpers import refused

GOLDEN = Path(__file__).parents[1] / "golden" / "ledger_format_3.ledger"
GOLDEN_SEAL = "a8ea2b1eb43027a0d86cef2e588efbc6713224596f3fa7f8738a410dec4370d6"
ROW, PERSON = Guarantee(0.25), Guarantee(0.25, unit=Unit.PERSON)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


# Words.


@pytest.mark.parametrize(
    ("adjacency", "neighbours"),
    [
        (Adjacency.REPLACE_ONE, "replace-one adjacency"),
        (Adjacency.ADD_OR_REMOVE_ONE, "add-or-remove-one adjacency"),
    ],
)
def test_a_promise_to_persons_never_speaks_of_one_row(adjacency, neighbours):
    promise = Guarantee(0.5, 1e-6, adjacency, Numerics.EXACT, unit=Unit.PERSON)
    assert f"{neighbours}, unit: all rows of one privacy unit" in str(promise)
    told = " ".join(promise.in_words())
    assert "number of privacy units" in told
    assert "all rows of one person" in told
    for text in (told, str(promise), promise._repr_html_()):
        assert "one row" not in text
        assert "all other rows" not in text
        assert "number of rows" not in text


def test_a_promise_to_rows_says_that_a_person_stands_for_one():
    for adjacency in Adjacency:
        told = " ".join(Guarantee(0.5, adjacency=adjacency).in_words())
        assert "only if the person has one row" in told
        assert "all rows of one person" not in told


# Composition.


def test_units_do_not_mix():
    with refused(InvalidParameterError):
        compose([ROW, PERSON])
    with refused(InvalidParameterError):
        compose([compose([ROW, ROW]), PERSON])
    assert compose([PERSON, PERSON]).unit is Unit.PERSON
    assert compose([PERSON, PERSON]).epsilon == 0.5
    assert compose([PERSON]).unit is Unit.PERSON


# Ledgers.


@pytest.mark.parametrize(("unit", "kept", "other"), [("row", ROW, PERSON), ("person", PERSON, ROW)])
def test_a_ledger_counts_one_unit(path, unit, kept, other):
    PrivacyLedger.create(path, epsilon=1.0, unit=unit, data_set="study")
    ledger = PrivacyLedger(path)
    assert ledger.unit is Unit(unit)
    assert ledger.spend(kept, "kept").guarantee.unit is ledger.unit
    seal = ledger.seal
    for attempt in (ledger.check, lambda promise: ledger.spend(promise, "mixed")):
        with refused(LedgerError) as info:
            attempt(other)
        assert f"unit='{other.unit}'" in str(info.value)
        assert other.unit.in_words in str(info.value)
    assert (ledger.seal, ledger.spent) == (seal, (0.25, 0.0))
    assert PrivacyLedger(path).entries()[0].guarantee == kept


def test_a_ledger_of_format_3_is_read_and_charged_as_before(path):
    shutil.copytree(GOLDEN, path)
    ledger = PrivacyLedger(path)
    assert ledger.seal == GOLDEN_SEAL
    assert (ledger.unit, ledger.remaining) == (Unit.PERSON, (0.5, 9e-06))
    assert ledger.spend(PERSON, "a third look").entry == 3
    assert PrivacyLedger(path).remaining == (0.25, 9e-06)


# The gate, and what leaves it.


def moments_of(unit_weight="equal", sizes=(1, 4, 2, 77770)):
    """Persons of few rows and one of many; how many rows there are is told nowhere."""
    bound = RowBound(1.0, unit_weight=unit_weight)
    starts = np.cumsum([0, *sizes[:-1]])
    rows = np.random.default_rng(4).normal(size=(sum(sizes), 3))
    keys = np.arange(2 * len(sizes), dtype=np.uint64).reshape(-1, 2)
    return SecondMoments(bound, 3, ("age", "mass", "pulse")).update(Blocks(rows, starts, keys))


def mechanism_of(name, adjacency=Adjacency.REPLACE_ONE, **more):
    needs_delta = MECHANISMS[name].needs_delta
    return MECHANISMS[name](epsilon=1.0, delta=1e-6 if needs_delta else 0.0, n_features=3, adjacency=adjacency, **more)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("name", [name for name, mechanism in MECHANISMS.items() if not mechanism.needs_rank_one])
def test_every_mechanism_that_hides_sums_of_rows_promises_it_to_persons(name, adjacency):
    moments = moments_of()
    mechanism = mechanism_of(name, adjacency, accept_inexact=True)
    drawn = release(mechanism, moments)
    assert drawn.guarantee == mechanism.guarantee().for_unit(Unit.PERSON)
    assert drawn.origin.n_rows == (4 if adjacency is Adjacency.REPLACE_ONE else None)
    if "count" in drawn.integers:
        assert drawn.integers["count"] < 600  # 4 persons with noise of scale 20, and not 77,777 rows


def test_a_mechanism_for_one_row_each_refuses_persons_before_the_spend(path):
    ledger = PrivacyLedger.create(path, epsilon=9.0, delta=0.1, unit="person", data_set="study")
    for name, mechanism in MECHANISMS.items():
        if mechanism.needs_rank_one:
            with refused(InvalidParameterError) as info:
                release(mechanism_of(name), moments_of(), ledger=ledger)
            assert name in str(info.value)
            assert "privacy_unit" in str(info.value)
    assert any(mechanism.needs_rank_one for mechanism in MECHANISMS.values())
    assert ledger.entries() == []


def test_a_release_for_persons_is_paid_for_by_a_ledger_of_persons(path):
    mechanism = mechanism_of("matrix_laplace")
    rows = PrivacyLedger.create(path.with_name("rows"), epsilon=9.0, data_set="study")
    with refused(LedgerError):
        release(mechanism, moments_of(), ledger=rows)
    assert rows.entries() == []
    ledger = PrivacyLedger.create(path, epsilon=9.0, unit="person", data_set="study")
    drawn = release(mechanism, moments_of(), ledger=ledger)
    assert [(entry.entry, entry.guarantee) for entry in ledger.entries()] == [(1, drawn.guarantee)]
    assert drawn.origin.ledger_entry == 1


def test_what_was_paid_for_another_unit_is_not_drawn():
    mechanism, generator = mechanism_of("matrix_laplace"), np.random.default_rng(0)
    origin = gate.expected_origin(mechanism, RowBound(1.0).rule, mechanism.n_features, None)
    payment = gate.pay(mechanism, mechanism.guarantee(), generator, None, "rows", origin)
    with refused(InvalidParameterError):
        gate.draw(moments_of(), generator, payment)


@pytest.mark.parametrize(
    ("unit_weight", "target"),
    [("equal", "every privacy unit has the same weight"), ("by_rows", "every row has the same weight")],
)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_reports_files_and_commands_name_the_unit_and_never_the_number_of_rows(
    tmp_path, unit_weight, target, adjacency
):
    drawn = release(mechanism_of("gaussian", adjacency), moments_of(unit_weight))
    again = load_release(drawn.save(tmp_path / "persons.npz"))
    assert again.guarantee == drawn.guarantee
    assert again.origin == drawn.origin
    page = write_report(again, tmp_path / "page.html").read_text()
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "persons.npz")]).stdout
    fields = json.loads(CliRunner().invoke(app, ["show", str(tmp_path / "persons.npz"), "--json"]).stdout)
    assert (fields["n_rows"], fields["n_privacy_units"]) == (None, again.n_rows)
    assert fields["guarantee"]["unit"] == "person"
    assert target in page
    assert f"<dt>Privacy unit</dt><dd>{again.guarantee.unit.in_words}</dd>" in page
    assert "Several rows of the same person together" not in page
    for text in (page, shown, again._repr_html_(), json.dumps(fields)):
        assert not re.search(r"(?<!\d)77,?777(?!\d)", text)
        assert "one row" not in text.replace("replaced by one row", "").replace("Is one row one person?", "")
    assert "privacy units" in shown.lower()
    assert "privacy units</th>" in again._repr_html_()


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_compared_releases_of_two_units_promise_nothing_together():
    mechanism = mechanism_of("matrix_laplace")
    rows = SecondMoments(RowBound(1.0), 3, ("age", "mass", "pulse")).update(np.eye(3))
    found = compare(release(mechanism, moments_of()), release(mechanism, rows))
    assert found.together is None
    assert any("different privacy units" in note for note in found.notes)
