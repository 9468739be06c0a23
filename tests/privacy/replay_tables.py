"""Tables for the replay: columns of every kind that can be declared, cells that try to change types, and containers.

A container holds a dict of columns, as lists of Python values, in its own way. Where its own library cannot hold a
cell, or rewrites other cells for it (1.0 becomes the text "1.0" in Polars, 1 becomes True in a categorical of pandas),
there is no such table: the two would differ in more than a row before this package sees them. Where it infers types of
its own (pandas, Polars, Arrow from Python values), a cell may change them: then `Held.types` tells.
"""

import csv
import gzip
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from eigenveil.tables.open import open_with_engine
from eigenveil.tables.schema import Column, Schema

N_ROWS = 24
TRIED = "a"
"""The name of the column whose cells are tried; it is the last one."""
Values = dict[str, list[Any]]


@dataclass(frozen=True)
class Kept:
    """A column: what is declared of it, its values, and the type that a typed container gives it."""

    rule: Column
    values: list[Any]
    type: pa.DataType


def _cycled(*values: Any) -> list[Any]:
    return [values[place % len(values)] for place in range(N_ROWS)]


NUMBERS = Kept(
    Column("x", range=(0, 10), missing="middle"), [0.1875 + 0.3 * place for place in range(N_ROWS)], pa.float64()
)
COLUMNS = {
    "floats": Kept(Column("a", range=(0, 9), missing="indicator"), _cycled(1.7193, 4.8371, 8.2519), pa.float64()),
    "integers": Kept(Column("a", range=(0, 5000), missing=1), _cycled(1093, 3187, 4211), pa.int64()),
    "large integers": Kept(Column("a", range=(0, 2**54), missing=1), _cycled(2**53 + 1, 2**53 + 3, 5), pa.int64()),
    "decimals": Kept(
        Column("a", range=(0, 2000), missing=1),
        _cycled(Decimal("1020.37"), Decimal("1000.29"), Decimal("3.14")),
        pa.decimal128(38, 30),
    ),
    "zeros and ones": Kept(Column("a", range=(0, 1), missing=0), _cycled(0, 1, 1), pa.int64()),
    "words": Kept(Column("a", "category", categories=("red", "green")), _cycled("red", "green", "blue"), pa.string()),
    "codes": Kept(Column("a", "category", categories=(1, 2, 3)), _cycled(1, 2, 3), pa.int64()),
    "float codes": Kept(Column("a", "category", categories=("1", "2")), _cycled(1.0, 2.0), pa.float64()),
    "decimal codes": Kept(
        Column("a", "category", categories=("1.10", "2.5")),
        _cycled(Decimal("1.10"), Decimal("2.5")),
        pa.decimal128(38, 30),
    ),
    "truths as categories": Kept(
        Column("a", "category", categories=("true", "false"), missing="indicator"), _cycled(True, False), pa.bool_()
    ),
    "words of truth": Kept(
        Column("a", "category", categories=("true", "false")), _cycled("True", "False", "True"), pa.string()
    ),
    "days as categories": Kept(
        Column("a", "category", categories=("2024-01-01", "2024-01-02")),
        _cycled(datetime(2024, 1, 1), datetime(2024, 1, 2)),
        pa.timestamp("us"),
    ),
    "truths": Kept(Column("a", "boolean", missing="false"), _cycled(True, False, True), pa.bool_()),
    "truths as numbers": Kept(Column("a", "boolean", missing="indicator"), _cycled(0, 1, 1), pa.int64()),
    "days": Kept(
        Column("a", "date", range=("2020-01-01", "2028-01-01"), missing="middle"),
        _cycled(datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(2025, 7, 1)),
        pa.timestamp("us"),
    ),
    "instants": Kept(
        Column("a", "date", range=("2020-01-01", "2028-01-01"), unit="hour", missing="middle"),
        _cycled(*(datetime(2024, 1, 1, 3, 7, tzinfo=UTC), datetime(2025, 7, 1, 0, 0, 59, tzinfo=UTC))),
        pa.timestamp("us", "UTC"),
    ),
    "ignored": Kept(Column("a", "ignored"), _cycled("Ann Bell", "Bo Carr"), pa.string()),
}

CELLS = {
    "None": None,
    "NaN": math.nan,
    "nothing": "",
    "true": "true",
    "True": "True",
    "a truth": True,
    "text": "Jane Doe",
    "2": 2,
    "2.5": 2.5,
    "text 1.0": "1.0",
    "1e400": math.inf,
    "2**70": 2**70,
    "a long decimal": Decimal("0.123456789012345678901234567890"),
    "a day": date(2024, 2, 29),
    "a time": datetime(2024, 2, 29, 22, 30, 15, 123457),
    "a time elsewhere": datetime(2024, 2, 29, 22, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "quotes and lines": 'Jane "HIV"\nDoe, 31337\r\n;\t',
    "one quote": '5" Jane',
    "long": "Jane Doe " * 5000,
}
PRIVATE = ("Jane", "31337", "HIV", "1180591620717411303424", "0.1234567890", "2024-02-29", "1093", "4.8371", "Ann Bell")
"""What no error may hold: cells of the changed row, and of others."""

_TEMPORAL = {"a day", "a time", "a time elsewhere"}
_PROPER = {
    "number": {"None", "2", "2.5", "2**70", "a long decimal"},
    "category": set(CELLS) - _TEMPORAL,
    "boolean": {"None"},
    "date": {"None", "a day", "a time"},
    "ignored": set(CELLS),
}
# In a file of text a word is all that there is: an empty one is missing, and those of truth values are such.
_PROPER_AS_TEXT = {
    "number": {"nothing", "text 1.0"},
    "boolean": {"nothing", "true", "True", "a truth"},
    "date": {"nothing"},
}


def proper(kind: str, cell: str, container: str) -> bool:
    """Tell whether a cell is of the kind that is declared, so that a table with it is to be read."""
    if cell == "NaN" and container in NOT_A_NUMBER_IS_A_WORD:
        return False
    if cell == "NaN":
        return kind != "date"
    words = _PROPER_AS_TEXT.get(kind, set()) if container in DELIMITED else set()
    return cell in _PROPER[kind] | words


# Containers.


@dataclass(frozen=True)
class Held:
    """Data in a container: made anew each time, and the types that the container has for them, in words."""

    make: Callable[[], Any]
    types: str = ""


class CannotHoldError(Exception):
    """The container has no such table."""


def _unchanged(values: Values, held: list[Any]) -> None:
    """Refuse a container that holds more than one cell as another value, or as one of another kind."""
    apart = sum(
        _kind(given) is not _kind(kept) or given != kept for given, kept in zip(values[TRIED], held, strict=True)
    )
    if apart > 1:
        raise CannotHoldError


def _kind(value: Any) -> type:
    return next((kind for kind in (bool, str, date) if isinstance(value, kind)), float)


def _rows(values: Values) -> list[list[Any]]:
    return [list(row) for row in zip(*values.values(), strict=True)]


def _array(values: Values, folder: Path, types: dict[str, Any], dtype: Any = float) -> Held:
    made = np.empty((N_ROWS, len(values)), dtype)
    for place, row in enumerate(_rows(values)):
        made[place] = row
    return Held(lambda: made)


def _list(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    return Held(lambda: _rows(values))


def _pandas(
    values: Values, folder: Path, types: dict[str, Any], change: Callable[[Any], Any] = lambda frame: frame
) -> Held:
    frame = change(pd.DataFrame(values))
    _unchanged(values, frame[TRIED].tolist())
    return Held(lambda: frame, str([(kind, getattr(kind, "categories", None)) for kind in frame.dtypes]))


def _pandas_chunks(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    def chunks() -> list[Any]:
        return [pd.DataFrame({name: column[low : low + 8] for name, column in values.items()}) for low in (0, 8, 16)]

    return Held(lambda: iter(chunks()), str([list(chunk.dtypes) for chunk in chunks()]))


def _polars(values: Values, folder: Path, types: dict[str, Any], kind: Any = None) -> Held:
    given = {} if kind is None else {"schema_overrides": {TRIED: kind}}
    frame = pl.DataFrame(values, strict=False, **given)
    if kind is None:
        _unchanged(values, frame[TRIED].to_list())
    return Held(lambda: frame, str(frame.schema))


def _arrow_inferred(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    table = pa.table(values)
    _unchanged(values, table[TRIED].to_pylist())
    return Held(lambda: table, str(table.schema))


def typed(values: Values, types: dict[str, Any]) -> Any:
    """Return an Arrow table of the types that are given, or raise where a cell is none of its type."""
    return pa.table({name: pa.array(column, types[name], from_pandas=True) for name, column in values.items()})


def _arrow(
    values: Values, folder: Path, types: dict[str, Any], change: Callable[[Any], Any] = lambda table: table
) -> Held:
    table = typed(values, types)
    return Held(lambda: change(table))


def _dictionaries(table: Any) -> Any:
    return table.set_column(table.num_columns - 1, TRIED, table[TRIED].dictionary_encode())


def _record_batches(table: Any) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=5))


def _duckdb(table: Any) -> Any:
    return duckdb.from_arrow(table)


def _parquet(values: Values, folder: Path, types: dict[str, Any], engine: str | None = None) -> Held:
    path = folder / "table.parquet"
    pq.write_table(typed(values, types), path, row_group_size=7)
    return _of_engine(path, values, engine)


def _parquet_of_pandas(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    path = folder / "table.parquet"
    pd.DataFrame(values).to_parquet(path)
    _unchanged(values, pq.read_table(path)[TRIED].to_pylist())
    return Held(lambda: path, str(pq.read_schema(path).remove_metadata()))


def _feather(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    feather.write_feather(typed(values, types), folder / "table.arrow", chunksize=7, compression="uncompressed")
    return Held(lambda: folder / "table.arrow")


def as_text(value: Any) -> str:
    """Return a value as a file of text holds it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isinf(value):
        return "1e400"
    return value.isoformat() if isinstance(value, date) else str(value)


def _delimited(
    values: Values,
    folder: Path,
    types: dict[str, Any],
    end: str = "csv",
    delimiter: str = ",",
    engine: str | None = None,
) -> Held:
    path = folder / f"table.{end}"
    opener = gzip.open if end.endswith("gz") else open
    with opener(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(values)
        writer.writerows([as_text(value) for value in row] for row in _rows(values))
    return _of_engine(path, values, engine)


def as_json(value: Any) -> str:
    """Return a value as a line of JSON holds it: decimals with all digits, what is too large for a float as it is."""
    if isinstance(value, Decimal) or (isinstance(value, float) and math.isinf(value)):
        return as_text(value)
    return json.dumps(value.isoformat() if isinstance(value, date) else value)


def _json_lines(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    lines = [
        "{"
        + ", ".join(f"{json.dumps(name)}: {as_json(value)}" for name, value in zip(values, row, strict=True))
        + "}\n"
        for row in _rows(values)
    ]
    path = folder / "table.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return Held(lambda: path)


def _of_engine(path: Path, values: Values, engine: str | None) -> Held:
    if engine is None:
        return Held(lambda: path)
    return Held(lambda: open_with_engine([path], engine, list(values)))


def _dask(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    import dask.dataframe as dd

    frame = dd.from_pandas(pd.DataFrame(values), npartitions=3, sort=False)
    _unchanged(values, frame[TRIED].compute(scheduler="synchronous").tolist())
    return Held(lambda: frame, str(list(frame.dtypes)))


def _spark(values: Values, folder: Path, types: dict[str, Any]) -> Held:
    from pyspark.sql import SparkSession

    table = typed(values, types)
    return Held(lambda: SparkSession.active().createDataFrame(table).coalesce(1))


CONTAINERS: dict[str, Callable[[Values, Path, dict[str, Any]], Held]] = {
    "NumPy floats": _array,
    "NumPy objects": partial(_array, dtype=object),
    "lists": _list,
    "pandas": _pandas,
    "pandas objects": partial(_pandas, change=lambda frame: frame.astype({TRIED: object})),
    "pandas categories": partial(_pandas, change=lambda frame: frame.astype({TRIED: "category"})),
    "pandas nullable": partial(_pandas, change=lambda frame: frame.convert_dtypes()),
    "pandas on Arrow": partial(_pandas, change=lambda frame: frame.convert_dtypes(dtype_backend="pyarrow")),
    "pandas chunks": _pandas_chunks,
    "pandas, a later chunk": _pandas_chunks,
    "Polars": _polars,
    "Polars text": partial(_polars, kind=pl.String),
    "Polars categories": partial(_polars, kind=pl.Categorical),
    "Polars objects": partial(_polars, kind=pl.Object),
    "Polars typed": partial(_arrow, change=pl.from_arrow),
    "Polars lazy": partial(_arrow, change=lambda table: pl.from_arrow(table).lazy()),
    "Arrow inferred": _arrow_inferred,
    "Arrow": _arrow,
    "Arrow dictionaries": partial(_arrow, change=_dictionaries),
    "Arrow stream": partial(_arrow, change=_record_batches),
    "DuckDB": partial(_arrow, change=_duckdb),
    "Parquet": _parquet,
    "Parquet by pandas": _parquet_of_pandas,
    "Arrow file": _feather,
    "CSV": _delimited,
    "TSV": partial(_delimited, end="tsv", delimiter="\t"),
    "CSV gz": partial(_delimited, end="csv.gz"),
    "JSON lines": _json_lines,
    "Dask": _dask,
    "Dask CSV": partial(_delimited, engine="dask"),
    "Dask Parquet": partial(_parquet, engine="dask"),
    "Spark": _spark,
    "Spark CSV": partial(_delimited, engine="spark"),
    "Spark Parquet": partial(_parquet, engine="spark"),
}
DELIMITED = {name for name in CONTAINERS if "CSV" in name or "TSV" in name}
NOT_A_NUMBER_IS_A_WORD = DELIMITED | {"JSON lines"}
ENGINES = {name: name.split()[0].lower() for name in CONTAINERS if name.startswith(("Dask", "Spark"))}
PLACES = {"pandas, a later chunk": 13}
"""The row that is changed, where it is not the first one."""
ALIKE = {
    "pandas nullable",
    "pandas on Arrow",
    "pandas, a later chunk",
    "Polars text",
    "Polars categories",
    "Polars lazy",
    "Arrow stream",
    "Parquet by pandas",
    "Arrow file",
    "TSV",
    "CSV gz",
}
"""What shares its reader with another container: fewer cells will do."""
NAMELESS = {"NumPy floats", "NumPy objects", "lists"}
"""What has positions in place of names holds numbers and truth values alone."""
BY_COLUMNS = ("CSV", "TSV", "JSON lines", "Dask CSV", "Spark CSV")
"""Files of text in which columns may be named without a schema."""


@dataclass(frozen=True)
class Shape:
    """Which columns a table has: x, one of `COLUMNS`, and perhaps one that tells persons apart."""

    column: str
    persons: bool = False

    @property
    def kind(self) -> str:
        """What is declared of the column."""
        return COLUMNS[self.column].rule.kind

    def values(self) -> Values:
        """Return the table as lists; the column that is tried comes last."""
        people = {"who": [f"p{place // 2}" for place in range(N_ROWS)]} if self.persons else {}
        return {**people, "x": list(NUMBERS.values), "a": list(COLUMNS[self.column].values)}

    def types(self) -> dict[str, Any]:
        """Return the types of a typed container."""
        return {"who": pa.string(), "x": NUMBERS.type, "a": COLUMNS[self.column].type}

    def with_cell(self, place: int, cell: Any) -> Values:
        """Return the table with another cell in the column that is tried."""
        values = self.values()
        values[TRIED][place] = cell
        return values

    def schema(self) -> Schema:
        """Return what is declared."""
        who = (Column("who", "privacy_unit"),) if self.persons else ()
        return Schema((*who, NUMBERS.rule, COLUMNS[self.column].rule))
