"""`PrivateSparsePCA`: principal components that use few features."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..accounting.ledger import LedgerOrPath
from ..errors import integer_between
from ..releases.origin import Request, SparseRequest
from ..releases.record import Release
from ..tables.schema import Schema
from .pca import PrivatePCA


class PrivateSparsePCA(PrivatePCA):
    """Sparse principal components by Fantope projection and selection, from one released matrix.

    Parameters are those of `PrivatePCA`; `n_components` is a whole number, and

    Parameters
    ----------
    penalty : float, optional
        Weight of the l1 norm of the projection, on the scale of the released matrix. By default the standard deviation
        of the noise times sqrt(log d): what is smaller is noise.
    tol, max_iter : float, int
        Accuracy of the optimization.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions; zero for features outside of the support.
    support_ : ndarray of int
        Features that take part in some component.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the shrunk release along the components; the intervals are about that of the rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 30)) * 0.1
    >>> X[:, :3] += rng.normal(size=(20_000, 1))
    >>> PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0, penalty=0.03).fit(X).support_
    array([0, 1, 2])
    """

    _needs = "noise"
    _lengths = False
    _maps = False

    def __init__(
        self,
        n_components: int = 1,
        *,
        penalty: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        epsilon: float = 1.0,
        delta: float = 0.0,
        statistic: str = "auto",
        standardize: bool = False,
        center: bool = True,
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | Mapping[str, tuple[float, float]] | None = None,
        schema: Schema | None = None,
        privacy_unit: str | int | None = None,
        unit_weight: str = "equal",
        mechanism: str = "auto",
        mechanism_options: Mapping[str, Any] | None = None,
        adjacency: str = "replace_one",
        ledger: LedgerOrPath | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            n_components,
            epsilon=epsilon,
            delta=delta,
            statistic=statistic,
            standardize=standardize,
            center=center,
            norm_bound=norm_bound,
            bounds=bounds,
            schema=schema,
            privacy_unit=privacy_unit,
            unit_weight=unit_weight,
            mechanism=mechanism,
            mechanism_options=mechanism_options,
            adjacency=adjacency,
            ledger=ledger,
            random_state=random_state,
        )
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        del feature_names
        k = integer_between("n_components", self.n_components, 1, n_features)
        return SparseRequest(k, self.penalty, self.tol, self.max_iter, correlation=bool(self.standardize))

    def _directions_wanted(self) -> int | None:
        return None

    def _interpret(self, release: Release) -> None:
        super()._interpret(release)
        self.support_, self.n_iter_ = release.spectrum.sparse.support, release.spectrum.sparse.n_iter
