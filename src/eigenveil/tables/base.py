"""What all tables share: sources and readers, the format of text files, standard input; PyArrow is asked for here."""

import bz2
import codecs
import gzip
import io
import lzma
import shutil
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, Self, cast

from ..errors import (
    EigenveilError,
    EngineError,
    InvalidDataError,
    InvalidParameterError,
    column_in_words,
    one_of,
    quoted,
)
from ..moments.units import Blocks, without_weights

if TYPE_CHECKING:
    from .encoder import Declared


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


_IN_MEMORY = 2**26
# What a compressed or binary file begins with.
_BEGINS = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
}


def _zstd(raw: BinaryIO) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(raw, "zstd")


# A further compression is one more line.
COMPRESSIONS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".xz": partial(lzma.LZMAFile, format=lzma.FORMAT_XZ),
    ".bz2": bz2.BZ2File,
    ".zst": _zstd,
}


@dataclass(frozen=True)
class TextFormat:
    """How a file of text is written.

    Parameters
    ----------
    delimiter : str, optional
        One character between the fields: a comma in .csv and a tab in .tsv files by default.
    decimal : str
        The decimal sign of its numbers.
    encoding : str
        As Python names it.

    Examples
    --------
    >>> TextFormat(delimiter=";", decimal=",", encoding="latin-1").is_default
    False
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name, sign in (("delimiter", self.delimiter), ("decimal", self.decimal)):
            if sign is not None and (not isinstance(sign, str) or len(sign) != 1 or sign in '"\r\n' or ord(sign) > 127):
                raise InvalidParameterError(f"{name} must be one plain character, such as a comma.")
        if self.delimiter == self.decimal or (self.delimiter is None and self.decimal == ","):
            raise InvalidParameterError("delimiter and decimal must differ; with a decimal comma, give delimiter=';'.")
        try:
            "a".encode(self.encoding)
        except (LookupError, TypeError):
            raise InvalidParameterError(
                "encoding must be one that Python knows, such as utf-8, latin-1 or utf-16."
            ) from None

    @property
    def is_default(self) -> bool:
        """Whether nothing was said about it."""
        return self == _DEFAULT_FORMAT


_DEFAULT_FORMAT = TextFormat()


def text_format(given: Mapping[str, Any]) -> TextFormat:
    """Return the format that keyword arguments describe; None says nothing."""
    if not given:
        return _DEFAULT_FORMAT
    for name in given:
        one_of("The options of files of text", name, ("delimiter", "decimal", "encoding"))
    return TextFormat(**{name: value for name, value in given.items() if value is not None})


class StandardInput:
    """What a command reads from a pipe, kept so that it can be read twice: in memory, or in a file without a name.

    It behaves as the path of a file as far as the readers need one.
    """

    name = "standard input"

    def __init__(self, stream: BinaryIO) -> None:
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._kept.close)  # when nobody reads it any more, and when the process ends
        shutil.copyfileobj(stream, self._kept)
        self.suffixes: str = self._sniffed()

    @property
    def on_disk(self) -> bool:
        """Whether it was too long for memory; the file has no name, and is gone when the process ends."""
        return bool(getattr(self._kept, "_rolled", False))

    def open(self, mode: str = "rb") -> BinaryIO:
        """Return a reader from the beginning; closing it keeps what is kept."""
        del mode
        self._kept.seek(0)
        return cast(BinaryIO, io.BufferedReader(_Kept(self._kept)))

    def stat(self) -> Any:
        """Return its size."""
        self._kept.seek(0, io.SEEK_END)
        return SimpleNamespace(st_size=self._kept.tell())

    def __str__(self) -> str:
        return self.name

    def _sniffed(self) -> str:
        """Return the end that its name would have as a file."""
        with self.open() as stream:
            head = stream.read(8)
        end = next((suffix for begin, suffix in _BEGINS.items() if head.startswith(begin)), "")
        if end and end not in COMPRESSIONS:
            return end
        with opened(self, end) as stream:
            head = next(pieces(stream, 64))
        return (".jsonl" if head.lstrip().startswith(b"{") else ".csv") + end


class _Kept(io.RawIOBase):
    """A reader of a kept stream that does not close it."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._kept.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._kept.seek(offset, whence)
        return int(self._kept.tell())

    def tell(self) -> int:
        return int(self._kept.tell())


Place = Path | StandardInput


@contextmanager
def opened(place: Place, suffix: str, encoding: str = "utf-8") -> Iterator[BinaryIO]:
    """Give the bytes of a file, decompressed by the end of its name, and in UTF-8 whatever its encoding."""
    decompress = next((made for end, made in COMPRESSIONS.items() if suffix.endswith(end)), None)
    if decompress is not None and place.stat().st_size == 0:
        raise EOFError  # gzip would take it for a file of no text
    with ExitStack() as stack:
        stream = stack.enter_context(place.open("rb"))
        if decompress is not None:
            stream = stack.enter_context(decompress(stream))
        if codecs.lookup(encoding).name != "utf-8":
            stream = cast(BinaryIO, stack.enter_context(io.BufferedReader(_Recoded(stream, encoding), 2**16)))
        yield stream


def pieces(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield a text in UTF-8 piece by piece, at least one, without its byte order mark."""
    head = b""
    while len(head) < len(codecs.BOM_UTF8) and (piece := stream.read(size)):
        head += piece
    yield head.removeprefix(codecs.BOM_UTF8)
    while piece := stream.read(size):
        yield piece


class _Recoded(io.RawIOBase):
    """A stream of text in UTF-8, from one in another encoding."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream, self._decoder, self._rest = stream, codecs.getincrementaldecoder(encoding)(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        ended = False
        while not self._rest and not ended:
            piece = self._stream.read(2**16)
            ended = not piece
            self._rest = self._decoder.decode(piece, final=ended).encode()
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


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
        """About how many rows will come."""

    def batches(self) -> Iterator[Any]:
        """Yield non-empty blocks of rows: each a dense or a CSR matrix of numbers, `RowsByColumn`, or `Blocks`.

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
    if columns is None and isinstance(available, range) and available:
        return list(available)
    chosen = list(available) if columns is None else _checked(columns)
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


def _checked(columns: Sequence[Any]) -> list[Any]:
    chosen = [] if isinstance(columns, str) else list(columns)
    if not chosen or not all(isinstance(column, Hashable) for column in chosen):
        raise InvalidParameterError("columns must be a list of at least one column.")
    for column, count in Counter(chosen).items():
        if count > 1:
            raise InvalidParameterError(f"columns lists {quoted(column)} more than once.")
    return chosen


def with_names(columns: Sequence[Any]) -> list[Any]:
    """Return the columns without those that have no name, as an index that was saved with the table."""
    return [column for column in columns if not _nameless(column)]


def _nameless(name: Any) -> bool:
    # The second is the name pandas gives to a nameless index in a Parquet file.
    return isinstance(name, str) and (not name.strip() or name.startswith("__index_level_"))


class FileReader:
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
    text_format : TextFormat, optional
        How a file of text is written.
    """

    path: Place
    suffix: str
    where: str

    numbered: ClassVar[bool] = False  # whether columns have positions and no names
    needs_arrow: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False  # whether the hint is the number of rows that the file says it has
    takes_text_format: ClassVar[bool] = False  # whether a delimiter, a decimal sign or an encoding can be chosen
    names_public: bool = True  # whether an error may quote names that the caller did not
    n_rows_hint: int | None = None
    _schema: Any = None  # that of PyArrow, where the file holds a table and not a matrix

    def __init__(self, path: Place, suffix: str, declared: "Declared", text_format: TextFormat | None = None) -> None:
        self.path, self.suffix, self.where = path, suffix, str(path)
        self.declared: Declared = declared
        self.text_format: TextFormat = _DEFAULT_FORMAT if text_format is None else text_format
        if not (self.text_format.is_default or self.takes_text_format):
            raise InvalidDataError(f"{path} is no file of text; leave out delimiter, decimal and encoding.")
        with one_sentence(self.where):
            self.columns: Sequence[Any] = self._read_schema()

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

    def _declared_schema(self, names: Sequence[str]) -> Any:
        """Return the PyArrow schema of a file of text: text where something else than a number is declared."""
        import pyarrow as pa

        as_text = {*self.declared.text, self.declared.unit_column}
        return pa.schema([(name, pa.string() if name in as_text else pa.float64()) for name in names])

    def _no_number_in(self, name: str) -> str:
        """Say that a column of numbers holds something else, and never what."""
        which = column_in_words(name, list(self.columns).index(name), self.names_public)
        return (
            f"{self.path} has something else than numbers in the column {which}; declare it boolean, category or date "
            "in a schema, which tables.draft_schema(data) drafts, or choose other columns with columns= of open_table."
        )


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


def units_in(batch: Any) -> int:
    """Return the number of rows or privacy units in a batch; the number of rows of a unit is private."""
    if isinstance(batch, Blocks):
        return batch.n_privacy_units
    return int(without_weights(batch).shape[0])


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
            seen += units_in(batch)
            bar.update(task, completed=seen)
        bar.update(task, total=seen, completed=seen)  # the hint may have been a guess
