"""What a guarantee assumes of a table: its types where it has some; and which tables have a public order."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, Schema, score_map
from eigenveil.errors import InvalidDataError, InvalidParameterError, PrivacyWarning
from eigenveil.guarantee import ORDER_ASSUMPTION, TYPES_ASSUMPTION
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column
from helpers import refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

ROWS = np.random.default_rng(2).normal(size=(200, 3))
FRAME = pd.DataFrame(ROWS, columns=list("abc"))
SCHEMA = Schema(tuple(Column(name, range=(-5, 5)) for name in "abc"))


def parquet(folder):
    pq.write_table(pa.Table.from_pandas(FRAME), folder / "a.parquet")
    return folder / "a.parquet"


def feather(folder):
    FRAME.to_feather(folder / "a.feather")
    return folder / "a.feather"


def csv(folder):
    FRAME.to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


def npy(folder):
    np.save(folder / "a.npy", ROWS)
    return folder / "a.npy"


TYPED = {
    "pandas": lambda folder: FRAME,
    "polars": lambda folder: pl.DataFrame(FRAME),
    "lazy": lambda folder: pl.DataFrame(FRAME).lazy(),
    "arrow": lambda folder: pa.Table.from_pandas(FRAME),
    "stream": lambda folder: pa.Table.from_pandas(FRAME).to_reader(),
    "chunks": lambda folder: iter([FRAME[:100], FRAME[100:]]),
    "parquet": parquet,
    "feather": feather,
}
WITHOUT = {"array": lambda folder: ROWS, "list": lambda folder: ROWS.tolist(), "csv": csv, "npy": npy}


@pytest.mark.parametrize("kind", [*TYPED, *WITHOUT])
@pytest.mark.parametrize("options", [{"norm_bound": 5.0}, {"schema": SCHEMA}], ids=["norm", "schema"])
def test_types_are_assumed_public_where_a_table_has_types(kind, options, tmp_path):
    expected = (TYPES_ASSUMPTION,) if kind in TYPED else ()
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=9.0, data_set="rows")
    data = {**TYPED, **WITHOUT}[kind](tmp_path)
    model = PrivatePCA(1, ledger=ledger, **options).fit(data)
    assert model.guarantee_.assumptions == model.release_.guarantee.assumptions == expected
    assert ledger.entries()[0].guarantee.assumptions == expected


def test_a_plan_that_was_made_without_the_table_learns_of_its_types():
    model = PrivatePCA(1, norm_bound=5.0)
    plan = model.plan(3)
    assert plan.guarantee.assumptions == ()
    assert model.plan(open_table(FRAME)).guarantee.assumptions == (TYPES_ASSUMPTION,)
    of_frame = model.plan(open_table(FRAME))
    assert model.fit(FRAME, plan=plan).guarantee_.assumptions == (TYPES_ASSUMPTION,)
    assert PrivatePCA(1, norm_bound=5.0).fit(ROWS, plan=of_frame).guarantee_.assumptions == ()


def test_rows_that_are_compared_and_rows_of_several_calls():
    assert set(PrivatePCA(1).fit(FRAME).guarantee_.assumptions) == {ORDER_ASSUMPTION, TYPES_ASSUMPTION}
    model = PrivatePCA(1, norm_bound=5.0)
    model.partial_fit(ROWS).partial_fit(FRAME).partial_fit(FRAME)
    assert model.fit_moments().guarantee_.assumptions == (TYPES_ASSUMPTION,)
    with pytest.warns(PrivacyWarning):  # of a second fit
        assert TYPES_ASSUMPTION not in model.partial_fit(ROWS).fit_moments().guarantee_.assumptions


def test_a_map_of_scores_assumes_the_same():
    release = PrivatePCA(2, epsilon=9.0, norm_bound=5.0, random_state=0).fit(ROWS).release_
    frame = ((-5, 5), (-5, 5))
    assert score_map(ROWS, release, epsilon=1.0, frame=frame).guarantee.assumptions == ()
    named = PrivatePCA(2, epsilon=9.0, norm_bound=5.0, random_state=0).fit(FRAME).release_
    assert score_map(FRAME, named, epsilon=1.0, frame=frame).guarantee.assumptions == (TYPES_ASSUMPTION,)


# Order


QUERIES = {
    "lazy": lambda: pl.DataFrame(FRAME).lazy().sort("a"),
    "stream": lambda: pa.Table.from_pandas(FRAME.sort_values("a"), preserve_index=False).to_reader(),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_a_query_has_no_public_order_unless_the_caller_says_so(kind):
    """A sorted query moves other rows to new places where one row is replaced."""
    made = QUERIES[kind]
    assert not open_table(made()).in_order
    assert PrivatePCA(1).plan(open_table(made())).route(200).rule.statistic == "clipped"
    for statistic in ("spatial_sign", "kendall"):
        with refused(InvalidDataError) as caught:
            PrivateCovariance(statistic=statistic, standardize=True).fit(made())
        assert "public_order=True" in str(caught.value)
    said = open_table(made(), public_order=True)
    assert said.in_order
    assert ORDER_ASSUMPTION in PrivatePCA(1).fit(said).guarantee_.assumptions


def test_tables_that_are_held_keep_their_order_and_are_told_of_it_once():
    assert open_table(FRAME).in_order
    assert open_table(pa.Table.from_pandas(FRAME)).in_order
    with refused(InvalidParameterError):
        open_table(open_table(FRAME), public_order=True)
