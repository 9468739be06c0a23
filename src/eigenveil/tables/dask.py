"""Rows in Dask arrays and data frames, collected where they are.

A partition is opened like any array or frame in memory, so every rule for those (columns, types, missing values) holds
here too. Dask is not imported unless the data are Dask's.
"""

import glob
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import EigenveilError, InvalidDataError, quoted
from .base import (
    PARQUET,
    Accumulator,
    Engine,
    EngineSource,
    Outcome,
    batch_rows,
    merged,
    part_of,
    raise_failure,
    settled,
)
from .encoder import Declared
from .files import open_files
from .frames import TableSource, check_same_types, held
from .identifiers import Keys, check_keys, keys_of
from .privacy_units import PARTITION_MEMORY, spilled

# Partial sums that one task adds: it holds so many d x d matrices.
_FAN_IN = 8
# In which the two halves of the key of a person travel.
_KEY_COLUMNS = ("__eigenveil_person_0__", "__eigenveil_person_1__")


class DaskSource(EngineSource):
    """The rows of a Dask collection: its blocks, and the columns to read of each.

    Parameters
    ----------
    meta : array or frame
        An empty one of the same schema.
    declared : Declared
        Which columns to read of each block, and how; a row is encoded by itself, so blocks leave no trace.
    blocks : callable
        Makes the list of delayed blocks, of the types in the schema.
    unit_name : str, optional
        What errors call the column of the privacy unit; then blocks hold whole privacy units, and their keys.
    """

    def __init__(
        self, meta: Any, declared: Declared, blocks: Callable[[], list[Any]], unit_name: str | None = None
    ) -> None:
        reader = held(meta)
        template = TableSource([reader], declared)
        self.n_features: int = template.n_features
        self.feature_names: tuple[str, ...] | None = template.feature_names
        self.one_hot, self.n_categorical, self.truths = template.one_hot, template.n_categorical, template.truths
        self.schema, self.typed = declared.schema, template.typed
        self.columns_listed: bool = template.columns_listed
        chosen = declared.resolve(reader.columns, reader.where)[0]
        self._opened = _Blocks(declared, chosen, reader.types(chosen), unit_name)
        self._blocks, self.by_unit = blocks, unit_name is not None

    def collect(self, make: Callable[[], Accumulator]) -> Any:
        """Return the sum over all blocks of what `make` makes, computed by the current scheduler of Dask."""
        import dask

        # Bound here, so that Dask does not search them for collections, for every block anew.
        compute_part = dask.delayed(partial(self._opened.part, make=make), pure=False, traverse=False)
        add = dask.delayed(merged, pure=False)
        try:
            outcomes = [compute_part(block) for block in self._blocks()]
            while len(outcomes) > 1:
                outcomes = [add(outcomes[start : start + _FAN_IN]) for start in range(0, len(outcomes), _FAN_IN)]
            # Dask's threads share this process, and each multiplies; its worker processes have this limit already.
            with threadpool_limits(1, user_api="blas"):
                (outcome,) = dask.compute(outcomes[0])
        except EigenveilError as error:  # of a file of text
            raise error.with_traceback(None) from None  # whose frames hold rows
        except MemoryError:
            raise
        except Exception as error:
            raise_failure("Dask", error)
        return settled(outcome)

    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Return a Dask array, whose blocks are as long as those of the rows and not known in advance."""
        import dask
        import dask.array

        shape = (math.nan, len(names))
        task = partial(self._opened.mapped, function=function, width=len(names))
        compute_block = dask.delayed(task, traverse=False)
        blocks = [dask.array.from_delayed(compute_block(block), shape, np.float64) for block in self._blocks()]
        return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _open(data: Any, declared: Declared) -> DaskSource | None:
    """Return the source of a Dask array or data frame, or None for anything else."""
    arrays, frames = sys.modules.get("dask.array"), sys.modules.get("dask.dataframe")
    if arrays is not None and isinstance(data, arrays.Array):
        return _open_array(data, declared)
    if frames is not None and isinstance(data, frames.DataFrame):
        # Chosen before reading: Parquet then reads no other columns.
        names, _ = declared.resolve(list(data.columns), "the frame")
        privacy_unit = declared.unit_in(list(data.columns), "the frame")
        if privacy_unit is not None:
            return _by_unit(data, names, privacy_unit, declared)
        return DaskSource(data._meta[names], declared, lambda: data[names].to_delayed())
    if frames is not None and isinstance(data, frames.Series):
        raise InvalidDataError("The data must be a table of rows, but are one column; give a Dask data frame.")
    return None


def _open_array(data: Any, declared: Declared) -> DaskSource:
    if any(math.isnan(size) for size in data.shape[1:]):
        raise InvalidDataError("The width of the Dask array is not known; call compute_chunk_sizes() on it first.")
    meta = np.empty((0, *data.shape[1:]), dtype=data.dtype)
    positions = held(meta).columns  # or a refusal of what is no table of numbers
    privacy_unit = declared.unit_in(positions, "the array")
    if privacy_unit is not None:
        import dask.dataframe

        frame = dask.dataframe.from_dask_array(data.rechunk({1: -1}), columns=list(positions))
        source = _by_unit(frame, declared.resolve(positions, "the array")[0], privacy_unit, declared)
        source.typed = False  # the array has one type for all
        return source
    # A row must lie in one block; blocks of rows stay as they are, also where their lengths are not known.
    source = DaskSource(meta, declared, lambda: list(data.rechunk({1: -1}).to_delayed().ravel()))
    source.n_rows = None if math.isnan(data.shape[0]) else int(data.shape[0])
    return source


def _by_unit(data: Any, names: list[Any], privacy_unit: Any, declared: Declared) -> DaskSource:
    """Return the source of a frame whose rows are brought together person by person, by Dask's own shuffle."""

    def blocks() -> list[Any]:
        # By keys: identifiers that are the same to us may differ to Dask, by blanks or by type.
        keyed = partial(_with_keys, names=names, privacy_unit=privacy_unit)
        meta = keyed(data._meta)
        shuffled = data[[*names, privacy_unit]].map_partitions(keyed, meta=meta).shuffle(on=_KEY_COLUMNS[0])
        return list(shuffled.to_delayed())

    return DaskSource(
        data._meta[names],
        replace(declared, columns=names if declared.schema is None else None, privacy_unit=False),
        blocks,
        f"The column {quoted(privacy_unit)} of the Dask collection",
    )


def _with_keys(frame: Any, names: list[Any], privacy_unit: Any) -> Any:
    """Return columns of a pandas frame with the keys of privacy units; invalid identifiers have their own key."""
    import narwhals as nw

    codes, keys = keys_of(nw.from_native(frame[privacy_unit], series_only=True))
    return frame[names].assign(**dict(zip(_KEY_COLUMNS, keys[codes].T, strict=True)))


@dataclass(frozen=True)
class _Blocks:
    """Opens blocks by what is declared, as parts of a table of some columns and types."""

    declared: Declared
    columns: list[Any]
    types: Mapping[Any, Any] | None
    unit_name: str | None

    def part(self, block: Any, make: Callable[[], Accumulator]) -> Outcome:
        return part_of(self.batches(block), make)

    def mapped(self, block: Any, function: Callable[[Any], Any], width: int) -> Any:
        made = [np.asarray(function(batch)).reshape(-1, width) for batch in self.batches(block)]
        return np.concatenate([np.empty((0, width)), *made])

    def batches(self, block: Any) -> Iterator[Any]:
        # Opened while the part is collected, where an error about the block is caught.
        reader = held(block)
        check_same_types(reader, self.types, self.columns)
        source = TableSource([reader], self.declared, types=self.types)
        if self.unit_name is None:
            yield from source.batches()
            return
        keys = block[list(_KEY_COLUMNS)].to_numpy(np.uint64)
        check_keys(keys, self.unit_name)

        def keyed() -> Iterator[tuple[Keys, Any]]:
            start = 0
            for rows in source.batches():
                yield keys[start : start + rows.shape[0]], rows
                start += rows.shape[0]

        yield from spilled(keyed(), source.n_features, PARTITION_MEMORY).blocks(batch_rows(source.n_features))


def _read_parquet(places: list[str], declared: Declared) -> Any:
    """Return the frame of Parquet files, which say the types of their columns themselves."""
    import dask.dataframe

    # With Arrow's types: pandas' own depend on whether a value is missing.
    return dask.dataframe.read_parquet(places, dtype_backend="pyarrow")


def _read_csv(places: list[str], declared: Declared) -> Any:
    """Return the frame of CSV files, a partition each, which are read as without an engine."""
    import dask.dataframe

    # pandas, which Dask would read them with, fills short rows, and takes the first column for an index where the first
    # row has a comma too many.
    if any("://" in place for place in places):
        raise InvalidDataError("Dask reads CSV files from local paths only; convert these to Parquet.")
    paths = [path for place in places for path in sorted(glob.glob(place) or [place])]
    readers = open_files(paths, declared) or []
    TableSource(readers, declared)  # refuses what are no parts of one table
    available, where = readers[0].columns, readers[0].where
    names, privacy_unit = declared.resolve(available, where)[0], declared.unit_in(available, where)
    columns = names if privacy_unit is None else [*names, privacy_unit]
    types = readers[0].types(columns)
    read = partial(_frame_of_file, declared=declared, types={} if types is None else dict(types))
    return dask.dataframe.from_map(read, paths, meta=read(None))


def _frame_of_file(path: str | None, declared: Declared, types: dict[str, Any]) -> Any:
    """Return the columns of a file of text as a pandas frame of these types; without a file, no rows."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    tables = [nw.from_dict({}, schema=types, backend="pyarrow").to_arrow()]
    for reader in open_files(path, declared) or []:
        tables += reader.read(list(types), batch_rows(len(types)))
    return pa.concat_tables(tables).to_pandas(types_mapper=pd.ArrowDtype)


DASK = Engine("dask", _open, {PARQUET: _read_parquet, ".csv": _read_csv, ".csv.gz": _read_csv}, encodes=True)
