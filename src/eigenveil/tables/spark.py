"""Rows in Spark data frames and in files that Spark reads, collected where they are."""

import os
import pickle
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import EigenveilError, EngineError, InvalidDataError, InvalidParameterError, quoted
from ..moments.units import Blocks
from .base import PARQUET, Accumulator, Engine, EngineSource, batch_rows, merged, part_of, raise_failure, settled
from .encoder import Declared, Encoder
from .identifiers import Keys, check_keys, keys_of
from .privacy_units import PARTITION_MEMORY, spilled
from .schema import Column


def read_parquet(places: list[str], declared: Declared) -> Any:
    """Return the Spark data frame of Parquet files, which say the types of their columns themselves."""
    return spark_session().read.parquet(*places)


def read_csv(places: list[str], declared: Declared) -> Any:
    """Return the Spark data frame of CSV files with headers: text where it is declared so, else numbers."""
    # Fail rather than guess: by default a malformed row becomes NULLs, one whose columns are not all read goes
    # unnoticed, and headers of later files are not looked at.
    options = {"header": True, "enforceSchema": False, "mode": "FAILFAST", "columnPruning": False, "escape": '"'}
    reader = spark_session().read.options(**options)
    names = reader.csv(places).columns  # the first line
    if len(names) == 1:
        raise InvalidDataError(
            "Spark skips blank lines, which are missing values in a CSV file of one column; give such a table as "
            "Parquet."
        )
    numbers = set(declared.resolve(names, places[0])[0]) - set(declared.text)
    kinds = {name: "double" if name in numbers else "string" for name in names}
    return reader.csv(places, schema=", ".join(f"`{name.replace('`', '``')}` {kinds[name]}" for name in names))


def spark_session() -> Any:
    """Return the active Spark session, or start one in local mode with the Java of this machine."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        return session
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java" if not home else os.path.join(home, "bin", "java")) is None:
        where = "JAVA_HOME points to a folder without it" if home else "there is none on the path"
        raise EngineError(f"Spark needs Java 17 or later, and {where}; install it, or set JAVA_HOME to its folder.")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages of this Python
    builder = SparkSession.builder.appName("eigenveil").config("spark.ui.enabled", "false")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has chosen the master already
        builder = builder.master("local[*,4]")  # all cores, and three retries of a failed task
    try:
        return builder.getOrCreate()
    except Exception:
        raise EngineError(
            "Spark did not start; check that `java -version` says 17 or later, and what Spark wrote above."
        ) from None


KEY = "person"
"""The column in which keys travel; others are named by their position."""


def with_keys(frame: Any, privacy_unit: str) -> Any:
    """Return a frame with the keys of a column of identifiers in its place, of which some may say that it is none."""
    import narwhals as nw
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    # By keys: identifiers that are the same to us may differ to Spark, by blanks or by the sign of a zero.
    def digests(ids):  # type: ignore[no-untyped-def]
        codes, keys = keys_of(nw.from_native(ids, series_only=True))
        digests_of = [key.tobytes() for key in keys.astype(">u8")]
        return pd.Series([digests_of[code] for code in codes])

    digests.__annotations__ = {"ids": pd.Series, "return": pd.Series}
    with no_warning_of_pandas():
        return frame.withColumn(KEY, pandas_udf(digests, "binary")(frame[privacy_unit])).drop(privacy_unit)


@contextmanager
def no_warning_of_pandas() -> Iterator[None]:
    """Keep PySpark from warning of pandas 3, as it does wherever Arrow is used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def whole_units(batches: Iterable[tuple[Any, Any]], told: str, n_features: int) -> Iterator[Blocks]:
    """Yield the privacy units of one partition, which has all rows of each, from its Arrow batches and their rows."""

    def keyed() -> Iterator[tuple[Keys, Any]]:
        for batch, rows in batches:
            keys = np.frombuffer(b"".join(batch.column(KEY).to_pylist()), dtype=">u8").astype(np.uint64).reshape(-1, 2)
            check_keys(keys, told)
            yield keys, rows

    yield from spilled(keyed(), n_features, PARTITION_MEMORY).blocks(batch_rows(n_features))


# Parts of so few features are small, and added up by the driver: a shuffle would be a job more, and another start of
# Python for each of its tasks.
_FEW_FEATURES = 32
_OUTCOMES = "task int, outcome binary"
_ENTRY = re.compile(r"(.*)\[(0|[1-9]\d*)\]", re.DOTALL)


class SparkSource(EngineSource):
    """The rows of a Spark data frame; a column of vectors or arrays is as many features as its declared length.

    The length of the vectors of a column ``v`` is what the metadata of the column say, or how many of ``v[0]``,
    ``v[1]``, ... are listed among the columns; it is never inferred from a row.
    """

    def __init__(self, frame: Any, declared: Declared) -> None:
        fields = list(frame.schema.fields)
        names = [field.name for field in fields]
        declared, widths = _with_widths(declared, names)
        by_name, rules = declared.resolve(names, "the Spark frame")
        chosen = [names.index(name) for name in by_name]
        # Renamed by position: no name needs quoting, and names that differ by case alone are no trouble.
        renamed = frame.toDF(*(f"c{position}" for position in range(len(fields))))
        self._layout: list[tuple[str, int | None]] = []  # the width of a column of vectors or arrays, None of a number
        self._rules = {f"c{names.index(name)}": rule for name, rule in rules.items()}
        features: list[str] = []
        one_hot: list[bool] = []
        truths: list[bool] = []
        for position in chosen:
            field, name = fields[position], names[position]
            if _is_plain(field, rules.get(name)):
                self._layout.append((f"c{position}", None))
                encoder = Encoder([name], {name: rules[name]} if name in rules else None)
                features += encoder.names
                one_hot += encoder.one_hot
                truths += encoder.truths
                continue
            width = int(widths.get(name) or field.metadata.get("ml_attr", {}).get("num_attrs") or 0)
            if not width:
                raise InvalidDataError(
                    f"The length of the vectors in the Spark column {quoted(name)} is not declared; list its entries "
                    "with columns=, as v[0], v[1] and so on."
                )
            self._layout.append((f"c{position}", width))
            features += [f"{name}[{entry}]" for entry in range(width)]
            one_hot += [False] * width
            truths += [False] * width
            if type(field.dataType).__name__ == "VectorUDT":
                from pyspark.ml.functions import vector_to_array
                from pyspark.sql.functions import when

                vectors = renamed[f"c{position}"]
                renamed = renamed.withColumn(f"c{position}", when(vectors.isNotNull(), vector_to_array(vectors)))
        self._frame = renamed.select(*(name for name, _ in self._layout))
        privacy_unit = declared.unit_in(names, "the Spark frame")
        self.by_unit, self._told = privacy_unit is not None, f"The column {quoted(privacy_unit)} of the Spark frame"
        if self.by_unit:
            column = f"c{names.index(privacy_unit)}"
            self._frame = with_keys(renamed.select(column, *self._frame.columns), column)
        self.n_features: int = len(features)
        self.feature_names: tuple[str, ...] = tuple(features)
        self.schema, self.one_hot, self.truths = declared.schema, tuple(one_hot), tuple(truths)
        self.n_categorical: int = sum(rule.kind == "category" for rule in rules.values())
        self.columns_listed: bool = declared.listed is not None

    @cached_property
    def _unit_partitions(self) -> int:
        """Return the number of partitions of privacy units: the session's, or the frame's and at least one a core."""
        session = self._frame.sparkSession
        try:
            asked_for = {*dict(session.sparkContext.getConf().getAll()), *dict(session.conf.getAll)}
            # Which may compute what Spark shuffles before.
            n_partitions = int(self._frame.rdd.getNumPartitions())
            from_data = max(n_partitions, int(session.sparkContext.defaultParallelism))
        except AttributeError:  # Spark Connect shows neither
            asked_for, from_data = {_SHUFFLE_PARTITIONS}, 1
        return int(session.conf.get(_SHUFFLE_PARTITIONS)) if _SHUFFLE_PARTITIONS in asked_for else from_data

    def collect(self, make: Callable[[], Accumulator]) -> Any:
        """Return the sum over all partitions of what `make` makes, computed by the executors."""
        layout, rules, told, by_unit = self._layout, self._rules, self._told, self.by_unit
        n_features = self.n_features

        # Functions in a function: they travel to the workers by value, and all they use by name.
        def partition_part(batches: Iterator[Any]) -> Iterator[Any]:
            parts = ((batch, _rows(batch, layout, rules)) for batch in batches if batch.num_rows)
            rows = whole_units(parts, told, n_features) if by_unit else (rows for _, rows in parts)
            yield _as_row(part_of(rows, make))

        def add_parts(batches: Iterator[Any]) -> Iterator[Any]:
            parts = (pickle.loads(part.as_py()) for batch in batches for part in batch.column("outcome"))
            first = next(parts, None)
            if first is not None:  # some tasks of a shuffle get nothing
                yield _as_row(merged(chain([first], parts)))

        try:
            with no_warning_of_pandas():
                frame = self._frame
                if by_unit:  # without a number, Spark would be free to take partitions apart again
                    frame = frame.repartition(self._unit_partitions, KEY)
                parts = frame.mapInArrow(partition_part, _OUTCOMES)
                if n_features > _FEW_FEATURES:
                    # Adaptive execution makes as many tasks as there are bytes for; then one adds up what these have.
                    parts = parts.repartition("task").mapInArrow(add_parts, _OUTCOMES)
                    parts = parts.repartition(1).mapInArrow(add_parts, _OUTCOMES)
                outcomes = [pickle.loads(row.outcome) for row in parts.collect()]
        except (EigenveilError, MemoryError):
            raise
        except Exception as error:
            raise_failure("Spark", error)
        # A frame without rows may have no partition at all.
        return settled(merged([make(), *outcomes]))

    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Return a Spark data frame with a column of doubles for every name."""
        layout, rules, columns = self._layout, self._rules, list(names)

        def made_of(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in batches:
                if batch.num_rows:
                    made = np.asarray(function(_rows(batch, layout, rules))).reshape(batch.num_rows, -1)
                    yield pa.RecordBatch.from_arrays([pa.array(part) for part in made.T.astype(np.float64)], columns)

        with no_warning_of_pandas():
            return self._frame.mapInArrow(made_of, ", ".join(f"`{name}` double" for name in columns))


def _open(data: Any, declared: Declared) -> SparkSource | None:
    """Return the source of a Spark data frame, or None for anything else."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None or not isinstance(data, sql.DataFrame):
        return None
    try:
        return SparkSource(data, declared)
    except (EigenveilError, MemoryError):
        raise
    except Exception as error:
        raise_failure("Spark", error)


def _is_plain(field: Any, rule: Column | None) -> bool:
    """Tell whether a column holds numbers or is encoded; arrays and vectors are False, and others are refused."""
    from pyspark.sql import types

    if rule is not None:
        Encoder([field.name], {field.name: rule}).check({field.name: _type_of(field)}, "the Spark frame")
        return True
    kind = field.dataType
    entries = kind.elementType if isinstance(kind, types.ArrayType) else kind
    # Vectors are those of pyspark.ml, or of the older pyspark.mllib.
    if not isinstance(entries, types.NumericType | types.BooleanType) and type(kind).__name__ != "VectorUDT":
        raise InvalidDataError(
            f"The column {quoted(field.name)} of the Spark frame does not hold numbers; encode it, or choose other "
            "columns with columns=."
        )
    return entries is kind and type(kind).__name__ != "VectorUDT"


def _type_of(field: Any) -> Any:
    """Return the narwhals type of a column that is encoded."""
    import narwhals as nw
    from pyspark.sql import types

    for kind, known in (
        (types.NumericType, nw.Float64()),
        (types.BooleanType, nw.Boolean()),
        (types.StringType, nw.String()),
        (types.DateType, nw.Date()),
        (types.TimestampType | types.TimestampNTZType, nw.Datetime("us")),
    ):
        if isinstance(field.dataType, kind):
            return known
    return nw.Unknown()


def _with_widths(declared: Declared, names: Sequence[str]) -> tuple[Declared, dict[str, int]]:
    """Return the declaration with columns in place of their entries, and the number of listed entries of each."""
    chosen: list[Any] = []
    widths: dict[str, int] = {}
    for listed in declared.columns or ():
        entry = None if listed in names else _ENTRY.fullmatch(str(listed))
        if entry is None or entry[1] not in names:
            chosen.append(listed)
            continue
        name, place = entry[1], int(entry[2])
        if place != widths.get(name, 0) or (place and chosen[-1] != name):
            raise InvalidParameterError(
                f"The entries of the column {quoted(name)} must be listed one after the other, from the one of 0 on."
            )
        widths[name] = place + 1
        chosen += [] if place else [name]
    return (replace(declared, columns=chosen), widths) if widths else (declared, widths)


def _as_row(outcome: Any) -> Any:
    import pyarrow as pa
    from pyspark import TaskContext

    task = TaskContext.get().partitionId()  # the same in every attempt
    schema = pa.schema([("task", pa.int32()), ("outcome", pa.binary())])
    return pa.RecordBatch.from_pydict({"task": [task], "outcome": [pickle.dumps(outcome)]}, schema=schema)


# From Arrow to rows.


def _rows(batch: Any, layout: list[tuple[str, int | None]], rules: dict[str, Column]) -> Any:
    """Return the rows of an Arrow batch, with NaN for what is missing."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch])
    if all(width is None for _, width in layout):
        return Encoder([name for name, _ in layout], rules).rows(table, "the Spark frame")
    blocks: list[Any] = []
    for name, width in layout:
        if width is None:
            rule = {name: rules[name]} if name in rules else None
            blocks.append(Encoder([name], rule).rows(table, "the Spark frame"))
        else:
            blocks.append(_entries(batch.column(name), width))
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def _entries(column: Any, width: int) -> NDArray[np.float64]:
    """Return the rows that the arrays of a column hold, all of one width; NaN for a missing array or entry."""
    import pyarrow as pa
    import pyarrow.compute as pc

    present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    lengths = np.asarray(pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False))
    if (lengths != width).any():
        raise InvalidDataError(
            "The vectors of a Spark column have different lengths; give all rows the same number of features."
        )
    values = column.flatten()
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    rows = np.full((len(column), width), np.nan)
    rows[present] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).reshape(-1, width)
    return rows


SPARK = Engine(
    "spark",
    _open,
    {PARQUET: read_parquet, ".csv": read_csv, ".csv.gz": read_csv},
    encodes=True,
    package="pyspark",
)
