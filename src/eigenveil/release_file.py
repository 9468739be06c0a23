"""The release file: a plain ``.npz`` archive that ``numpy.load`` opens without pickle.

One ``.npy`` member of int64 an array, and ``release.json`` with the format number, the unit of every array, the
guarantee and the origin. Its zip comment holds the SHA-256 of every byte before it, so a changed or truncated file is
refused. That is a checksum, not a signature: it finds damage, and it does not prove who wrote the file.

What never changes meaning: a field of a format that has been written. A new meaning is a new format number, and every
format that was ever written is read.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidParameterError, ReleaseFileError
from .guarantee import Guarantee
from .origin import Origin
from .release_format_1 import upgraded

IntArray = NDArray[np.int64]
Content = tuple[dict[str, IntArray], dict[str, float], Guarantee, Origin]

FORMAT = 2
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


def read_release(source: Path) -> Content:
    """Return what a release file holds, or raise `ReleaseFileError`."""
    try:
        content = source.read_bytes()
    except OSError as error:
        raise ReleaseFileError(f"The release file {source} cannot be read: {error.strerror}.") from error
    body, comment = content[:-_COMMENT_LENGTH], content[-_COMMENT_LENGTH:]
    if not comment.startswith(_DIGEST_PREFIX):
        raise ReleaseFileError(f"The file {source} is not a release of eigenveil, or it is cut short.")
    if comment != _comment_for(body):
        raise ReleaseFileError(f"The release file {source} was changed after it was written; do not use it.")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            header = json.loads(archive["release.json"])
            arrays = {name: archive[name] for name in archive.files if name != "release.json"}
        return _read(header, arrays, source)
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ReleaseFileError(f"The release file {source} does not follow the format.") from error


def _read(header: dict[str, Any], arrays: dict[str, Any], source: Path) -> Content:
    if header["format"] == 1:
        return upgraded(arrays, header["guarantee"], header["provenance"])
    if header["format"] != FORMAT:
        raise ReleaseFileError(
            f"The release file {source} has format {header['format']}, and this version reads up to {FORMAT}; update "
            "eigenveil."
        )
    if set(header["unit"]) != set(arrays) or any(array.dtype != np.int64 for array in arrays.values()):
        raise ValueError("every array is int64 and has a unit")
    unit = {str(name): float(one) for name, one in header["unit"].items()}
    return arrays, unit, Guarantee.from_dict(header["guarantee"]), Origin.from_dict(header["origin"])


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _comment_for(body: bytes) -> bytes:
    return _DIGEST_PREFIX + hashlib.sha256(body).hexdigest().encode()
