"""Persons on Dask: whole ones in every partition, by its own shuffle, wherever their rows lie."""

import numpy as np
import pandas as pd
import pytest

from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.tables.open import collect, open_table, open_with_engine
from eigenveil.tables.schema import Column, Schema
from helpers import refused
from units_by_hand import FRAME, IDS, NAMES, REFERENCE, ROWS, N, PrivacyUnits, by_hand

dd = pytest.importorskip("dask.dataframe", reason="needs eigenveil[dask]")
da = pytest.importorskip("dask.array", reason="needs eigenveil[dask]")


@pytest.mark.parametrize("npartitions", [1, 7])
def test_a_frame_gives_whole_persons(npartitions):
    source = open_table(dd.from_pandas(FRAME, npartitions=npartitions), privacy_unit="id")
    assert source.by_unit
    assert source.feature_names == tuple(NAMES)
    for _ in range(2):
        assert collect(source, PrivacyUnits).found == REFERENCE


def test_identifiers_that_dask_takes_for_others_are_the_same_person():
    """Blanks and types differ from row to row, so that Dask's own hash would tear persons apart."""
    ids = [identifier if place % 3 else f" {identifier}" for place, identifier in enumerate(IDS.tolist())]
    for given in (pd.Series(ids, dtype=object), pd.Series([f"{one}" + " " * (one % 2) for one in IDS])):
        frame = dd.from_pandas(FRAME.assign(id=given), npartitions=5)
        assert collect(open_table(frame, privacy_unit="id"), PrivacyUnits).found == REFERENCE


def test_an_array_has_a_column_of_identifiers():
    array = da.from_array(FRAME.to_numpy(), chunks=(200, 2))
    assert collect(open_table(array, privacy_unit=1), PrivacyUnits).found == REFERENCE
    unknown = array[array[:, 0] > -np.inf]
    assert collect(open_table(unknown, [3, 0], privacy_unit=1), PrivacyUnits).found == by_hand(IDS, ROWS[:, [2, 0]])


def test_a_schema_names_the_persons():
    schema = Schema((Column("id", "privacy_unit"), Column("age"), Column("sex", "category", categories=("F", "M"))))
    frame = dd.from_pandas(FRAME.assign(sex=np.where(FRAME["age"] > 0, "F", "M")), npartitions=4)
    rows = np.column_stack([FRAME["age"], FRAME["age"] > 0, FRAME["age"] <= 0])
    assert collect(open_table(frame, schema=schema), PrivacyUnits).found == by_hand(IDS, rows)


@pytest.mark.parametrize("missing", [np.nan, 7.5])
def test_what_is_no_identifier_is_one_sentence(missing):
    ids = FRAME["id"].astype(float)
    ids[N // 2] = missing
    source = open_table(dd.from_pandas(FRAME.assign(id=ids), npartitions=3), privacy_unit="id")
    with refused(InvalidDataError) as info:
        collect(source, PrivacyUnits)
    assert "'id'" in str(info.value)


def test_identifiers_beside_a_collection_are_refused():
    with refused(InvalidParameterError):
        open_table(dd.from_pandas(FRAME[NAMES], npartitions=3), privacy_unit=IDS)


def test_a_csv_file_keeps_identifiers_as_they_stand(tmp_path):
    (tmp_path / "a.csv").write_text("a,id\n1.5,007\n2.5,7\n3.5,007\n")
    collection = open_with_engine([tmp_path / "a.csv"], "dask")
    found = collect(open_table(collection, privacy_unit="id"), PrivacyUnits).found
    assert found == by_hand(["007", "7", "007"], [[1.5], [2.5], [3.5]])
