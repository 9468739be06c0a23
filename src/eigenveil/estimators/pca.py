"""`PrivatePCA`: scikit-learn's PCA with a privacy guarantee."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..accounting.ledger import PrivacyLedger
from ..errors import InvalidParameterError, integer_between
from ..laws import CentralLaw
from ..origin import ComponentsRequest, Request
from ..releases import Release
from .base import MomentsEstimator
from .components import ComponentsMixin


class PrivatePCA(ComponentsMixin, MomentsEstimator):
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
    law : str
        ``"auto"`` or a name from `eigenveil.laws.LAWS`.
    law_options : dict, optional
        Further keyword arguments of the law.
    relation : {"replace", "add_remove"}
        The neighbouring relation.
    ledger : PrivacyLedger, optional
        Where the spend is recorded before anything is sampled.
    random_state : None, int or numpy.random.Generator
        None draws secure noise. Anything else makes the fit reproducible **and not private**: for tests only.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Directions, most important first (in no order for "ppca"), of the scaled features.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,) or None
        Eigenvalues, freed of the bias that the noise has, and their share of the total. None where the law releases
        no eigenvalues.
    explained_variance_interval_ : ndarray of shape (n_components, 2)
        95 % intervals for the eigenvalues of the rows as they were used, from the known noise; free of privacy cost.
    covariance_, correlation_ : ndarray of shape (n_features, n_features) or None
        The released matrix, shrunk to be positive semidefinite, in the units of the features; and the same with its
        diagonal brought to 1.
    mean_ : ndarray of shape (n_features,)
        What `transform` subtracts: the released mean with ``center=True``, else the middle of the bounds or zero.
    scale_ : ndarray of shape (n_features,)
        What `transform` multiplies by: one over the sizes of the features, or ones.
    norm_bound_ : float
        The bound that was used.
    guarantee_ : Guarantee
    release_ : Release
    law_ : str
        The law that drew the release.
    n_samples_ : int or None
        Number of rows; under "add_remove" its released noisy value.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> pca = PrivatePCA(2, epsilon=1.0, norm_bound=64.0).fit(load_digits().data)
    >>> pca.components_.shape
    (2, 64)
    >>> print(pca.guarantee_)
    1-differentially private (replace one row), exact numerics
    """

    _needs = "directions"

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows: str = "clip",
        standardize: bool = False,
        center: bool = False,
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | None = None,
        feature_scale: float | Sequence[float] | None = None,
        law: str = "auto",
        law_options: Mapping[str, Any] | None = None,
        relation: str = "replace",
        ledger: PrivacyLedger | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            rows=rows,
            standardize=standardize,
            center=center,
            norm_bound=norm_bound,
            bounds=bounds,
            feature_scale=feature_scale,
            law=law,
            law_options=law_options,
            relation=relation,
            ledger=ledger,
            random_state=random_state,
        )
        self.n_components = n_components

    def _share(self) -> float | None:
        """Return the wanted share of variance, where n_components is one."""
        k = self.n_components
        if isinstance(k, float | np.floating):
            if not 0 < k < 1:
                raise InvalidParameterError("n_components must be a whole number or a share between 0 and 1.")
            return float(k)
        return None

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        del feature_names
        share = self._share()
        if share is None and self.n_components is not None:
            return ComponentsRequest(integer_between("n_components", self.n_components, 1, n_features))
        return ComponentsRequest(share)

    def _check_law(self, law: CentralLaw) -> None:
        super()._check_law(law)
        if self._share() is not None and law.releases == "subspace":
            raise InvalidParameterError(
                f"{law.name} releases no eigenvalues to choose n_components from; give a number."
            )

    def _directions_wanted(self) -> int | None:
        return None if self.n_components is None or self._share() is not None else int(self.n_components)

    def _directions_released(self, d: int) -> int | None:
        return self._directions_wanted()

    def _interpret(self, release: Release) -> None:
        self.components_, self.mean_ = release.components, release.mean
        self.n_components_ = len(self.components_)
