"""Identifiers of privacy units: what is compared, and the keys that stand for them.

Identifiers are compared as text. A whole number is its decimal digits, whatever its type; text has no blanks around it;
bytes are the text that they spell, else a UUID where they are sixteen, else hexadecimal.
So 7 is "7" from every source, and "007" is somebody else. A key is a digest of that text: it has a fixed size, and no
order of its own.

Where two privacy units had one key, by chance or by intent, they would count as one person: that costs them accuracy,
and nobody any privacy. One person with two keys would have half the protection. So where programs write one identifier
in several ways, they are taken for one: "7.0", as of whole numbers in a column with gaps, "1e+05" and "1.0E7" as of
such in R and Java, accents apart from their letters, and a UUID in capitals, in braces or without dashes.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import InvalidDataError
from ..moments.units import Blocks
from .base import has_arrow

Codes = NDArray[np.integer[Any]]
Keys = NDArray[np.uint64]

# What readers of text take for a missing value.
_MISSING_MARKS = frozenset(
    ("", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)
# Most identifiers: compared as they are written. No mark of a missing value begins with another letter than N.
_AS_WRITTEN = r"^([0-9]{1,31}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-MO-Za-mo-z]([ -~]{0,29}[!-~])?)$"
_WHOLE_WITH_POINT = re.compile(r"-?[0-9]+\.0*")
# One digit before the point, as programs write it; with more it may be a code that happens to have an e.
_WHOLE_WITH_EXPONENT = re.compile(r"-?[1-9](\.[0-9]+)?[eE]\+?[0-9]{1,2}")
_UUID_TEXT = re.compile(r"\{?[0-9a-fA-F]{8}(-?)([0-9a-fA-F]{4}\1){3}[0-9a-fA-F]{12}\}?")
_UUID_DIGITS, _UUID_VARIANT = 32, 0b10  # the first two bits of the ninth byte, as the standard has them
# Beyond this a float64 stands for several whole numbers; narrower floats do before.
_WHOLE_FLOATS = 2**53
# Keys of what is no identifier: on engines they travel where an error cannot.
_NO_KEY, _UNFIT_KEY = bytes(16), bytes(15) + b"\x01"
_EMPTY = blake2b(digest_size=16)


class _UnfitError(Exception):
    """A value that cannot be an identifier."""


def keys_of(values: Any) -> tuple[Codes, Keys]:
    """Return the person of every row, numbered by first appearance, and a key of every person.

    Parameters
    ----------
    values : ndarray, narwhals Series, or list
        The identifiers, one a row. They are numbered by the container that holds them: no row becomes an object of
        Python.

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
        if kind.is_integer() or kind.is_float():
            numbers = values.to_numpy()  # no integers where some are missing
            values = numbers if numbers.dtype.kind in ("iu" if kind.is_integer() else "f") else values
        elif kind == nw.Object():
            values = values.to_list()
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "O" and values.dtype.names is None and values.dtype.itemsize:
            return _keys_of_array(values)
        values = values.tolist()
    # Arrow would make one type of several, and so one identifier of text and bytes.
    several_types = isinstance(values, list) and len(set(map(type, values)) - {type(None)}) > 1
    encoded = _arrow_codes(values) if has_arrow() and not several_types else None
    if encoded is not None:
        codes, distinct = encoded
        return _without_twins(codes, _keys_of_arrow(distinct))
    listed = values if isinstance(values, list) else values.to_list()
    return _without_twins(np.arange(len(listed)), _as_keys(map(_key, listed)))


def _keys_of_array(values: NDArray[Any]) -> tuple[Codes, Keys]:
    kind = values.dtype
    if kind.kind == "f" and (np.abs(values) < 2.0 ** (np.finfo(kind).nmant + 1)).all() and (values % 1 == 0).all():
        values = values.astype(np.int64)  # none of which stands for several numbers
    elif kind == "S16":
        values = values.view("V16")  # else a UUID would lose zeros at its end
    if not has_arrow():
        listed = values.tolist() if values.dtype.kind in "SUV" else list(values)
        return _without_twins(np.arange(values.size), _as_keys(map(_key, listed)))
    import pyarrow as pa

    values = np.ascontiguousarray(values)  # by their bytes: Arrow takes text of NumPy to end at its first zero
    binary, buffers = pa.binary(values.dtype.itemsize), [None, pa.py_buffer(values)]
    encoded = pa.Array.from_buffers(binary, values.size, buffers).dictionary_encode()
    codes = encoded.indices.to_numpy()
    items = np.frombuffer(encoded.dictionary.buffers()[1] or b"", values.dtype, len(encoded.dictionary))
    if items.dtype.kind in "iu":
        return codes, _digests([b"%d" % number for number in items.tolist()])
    if items.dtype.kind in "SUV":
        known, keys = keys_of(items.tolist())
        return known[codes], keys
    return _without_twins(codes, _as_keys(map(_key, items)))  # each of its own width


def _arrow_codes(values: Any) -> tuple[Codes, Any] | None:
    """Return codes by first appearance and the Arrow array of distinct values; None where Arrow has no such type."""
    import pyarrow as pa

    try:
        array = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values)
        array = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
        if isinstance(array.type, pa.BaseExtensionType):
            array = pa.chunked_array([chunk.storage for chunk in array.chunks], array.type.storage_type)
        if pa.types.is_dictionary(array.type):
            array = array.cast(array.type.value_type)
        encoded = array.dictionary_encode("encode").combine_chunks()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return encoded.indices.to_numpy(), encoded.dictionary


def _keys_of_arrow(distinct: Any) -> Keys:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = distinct.type
    if pa.types.is_floating(kind):
        return _as_keys(map(_key, distinct.to_numpy(zero_copy_only=False)))  # each of its own width
    if pa.types.is_temporal(kind):
        return _as_keys(_UNFIT_KEY if there else _NO_KEY for there in distinct.is_valid().to_pylist())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return _as_keys(map(_key, distinct.to_pylist()))
    keys = _digests([text or b"" for text in distinct.cast(pa.large_binary()).to_pylist()])
    as_written = pc.match_substring_regex(distinct, _AS_WRITTEN).fill_null(False).to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~as_written)
    if others.size:
        keys[others] = _as_keys(map(_key, distinct.take(pa.array(others)).to_pylist()))
    return keys


def _digests(texts: Sequence[bytes]) -> Keys:
    digests = []
    for text in texts:
        hashed = _EMPTY.copy()  # takes half the time of a new one
        hashed.update(text)
        digests.append(hashed.digest())
    return _as_keys(digests)


def _as_keys(digests: Iterable[bytes]) -> Keys:
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)


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
            "below 2^53), bytes or UUIDs. Write dates as text."
        )


def _without_twins(codes: Codes, keys: Keys) -> tuple[Codes, Keys]:
    """Join identifiers that differ by surrounding blanks only; in order of appearance as before."""
    ordered = np.sort(keys[:, 0])
    if not (ordered[1:] == ordered[:-1]).any():
        return codes, keys
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse.ravel()][codes], keys[np.sort(first)]


def _key(value: Any) -> bytes:
    try:
        text = _text(value)
    except (_UnfitError, ValueError, OverflowError):  # a number of too many digits, say
        return _UNFIT_KEY
    return _NO_KEY if text is None else blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
        if math.isnan(value):
            return None
        if not math.isfinite(value) or value != math.floor(value):
            raise _UnfitError
        narrow = np.finfo(value.dtype).nmant + 1 if isinstance(value, np.floating) else 53
        if isinstance(value, float | np.floating) and abs(value) >= min(2**narrow, _WHOLE_FLOATS):
            raise _UnfitError
        return _text(math.floor(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _text_of_bytes(bytes(value))
    if isinstance(value, UUID):
        return str(value)
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
    """Return one text for all texts that programs write for one identifier.

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


@dataclass(frozen=True, eq=False, repr=False)
class Grouping:
    """The rows of every person.

    Parameters
    ----------
    order : ndarray of int64, optional
        The rows, person after person, and those of one person in the order in which they came; None where they lie so.
    starts : ndarray of int64
        The place in that order where the rows of every person begin; its last entry is the number of rows.
    keys : ndarray of uint64, of shape (privacy units, 2)
    """

    order: NDArray[np.integer[Any]] | None
    starts: NDArray[np.int64]
    keys: Keys

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
            Size of a full batch, which ends with the person that fills it: so no small one is left at the end.
        weights : ndarray of int64, optional
            Size of every row; 1 by default.
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
    >>> grouping.order.tolist(), grouping.starts.tolist()
    ([0, 2, 1], [0, 2, 3])
    """
    # A sparse matrix with one entry a row, turned on its side, is a counting sort.
    entries = np.ones(codes.size, dtype=np.int8), codes, np.arange(codes.size + 1)
    by_unit = scipy.sparse.csr_array(entries, shape=(codes.size, len(keys))).tocsc()
    in_order = not (codes[1:] < codes[:-1]).any()
    return Grouping(None if in_order else by_unit.indices, by_unit.indptr.astype(np.int64), keys)


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
    changes = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), np.bool_), changes]))
    return Grouping(order, np.append(starts, len(row_keys)), ordered[starts])
