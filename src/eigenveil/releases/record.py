"""`Release`: what left the private side, with its guarantee and its origin, and views of it.

What left is integers, and the public value of one of them. Every other number is a function of these, of the public
mechanism and of the public rule of the rows, so no rounding of floating point can tell anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display import notebook_table
from ..errors import InvalidParameterError, ReleaseFileError, integer_between
from ..files import given_path, whole_file
from ..guarantee import Guarantee
from ..mechanisms.base import Mechanism
from ..numerics import FloatArray, IntArray
from ..postprocess.multivariate import CanonicalCorrelations, Factors
from . import export, multivariate, synthetic
from .compare import Comparison, compare
from .file import MAX_BYTES, read_release, release_bytes
from .intervals import LEVEL, IntervalView
from .matrix import Columns, MatrixView
from .origin import Origin
from .regression import Regression, regress, requested
from .spectrum import SpectrumView


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves the private side: integers, their unit, the guarantee they carry, and where they come from.

    Its views compute what it says, on first use: `matrix` (covariance, mean and their noise), `spectrum` (components
    and the variances along them) and `intervals` (of the covariance, the correlation and the mean). What most users
    want of them is an attribute here: `covariance`, `components`, `explained_variance`, ... All methods are
    post-processing, and cost no privacy.

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

    # What `pickle` and `skops` keep: plain values, and nothing that was computed from them.

    def __getstate__(self) -> dict[str, Any]:
        told = {"guarantee": self.guarantee.to_dict(), "origin": self.origin.to_dict()}
        return {"integers": dict(self.integers), "unit": dict(self.unit), **told}

    def __setstate__(self, state: dict[str, Any]) -> None:
        guarantee, origin = Guarantee.from_dict(state["guarantee"]), Origin.from_dict(state["origin"])
        Release.__init__(self, state["integers"], state["unit"], guarantee, origin)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the release to one file, whole or not at all; see `load_release`."""
        target = given_path(path)
        try:
            with whole_file(target) as file:
                file.write(release_bytes(self.integers, self.unit, self.guarantee, self.origin))
        except OSError as error:
            raise ReleaseFileError(f"The release cannot be written to {target}: {error.strerror}.") from error
        return target

    # Views.

    @cached_property
    def matrix(self) -> MatrixView:
        """The released matrix: values, mean, scale, covariance, and the noise in them."""
        return MatrixView(self.integers, self.unit, self.origin)

    @cached_property
    def intervals(self) -> IntervalView:
        """Intervals of the covariance, the correlation and the mean, at any level."""
        return IntervalView(self.matrix)

    @cached_property
    def spectrum(self) -> SpectrumView:
        """Components, the variances along them with intervals, and which of them are above the noise."""
        return SpectrumView(self.matrix, self.intervals)

    @cached_property
    def regression(self) -> Regression | None:
        """The regression that was asked for; None where none was. `regress` makes others."""
        return requested(self)

    # What most users want.

    @property
    def mechanism(self) -> Mechanism | None:
        """The public mechanism that drew the release; None where this version does not know it or its parameters."""
        return self.matrix.mechanism

    @property
    def n_rows(self) -> int | None:
        """Number of rows, of privacy units or of reports; see `MatrixView.n_rows`."""
        return self.matrix.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.matrix.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Public names of the features, where the source had them."""
        return self.origin.feature_names

    @property
    def mean(self) -> FloatArray:
        """The released mean; without one, the middle of the public bounds, or zero."""
        return self.matrix.mean

    @property
    def scale(self) -> FloatArray:
        """What features are multiplied by before they are projected; ones where they are not."""
        return self.matrix.scale

    @property
    def covariance(self) -> FloatArray | None:
        """The covariance in the units of the features; see `MatrixView.covariance`."""
        return self.matrix.covariance

    @property
    def correlation(self) -> FloatArray | None:
        """`covariance` with its diagonal brought to 1."""
        return self.matrix.correlation

    @property
    def noise_sd(self) -> float | None:
        """Standard deviation of the noise beside the diagonal of the matrix of the scaled features."""
        return self.matrix.noise_sd

    @property
    def components(self) -> FloatArray:
        """The directions that were asked for (k x d), of the scaled features."""
        return self.spectrum.components

    @property
    def explained_variance(self) -> FloatArray | None:
        """Variances of the rows along the components; None where only a subspace was released."""
        return self.spectrum.explained_variance

    @property
    def explained_variance_ratio(self) -> FloatArray | None:
        """Shares of the components in the total; None where only a subspace was released."""
        return self.spectrum.explained_variance_ratio

    @property
    def explained_variance_interval(self) -> FloatArray | None:
        """95 % intervals for the variances along the components, of what `intervals.about` says; None where unknown."""
        return self.spectrum.explained_variance_interval

    @property
    def above_noise(self) -> NDArray[np.bool_] | None:
        """Which components are found above the noise; see `SpectrumView.above_noise`."""
        return self.spectrum.above_noise

    # Use; each is described where it is defined.

    def transform(self, X: Any) -> FloatArray:
        """Project rows of all features on the components; see `SpectrumView.transform`."""
        return self.spectrum.transform(X)

    def inverse_transform(self, projected: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        return self.spectrum.inverse_transform(projected)

    def pca(self, n_components: int | float | str | None = None, *, correlation: bool | None = None) -> "Release":
        """Return the same release, asked for other components; see `eigenveil.releases.multivariate.pca`."""
        return multivariate.pca(self, n_components, correlation=correlation)

    def regress(
        self,
        target: int | str,
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = None,
        level: float = LEVEL,
        of: str = "data",
    ) -> Regression:
        """Regress one column on others; see `eigenveil.releases.regression.regress`."""
        return regress(self, target, features, alpha=alpha, level=level, of=of)

    def whiten(self, X: Any) -> FloatArray:
        """Project rows to uncorrelated scores of variance 1; see `eigenveil.releases.multivariate.whiten`."""
        return multivariate.whiten(self, X)

    def mahalanobis(self, X: Any) -> FloatArray:
        """Return the squared Mahalanobis distances of rows from the mean."""
        return multivariate.mahalanobis(self, X)

    def lda(self, labels: Columns, features: Columns | None = None) -> multivariate.LinearDiscriminant:
        """Return the linear discriminant analysis of one-hot labels; see `eigenveil.releases.multivariate.lda`."""
        return multivariate.lda(self, labels, features)

    def cca(self, first: Columns, second: Columns) -> CanonicalCorrelations:
        """Return the canonical correlations of two blocks of columns."""
        return multivariate.cca(self, first, second)

    def factor_analysis(self, n_factors: int, *, tol: float = 1e-8, max_iter: int = 2000) -> Factors:
        """Return the maximum-likelihood factor analysis, with loadings in the units of the features."""
        return multivariate.factor_analysis(self, n_factors, tol=tol, max_iter=max_iter)

    def sample(self, n_rows: int, *, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Return synthetic rows of all features; see `eigenveil.releases.synthetic.sample`."""
        return synthetic.sample(self, n_rows, random_state=random_state)

    def sample_table(
        self, n_rows: int, *, random_state: int | np.random.Generator | None = None
    ) -> dict[str, list[Any]]:
        """Return synthetic rows as the columns of a table; see `eigenveil.releases.synthetic.sample_table`."""
        return synthetic.sample_table(self, n_rows, random_state=random_state)

    def to_sklearn(self) -> Any:
        """Return a fitted scikit-learn ``PCA`` that projects as the release does."""
        return export.to_sklearn(self)

    def to_json(self) -> str:
        """Return all that left, and what it says, as JSON for any language."""
        return export.to_json(self)

    def to_onnx(self) -> bytes:
        """Return an ONNX model that projects rows, float64, as `transform` does; needs the extra ``onnx``."""
        return export.to_onnx(self)

    def compare(self, other: "Release") -> Comparison:
        """Return how this release and another compare; see `eigenveil.releases.compare.compare`."""
        if not isinstance(other, Release):
            raise InvalidParameterError(f"A release compares with a release, not with {type(other).__name__}.")
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
    release = Release(*read_release(given_path(path), integer_between("max_bytes", max_bytes, 1)))
    if not _makes_sense(release):
        raise ReleaseFileError(f"The release file {path} does not follow the format.")
    return release


def _makes_sense(release: Release) -> bool:
    """Return whether the mechanism makes numbers of what left, and all are finite: a file may say anything."""
    matrix = release.matrix
    values, mechanism = matrix.values, matrix.mechanism
    try:
        found = [matrix.n_rows, matrix.unit_moment, *values.values()]
        found += [] if mechanism is None else [mechanism.directions(values)]
        return all(one is None or bool(np.isfinite(one).all()) for one in found)
    except (LookupError, TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return False
