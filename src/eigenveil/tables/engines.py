"""Rows on an engine: what all engines have in common.

Rows stay where they are. Each partition becomes one small exact statistic on its worker, these add up in a tree, and
only the sum travels to the driver. The statistics are integers, so the partitioning, the order and the shape of
the tree leave no trace. A partition is a pure function of its rows: where a worker dies, its partition is computed
again and replaces what was lost, so no row is counted twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..errors import EigenveilError, EngineError, InvalidDataError
from ..moments.units import Blocks
from .base import Accumulator
from .encoder import Declared
from .text import check_header

Outcome = Accumulator | EigenveilError
PARQUET = ".parquet"
"""The suffix of files whose columns have types; those of the others are declared."""


@dataclass(frozen=True)
class Engine:
    """What there is to know of an engine; the table of them is `eigenveil.tables.open.ENGINES`.

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
    open: Callable[[Any, Declared], "EngineSource | None"]
    reads: Mapping[str, Callable[[list[str], Declared], Any]]
    encodes: bool = False
    package: str = ""

    @property
    def title(self) -> str:
        """What errors call it."""
        return self.name.capitalize()


@dataclass(frozen=True)
class EngineFiles:
    """Files that an engine will read once it is declared what is in them: a file of text has no other types.

    Attributes
    ----------
    engine : Engine
        Who reads them.
    places : tuple of str
        Paths, patterns or addresses.
    suffix : str
        The end of their names.
    """

    engine: Engine
    places: tuple[str, ...]
    suffix: str

    @property
    def typed(self) -> bool:
        """Whether their columns have types of their own."""
        return self.suffix == PARQUET

    def read(self, declared: Declared) -> Any:
        """Return the collection of their rows."""
        engine = self.engine
        try:
            collection = engine.reads[self.suffix](list(self.places), declared)
        except (EigenveilError, MemoryError):
            raise
        except ImportError:
            raise EngineError(
                f"The engine {engine.title} is not installed; run pip install 'eigenveil[{engine.name}]'."
            ) from None
        except Exception:  # whatever a reader says may quote a cell
            raise InvalidDataError(
                f"{engine.title} cannot read the files: they are damaged, of another kind, or no parts of one table."
            ) from None
        if not self.typed:
            check_header(list(collection.columns), self.places[0], declared.named)
        return collection


class EngineSource:
    """Base of the sources whose rows stay on an engine: they collect there, and give no batches."""

    n_features: int
    feature_names: tuple[str, ...] | None = None
    n_rows: int | None = None
    n_rows_hint: int | None = None
    by_unit = False
    in_order = False  # where a row stands may depend on what is in it
    typed = True  # whether columns have types of their own

    def collect(self, make: Callable[[], Any]) -> Any:
        """Return the sum over all partitions of what `make` makes, each updated with its rows."""
        raise NotImplementedError

    def mapped(self, function: Callable[[Any], Any], names: Sequence[str]) -> Any:
        """Return the engine's collection of what a function makes of blocks of rows: one column a name, not computed.

        Every row is taken by itself, in the order in which the engine has them.
        """
        raise NotImplementedError

    def batches(self) -> Iterator[Any]:
        """Refuse: where a row's place depends on its values, a changed row could move others to new partners."""
        raise InvalidDataError(
            "Rows on an engine come in no public order, so statistic='spatial_sign' and statistic='kendall' do not "
            "work there; use "
            "statistic='clipped', or give the rows as files or an array."
        )


def part_of(batches: Iterable[Any], make: Callable[[], Accumulator]) -> Outcome:
    """Return what the rows of one partition come to, or the error that refuses them.

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
