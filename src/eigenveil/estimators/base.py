"""`PrivateEstimator`: the declared parameters of all estimators, their plan and their fits."""

import functools
import os
import pickle
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .. import gate
from ..accounting.ledger import LedgerOrPath, opened_ledger
from ..errors import InvalidDataError, InvalidParameterError, PrivacyWarning, quoted, warn_caller
from ..guarantee import Guarantee
from ..moments.comparisons import MixedDifferences
from ..moments.second_moments import SecondMoments
from ..numerics import FloatArray
from ..releases.origin import Request
from ..releases.record import Release
from ..sampling.randomness import generator_from
from ..tables.base import Source
from ..tables.open import is_source
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
from .inputs import Estimator, available_where, opened
from .plan import Plan, plan_fit, route_of_moments
from .preparation import (
    Features,
    FitParameters,
    Needs,
    check_one_pass,
    has_own_units,
    prepared_once,
    public_rows,
)
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


@cache  # scikit-learn reads the signature at every call
def _deciding(kind: type) -> tuple[str, ...]:
    return tuple(name for name in sorted(signature(kind).parameters) if name not in ("ledger", "random_state"))


def made_for(estimator: Estimator) -> bytes:
    """Return the parameters that decide about a plan, as bytes that are equal where they are."""
    given = [(name, getattr(estimator, name)) for name in _deciding(estimator.__class__)]
    return pickle.dumps((type(estimator).__qualname__, given))


def made_for_or_empty(estimator: BaseEstimator) -> bytes:
    """Return the same, and nothing where a parameter has no bytes, as a mapping that cannot be pickled."""
    try:
        return made_for(estimator)
    except (pickle.PicklingError, TypeError, AttributeError):
        return b""


def passes_once(estimator: "PrivateEstimator") -> None:
    """Raise an `AttributeError` where an estimator has no `partial_fit`."""
    check_one_pass(FitParameters.of(estimator), estimator._needs())


def _warn_of_identifiers(features: Features, bounds: object) -> None:
    sentence = features.identifiers_in_words(bounds)
    if sentence is not None:
        warn_caller(sentence, PrivacyWarning)


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


def html_of_fit(estimator: Estimator) -> str | None:
    """Return a fitted estimator as HTML for a notebook; None before the fit."""
    if not hasattr(estimator, "release_"):
        return None
    from ..report.headline import fit_html

    return fit_html(type(estimator).__name__, estimator.release_)


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
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

    scale_: ClassVar[ReleaseAttribute[FloatArray]] = ReleaseAttribute(
        lambda release: release.matrix.of_all(release.scale, 1.0), "The factors that features are multiplied by."
    )

    def _needs(self) -> Needs:
        """Return what this estimator needs of a release."""
        return Needs(type(self).__name__)

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        """Return the request; raise if it is invalid.

        `feature_names` is None for a plan, `n_targets` the number of columns of `y` where it is a table.
        """
        del n_features, feature_names, n_targets
        return Request(correlation=bool(self.standardize))

    def plan(self, n_features: int | Source, n_rows: int | None = None) -> Plan:
        """Return how a fit will spend the budget, and with which mechanism. Nothing is spent and no row is read.

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
        return plan_fit(parameters, self._needs(), features, n_rows, made_for(self))

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
        del y
        return self._fit(X, plan, schema=schema, privacy_unit=privacy_unit, sample_weight=sample_weight)

    @one_thread
    def _fit(self, X: Any, plan: Plan | None = None, **options: Any) -> Self:
        self._forget_collected()
        fit = self._planned(X, plan, **options)
        self._fitted_by(fit.run())
        warn_of_features_without_range(fit.source, self.release_.origin.without_range)
        return self

    def _planned(
        self,
        X: Any,
        plan: Plan | None = None,
        *,
        schema: Schema | None = None,
        privacy_unit: Any = None,
        sample_weight: Any = None,
        needs: Needs | None = None,
        n_targets: int | None = None,
    ) -> Fit:
        """Return a fit that has yet to run, after all checks that need no row."""
        ledger = opened_ledger(self.ledger)
        parameters, needs = FitParameters.of(self), self._needs() if needs is None else needs
        source = self._opened(X, schema, privacy_unit, sample_weight)
        features = Features.of(source)
        request = self._request(source.n_features, source.feature_names or (), n_targets)
        _warn_of_identifiers(features, self.bounds)
        if plan is None:
            n_rows, same = public_rows(source, parameters.adjacency), made_for_or_empty(self)
            plan = plan_fit(parameters, needs, features, n_rows, same)
            if n_rows is not None and needs.units and not plan.can_transform:
                plan = plan_fit(parameters, needs, features, None, same)  # which tells how many rows it takes
        else:
            plan.check_made_for(made_for(self), parameters, needs, features)
        generator = generator_from(self.random_state)
        return Fit(
            source,
            plan,
            generator,
            features=features,
            needs=needs,
            request=request,
            ledger=ledger,
            count=self._count(),
        )

    def _opened(self, X: Any, schema: Any = None, privacy_unit: Any = None, sample_weight: Any = None) -> Source:
        of_fit = {"fit_schema": schema, "fit_privacy_unit": privacy_unit, "sample_weight": sample_weight}
        return opened(X, self.schema, self.privacy_unit, **of_fit)

    @available_where(passes_once)
    @one_thread
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only where nothing about the rows is found privately, which takes another pass: with a public `norm_bound`
        or `bounds`, or with rows that are compared.
        """
        del y
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
        self.release_: Release = release
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
        raise NotImplementedError

    def _html_repr(self) -> str:
        # scikit-learn asks for it, and heeds its own setting of what is displayed.
        return html_of_fit(self) or str(super()._html_repr())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # noise is the point
        return tags
