"""The release file: a plain ``.npz`` archive that ``numpy.load`` opens without pickle.

One ``.npy`` member of int64 an array, and ``release.json`` with the format number, the unit of every array, the
guarantee and the origin. Its zip comment holds the SHA-256 of every byte before it, so a changed or truncated file is
refused. That is a checksum, not a signature: it finds damage, and it does not prove who wrote the file.

What never changes meaning: a field of a format that a published version wrote. A new meaning is a new format number.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .bounded_file import parsed_json, read_bounded
from .errors import InvalidParameterError, ReleaseFileError
from .guarantee import Guarantee
from .origin import Origin
from .release_archive import arrays_of, header_of, members_of
from .release_schema import NAMES, check_content

IntArray = NDArray[np.int64]
Content = tuple[dict[str, IntArray], dict[str, float], Guarantee, Origin]

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
        text = json.dumps(header, indent=1, sort_keys=True, allow_nan=False)
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
    """Return what a release file holds, or raise `ReleaseFileError`."""
    return read_archive(source, _checked, max_bytes)


def read_archive(source: Path, read: Callable[[Any, dict[str, bytes], Path], _Read], max_bytes: int) -> _Read:
    """Return what `read` makes of the header and the members of a sealed archive, or raise `ReleaseFileError`."""
    content = read_bounded(source, "The release file", ReleaseFileError, max_bytes)
    body, comment = content[:-_COMMENT_LENGTH], content[-_COMMENT_LENGTH:]
    if not comment.startswith(_DIGEST_PREFIX):
        raise ReleaseFileError(f"The file {source} is not a release of eigenveil, or it is cut short.")
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


def _checked(header: dict[str, Any], members: dict[str, bytes], source: Path) -> Content:
    if header.get("kind") is not None:
        raise ReleaseFileError(f"The file {source} holds something else than a release, such as a score map.")
    found = _read(header, members, source)
    check_content(*found)
    return found


def _read(header: dict[str, Any], members: dict[str, bytes], source: Path) -> Content:
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
    return arrays, unit, Guarantee.from_dict(header["guarantee"]), Origin.from_dict(header["origin"])


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _comment_for(body: bytes) -> bytes:
    return _DIGEST_PREFIX + hashlib.sha256(body).hexdigest().encode()
