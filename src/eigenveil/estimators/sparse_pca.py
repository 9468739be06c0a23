"""`PrivateSparsePCA`: principal components that use few features."""

from typing import Any

import numpy as np

from ..accounting.ledger import PrivacyLedger
from ..errors import InvalidParameterError, integer_between, positive_number
from ..mechanisms import MECHANISMS, AdditiveMechanism, Mechanism, ReleasedMatrix
from ..postprocess import fantope_components
from ..rows import RowBound
from .base import FloatArray
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
        Variance of the shrunk release along the components.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 30)) * 0.1
    >>> X[:, :3] += rng.normal(size=(20_000, 1))
    >>> PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0, penalty=0.03).fit(X).support_
    array([0, 1, 2])
    """

    _wants_matrix = True

    def __init__(
        self,
        n_components: int = 1,
        *,
        penalty: float | None = None,
        tol: float = 1e-4,
        max_iter: int = 500,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows: str = "clip",
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | None = None,
        feature_scale: Any = None,
        standardize: bool = False,
        center: bool = False,
        mechanism: str = "auto",
        relation: str = "replace",
        mechanism_options: dict[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            n_components,
            epsilon=epsilon,
            delta=delta,
            rows=rows,
            norm_bound=norm_bound,
            bounds=bounds,
            feature_scale=feature_scale,
            standardize=standardize,
            center=center,
            mechanism=mechanism,
            relation=relation,
            mechanism_options=mechanism_options,
            ledger=ledger,
            random_state=random_state,
        )
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter

    def _released_components(self, moments: Any, name: str) -> int | None:
        # Asked before every spend, so what the projection could not use is refused here.
        integer_between("n_components", self.n_components, 1, moments.n_features)
        if self.penalty not in (None, 0):
            positive_number("penalty", self.penalty)
        positive_number("tol", self.tol)
        integer_between("max_iter", self.max_iter, 1)
        if not issubclass(MECHANISMS[name], AdditiveMechanism):
            raise InvalidParameterError("Sparse PCA needs a mechanism that adds noise; choose another one.")
        return None

    def _interpret(self, mechanism: Mechanism, bound: RowBound) -> None:
        self._matrix = matrix = ReleasedMatrix(self.release_, mechanism)
        if not matrix.has_noise_law:
            raise InvalidParameterError("Sparse PCA needs a mechanism that adds noise; choose another one.")
        shift = np.zeros(self.n_features_in_) if bound.shift is None else np.asarray(bound.shift)
        self.mean_ = shift + matrix.mean / self.scale_
        result = fantope_components(
            matrix.value,
            integer_between("n_components", self.n_components, 1),
            penalty=self.penalty,
            noise_sd=matrix.noise_sd,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.components_, self.support_, self.n_iter_ = result.components, result.support, result.n_iter
        self.n_components_ = self.components_.shape[0]

    @property
    def explained_variance_(self) -> FloatArray:
        """Variance of the shrunk release along the components."""
        assert self._matrix is not None
        return np.asarray(np.einsum("ki,ij,kj->k", self.components_, self._matrix.shrunk, self.components_))

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """Shares of the components in the trace of the shrunk release."""
        assert self._matrix is not None
        total = float(np.trace(self._matrix.shrunk))
        return self.explained_variance_ / (total if total > 0 else 1.0)
