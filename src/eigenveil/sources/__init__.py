"""Sources of rows: what the user has, read in batches, and collected into exact second moments."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from ..errors import InvalidDataError
from ..moments import SecondMoments
from ..rows import RowBound
from .arrays import open_array, open_frame, open_sparse
from .base import Columns, Source
from .columns import OneHotTable, open_opened, open_table
from .engines import EngineSource, open_with_engine
from .files import open_files
from .on_dask import open_dask
from .on_spark import open_spark
from .progress import tracked_batches

__all__ = [
    "OneHotTable",
    "Source",
    "collect",
    "open_source",
    "open_table",
    "open_with_engine",
    "second_moments",
]

# Each returns a source if the data are of its kind, else None, and imports only what such data have imported
# already. A further engine is one more line, before the arrays, which take whatever is left.
_OPENERS: tuple[Callable[[Any, Columns], Source | None], ...] = (
    open_opened,
    open_files,
    open_dask,
    open_spark,
    open_sparse,
    open_frame,
    open_array,
)


def open_source(data: Any, columns: Columns = None) -> Source:
    """Return the source that reads `data` in batches.

    Parameters
    ----------
    data : array, sparse matrix, data frame, path or list of paths; or a source, which is returned as it is
        NumPy, SciPy sparse (any format), any frame that narwhals knows (pandas, Polars, PyArrow, ...), Dask arrays
        and frames, Spark frames, or files: CSV with a header (also .gz and .xz), Parquet, .npy. Several paths are
        the parts of one table.
    columns : list of str or int, optional
        The columns to read, in this order: names, or positions where the columns have no names.

    Returns
    -------
    Source
        Its schema has been checked; its rows have not been read.

    Examples
    --------
    >>> open_source([[1.0, 2.0], [3.0, 4.0]]).n_features
    2
    """
    for opener in _OPENERS:
        source = opener(data, columns)
        if source is not None:
            return source
    raise AssertionError("open_array takes everything that is left")


def collect(source: Source, make: Callable[[], Any], progress: bool | None = None) -> Any:
    """Return the statistic that `make` makes empty, with all rows of `source`.

    Parameters
    ----------
    source : Source
        The rows. On an engine every partition is collected there, apart, and the parts are added.
    make : callable
        Makes an empty statistic with `update`, `update_from` and ``+``; to reach workers it must pickle.
    progress : bool, optional
        See `second_moments`; engines have their own bars.
    """
    if isinstance(source, EngineSource):
        return source.collect(make)
    # Closed at once where an error is raised, so that the bar is gone before the error is shown.
    with closing(tracked_batches(source, progress)) as batches:
        return make().update_from(batches)


def second_moments(
    data: Any, bound: RowBound, *, columns: Columns = None, progress: bool | None = None
) -> SecondMoments:
    """Return the exact second moments of all rows of `data`, read in batches.

    Memory grows with d² and the size of one batch, not with the number of rows. Where anything fails, midway
    too, an error is raised and nothing is passed on.

    Parameters
    ----------
    data : array, sparse matrix, data frame, path or list of paths
        See `open_source`.
    bound : RowBound
        The public rule that makes integer rows.
    columns : list of str or int, optional
        The columns to read, in this order.
    progress : bool, optional
        Whether to show a progress bar on stderr; by default only where that is a terminal.

    Returns
    -------
    SecondMoments
        With the feature names of the source.

    Examples
    --------
    >>> moments = second_moments([[0.5, 0.0], [0.0, 1.0]], RowBound(1.0, bits=4))
    >>> moments.gram
    array([[ 64,   0],
           [  0, 256]])
    """
    source = open_source(data, columns)
    make = partial(SecondMoments, bound, source.n_features, source.feature_names)
    moments: SecondMoments = collect(source, make, progress)
    if moments.n_rows == 0:
        raise InvalidDataError("The data have no rows; give at least one.")
    return moments
