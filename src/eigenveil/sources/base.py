"""What sources of rows have in common: the protocol, the size of a batch, the choice of columns, files."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from ..errors import EigenveilError, InvalidDataError, InvalidParameterError

Columns = Sequence[str] | Sequence[int] | None

# One batch as float64. Parquet holds about twenty times as much around it; larger ones are not faster.
BATCH_BYTES = 2**22
# Wide rows come in larger batches, which pay for their d x d product, and are still of the order of d^2.
_MOST_WIDE_ROWS = 4096


class Source(Protocol):
    """Rows that can be read in batches, with their public schema.

    `n_rows_hint` serves the progress bar alone, and may be a guess or None.
    """

    @property
    def n_features(self) -> int:
        """Width of a row."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features in the order of the row, where they have names."""

    @property
    def n_rows_hint(self) -> int | None:
        """About how many rows will come."""

    def batches(self) -> Iterator[Any]:
        """Yield non-empty blocks of rows, each of them a dense numeric or a CSR matrix.

        A block must stay as it is while the next ones are read: threads still work on it. A reused buffer would
        count rows twice.
        """


class Accumulator(Protocol):
    """A statistic of rows that can be collected in parts, on any worker, and added up: the same in any order."""

    def update(self, X: Any) -> Self:
        """Add the rows of one batch."""

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both sets of rows."""


def batch_rows(n_features: int) -> int:
    """Return how many rows of `n_features` float64 numbers make one batch.

    Examples
    --------
    >>> batch_rows(100), batch_rows(1000), batch_rows(10_000)
    (5242, 4000, 4096)
    """
    return max(BATCH_BYTES // (8 * n_features), min(4 * n_features, _MOST_WIDE_ROWS))


def choose_columns(available: Sequence[Any], columns: Columns, where: str) -> list[Any]:
    """Return the columns to read, in order: `columns` if given, else all that are `available`.

    Examples
    --------
    >>> choose_columns(["age", "height", "mass"], ["mass", "age"], "data.csv")
    ['mass', 'age']
    """
    chosen = list(available) if columns is None else _checked(columns)
    counts = Counter(available)
    for column in chosen:
        if counts[column] == 0:
            raise InvalidDataError(f"There is no column {column!r} in {where}.")
        if counts[column] > 1:
            raise InvalidDataError(f"There are several columns {column!r} in {where}; rename all but one.")
        if columns is None and isinstance(column, str) and _nameless(column):
            raise InvalidDataError(
                f"A column of {where} has no name, as an index that was saved with the table; "
                "list the columns to use with columns=."
            )
    if not chosen:
        raise InvalidDataError(f"There are no columns in {where}.")
    return chosen


def _checked(columns: Sequence[Any]) -> list[Any]:
    chosen = [] if isinstance(columns, str) else list(columns)
    if not chosen or not all(isinstance(column, Hashable) for column in chosen):
        raise InvalidParameterError("columns must be a list of at least one column.")
    for column, count in Counter(chosen).items():
        if count > 1:
            raise InvalidParameterError(f"columns lists {column!r} more than once.")
    return chosen


def _nameless(name: str) -> bool:
    # The second is the name pandas gives to a nameless index in a Parquet file.
    return not name.strip() or name.startswith("__index_level_")


class TableFile:
    """One file: its path, its schema and the columns to read. Subclasses read the rows."""

    feature_names: tuple[str, ...] | None = None
    n_rows_hint: int | None = None

    def __init__(self, path: Path, columns: Columns = None) -> None:
        self.path = path
        with one_sentence(path):
            self.all_columns = self._read_schema()
        self._chosen = choose_columns(self.all_columns, columns, str(path))
        self.n_features = len(self._chosen)

    def _read_schema(self) -> Sequence[Any]:
        """Return all columns of the file."""
        raise NotImplementedError

    def batches(self) -> Iterator[NDArray[Any]]:
        """Yield blocks of rows."""
        raise NotImplementedError


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Replace whatever a reader raises: its text may quote private cells."""
    try:
        yield
    except (EigenveilError, MemoryError):
        raise
    except PermissionError:
        raise InvalidDataError(f"{path} may not be read; ask for the permission.") from None
    except Exception:
        raise InvalidDataError(f"{path} cannot be read: it is truncated, damaged or of another kind.") from None
