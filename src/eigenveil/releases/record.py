"""`Release`: what left the private side, with its guarantee and its origin. It reads itself.

What left is integers, and the public value of one of them. Every other number is a function of these, of the public mechanism
and of the public rule of the rows, so no rounding of floating point can tell anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..display import notebook_table
from ..errors import ReleaseFileError, integer_between
from ..files import whole_file
from ..guarantee import Guarantee
from ..numerics import IntArray
from .compare import Comparison, compare
from .export import Exporting
from .file import MAX_BYTES, read_release, release_bytes
from .multivariate import Using
from .origin import Origin
from .synthetic import Synthesizing


@dataclass(frozen=True, eq=False)
class Release(Using, Synthesizing, Exporting):
    """What leaves the private side: integers, their unit, the guarantee they carry, and where they come from.

    Its attributes say what it holds in the user's units: `covariance`, `mean`, `correlation`, `scale`, `components`,
    `explained_variance`, `regression`, ... See `eigenveil.releases.reading.Reading`. Its methods use it: `transform`, `pca`,
    `regress`, `whiten`, `mahalanobis`, `lda`, `cca`, `factor_analysis`, `sample`, `to_sklearn`, `to_json`, `to_onnx`,
    `compare`. All of that is post-processing, and costs no privacy.

    Parameters
    ----------
    integers : mapping of str to int64 array
        What left, by name: "matrix", or "directions" with or without "quotients" (variances along them, then what they
        leave of the trace); "trace" is one more measurement of it, "count" a noisy number of rows, "slack" their number
        less the trace; in the local model "sums" and "ones" of the reports.
    unit : mapping of str to float
        The value of one, by the same names.
    guarantee : Guarantee
        What is promised to every person in the data.
    origin : Origin
        Public facts about its making.
    """

    integers: Mapping[str, IntArray]
    unit: Mapping[str, float]
    guarantee: Guarantee
    origin: Origin

    def __post_init__(self) -> None:
        integers = {name: np.asarray(value, dtype=np.int64) for name, value in self.integers.items()}
        # A view would keep the array that it was cut from, where more may stand than what leaves.
        integers = {name: (value.copy() if _shows_less(value) else value).view() for name, value in integers.items()}
        for value in integers.values():
            value.flags.writeable = False
        object.__setattr__(self, "integers", MappingProxyType(integers))
        object.__setattr__(self, "unit", MappingProxyType({name: float(one) for name, one in self.unit.items()}))

    def __reduce__(self) -> tuple[Any, ...]:
        return Release, (dict(self.integers), dict(self.unit), self.guarantee, self.origin)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the release to one file, whole or not at all; see `load_release`."""
        target = Path(path)
        try:
            with whole_file(target) as file:
                file.write(release_bytes(self.integers, self.unit, self.guarantee, self.origin))
        except OSError as error:
            raise ReleaseFileError(f"The release cannot be written to {target}: {error.strerror}.") from error
        return target

    def compare(self, other: "Release") -> Comparison:
        """Return how this release and another of the same features compare; see `eigenveil.releases.compare.compare`."""
        return compare(self, other)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in sorted(self.integers.items()))
        return f"Release({shapes}; {self.guarantee})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was released, by which mechanism, and the guarantee."""
        facts = {
            **{name: " x ".join(map(str, value.shape)) or "number" for name, value in sorted(self.integers.items())},
            "mechanism": self.origin.mechanism,
            self.guarantee.unit.counted: self.n_rows,
            "created": self.origin.created or None,
        }
        return notebook_table("Release", facts, more=self.guarantee._repr_html_())


def _shows_less(array: IntArray) -> bool:
    """Return whether an array is a part of what its memory holds."""
    return array.base is not None and getattr(array.base, "nbytes", None) != array.nbytes


def load_release(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> Release:
    """Read a release file and return it, or raise `ReleaseFileError` if a single bit of it changed.

    Parameters
    ----------
    path : path
        A regular file.
    max_bytes : int
        A larger file is refused before it is read. What is read takes a few times its size in memory.
    """
    release = Release(*read_release(Path(path), integer_between("max_bytes", max_bytes, 1)))
    if not _makes_sense(release):
        raise ReleaseFileError(f"The release file {path} does not follow the format.")
    return release


def _makes_sense(release: Release) -> bool:
    """Return whether the mechanism can make numbers of what left, and all of them are finite: a file may say anything."""
    values = release._values
    try:
        found = [release.n_rows, release._of_one_unit, *values.values()]
        found += [] if release.mechanism is None else [release.mechanism.directions(values)]
        return all(one is None or bool(np.isfinite(one).all()) for one in found)
    except (LookupError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return False
