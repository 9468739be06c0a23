"""What a notebook shows of an estimator: of a fit what was released, before it what scikit-learn shows."""

import functools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from .. import gate
from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidDataError, InvalidParameterError
from ..guarantee import Adjacency
from ..mechanisms import CentralMechanism
from ..moments.comparisons import MixedDifferences
from ..moments.row_rule import RowRule
from ..moments.second_moments import SecondMoments
from ..releases.origin import Request
from ..releases.record import Release
from ..sampling.randomness import generator_from
from ..tables.open import Source
from ..tables.schema import Schema
from .fit import StagedFit, collected_moments, with_last_differences
from .inputs import available_where, opened
from .pipelines import check_delta, check_surroundings
from .plan import (
    Features,
    SpendPlan,
    asked_by,
    check_passes,
    check_prepared_alike,
    planned,
    prepared,
    prepared_for_many,
    prepared_once,
    rows_pass_once,
)
from .preparation import has_own_units, told
from .ranges import CORRELATIONS_FROM, COVARIANCE_FROM, warn_of_features_without_range
from .split import check_read_once, stages_asked


class Faced:
    """Base of estimators with a face of their own."""

    release_: "Release"

    def _html_repr(self) -> str:
        # scikit-learn asks for it, and heeds its own setting of what is displayed.
        if not hasattr(self, "release_"):
            return str(super()._html_repr())  # type: ignore[misc]
        from ..report.notebook import fit_face

        return fit_face(type(self).__name__, self.release_)


_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass
class _Work:
    thread: int
    entry: int | None = None


# By process and estimator: a lock in the estimator itself could not be pickled, and a forked child has no such thread.
_at_work: dict[tuple[int, int], _Work] = {}
_guard = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_guard.release)


def one_fit_at_a_time(method: _Method) -> _Method:
    """Let a method that fits refuse a second thread before anything is spent: each would overwrite the other's release.

    An error after the spend gets a note with the entry of the ledger.
    """

    @functools.wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        key = os.getpid(), id(self)
        with _guard:
            work, outer = _at_work.get(key), key in _at_work
            if work is None:
                work = _at_work[key] = _Work(threading.get_ident())
        if work.thread != threading.get_ident():
            raise InvalidParameterError(
                f"This {type(self).__name__} is being fitted in another thread; nothing was spent, give every thread "
                "an estimator of its own, as sklearn.base.clone makes them."
            )
        try:
            return method(self, *args, **options)
        except BaseException as error:
            if work.entry is not None and not outer and _entry_of_release(self) != work.entry:
                error.add_note(f"Entry {work.entry} of the ledger has been paid for, and no release came of it.")
            raise
        finally:
            if not outer:
                del _at_work[key]

    return alone  # type: ignore[return-value]


def note_paid(estimator: Any, entry: int | None) -> None:
    """Remember the entry of the ledger that the fit at work has paid for."""
    work = _at_work.get((os.getpid(), id(estimator)))
    if work is not None:
        work.entry = entry


def _entry_of_release(estimator: Any) -> int | None:
    release = getattr(estimator, "release_", None)
    entry: int | None = None if release is None else release.origin.ledger_entry
    return entry


class CollectsInParts:
    """Base of `MomentsEstimator`: `partial_fit`, and what it holds until it is spent."""

    _differences_buffer: MixedDifferences
    _collected: SecondMoments
    adjacency: str
    stages: int | str

    @available_where(rows_pass_once)
    @one_fit_at_a_time
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only where nothing about the rows is found privately, which takes another pass: with a public `norm_bound`
        or `bounds`, or with rows that are compared.
        """
        del y
        Adjacency.parse(self.adjacency)
        check_read_once(stages_asked(self.stages))
        source = opened(self, X)
        collected: SecondMoments | None = getattr(self, "_collected", None)
        if collected is not None and source.n_features != collected.n_features:
            raise InvalidDataError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting "
                f"{collected.n_features} features as input."
            )
        # Collected apart and added at the end: a call that fails midway has added nothing, so calling it again
        # cannot count a row twice, which would double what one person changes.
        preparation = prepared_once(self, Features.of(source))
        differences_buffer = (
            MixedDifferences(preparation.bound) if collected is None else self._differences_buffer.branch()
        )
        added = collected_moments(source, preparation, differences_buffer)
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        # In one step, and the last: no interrupt comes between the sums and the rows that wait to be compared.
        whole, schema = added if collected is None else collected + added, Features.of(source).schema
        self.__dict__.update(_collected=whole, _differences_buffer=differences_buffer, _collected_schema=schema)
        return self

    def _forget_collected(self) -> None:
        for name in ("_differences_buffer", "_collected", "_collected_schema"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> Any:
        # What pickle, joblib and copy ask for. scikit-learn's clone does not: it makes a new one of the parameters.
        if "_collected" in self.__dict__ or "_differences_buffer" in self.__dict__:
            raise InvalidDataError(
                f"This {type(self).__name__} holds private sums from partial_fit and cannot be pickled or copied; call "
                "fit_moments first, or fit."
            )
        return super().__getstate__()


class MomentsEstimator(Faced, CollectsInParts, BaseEstimator):
    """Base of the estimators that work on one released second moment. Not used by itself."""

    _needs: ClassVar[str] = "matrix"
    """What the release must hold: "directions" will do, a "matrix", or a matrix plus "noise" of a known distribution."""
    _lengths: ClassVar[bool] = True
    """Whether the lengths of rows matter, or directions will do."""
    _maps: ClassVar[bool] = True
    """Whether what is made of the matrix can do with noise that differs between directions."""

    def __init__(
        self,
        *,
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
        stages: int | str = "auto",
        ledger: LedgerOrPath | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.statistic = statistic
        self.standardize = standardize
        self.center = center
        self.norm_bound = norm_bound
        self.bounds = bounds
        self.schema = schema
        self.privacy_unit = privacy_unit
        self.unit_weight = unit_weight
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.adjacency = adjacency
        self.stages = stages
        self.ledger = ledger
        self.random_state = random_state

    def plan(self, n_features: int | Source, n_rows: int | None = None) -> SpendPlan:
        """Return what a fit will spend, on what, by which mechanism, from public numbers alone; nothing is spent.

        Everything that can be refused without rows is refused here.

        Parameters
        ----------
        n_features : int or Source
            Width of a row; or an opened table (`eigenveil.tables.open.open_table`), of whose rows none is read.
        n_rows : int, optional
            Number of rows, where it is known and public; without it the plan tells how the mechanism depends on it.
        """
        features = Features.of(n_features, self)
        d, once = features.n_features, features.reads_once
        preparation = prepared(self, features)
        self._request(d, None)
        plan = planned(self, d, preparation, preparation.bound.rule, n_rows, reads_once=once)
        directions = not (self._lengths or self.center or preparation.unit_weight == "by_rows")
        if "norm_bound" in plan.choices and plan.adjacency is Adjacency.REPLACE_ONE and directions:
            unit = preparation.of_unit_rows()
            plan = plan.unless_few(planned(self, d, unit, unit.bound.rule, n_rows, reads_once=once))
        many = prepared_for_many(self, features)
        if many is not None:
            times = CORRELATIONS_FROM if self.standardize else COVARIANCE_FROM
            plan = plan.from_many(planned(self, d, many, many.bound.rule, n_rows), times)
        return plan.checked(n_rows) if n_rows is None else plan.at(n_rows).checked(n_rows)

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
        """Fit from rows and spend the budget; a second call spends it again.

        Parameters
        ----------
        X : array, sparse matrix, data frame, Dask or Spark collection, path or list of paths
            The private rows; see `eigenveil.tables.open.open_source`.
        y : ignored
            For scikit-learn's pipelines.
        plan : SpendPlan, optional
            What `plan` gave for these features, where it was asked before; by default it is made now.
        schema : Schema, optional
            What is publicly known of the columns, where the estimator was not told.
        privacy_unit : str, int, list or array, optional
            What tells persons apart, where the estimator was not told: a column, or the identifiers, one a row.
        sample_weight : array of shape (n_samples,), optional
            **Public** weights of the rows, such as those of a survey's design: they are not protected, and a row may
            have as much influence as the largest of them.
        """
        del y
        return self._fit_source(X, plan, schema=schema, privacy_unit=privacy_unit, sample_weight=sample_weight)

    @one_fit_at_a_time
    def fit_moments(self, moments: SecondMoments | None = None) -> Self:
        """Release from moments collected elsewhere, or by `partial_fit`; spends the budget like `fit`."""
        collected = moments is None
        if moments is None:
            if "_collected" not in self.__dict__:
                raise InvalidDataError("There are no moments yet; give some, or call partial_fit first.")
            moments = with_last_differences(self._collected, self._differences_buffer)
        request = self._request(moments.n_features, moments.feature_names or ())
        # How the rows were made is a fact about the moments, which no parameter can change any more.
        plan = planned(self, moments.n_features, None, moments.bound.rule, moments.n_samples)
        generator = generator_from(self.random_state)
        mechanism = plan.mechanism(moments.n_samples)
        gate.check(mechanism, moments)
        self._check_size(mechanism, moments.bound.rule, moments.n_samples)
        schema = self.__dict__.get("_collected_schema") if collected else None
        # Directions that a mechanism draws are those of the rows as they were scaled; about the mean there is a matrix.
        own_units = moments.bound.needs_matrix and has_own_units(self, schema or self.schema)
        payment = self._pay(
            plan,
            moments.n_samples,
            generator,
            rule=moments.bound.rule,
            n_features=moments.n_features,
            feature_names=moments.feature_names,
            request=replace(request, own_units=own_units),
            schema=schema,
        )
        if collected:  # they are paid for once; a refused spend leaves them
            self._forget_collected()
        return self._fitted_by(gate.draw(moments, generator, payment))

    def _check_rows(self, rule: RowRule) -> None:
        """Refuse rows that this estimator has no use for; asked before every spend."""
        if self.standardize and not rule.needs_matrix:
            raise InvalidParameterError(
                "Correlations need rows with a constant appended, or signs of differences; collect the moments so."
            )

    def _check_mechanism(self, mechanism: CentralMechanism) -> None:
        """Refuse a mechanism that releases too little for this estimator; asked before every spend."""
        if self._needs == "noise" and not mechanism.adds_noise:
            raise InvalidParameterError(
                f"{type(self).__name__} needs a mechanism that adds noise; choose another mechanism."
            )
        if self._needs == "matrix" and mechanism.releases == "subspace":
            raise InvalidParameterError(f"{mechanism.name} releases no matrix; choose another mechanism.")

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        """Return what is asked for, or refuse it; asked before every spend. A plan knows no names yet: None."""
        del n_features, feature_names
        return Request(correlation=told(self, "standardize"))

    def _directions_wanted(self) -> int | None:
        """Return how many directions would do; None where the matrix is needed."""
        return None

    def _directions_released(self, d: int) -> int | None:
        """Return how many directions a mechanism that draws them should draw; all by default."""
        del d
        return None

    @one_fit_at_a_time
    def _fit_source(self, X: Any, plan: SpendPlan | None, **of_fit: Any) -> Self:
        self._forget_collected()
        check_surroundings(self)
        source = opened(self, X, **of_fit)
        if plan is None:
            plan = self.plan(source)
        else:
            plan.check_made_for(asked_by(self))
            check_prepared_alike(self, source, plan)
        check_passes(source, plan)
        request = self._request(source.n_features, source.feature_names or ())

        def pay(plan: SpendPlan, n_rows: int, generator: np.random.Generator) -> gate.Payment:
            preparation = plan.preparation_for(source.n_features)
            return self._pay(
                plan,
                n_rows,
                generator,
                rule=preparation.bound.rule,
                n_features=source.n_features,
                feature_names=source.feature_names,
                request=replace(request, own_units=preparation.own_units),
                schema=Features.of(source).schema,
            )

        fit = StagedFit(source, plan, generator_from(self.random_state), self._check_size, pay)
        moments = fit.moments(self._directions_wanted())
        release = gate.draw(
            moments,
            fit.generator,
            fit.payment,
            budget=fit.budget,
            drawn=fit.drawn,
            without_range=fit.without_range,
        )
        self._fitted_by(release)
        warn_of_features_without_range(source, fit.without_range)
        return self

    def _check_size(self, mechanism: CentralMechanism, rule: RowRule, n_rows: int) -> None:
        """Refuse so few rows that nothing can be learned, where their number is public; asked before every spend."""

    def _pay(
        self,
        plan: SpendPlan,
        n_rows: int,
        generator: np.random.Generator,
        *,
        rule: RowRule,
        n_features: int,
        feature_names: tuple[str, ...] | None,
        request: Request,
        schema: Schema | None,
    ) -> gate.Payment:
        """Record the whole fit in the ledger, once, before the first draw; refuse what could not be saved."""
        mechanism, estimator = plan.mechanism(n_rows), type(self).__name__
        promise = plan.guarantee_of(mechanism)
        check_delta(promise, n_rows)
        origin = gate.expected_origin(
            mechanism,
            rule,
            n_features,
            feature_names,
            request=request,
            estimator=estimator,
            chosen_privately=tuple(sorted(plan.choices)),
            schema=schema,
        )
        payment = gate.pay(mechanism, promise, generator, self.ledger, f"{estimator}.fit", origin)
        note_paid(self, payment.entry)
        return payment

    def _fitted_by(self, release: Release) -> Self:
        """Set the fitted attributes to what a release says; return the estimator."""
        self.release_, self.guarantee_, self.mechanism_ = release, release.guarantee, release.origin.mechanism
        self.n_samples_, self.n_features_in_ = release.n_rows, release.n_features
        if release.feature_names is not None:
            self.feature_names_in_ = np.asarray(release.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.scale_, self.norm_bound_ = release.scale, release.origin.row_rule.row_norm
        self._interpret(release)
        return self

    def _interpret(self, release: Release) -> None:
        """Set the fitted attributes to what the release reads of itself."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # noise is the point
        return tags
