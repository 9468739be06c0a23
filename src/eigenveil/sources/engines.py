"""Rows on an engine: what Dask and Spark have in common.

Rows stay where they are. Each partition becomes one small exact statistic on its worker, these add up in a tree, and
only the sum travels to the driver. The statistics are integers, so the partitioning, the order and the shape of
the tree leave no trace. A partition is a pure function of its rows: where a worker dies, its partition is computed
again and replaces what was lost, so no row is counted twice.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import EigenveilError, EngineError, InvalidDataError, one_of
from .base import Accumulator
from .text import looks_like_data

ENGINES = ("dask", "spark")
_KINDS = (".parquet", ".csv", ".csv.gz")

Outcome = Accumulator | EigenveilError


class EngineSource:
    """Base of the sources whose rows stay on an engine: they collect there, and give no batches."""

    n_features: int
    feature_names: tuple[str, ...] | None = None
    n_rows_hint: int | None = None

    def collect(self, make: Callable[[], Any]) -> Any:
        """Return the sum over all partitions of what `make` makes, each updated with its rows."""
        raise NotImplementedError

    def batches(self) -> Iterator[Any]:
        """Refuse: where a row's place depends on its values, a changed row could move others to new partners."""
        raise InvalidDataError(
            "Rows on Dask or Spark come in no public order, so rows='pairs' and missing= do not work there; use "
            "rows='clip' and fill missing values on the engine, or give the rows as files or an array."
        )


def part_of(batches: Iterable[Any], make: Callable[[], Accumulator]) -> Outcome:
    """Return what the rows of one partition come to, or the error that refuses them.

    The error is returned, not raised: engines retry what raises, and write its arguments, rows that is, to logs.
    """
    total = make()
    try:
        for batch in batches:
            # So few rows are one block for SecondMoments, which takes one thread; the engine fills the others.
            step = max(2**17 // batch.shape[1], 2 * batch.shape[1])
            for start in range(0, batch.shape[0], step):
                total.update(batch[start : start + step])
    except EigenveilError as error:
        return error.with_traceback(None)  # its frames hold rows
    return total


def merged(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the sum of parts, or an error where one of them is an error."""
    total: Accumulator | None = None
    try:
        for outcome in outcomes:
            if isinstance(outcome, EigenveilError):
                return outcome
            total = outcome if total is None else total + outcome
    except EigenveilError as error:
        return error.with_traceback(None)
    if total is None:
        raise AssertionError("there is at least one part")
    return total


def settled(outcome: Outcome) -> Any:
    """Return the sum, or raise the error it is."""
    if isinstance(outcome, EigenveilError):
        raise outcome from None
    return outcome


def raise_failure(engine: str, error: Exception) -> NoReturn:
    """Raise one sentence for what an engine raised, whose own text may quote cells."""
    if isinstance(error, ImportError) or "No module named" in str(error):
        raise EngineError(
            f"A Python of {engine} lacks a package; install eigenveil[{engine.lower()}] for the driver and for every "
            "worker, and start the engine with that Python."
        ) from None
    if type(error).__name__ == "KilledWorker":
        raise EngineError(
            f"{engine} gave up on a partition after several workers died of it; make the partitions smaller, or give "
            "the workers more memory."
        ) from None
    raise EngineError(f"{engine} could not compute the rows; compute them without eigenveil to see why.") from None


def open_with_engine(paths: Sequence[str | os.PathLike[str]], engine: str) -> Any:
    """Return the Dask or Spark data frame of Parquet or CSV files, for `fit` and `second_moments`.

    Parameters
    ----------
    paths : list of paths
        Files of one kind, or directories of such files; patterns with ``*`` and addresses such as ``s3://...`` go to
        the engine as they are.
    engine : {"dask", "spark"}
        Dask computes on the current client, or on threads without one. Spark takes the active session, or starts
        one in local mode.
    """
    one_of("engine", engine, ENGINES)
    places = [os.fspath(path) for path in paths]
    kinds = {_kind(place) for place in places}
    if len(kinds) != 1:
        raise InvalidDataError("An engine needs at least one file, and files of one kind; give Parquet or CSV.")
    if engine == "dask":
        from .on_dask import read_with_dask as read
    else:
        from .on_spark import read_with_spark as read
    kind = kinds.pop()
    try:
        frame = read(places, kind)
    except (EigenveilError, MemoryError):
        raise
    except Exception as error:  # whatever a reader says may quote a cell
        if isinstance(error, ImportError):
            raise_failure(engine.capitalize(), error)
        raise InvalidDataError(
            f"{engine.capitalize()} cannot read the files: they are damaged, of another kind, or no parts of one table."
        ) from None
    if kind == ".csv" and looks_like_data(list(frame.columns)):
        raise InvalidDataError("The CSV files have no header; their first line must name the columns.")
    return frame


def _kind(place: str) -> str:
    name = place.rstrip("/").lower()
    kind = next((kind for kind in _KINDS if name.endswith(kind)), None)
    local = "://" not in place
    if kind is None and not (local and Path(place).is_dir()):
        raise InvalidDataError(f"{place} is of no kind that engines read; its name must end in {', '.join(_KINDS)}.")
    if local and not (Path(place).exists() or glob.glob(place)):
        raise InvalidDataError(f"There is no file {place}.")
    return ".csv" if kind is not None and kind.startswith(".csv") else ".parquet"
