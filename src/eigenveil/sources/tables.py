"""Tables read in batches with the types they came with, text included: what `OneHotTable` encodes."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from .arrays import FrameSource, as_frame, check_numeric
from .base import Columns, TableFile, choose_columns
from .files import ParquetFile
from .text import CsvFile


class CsvTables(CsvFile):
    """A CSV file; categorical columns are read as text."""

    def __init__(self, path: Path, columns: Columns) -> None:
        TableFile.__init__(self, path, columns)  # CsvFile itself refuses columns of text
        self.chosen: list[str] = self._chosen
        self.where = str(path)

    def prepare(self, columns: list[str], categories: dict[str, tuple[str, ...]]) -> None:
        """Check the types of the columns that will be read."""
        import pyarrow as pa

        numbers = [name for name in columns if name not in categories]
        check_numeric(self._schema.empty_table().select(numbers), numbers, self.where)
        self._types = {name: pa.string() if name in categories else self._schema.field(name).type for name in columns}

    def tables(self, step: int) -> Iterator[Any]:
        """Yield tables of the columns, of about `step` rows where that can be chosen."""
        del step
        return self.read_tables(self._types)


class ParquetTables(ParquetFile):
    """A Parquet file."""

    def __init__(self, path: Path, columns: Columns) -> None:
        TableFile.__init__(self, path, columns)  # ParquetFile itself refuses columns of text
        self.chosen: list[str] = self._chosen
        self.where = str(path)

    def prepare(self, columns: list[str], categories: dict[str, tuple[str, ...]]) -> None:
        """Check the types of the columns that will be read."""
        self.chosen = columns
        _check_kinds(self._schema.empty_table().select(columns), columns, categories, self.where)

    def tables(self, step: int) -> Iterator[Any]:
        """Yield tables of the columns, of about `step` rows where that can be chosen."""
        return self.read_tables(self.chosen, step)


class FrameTables(FrameSource):
    """A data frame, held or lazy."""

    where = "the frame"

    def __init__(self, frame: Any, columns: Columns) -> None:
        import narwhals as nw

        native = nw.to_native(frame)
        if isinstance(frame, nw.LazyFrame) and not hasattr(native, "collect_batches"):
            raise InvalidDataError(
                "This lazy frame cannot be read in batches; collect it first, or save it as Parquet and give the path."
            )
        self._frame = frame
        self.chosen: list[str] = choose_columns(list(frame.collect_schema()), columns, self.where)
        self.n_rows_hint = len(frame) if isinstance(frame, nw.DataFrame) else None

    def prepare(self, columns: list[str], categories: dict[str, tuple[str, ...]]) -> None:
        """Check the types of the columns that will be read."""
        self._names = columns
        _check_kinds(self._frame, columns, categories, self.where)

    def tables(self, step: int) -> Iterator[Any]:
        """Yield tables of the columns, of about `step` rows where that can be chosen."""
        yield from self._eager_parts(step)


Tables = CsvTables | ParquetTables | FrameTables


def open_parts(data: Any, columns: Columns) -> Sequence[Tables]:
    """Open a frame, a file or the files of one table."""
    frame = _frame(data)
    if frame is not None:
        return [FrameTables(frame, columns)]
    paths = data if isinstance(data, list | tuple) else [data]
    if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise InvalidDataError("Categories need columns with names; give a data frame, or CSV or Parquet files.")
    parts = [_open_file(Path(path), columns) for path in paths]
    first = parts[0]
    for part in parts[1:]:
        if odd := set(part.chosen) ^ set(first.chosen):
            raise InvalidDataError(
                f"{part.where} and {first.where} are not parts of one table: only one of them has the column "
                f"{min(odd)!r}."
            )
    return parts


def _frame(data: Any) -> Any:
    """Return the narwhals frame around `data`, or None for anything else."""
    if isinstance(data, str | os.PathLike | list | tuple | np.ndarray):
        return None
    return as_frame(data)


def _open_file(path: Path, columns: Columns) -> CsvTables | ParquetTables:
    kinds: dict[str, type[CsvTables] | type[ParquetTables]]
    kinds = {".csv": CsvTables, ".csv.gz": CsvTables, ".csv.xz": CsvTables, ".parquet": ParquetTables}
    kind = next((kinds[suffix] for suffix in kinds if path.name.lower().endswith(suffix)), None)
    if kind is None:
        raise InvalidDataError(f"{path} cannot hold categories; its name must end in {', '.join(kinds)}.")
    if not path.exists() or path.is_dir():
        raise InvalidDataError(f"There is no file {path}.")
    return kind(path, columns)


def _check_kinds(frame: Any, columns: list[str], categories: dict[str, tuple[str, ...]], where: str) -> None:
    """Refuse numbers that are none, and categories that a column of numbers or truth values cannot have."""
    import narwhals as nw

    check_numeric(frame, [name for name in columns if name not in categories], where)
    schema = nw.from_native(frame).collect_schema()
    for column, labels in categories.items():
        # Two labels of one value, as 1 and 1.0, would give a row two ones.
        if len({_value(schema[column], label, column) for label in labels}) < len(labels):
            raise InvalidParameterError(f"Two categories of {column!r} are the same value; leave out one.")


def _value(kind: Any, label: str, column: str) -> float | str:
    """Return what a label is in a column of this kind: a number, or text as it stands."""
    import narwhals as nw

    if not (kind.is_numeric() or kind == nw.Boolean()):
        return label
    try:
        return {"true": 1.0, "false": 0.0}[label.lower()] if kind == nw.Boolean() else float(label)
    except (KeyError, ValueError):
        kinds = "truth values" if kind == nw.Boolean() else "numbers"
        raise InvalidParameterError(
            f"The column {column!r} holds {kinds}, so {label!r} cannot be one of its categories."
        ) from None


def equals(values: Any, kind: Any, label: str, column: str = "") -> Any:
    """Return the expression that is 1.0 where the column has this category, and 0.0 elsewhere."""
    import narwhals as nw

    value = _value(kind, label, column)
    if isinstance(value, float):
        same = values.cast(nw.Float64()) == value
    else:
        text = values if kind == nw.String() else values.cast(nw.String())
        same = text.str.strip_chars() == label
    return same.fill_null(False).cast(nw.Float64())
