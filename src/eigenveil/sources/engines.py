"""The table of engines: whose collections are taken as data, and which read files."""

import glob
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import EigenveilError, EngineError, InvalidDataError, one_of, own_words
from .declared import Declared
from .files import suffix_of
from .on_dask import DASK
from .on_engine import Engine, EngineSource
from .on_spark import SPARK
from .text import check_header

# A further engine is one more name here.
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (DASK, SPARK)}

_DIRECTORY = ".parquet"  # what is in a directory whose name does not tell


def on_engine(data: Any) -> bool:
    """Tell whether data belong to an engine, by where their type is from."""
    return type(data).__module__.partition(".")[0] in {engine.package or engine.name for engine in ENGINES.values()}


def open_on_engine(data: Any, declared: Declared) -> EngineSource | None:
    """Return the source of a collection of an engine, or None for anything else."""
    for engine in ENGINES.values():
        source = engine.open(data, declared)
        if source is not None:
            if declared.encodes and not engine.encodes:
                raise InvalidDataError(
                    f"categories, missing and schema do not work on {engine.title}; encode and fill there before."
                )
            return source
    return None


@own_words
def open_with_engine(
    paths: Sequence[str | os.PathLike[str]], engine: str, named: Collection[Any] = (), person: str | None = None
) -> Any:
    """Return an engine's collection of the rows of files, for `fit` and `second_moments`.

    Parameters
    ----------
    paths : list of paths
        Files of one kind, or directories of such files; patterns with ``*`` and addresses such as ``s3://...`` go to
        the engine as they are.
    engine : str
        A name in `ENGINES`. Dask computes on the current client, or on threads without one. Spark takes the active
        session, or starts one in local mode.
    named : collection of str
        The columns that will be read, where they are known: a CSV file that has them all has a header.
    person : str, optional
        The column that tells persons apart, which is read as text from files of text.
    """
    chosen = ENGINES[one_of("engine", engine, tuple(ENGINES))]
    places = [os.fspath(path) for path in paths]
    suffixes = {_suffix(place, chosen.reads) for place in places}
    readers = {chosen.reads[suffix] for suffix in suffixes}
    if len(readers) != 1:
        raise InvalidDataError(
            "An engine needs at least one file, and files of one kind; their names must end in "
            f"{', '.join(chosen.reads)}."
        )
    try:
        collection = readers.pop()(places, *([] if person is None else [person]))
    except (EigenveilError, MemoryError):
        raise
    except ImportError:
        raise EngineError(
            f"The engine {chosen.title} is not installed; run pip install 'eigenveil[{chosen.name}]'."
        ) from None
    except Exception:  # whatever a reader says may quote a cell
        raise InvalidDataError(
            f"{chosen.title} cannot read the files: they are damaged, of another kind, or no parts of one table."
        ) from None
    if any(suffix.startswith(".csv") for suffix in suffixes):
        check_header(list(collection.columns), places[0], named)
        if not named:
            _check_numbers(collection, places[0])
    return collection


def _check_numbers(collection: Any, place: str) -> None:
    try:
        open_on_engine(collection, Declared())
    except InvalidDataError:  # which names a column by what may be somebody's cell
        raise InvalidDataError(
            f"A column of {place} has no name, the name of another or no numbers; choose the columns to use with "
            "columns=."
        ) from None


def _suffix(place: str, suffixes: Iterable[str]) -> str:
    suffix = suffix_of(place.rstrip("/"), suffixes)
    local = "://" not in place
    if suffix is None and not (local and Path(place).is_dir()):
        raise InvalidDataError(
            f"{place} is of no kind that this engine reads; its name must end in {', '.join(suffixes)}."
        )
    if local and not (Path(place).exists() or glob.glob(place)):
        raise InvalidDataError(f"There is no file {place}.")
    return suffix or _DIRECTORY
