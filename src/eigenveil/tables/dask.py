"""Rows in Dask arrays and data frames, collected where they are.

A partition is opened like any array or frame in memory, so every rule for those (columns, types, missing values) holds
here too. Dask is not imported unless the data are Dask's.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import EigenveilError, InvalidDataError, quoted
from .base import Accumulator
from .encoder import Declared
from .engines import Engine, EngineSource, Outcome, merged, part_of, raise_failure, settled
from .frames import TableSource, held
from .identifiers import keys_of
from .privacy_units import RowKeys, UnitTable

# Partial sums that one task adds: it holds so many d x d matrices.
_FAN_IN = 8
# In which the two halves of the key of a person travel.
_KEY_COLUMNS = ("__eigenveil_person_0__", "__eigenveil_person_1__")


class DaskSource(EngineSource):
    """The rows of a Dask collection: its blocks, and the columns to read of each.

    Parameters
    ----------
    template : TableSource
        An empty array or frame of the same schema, opened.
    declared : Declared
        Which columns to read of each block, and how; a row is encoded by itself, so blocks leave no trace.
    blocks : callable
        Makes the list of delayed blocks.
    told : str, optional
        What errors call the column that told persons apart; then blocks hold whole persons, and their keys.
    """

    def __init__(
        self, template: TableSource, declared: Declared, blocks: Callable[[], list[Any]], told: str | None = None
    ) -> None:
        self.n_features = template.n_features
        self.feature_names = template.feature_names
        self.one_hot, self.n_categorical = template.one_hot, template.n_categorical
        self.schema, self._declared = declared.schema, declared
        self.columns_listed = template.columns_listed
        self._blocks, self._told, self.by_unit = blocks, told, told is not None

    def collect(self, make: Callable[[], Accumulator]) -> Any:
        """Return the sum over all blocks of what `make` makes, computed by the current scheduler of Dask."""
        import dask

        # Bound here, so that Dask does not search them for collections, for every block anew.
        compute_part = dask.delayed(
            partial(_block_part, declared=self._declared, make=make, told=self._told), pure=False, traverse=False
        )
        add = dask.delayed(merged, pure=False)
        try:
            outcomes = [compute_part(block) for block in self._blocks()]
            while len(outcomes) > 1:
                outcomes = [add(outcomes[start : start + _FAN_IN]) for start in range(0, len(outcomes), _FAN_IN)]
            # Dask's threads share this process, and each multiplies; its worker processes have this limit already.
            with threadpool_limits(1, user_api="blas"):
                (outcome,) = dask.compute(outcomes[0])
        except (EigenveilError, MemoryError):
            raise
        except Exception as error:
            raise_failure("Dask", error)
        return settled(outcome)

    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Return a Dask array, whose blocks are as long as those of the rows and not known in advance."""
        import dask
        import dask.array

        shape = (math.nan, len(names))
        task = partial(_mapped_block, declared=self._declared, function=function, width=len(names))
        compute_block = dask.delayed(task, traverse=False)
        blocks = [dask.array.from_delayed(compute_block(block), shape, np.float64) for block in self._blocks()]
        return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _open(data: Any, declared: Declared) -> DaskSource | None:
    """Return the source of a Dask array or data frame, or None for anything else."""
    arrays, frames = sys.modules.get("dask.array"), sys.modules.get("dask.dataframe")
    if arrays is not None and isinstance(data, arrays.Array):
        return _open_array(data, declared)
    if frames is not None and isinstance(data, frames.DataFrame):
        template = TableSource([held(data._meta)], declared)
        # Chosen before reading: Parquet then reads no other columns.
        names, _ = declared.resolve(list(data.columns), "the frame")
        privacy_unit = declared.unit_in(list(data.columns), "the frame")
        if privacy_unit is not None:
            return _by_unit(data, names, privacy_unit, template, declared)
        return DaskSource(template, declared, lambda: data[names].to_delayed())
    if frames is not None and isinstance(data, frames.Series):
        raise InvalidDataError("The data must be a table of rows, but are one column; give a Dask data frame.")
    return None


def _open_array(data: Any, declared: Declared) -> DaskSource:
    if any(math.isnan(size) for size in data.shape[1:]):
        raise InvalidDataError("The width of the Dask array is not known; call compute_chunk_sizes() on it first.")
    template = TableSource([held(np.empty((0, *data.shape[1:]), dtype=data.dtype))], declared)
    positions = range(data.shape[1])
    privacy_unit = declared.unit_in(positions, "the array")
    if privacy_unit is not None:
        import dask.dataframe

        frame = dask.dataframe.from_dask_array(data.rechunk({1: -1}), columns=list(positions))
        return _by_unit(frame, declared.resolve(positions, "the array")[0], privacy_unit, template, declared)
    # A row must lie in one block; blocks of rows stay as they are, also where their lengths are not known.
    return DaskSource(template, declared, lambda: list(data.rechunk({1: -1}).to_delayed().ravel()))


def _by_unit(data: Any, names: list[Any], privacy_unit: Any, template: TableSource, declared: Declared) -> DaskSource:
    """Return the source of a frame whose rows are brought together person by person, by Dask's own shuffle."""

    def blocks() -> list[Any]:
        # By keys: identifiers that are the same to us may differ to Dask, by blanks or by type.
        keyed = partial(_with_keys, names=names, privacy_unit=privacy_unit)
        meta = keyed(data._meta)
        shuffled = data[[*names, privacy_unit]].map_partitions(keyed, meta=meta).shuffle(on=_KEY_COLUMNS[0])
        return list(shuffled.to_delayed())

    return DaskSource(
        template, declared.without_unit(names), blocks, f"The column {quoted(privacy_unit)} of the Dask collection"
    )


def _with_keys(frame: Any, names: list[Any], privacy_unit: Any) -> Any:
    """Return these columns of a pandas frame with the keys of persons; what is no identifier has a key that says so."""
    import narwhals as nw

    codes, keys = keys_of(nw.from_native(frame[privacy_unit], series_only=True))
    return frame[names].assign(**dict(zip(_KEY_COLUMNS, keys[codes].T, strict=True)))


def _block_part(block: Any, declared: Declared, make: Callable[[], Accumulator], told: str | None) -> Outcome:
    return part_of(_block_batches(block, declared, told), make)


def _block_batches(block: Any, declared: Declared, told: str | None) -> Iterator[Any]:
    # Opened while the part is collected, where an error about the block is caught.
    if told is None:
        yield from TableSource([held(block)], declared).batches()
    else:
        keys = RowKeys(block[list(_KEY_COLUMNS)].to_numpy(np.uint64), told)
        yield from UnitTable([held(block)], declared, keys).batches()


def _mapped_block(block: Any, declared: Declared, function: Callable[[Any], Any], width: int) -> Any:
    made = [np.asarray(function(batch)).reshape(-1, width) for batch in _block_batches(block, declared, None)]
    return np.concatenate([np.empty((0, width)), *made])


def _read_parquet(places: list[str], privacy_unit: str | None = None) -> Any:
    del privacy_unit  # of the type that the file says
    import dask.dataframe

    return dask.dataframe.read_parquet(places)


def _read_csv(places: list[str], privacy_unit: str | None = None) -> Any:
    import dask.dataframe
    import pandas

    options: dict[str, Any] = {}
    # Correctly rounded, as everywhere else: the default of pandas before 3.1 is off by one bit now and then.
    if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"
    if any(place.endswith(".gz") for place in places):
        options["blocksize"] = None
    # The first rows do not tell whether a fraction comes later, so all numbers are read as float64.
    first = dask.dataframe.read_csv(places, **options)
    # In a file of one column a blank line is a missing value, and must not vanish.
    options["skip_blank_lines"] = len(first.columns) > 1
    whole = first.select_dtypes("integer").columns
    types = dict.fromkeys(whole, "float64") | (
        {privacy_unit: str} if privacy_unit in first.columns else {}
    )  # "007" is not 7
    return dask.dataframe.read_csv(places, dtype=types, **options)


DASK = Engine("dask", _open, {".parquet": _read_parquet, ".csv": _read_csv, ".csv.gz": _read_csv}, encodes=True)
