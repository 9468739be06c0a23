"""`PrivatePCA`: scikit-learn's PCA with a privacy guarantee."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..accounting.ledger import PrivacyLedger
from ..errors import InvalidParameterError, integer_between
from ..mechanisms import Mechanism, ReleasedMatrix
from ..moments import SecondMoments
from ..postprocess import eigenvalue_intervals
from ..rows import RowBound
from .base import FloatArray, MomentsEstimator


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentsEstimator):
    """Principal components of sensitive rows, with a differential privacy guarantee.

    Parameters
    ----------
    n_components : int, float or None
        Number of components; or the share of variance they should explain, chosen from released eigenvalues only;
        or all features.
    epsilon : float
        The budget of one fit. Every call of `fit` spends it again.
    delta : float
        0 is pure differential privacy.
    rows : {"clip", "pairs"}
        ``"clip"`` shortens rows to the norm bound. ``"pairs"`` uses normalized differences of consecutive rows, which
        need no bound and no mean and resist outliers; their scale is lost, so explained variances are relative.
    norm_bound : float, optional
        Public bound on the norm of a row; longer rows are shortened to it. None chooses one privately with a tenth of
        epsilon. It must not be computed from the rows.
    bounds : (low, high), optional
        Public range of the features, numbers or one for each; features are mapped to [-1, 1].
    feature_scale : float or sequence, optional
        Public sizes of the features, to divide by.
    standardize : bool
        Find the sizes of the features privately, with a fifth of epsilon, and divide by them.
    center : bool
        Components about the mean in place of the origin. The mean is part of the same release.
    mechanism : str
        ``"auto"`` or a name from `eigenveil.mechanisms.MECHANISMS`.
    relation : {"replace", "add_remove"}
        The neighbouring relation.
    mechanism_options : dict, optional
        Further keyword arguments of the mechanism.
    ledger : PrivacyLedger, optional
        Where the spend is recorded before anything is sampled.
    random_state : None, int or numpy.random.Generator
        None draws secure noise. Anything else makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, most important first (in no order for "ppca"), of the scaled features.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,) or None
        Eigenvalues, freed of the bias that the noise has, and their share of the total. None where the mechanism
        releases no eigenvalues.
    explained_variance_interval_ : ndarray of shape (n_components, 2)
        95 % intervals for the eigenvalues of the rows as they were used, from the known noise; free of privacy cost.
    covariance_ : ndarray of shape (n_features, n_features) or None
        The released matrix, shrunk to be positive semidefinite.
    mean_ : ndarray of shape (n_features,)
        What `transform` subtracts: the released mean with ``center=True``, else the middle of the bounds or zero.
    scale_ : ndarray of shape (n_features,)
        What `transform` multiplies by: one over the sizes of the features, or ones.
    norm_bound_ : float
        The bound that was used.
    guarantee_ : Guarantee
    release_ : Release
    mechanism_ : str
    n_samples_ : int or None
        Number of rows; under "add_remove" its released noisy value.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> pca = PrivatePCA(2, epsilon=1.0, norm_bound=64.0).fit(load_digits().data)
    >>> pca.components_.shape
    (2, 64)
    >>> print(pca.guarantee_)
    1-differentially private (replace one row), rounded numerics
    """

    _wants_matrix = False

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows: str = "clip",
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | None = None,
        feature_scale: float | Sequence[float] | None = None,
        standardize: bool = False,
        center: bool = False,
        mechanism: str = "auto",
        relation: str = "replace",
        mechanism_options: dict[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
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
        self.n_components = n_components

    def _fraction(self) -> float | None:
        """Return the wanted share of variance, where n_components is one."""
        k = self.n_components
        if isinstance(k, float | np.floating):
            if not 0 < k < 1:
                raise InvalidParameterError("n_components must be a whole number or a share between 0 and 1.")
            return float(k)
        return None

    def _directions_wanted(self) -> int | None:
        needs_matrix = self._wants_matrix or self.center or self.n_components is None or self._fraction() is not None
        return None if needs_matrix else integer_between("n_components", self.n_components, 1)

    def _released_components(self, moments: SecondMoments, name: str) -> int | None:
        d = moments.n_features
        if self._fraction() is not None:
            if name in ("ppca", "random_projection"):
                raise InvalidParameterError(
                    f"{name} releases no eigenvalues to choose n_components from; give a number."
                )
            return None
        k = d if self.n_components is None else integer_between("n_components", self.n_components, 1, d)
        # With the constant column the leading directions of the wider matrix are not the components.
        return None if self.center else k

    def _interpret(self, mechanism: Mechanism, bound: RowBound) -> None:
        d = self.n_features_in_
        self._matrix: ReleasedMatrix | None = None
        self.mean_ = np.zeros(d) if bound.shift is None else np.asarray(bound.shift)
        if self.release_.covariance is None:
            self.components_ = np.array(self.release_.components)
        else:
            self._matrix = matrix = ReleasedMatrix(self.release_, mechanism)
            self.mean_ = self.mean_ + matrix.mean / self.scale_
            self.components_ = matrix.top_components(self._chosen_components(matrix))
        self.n_components_ = self.components_.shape[0]

    def _chosen_components(self, matrix: ReleasedMatrix) -> int:
        share = self._fraction()
        if share is None:
            return int(self.n_features_in_) if self.n_components is None else int(self.n_components)
        ratio = np.cumsum(matrix.eigenvalues) / max(matrix.eigenvalues.sum(), np.finfo(float).tiny)
        return min(int(np.searchsorted(ratio, share)) + 1, int(ratio.size))

    @property
    def covariance_(self) -> FloatArray | None:
        """The released matrix, shrunk; None where only a subspace was released."""
        return None if self._matrix is None else self._matrix.shrunk

    @property
    def explained_variance_(self) -> FloatArray | None:
        """De-biased eigenvalues of the components; None where none were released."""
        return None if self._matrix is None else self._matrix.eigenvalues[: self.n_components_]

    @property
    def explained_variance_ratio_(self) -> FloatArray | None:
        """Shares of the components in the total; None where no eigenvalues were released."""
        if self._matrix is None:
            return None
        total = float(self._matrix.eigenvalues.sum())
        return self._matrix.eigenvalues[: self.n_components_] / (total if total > 0 else 1.0)

    @property
    def explained_variance_interval_(self) -> FloatArray:
        """95 % intervals for the eigenvalues, by simulation of the public noise law."""
        check_is_fitted(self)
        if self._matrix is None or not self._matrix.has_noise_law:
            raise AttributeError(f"{self.mechanism_} releases no matrix with a known noise law to draw intervals from.")
        return eigenvalue_intervals(self._matrix.value, self._matrix.noise_draw, n_components=self.n_components_)

    def transform(self, X: Any) -> FloatArray:
        """Project rows on the components; the projections of private rows are private data themselves."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        directions = (self.components_ * self.scale_).T.astype(X.dtype)
        projected = X @ directions
        if self.mean_.any():
            projected = projected - (self.mean_ @ directions).astype(X.dtype)
        return np.asarray(projected)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Map projections back to the space of the features."""
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        return np.asarray(X @ (self.components_ / self.scale_).astype(X.dtype) + self.mean_.astype(X.dtype))

    def get_covariance(self) -> FloatArray:
        """Return the released matrix, shrunk, of the scaled features."""
        check_is_fitted(self)
        if self._matrix is None:
            raise InvalidParameterError(f"{self.mechanism_} releases a subspace and no covariance.")
        return self._matrix.shrunk

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
