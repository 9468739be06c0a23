"""`--privacy-unit` and `--unit-weight`: persons with many rows on the command line, from files to reports."""

import json
import re

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateRidge, Schema, load_release
from eigenveil.errors import EigenveilError, InvalidDataError, InvalidParameterError, LedgerError
from eigenveil.guarantee import Unit
from eigenveil.tables.schema import Column
from helpers import invoked as invoke

PATIENTS, VISITS = 600, 7919
NUMBERS = ("--bounds", "age=20:60", "--bounds", "income=0:70000", "--epsilon", 5)
PERSON = (*NUMBERS, "--privacy-unit", "patient")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with visits.csv, its rows in no order, and a schema that names the persons."""
    rng = np.random.default_rng(5)
    who = np.concatenate([np.arange(PATIENTS), rng.integers(0, PATIENTS, VISITS - PATIENTS)])
    rng.shuffle(who)
    age = rng.uniform(20, 60, PATIENTS)[who]
    lines = [f"p{w + 700000},{a:.1f},{1000 * a + rng.normal(0, 2000):.0f}" for w, a in zip(who, age, strict=True)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,age,income", *lines, ""]))
    columns = (Column("patient", "privacy_unit"), Column("age", range=(20, 60)), Column("income", range=(0, 70000)))
    Schema(columns, declared_by="Office").save(tmp_path / "visits.schema.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_of_units(release, unit_weight="equal"):
    assert release.guarantee.unit is Unit.PERSON
    assert release.origin.row_rule.unit_weight == unit_weight
    assert release.origin.n_rows == PATIENTS
    assert "patient" not in (release.feature_names or ())


@pytest.mark.parametrize(("given", "weight"), [((), "equal"), (("--unit-weight", "by_rows"), "by_rows")])
def test_pca_of_persons(folder, given, weight):
    result = invoke("pca", "visits.csv", "-k", 1, *PERSON, *given)
    assert "unit: all rows of one privacy unit" in result.stdout
    assert "p70000" not in result.output
    assert not re.search(rf"(?<!\d){VISITS // 1000},?{VISITS % 1000}(?!\d)", result.output)
    assert_of_units(load_release("release.npz"), weight)


@pytest.mark.parametrize(
    "words", [("covariance",), ("ridge", "--target", "income"), ("sparse-pca", "-k", 1)], ids=lambda words: words[0]
)
def test_every_command_takes_persons_by_option_and_by_schema(folder, words):
    name, *goal = words
    told = json.loads(invoke(name, "visits.csv", *goal, *PERSON, "--json").stdout)
    assert (told["n_rows"], told["n_privacy_units"], told["guarantee"]["unit"]) == (None, PATIENTS, "person")
    assert_of_units(load_release("release.npz"))
    schema = ("--schema", "visits.schema.yaml", "--epsilon", 5, "--unit-weight", "by_rows", "--output", "b.npz")
    invoke(name, "visits.csv", *goal, *schema)
    assert_of_units(load_release("b.npz"), "by_rows")
    invoke("report", "release.npz")
    assert "all rows of one privacy unit" in (folder / "release.html").read_text()


def test_what_contradicts_itself_is_refused(folder):
    refusals = {
        ("--unit-weight", "by_rows", *NUMBERS, "--columns", "age,income"): "--privacy-unit",
        ("--privacy-unit", "age", *NUMBERS, "--columns", "age,income"): "cannot also be a feature",
        ("--privacy-unit", "patient", "--schema", "visits.schema.yaml", "--epsilon", 5): "--privacy-unit",
        ("--privacy-unit", "doctor", *NUMBERS): "doctor",
        (*PERSON, "--mechanism", "wishart", "--delta", 1e-6): "--privacy-unit",
    }
    for words, named in refusals.items():
        assert named in invoke("pca", "visits.csv", "-k", 1, *words, fails=EigenveilError)
    assert not (folder / "release.npz").exists()


def test_a_ledger_of_rows_is_not_charged_for_persons(folder):
    rows = PrivacyLedger.create("rows.ledger", epsilon=9.0, data_set="visits")
    told = invoke("pca", "visits.csv", "-k", 1, *PERSON, "--ledger", "rows.ledger", fails=LedgerError)
    assert "all rows of one privacy unit" in told
    assert rows.entries() == []
    privacy_units = PrivacyLedger.create("persons.ledger", epsilon=9.0, unit="person", data_set="visits")
    invoke("pca", "visits.csv", "-k", 1, *PERSON, "--ledger", "persons.ledger")
    assert [entry.guarantee.unit for entry in privacy_units.entries()] == [Unit.PERSON]
    assert json.loads(invoke("ledger", "show", "persons.ledger", "--json").stdout)["unit"] == "person"


def test_schemas_and_plans_speak_of_persons(folder):
    assert "all rows with the same patient" in invoke("schema", "visits.schema.yaml").stdout
    told = invoke(
        "plan", "--rows", 600, "-k", 1, "--epsilon", 1, "--schema", "visits.schema.yaml", "--repeats", 2
    ).stdout
    assert "--rows counts privacy units" in told


def test_a_file_without_names_takes_the_position_of_the_persons(folder):
    rng = np.random.default_rng(2)
    np.save("visits.npy", np.column_stack([rng.uniform(0, 1, (400, 2)), rng.integers(0, 50, 400)]))
    invoke("covariance", "visits.npy", "--bounds", "0:1", "--epsilon", 5, "--privacy-unit", 2)
    release = load_release("release.npz")
    assert (release.n_features, release.origin.n_rows) == (2, 50)
    invoke("pca", "visits.npy", "-k", 1, "--epsilon", 5, "--privacy-unit", "who", fails=InvalidParameterError)


def test_what_is_shown_on_the_way_counts_persons(folder):
    words = ("pca", "visits.csv", "-k", 1, "--epsilon", 5, "--privacy-unit", "patient", "--dry-run")
    told = invoke(*words, "--unit-weight", "by_rows")
    assert "differences" not in told.stderr  # pooled rows are not compared, however few the persons are
    assert f"{PATIENTS} privacy units" in told.stderr
    planned = json.loads(invoke(*words, "--json").stdout)
    assert [route["statistic"] for route in planned["routes"]] == ["spatial_sign"]
    assert planned["n_rows"] == PATIENTS
    with pytest.raises(InvalidDataError, match="times the privacy units"):
        PrivateRidge(target=0, epsilon=0.01, privacy_unit="patient", bounds=(0, 1)).plan(3, PATIENTS)
