"""`Release`: a private value together with its guarantee and where it came from, in memory and in a file.

The file is a plain ``.npz`` archive that ``numpy.load`` opens without pickle: one ``.npy`` member an array, and
``release.json`` with the format number, the guarantee and the provenance. Its zip comment holds the SHA-256 of
every byte before it, so a changed or truncated file is refused. That is a checksum, not a signature: it finds
damage, and it does not prove who wrote the file. docs/release_file.md describes the format.
"""

import hashlib
import html
import io
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidParameterError, ReleaseFileError
from .guarantee import Guarantee

FloatArray = NDArray[np.float64]

_FORMAT = 1
_DIGEST_PREFIX = b"sha256:"
_COMMENT_LENGTH = len(_DIGEST_PREFIX) + 64


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves the private side: arrays, the guarantee they carry, and public facts about their making.

    Parameters
    ----------
    arrays : mapping of str to array
        The released values by name, such as "covariance" and "components".
    guarantee : Guarantee
        What is promised to every person in the data.
    provenance : mapping
        Public facts in JSON types: package version, mechanism, parameters, feature names.

    Examples
    --------
    >>> release = Release({"components": np.eye(1, 3)}, Guarantee(1.0), {"mechanism": "example"})
    >>> release.components.shape, release.covariance is None
    ((1, 3), True)
    """

    arrays: Mapping[str, FloatArray]
    guarantee: Guarantee
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = {name: np.array(value, dtype=np.float64) for name, value in self.arrays.items()}
        for value in arrays.values():
            value.flags.writeable = False
        object.__setattr__(self, "arrays", MappingProxyType(arrays))
        try:
            provenance = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InvalidParameterError("provenance must hold plain JSON values only.") from error
        object.__setattr__(self, "provenance", MappingProxyType(provenance))

    def __reduce__(self) -> tuple[Any, ...]:
        return Release, (dict(self.arrays), self.guarantee, dict(self.provenance))

    @property
    def covariance(self) -> FloatArray | None:
        """The released second moment (d x d), or None where only a subspace was released."""
        return self.arrays.get("covariance")

    @property
    def components(self) -> FloatArray | None:
        """The released directions (k x d), most important first."""
        return self.arrays.get("components")

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Public names of the features, where the source had them."""
        names = self.provenance.get("feature_names")
        return None if names is None else tuple(names)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the release to one file, whole or not at all; see `load_release`."""
        target = Path(path)
        try:
            with whole_file(target) as file:
                file.write(self._to_bytes())
        except OSError as error:
            raise ReleaseFileError(f"The release cannot be written to {target}: {error.strerror}.") from error
        return target

    def _to_bytes(self) -> bytes:
        header = {
            "format": _FORMAT,
            "guarantee": self.guarantee.to_dict(),
            "provenance": dict(self.provenance),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(_member("release.json"), json.dumps(header, indent=1, sort_keys=True))
            for name, value in sorted(self.arrays.items()):
                content = io.BytesIO()
                np.save(content, value, allow_pickle=False)
                archive.writestr(_member(f"{name}.npy"), content.getvalue())
            archive.comment = b" " * _COMMENT_LENGTH
        body = buffer.getvalue()[:-_COMMENT_LENGTH]
        return body + _comment_for(body)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in sorted(self.arrays.items()))
        return f"Release({shapes}; {self.guarantee})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was released, by which mechanism, and the guarantee."""
        facts = {
            **{name: " x ".join(map(str, value.shape)) or "number" for name, value in sorted(self.arrays.items())},
            **{name: self.provenance.get(name) for name in ("mechanism", "n_rows", "created")},
        }
        rows = "".join(
            f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
            for name, value in facts.items()
            if value is not None
        )
        return f"<div><strong>Release</strong><table>{rows}</table>{self.guarantee._repr_html_()}</div>"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it has been written."""
    # A name of its own for every process, in the same folder so that the final rename is atomic.
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def load_release(path: str | PathLike[str]) -> Release:
    """Read a release file and return it, or raise `ReleaseFileError` if a single bit of it changed."""
    source = Path(path)
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
            if header["format"] != _FORMAT:
                raise ReleaseFileError(
                    f"The release file {source} has format {header['format']}, and this version reads "
                    f"{_FORMAT}; update eigenveil."
                )
            arrays = {name: archive[name] for name in archive.files if name != "release.json"}
        return Release(arrays, Guarantee.from_dict(header["guarantee"]), header["provenance"])
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ReleaseFileError(f"The release file {source} does not follow the format.") from error


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same bytes for the same release


def _comment_for(body: bytes) -> bytes:
    return _DIGEST_PREFIX + hashlib.sha256(body).hexdigest().encode()
