"""Names that a caller gives are kept and shown, and what is misspelt or swapped is told in one sentence."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from eigenveil import LocalPCA, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, score_map
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError, NoiseWarning, PrivacyWarning
from eigenveil.tables.open import open_table
from helpers import refused

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.uniform(0, 1, size=(4000, 3)), columns=["age", "alk.phos", "sgot"])
TARGET = pd.Series(0.5 * FRAME["age"], name="chol")
FRAMES = {
    "pandas": FRAME,
    "another index": FRAME.set_index(np.arange(4000)[::-1]),
    "polars": pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME}),
}


# Names beside a target.


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(("target", "name"), [(TARGET, "chol"), (TARGET.to_numpy(), "y")])
def test_a_ridge_takes_bounds_by_the_names_of_a_frame(kind, target, name):
    X, bounds = FRAMES[kind], {"alk.phos": (0, 1), "age": (0, 1), "sgot": (0, 1), name: (0, 2)}
    model = PrivateRidge(bounds=bounds, epsilon=5.0).fit(X, target)
    assert model.release_.feature_names == ("age", "alk.phos", "sgot", name)
    assert model.feature_names_in_.tolist() == ["age", "alk.phos", "sgot"]
    assert model.predict(X).shape == (4000,)
    assert np.allclose(model.coef_, [0.5, 0, 0], atol=0.1)


def test_a_ridge_that_collects_keeps_names_too():
    bounds = {"age": (0, 1), "alk.phos": (0, 1), "sgot": (0, 1), "chol": (0, 2)}
    model = PrivateRidge(bounds=bounds, epsilon=5.0)
    for start in (0, 2000):
        model.partial_fit(FRAME[start : start + 2000], TARGET[start : start + 2000])
        assert model.feature_names_in_.tolist() == ["age", "alk.phos", "sgot"]
    assert model.fit_moments().feature_names_in_.tolist() == ["age", "alk.phos", "sgot"]


def test_a_target_of_the_name_of_a_feature_gets_another():
    X = FRAME.rename(columns={"age": "y"})
    assert PrivateRidge(bounds=(0, 2), epsilon=9.0).fit(X, TARGET.to_numpy()).release_.feature_names[-1] == "y_"


# Plans.


def test_a_plan_for_bounds_by_name_is_that_of_the_table():
    model = PrivatePCA(1, bounds=dict.fromkeys(FRAME, (0, 1)))
    plan = model.plan(3)
    assert plan.most_rows.rule == model.plan(open_table(FRAME)).most_rows.rule
    assert model.fit(FRAME, plan=plan).n_features_in_ == 3
    with refused(InvalidParameterError):
        model.plan(8)


# What is misspelt or swapped.


@pytest.mark.parametrize("kind", [PrivatePCA, PrivateSparsePCA, PrivateCovariance, PrivateRidge, LocalPCA])
def test_a_misspelt_parameter_is_told_with_the_nearest(kind):
    with refused(InvalidParameterError) as info:
        kind(mechanims="gaussian")
    assert f"{kind.__name__} has no parameter 'mechanims', did you mean mechanism." == str(info.value)
    assert clone(kind(mechanism="gaussian")).get_params()["mechanism"] == "gaussian"


def test_arguments_of_a_score_map_that_are_swapped():
    pca = PrivatePCA(2, epsilon=5.0, bounds=(0, 1)).fit(FRAME)
    for words in ((FRAME, pca), (pca.release_, FRAME), (pca, FRAME)):
        with refused(InvalidParameterError) as info:
            score_map(*words, epsilon=1.0)
        assert "pca.release_" in str(info.value)


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 5)], [(0, 1), (0, 5), (0, 1)], np.array([[0, 1]] * 8)])
def test_a_list_of_pairs_is_told_how_to_become_bounds(pairs):
    with refused(InvalidParameterError) as info:
        PrivatePCA(1, bounds=pairs).plan(len(pairs))
    assert "dict(zip(columns, bounds))" in str(info.value)
    assert PrivatePCA(1, bounds=dict(enumerate(map(tuple, pairs)))).plan(len(pairs)).n_features == len(pairs)
    with refused(InvalidParameterError) as info:
        PrivatePCA(1, bounds=(1, 0)).plan(3)
    assert "low below high" in str(info.value)


# Names in sentences.


def test_a_feature_is_called_by_its_name():
    X = FRAME.assign(**{"alk.phos": 1.0, "jane@home.org": 1.0, "5.1": 1.0})
    with pytest.warns(NoiseWarning, match="No range was found of alk.phos, x3, x4: "):
        PrivateCovariance(epsilon=9.0).fit(pd.concat([X] * 20))
    with refused(InvalidParameterError) as info:
        PrivatePCA(1, bounds={"age": (0, 1), "sgot": (0, 1)}).fit(FRAME)
    assert "'alk.phos'" in str(info.value)


def test_a_first_line_that_nobody_confirmed_is_not_quoted(tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    with refused(InvalidParameterError, "alk.phos") as info:
        PrivatePCA(1, bounds={"age": (0, 1), "sgot": (0, 1)}).fit(tmp_path / "rows.csv")
    assert "number 2" in str(info.value)
    named = open_table(tmp_path / "rows.csv", ["age", "alk.phos", "sgot"])
    with refused(InvalidParameterError) as info:
        PrivatePCA(1, bounds={"age": (0, 1), "sgot": (0, 1)}).fit(named)
    assert "'alk.phos'" in str(info.value)


# Identifiers.


def heard(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(one.message) for one in caught if issubclass(one.category, PrivacyWarning)]


@pytest.mark.parametrize("name", ["id", "patient_id"])
@pytest.mark.parametrize("kind", ["pandas", "csv"])
def test_an_identifier_by_its_name_is_told_where_nobody_chose_it(name, kind, tmp_path):
    X = FRAME.assign(**{name: 1.0})  # of one value: it is the name that tells
    X.to_csv(tmp_path / "rows.csv", index=False)
    data = X if kind == "pandas" else tmp_path / "rows.csv"
    (sentence,) = heard(lambda: PrivatePCA(1).fit(data))
    assert (f"column '{name}' may identify people" if kind == "pandas" else "column number 4") in sentence
    assert heard(lambda: PrivatePCA(1, norm_bound=2.0).partial_fit(data).partial_fit(data)) == [sentence]
    # Chosen by the caller, in any way.
    assert heard(lambda: PrivatePCA(1).fit(open_table(data, list(X.columns)))) == []
    assert heard(lambda: PrivatePCA(1, bounds=dict.fromkeys(X, (0, 1))).fit(data)) == []
    assert heard(lambda: PrivatePCA(1, privacy_unit=name).fit(X.assign(**{name: range(4000)}))) == []


def test_values_that_are_all_distinct_tell_nothing():
    assert heard(lambda: PrivatePCA(1).fit(FRAME.assign(visits=np.arange(4000.0)))) == []
    assert heard(lambda: PrivatePCA(1).fit(FRAME.assign(id=1.0).to_numpy())) == []


def test_the_command_line_tells_of_an_identifier_before_it_spends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(id=1.0).to_parquet("rows.parquet")
    words = ["pca", "rows.parquet", "-k", "1", "--epsilon", "1", "--output", "a.npz"]
    told = " ".join(CliRunner().invoke(app, [*words, "--dry-run"]).stderr.replace("│", " ").split())
    assert "column 'id' may identify people" in told
    assert "by --privacy-unit" in told
    done = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert any("column 'id' may identify people" in one for one in done["warnings"])
