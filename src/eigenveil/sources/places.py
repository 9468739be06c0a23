"""Where bytes come from: files, plain or compressed, in any encoding, and standard input."""

import bz2
import codecs
import gzip
import io
import lzma
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

from ..errors import InvalidParameterError, one_of

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
        return self == TextFormat()


def text_format(given: Mapping[str, Any]) -> TextFormat:
    """Return the format that keyword arguments describe; None says nothing."""
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
        self.suffixes = self._sniffed()

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
            head = stream.read(64)
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
    with ExitStack() as stack:
        stream = stack.enter_context(place.open("rb"))
        decompress = next((made for end, made in COMPRESSIONS.items() if suffix.endswith(end)), None)
        if decompress is not None:
            stream = stack.enter_context(decompress(stream))
        if codecs.lookup(encoding).name != "utf-8":
            stream = cast(BinaryIO, stack.enter_context(io.BufferedReader(_Recoded(stream, encoding), 2**16)))
        yield stream


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
