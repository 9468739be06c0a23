"""Persons on Spark: keys made of identifiers, and rows brought together by Spark's own shuffle and sort.

A shuffle by keys puts all rows of a person into one partition, and the sort of that partition, which Spark spills to
disk where it must, makes it a stream of persons one after the other: no worker holds more than one of them.
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import InvalidDataError
from ..rows.persons import Blocks
from .identifiers import Keys, check_keys, keys_of
from .persons import MEMORY, PersonOrder, clustered_blocks

KEY = "person"
"""The column in which keys travel; others are named by their position."""


def with_keys(frame: Any, person: str) -> Any:
    """Return a frame with the keys of a column of identifiers in its place, of which some may say that it is none."""
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    # By keys: identifiers that are the same to us may differ to Spark, by blanks or by the sign of a zero.
    def digests(ids):  # type: ignore[no-untyped-def]
        return pd.Series(key_bytes(ids))

    digests.__annotations__ = {"ids": pd.Series, "return": pd.Series}
    with no_warning_of_pandas():
        return frame.withColumn(KEY, pandas_udf(digests, "binary")(frame[person])).drop(person)


@contextmanager
def no_warning_of_pandas() -> Iterator[None]:
    """Keep PySpark from warning of pandas 3, as it does wherever Arrow is used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def key_bytes(ids: Any) -> list[bytes]:
    """Return the keys of a pandas Series of identifiers as sixteen bytes each."""
    import narwhals as nw

    codes, keys = keys_of(nw.from_native(ids, series_only=True))
    digests = [key.tobytes() for key in keys.astype(">u8")]
    return [digests[code] for code in codes]


def person_by_person(frame: Any) -> Any:
    """Return the rows with those of every person together, in one partition each and in the order of keys."""
    # A number that was asked for is kept: without one, Spark may join partitions, and is free to do more.
    n_partitions = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return frame.repartition(n_partitions, KEY).sortWithinPartitions(KEY)


def blocks_of(batches: Iterable[tuple[Any, Any]], told: str) -> Iterator[Blocks]:
    """Yield whole persons from the Arrow batches of one sorted partition, each with its rows."""
    return clustered_blocks(((_keys(batch, told), rows) for batch, rows in batches), _Ascending().add, MEMORY)


class _Ascending:
    """Sees to it that keys ascend, so that nobody comes twice."""

    def __init__(self) -> None:
        self._order = PersonOrder()
        self._last = np.zeros((1, 2), dtype=np.uint64)

    def add(self, row_keys: Keys) -> None:
        begun = np.concatenate([self._last, self._order.add(row_keys)])
        low, high = begun[:-1], begun[1:]
        ascends = (low[:, 0] < high[:, 0]) | ((low[:, 0] == high[:, 0]) & (low[:, 1] < high[:, 1]))
        if not ascends.all():
            raise InvalidDataError("Spark did not sort the rows by person; report this with its version.")
        self._last = begun[-1:]


def _keys(batch: Any, told: str) -> Keys:
    keys = np.frombuffer(b"".join(batch.column(KEY).to_pylist()), dtype=">u8")
    keys = keys.astype(np.uint64).reshape(-1, 2)
    check_keys(keys, told)
    return keys
