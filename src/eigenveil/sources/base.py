"""What readers and sources of rows have in common: protocols, the size of a batch, the choice of columns, files."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self

from ..errors import EigenveilError, InvalidDataError, InvalidParameterError
from .places import Place, TextFormat

Columns = Sequence[str] | Sequence[int] | None

# One batch as float64. Parquet holds about twenty times as much around it; larger ones are not faster.
BATCH_BYTES = 2**22
# Wide rows come in larger batches, which pay for their d x d product, and are still of the order of d^2.
_MOST_WIDE_ROWS = 4096


class Source(Protocol):
    """Rows that can be read in batches, with their public schema.

    `n_rows_hint` serves the progress bar alone, and may be a guess or None. Where `by_person` is true, batches are
    `eigenveil.rows.persons.Blocks`, and the number of rows is private.
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
        """Yield non-empty blocks of rows, each of them a dense numeric or a CSR matrix, or rows of whole persons.

        A block must stay as it is while the next ones are read: threads still work on it. A reused buffer would
        count rows twice.
        """


class Reader(Protocol):
    """One part of a table: its columns as they are, in batches. An `Encoder` makes rows of them."""

    @property
    def where(self) -> str:
        """What errors call it."""

    @property
    def columns(self) -> Sequence[Any]:
        """All columns: their names, or their positions where they have no names."""

    @property
    def n_rows_hint(self) -> int | None:
        """About how many rows will come."""

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the narwhals types of these columns, or None where the batches are matrices of numbers."""

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield these columns in non-empty batches of about `step` rows: matrices, or tables that narwhals knows."""


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
            # Named only where the caller did: what a file has in its first line may be somebody's row.
            which = "of the same name" if columns is None else repr(column)
            raise InvalidDataError(f"There are several columns {which} in {where}; rename all but one.")
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


class FileReader:
    """Base of the readers of one file.

    Parameters
    ----------
    path : Path or StandardInput
        The file, which exists.
    suffix : str
        The end of its name, which told the format.
    text : collection of str
        The columns to read as text, where the format leaves the types to the reader.
    named : collection
        The columns that the caller named: where a file has them all, what names its columns does just that.
    text_format : TextFormat, optional
        How a file of text is written.
    person : str or int, optional
        The column that tells persons apart: text, or whole numbers, that must keep every digit.
    """

    numbered: ClassVar[bool] = False  # whether columns have positions and no names
    needs_arrow: ClassVar[bool] = False
    takes_text_format: ClassVar[bool] = False  # whether a delimiter, a decimal sign or an encoding can be chosen
    names_public: bool = True  # whether an error may quote names that the caller did not
    n_rows_hint: int | None = None
    _schema: Any = None  # that of PyArrow, where the file holds a table and not a matrix

    def __init__(
        self,
        path: Place,
        suffix: str,
        text: Collection[str] = (),
        named: Collection[Any] = (),
        text_format: TextFormat | None = None,
        person: Any = None,
    ) -> None:
        self.path, self.suffix, self.where, self._text, self._named = path, suffix, str(path), text, named
        self._person = person
        self.text_format = TextFormat() if text_format is None else text_format
        if not (self.text_format.is_default or self.takes_text_format):
            raise InvalidDataError(f"{path} is no file of text; leave out delimiter, decimal and encoding.")
        with one_sentence(self.where):
            self.columns = self._read_schema()

    def _read_schema(self) -> Sequence[Any]:
        """Return all columns of the file."""
        raise NotImplementedError

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the narwhals types of these columns, or None where the batches are matrices of numbers."""
        if self._schema is None:
            return None
        import narwhals as nw

        types: Mapping[Any, Any] = nw.from_native(self._schema.empty_table().select(columns)).collect_schema()
        return types

    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield these columns in batches of about `step` rows."""
        raise NotImplementedError


@contextmanager
def one_sentence(path: str) -> Iterator[None]:
    """Replace whatever a reader raises: its text may quote private cells."""
    try:
        yield
    except (EigenveilError, MemoryError):
        raise
    except PermissionError:
        raise InvalidDataError(f"{path} may not be read; ask for the permission.") from None
    except Exception:
        raise InvalidDataError(f"{path} cannot be read: it is truncated, damaged or of another kind.") from None
