"""Base classes of the estimators: rows as scikit-learn has them, the declared parameters, plans and fits."""

import functools
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Integral
from types import MethodType
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from .. import gate
from ..accounting.ledger import LedgerOrPath, opened_ledger
from ..errors import (
    InvalidDataError,
    InvalidParameterError,
    NotNumbersError,
    PrivacyWarning,
    own_words,
    quoted,
    warn_caller,
)
from ..guarantee import Guarantee, Unit
from ..moments.comparisons import MixedDifferences
from ..moments.second_moments import SecondMoments
from ..numerics import FloatArray
from ..releases.origin import Request
from ..releases.record import Release
from ..releases.summary import Summary
from ..sampling.randomness import generator_from
from ..tables.arrays import NOT_NUMBERS, WeightedTable, check_masks
from ..tables.base import EngineSource, Source
from ..tables.open import is_source, on_engine, open_table
from ..tables.schema import Schema, nearest
from .fit import (
    Fit,
    FitCount,
    collected_moments,
    noting_payment,
    pay,
    screened,
    warn_of_features_without_range,
    with_last_differences,
)
from .parameters import Estimator, Features, FitParameters, Needs, checked_schema, checked_unit_column, public_rows
from .plan import Plan, plan_fit, route_of_moments
from .preparation import check_one_pass, has_own_units, prepared_once
from .split import check_read_once

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Value = TypeVar("_Value")
_Kind = TypeVar("_Kind")
# The thread at work, by process and estimator: a lock in the estimator itself could not be pickled, and a forked child
# has no such thread.
_at_work: dict[tuple[int, int], int] = {}
_guard = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)


def one_thread(method: _Method) -> _Method:
    """Let a method that fits refuse a second thread before it spends: each would overwrite the other's release."""

    @functools.wraps(method)
    def alone(self: Estimator, *args: Any, **options: Any) -> Any:
        key = os.getpid(), id(self)
        with _guard:
            outer = key in _at_work
            thread = _at_work.setdefault(key, threading.get_ident())
        if thread != threading.get_ident():
            raise InvalidParameterError(
                f"This {type(self).__name__} is being fitted in another thread; nothing was spent, give every thread "
                "an estimator of its own, as sklearn.base.clone makes them."
            )
        try:
            return method(self, *args, **options)
        finally:
            if not outer:
                del _at_work[key]

    return alone  # type: ignore[return-value]


def names_unknown_parameters(kind: type[_Kind]) -> type[_Kind]:
    """Let the constructor of a class refuse a misspelt parameter in one sentence, with the nearest that there is.

    Examples
    --------
    >>> @names_unknown_parameters
    ... class Model:
    ...     def __init__(self, *, mechanism="auto"):
    ...         self.mechanism = mechanism
    >>> Model(mechanims="gaussian")
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: Model has no parameter 'mechanims', did you mean mechanism.
    """
    constructor = kind.__init__
    known = [name for name in signature(constructor).parameters if name != "self"]

    @functools.wraps(constructor)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {quoted(name)}{nearest(name, known)}."
                )
        constructor(self, *args, **given)

    kind.__init__ = checked  # type: ignore[method-assign]
    return kind


def _warn_of_identifiers(features: Features, bounds: object) -> None:
    sentence = features.identifiers_in_words(bounds)
    if sentence is not None:
        warn_caller(sentence, PrivacyWarning)


class available_where:  # noqa: N801, a decorator
    """Make a method available where `check`, called with the instance, raises no `AttributeError`.

    Elsewhere that error is what the caller sees; scikit-learn's `available_if` hides its reason behind "has no
    attribute".

    Examples
    --------
    >>> def small(model):
    ...     if model.size > 1:
    ...         raise AttributeError("grow needs a size of at most 1.")
    >>> class Model:
    ...     def __init__(self, size):
    ...         self.size = size
    ...     @available_where(small)
    ...     def grow(self):
    ...         return self.size + 1
    >>> Model(1).grow(), hasattr(Model(2), "grow")
    (2, False)
    >>> Model(2).grow()
    Traceback (most recent call last):
        ...
    AttributeError: grow needs a size of at most 1.
    """

    def __init__(self, check: Callable[[Any], object]) -> None:
        self._check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Decorate a method."""
        self._method, self.__doc__ = method, method.__doc__
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._method
        self._check(instance)
        return MethodType(self._method, instance)


def _given_once(name: str, of_estimator: Estimator, of_fit: Any) -> Any:
    if of_estimator is not None and of_fit is not None and of_estimator != of_fit:
        raise InvalidParameterError(f"fit was given another {name} than the estimator has; give it to one of them.")
    return of_fit if of_estimator is None else of_estimator


# What scikit-learn says, and what is said in its place. Of its text only a number of features or of dimensions is
# kept; those are public.
_SAID: tuple[tuple[str, str], ...] = (
    (r"Input (?:X )?contains (?:NaN|infinity)", "Input X contains NaN or infinity; clean the data first."),
    (r"Input y contains NaN", "Input y contains NaN; clean the data first."),
    (r"Input y contains", "Input y contains infinity or a value too large for dtype('float64')."),
    (r"Complex data not supported", "Complex data not supported; give real numbers."),
    (
        r"Expected 2D array, got (\d)D array",
        "The data must be a table of rows, but have {} dimension(s); Reshape your data.",
    ),
    (r"Expected 2D array, got scalar", "The data must be a table of rows, but are one value; Reshape your data."),
    (r"Found array with dim (\d)", "The data must be a table of rows, but have {} dimension(s); Reshape your data."),
    (
        r"Found array with (\d+) feature\(s\) \(shape=\(\d+, \d+\)\) while a minimum of (\d+)",
        "The data have {0} feature(s) (shape=(, {0})) while a minimum of {1} is required.",
    ),
    (r"Found array with 0 sample", "The data have no rows; give at least one."),
    (
        r"Found input variables with inconsistent",
        "X and y have different numbers of rows; give one target for each row.",
    ),
    (r"Sparse data was passed", "Sparse data was passed where dense data is required; use .toarray()."),
    (r"Singleton array", "y must have one number, or one row of numbers, for each row of X."),
    (r"[\w ]*requires y to be passed", "The estimator requires y to be passed, but the target y is None."),
)


def checked_array(X: Any, **options: Any) -> Any:
    """Return an array that `sklearn.utils.check_array` has checked."""
    _refuse_masks_and_dates(X)
    return _checked(lambda: check_array(X, **options))


def checked_pair(X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return X and y that `sklearn.utils.check_X_y` has checked, with numbers for y: one column, or a table."""
    _refuse_masks_and_dates(X)
    _refuse_masks_and_dates(y)

    def check() -> tuple[Any, NDArray[np.float64]]:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
        if len(shape) == 2 and shape[0] == 0:  # which scikit-learn refuses; whether there are rows may be private
            return check_X_y(X, np.empty(0), **options)[0], np.empty(shape)
        rows, target = check_X_y(X, y, multi_output=len(shape) == 2, **options)
        if scipy.sparse.issparse(target):
            raise TypeError("Sparse data was passed")
        if target.dtype.kind not in "biuf":
            raise TypeError
        return rows, np.asarray(target, np.float64)

    rows, target = _checked(check)
    return rows, target


def checked_rows(estimator: Estimator, X: Any, *, reset: bool = False, **options: Any) -> Any:
    """Return rows as a checked array; names and width are compared with the fit, or kept with ``reset=True``."""
    rows = checked_array(X, estimator=estimator, **options)
    # Names and widths are public, and scikit-learn's words about them are what its users look for.
    validate_data(estimator, X if hasattr(X, "columns") else rows, reset=reset, skip_check_array=True)
    return rows


def _refuse_masks_and_dates(data: Any) -> None:
    """Refuse masked values and dates, which scikit-learn would read as numbers."""
    check_masks(data)
    if isinstance(data, np.ndarray) and data.dtype.kind in "mM":
        raise NotNumbersError(NOT_NUMBERS)


@own_words
def _checked(check: Callable[[], Any]) -> Any:
    """Run a check of scikit-learn, whose error is replaced by one of `_SAID`, which quotes no cell."""
    try:
        return check()
    except Exception as error:
        text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
        for pattern, sentence in _SAID:
            found = re.match(pattern, text)
            if found is not None:
                raise InvalidDataError(sentence.format(*found.groups())) from None
        raise NotNumbersError(NOT_NUMBERS) from None


def of_rows(
    estimator: Estimator,
    X: Any,
    schema: Schema | None,
    function: Callable[[Any], FloatArray],
    columns: Sequence[str],
    **options: Any,
) -> Any:
    """Apply a function to the rows of X, as the features of a fitted estimator; lazily if they are on an engine.

    Arrays and frames of numbers are what scikit-learn checks. Anything else that `fit` takes is read as it read it: by
    the schema of the release, or by the names of the features.
    """
    if isinstance(X, list | tuple):
        for_sklearn = not any(isinstance(part, str | os.PathLike) for part in X)
    else:
        for_sklearn = hasattr(X, "__array__") or scipy.sparse.issparse(X) or (np.isscalar(X) and not isinstance(X, str))
    if schema is None and for_sklearn and not on_engine(X):
        return function(checked_rows(estimator, _without_units(estimator, X), **options))
    names = getattr(estimator, "feature_names_in_", None)
    if is_source(X):
        _check_rows_in_order(X)
        source = open_table(X)
    elif schema is None:
        source = open_table(X, None if names is None else list(names), privacy_unit=False)
        kept = _features_beside(estimator, source.n_features)
        source = source if kept is None else open_table(X, kept, privacy_unit=False)
    else:
        source = open_table(X, schema=schema, privacy_unit=False)  # every row by itself
    if source.n_features != estimator.n_features_in_:
        raise InvalidDataError(
            f"X has {source.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if names is not None and source.feature_names is not None and source.feature_names != tuple(names):
        raise InvalidDataError("The features of X are not those of the fit, in the same order; open the same columns.")
    if isinstance(source, EngineSource):
        return source.mapped(function, columns)
    blocks = list(source.batches())
    if not blocks:
        raise InvalidDataError("The data have no rows; give at least one.")
    stacked = scipy.sparse.vstack(blocks, format="csr") if scipy.sparse.issparse(blocks[0]) else np.vstack(blocks)
    return function(checked_array(stacked, estimator=estimator, **options))


def _check_rows_in_order(source: Any) -> None:
    if getattr(source, "by_unit", False):
        raise InvalidDataError(
            "This table was opened person by person, and not in the order of its rows; open it with privacy_unit=False."
        )


def _without_units(estimator: Estimator, X: Any) -> Any:
    """Return X without the column that identifies the privacy unit, where it is there."""
    privacy_unit, columns = getattr(estimator, "privacy_unit", None), getattr(X, "columns", None)
    if columns is not None:
        names = getattr(estimator, "feature_names_in_", columns)
        others = [name for name in columns if name not in names]
        others = [privacy_unit] if privacy_unit is not None and privacy_unit in columns else others
        # fit may have been told the column, or the release comes from a file; features are known by their names.
        if len(others) != 1 or estimator.release_.origin.row_rule.unit is not Unit.PERSON:
            return X
        import narwhals as nw

        return nw.from_native(X, eager_only=True).drop(others).to_native()
    if not isinstance(privacy_unit, Integral):
        return X
    rows = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    kept = _features_beside(estimator, rows.shape[1] if len(rows.shape) == 2 else 0)
    return X if kept is None else rows[:, kept]


def _features_beside(estimator: Estimator, width: int) -> list[int] | None:
    """Return the positions of the features in rows of this width with the column of privacy units; None without it."""
    privacy_unit = getattr(estimator, "privacy_unit", None)
    if not isinstance(privacy_unit, Integral) or width != estimator.n_features_in_ + 1:
        return None
    return [position for position in range(width) if position != privacy_unit]


class ReleaseAttribute(Generic[_Value]):
    """An attribute of a fitted estimator that is computed from its release.

    Parameters
    ----------
    read : callable
        Returns the value for a release.
    doc : str
    """

    def __init__(self, read: Callable[[Release], _Value], doc: str) -> None:
        self._read, self.__doc__ = read, doc

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self._read(instance.release_)

    def __set__(self, instance: object, value: _Value) -> None:
        raise AttributeError("This attribute is computed from the release and cannot be set.")


class ReleaseEstimator(BaseEstimator):
    """Base class of the estimators whose fitted attributes are computed from `release_`."""

    release_: Release

    @property
    def _fitted_release(self) -> Release:
        """`release_`, or scikit-learn's `NotFittedError` before a fit."""
        check_is_fitted(self)
        return self.release_

    def _html_repr(self) -> str:
        # scikit-learn asks for it, and heeds its own setting of what is displayed.
        if not hasattr(self, "release_"):
            return str(super()._html_repr())
        from ..report.headline import fit_html

        return fit_html(type(self).__name__, self.release_)


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(ReleaseEstimator):
    """Base class of the estimators that use one released second moment.

    The parameters are documented in `PrivatePCA`. A subclass that does not use a parameter declares it with
    ``field(init=False)``.

    The guarantee is for the rows that `fit` receives, and for one fit. It assumes that each row was made from one row
    of the data alone: an estimator in a pipeline cannot see whether a step before it learned from all rows.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    standardize: bool = False
    center: bool = True
    bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None
    norm_bound: float | None = None
    schema: Schema | None = None
    statistic: str = "auto"
    privacy_unit: str | int | None = None
    unit_weight: str = "equal"
    mechanism: str = "auto"
    mechanism_options: Mapping[str, Any] | None = None
    adjacency: str = "replace_one"
    stages: int | str = "auto"
    ledger: LedgerOrPath | None = None
    random_state: int | np.random.Generator | None = None

    scale_ = ReleaseAttribute(
        lambda release: release.matrix.of_all(release.scale, 1.0), "The factors that features are multiplied by."
    )

    def _needs(self) -> Needs:
        """Return the needs of this estimator, which decide about a plan."""
        return Needs(type(self).__name__)

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        """Return the request; raise if it is invalid. `n_targets` is the number of columns of a `y` that is a table."""
        return Request(correlation=bool(self.standardize))

    def plan(self, n_features: int | Source, n_rows: int | None = None) -> Plan:
        """Plan a fit: its mechanism and the parts of its budget. Nothing is spent and no row is read.

        Invalid parameters are refused here.

        Parameters
        ----------
        n_features : int or Source
            Number of features, or an opened table (`eigenveil.tables.open.open_table`).
        n_rows : int, optional
            Number of rows, if it is public. Otherwise the plan shows how the mechanism depends on it. Tables in memory,
            Parquet and .npy files and Dask arrays know it; it is public unless ``adjacency="add_or_remove_one"``. From
            8e8 rows on it also decides how fine the integer grid of the rows is: declare it where it is not known.
        """
        parameters = FitParameters.of(self)
        if is_source(n_features):
            features = Features.of(n_features)
            n_rows = public_rows(n_features, parameters.adjacency) if n_rows is None else n_rows
        else:
            features = Features.declared(n_features, parameters)
        self._request(features.n_features, None)
        return plan_fit(parameters, self._needs(), features, n_rows)

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
        X : array, sparse matrix, data frame, Dask or Spark collection, path or list of paths
            The private rows; see `eigenveil.tables.open.open_source`.
        y : ignored
            For scikit-learn pipelines.
        plan : Plan, optional
            The result of `plan` for these features; made now by default.
        schema : Schema, optional
            Public facts about the columns, if the estimator has no schema.
        privacy_unit : str, int, list or array, optional
            The privacy unit, if the estimator has none: a column, or one identifier per row.
        sample_weight : array of shape (n_samples,), optional
            **Public** weights of the rows, such as survey weights. Weights are not protected.
        """
        return self._fit(X, plan, schema=schema, privacy_unit=privacy_unit, sample_weight=sample_weight)

    @one_thread
    def _fit(
        self,
        X: Any,
        plan: Plan | None = None,
        *,
        schema: Schema | None = None,
        privacy_unit: Any = None,
        sample_weight: Any = None,
        needs: Needs | None = None,
        n_targets: int | None = None,
    ) -> Self:
        self._forget_collected()
        ledger = opened_ledger(self.ledger)
        parameters, needs = FitParameters.of(self), self._needs() if needs is None else needs
        source = self._opened(X, schema, privacy_unit, sample_weight)
        features = Features.of(source)
        request = self._request(source.n_features, source.feature_names or (), n_targets)
        _warn_of_identifiers(features, self.bounds)
        if plan is None:
            n_rows = public_rows(source, parameters.adjacency)
            plan = plan_fit(parameters, needs, features, n_rows)
            if n_rows is not None and needs.units and not plan.can_transform:
                plan = plan_fit(parameters, needs, features, None)  # whose refusal says how many rows it takes
        else:
            plan.check_made_for(parameters, needs, features)
        generator = generator_from(self.random_state)
        fit = Fit(source, plan, generator, features, needs, request, ledger, self._count())
        self._fitted_by(fit.run())
        warn_of_features_without_range(source, self.release_.origin.without_range)
        return self

    def _opened(self, X: Any, schema: Any = None, privacy_unit: Any = None, sample_weight: Any = None) -> Source:
        """Return the source of data that `fit` takes, encoded by a schema, with its privacy units or weights."""
        schema = checked_schema(_given_once("schema", self.schema, schema))
        column = checked_unit_column(self.privacy_unit)
        if not (column is None or privacy_unit is None or isinstance(privacy_unit, str | Integral)):
            raise InvalidParameterError(
                "privacy_unit was given twice. Leave out the list of identifiers in fit, or the column of the "
                "estimator."
            )
        privacy_unit = privacy_unit if column is None else _given_once("privacy_unit", column, privacy_unit)
        if is_source(X):
            if schema is not None and getattr(X, "schema", None) != schema:
                raise InvalidParameterError(
                    "The table was opened without the schema of the estimator; give it to one of them."
                )
            if privacy_unit is not None and not getattr(X, "by_unit", False):
                raise InvalidParameterError(
                    "The table was opened without its privacy units; give privacy_unit to open_table."
                )
            source = open_table(X)
        else:
            try:
                source = open_table(X, schema=schema, privacy_unit=privacy_unit)
            except InvalidDataError as error:  # its text is changed in place, so that no second error holds it
                # An estimator has no columns=; its caller opens the table, or declares its columns.
                ways = " tables.open_table(data, columns=...), or by a schema, which tables.draft_schema(data) drafts"
                error.args = (str(error).replace(" columns=", ways),)
                raise
        return source if sample_weight is None else WeightedTable(source, sample_weight)

    def _check_read_again(self, X: Any, schema: Any = None, privacy_unit: Any = None) -> None:
        """Refuse, before anything is spent, rows that cannot be projected once they have been fitted."""
        source = self._opened(X, schema, privacy_unit)
        if getattr(source, "reads_once", False) or getattr(source, "came_once", False):
            raise InvalidDataError("These rows come once only, and fit_transform reads them twice; call fit.")
        if is_source(X):
            _check_rows_in_order(X)

    @available_where(check_one_pass)
    @one_thread
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only where nothing about the rows is found privately, which takes another pass: with a public `norm_bound`
        or `bounds`, or with rows that are compared.
        """
        parameters = FitParameters.of(self)
        check_read_once(parameters.stages)
        source = self._opened(X)
        collected: SecondMoments | None = getattr(self, "_collected", None)
        if collected is not None and source.n_features != collected.n_features:
            raise InvalidDataError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting "
                f"{collected.n_features} features as input."
            )
        # Collected apart and added at the end: a call that fails midway has added nothing, so calling it again
        # cannot count a row twice, which would double what one person changes.
        features = Features.of(source)
        preparation = prepared_once(parameters, self._needs(), features)
        differences_buffer: MixedDifferences = (
            MixedDifferences(preparation.bound) if collected is None else self._differences_buffer.branch()
        )
        added = collected_moments(source, preparation, differences_buffer)
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_: NDArray[Any] = np.asarray(source.feature_names, dtype=object)
        if collected is None:
            _warn_of_identifiers(features, self.bounds)
        # In one step, and the last: no interrupt comes between the sums and the rows that wait to be compared.
        whole = added if collected is None else collected + added
        assumptions = tuple(dict.fromkeys((*self.__dict__.get("_collected_assumptions", ()), *features.assumptions)))
        self.__dict__.update(
            _collected=whole,
            _differences_buffer=differences_buffer,
            _collected_schema=features.schema,
            _collected_assumptions=assumptions,
        )
        return self

    @one_thread
    def fit_moments(self, moments: SecondMoments | None = None) -> Self:
        """Release from moments collected elsewhere, or by `partial_fit`; spends the budget like `fit`."""
        collected = moments is None
        if moments is None:
            if "_collected" not in self.__dict__:
                raise InvalidDataError("There are no moments yet; give some, or call partial_fit first.")
            moments = with_last_differences(self._collected, self._differences_buffer)
        parameters, needs = FitParameters.of(self), self._needs()
        n_rows, rule = moments.n_samples, moments.bound.rule
        n_targets = self.__dict__.get("_collected_targets") if collected else None
        request = self._request(moments.n_features, moments.feature_names or (), n_targets)
        # How the rows were made is a fact about the moments, which no parameter can change any more.
        assumptions = self.__dict__.get("_collected_assumptions", ()) if collected else ()
        route = route_of_moments(parameters, needs, rule, moments.n_features, n_rows, assumptions)
        generator = generator_from(self.random_state)
        gate.check(route.mechanism, moments)
        route.check(needs, n_rows)
        schema = self.__dict__.get("_collected_schema") if collected else None
        # Directions that a mechanism draws are those of the rows as they were scaled; about the mean there is a matrix.
        own_units = rule.needs_matrix and has_own_units(parameters, needs, schema or self.schema)
        request = replace(request, own_units=own_units)
        payment = pay(
            route,
            needs,
            n_rows,
            generator,
            self.ledger,
            n_features=moments.n_features,
            feature_names=moments.feature_names,
            request=request,
            schema=schema,
            count=self._count(),
        )
        if collected:  # they are paid for once; a refused spend leaves them
            self._forget_collected()
        with noting_payment(payment):
            drawn = gate.NOTHING
            if route.screening is not None:
                moments, drawn = screened(moments, route, needs, generator)
            release = gate.draw(moments, generator, payment, drawn=drawn)
        return self._fitted_by(release)

    def summary(
        self,
        target: int | str | Sequence[int | str] | None = None,
        features: Sequence[int | str] | None = None,
        *,
        alpha: float | None = None,
        base: Mapping[str, str] | None = None,
    ) -> Summary:
        """Return the tables of the release with the error of every number. Nothing is spent.

        Of components and loadings, of means, standard deviations and correlations, or of the regression of a
        `PrivateRidge` or of a `target`. Parameters as in `eigenveil.releases.summary.summarize`; with another `base`
        level than that of the fit, the coefficients of a `PrivateRidge` are not those of `coef_`.
        """
        return self._fitted_release.summary(target, features, alpha=alpha, base=base)

    def _forget_collected(self) -> None:
        kept = ("_collected", "_collected_schema", "_collected_assumptions", "_collected_targets")
        for name in ("_differences_buffer", *kept):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> Any:
        # What pickle, joblib and copy ask for. scikit-learn's clone does not: it makes a new one of the parameters.
        self._count()  # every copy shares it
        if "_collected" in self.__dict__ or "_differences_buffer" in self.__dict__:
            raise InvalidDataError(
                f"This {type(self).__name__} holds private sums from partial_fit and cannot be pickled or copied; call "
                "fit_moments first, or fit."
            )
        return super().__getstate__()

    def __sklearn_clone__(self) -> Self:
        made: Self = super().__sklearn_clone__()
        made.__dict__["_fit_count"] = self._count()
        self._count().cloned_unseeded |= self.random_state is None
        return made

    def _count(self) -> FitCount:
        count: FitCount = self.__dict__.setdefault("_fit_count", FitCount())
        return count

    def _fitted_by(self, release: Release) -> Self:
        """Set the fitted attributes to what a release says; return the estimator."""
        self.release_ = release
        self.guarantee_: Guarantee = release.guarantee
        self.mechanism_: str = release.origin.mechanism
        n_features, names = release.matrix.table_features
        self.n_features_in_ = n_features
        self.n_samples_: int | None = release.n_rows
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.norm_bound_ = release.origin.row_rule.row_norm
        self._interpret(release)
        return self

    def _interpret(self, release: Release) -> None:
        """Warn of what the noise leaves undetermined, and set the attributes that do not follow from the release."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # noise is the point
        return tags
