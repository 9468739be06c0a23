"""`LocalPCA` and `LocalSparsePCA`: PCA under local differential privacy, simulated in one process."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ..errors import InvalidParameterError, integer_between
from ..guarantee import Guarantee
from ..local.protocol import LocalProtocol
from ..local.server import components_request, released
from ..local.simulation import simulated_totals
from ..mechanisms.local.gaussian import PaperGaussian
from ..releases.origin import ComponentsRequest, SparseRequest
from ..sampling.randomness import generator_from
from .base import ReleaseAttribute, checked_rows, names_unknown_parameters
from .pca import ComponentsEstimator

SCREENED_TO = 300
"""How many features `LocalSparsePCA` solves on by default."""


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class LocalPCA(ComponentsEstimator):
    """PCA under local differential privacy, about the origin.

    `fit` simulates all clients and the server in one process, for research and planning. For a real collection, in
    which rows never leave their devices, use `eigenveil.local`.

    Parameters
    ----------
    n_components : int, optional
        Number of components; all features by default.
    epsilon : float
        Privacy budget of one report.
    delta : float
        0 is pure differential privacy.
    norm_bound : float
        Public clipping bound on the Euclidean norm of a row.
    mechanism : {"double_cap", "one_bit", "gaussian", "gaussian_paper", "auto"}
        The Gaussian mechanisms need delta > 0, the others are pure. "auto" uses the one with the least variance.
    row_norms : {"any", "unit"}
        "unit" scales every row to the norm bound, so only its direction counts.
    trace_share : float
        Share of epsilon that "double_cap" and "one_bit" spend on the trace, for row_norms="any".
    rank : int, optional
        Dimension of the public subspace of a "one_bit" report. Default: see `LocalProtocol`.
    random_state : None or int
        None samples secure noise. A number makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Second moments along the components (negative values set to 0), and their share of the total.
    covariance_ : ndarray of shape (n_features, n_features)
        The unbiased estimate of the second moment.
    mean_ : ndarray of shape (n_features,)
        Zero: the components are about the origin.
    protocol_ : LocalProtocol
    guarantee_ : Guarantee
    release_ : Release
        The released values; all attributes are computed from it.
    mechanism_ : str
    n_samples_ : int

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((5000, 6)) * [3, 1, 1, 1, 1, 1]
    >>> pca = LocalPCA(1, epsilon=4.0, norm_bound=4.0).fit(rows)
    >>> pca.components_.shape, pca.protocol_.report_bytes
    ((1, 6), 46)
    >>> print(pca.guarantee_)
    4-DP (pure), replace-one adjacency, unit: one row; local model, one report per person; exact sampling
    """

    n_components: int | None = field(default=None, kw_only=False)
    epsilon: float = 1.0
    delta: float = 0.0
    norm_bound: float | None = None
    mechanism: str = "double_cap"
    row_norms: str = "any"
    trace_share: float = 0.05
    rank: int | None = None
    random_state: int | None = None

    def fit(self, X: Any, y: None = None) -> Self:
        """Encode every row of `X` as its own client would, add the reports up, and estimate."""
        if self.norm_bound is None:
            raise InvalidParameterError(
                "norm_bound must be given: a public bound on the norm of a row, not computed from the data."
            )
        X = checked_rows(self, X, reset=True, dtype=[np.float64, np.float32], ensure_min_features=2)
        self.protocol_: LocalProtocol = LocalProtocol(
            X.shape[1],
            self.epsilon,
            self.delta,
            self.norm_bound,
            mechanism=self.mechanism,
            row_norms=self.row_norms,
            trace_share=self.trace_share,
            rank=self.rank,
        )
        # Before anything is drawn: what cannot be done is refused.
        request = self._request(X.shape[1])
        names = getattr(self, "feature_names_in_", None)
        self.release_ = released(
            self.protocol_,
            simulated_totals(self.protocol_, X, generator_from(self.random_state)),
            request,
            simulated=True,
            estimator=type(self).__name__,
            feature_names=None if names is None else tuple(map(str, names)),
        )
        self.guarantee_: Guarantee = self.release_.guarantee
        self.mechanism_: str = self.release_.origin.mechanism
        self.n_samples_: int | None = self.release_.n_rows
        _ = self.release_.components  # warns of those that are not distinguishable from noise
        return self

    def _request(self, n_features: int) -> ComponentsRequest | SparseRequest:
        """Return the checked request."""
        return components_request(self.n_components, n_features)


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
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
    screen : int, "auto" or None
        Where there are more features, solve on this many: those with the largest off-diagonal entries, where a
        direction that stands out of the noise has its features. It spares the solver the crowded spectrum of the
        thousands of others. None keeps all features, and takes many minutes at 2,000. "auto" is 300, and None with
        mechanism="gaussian_paper", which is then Algorithm 2 of the paper as it is.
    tol, max_iter : float, int
        When the solver stops.
    epsilon, delta, norm_bound, mechanism, row_norms, trace_share, rank, random_state
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

    n_components: int = field(default=1, kw_only=False)
    penalty: float | None = None
    screen: int | str | None = "auto"
    tol: float = 1e-4
    max_iter: int = 500

    penalty_ = ReleaseAttribute(lambda release: release.spectrum.sparse.penalty, "The penalty used.")
    n_iter_ = ReleaseAttribute(lambda release: release.spectrum.sparse.n_iter, "Iterations of the solver.")

    def _request(self, n_features: int) -> SparseRequest:
        k = n_features if self.n_components is None else self.n_components
        by_default = None if self.mechanism == PaperGaussian.name else SCREENED_TO
        screen: Any = by_default if isinstance(self.screen, str) and self.screen == "auto" else self.screen
        return SparseRequest(
            integer_between("n_components", k, 1, n_features), self.penalty, self.tol, self.max_iter, screen
        )
