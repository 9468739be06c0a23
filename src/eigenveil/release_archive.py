"""The archive of a release: the members that a format has, as it writes them, and nothing else is unpacked.

Releases were never compressed, so a member takes no more memory than disk. All that an archive says of itself is
checked before a member is read: method, flags, names, sizes; and of an array its type and shape before its numbers.
"""

import io
import math
import zipfile
from collections.abc import Collection

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

HEADER = "release.json"
_UTF8_NAMES = 0x800
_MOST_MEMBERS, _MOST_DIMENSIONS, _HEADER_BYTES = 16, 3, 2**22


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
    if len(text) > _HEADER_BYTES:
        raise ValueError("the header is too long")
    return text


def arrays_of(members: dict[str, bytes], names: Collection[str]) -> dict[str, NDArray[np.int64]]:
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
