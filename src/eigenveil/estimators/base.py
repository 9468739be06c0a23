"""What the estimators share: from parameters and rows to one paid release."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator

from .. import gate
from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidDataError, InvalidParameterError
from ..guarantee import Relation
from ..laws import CentralLaw
from ..laws.portions import Budget
from ..moments import SecondMoments
from ..origin import Request
from ..randomness import generator_from
from ..releases import Release
from ..row_rule import RowRule
from ..rows.mixing import MixedRing
from ..schema import Schema
from ..sources import Source
from .availability import available_where
from .collecting import collected_moments, with_ring_closed
from .planning import planned
from .public_facts import Features, check_fits, opened, prepared, prepared_for_many, prepared_once, rows_pass_once, told
from .ranging import CORRELATIONS_FROM, COVARIANCE_FROM, warn_of_features_without_range
from .spend_plan import SpendPlan, asked_by
from .stages import check_read_once, stages_asked
from .staging import StagedFit
from .surroundings import check_delta, check_surroundings


class MomentsEstimator(BaseEstimator):
    """Base of the estimators that work on one released second moment. Not used by itself."""

    _needs: ClassVar[str] = "matrix"
    """What the release must hold: "directions" will do, a "matrix", or a matrix plus "noise" of a known law."""
    _lengths: ClassVar[bool] = True
    """Whether the lengths of rows matter, or directions will do."""
    _maps: ClassVar[bool] = True
    """Whether what is made of the matrix can do with noise that differs between directions."""
    _ring: MixedRing
    _collected: SecondMoments

    def __init__(
        self,
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
        self.epsilon = epsilon
        self.delta = delta
        self.rows = rows
        self.standardize = standardize
        self.center = center
        self.norm_bound = norm_bound
        self.bounds = bounds
        self.feature_scale = feature_scale
        self.schema = schema
        self.law = law
        self.law_options = law_options
        self.relation = relation
        self.stages = stages
        self.ledger = ledger
        self.random_state = random_state

    def plan(self, n_features: int | Source, n_rows: int | None = None) -> SpendPlan:
        """Return what a fit will spend, on what, by which law, from public numbers alone; nothing is spent.

        Everything that can be refused without rows is refused here.

        Parameters
        ----------
        n_features : int or Source
            Width of a row; or an opened table (`eigenveil.sources.open_table`), of whose rows none is read.
        n_rows : int, optional
            Number of rows, where it is known and public; without it the plan tells how the law depends on it.
        """
        features = Features.of(n_features, self.schema)
        d, once = features.n_features, features.reads_once
        preparation = prepared(self, features)
        self._request(d, None)
        plan = planned(self, d, preparation, preparation.bound.rule, n_rows, reads_once=once)
        if "norm_bound" in plan.choices and plan.relation is Relation.REPLACE and not (self._lengths or self.center):
            unit = preparation.of_unit_rows()
            plan = plan.unless_few(planned(self, d, unit, unit.bound.rule, n_rows, reads_once=once))
        many = prepared_for_many(self, features)
        if many is not None:
            times = CORRELATIONS_FROM if self.standardize else COVARIANCE_FROM
            plan = plan.from_many(planned(self, d, many, many.bound.rule, n_rows), times)
        return plan.checked(n_rows) if n_rows is None else plan.at(n_rows).checked(n_rows)

    def fit(self, X: Any, y: Any = None, *, plan: SpendPlan | None = None) -> Self:
        """Fit from rows and spend the budget; a second call spends it again.

        Parameters
        ----------
        X : array, sparse matrix, data frame, Dask or Spark collection, path or list of paths
            The private rows; see `eigenveil.sources.open_source`.
        y : ignored
            For scikit-learn's pipelines.
        plan : SpendPlan, optional
            What `plan` gave for these features, where it was asked before; by default it is made now.
        """
        del y
        return self._fit_source(X, plan)

    @available_where(rows_pass_once)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only where nothing about the rows is found privately, which takes another pass: with a public `norm_bound`
        or `bounds`, or with rows that are compared.
        """
        del y
        Relation.parse(self.relation)
        check_read_once(stages_asked(self.stages))
        source = opened(X, self.schema)
        collected: SecondMoments | None = getattr(self, "_collected", None)
        if collected is not None and source.n_features != collected.n_features:
            raise InvalidDataError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting "
                f"{collected.n_features} features as input."
            )
        # Collected apart and added at the end: a call that fails midway has added nothing, so calling it again
        # cannot count a row twice, which would double what one person changes.
        preparation = prepared_once(self, Features.of(source))
        ring = MixedRing(preparation.bound) if collected is None else self._ring.branch()
        added = collected_moments(source, preparation, ring)
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        # In one step, and the last: no interrupt comes between the sums and the rows that wait to be compared.
        whole, schema = added if collected is None else collected + added, Features.of(source).schema
        self.__dict__.update(_collected=whole, _ring=ring, _collected_schema=schema)
        return self

    def fit_moments(self, moments: SecondMoments | None = None) -> Self:
        """Release from moments collected elsewhere, or by `partial_fit`; spends the budget like `fit`."""
        collected = moments is None
        if moments is None:
            if "_collected" not in self.__dict__:
                raise InvalidDataError("There are no moments yet; give some, or call partial_fit first.")
            moments = with_ring_closed(self._collected, self._ring)
        request = self._request(moments.n_features, moments.feature_names or ())
        # How the rows were made is a fact about the moments, which no parameter can change any more.
        plan = planned(self, moments.n_features, None, moments.bound.rule, moments.n_samples)
        generator = generator_from(self.random_state)
        law = plan.law(moments.n_samples)
        gate.check(law, moments)
        self._check_size(law, moments.bound.rule, moments.n_samples)
        payment = self._pay(plan, moments.n_samples, generator)
        schema = self.__dict__.get("_collected_schema") if collected else None
        if collected:  # they are paid for once; a refused spend leaves them
            self._forget_collected()
        return self._release(plan, moments, request, generator, payment, schema=schema)

    def _check_rows(self, rule: RowRule) -> None:
        """Refuse rows that this estimator has no use for; asked before every spend."""
        if self.standardize and not rule.needs_matrix:
            raise InvalidParameterError(
                "Correlations need rows with a constant appended, or signs of differences; collect the moments so."
            )

    def _check_law(self, law: CentralLaw) -> None:
        """Refuse a law that releases too little for this estimator; asked before every spend."""
        if self._needs == "noise" and not law.adds_noise:
            raise InvalidParameterError(f"{type(self).__name__} needs a law that adds noise; choose another law.")
        if self._needs == "matrix" and law.releases == "subspace":
            raise InvalidParameterError(f"{law.name} releases no matrix; choose another law.")

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        """Return what is asked for, or refuse it; asked before every spend. A plan knows no names yet: None."""
        del n_features, feature_names
        return Request(correlation=told(self, "standardize"))

    def _directions_wanted(self) -> int | None:
        """Return how many directions would do; None where the matrix is needed."""
        return None

    def _directions_released(self, d: int) -> int | None:
        """Return how many directions a law that draws them should draw; all by default."""
        del d
        return None

    def _fit_source(self, X: Any, plan: SpendPlan | None = None) -> Self:
        self._forget_collected()
        check_surroundings(self)
        source = opened(X, self.schema)
        plan = self.plan(source) if plan is None else plan
        plan.check_made_for(asked_by(self))
        check_fits(self, source, plan)
        request = self._request(source.n_features, source.feature_names or ())
        fit = StagedFit(source, plan, generator_from(self.random_state), self._check_size, self._pay)
        moments = fit.moments(self._directions_wanted())
        if "bounds" in fit.plan.choices and not (self._lengths or self.standardize):
            request = replace(request, own_units=True)
        self._release(
            fit.plan,
            moments,
            request,
            fit.generator,
            fit.payment,
            schema=Features.of(source).schema,
            budget=fit.budget,
            drawn=fit.drawn,
            without_range=fit.without_range,
        )
        warn_of_features_without_range(source, fit.without_range)
        return self

    def _check_size(self, law: CentralLaw, rule: RowRule, n_rows: int) -> None:
        """Refuse so few rows that nothing can be learned, where their number is public; asked before every spend."""

    def _pay(self, plan: SpendPlan, n_rows: int, generator: np.random.Generator) -> gate.Payment:
        """Record the whole fit in the ledger, once, before the first draw."""
        law = plan.law(n_rows)
        check_delta(law, n_rows)
        return gate.pay(law, plan.guarantee_of(law), generator, self.ledger, f"{type(self).__name__}.fit")

    def _release(
        self,
        plan: SpendPlan,
        moments: SecondMoments,
        request: Request,
        generator: np.random.Generator,
        payment: gate.Payment,
        *,
        schema: Schema | None,
        budget: Budget | None = None,
        drawn: gate.Drawn = gate.NOTHING,
        without_range: tuple[int, ...] = (),
    ) -> Self:
        self.release_ = release = gate.draw(
            moments,
            generator,
            payment,
            request=request,
            estimator=type(self).__name__,
            chosen_privately=tuple(sorted(plan.choices)),
            schema=schema,
            budget=budget,
            drawn=drawn,
            without_range=without_range,
        )
        self.guarantee_, self.law_, self.n_samples_ = release.guarantee, release.origin.law, release.n_rows
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.asarray(moments.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.scale_, self.norm_bound_ = release.scale, release.origin.rows.row_norm
        self._interpret(release)
        return self

    def _interpret(self, release: Release) -> None:
        """Set the fitted attributes to what the release reads of itself."""
        raise NotImplementedError

    def _forget_collected(self) -> None:
        for name in ("_ring", "_collected", "_collected_schema"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> Any:
        # What pickle, joblib and copy ask for. scikit-learn's clone does not: it makes a new one of the parameters.
        if "_collected" in self.__dict__ or "_ring" in self.__dict__:
            raise InvalidDataError(
                f"This {type(self).__name__} holds private sums from partial_fit and cannot be pickled or copied; call "
                "fit_moments first, or fit."
            )
        return super().__getstate__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # noise is the point
        return tags
