"""A sentence stays readable however long a name is: none is echoed whole."""

import json

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge, Schema
from eigenveil.errors import EigenveilError
from eigenveil.federation import SiteKeys, invite
from eigenveil.federation.rounds import Round
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from helpers import invoked, refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

LONG = "n" * 10_000
ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 2)), columns=["age", "mass"])
DECLARED = Schema((Column("age", range=(0, 9)), Column("mass", range=(0, 9))))


def declared(**columns):
    return Schema.from_dict({"version": 1, "columns": columns})


def release():
    return PrivateCovariance(epsilon=1.0, schema=DECLARED).fit(ROWS).release_


def an_invitation():
    return invite(PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=DECLARED), ["north", "south"])


PATHS = {
    "columns": lambda: open_table(ROWS, columns=[LONG]),
    "columns twice": lambda: open_table(ROWS, columns=[LONG, LONG]),
    "categories": lambda: open_table(ROWS, categories={LONG: ["a"]}),
    "privacy unit": lambda: open_table(ROWS, privacy_unit=LONG),
    "kind": lambda: declared(**{LONG: {"kind": "sort"}}),
    "key": lambda: Schema.from_dict({"version": 1, "columns": {"age": {}}, LONG: 1}),
    "column twice": lambda: Schema((Column(LONG), Column(LONG))),
    "bounds": lambda: PrivatePCA(1, bounds={"age": (0, 1), "mass": (0, 1), LONG: (0, 1)}).fit(ROWS),
    "target": lambda: PrivateRidge(target=LONG, epsilon=1.0).fit(ROWS),
    "feature": lambda: release().matrix.position(LONG),
    "site": lambda: SiteKeys.create(LONG, an_invitation().terms),
    "format of a round": lambda: Round.from_json(json.dumps({"format": LONG, "fingerprint": ""})),
}


@pytest.mark.parametrize("path", PATHS)
def test_no_name_is_echoed_whole(path):
    with refused(EigenveilError, "n" * 100) as caught:
        PATHS[path]()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "options",
    [
        ("--columns", LONG),
        ("--bounds", f"{LONG}=0:1"),
        ("--categories", f"{LONG}=a"),
    ],
    ids=["columns", "bounds", "categories"],
)
def test_no_option_is_echoed_whole(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROWS.to_csv("t.csv", index=False)
    assert len(invoked("covariance", "t.csv", "--epsilon", 1, *options, fails=EigenveilError)) < 400
