"""`open_table`: whatever the user has becomes a source of rows. `ENGINES` is the table of engines."""

import glob
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from ..errors import EigenveilError, EngineError, InvalidDataError, InvalidParameterError, one_of, own_words
from ..moments import RowBound
from ..moments.second_moments import SecondMoments
from .base import PARQUET, Columns, Engine, EngineSource, Source, Statistic, choose_columns, tracked_batches, with_names
from .dask import DASK
from .encoder import Categories, Declared
from .files import open_files, suffix_of
from .frames import TableSource, held
from .privacy_units import IDS_NEED_MEMORY, MEMORY, UnitTable, unit_and_ids
from .schema import Schema
from .spark import SPARK
from .sql import SQL
from .text import DEFAULT_FORMAT, check_header, text_format

# A further engine is one more name here.
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (DASK, SPARK, SQL)}


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
                f"The engine {engine.name.capitalize()} is not installed; run pip install 'eigenveil[{engine.name}]'."
            ) from None
        except Exception:  # whatever a reader says may quote a cell
            raise InvalidDataError(
                f"{engine.name.capitalize()} cannot read the files: they are damaged, of another kind, or no parts of "
                "one table."
            ) from None
        if not self.typed:
            check_header(list(collection.columns), self.places[0], declared.named)
        return collection


def on_engine(data: Any) -> bool:
    """Tell whether data belong to an engine, by where their type is from."""
    if isinstance(data, EngineFiles):
        return True
    return type(data).__module__.partition(".")[0] in {engine.package or engine.name for engine in ENGINES.values()}


def open_on_engine(data: Any, declared: Declared) -> EngineSource | None:
    """Return the source of a collection of an engine, or of files for one; None for anything else."""
    if isinstance(data, EngineFiles):
        source = open_on_engine(data.read(declared), declared)
        assert source is not None
        source.typed = data.typed
        return source
    for engine in () if isinstance(data, np.ndarray) else ENGINES.values():
        source = engine.open(data, declared)
        if source is not None:
            if declared.encodes and not engine.encodes:
                raise InvalidDataError(
                    f"categories, missing and schema do not work on {engine.name.capitalize()}; encode and fill there "
                    "before."
                )
            return source
    return None


@own_words
def open_with_engine(paths: Sequence[str | os.PathLike[str]], engine: str) -> EngineFiles:
    """Return files that an engine will read, for `fit`, `open_table` and `second_moments`.

    Nothing is read before these know what is declared of the columns: in a file of text, categories, truth values,
    dates and the identifier of the privacy unit are text, and everything else is a number.

    Parameters
    ----------
    paths : list of paths
        Files of one kind, or directories of Parquet files; patterns with ``*`` and addresses such as ``s3://...`` go to
        the engine as they are.
    engine : str
        A name in `ENGINES`, of an engine that reads files. Dask computes on the current client, or on threads without
        one. Spark takes the active session, or starts one in local mode.
    """
    readers = tuple(name for name, one in ENGINES.items() if one.reads)
    chosen = ENGINES[one_of("engine", engine, readers)]
    places = tuple(os.fspath(path) for path in paths)
    suffixes = set()
    for place in places:
        suffix = suffix_of(place.rstrip("/"), chosen.reads)
        local = "://" not in place
        if suffix is None and not (local and Path(place).is_dir()):
            raise InvalidDataError(
                f"{place} is of no kind that this engine reads; its name must end in {', '.join(chosen.reads)}."
            )
        if local and not (Path(place).exists() or glob.glob(place)):
            raise InvalidDataError(f"There is no file {place}; check the path.")
        suffixes.add(suffix or PARQUET)  # what is in a directory whose name does not tell
    if len({chosen.reads[suffix] for suffix in suffixes}) != 1:
        raise InvalidDataError(
            "An engine needs at least one file, and files of one kind; their names must end in "
            f"{', '.join(chosen.reads)}."
        )
    return EngineFiles(chosen, places, suffixes.pop())


@own_words
def draft_schema(data: Any, columns: Columns = None, **text: Any) -> Schema:
    """Return a draft of a schema, from the names and types of a table, for a person to check and to confirm.

    Ranges, categories, the number of rows, whether a value is missing: nothing of that is looked at. A file of text has
    no types, and JSON lines have no columns: those of a draft are guessed from the first rows, which are private. So no
    table is read by a draft until `Schema.confirmed` says that a person has checked it. Every column that is used has a
    rule for missing values; columns of text, and those that are identifiers by their names, are ignored until somebody
    declares them. Columns without a name are left out.

    Parameters
    ----------
    data : path, list of paths, data frame or array
        Of several files the first one counts.
    columns : list of str or int, optional
        The columns to declare; all by default.
    **text
        `delimiter`, `decimal` and `encoding` of files of text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> draft = draft_schema(pa.table({"age": [30, 40], "city": ["Rome", "Lima"]}))
    >>> [(column.name, column.kind, column.range, column.missing) for column in draft.columns]
    [('age', 'number', None, 'middle'), ('city', 'ignored', None, None)]
    >>> draft.draft, draft.confirmed().draft
    (True, False)
    """
    from .guesses import guessed_types  # here alone: what is guessed off rows must not reach a release

    types = guessed_types(data, columns, text_format(text))
    if types is None:
        part = (open_files(data, Declared(columns), text_format(text)) or [held(data)])[0]
        chosen = choose_columns(with_names(part.columns), columns, part.where)
        known = part.types(chosen)
        types = {column: None if known is None else known[column] for column in chosen}
    return Schema.from_types(types)


def open_source(data: Any, columns: Columns = None) -> Source:
    """Return the source that reads `data` in batches.

    Parameters
    ----------
    data : array, sparse matrix, data frame, path or list of paths; or a source, which is returned as it is
        NumPy, SciPy sparse (any format), any frame that narwhals knows (pandas, Polars, PyArrow, ...), collections
        of the engines in `eigenveil.tables.open.ENGINES`, or files of the formats in
        `eigenveil.tables.files.FORMATS`. Several paths are the parts of one table. Also what comes in parts: DuckDB
        relations, Arrow record-batch readers, iterators of pandas chunks; the last two can be read once.
    columns : list of str or int, optional
        The columns to read, in this order: names, or positions where the columns have no names. JSON lines need them,
        or a schema: their keys are part of the rows.

    Returns
    -------
    Source
        Its schema has been checked; its rows have not been read.

    Examples
    --------
    >>> open_source([[1.0, 2.0], [3.0, 4.0]]).n_features
    2
    """
    return open_table(data, columns)


@own_words
def open_table(
    data: Any,
    columns: Columns = None,
    *,
    categories: Categories | None = None,
    missing: float | None = None,
    schema: Schema | None = None,
    privacy_unit: Any = None,
    public_order: bool = False,
    memory: int = MEMORY,
    **text: Any,
) -> Source:
    """Return a source as `open_source` does, of a table with categories or with missing numbers.

    `fit` and `second_moments` take it in place of data.

    Parameters
    ----------
    data, columns
        As in `open_source`; `columns` lists categorical ones too.
    categories : mapping of str to list, optional
        The public categories of each column to encode one-hot, compared value by value: text without the blanks around
        it, numbers as numbers, truth values as ``true`` and ``false``. In a file of text everything is text.
    missing : float, optional
        A public number to put where a number is missing. Without it, such rows are what `RowBound` makes of them.
    schema : Schema, optional
        What is public of every column, in place of `columns`, `categories` and `missing`.
    privacy_unit : str, int, list or array, optional
        The identifier of the privacy unit, where a person has many rows: a column, by its name or by its position where
        there are no names; or, for data held in memory, the identifiers themselves, one a row. By default the column of
        kind person of the schema. It is never a feature. Batches are then of whole privacy units,
        `eigenveil.moments.units.Blocks`. Identifiers are compared as text: `eigenveil.tables.identifiers`. False reads
        rows without privacy units.
    public_order : bool
        Whether the rows of a query or a stream come in an order that does not depend on their values; only then are
        they compared with one another.
    memory : int
        Bytes that rows may take while they are sorted by person, beside one batch; what is more goes to a temporary
        file without a name.
    **text
        `delimiter`, `decimal` and `encoding` of files of text; see `eigenveil.tables.text.TextFormat`.

    Returns
    -------
    Source
        A `TableSource`, which also knows which features are one-hot, unless rows stay on an engine.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [30.0, None, 50.0], "sex": ["F", "M", "?"]})
    >>> source = open_table(people, categories={"sex": ["F", "M"]}, missing=40)
    >>> source.feature_names
    ('age', 'sex=F', 'sex=M')
    >>> next(source.batches())
    array([[30.,  1.,  0.],
           [40.,  0.,  1.],
           [50.,  0.,  0.]])
    """
    column, ids = unit_and_ids(privacy_unit, schema)
    declared = Declared(columns, categories or {}, missing, schema, column)
    format_of_text = text_format(text)
    if is_source(data):
        given = any(one is not None for one in (columns, declared.unit_column, ids))
        if given or declared.encodes or public_order:
            raise InvalidParameterError(
                "The columns, categories, missing, schema, privacy units and order of a source were given when it was "
                "opened; leave them out."
            )
        opened: Source = data
        return opened
    parts = open_files(data, declared, format_of_text)
    if parts is None and format_of_text != DEFAULT_FORMAT:
        raise InvalidParameterError("delimiter, decimal and encoding are for files of text; leave them out.")
    on_engine = open_on_engine(data, declared) if parts is None else None
    if on_engine is not None:
        if ids is not None:
            raise InvalidParameterError(IDS_NEED_MEMORY)
        if public_order:
            raise InvalidParameterError("Rows on an engine have no public order; leave out public_order.")
        return on_engine
    parts = parts or [held(data)]
    if ids is None and declared.unit_column is None:
        return TableSource(parts, declared, public_order=public_order)
    return UnitTable(parts, declared, ids, memory)


def is_source(data: Any) -> TypeGuard[Source]:
    """Tell whether data have been opened already."""
    # Of its class, since a frame looks for a column of that name, which takes it long.
    return callable(getattr(type(data), "batches", None)) and hasattr(data, "n_rows_hint")


@own_words
def collect(
    source: Source, make: Callable[[], Statistic], progress: bool | None = None, purpose: str = "reading rows"
) -> Statistic:
    """Return the statistic that `make` makes empty, with all rows of `source`.

    Parameters
    ----------
    source : Source
        The rows. On an engine every partition is collected there, apart, and the parts are added.
    make : callable
        Makes an empty statistic with `update`, `update_from` and ``+``; to reach workers it must pickle.
    progress : bool, optional
        See `second_moments`; engines have their own bars.
    purpose : str
        What the rows are read for, in words.
    """
    if isinstance(source, EngineSource):
        return source.collect(make)
    # Closed at once where an error is raised, so that the bar is gone before the error is shown.
    with closing(tracked_batches(source, progress, purpose)) as batches:
        return make().update_from(batches)


def second_moments(
    data: Any,
    bound: RowBound,
    *,
    columns: Columns = None,
    privacy_unit: Any = None,
    memory: int = MEMORY,
    progress: bool | None = None,
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
    privacy_unit, memory
        The identifier of the privacy unit, where they are the unit of `bound`, and the memory to sort their rows in:
        see `open_table`.
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
    source = open_table(data, columns, privacy_unit=privacy_unit, memory=memory)
    make = partial(SecondMoments, bound, source.n_features, source.feature_names)
    return collect(source, make, progress)
