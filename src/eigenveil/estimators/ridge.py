"""`PrivateRidge`: ridge regression from one released second moment of [X, y]."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidDataError, InvalidParameterError, integer_between, positive_number
from ..guarantee import Adjacency
from ..mechanisms import CentralMechanism
from ..moments.row_rule import RowRule
from ..numerics import FloatArray
from ..releases.origin import RegressionRequest, Request
from ..releases.record import Release
from ..tables.open import Source
from ..tables.schema import Schema
from .base import MomentsEstimator
from .inputs import available_where, checked_pair, of_rows
from .plan import SpendPlan, rows_pass_once

# The noise on the mean of the target that a regression may have, over the size of a feature at the bound (with ranges:
# half of the target's). It takes 0.04 of R² where the target fills its range evenly, 0.2 where its deviation is
# an eighth of it; beyond, hardly any table has more to gain from its features: docs/explanation/postprocessing.md.
MEAN_NOISE = 1 / 9
# In such units the noise edge is d times the noise on a mean, and may be this many √d: the largest variance of any
# direction was 0.02 to 0.63 √d on the tables of benchmarks/ridge.py.
EDGE_NOISE = 0.7


class PrivateRidge(RegressorMixin, MomentsEstimator):
    """Ridge regression whose coefficients and R² come from one private release.

    Parameters
    ----------
    alpha : float, optional
        Regularization on the scale of one row (scikit-learn's divided by n). By default it follows from the known
        noise, so that coefficients go to zero where the noise dominates.
    target : str or int, optional
        The column to predict, where `fit` gets a table and no `y`.
    norm_bound, bounds, schema
        As in `PrivatePCA`, for the row [x, y]: the target is its last column, or stays where it is in a table. A schema
        needs `target`. With none of them, ranges are found privately, or refused where rows are too few.
    center : bool
        Fit an intercept.
    epsilon, delta, mechanism, mechanism_options, adjacency, stages, ledger, random_state
        As in `PrivatePCA`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    r2_ : float
        Share of the target's variation that the fit explains, from the same release.
    coef_interval_ : ndarray of shape (n_features, 2)
        95 % intervals for the least-squares coefficients of the rows as they were used; `coef_` is drawn to 0 by the
        ridge and may lie outside. Infinite where the noise leaves them open.
    r2_interval_ : ndarray of shape (2,)
        The same for the share of variation that least squares explain.
    intercept_error_ : float
        Standard error of their intercept.
    determined_ : bool
        Whether the features' smallest variance in any direction rises above the noise, as such coefficients ask for.
    alpha_ : float
    guarantee_, release_, mechanism_, norm_bound_
        As in `PrivatePCA`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(50_000, 2))
    >>> model = PrivateRidge(epsilon=1.0, norm_bound=2.0).fit(X, X @ [1.0, -0.5])
    >>> model.coef_.round(1)
    array([ 1. , -0.5])
    """

    _needs = "noise"

    def __init__(
        self,
        alpha: float | None = None,
        *,
        target: int | str | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        center: bool = True,
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | Mapping[str, tuple[float, float]] | None = None,
        schema: Schema | None = None,
        privacy_unit: str | int | None = None,
        unit_weight: str = "equal",
        mechanism: str = "auto",
        mechanism_options: Mapping[str, Any] | None = None,
        adjacency: str = "replace_one",
        stages: int | str = "auto",
        ledger: LedgerOrPath | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            center=center,
            norm_bound=norm_bound,
            bounds=bounds,
            schema=schema,
            privacy_unit=privacy_unit,
            unit_weight=unit_weight,
            mechanism=mechanism,
            mechanism_options=mechanism_options,
            adjacency=adjacency,
            stages=stages,
            ledger=ledger,
            random_state=random_state,
        )
        self.alpha = alpha
        self.target = target

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        plan: SpendPlan | None = None,
        schema: Schema | None = None,
        privacy_unit: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit from rows and targets and spend the budget; a second call spends it again.

        Parameters
        ----------
        X : array, sparse matrix or data frame; without `y` also a path
            The features, or the whole table where `target` names its column.
        y : array of shape (n_samples,), optional
            The targets.
        plan : SpendPlan, optional
            What `plan` gave for these rows [x, y], where it was asked before.
        schema : Schema, optional
            What is publicly known of the columns, where the estimator was not told.
        privacy_unit : str, int, list or array, optional
            What tells persons apart, where the estimator was not told: a column, or beside `y` the identifiers.
        sample_weight : array of shape (n_samples,), optional
            **Public** weights of the rows, as in `PrivatePCA.fit`.
        """
        of_rows = {"privacy_unit": privacy_unit, "sample_weight": sample_weight}
        if y is None:
            if self.target is None:
                raise InvalidDataError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None; give y, or the "
                    "target column by target=."
                )
            return self._fit_source(X, plan, schema=schema, **of_rows)
        if self.target is not None:
            raise InvalidParameterError("Give either y or target, not both.")
        if self.schema is not None or schema is not None:
            raise InvalidParameterError("A schema is for the whole table; name the column to predict by target=.")
        if self.privacy_unit is not None:
            raise InvalidParameterError("A column of persons is for the whole table; name that to predict by target=.")
        names = getattr(X, "columns", None)
        X, y = checked_pair(X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, ensure_min_samples=0)
        column = y[:, None]
        table = scipy.sparse.hstack([X, column], format="csr") if scipy.sparse.issparse(X) else np.hstack([X, column])
        self._fit_source(table, plan, **of_rows)
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return self

    @available_where(rows_pass_once)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows [X, y] and spend nothing; `fit_moments()` then draws the release and spends."""
        if y is not None:
            X, y = checked_pair(X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=0)
            if hasattr(self, "_collected") and X.shape[1] != self.n_features_in_:
                raise InvalidDataError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                    "features as input."
                )
            X = np.column_stack([X, y])
        super().partial_fit(X)
        self.n_features_in_ = self._collected.n_features - 1
        return self

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        alpha = None if self.alpha is None else positive_number("alpha", self.alpha)
        if n_features < 2:
            raise InvalidDataError("A regression needs a target and at least one other column; give more columns.")
        if self.target is None:
            return RegressionRequest(n_features - 1, alpha)
        if not isinstance(self.target, str):
            return RegressionRequest(integer_between("target", self.target, 0, n_features - 1), alpha)
        if feature_names is None:
            return RegressionRequest(alpha=alpha)
        if self.target not in feature_names:
            raise InvalidParameterError(f"There is no column {self.target!r} of numbers to predict.")
        if f"{self.target}=missing" in feature_names:
            raise InvalidParameterError("The target has an indicator of missing values; give it another rule for them.")
        return RegressionRequest(feature_names.index(self.target), alpha)

    def plan(self, n_features: int | Source, n_rows: int | None = None) -> SpendPlan:
        """Return what a fit will spend, as in `PrivatePCA`; so few rows that nothing can be learned are refused."""
        plan = super().plan(n_features, n_rows)
        if n_rows is not None and plan.preparation is not None:
            self._check_size(plan.mechanism(n_rows), plan.preparation.bound.rule, n_rows)
        return plan

    def _check_size(self, mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
        if rule.constant is None or mechanism.adjacency is not Adjacency.REPLACE_ONE:
            return
        # The noise that the mean has by a constant in the rows; one that is measured first is asked for as many.
        root = (mechanism.n_features - 1) ** 0.5
        noise = (mechanism.noise_sd(n_rows) or 0.0) * rule.reach_squared / rule.constant_value / (rule.norm / root)
        most = min(MEAN_NOISE, EDGE_NOISE / root)
        if noise > most:
            factor = math.ceil(10 * noise / most) / 10
            raise InvalidDataError(
                "The noise would hide even the mean of the target, and with it all that could be learned about it: "
                f"{factor:g} times the {rule.unit.counted} (there are {n_rows}) or the epsilon (the release has "
                f"{mechanism.epsilon:g}) would do, or fewer features."
            )

    def _check_rows(self, rule: RowRule) -> None:
        if not rule.keeps_lengths:
            raise InvalidParameterError("A regression needs the lengths of rows, not directions; collect the rows.")

    def _interpret(self, release: Release) -> None:
        fit = release.regression
        assert fit is not None
        self.coef_, self.intercept_, self.r2_, self.alpha_ = fit.coef, fit.intercept, fit.r2, fit.alpha
        self.coef_interval_, self.r2_interval_ = fit.coef_interval, fit.r2_interval
        self.intercept_error_, self.determined_ = fit.intercept_error, fit.determined
        # From here on the estimator is about the features alone.
        features = list(fit.features)
        self.n_features_in_ = len(features)
        self.scale_ = self.scale_[features]
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = self.feature_names_in_[features]

    def predict(self, X: Any) -> Any:
        """Return predictions; those for private rows are private data themselves.

        A feature farther out than the bound of the fit lets it be is taken to be at that bound.
        """
        check_is_fitted(self)
        origin = self.release_.origin
        schema = origin.schema
        if schema is not None and origin.feature_names is not None and isinstance(origin.request, RegressionRequest):
            schema = schema.without(origin.feature_names[origin.request.target])
        release, coef, intercept = self.release_, self.coef_, self.intercept_

        def predicted(rows: Any) -> FloatArray:
            return np.asarray(_within_reach(release, rows) @ coef + intercept)

        return of_rows(self, X, schema, predicted, ["prediction"], accept_sparse="csr")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise of epsilon = 1 on a few hundred rows is meant to hide them
        return tags


def _within_reach(release: Release, X: Any) -> Any:
    """Return rows whose features are no farther out than any that was fitted: a line says nothing beyond."""
    rule, fit = release.origin.row_rule, release.regression
    if fit is None or not rule.keeps_lengths or rule.mapped_from is not None:
        return X
    reach = rule.norm / release.matrix.row_scale[list(fit.features)]
    if rule.shift is None and scipy.sparse.issparse(X):
        X = X.copy()
        X.data = np.clip(X.data, -reach[X.indices], reach[X.indices])
        return X
    middle = np.zeros_like(reach) if rule.shift is None else np.asarray(rule.shift)[list(fit.features)]
    return np.clip(X.toarray() if scipy.sparse.issparse(X) else X, middle - reach, middle + reach)
