"""`PrivateRidge`: differentially private ridge regression from one released second moment of [X, y]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidDataError, InvalidParameterError, integer_between, number_from_zero, quoted, truth_value
from ..numerics import FloatArray
from ..releases.origin import RegressionRequest, Request
from ..releases.record import Release
from ..releases.regression import Regression
from ..releases.summary import Summary
from ..tables.frames import as_frame
from ..tables.schema import Schema
from .base import PrivateEstimator, ReleaseAttribute, names_unknown_parameters, passes_once
from .inputs import available_where, checked_pair, of_rows
from .plan import Plan
from .preparation import Needs


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(RegressorMixin, PrivateEstimator):
    """Differentially private ridge regression.

    Coefficients, R² and their confidence intervals come from one release of the second moment of [X, y].

    Parameters
    ----------
    alpha : float, optional
        Regularization per row (the alpha of scikit-learn divided by n); 0 is least squares. Default: chosen from the
        noise scale.
    target : str or int, optional
        Column to predict, if `fit` gets a table and no `y`.
    norm_bound, bounds, schema
        As in `PrivatePCA`, for the row [x, y]: the target is the last column, or its own column in a table. In `bounds`
        by name, a separate `y` has its own name or "y". A schema requires `target`. Without any of them, ranges are
        estimated privately; a fit with too few rows for that is refused.
    fit_intercept : bool
        Whether to fit an intercept; `center` in the other estimators.
    epsilon, delta, mechanism, mechanism_options, adjacency, stages, ledger, random_state
        As in `PrivatePCA`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    r2_ : float
        Share of the variance of the target that the fit explains, from the same release.
    coef_interval_ : ndarray of shape (n_features, 2)
        95 % confidence intervals for the least-squares coefficients of the clipped rows, for the privacy noise. Each
        interval is widened to include `coef_`, which the ridge shrinks. Infinite where no finite interval is honest;
        `release_.regression.reduced` then has the regression on the features that can be resolved.
    r2_interval_ : ndarray of shape (2,)
        The same for the R² of least squares.
    intercept_error_ : float
        Standard error of the intercept.
    determined_ : bool
        Whether all coefficients have finite intervals.
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

    alpha: float | None = field(default=None, kw_only=False)
    target: int | str | None = None
    fit_intercept: bool = True
    center: ClassVar[Any] = property(lambda model: truth_value("fit_intercept", model.fit_intercept))  # type: ignore[misc]
    standardize: bool = field(default=False, init=False)
    statistic: str = field(default="auto", init=False)

    coef_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: _regression(release).coef, "Coefficients of the features."
    )
    intercept_: ClassVar[ReleaseAttribute[float]] = ReleaseAttribute(
        lambda release: _regression(release).intercept, "Intercept."
    )
    r2_: ClassVar[ReleaseAttribute[float]] = ReleaseAttribute(
        lambda release: _regression(release).r2, "Share of the variance of the target that the fit explains."
    )
    alpha_: ClassVar[ReleaseAttribute[float]] = ReleaseAttribute(
        lambda release: _regression(release).alpha, "Regularization per row."
    )
    coef_interval_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: _regression(release).coef_interval, "95 % confidence intervals for the coefficients."
    )
    r2_interval_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: _regression(release).r2_interval, "95 % confidence interval for the R² of least squares."
    )
    intercept_error_: ClassVar[ReleaseAttribute[float]] = ReleaseAttribute(
        lambda release: _regression(release).intercept_error, "Standard error of the intercept."
    )
    determined_: ClassVar[ReleaseAttribute[bool]] = ReleaseAttribute(
        lambda release: _regression(release).determined, "Whether the noise leaves every direction of the features."
    )
    scale_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: release.scale[list(_regression(release).features)],
        "The factors that features are multiplied by.",
    )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        plan: Plan | None = None,
        schema: Schema | None = None,
        privacy_unit: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit the model and spend the privacy budget. A second call spends it again.

        Parameters
        ----------
        X : array, sparse matrix or data frame; without `y` also a path
            The features, or the whole table where `target` names its column.
        y : array of shape (n_samples,), optional
            The targets.
        plan : Plan, optional
            The result of `plan` for these rows [x, y].
        schema : Schema, optional
            Public facts about the columns, if the estimator has no schema.
        privacy_unit : str, int, list or array, optional
            The privacy unit, if the estimator has none: a column, or with `y` one identifier per row.
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
            return self._fit(X, plan, schema=schema, **of_rows)
        if self.target is not None:
            raise InvalidParameterError("Give either y or target, not both.")
        if self.schema is not None or schema is not None:
            raise InvalidParameterError("A schema is for the whole table; name the column to predict by target=.")
        if self.privacy_unit is not None:
            raise InvalidParameterError(
                "privacy_unit needs the whole table. Leave out y, and name the column to predict by target=."
            )
        return self._fit(_with_target(X, y), plan, **of_rows)

    @available_where(passes_once)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows [X, y] and spend nothing; `fit_moments()` then draws the release and spends."""
        table = X if y is None else _with_target(X, y)
        if y is not None and hasattr(self, "_collected") and table.shape[1] - 1 != self.n_features_in_:
            raise InvalidDataError(
                f"X has {table.shape[1] - 1} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        super().partial_fit(table)
        self.n_features_in_ = self._collected.n_features - 1
        if y is not None and hasattr(self, "feature_names_in_"):
            self.feature_names_in_: NDArray[Any] = self.feature_names_in_[:-1]
        return self

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        alpha = None if self.alpha is None else number_from_zero("alpha", self.alpha)
        if n_features < 2:
            raise InvalidDataError("A regression needs a target and at least one other column; give more columns.")
        if self.target is None:
            return RegressionRequest(n_features - 1, alpha)
        if not isinstance(self.target, str):
            return RegressionRequest(integer_between("target", self.target, 0, n_features - 1), alpha)
        if feature_names is None:
            return RegressionRequest(alpha=alpha)
        if self.target not in feature_names:
            raise InvalidParameterError(
                f"There is no numeric column {quoted(self.target)} to predict; set target to one of the columns."
            )
        if f"{self.target}=missing" in feature_names:
            raise InvalidParameterError("The target has an indicator of missing values; give it another rule for them.")
        return RegressionRequest(feature_names.index(self.target), alpha)

    def _needs(self) -> Needs:
        return Needs(type(self).__name__, known_noise=True, target=True)

    def _interpret(self, release: Release) -> None:
        fit = _regression(release)  # warns of a target that is not distinguishable from noise
        # From here on the estimator is about the features alone.
        features = list(fit.features)
        self.n_features_in_ = len(features)
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = self.feature_names_in_[features]

    def summary(self, *, base: Mapping[str, str] | None = None) -> Summary:
        """Return the table of coefficients with their standard errors and intervals. Nothing is spent.

        Parameters
        ----------
        base : mapping, optional
            Base level of categorical columns, by name. Coefficients of the other categories are differences from it,
            so they are not those of `coef_`.
        """
        check_is_fitted(self)
        return self.release_.summary(base=base)

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


def _regression(release: Release) -> Regression:
    fit = release.regression
    assert fit is not None
    return fit


def _with_target(X: Any, y: Any) -> Any:
    """Return the rows [x, y]: a frame with a last column where X is one with names, so that bounds may name them."""
    rows, target = checked_pair(X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, ensure_min_samples=0)
    if scipy.sparse.issparse(rows):
        return scipy.sparse.hstack([rows, target[:, None]], format="csr")
    table, frame = np.hstack([rows, target[:, None]]), as_frame(X)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return table
    import narwhals as nw

    name = getattr(y, "name", None)
    name = name if isinstance(name, str) and name else "y"
    while name in frame.columns:
        name += "_"
    return nw.from_numpy(table, [*frame.columns, name], backend=frame.implementation).to_native()


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
