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
    "columns of the same name": lambda: open_table(ROWS.set_axis([LONG, LONG], axis=1), [LONG]),
    "categories": lambda: open_table(ROWS, categories={LONG: ["a"]}),
    "no categories": lambda: open_table(ROWS.rename(columns={"age": LONG}), categories={LONG: []}),
    "privacy unit": lambda: open_table(ROWS, privacy_unit=LONG),
    "privacy unit as a feature": lambda: open_table(ROWS, columns=["age", LONG], privacy_unit=LONG),
    "schema of another table": lambda: open_table(ROWS, schema=Schema((Column(LONG),))),
    "kind": lambda: declared(**{LONG: {"kind": "sort"}}),
    "key of a column": lambda: declared(age={LONG: 1}),
    "no mapping": lambda: declared(**{LONG: 5}),
    "key": lambda: Schema.from_dict({"version": 1, "columns": {"age": {}}, LONG: 1}),
    "category twice": lambda: declared(sex={"categories": [LONG, LONG]}),
    "column twice": lambda: Schema((Column(LONG), Column(LONG))),
    "feature twice": lambda: declared(**{"sex": {"categories": [LONG]}, f"sex={LONG}": {}}),
    "open category": lambda: declared(**{LONG: {"kind": "category"}}).check_complete(),
    "without a range": lambda: PrivatePCA(1, schema=declared(age={"range": [0, 1]}, **{LONG: {}})).plan(2),
    "bounds": lambda: PrivatePCA(1, bounds={"age": (0, 1), "mass": (0, 1), LONG: (0, 1)}).fit(ROWS),
    "no bounds": lambda: PrivatePCA(1, bounds={"mass": (0, 1)}).fit(ROWS.rename(columns={"age": LONG})),
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
        ("--columns", "age", "--privacy-unit", LONG),
        ("--bounds", LONG),
        ("--bounds", f"{LONG}=0:1"),
        ("--categories", LONG),
        ("--categories", f"{LONG}=a"),
    ],
    ids=["columns", "privacy unit", "bounds", "bounds by name", "categories", "categories by name"],
)
def test_no_option_is_echoed_whole(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROWS.to_csv("t.csv", index=False)
    assert len(invoked("covariance", "t.csv", "--epsilon", 1, *options, fails=EigenveilError)) < 400
