"""`Release`: released values with their guarantee and origin, and views of them.

The released values are integers and the public value of one unit. Every other number is computed from these, the public
mechanism and the public row rule, so floating-point rounding reveals nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, ReleaseFileError, integer_between
from ..files import given_path, whole_file
from ..guarantee import Guarantee
from ..mechanisms.base import Mechanism
from ..notebook import notebook_table
from ..numerics import FloatArray, IntArray
from . import export, multivariate, synthetic
from .compare import Comparison, compare
from .file import MAX_BYTES, read_release, release_bytes
from .intervals import IntervalView
from .matrix import Columns, MatrixView
from .origin import Origin
from .regression import Regression, regress, requested
from .spectrum import SpectrumView
from .summary import Summary, summarize


@dataclass(frozen=True, eq=False)
class Release:
    """The released values of one fit, with their privacy guarantee and origin.

    Three views compute results on first use: `matrix` (covariance, mean and their noise), `spectrum` (components and
    the variances along them) and `intervals` (confidence intervals). The most used results are attributes here:
    `covariance`, `components`, `explained_variance`, ... All methods are post-processing and spend no budget.

    Parameters
    ----------
    integers : mapping of str to int64 array
        The released values by name, such as "matrix" or "directions"; docs/reference/release_file.md lists them.
    unit : mapping of str to float
        The value of one integer unit, by the same names.
    guarantee : Guarantee
        The privacy guarantee.
    origin : Origin
        Public facts about how the release was made.
    drawn_by : Mechanism, optional
        The mechanism, where it is at hand; otherwise it is made from the origin.
    """

    integers: Mapping[str, IntArray]
    unit: Mapping[str, float]
    guarantee: Guarantee
    origin: Origin
    drawn_by: InitVar[Mechanism | None] = None

    def __post_init__(self, drawn_by: Mechanism | None) -> None:
        object.__setattr__(self, "_drawn_by", drawn_by)
        integers = {name: np.asarray(value, dtype=np.int64) for name, value in self.integers.items()}
        for name, value in integers.items():
            # A view would keep the array that it was cut from, where more may stand than what leaves.
            part = value.base is not None and getattr(value.base, "nbytes", None) != value.nbytes
            integers[name] = (value.copy() if part else value).view()
            integers[name].flags.writeable = False
        object.__setattr__(self, "integers", MappingProxyType(integers))
        object.__setattr__(self, "unit", MappingProxyType({name: float(one) for name, one in self.unit.items()}))

    # What `pickle` and `skops` keep: plain values, and nothing that was computed from them.

    def __getstate__(self) -> dict[str, Any]:
        facts = {"guarantee": self.guarantee.to_dict(), "origin": self.origin.to_dict()}
        return {"integers": dict(self.integers), "unit": dict(self.unit), **facts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        guarantee, origin = Guarantee.from_dict(state["guarantee"]), Origin.from_dict(state["origin"])
        Release.__init__(self, state["integers"], state["unit"], guarantee, origin)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the release to one file, atomically; read it with `load_release`."""
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
        return MatrixView(self.integers, self.unit, self.origin, vars(self)["_drawn_by"])

    @cached_property
    def intervals(self) -> IntervalView:
        """Confidence intervals for the covariance, the correlation and the mean."""
        return IntervalView(self.matrix)

    @cached_property
    def spectrum(self) -> SpectrumView:
        """Components, the variances along them, and which of them are distinguishable from noise."""
        return SpectrumView(self.matrix, self.intervals)

    @cached_property
    def regressions(self) -> tuple[Regression, ...]:
        """The regressions of a `PrivateRidge` fit, one for each target; none for other fits."""
        return requested(self)

    @property
    def regression(self) -> Regression | None:
        """The regression of a `PrivateRidge` fit; None for other fits. Use `regress` for further regressions."""
        if len(self.regressions) > 1:
            raise InvalidParameterError("This fit has several targets; use regressions, which has one for each.")
        return self.regressions[0] if self.regressions else None

    # What most users want.

    @property
    def mechanism(self) -> Mechanism | None:
        """The mechanism of the release; None if this version does not know it."""
        return self.matrix.mechanism

    @property
    def n_rows(self) -> int | None:
        """Number of rows, privacy units or reports; see `MatrixView.n_rows`."""
        return self.matrix.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.matrix.n_features

    @property
    def features_counted(self) -> str:
        """Number of features in words, and of how many of a table they were chosen privately."""
        screening = self.origin.screening
        chosen = "" if screening is None else f" of {screening.n_features:,}, chosen privately"
        return f"{self.n_features:,}{chosen}"

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Public names of the features, if the table had names."""
        return self.origin.feature_names

    @property
    def mean(self) -> FloatArray:
        """The released mean, or else the middle of the public bounds or zero."""
        return self.matrix.mean

    @property
    def scale(self) -> FloatArray:
        """Factors that features are multiplied by before projection; ones without scaling."""
        return self.matrix.scale

    @property
    def covariance(self) -> FloatArray | None:
        """The covariance in the units of the features; see `MatrixView.covariance`."""
        return self.matrix.covariance

    @property
    def correlation(self) -> FloatArray | None:
        """Correlations: `covariance` scaled to a diagonal of 1."""
        return self.matrix.correlation

    @property
    def noise_sd(self) -> float | None:
        """Standard deviation of the noise off the diagonal of the matrix of the scaled features."""
        return self.matrix.noise_sd

    @property
    def components(self) -> FloatArray:
        """The requested principal directions (k x d) of the scaled features."""
        return self.spectrum.components

    @property
    def explained_variance(self) -> FloatArray | None:
        """Variances along the components; None if only a subspace was released."""
        return self.spectrum.explained_variance

    @property
    def explained_variance_ratio(self) -> FloatArray | None:
        """Shares of the total variance; None if only a subspace was released."""
        return self.spectrum.explained_variance_ratio

    @property
    def explained_variance_interval(self) -> FloatArray | None:
        """95 % confidence intervals for these variances, of what `intervals.about` says; None if unknown."""
        return self.spectrum.explained_variance_interval

    @property
    def above_noise(self) -> NDArray[np.bool_] | None:
        """Whether each component is distinguishable from noise; see `SpectrumView.above_noise`."""
        return self.spectrum.above_noise

    # Use; each is described where it is defined.

    def transform(self, X: Any) -> FloatArray:
        """Project rows of all features on the components; see `SpectrumView.transform`."""
        return self.spectrum.transform(X)

    def inverse_transform(self, projected: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        return self.spectrum.inverse_transform(projected)

    def pca(self, n_components: int | float | str | None = None, *, correlation: bool | None = None) -> "Release":
        """Ask this release for other components; see `eigenveil.releases.multivariate.pca`."""
        return multivariate.pca(self, n_components, correlation=correlation)

    regress = regress

    def summary(
        self,
        target: int | str | Sequence[int | str] | None = None,
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = None,
        base: Mapping[str, str] | None = None,
    ) -> Summary:
        """Return tables with the error of every number, to publish; see `eigenveil.releases.summary.summarize`."""
        return summarize(self, target, features, alpha=alpha, base=base)

    def whiten(self, X: Any) -> FloatArray:
        """Project rows to uncorrelated scores of variance 1; see `eigenveil.releases.multivariate.whiten`."""
        return multivariate.whiten(self, X)

    def mahalanobis(self, X: Any) -> FloatArray:
        """Return the squared Mahalanobis distances of rows from the mean."""
        return multivariate.mahalanobis(self, X)

    def lda(self, labels: Columns, features: Columns | None = None) -> multivariate.LinearDiscriminant:
        """Return the linear discriminant analysis of one-hot labels; see `eigenveil.releases.multivariate.lda`."""
        return multivariate.lda(self, labels, features)

    def cca(self, first: Columns, second: Columns) -> multivariate.CanonicalCorrelations:
        """Return the canonical correlations of two blocks of columns."""
        return multivariate.cca(self, first, second)

    def factor_analysis(self, n_factors: int, *, tol: float = 1e-8, max_iter: int = 2000) -> multivariate.Factors:
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
        """Return a fitted scikit-learn ``PCA`` with the same `transform`."""
        return export.to_sklearn(self)

    def to_json(self) -> str:
        """Return the released values and the results as JSON."""
        return export.to_json(self)

    def to_onnx(self) -> bytes:
        """Return an ONNX model of `transform`, for float64 rows; needs the extra ``onnx``."""
        return export.to_onnx(self)

    def compare(self, other: "Release") -> Comparison:
        """Compare this release with another; see `eigenveil.releases.compare.compare`."""
        if not isinstance(other, Release):
            raise InvalidParameterError(f"other must be a Release, not {type(other).__name__}.")
        return compare(self, other)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in sorted(self.integers.items()))
        return f"Release({shapes}; {self.guarantee})"

    def _repr_html_(self) -> str:
        """Return the release as HTML for a notebook."""
        facts = {
            **{name: " x ".join(map(str, value.shape)) or "number" for name, value in sorted(self.integers.items())},
            "mechanism": self.origin.mechanism,
            self.guarantee.unit.counted: self.n_rows,
            "created": self.origin.created or None,
        }
        return notebook_table("Release", facts, more=self.guarantee._repr_html_())


def load_release(path: str | PathLike[str], *, max_bytes: int = MAX_BYTES) -> Release:
    """Read a release file; raise `ReleaseFileError` if it is damaged or was changed.

    Parameters
    ----------
    path : path
        A regular file.
    max_bytes : int
        Larger files are refused. Reading takes a few times the size of the file in memory.
    """
    release = Release(*read_release(given_path(path), integer_between("max_bytes", max_bytes, 1)))
    matrix = release.matrix
    try:  # a file may contain anything: the released values must give finite numbers under their mechanism
        found = [matrix.n_rows, matrix.unit_moment, *matrix.values.values()]
        found += [] if matrix.mechanism is None else [matrix.mechanism.directions(matrix.values)]
        makes_sense = all(one is None or bool(np.isfinite(one).all()) for one in found)
    except (LookupError, TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        makes_sense = False
    if not makes_sense:
        raise ReleaseFileError(f"The release file {path} does not follow the format.")
    return release
