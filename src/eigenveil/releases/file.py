"""The archive of a release: the members that a format has, as it writes them, and nothing else is unpacked.

Releases were never compressed, so a member takes no more memory than disk. All that an archive says of itself is
checked before a member is read: method, flags, names, sizes; and of an array its type and shape before its numbers.
"""

import hashlib
import io
import math
import zipfile
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ..errors import InvalidParameterError, ReleaseFileError, ReleaseFileWarning, warn_caller
from ..files import parsed_json, read_bounded
from ..guarantee import Guarantee
from ..mechanisms.base import IN_UNITS_OF_C
from ..numerics import IntArray
from .origin import HEADER_BYTES, LARGEST, MOST_COUNT, SMALLEST, Origin, header_text, must

HEADER = "release.json"
_UTF8_NAMES = 0x800
_MOST_MEMBERS, _MOST_DIMENSIONS = 16, 3


def members_of(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive by name, or raise what the reader of it raises."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        listed = archive.infolist()
        if len({one.filename for one in listed}) < len(listed) or not 1 < len(listed) <= _MOST_MEMBERS:
            raise ValueError("a member comes twice, or there are too many or too few")
        for one in listed:
            plain = one.compress_type == zipfile.ZIP_STORED and one.flag_bits in (0, _UTF8_NAMES)
            if not plain or one.compress_size != one.file_size:
                raise ValueError("a member is compressed or encrypted")
        if sum(one.file_size for one in listed) > len(content):
            raise ValueError("members share their bytes")
        return {one.filename: archive.read(one) for one in listed}


def header_of(members: dict[str, bytes]) -> bytes:
    """Return the text of the header."""
    text = members[HEADER]
    if len(text) > HEADER_BYTES:
        raise ValueError("the header is too long")
    return text


def arrays_of(members: dict[str, bytes], names: Container[str]) -> dict[str, NDArray[np.int64]]:
    """Return the arrays among the members, all of int64 and with names of the format."""
    arrays = {}
    for member, content in members.items():
        if member == HEADER:
            continue
        name = member.removesuffix(".npy")
        if name == member or name not in names:
            raise ValueError("the format has no such member")
        arrays[name] = _array(content)
    return arrays


def _array(content: bytes) -> NDArray[np.int64]:
    stream = io.BytesIO(content)
    version = npy_format.read_magic(stream)
    read = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}[version]
    shape, by_column, found = read(stream)
    if found.hasobject or found.newbyteorder("=") != np.dtype(np.int64):
        raise ValueError("an array is of another type")
    if len(shape) > _MOST_DIMENSIONS or any(type(size) is not int or size < 1 for size in shape):
        raise ValueError("an array has another shape")
    start = stream.tell()
    if math.prod(shape) * found.itemsize != len(content) - start:
        raise ValueError("an array is cut short, or longer than it says")
    numbers = np.frombuffer(content, found, offset=start).reshape(shape, order="F" if by_column else "C")
    return np.array(numbers, dtype=np.int64, order="C")


MEANS = ("mean", "mean_again", "mean_third", "mean_fourth")
"""Means that were measured before the matrix, one after another."""
SQUARE, NUMBER = ("matrix", "map"), ("trace", "count", "slack", "ones")
NAMES = frozenset({*SQUARE, *NUMBER, *MEANS, "directions", "quotients", "sums"})
"""What leaves, by name, and so the arrays of a file."""
_GO_WITH = {
    "quotients": "directions",
    "trace": "matrix",
    "slack": "matrix",
    "map": "matrix",
    "ones": "sums",
    **dict(zip(MEANS, ("matrix", *MEANS), strict=False)),
}
_MOST_SHIFT = 64


def check_content(
    integers: Mapping[str, IntArray], unit: Mapping[str, float], guarantee: Guarantee, origin: Origin
) -> None:
    """Raise `ValueError` where a file does not follow the format."""
    width = _check_shapes(integers, origin)
    origin.check(width - origin.centred)
    must(origin.parameters.get("n_features", width) == width, "the mechanism is about these features")
    for name, one in unit.items():
        must(SMALLEST**3 <= one <= LARGEST**3, "a unit is a number above 0")
        if name not in MEANS:  # other units are those of the rows, or 1, but for the rounding of a mechanism
            usual = origin.row_rule.unit_squared if name in IN_UNITS_OF_C else 1.0
            must(abs(math.log2(one / usual)) <= _MOST_SHIFT, "a unit is that of the rows")
    must(
        guarantee.unit is origin.row_rule.unit or origin.model == "local", "the guarantee is about the unit of the rows"
    )
    count = integers.get("count")
    must(count is None or 1 <= int(count) <= MOST_COUNT, "a number of rows is at least 1")


def _check_shapes(integers: Mapping[str, IntArray], origin: Origin) -> int:
    """Return the width of the matrix or of directions, if all arrays have the shapes that go with it."""
    leading = [name for name in ("matrix", "directions", "sums") if name in integers]
    must(len(leading) == 1, "a matrix, directions or sums of reports left")
    must(all(needed in integers for name, needed in _GO_WITH.items() if name in integers), "arrays come with others")
    width = integers[leading[0]].shape[-1] if integers[leading[0]].ndim else 0
    drawn = integers.get("directions")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(SQUARE, (width, width)),
        **dict.fromkeys(NUMBER, ()),
        **dict.fromkeys(MEANS, (width - origin.centred,)),
    }
    if drawn is not None:
        must(drawn.ndim == 2 and len(drawn) <= width and bool((drawn != 0).any(axis=1).all()), "directions are rows")
        # One for each direction, and one for what is left of the trace where they are not all.
        shapes |= {"directions": drawn.shape, "quotients": (len(drawn) + 1,)}
        if integers.get("quotients", drawn).shape == (len(drawn),):
            shapes["quotients"] = (len(drawn),)
    if "sums" in integers:
        shapes["sums"] = (min(integers["sums"].shape[0], 2), width, width)
    for name, value in integers.items():
        must(value.shape == shapes.get(name), "an array has the shape of its kind")
        # The least int64 has no opposite, and a sum with it may wrap around.
        must(bool((value > np.iinfo(np.int64).min).all()), "integers have an opposite")
    for name in ("matrix", "map", "sums"):
        if name in integers:
            value = integers[name]
            must(np.array_equal(value, np.swapaxes(value, -1, -2)), "matrices are symmetric")
    return int(width)


Content = tuple[dict[str, IntArray], dict[str, float], Guarantee, Origin]
_IGNORED = (
    "The release file {source} has {fields} of a later version of eigenveil, which {are} ignored; update eigenveil to "
    "read all of it."
)

_Read = TypeVar("_Read")
FORMAT = 2
MAX_BYTES = 2**31
"""Larger files are refused unless asked for: a matrix of 16,000 features fits."""
_DIGEST_PREFIX = b"sha256:"
_COMMENT_LENGTH = len(_DIGEST_PREFIX) + 64


def release_bytes(
    integers: Mapping[str, IntArray], unit: Mapping[str, float], guarantee: Guarantee, origin: Origin
) -> bytes:
    """Return the file of a release; the same bytes for the same release."""
    header = {
        "format": FORMAT,
        "unit": dict(unit),
        "guarantee": guarantee.to_dict(),
        "origin": origin.to_dict(),
    }
    return archive_bytes(header, integers)


def archive_bytes(header: Mapping[str, Any], integers: Mapping[str, IntArray]) -> bytes:
    """Return a sealed archive of a header and arrays of integers; the same bytes for the same content."""
    try:
        text = header_text(header)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError("An origin must hold plain JSON values only.") from error
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(_member("release.json"), text)
        for name, value in sorted(integers.items()):
            content = io.BytesIO()
            np.save(content, value, allow_pickle=False)
            archive.writestr(_member(f"{name}.npy"), content.getvalue())
        archive.comment = b" " * _COMMENT_LENGTH
    body = buffer.getvalue()[:-_COMMENT_LENGTH]
    return body + _comment_for(body)


def read_release(source: Path, max_bytes: int = MAX_BYTES) -> Content:
    """Read a release file, or raise `ReleaseFileError`; warn of fields that only a later version knows."""
    found, unknown = read_archive(source, _read, max_bytes)
    if unknown:
        fields, are = ("1 field", "is") if unknown == 1 else (f"{unknown} fields", "are")
        warn_caller(_IGNORED.format(source=source, fields=fields, are=are), ReleaseFileWarning)
    return found


def read_archive(source: Path, read: Callable[[Any, dict[str, bytes], Path], _Read], max_bytes: int) -> _Read:
    """Apply `read` to the header and the members of a sealed archive, or raise `ReleaseFileError`."""
    content = read_bounded(source, "The release file", ReleaseFileError, max_bytes)
    body, comment = content[:-_COMMENT_LENGTH], content[-_COMMENT_LENGTH:]
    if not comment.startswith(_DIGEST_PREFIX):
        raise ReleaseFileError(
            f"The file {source} is not a release of eigenveil, or it is incomplete; give a file that eigenveil wrote."
        )
    if comment != _comment_for(body):
        raise ReleaseFileError(f"The release file {source} was changed after it was written; do not use it.")
    try:
        members = members_of(content)
        return read(parsed_json(header_of(members)), members, source)
    except ReleaseFileError:
        raise
    except MemoryError:
        raise ReleaseFileError(f"There is not enough memory to read the release file {source}.") from None
    except Exception as error:  # readers of archives and arrays raise whatever a content made to hurt leads them to
        raise ReleaseFileError(f"The release file {source} does not follow the format.") from error


def _read(header: dict[str, Any], members: dict[str, bytes], source: Path) -> tuple[Content, int]:
    """Return the content of a header and its members, and the number of fields that this version does not know."""
    if header.get("kind") is not None:
        raise ReleaseFileError(f"The file {source} holds something else than a release, such as a score map.")
    found = header["format"]
    if type(found) is not int:
        raise ValueError("a format is a number")
    if found != FORMAT:
        raise ReleaseFileError(f"The release file {source} has format {found}, and this version reads format {FORMAT}.")
    if set(header) != {"format", "unit", "guarantee", "origin"}:
        raise ValueError("a header has the fields of its format")
    arrays = arrays_of(members, NAMES)
    if set(header["unit"]) != set(arrays) or any(type(one) not in (int, float) for one in header["unit"].values()):
        raise ValueError("every array has a unit")
    unit = {name: float(one) for name, one in header["unit"].items()}
    origin, unknown = Origin.read(header["origin"])
    content = (arrays, unit, Guarantee.from_dict(header["guarantee"]), origin)
    check_content(*content)
    return content, unknown


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _comment_for(body: bytes) -> bytes:
    return _DIGEST_PREFIX + hashlib.sha256(body).hexdigest().encode()
