"""Identifiers of privacy units: what is compared, and the keys that stand for them.

Identifiers are compared as text. A whole number is its decimal digits, whatever its type; text has no blanks around it;
bytes are the text that they spell, else a UUID where they are sixteen, else hexadecimal; days and times are ISO text.
So 7 is "7" from every source, and "007" is somebody else. A key is a digest of that text: it has a fixed size, and no
order of its own.

Where two privacy units had one key, by chance or by intent, they would count as one person: that costs them accuracy,
and nobody any privacy. One person with two keys would have half the protection. So where programs write one identifier
in several ways, they are taken for one: "7.0", as of whole numbers in a column with gaps, "1e+05" and "1.0E7" as of
such in R and Java, accents apart from their letters, and a UUID in capitals, in braces or without dashes.
"""

import ctypes
import functools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import pairwise
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..moments.units import Blocks
from ..numerics import compiled_function
from .base import has_arrow

Codes = NDArray[np.integer[Any]]
Keys = NDArray[np.uint64]

# What readers of text take for a missing value.
_MISSING_MARKS = frozenset(
    ("", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)
_WHOLE_WITH_POINT = re.compile(r"-?[0-9]+\.0*")
# One digit before the point, as programs write it; with more it may be a code that happens to have an e.
_WHOLE_WITH_EXPONENT = re.compile(r"-?[1-9](\.[0-9]+)?[eE]\+?[0-9]{1,2}")
_UUID_TEXT = re.compile(r"\{?[0-9a-fA-F]{8}(-?)([0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}\}?")
_UUID_DIGITS, _UUID_VARIANT = 32, 0b10  # the first two bits of the ninth byte, as the standard has them
_EPOCH = datetime(1970, 1, 1)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
# Beyond this a float64 stands for several whole numbers; narrower floats do before.
_WHOLE_FLOATS = 2**53
# Fewer are numbered by identifiers.c, in 32 bits, with at least so many slots for texts.
_MOST_NUMBERED, _FIRST_SLOTS = 2**31, 2**12
# Keys of what is no identifier: on engines they travel where an error cannot.
_NO_KEY, _UNFIT_KEY = bytes(16), bytes(15) + b"\x01"
_EMPTY = blake2b(digest_size=16)


class _UnfitError(Exception):
    """A value that cannot be an identifier."""


def keys_of(values: Any) -> tuple[Codes, Keys]:
    """Return which person every row belongs to, in order of first appearance, and a key of every person.

    Parameters
    ----------
    values : ndarray, narwhals Series, or list
        The identifiers, one a row.

    Returns
    -------
    codes : ndarray of shape (rows,)
    keys : ndarray of uint64, of shape (privacy units, 2)
        Sixteen bytes of BLAKE2b as two big-endian integers. `check_keys` refuses those that are no identifiers.

    Examples
    --------
    >>> codes, keys = keys_of(["b", "a", " b "])
    >>> codes.tolist(), keys.shape
    ([0, 1, 0], (2, 2))
    >>> bool((keys_of(np.array([7, 7.0]))[1] == keys_of(["7"])[1]).all())
    True
    """
    if not isinstance(values, np.ndarray | list):
        import narwhals as nw

        kind = values.dtype  # which takes a look at all of them where they are objects
        whole = values.to_numpy() if kind.is_integer() else None  # no integers where some are missing
        values = whole if _is_numbered(whole) else values.to_list() if kind == nw.Object() else values
    if _is_numbered(values) and (numbered := _compiled_numbered()) is not None:
        return numbered(values.astype(np.int64, order="C", copy=False))
    if isinstance(values, np.ndarray) and values.dtype == "S16":
        values = values.view("V16")  # else a UUID would lose zeros at its end
    if isinstance(values, np.ndarray) and (values.dtype.kind in "OSUV" or not has_arrow()):
        if values.dtype.kind != "O" and values.dtype.names is None and values.dtype.itemsize:
            codes, items = _distinct_items(values)
            known, keys = keys_of(items.tolist() if values.dtype.kind in "SUV" else list(items))  # of their own width
            return known[codes], keys
        values = values.tolist()
    # Arrow would make one type of several, and so one identifier of text and bytes.
    several_types = isinstance(values, list) and len(set(map(type, values)) - {type(None)}) > 1
    encoded = None if several_types else _dictionary(values)
    if encoded is None:
        found: dict[bytes, int] = {}
        listed = values.to_list() if hasattr(values, "to_list") else list(values)
        codes = np.fromiter((found.setdefault(_key(value), len(found)) for value in listed), np.int64, len(listed))
        return codes, _as_keys(found)
    import pyarrow as pa

    codes, distinct = encoded
    if pa.types.is_integer(distinct.type):  # whose digits have one spelling
        return codes, _digests(distinct.cast(pa.string()))
    if pa.types.is_floating(distinct.type) and _all_whole(distinct.to_numpy(zero_copy_only=False)):
        return _without_twins(codes, _digests(distinct.cast(pa.int64()).cast(pa.string())))  # 0.0 and -0.0
    plain = _compiled_plain() if _is_text(distinct.type) else None
    if plain is None:
        return _without_twins(codes, _as_keys(map(_key, _python_values(distinct))))
    # What is compared as it is written does not become Python text.
    keys, others = _digests(distinct), np.flatnonzero(~plain(*_bytes_of_texts(distinct)))
    if not others.size:
        return codes, keys
    keys[others] = _as_keys(map(_key, distinct.take(pa.array(others)).to_pylist()))
    return _without_twins(codes, keys)


def check_keys(keys: Keys, told: str) -> None:
    """Refuse keys that are no identifiers; the error contains no value.

    >>> check_keys(keys_of([1, None])[1], "The column 'id'")
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidDataError: The column 'id' has no identifier in some row; fill it in, or leave out the \
rows that belong to nobody.
    """
    low = keys[keys[:, 0] == 0, 1]
    if (low == 0).any():
        raise InvalidDataError(
            f"{told} has no identifier in some row; fill it in, or leave out the rows that belong to nobody."
        )
    if (low == 1).any():
        raise InvalidDataError(
            f"{told} contains a value that is not an identifier; identifiers are text, whole numbers (as floats "
            "below 2^53), bytes, UUIDs or dates."
        )


def _is_numbered(values: Any) -> bool:
    """Tell an array of whole numbers that int64 holds, and not more of them than identifiers.c numbers."""
    whole = isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.dtype != np.uint64
    return whole and values.ndim == 1 and values.size < _MOST_NUMBERED


@functools.cache
def _compiled_numbered() -> Callable[[NDArray[np.int64]], tuple[Codes, Keys]] | None:
    """Return `keys_of` for whole numbers by identifiers.c, if it was compiled and gives what Python gives."""
    places = (ctypes.c_void_p,) * 5
    digests, size = _compiled_digests(), ctypes.c_size_t
    function = compiled_function("eigenveil_numbered", ctypes.c_void_p, size, ctypes.c_int, *places, returns=size)
    if function is None or digests is None:
        return None

    def numbered(numbers: NDArray[np.int64]) -> tuple[Codes, Keys]:
        n, bits = numbers.size, (2 * numbers.size).bit_length()
        codes, found, starts = np.empty(n, dtype=np.uint32), *(np.empty(n + 1, dtype=np.int64) for _ in range(2))
        texts = np.empty(20 * n, dtype=np.uint8)
        many = function(numbers, n, bits, np.zeros(2 ** (bits + 1), dtype=np.uint32), codes, texts, starts, found)
        return codes, digests(texts, starts[: many + 1])

    numbers = np.array([7, -1, 10**18, 7, 0, -(2**63), 2**63 - 1, -1, *range(90, 110), 0])
    first = {number: place for place, number in enumerate(dict.fromkeys(numbers.tolist()))}
    codes, keys = numbered(numbers)
    same = codes.tolist() == [first[number] for number in numbers.tolist()]
    return numbered if same and np.array_equal(keys, _as_keys(map(_key, first))) else None


def _dictionary(values: Any) -> tuple[Codes, Any] | None:
    """Return codes by first appearance, and the Arrow array of distinct identifiers, a missing one among them.

    None without Arrow, and where it has no such type.
    """
    if not has_arrow():
        return None
    import pyarrow as pa

    try:
        array = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values)
        if isinstance(array.type, pa.BaseExtensionType):
            chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
            array = pa.chunked_array([chunk.storage for chunk in chunks], array.type.storage_type)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        numbered = _compiled_numbered_texts() if _is_text(array.type) and not array.null_count else None
        if numbered is not None and len(array) < _MOST_NUMBERED:
            array = array.cast(pa.large_string())  # of which many chunks are one array, however long
            whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
            codes, firsts = numbered(*_bytes_of_texts(whole))
            return codes, whole.take(pa.array(firsts))
        encoded = array.dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    indices, distinct = encoded.indices, encoded.dictionary
    if indices.null_count:
        distinct = pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])
        indices = indices.fill_null(len(distinct) - 1)
    return indices.to_numpy(), distinct


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@functools.cache
def _compiled_numbered_texts() -> Callable[[NDArray[np.uint8], NDArray[np.int64]], tuple[Codes, Codes]] | None:
    """Return what numbers texts by first appearance, and lists these, if it was compiled and finds equal ones."""
    place, size = ctypes.c_void_p, ctypes.c_size_t
    types = place, place, size, size, place, place, place
    function = compiled_function("eigenveil_numbered_texts", *types, returns=size)
    if function is None:
        return None

    def numbered(texts: NDArray[np.uint8], starts: NDArray[np.int64]) -> tuple[Codes, Codes]:
        n = starts.size - 1
        codes, kinds = np.empty(n, dtype=np.uint32), np.empty((n, 3), dtype=np.int64)
        slots = np.empty(max(_FIRST_SLOTS, 4 * n), dtype=np.uint64)
        many = function(texts, starts, n, _FIRST_SLOTS, slots, codes, kinds)
        return codes, kinds[:many, 2].copy()

    texts = [b"%*d" % (place % 19, place * place % _FIRST_SLOTS * place) for place in range(_FIRST_SLOTS)] + [b""] * 2
    first: dict[bytes, int] = {}
    wanted = [first.setdefault(text, len(first)) for text in texts]
    codes, firsts = numbered(np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))
    same = codes.tolist() == wanted and [texts[place] for place in firsts] == list(first)
    return numbered if same else None


@functools.cache
def _compiled_plain() -> Callable[[NDArray[np.uint8], NDArray[np.int64]], NDArray[np.bool_]] | None:
    """Return what finds which texts are beyond doubt compared as they are written, if it was compiled and is right.

    Of every other text `_text` is asked.
    """
    function = compiled_function("eigenveil_plain", *(ctypes.c_void_p,) * 2, ctypes.c_size_t, ctypes.c_void_p)
    if function is None:
        return None

    def plain(texts: NDArray[np.uint8], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = np.empty(starts.size - 1, dtype=np.bool_)
        function(texts, starts, found.size, found)
        return found

    uuid = str(UUID(int=2**127 + 10**20))
    texts = ["a", "7", "007", "Ab C", *_MISSING_MARKS, " a", "a ", "7.0", "-0", "1e5", "é", "a\0", "a\n", "x" * 32]
    texts += [uuid, uuid.upper(), f"{{{uuid}}}", uuid.replace("-", ""), uuid.replace("-", "0")]
    written = [text.encode() for text in texts]
    found = plain(np.frombuffer(b"".join(written), np.uint8), np.cumsum([0, *map(len, written)]))
    return plain if all(_text(text) == text for text, one in zip(texts, found, strict=True) if one) else None


def _distinct_items(values: NDArray[Any]) -> tuple[Codes, NDArray[Any]]:
    """Return codes by first appearance, and the distinct items; no row becomes an object of Python."""
    if not has_arrow():
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        return _by_appearance(first, inverse), values[np.sort(first)]
    import pyarrow as pa

    values = np.ascontiguousarray(values)  # by their bytes: Arrow takes text of NumPy to end at its first zero
    kind, buffers = pa.binary(values.dtype.itemsize), [None, pa.py_buffer(values)]
    encoded = pa.Array.from_buffers(kind, values.size, buffers).dictionary_encode()
    items = np.frombuffer(encoded.dictionary.buffers()[1], values.dtype, len(encoded.dictionary))
    return encoded.indices.to_numpy(), items


def _all_whole(numbers: NDArray[np.floating[Any]]) -> bool:
    """Return whether floats are whole numbers, none of which stands for several."""
    return bool((np.abs(numbers) < 2.0 ** (np.finfo(numbers.dtype).nmant + 1)).all() and (numbers % 1 == 0).all())


def _bytes_of_texts(texts: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of an Arrow array of text, and where each text begins and the last one ends."""
    import pyarrow as pa

    _, ends, written = texts.buffers()
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    starts = np.frombuffer(ends or bytes(8), kind)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(written or b"\0", np.uint8), starts.astype(np.int64, copy=False)


def _digests(texts: Any) -> Keys:
    """Return the keys of an Arrow array of text, none of which becomes Python text: by identifiers.c, or one by one."""
    import pyarrow as pa

    compiled = _compiled_digests()
    if compiled is None:
        return _as_keys(map(_key_of_text, texts.cast(pa.large_binary()).to_pylist()))
    keys = compiled(*_bytes_of_texts(texts))
    keys[texts.is_null().to_numpy(zero_copy_only=False)] = 0  # as _NO_KEY
    return keys


@functools.cache
def _compiled_digests() -> Callable[[NDArray[np.uint8], NDArray[np.int64]], Keys] | None:
    """Return what makes the keys of many texts, if it was compiled and gives what Python gives."""
    function = compiled_function("eigenveil_digests", *(ctypes.c_void_p,) * 2, ctypes.c_size_t, ctypes.c_void_p)
    if function is None:
        return None

    def digests(texts: NDArray[np.uint8], starts: NDArray[np.int64]) -> Keys:
        keys = np.empty((starts.size - 1, 2), dtype=np.uint64)
        function(texts, starts, len(keys), keys)
        return keys

    ends = np.cumsum([0, 0, 1, 7, 127, 128, 129, 256, 257, 1000])
    texts = (np.arange(ends[-1]) * 97 % 251).astype(np.uint8)
    one_by_one = (_key_of_text(texts[low:high].tobytes()) for low, high in pairwise(ends))
    return digests if np.array_equal(digests(texts, ends), _as_keys(one_by_one)) else None


def _python_values(distinct: Any) -> Iterable[Any]:
    import pyarrow as pa

    if pa.types.is_floating(distinct.type):
        return list(distinct.to_numpy(zero_copy_only=False))  # each of its own width
    if not pa.types.is_timestamp(distinct.type):
        return list(distinct.to_pylist())
    # Python has no nanoseconds.
    unit = _NANOSECONDS[distinct.type.unit]
    times = distinct.cast(pa.int64()).to_pylist()
    return [None if time is None else _time_text(time * unit) for time in times]


def _without_twins(codes: Codes, keys: Keys) -> tuple[Codes, Keys]:
    """Join identifiers that differ by surrounding blanks only; in order of appearance as before."""
    ordered = np.sort(keys[:, 0])
    if not (ordered[1:] == ordered[:-1]).any():
        return codes, keys
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return _by_appearance(first, inverse)[codes], keys[np.sort(first)]


def _by_appearance(first: Codes, inverse: Codes) -> Codes:
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse.ravel()]


def _as_keys(digests: Iterable[bytes]) -> Keys:
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)


def _key(value: Any) -> bytes:
    try:
        return _digest(_text(value))
    except (_UnfitError, ValueError, OverflowError):  # a number of too many digits, say
        return _UNFIT_KEY


def _digest(text: str | None) -> bytes:
    return _NO_KEY if text is None else _key_of_text(text.encode("utf-8", "surrogatepass"))


def _key_of_text(text: bytes | None) -> bytes:
    if text is None:
        return _NO_KEY
    hashed = _EMPTY.copy()  # takes half the time of a new one
    hashed.update(text)
    return hashed.digest()


def _text(value: Any) -> str | None:
    """Return the text by which an identifier is compared, or None where it is missing."""
    if isinstance(value, str):
        text = value.rstrip("\0").strip()
        return None if text in _MISSING_MARKS else _one_spelling(text)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, Integral):
        digits = str(int(value))
        return digits if len(digits) < _UUID_DIGITS else _one_spelling(digits)
    if isinstance(value, Real | Decimal):
        return _number_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(bytes(value))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else _time_text(int(value.astype("M8[ns]").astype(np.int64)))
    if isinstance(value, datetime):
        naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return _time_text((naive - _EPOCH) // timedelta(microseconds=1) * 1000)
    if isinstance(value, date):
        return value.isoformat()
    raise _UnfitError


def _text_of_bytes(whole: bytes) -> str | None:
    """Return the text that bytes spell, as in files whose columns of text are not marked so; else a UUID, or digits.

    >>> [_text_of_bytes(whole) for whole in (b"ann", bytes([7, 255]), bytes(16))]
    ['ann', '07ff', '00000000-0000-0000-0000-000000000000']
    """
    may_be_uuid = len(whole) == _UUID_DIGITS // 2
    if not may_be_uuid or whole[8] >> 6 != _UUID_VARIANT:
        try:
            text = whole.rstrip(b"\0").decode()
        except UnicodeDecodeError:
            text = ""
        if text.isspace() or (text and text.isprintable()):
            return _text(text)
    return str(UUID(bytes=whole)) if may_be_uuid else whole.hex() or None


def _one_spelling(text: str) -> str:
    """Return the same for texts that programs write for one identifier.

    >>> [_one_spelling(text) for text in ("7.0", "7", "007.0", "7.5", "1e+05", "1.25E2")]
    ['7', '7', '007', '7.5', '100000', '125']
    """
    if not text.isascii():
        return unicodedata.normalize("NFC", text)
    if _WHOLE_WITH_POINT.fullmatch(text):
        text = text.partition(".")[0]
    if _WHOLE_WITH_EXPONENT.fullmatch(text):
        number = Decimal(text)
        return str(int(number)) if number == int(number) and abs(number) < _WHOLE_FLOATS else text
    if len(text) >= _UUID_DIGITS and _UUID_TEXT.fullmatch(text):
        return str(UUID(text))
    return "0" if text == "-0" else text


def _number_text(value: Any) -> str | None:
    if math.isnan(value):
        return None
    if not math.isfinite(value) or value != math.floor(value):
        raise _UnfitError
    narrow = np.finfo(value.dtype).nmant + 1 if isinstance(value, np.floating) else 53
    if isinstance(value, float | np.floating) and abs(value) >= min(2**narrow, _WHOLE_FLOATS):
        raise _UnfitError
    return _text(int(value))


def _time_text(nanoseconds: int) -> str:
    """Return a time since 1970 as ISO text; at midnight that of the day alone.

    >>> _time_text(0), _time_text(1_500_000_000)
    ('1970-01-01', '1970-01-01 00:00:01.5')
    """
    seconds, rest = divmod(nanoseconds, 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:  # beyond the calendar of Python
        return f"{nanoseconds} ns"
    if rest == 0 and moment.time() == datetime.min.time():
        return moment.date().isoformat()
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{rest:09d}".rstrip("0") if rest else "")


@dataclass(frozen=True, eq=False, repr=False)
class Grouping:
    """Where the rows of every person are.

    Parameters
    ----------
    places : ndarray of int64, optional
        The place of every row, person after person, and of one person in the order in which they came; None where they
        lie so.
    starts : ndarray of int64
        Where in that order the rows of every person begin; its last entry is the number of rows.
    keys : ndarray of uint64, of shape (privacy units, 2)
    """

    places: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    keys: Keys

    @functools.cached_property
    def order(self) -> NDArray[np.int64] | None:
        """The rows, person after person; None where they lie so."""
        return None if self.places is None else _inverse(self.places)

    def blocks(
        self,
        pick: Callable[[Any], Any],
        limit: int,
        weights: NDArray[np.int64] | None = None,
    ) -> Iterator[Blocks]:
        """Yield batches of whole privacy units.

        Parameters
        ----------
        pick : callable
            Takes a slice or an array of positions, and returns these rows.
        limit : int
            How much fills a batch, which ends with the person that fills it: so no small one is left at the end.
        weights : ndarray of int64, optional
            How much every row adds to that; 1 by default.
        """
        filled = self.starts
        if weights is not None:
            ordered = weights if self.order is None else weights[self.order]
            filled = np.concatenate([[0], np.cumsum(ordered)])[self.starts]
        low, n_privacy_units = 0, len(self.keys)
        while low < n_privacy_units:
            high = min(int(np.searchsorted(filled, filled[low] + limit)), n_privacy_units)
            where = slice(int(self.starts[low]), int(self.starts[high]))
            rows = pick(where if self.order is None else self.order[where])
            yield Blocks(rows, self.starts[low:high] - self.starts[low], self.keys[low:high])
            low = high


def grouped(codes: Codes, keys: Keys) -> Grouping:
    """Return the grouping of rows by the codes of their privacy units, which are numbered by first appearance.

    Examples
    --------
    >>> grouping = grouped(np.array([0, 1, 0]), np.zeros((2, 2), np.uint64))
    >>> grouping.places.tolist(), grouping.order.tolist(), grouping.starts.tolist()
    ([0, 2, 1], [0, 2, 1], [0, 2, 3])
    """
    compiled = _compiled_places() if codes.size < _MOST_NUMBERED else None
    places, starts = (_places if compiled is None else compiled)(codes, len(keys))
    return Grouping(places if (codes[1:] < codes[:-1]).any() else None, starts, keys)


def _places(codes: Codes, n_units: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of rows, unit after unit by their codes, and where each unit begins and the last one ends."""
    # A sparse matrix with one entry a row, turned on its side, is a counting sort.
    entries = np.ones(codes.size, dtype=np.int8), codes, np.arange(codes.size + 1)
    by_unit = scipy.sparse.csr_array(entries, shape=(codes.size, n_units)).tocsc()
    return _inverse(by_unit.indices), by_unit.indptr.astype(np.int64)


@functools.cache
def _compiled_places() -> Callable[[Codes, int], tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Return `_places` of identifiers.c, if it was compiled and gives the same."""
    place, size = ctypes.c_void_p, ctypes.c_size_t
    function = compiled_function("eigenveil_places", place, size, size, place, place)
    if function is None:
        return None

    def placed(codes: Codes, n_units: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts, places = np.empty(n_units + 1, dtype=np.int64), np.empty(codes.size, dtype=np.int64)
        function(np.ascontiguousarray(codes, dtype=np.uint32), codes.size, n_units, starts, places)
        return places, starts

    codes = np.arange(100) * 37 % 11
    return placed if all(map(np.array_equal, placed(codes, 11), _places(codes, 11))) else None


def _inverse(permutation: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return where every number stands in a permutation."""
    inverse = np.empty(permutation.size, dtype=np.int64)
    inverse[permutation] = np.arange(permutation.size)
    return inverse


def grouped_by_key(row_keys: Keys) -> Grouping:
    """Return the grouping of rows by the keys of their privacy units, in the order of keys.

    Examples
    --------
    >>> grouped_by_key(np.array([[9, 0], [1, 0], [9, 0]], np.uint64)).order.tolist()
    [1, 0, 2]
    """
    order = np.argsort(row_keys[:, 0], kind="stable")
    ordered = row_keys[order]
    same_half = ordered[1:, 0] == ordered[:-1, 0]
    if (same_half & (ordered[1:, 1] != ordered[:-1, 1])).any():  # two privacy units share half of their key
        order = np.lexsort((row_keys[:, 1], row_keys[:, 0]))
        ordered = row_keys[order]
    starts = run_starts(ordered)
    return Grouping(_inverse(order), np.append(starts, len(row_keys)), ordered[starts])


def run_starts(row_keys: Keys) -> NDArray[np.int64]:
    """Return where rows begin that belong to another person than the row before."""
    changes = (row_keys[1:] != row_keys[:-1]).any(axis=1)
    return np.flatnonzero(np.concatenate([np.ones(min(1, len(row_keys)), np.bool_), changes]))
