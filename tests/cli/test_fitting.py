"""`eigenveil pca`, `covariance` and `ridge`: from files to a release, and what they ask before."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, Schema, load_release
from eigenveil.cli import app
from eigenveil.cli import ledger as budget
from eigenveil.cli.tables import expand
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, InvalidParameterError, LedgerError
from eigenveil.estimators.preparation import CHOICES
from eigenveil.estimators.split import NORM_SHARE
from eigenveil.tables.base import tracked_batches
from eigenveil.tables.schema import Column
from helpers import invoked as invoke

ROWS = 4000


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with people.csv: two numbers that go together, a category, and a column nobody may read."""
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 60, ROWS)
    income = 1000 * age + rng.normal(0, 2000, ROWS)
    sex = rng.choice(["F", "M", "X"], ROWS)
    lines = [f"{a:.2f},{i:.2f},{s},secret{n}" for n, (a, i, s) in enumerate(zip(age, income, sex, strict=True))]
    for name, part in (("people.csv", lines), ("part-1.csv", lines[:1000]), ("part-2.csv", lines[1000:])):
        (tmp_path / name).write_text("\n".join(["age,income,sex,name", *part, ""]))
    np.save(tmp_path / "people.npy", np.column_stack([age, income]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


NUMBERS = ("--columns", "age,income", "--bounds", "age=20:60", "--bounds", "income=0:70000", "--epsilon", 5)


def test_pca_writes_a_release_and_says_what_it_is(folder):
    result = invoke("pca", "people.csv", "-k", 1, *NUMBERS)
    assert "5-DP (pure)" in result.stdout
    assert "release.npz" in result.stdout
    assert "This will be spent" in result.stderr
    assert "This will be spent" not in result.stdout
    release = load_release("release.npz")
    assert release.guarantee.epsilon == 5.0
    assert release.feature_names == ("age", "income")
    assert np.abs(release.components[0]).argmax() == 1  # in their own units
    invoke("pca", "people.csv", "-k", 1, *NUMBERS, "--standardize", "--output", "correlation.npz")
    assert np.abs(load_release("correlation.npz").components[0]).min() > 0.3


@pytest.mark.parametrize(
    ("words", "statistic"),
    [
        (("--epsilon", 0.02, "--no-center"), "normalized"),
        (("--epsilon", 1, "--standardize"), "kendall"),
        (("--epsilon", 5, "--standardize"), "clipped"),
        (("--epsilon", 0.5), "spatial_sign"),
        (("--epsilon", 5), "clipped"),
        (("--epsilon", 1, "--delta", 1e-7, "--bounds", "age=20:60", "--bounds", "income=0:70000"), "clipped"),
        (("--epsilon", 0.01, "--delta", 1e-7, "--bounds", "age=20:60", "--bounds", "income=0:70000"), "clipped"),
    ],
)
def test_the_route_that_is_shown_is_the_one_that_runs(folder, words, statistic):
    """What was printed before the spend, read off the text, is what the release has on record."""
    pca = ("pca", "people.csv", "-k", 1, "--columns", "age,income", *words)
    planned = json.loads(invoke(*pca, "--dry-run", "--json").stdout)
    shown = " ".join(invoke(*pca).stderr.split())
    release = load_release("release.npz")
    origin = release.origin
    assert origin.row_rule.statistic == statistic
    assert (f"{ROWS:,} rows" in shown) == (planned["n_rows"] == ROWS)
    assert "rows on" not in shown
    (route,) = planned["routes"]
    assert (route["statistic"], route["mechanism"]) == (statistic, origin.mechanism)
    assert f"; {origin.mechanism} " in shown
    # Epsilon of the release, and of what is found privately.
    chosen = {
        name: float(found[1])
        for name, what in CHOICES.items()
        if (found := re.search(f"epsilon ([-.e0-9]+) to choose {what} privately", shown)) is not None
    }
    assert tuple(sorted(chosen)) == origin.chosen_privately
    assert chosen == route["choices"]
    drawn = re.search("epsilon ([-.e0-9]+) for the release", shown)
    assert (drawn is not None) == bool(chosen)
    epsilon = release.guarantee.epsilon if drawn is None else float(drawn[1])
    assert epsilon == pytest.approx(origin.parameters["epsilon"], rel=1e-5)
    assert epsilon + sum(chosen.values()) == pytest.approx(release.guarantee.epsilon, rel=1e-5)
    # Shares of the Gaussian budget: the matrix has what they leave, and more where they were not all needed.
    parts = re.findall("([.0-9]+) of its mu squared for", shown)
    share = origin.parameters.get("share", 1.0)
    assert bool(parts) == (share < 1 or "mean" in release.integers)
    assert 1 - sum(map(float, parts)) <= share * (1 + 2e-3)  # as near as weights of averages come
    assert ("no transform" in shown) == (statistic == "kendall") == (not route["can_transform"])


def test_rows_are_counted_before_the_question_only_where_the_route_depends_on_them(folder, monkeypatch):
    counted = []
    monkeypatch.setattr(
        "eigenveil.tables.open.tracked_batches", lambda *words: counted.append(words[-1]) or tracked_batches(*words)
    )
    invoke("pca", "people.csv", "-k", 1, *NUMBERS, "--stages", 1, "--dry-run")
    assert counted == []
    few = ("pca", "people.csv", "-k", 1, "--columns", "age,income", "--epsilon", 1)
    invoke(*few, "--dry-run")
    assert counted == ["counting rows"]
    # A private number of rows is not counted, and decides nothing.
    private = ("--adjacency", "add_or_remove_one")
    assert json.loads(invoke(*few, *private, "--dry-run", "--json").stdout)["n_rows"] is None
    assert counted == ["counting rows"]


def test_a_delta_of_one_over_the_rows_is_told_before_the_spend(folder):
    large = ("pca", "people.csv", "-k", 1, *NUMBERS, "--mechanism", "gaussian", "--delta", 0.01)
    told = " ".join(invoke(*large, "--dry-run").stderr.split())
    assert "delta = 0.01 is at least 1/n" in told
    assert "1/n" not in invoke(*large, "--dry-run", "--adjacency", "add_or_remove_one").stderr


def test_json_is_all_there_is_on_stdout(folder):
    told = json.loads(invoke("pca", "people.csv", "-k", 1, *NUMBERS, "--json").stdout)
    assert told["guarantee"]["epsilon"] == 5.0
    assert told["n_rows"] == ROWS
    assert np.array(told["components"]).shape == (1, 2)
    assert len(told["explained_variance"]) == 1
    assert np.array_equal(np.abs(told["components"]), np.abs(load_release(told["release"]).components))
    quiet = invoke("covariance", "people.csv", *NUMBERS, "--json", "--quiet", "--output", "c.npz")
    assert quiet.stderr == ""
    assert np.array(json.loads(quiet.stdout)["covariance"]).shape == (2, 2)
    assert invoke("covariance", "people.csv", *NUMBERS, "--quiet", "--output", "d.npz").output == ""


def test_parts_patterns_parquet_and_npy_are_one_table(folder):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv("people.csv"), "people.parquet")
    for number, data in enumerate((["people.csv"], ["part-?.csv"], ["part-1.csv", "part-2.csv"], ["people.parquet"])):
        told = json.loads(invoke("pca", *data, "-k", 1, *NUMBERS, "--json", "--output", f"{number}.npz").stdout)
        assert told["n_rows"] == ROWS
    words = ("pca", "people.npy", "-k", 1, "--columns", "1", "--norm-bound", 7e4, "--epsilon", 1, "--json")
    told = json.loads(invoke(*words).stdout)
    assert told["feature_names"] is None
    assert expand(["part-*.csv", "people.npy"]) == ["part-1.csv", "part-2.csv", "people.npy"]
    invoke("pca", "no-*.csv", "-k", 1, "--epsilon", 1, fails=InvalidDataError)
    invoke("pca", "people.npy", "-k", 1, "--epsilon", 1, "--columns", "age", fails=InvalidParameterError)


def test_categories_are_one_hot_and_bounded_by_construction(folder):
    words = ("covariance", "people.csv", "--epsilon", 20, "--json", "--no-center", "--categories", "sex=F,M")
    told = json.loads(invoke(*words, "--columns", "sex").stdout)
    assert told["feature_names"] == ["sex=F", "sex=M"]
    assert told["norm_bound"] == 1.0  # one categorical column
    assert np.diag(told["covariance"]) == pytest.approx([1 / 3, 1 / 3], abs=0.05)
    words = (*words, "--columns", "age,sex", "--bounds", "20:60", "--output", "both.npz")
    told = json.loads(invoke(*words).stdout)
    assert told["norm_bound"] == pytest.approx(2**0.5)
    assert told["scale"] == [1 / 20, 1, 1]


def test_what_is_computed_from_the_rows_is_an_option(folder):
    told = json.loads(invoke("covariance", "people.csv", *NUMBERS, "--json").stdout)
    assert told["location"] == pytest.approx([40, 40000], rel=0.2)
    words = ("pca", "people.csv", "-k", 1, "--columns", "age,income", "--epsilon", 2, "--json", "--force")
    told = json.loads(invoke(*words, "--standardize", "--bounds", "age=20:60", "--bounds", "income=0:70000").stdout)
    assert told["scale"][0] > 100 * told["scale"][1]
    assert np.abs(told["components"]) == pytest.approx(0.5**0.5, abs=0.01)
    Schema((Column("age", scale=1.0), Column("income", scale=1000.0))).save("sizes.yaml")
    sizes = ("--schema", "sizes.yaml", "-k", 1, "--epsilon", 2, "--json", "--force")
    told = json.loads(invoke("pca", "people.csv", *sizes, "--statistic", "spatial_sign").stdout)
    assert np.abs(told["components"]).min() > 0.5
    assert load_release("release.npz").origin.row_rule.statistic == "spatial_sign"
    told = json.loads(invoke(*words, "--adjacency", "add_or_remove_one", "--delta", "1e-6").stdout)
    assert told["guarantee"]["adjacency"] == "add_or_remove_one"


def test_ridge_from_rows_and_at_no_cost_from_a_release(folder):
    words = ("--columns", "age", "--target", "income", "--bounds", "age=20:60", "--bounds", "income=0:70000")
    told = json.loads(invoke("ridge", "people.csv", *words, "--epsilon", 50, "--json").stdout)
    assert told["coefficients"]["age"] == pytest.approx(1000, rel=0.15)
    assert "Private regression of income" in invoke("ridge", "release.npz", "--target", "income").stdout
    again = json.loads(invoke("ridge", "release.npz", "--target", "income", "--json").stdout)
    assert again["coefficients"] == told["coefficients"]
    assert again["intercept"] == told["intercept"]
    plain = json.loads(invoke("ridge", "release.npz", "--target", "income", "--alpha", told["alpha"], "--json").stdout)
    assert plain["coefficients"]["age"] == pytest.approx(told["coefficients"]["age"], rel=0.01)  # but not boosted
    told = json.loads(invoke("ridge", "people.npy", "--target", 1, "--epsilon", 50, "--bounds", "0:70000", "--json",
                             "--output", "n.npz", "--center").stdout)  # fmt: skip
    assert list(told["coefficients"]) == ["0"]


def test_ridge_of_several_targets(folder):
    rows = np.random.default_rng(0).uniform(-1, 1, size=(5000, 4))
    rows[:, 2:] = rows[:, :2] @ [[0.5, 0.1], [0.2, -0.4]]
    pd.DataFrame(rows, columns=["a", "b", "u", "v"]).to_csv("wide.csv", index=False)
    words = ("--target", "u", "--target", "v", "--epsilon", 9, "--bounds", "-1:1")
    told = json.loads(invoke("ridge", "wide.csv", "--columns", "a,b", *words, "--json").stdout)
    assert told["target"] == ["u", "v"]
    assert [one["target"] for one in told["regressions"]] == ["u", "v"]
    assert told["regressions"][1]["coefficients"]["b"] == pytest.approx(-0.4, abs=0.1)
    assert told["guarantee"]["epsilon"] == 9.0
    for again in (("ridge", "release.npz", *words[:4], "--json"), ("show", "release.npz", "--json")):
        assert json.loads(invoke(*again).stdout)["regressions"] == told["regressions"]
    for command in (("ridge", "release.npz", *words[:4]), ("show", "release.npz")):
        shown = invoke(*command).stdout
        assert "Private regression of u, v" in shown
    invoke("ridge", "release.npz", "--target", "u", "--target", "u", fails=InvalidParameterError)
    invoke("ridge", "wide.csv", "--target", "u", "--target", "u", *words[4:], fails=InvalidParameterError)


def test_ridge_refuses_before_it_spends(folder):
    ledger = PrivacyLedger.create("study.ledger", epsilon=1.0, data_set="study")
    words = ("--ledger", "study.ledger", "--epsilon", 1, "--columns", "age,income", "--norm-bound", 1)
    invoke("ridge", "people.csv", "--target", "nowhere", *words, fails=InvalidDataError)
    invoke("ridge", "people.csv", "--target", "age", "--mechanism", "eigenvector_sampling", *words,
           fails=InvalidParameterError)  # fmt: skip
    invoke("ridge", "people.csv", "--target", "sex", "--categories", "sex=F,M", *words, fails=InvalidParameterError)
    invoke("ridge", "people.npy", "--target", "7", "--epsilon", 1, fails=InvalidParameterError)
    assert ledger.spent == (0.0, 0.0)
    invoke("pca", "people.csv", "-k", 1, "--statistic", "spatial_sign", "--columns", "age,income", "--epsilon", 10)
    invoke("ridge", "release.npz", "--target", "age", fails=InvalidParameterError)
    invoke("ridge", "release.npz", "--target", "age", "--epsilon", 1, fails=InvalidParameterError)
    invoke("ridge", "nowhere.npz", "--target", "age", fails=EigenveilError)


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", 1, "--columns", "age,name"),
        ("--epsilon", 1),  # sex and name are text
        ("--epsilon", 1, "--columns", "age,income", "--bounds", "age=20:60"),
        ("--epsilon", 1, "--columns", "sex", "--categories", "sex"),
        ("--epsilon", 1, "--columns", "age", "--output", "no/such/folder.npz"),
    ],
)
def test_refused_in_one_sentence_before_any_row_is_read(folder, words, monkeypatch):
    monkeypatch.setattr("eigenveil.tables.open.tracked_batches", None)
    invoke("pca", "people.csv", "-k", 1, *words, fails=EigenveilError)
    assert not (folder / "release.npz").exists()


def test_the_ledger_is_shown_checked_and_charged(folder):
    ledger = PrivacyLedger.create("study.ledger", epsilon=6.0, data_set="study")
    words = ("pca", "people.csv", "-k", 1, *NUMBERS, "--ledger", "study.ledger")
    result = invoke(*words)
    assert "ε = 1 of 6 left after this" in " ".join(result.stderr.split())
    assert ledger.spent == (5.0, 0.0)
    assert load_release("release.npz").origin.ledger_entry == 1
    invoke(*words, "--output", "b.npz", fails=BudgetError)
    invoke(*words, "--output", "b.npz", "--adjacency", "add_or_remove_one", fails=LedgerError)
    assert not (folder / "b.npz").exists()
    PrivacyLedger.create("many.ledger", epsilon=6.0, delta=1e-6, composition="zcdp", data_set="study")
    words = (*words[:-1], "many.ledger", "--output", "z.npz", "--epsilon", 1, "--delta", 1e-7, "--dry-run", "--json")
    accounts = json.loads(invoke(*words).stdout)["ledger"]
    assert 0 < accounts["spent_after"][0] < 6


def test_a_dry_run_reads_no_row_and_spends_nothing(folder, monkeypatch):
    ledger = PrivacyLedger.create("study.ledger", epsilon=6.0, data_set="study")
    monkeypatch.setattr("eigenveil.tables.open.tracked_batches", None)
    words = ("pca", "people.csv", "-k", 1, "--columns", "age", "--statistic", "clipped", "--epsilon", 1,
             "--ledger", "study.ledger", "--dry-run")  # fmt: skip
    assert f"epsilon {float(NORM_SHARE)} to choose the norm bound privately" in invoke(*words).stderr
    told = json.loads(invoke(*words, "--json").stdout)
    (route,) = told["routes"]
    assert route["choices"] == {"norm_bound": float(NORM_SHARE)}
    assert told["guarantee"]["epsilon"] == 1.0
    assert ledger.spent == (0.0, 0.0)
    assert not (folder / "release.npz").exists()


@pytest.mark.parametrize(
    ("answer", "spends"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_it_asks_where_somebody_can_answer(folder, monkeypatch, answer, spends):
    monkeypatch.setattr(budget, "somebody_answers", lambda: True)
    words = ("pca", "people.csv", "-k", 1, *NUMBERS, "--quiet")
    result = CliRunner().invoke(app, [str(word) for word in words], input=answer)
    assert result.exit_code == (0 if spends else 1)
    assert "Continue? [y/N]" in result.stderr
    assert (folder / "release.npz").exists() == spends
    # --yes answers beforehand.
    assert "Spend it?" not in invoke(*words, "--yes", "--output", "yes.npz").stderr
