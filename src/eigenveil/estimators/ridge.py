"""`PrivateRidge`: differentially private ridge regression from one released second moment of [X, y]."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from ..errors import InvalidDataError, InvalidParameterError, integer_between, number_from_zero, quoted, truth_value
from ..numerics import FloatArray
from ..releases.origin import RegressionRequest, Request
from ..releases.record import Release
from ..tables.frames import ColumnsReader, as_frame
from ..tables.schema import Schema
from .base import (
    PrivateEstimator,
    ReleaseAttribute,
    available_where,
    checked_pair,
    names_unknown_parameters,
    of_rows,
)
from .parameters import Needs
from .plan import Plan
from .preparation import check_one_pass


def _of_each_target(name: str, doc: str) -> ReleaseAttribute[Any]:
    """Return an attribute of the regression; with a table of targets, an array of the values for each."""

    def read(release: Release) -> Any:
        fits, request = release.regressions, release.origin.request
        assert isinstance(request, RegressionRequest)
        if isinstance(request.target, tuple):
            return np.array([getattr(fit, name) for fit in fits])
        return getattr(fits[0], name)

    return ReleaseAttribute(read, doc)


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
    target : str, int or list of these, optional
        Column to predict, if `fit` gets a table and no `y`. A list is for several targets.
    norm_bound, bounds, schema
        As in `PrivatePCA`, for the row [x, y]: targets are the last columns, or their own columns in a table. In
        `bounds` by name, a separate `y` has its own names or "y"; several without names have "y0", "y1" and so on. A
        schema requires `target`. Without any of them, ranges are estimated privately; a fit with too few rows for that
        is refused.
    fit_intercept : bool
        Whether to fit an intercept; `center` in the other estimators.
    epsilon, delta, mechanism, mechanism_options, adjacency, stages, ledger, random_state
        As in `PrivatePCA`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        The second shape, here and below, is for a `y` with two dimensions or a list of targets. One release serves all
        targets, so the budget is spent once.
    intercept_ : float or ndarray of shape (n_targets,)
    r2_ : float or ndarray of shape (n_targets,)
        Share of the variance of the target that the fit explains, from the same release.
    coef_interval_ : ndarray of shape (n_features, 2) or (n_targets, n_features, 2)
        95 % confidence intervals for the least-squares coefficients of the clipped rows, for the privacy noise. Each
        interval is widened to include `coef_`, which the ridge shrinks. Infinite where no finite interval is honest;
        `release_.regressions` then has the regressions on the features that can be resolved, as `reduced`.
    r2_interval_ : ndarray of shape (2,) or (n_targets, 2)
        The same for the R² of least squares.
    intercept_error_ : float or ndarray of shape (n_targets,)
        Standard error of the intercept.
    determined_ : bool or ndarray of shape (n_targets,)
        Whether all coefficients have finite intervals.
    alpha_ : float or ndarray of shape (n_targets,)
    guarantee_, release_, mechanism_, norm_bound_
        As in `PrivatePCA`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(50_000, 2))
    >>> model = PrivateRidge(epsilon=1.0, norm_bound=2.0).fit(X, X @ [1.0, -0.5])
    >>> model.coef_.round(1)
    array([ 1. , -0.5])
    >>> Y = X @ [[1.0, 0.5], [-0.5, 0.0]]
    >>> PrivateRidge(epsilon=1.0, norm_bound=2.0).fit(X, Y).coef_.shape
    (2, 2)
    """

    alpha: float | None = field(default=None, kw_only=False)
    target: int | str | Sequence[int | str] | None = None
    fit_intercept: bool = True
    center: ClassVar[Any] = property(lambda model: truth_value("fit_intercept", model.fit_intercept))  # type: ignore[misc]
    standardize: bool = field(default=False, init=False)
    statistic: str = field(default="auto", init=False)

    coef_ = _of_each_target("coef", "Coefficients of the features.")
    intercept_ = _of_each_target("intercept", "Intercept.")
    r2_ = _of_each_target("r2", "Share of the variance of the target that the fit explains.")
    alpha_ = _of_each_target("alpha", "Regularization per row.")
    coef_interval_ = _of_each_target("coef_interval", "95 % confidence intervals for the coefficients.")
    r2_interval_ = _of_each_target("r2_interval", "95 % confidence interval for the R² of least squares.")
    intercept_error_ = _of_each_target("intercept_error", "Standard error of the intercept.")
    determined_ = _of_each_target("determined", "Whether the noise leaves every direction of the features.")
    scale_ = ReleaseAttribute(
        lambda release: release.scale[_features(release)],
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
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            The target, or several targets, which are predicted from the same features.
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
        table, n_targets = _with_target(X, y)
        return self._fit(table, plan, n_targets=n_targets, **of_rows)

    @available_where(check_one_pass)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows [X, y] and spend nothing; `fit_moments()` then draws the release and spends."""
        if y is None:
            super().partial_fit(X)
            self.n_features_in_ = self._collected.n_features - _count(self.target)
            return self
        table, n_targets = _with_target(X, y)
        n_features = table.shape[1] - (n_targets or 1)
        if not hasattr(self, "_collected"):
            self._collected_targets = n_targets
        elif n_features != self.n_features_in_:
            raise InvalidDataError(
                f"X has {n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input."
            )
        elif n_targets != self.__dict__.get("_collected_targets"):
            raise InvalidDataError("y must have as many columns as in the calls of partial_fit before.")
        super().partial_fit(table)
        self.n_features_in_ = n_features
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_: NDArray[Any] = self.feature_names_in_[:n_features]
        return self

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        alpha = None if self.alpha is None else number_from_zero("alpha", self.alpha)
        if n_features <= (n_targets or _count(self.target)):
            raise InvalidDataError("A regression needs a target and at least one other column; give more columns.")
        if n_targets is not None:
            return RegressionRequest(tuple(range(n_features - n_targets, n_features)), alpha)
        if self.target is None:
            return RegressionRequest(n_features - 1, alpha)
        if isinstance(self.target, str) or not isinstance(self.target, Sequence):
            return RegressionRequest(_position(self.target, n_features, feature_names), alpha)
        positions = tuple(_position(one, n_features, feature_names) for one in self.target)
        if feature_names is not None and len({*positions}) < len(positions):
            raise InvalidParameterError("target names a column twice; name each column once.")
        return RegressionRequest(positions, alpha)

    def _needs(self) -> Needs:
        return Needs(type(self).__name__, known_noise=True, target=True)

    def _interpret(self, release: Release) -> None:
        # Warns of a target that is not distinguishable from noise. From here on the estimator is about features alone.
        features = _features(release)
        self.n_features_in_ = len(features)
        if hasattr(self, "feature_names_in_"):
            self.feature_names_in_ = self.feature_names_in_[features]

    def predict(self, X: Any) -> Any:
        """Return predictions; those for private rows are private data themselves.

        A feature farther out than the bound of the fit lets it be is taken to be at that bound.
        """
        release = self._fitted_release
        schema, names = release.origin.schema, release.feature_names
        fits, coef, intercept = release.regressions, self.coef_.T, self.intercept_
        if schema is not None and names is not None:
            for fit in fits:
                schema = schema.without(names[fit.target])
        columns = ["prediction"] if len(fits) == 1 else [f"prediction{place}" for place in range(len(fits))]

        def predicted(rows: Any) -> FloatArray:
            return np.asarray(_within_reach(release, rows) @ coef + intercept)

        return of_rows(self, X, schema, predicted, columns, accept_sparse="csr")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # noise of epsilon = 1 on a few hundred rows is meant to hide them
        return tags


def _features(release: Release) -> list[int]:
    return list(release.regressions[0].features)


def _count(target: Any) -> int:
    """Return the number of columns that the parameter `target` names; None is for the last one."""
    if isinstance(target, str) or not isinstance(target, Sequence):
        return 1
    if not target:
        raise InvalidParameterError("target must be a column or a list of at least one column.")
    return len(target)


def _position(target: Any, n_features: int, feature_names: tuple[str, ...] | None) -> int:
    if not isinstance(target, str):
        return integer_between("target", target, 0, n_features - 1)
    if feature_names is None:
        return -1  # a plan knows no names
    if target not in feature_names:
        raise InvalidParameterError(
            f"There is no numeric column {quoted(target)} to predict; set target to one of the columns."
        )
    if f"{target}=missing" in feature_names:
        raise InvalidParameterError("The target has an indicator of missing values; give it another rule for them.")
    return feature_names.index(target)


def _with_target(X: Any, y: Any) -> tuple[Any, int | None]:
    """Return the rows [x, y], with names where X is a frame, and the number of targets where y is a table of them."""
    rows, targets = checked_pair(X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, ensure_min_samples=0)
    n_targets = targets.shape[1] if targets.ndim == 2 else None
    targets = targets.reshape(len(targets), -1) if len(targets) else targets.reshape(0, n_targets or 1)
    if scipy.sparse.issparse(rows):
        return scipy.sparse.hstack([rows, targets], format="csr"), n_targets
    frame = as_frame(X)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return np.hstack([rows, targets]), n_targets
    names = list(frame.columns)
    for name in _names_of(y, n_targets):
        while name in names:
            name += "_"
        names.append(name)
    return ColumnsReader(dict(zip(names, [*rows.T, *targets.T], strict=True))), n_targets


def _names_of(y: Any, n_targets: int | None) -> list[str]:
    """Return the public names of the targets."""
    if n_targets is None:
        name = getattr(y, "name", None)
        return [name if isinstance(name, str) and name else "y"]
    frame = as_frame(y)
    if frame is not None and all(isinstance(name, str) and name for name in frame.columns):
        return list(frame.columns)
    return ["y"] if n_targets == 1 else [f"y{place}" for place in range(n_targets)]


def _within_reach(release: Release, X: Any) -> Any:
    """Return rows whose features are no farther out than any that was fitted: a line says nothing beyond."""
    rule, features = release.origin.row_rule, _features(release)
    if not rule.keeps_lengths or rule.mapped_from is not None:
        return X
    reach = rule.norm / release.matrix.row_scale[features]
    if rule.shift is None and scipy.sparse.issparse(X):
        X = X.copy()
        X.data = np.clip(X.data, -reach[X.indices], reach[X.indices])
        return X
    middle = np.zeros_like(reach) if rule.shift is None else np.asarray(rule.shift)[features]
    return np.clip(X.toarray() if scipy.sparse.issparse(X) else X, middle - reach, middle + reach)
