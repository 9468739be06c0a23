"""What all tables share: sources, readers, engines, the choice of columns, the bar of progress.

Rows on an engine stay where they are. Each partition becomes one small exact statistic on its worker, these add up in a
tree, and only the sum travels to the driver. The statistics are integers, so the partitioning, the order and the shape
of the tree leave no trace. A partition is a pure function of its rows: where a worker dies, its partition is computed
again and replaces what was lost, so no row is counted twice.
"""

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, Self, TypeVar

from ..errors import (
    EigenveilError,
    EngineError,
    InvalidDataError,
    InvalidParameterError,
    quoted,
)
from ..moments.units import Blocks, without_weights

if TYPE_CHECKING:
    from .encoder import Declared
    from .files import Place


def has_arrow() -> bool:
    """Tell whether PyArrow is installed."""
    return find_spec("pyarrow") is not None


def need_arrow(what: str) -> None:
    """Refuse in one sentence what cannot be read without PyArrow.

    Parameters
    ----------
    what : str
        What is to be read, as the beginning of the sentence.
    """
    if not has_arrow():
        raise EngineError(f"{what} can be read with PyArrow only; run pip install 'eigenveil[files]'.")


Columns = Sequence[str] | Sequence[int] | None

# One batch as float64. Parquet holds about twenty times as much around it; larger ones are not faster.
BATCH_BYTES = 2**22
# Wide rows come in larger batches, which pay for their d x d product, and are still of the order of d^2.
_MOST_WIDE_ROWS = 4096


class Source(Protocol):
    """Rows that can be read in batches, with their public schema.

    `n_rows_hint` serves the progress bar alone, and may be a guess or None. A source that knows the number of its rows
    before it reads them may have it as `n_rows`, by which a fit is planned where it is public. Where `by_unit` is true,
    batches are `eigenveil.moments.units.Blocks`, and the number of rows is private.
    """

    @property
    def n_features(self) -> int:
        """Width of a row."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features in the order of the row, where they have names."""

    @property
    def n_rows_hint(self) -> int | None:
        """Roughly the number of rows."""

    def batches(self) -> Iterator[Any]:
        """Yield non-empty blocks of rows: each a dense or a CSR matrix of numbers, `RowsByColumn`, or `Blocks`.

        A block must stay as it is while the next ones are read: threads still work on it. A reused buffer would
        count rows twice.
        """


class Reader(ABC):
    """One part of a table: its columns as they are, in batches. An `Encoder` makes rows of them.

    Attributes
    ----------
    where : str
        The name in errors.
    columns : sequence
        All columns: their names, or their positions where they have no names.
    n_rows_hint : int, optional
        Roughly the number of rows.
    holds_rows : bool
        Whether all rows are in memory, so that the hint is exact.
    counts_rows : bool
        Whether the hint is the number of rows that a file says it has.
    by_column : bool
        Whether rows in memory are columns that lie apart.
    names_public : bool
        Whether an error may quote names that the caller did not.
    reads_once : bool
        Whether the rows come once only.
    in_order : bool
        Whether the place of a row does not depend on its values.
    """

    where: str
    columns: Sequence[Any]
    n_rows_hint: int | None = None
    holds_rows: bool = False
    counts_rows: bool = False
    by_column: bool = False
    names_public: bool = True
    reads_once: bool = False
    in_order: bool = True

    @abstractmethod
    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the narwhals types of these columns, or None where the batches are matrices of numbers."""

    @abstractmethod
    def read(self, columns: Sequence[Any], step: int) -> Iterator[Any]:
        """Yield some columns in non-empty batches of about `step` rows: matrices, or tables that narwhals knows."""


def arrow_types(schema: Any, columns: Sequence[Any]) -> Mapping[Any, Any]:
    """Return the narwhals types of some columns of a schema of PyArrow."""
    import narwhals as nw

    types: Mapping[Any, Any] = nw.from_native(schema.empty_table().select(columns)).collect_schema()
    return types


class Accumulator(Protocol):
    """A statistic of rows that can be collected in parts, on any worker, and added up: the same in any order."""

    def update(self, X: Any) -> Self:
        """Add the rows of one batch."""

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches."""

    def __add__(self, other: Self) -> Self:
        """Return the statistic of both sets of rows."""


Statistic = TypeVar("Statistic", bound=Accumulator)


def batch_rows(n_features: int) -> int:
    """Return the number of rows of one batch, of `n_features` float64 numbers each.

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
    if columns is None and isinstance(available, range) and available:
        return list(available)
    if columns is None:
        chosen = list(available)
    else:
        chosen = [] if isinstance(columns, str) else list(columns)
        if not chosen or not all(isinstance(column, Hashable) for column in chosen):
            raise InvalidParameterError("columns must be a list of at least one column.")
        for column, count in Counter(chosen).items():
            if count > 1:
                raise InvalidParameterError(f"columns lists {quoted(column)} more than once.")
    counts = Counter(available)
    for column in chosen:
        if column not in counts:
            raise InvalidDataError(f"There is no column {quoted(column)} in {where}; check its spelling.")
        if counts[column] > 1:
            # Named only where the caller did: what a file has in its first line may be somebody's row.
            which = "of the same name" if columns is None else quoted(column)
            raise InvalidDataError(f"There are several columns {which} in {where}; rename all but one.")
        if columns is None and _nameless(column):
            raise InvalidDataError(
                f"A column of {where} has no name, as an index that was saved with the table; "
                "list the columns to use with columns=."
            )
    if not chosen:
        raise InvalidDataError(f"There are no columns in {where}.")
    return chosen


def with_names(columns: Sequence[Any]) -> list[Any]:
    """Return the columns without those that have no name, as an index that was saved with the table."""
    return [column for column in columns if not _nameless(column)]


def _nameless(name: Any) -> bool:
    # The second is the name pandas gives to a nameless index in a Parquet file.
    return isinstance(name, str) and (not name.strip() or name.startswith("__index_level_"))


class FileReader(Reader):
    """Base of the readers of one file.

    Parameters
    ----------
    path : Path or StandardInput
        The file, which exists.
    suffix : str
        The end of its name, which gives the format.
    declared : Declared
        What the caller says of the table: its columns, their kinds, the column of privacy units. A file of text has no
        types but these.
    """

    numbered: ClassVar[bool] = False  # whether columns have positions and no names
    _schema: Any = None  # that of PyArrow, where the file holds a table and not a matrix

    def __init__(self, path: "Place", suffix: str, declared: "Declared") -> None:
        self.path, self.suffix, self.where = path, suffix, str(path)
        self.declared: Declared = declared
        with one_sentence(self.where):
            self.columns = self._read_schema()

    @abstractmethod
    def _read_schema(self) -> Sequence[Any]:
        """Return all columns of the file."""

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any] | None:
        """Return the narwhals types of these columns, or None where the batches are matrices of numbers."""
        return None if self._schema is None else arrow_types(self._schema, columns)


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


def tracked_batches(source: Source, progress: bool | None = None, purpose: str = "reading rows") -> Generator[Any]:
    """Yield the batches of `source` while a bar on stderr counts their rows, or privacy units.

    Parameters
    ----------
    source : Source
        Where the batches come from.
    progress : bool, optional
        Whether to show the bar; by default it shows only where stderr is a terminal, so never in a pipe.
    purpose : str
        What the rows are read for, in words.
    """
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if not progress:
        yield from source.batches()
        return
    # rich is imported only where something is drawn: importing it takes longer than a small fit.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(purpose),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("rows", total=source.n_rows_hint)
        seen = 0
        for batch in source.batches():
            yield batch
            # The number of rows of a privacy unit is private.
            seen += batch.n_privacy_units if isinstance(batch, Blocks) else int(without_weights(batch).shape[0])
            bar.update(task, completed=seen)
        bar.update(task, total=seen, completed=seen)  # the hint may have been a guess


PARQUET = ".parquet"
"""The suffix of files whose columns have types; those of the others are declared."""


@dataclass(frozen=True)
class Engine:
    """An engine that holds rows and sums them; the table of engines is `eigenveil.tables.open.ENGINES`.

    Attributes
    ----------
    name : str
        That of ``--engine``, and of the extra to install.
    open : callable
        Takes data and what is declared of their columns, and returns the source of a collection of this engine, or None
        for anything else. It imports nothing that such a collection has not imported.
    reads : mapping
        By the suffix of files, the function that takes paths and what is declared of their columns, and returns one
        collection of all of them.
    encodes : bool
        Whether its sources encode categories, dates and missing values by the rules that are declared.
    package : str, optional
        The package whose types its collections have, where its name is another.
    """

    name: str
    open: "Callable[[Any, Declared], EngineSource | None]"
    reads: "Mapping[str, Callable[[list[str], Declared], Any]]"
    encodes: bool = False
    package: str = ""


class EngineSource(ABC):
    """Base of the sources whose rows stay on an engine: they collect there, and give no batches."""

    n_features: int
    feature_names: tuple[str, ...] | None = None
    n_rows: int | None = None
    n_rows_hint: int | None = None
    by_unit = False
    in_order = False  # where a row stands may depend on what is in it
    typed = True  # whether columns have types of their own

    @abstractmethod
    def collect(self, make: Callable[[], Statistic]) -> Statistic:
        """Return the sum over all partitions of what `make` makes, each updated with its rows."""

    @abstractmethod
    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Return the engine's collection of what a function makes of blocks of rows: one column a name, not computed.

        Every row is taken by itself, in the order in which the engine has them.
        """

    def batches(self) -> Iterator[Any]:
        """Refuse: where a row's place depends on its values, a changed row could move others to new partners."""
        raise InvalidDataError(
            "Rows on an engine come in no public order, so statistic='spatial_sign' and statistic='kendall' do not "
            "work there; use "
            "statistic='clipped', or give the rows as files or an array."
        )


Outcome = Accumulator | EigenveilError


def part_of(batches: Iterable[Any], make: Callable[[], Accumulator]) -> Outcome:
    """Return the statistic of the rows of one partition, or the error that refuses them.

    The error is returned, not raised: engines retry what raises, and write its arguments, rows that is, to logs.
    """
    total = make()
    try:
        for batch in batches:
            if isinstance(batch, Blocks):
                total.update(batch)
                continue
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
