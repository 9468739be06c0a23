"""`LocalPCA` and `LocalSparsePCA`: the whole local pipeline in one `fit`, for research and planning."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import InvalidParameterError, integer_between
from ..local.protocol import LocalProtocol
from ..local.simulation import simulate
from ..postprocess.fantope import fantope_components
from ..postprocess.spectrum import sorted_eigh
from ..randomness import generator_from

FloatArray = NDArray[np.float64]


class LocalPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components, about the origin, of rows that each became private before anyone saw them.

    `fit` plays every client and the server in one process: it tells what a collection would give. For a real one, where
    rows never leave their devices, use `eigenveil.local`.

    Parameters
    ----------
    n_components : int, optional
        Number of components; all features by default.
    epsilon : float
        What one report costs its client.
    delta : float
        0 is pure differential privacy.
    norm_bound : float
        Public bound on the Euclidean norm of a row; longer rows are shortened to it.
    mechanism : {"double_cap", "one_bit", "gaussian", "gaussian_paper"}
        The Gaussian ones need a delta above 0, the others are pure.
    row_norms : {"any", "unit"}
        "unit" scales every row to the norm bound: only its direction counts.
    trace_share : float
        Share of epsilon that "double_cap" and "one_bit" spend on the trace, where rows have any norm.
    random_state : None or int
        None draws secure noise. A number makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Released second moments along the components (negative ones set to 0), and their share of the total.
    covariance_ : ndarray of shape (n_features, n_features)
        The unbiased estimate of the second moment.
    mean_ : ndarray of shape (n_features,)
        Zero: the components are about the origin.
    protocol_ : LocalProtocol
    guarantee_ : Guarantee
    release_ : Release
    mechanism_ : str
    n_samples_ : int

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((5000, 6)) * [3, 1, 1, 1, 1, 1]
    >>> pca = LocalPCA(1, epsilon=4.0, norm_bound=4.0).fit(rows)
    >>> pca.components_.shape, pca.protocol_.report_bytes
    ((1, 6), 46)
    >>> print(pca.guarantee_)
    4-differentially private (replace one row), idealized numerics
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        norm_bound: float | None = None,
        mechanism: str = "double_cap",
        row_norms: str = "any",
        trace_share: float = 0.05,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.mechanism = mechanism
        self.row_norms = row_norms
        self.trace_share = trace_share
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Encode every row of `X` as its own client would, add the reports up, and estimate."""
        del y
        if self.norm_bound is None:
            raise InvalidParameterError(
                "norm_bound must be given: a public bound on the norm of a row, not computed from the data."
            )
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_features=2)
        d = X.shape[1]
        k = integer_between("n_components", d if self.n_components is None else self.n_components, 1, d)
        self.protocol_ = LocalProtocol(
            d,
            self.epsilon,
            self.delta,
            self.norm_bound,
            mechanism=self.mechanism,
            row_norms=self.row_norms,
            trace_share=self.trace_share,
        )
        self.release_ = simulate(self.protocol_, X, generator_from(self.random_state), k)
        self.guarantee_, self.mechanism_ = self.release_.guarantee, self.protocol_.mechanism
        self.covariance_ = self.release_.arrays["covariance"]
        self.n_samples_, self.n_components_ = X.shape[0], k
        self.mean_ = np.zeros(d)
        self._set_components(k)
        return self

    def _set_components(self, k: int) -> None:
        """Choose the directions; post-processing of the released matrix alone."""
        values, self.components_ = sorted_eigh(self.covariance_, k)
        self._set_variances(values)

    def _set_variances(self, values: FloatArray) -> None:
        self.explained_variance_ = np.maximum(values, 0.0)
        total = float(np.trace(self.covariance_))
        ratio = self.explained_variance_ / total if total > 0 else np.zeros_like(self.explained_variance_)
        self.explained_variance_ratio_ = np.minimum(ratio, 1.0)

    def _noise_sd(self) -> float:
        """Return the standard deviation of an off-diagonal entry of `covariance_`, known from the noise law."""
        return self.protocol_.law.off_diagonal_sd * self.protocol_.norm_bound**2 / math.sqrt(self.n_samples_)

    def transform(self, X: Any) -> FloatArray:
        """Project rows on the components; the projections of private rows are private data themselves."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.components_.T.astype(X.dtype))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X) @ self.components_)

    def get_covariance(self) -> FloatArray:
        """Return the estimate of the second moment."""
        check_is_fitted(self)
        return np.asarray(self.covariance_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])


class LocalSparsePCA(LocalPCA):
    """Sparse principal components in the local model, by the Fantope estimator (Wang and Xu 2019, Algorithm 2).

    The released matrix S is that of `LocalPCA`. The directions solve max <S, H> - penalty |H|_1 over the Fantope: where
    a few features carry the signal, this finds it among thousands.

    Parameters
    ----------
    n_components : int
        Number of components, 1 by default.
    penalty : float, optional
        In units of the second moment; by default the standard deviation of an off-diagonal entry of the noise times
        sqrt(log d), public numbers all.
    screen : int, optional
        Where there are more features, solve on this many: those with the largest off-diagonal entries, where a
        direction that stands out of the noise has its features. It spares the solver the crowded spectrum of the
        thousands of others. None keeps all features, and takes many minutes at 2,000.
    tol, max_iter : float, int
        When the solver stops.
    epsilon, delta, norm_bound, mechanism, row_norms, trace_share, random_state
        As for `LocalPCA`.

    Attributes
    ----------
    penalty_ : float
        The penalty used.
    n_iter_ : int
        Iterations of the solver.
    components_, covariance_, guarantee_, release_, protocol_ and others
        As for `LocalPCA`.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((4000, 1)) * ([3] * 3 + [0.0] * 27)
    >>> sparse = LocalSparsePCA(1, epsilon=8.0, norm_bound=6.0).fit(rows)
    >>> sparse.components_.shape, bool(np.linalg.norm(sparse.components_[0, :3]) > 0.9)
    ((1, 30), True)
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        penalty: float | None = None,
        screen: int | None = 300,
        tol: float = 1e-4,
        max_iter: int = 500,
        epsilon: float = 1.0,
        delta: float = 0.0,
        norm_bound: float | None = None,
        mechanism: str = "double_cap",
        row_norms: str = "any",
        trace_share: float = 0.05,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            n_components,
            epsilon=epsilon,
            delta=delta,
            norm_bound=norm_bound,
            mechanism=mechanism,
            row_norms=row_norms,
            trace_share=trace_share,
            random_state=random_state,
        )
        self.penalty = penalty
        self.screen = screen
        self.tol = tol
        self.max_iter = max_iter

    def _set_components(self, k: int) -> None:
        """Solve on the screened features; all of it is post-processing of the released matrix."""
        d = self.covariance_.shape[0]
        chosen = self._screened(d if self.screen is None else max(k, integer_between("screen", self.screen, 1)))
        penalty = self._noise_sd() * math.sqrt(math.log(d)) if self.penalty is None else self.penalty
        block = np.ascontiguousarray(self.covariance_[np.ix_(chosen, chosen)])
        result = fantope_components(block, k, penalty=penalty, tol=self.tol, max_iter=self.max_iter)
        self.components_ = np.zeros((k, d))
        self.components_[:, chosen] = result.components
        self.penalty_, self.n_iter_ = result.penalty, result.n_iter
        self._set_variances(np.einsum("ki,ij,kj->k", self.components_, self.covariance_, self.components_))

    def _screened(self, count: int) -> NDArray[np.intp]:
        """Return the features that take part in the largest off-diagonal entries, `count` of them, in order."""
        d = self.covariance_.shape[0]
        if count >= d:
            return np.arange(d)
        sizes = np.abs(self.covariance_)
        np.fill_diagonal(sizes, 0.0)
        return np.sort(np.argsort(-sizes.max(axis=1), kind="stable")[:count])
