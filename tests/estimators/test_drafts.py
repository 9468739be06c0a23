"""A schema that was read off the table is a draft: nothing is read or spent by it until a person confirms it."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import (
    PrivacyLedger,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateScaler,
    PrivateSparsePCA,
    Schema,
)
from eigenveil.errors import InvalidParameterError
from eigenveil.estimators.score_map import score_map
from eigenveil.federation import invite
from eigenveil.tables.open import draft_schema, open_table
from eigenveil.tables.schema import Column
from helpers import invoked, refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 3)), columns=["age", "mass", "pulse"])
DRAFT = draft_schema(ROWS)
NOWHERE = "no such table.csv"  # a draft is refused before the table is even looked for
RANGES = Schema(tuple(Column(name, range=(-5, 5)) for name in ROWS.columns), draft=True)
MODELS = {
    "pca": PrivatePCA(1, epsilon=1.0),
    "sparse": PrivateSparsePCA(1, epsilon=1.0),
    "covariance": PrivateCovariance(epsilon=1.0),
    "scaler": PrivateScaler(epsilon=1.0),
    "ridge": PrivateRidge(target="pulse", epsilon=1.0),
}


class OwnSource:
    """A source of somebody's own, which carries a draft."""

    schema, n_features, feature_names, n_rows_hint = RANGES, 3, tuple(ROWS.columns), None

    def batches(self):
        raise AssertionError("rows were read")


def draft_refused():
    return refused(InvalidParameterError)


@pytest.mark.parametrize("schema", [DRAFT, RANGES], ids=["types", "ranges"])
@pytest.mark.parametrize("name", MODELS)
def test_no_estimator_reads_a_table_by_a_draft(name, schema, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=3.0, data_set="study")
    model = MODELS[name].set_params(ledger=ledger)
    for data in (ROWS, NOWHERE):
        for fit in (
            lambda data=data: model.set_params(schema=None).fit(data, schema=schema),
            lambda data=data: model.set_params(schema=schema).fit(data),
        ):
            with draft_refused() as caught:
                fit()
            assert "draft: true to draft: false" in str(caught.value)
            assert "schema.confirmed()" in str(caught.value)
    assert ledger.remaining[0] == 3.0
    model.set_params(schema=None, ledger=None)


def test_no_other_path_reads_a_table_by_a_draft():
    release = PrivatePCA(2, epsilon=1.0, schema=RANGES.confirmed()).fit(ROWS).release_
    paths = {
        "open_table": lambda: open_table(NOWHERE, schema=DRAFT),
        "collect": lambda: PrivatePCA(1, epsilon=1.0, schema=RANGES).partial_fit(ROWS),
        "fit_transform": lambda: PrivatePCA(1, epsilon=1.0, schema=RANGES).fit_transform(ROWS),
        "score_map": lambda: score_map(NOWHERE, release, epsilon=1.0, schema=RANGES),
        "round": lambda: invite(PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=RANGES), ["north", "south"]),
        "own source": lambda: PrivatePCA(1, epsilon=1.0).fit(OwnSource()),
    }
    for name, path in paths.items():
        with draft_refused() as caught:
            path()
        assert "draft: true to draft: false" in str(caught.value), name


@pytest.mark.parametrize(
    "words", ["pca -k 1", "sparse-pca -k 1", "covariance", "ridge --target pulse", "pca -k 1 --dry-run"]
)
def test_no_command_reads_a_table_by_a_draft(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROWS.to_csv("t.csv", index=False)
    RANGES.save("s.yaml")
    command, *options = words.split()
    told = invoked(command, "t.csv", *options, "--epsilon", 1, "--schema", "s.yaml", fails=InvalidParameterError)
    assert "draft: true to draft: false" in told
    assert "schema.confirmed" not in told
    invoked("federation", "invite", "--schema", "s.yaml", "--epsilon", 1, "--site", "a", "--site", "b", "-o", "d.json",
            fails=InvalidParameterError)  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml", "t.csv"]


def test_a_draft_can_be_planned_with_and_confirmed():
    assert PrivatePCA(1, epsilon=1.0, schema=DRAFT).plan(3).guarantee.epsilon == 1.0
    model = PrivatePCA(1, epsilon=1.0, schema=RANGES.confirmed()).fit(ROWS)
    assert model.release_.origin.schema == RANGES.confirmed()
