"""`PrivatePCA`: scikit-learn's PCA with a privacy guarantee."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidDataError, InvalidParameterError, integer_between, one_of
from ..laws import CentralLaw
from ..origin import ComponentsRequest, Request
from ..postprocess.above_noise import ABOVE_NOISE
from ..reading import NO_UNITS
from ..releases import Release
from ..schema import Schema
from .base import MomentsEstimator
from .components import ComponentsMixin
from .public_facts import opened, told


class PrivatePCA(ComponentsMixin, MomentsEstimator):
    """Principal components of sensitive rows, with a differential privacy guarantee.

    Parameters
    ----------
    n_components : int, float, "above_noise" or None
        Number of components; or the share of variance they should explain, chosen from released eigenvalues only;
        or those that rise above the noise, at least one (more of them than the rank of the rows with a probability of
        at most 5 %); or all features.
    epsilon : float
        The budget of one fit. Every call of `fit` spends it again.
    delta : float
        0 is pure differential privacy.
    rows : {"auto", "clip", "unit", "pairs", "signs"}
        ``"auto"`` goes by what is public: ``"clip"`` with a norm, ranges or a schema with ranges, and where rows cannot
        be compared (under add/remove, on an engine or from a query, about the origin, in two stages); else ``"signs"``
        with `standardize` and ``"pairs"`` without, or ``"clip"`` to ranges that are found privately, with four tenths
        of epsilon, where there are rows enough for that to pay.
        ``"clip"`` shortens rows to the norm bound. ``"unit"`` brings all rows to length 1, and needs no bound.
        ``"pairs"`` uses normalized differences of rows, which need no bound and no mean and resist outliers. Without
        lengths, explained variances are relative.
        ``"signs"`` uses the signs of these differences alone, which need no scale either: the components are those of
        the correlation matrix, as after scikit-learn's ``StandardScaler``. It releases neither means nor sizes, so
        there is no `transform`.
        Clipped rows may come in any order. Rows are compared by their places, so the place of a row must not depend on
        what is in it: shuffle a table that is sorted by a private column, by no fixed seed.
    norm_bound : float, optional
        Public bound on the norm of a row; longer rows are shortened to it. Where rows are clipped, None finds one
        privately with a tenth of epsilon, or with ``center=False`` takes ``rows="unit"`` where it would clip more than
        half of the rows. It must not be computed from the rows.
    bounds : (low, high) or dict, optional
        Public range of the features, mapped to [-1, 1]: components are those of the mapped features, not of the raw
        units of scikit-learn's ``PCA``. Numbers, or one for each feature, or (low, high) by name. Where all ranges have
        one width, the components are the same.
    feature_scale : float, sequence or dict, optional
        Public sizes of the features, to divide by, or sizes by name.
    schema : Schema, optional
        What is publicly known of the columns, in place of `bounds` and `feature_scale`: raw tables are encoded by it,
        and its ranges are mapped as `bounds` are.
    standardize : bool
        Components of the correlation matrix, as after scikit-learn's ``StandardScaler``: nothing is spent on scales,
        which are read off the release.
    center : bool
        Components about the mean; False takes them about the origin, as the papers do. Where rows are clipped, the mean
        is part of the same release; with a delta above 0 and rows enough it is measured first and taken off.
    law : str
        ``"auto"`` or a name from `eigenveil.laws.LAWS`.
    law_options : dict, optional
        Further keyword arguments of the law.
    relation : {"replace", "add_remove"}
        The neighbouring relation.
    stages : {"auto", 1, 2}
        Into how many stages a fit with a delta above 0 is divided: after a first look rows may be mapped, read again
        and released with less noise, where a number of components is asked for and a fifth less of the loss promised. 1
        is one release of one matrix; 2 tries a second stage whatever is asked for, or refuses.
    ledger : PrivacyLedger or path, optional
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
        What `transform` subtracts: the released mean where there is one, else the middle of the bounds or zero.
    scale_ : ndarray of shape (n_features,)
        What `transform` multiplies by: one over the sizes of the features, with `standardize` over their released
        standard deviations, or ones.
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> pca = PrivatePCA(2, epsilon=1.0).fit(load_breast_cancer().data)
    >>> pca.components_.shape
    (2, 30)
    >>> print(pca.guarantee_)
    1-differentially private (replace one row), exact numerics
    """

    _needs = "directions"
    _lengths = False

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows: str = "auto",
        standardize: bool = False,
        center: bool = True,
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | Mapping[str, tuple[float, float]] | None = None,
        feature_scale: float | Sequence[float] | Mapping[str, float] | None = None,
        schema: Schema | None = None,
        law: str = "auto",
        law_options: Mapping[str, Any] | None = None,
        relation: str = "replace",
        stages: int | str = "auto",
        ledger: LedgerOrPath | None = None,
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
            schema=schema,
            law=law,
            law_options=law_options,
            relation=relation,
            stages=stages,
            ledger=ledger,
            random_state=random_state,
        )
        self.n_components = n_components

    def _read_off(self) -> float | str | None:
        """Return n_components where it says how the number is to be read off the release: a share, or above noise."""
        k = self.n_components
        if isinstance(k, str):
            return one_of("n_components", k, (ABOVE_NOISE,))
        if isinstance(k, float | np.floating):
            if not 0 < k < 1:
                raise InvalidParameterError(
                    f"n_components must be a whole number, a share between 0 and 1, or {ABOVE_NOISE!r}."
                )
            return float(k)
        return None

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        del feature_names
        wanted: int | float | str | None = self._read_off()
        if wanted is None and self.n_components is not None:
            wanted = integer_between("n_components", self.n_components, 1, n_features)
        return ComponentsRequest(wanted, correlation=told(self, "standardize"))

    def _check_law(self, law: CentralLaw) -> None:
        super()._check_law(law)
        read_off = self._read_off()
        if read_off is not None and law.releases == "subspace":
            raise InvalidParameterError(
                f"{law.name} releases no eigenvalues to choose n_components from; give a number."
            )
        if read_off == ABOVE_NOISE and not law.adds_noise:
            raise InvalidParameterError(
                f"{law.name} adds no noise that components could rise above; give n_components as a number, or choose "
                "a law that adds noise."
            )

    def _directions_wanted(self) -> int | None:
        return None if self.n_components is None or self._read_off() is not None else int(self.n_components)

    def _directions_released(self, d: int) -> int | None:
        return self._directions_wanted()

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit and return the projections of the same rows, which are private data; see `fit` and `transform`."""
        source = opened(X, self.schema)
        plan = self.plan(source)
        shape = getattr(X, "shape", (0,))
        if plan.at(shape[0] if isinstance(shape[0], int) else 0).preparation_for(source.n_features).rows == "signs":
            raise InvalidParameterError(NO_UNITS)  # before it is paid for
        if getattr(source, "reads_once", False):
            raise InvalidDataError("These rows come once only, and fit_transform reads them twice; call fit.")
        return super().fit_transform(X, y, **options)

    def _interpret(self, release: Release) -> None:
        self.components_, self.mean_ = release.components, release.mean
        self.n_components_ = len(self.components_)
