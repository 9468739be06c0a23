"""What the estimators share: from parameters and rows to one paid release."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from .. import gate
from ..accounting.calibration import decimal_below, exact
from ..accounting.ledger import PrivacyLedger
from ..errors import InvalidDataError, InvalidParameterError, integer_between, one_of, positive_number
from ..errors import probability_below_one as probability
from ..guarantee import Guarantee, Numerics, Relation
from ..laws import LAWS, CentralLaw, choose_law
from ..moments import SecondMoments
from ..origin import Request
from ..randomness import generator_from
from ..releases import Release
from ..row_rule import ROW_RULES, RowRule
from ..rows.differences import PairDirections
from ..sources import open_source
from .collecting import collected_moments, found_privately, row_sizes
from .preparation import RowPreparation, public_preparation, rows_pass_once
from .spend_plan import SpendPlan, asked_by, laws_by_rows


class MomentsEstimator(BaseEstimator):
    """Base of the estimators that work on one released second moment. Not used by itself."""

    _needs: ClassVar[str] = "matrix"
    """What the release must hold: "directions" will do, a "matrix", or a matrix plus "noise" of a known law."""
    _pairs: PairDirections

    def __init__(
        self,
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
        self.epsilon = epsilon
        self.delta = delta
        self.rows = rows
        self.standardize = standardize
        self.center = center
        self.norm_bound = norm_bound
        self.bounds = bounds
        self.feature_scale = feature_scale
        self.law = law
        self.law_options = law_options
        self.relation = relation
        self.ledger = ledger
        self.random_state = random_state

    def plan(self, n_features: int, n_rows: int | None = None) -> SpendPlan:
        """Return what a fit will spend, on what, by which law, from public numbers alone; nothing is spent.

        Everything that can be refused without rows is refused here.

        Parameters
        ----------
        n_features : int
            Width of a row.
        n_rows : int, optional
            Number of rows, where it is known and public; without it the plan tells how the law depends on it.
        """
        d = integer_between("n_features", n_features, 1)
        preparation = self._preparation(d)
        relation = Relation.parse(self.relation)
        costs = preparation.costs(exact(positive_number("epsilon", self.epsilon)))
        choices = {name: Guarantee(decimal_below(cost), 0.0, relation, Numerics.EXACT) for name, cost in costs.items()}
        self._request(d, None)
        return self._planned(d, preparation, preparation.bound.rule, choices, n_rows)

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

    @available_if(rows_pass_once)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only with a public `norm_bound` or `bounds` (or pairs), since a private one takes another pass.
        """
        del y
        Relation.parse(self.relation)
        source = open_source(X)
        collected: SecondMoments | None = getattr(self, "_collected", None)
        if collected is not None and source.n_features != collected.n_features:
            raise InvalidDataError(
                f"X has {source.n_features} features, but {type(self).__name__} is expecting "
                f"{collected.n_features} features as input."
            )
        # Collected apart and added at the end: a call that fails midway has added nothing, so calling it again
        # cannot count a row twice, which would double what one person changes.
        preparation = self._preparation(source.n_features)
        pairs = PairDirections(preparation.scale) if collected is None else self._pairs.branch()
        added = collected_moments(source, preparation, pairs)
        self._collected = added if collected is None else collected + added
        self._pairs = pairs
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def fit_moments(self, moments: SecondMoments | None = None) -> Self:
        """Release from moments collected elsewhere, or by `partial_fit`; spends the budget like `fit`."""
        collected = moments is None
        moments = self.__dict__.get("_collected") if moments is None else moments
        if moments is None:
            raise InvalidDataError("There are no moments yet; give some, or call partial_fit first.")
        request = self._request(moments.n_features, moments.feature_names or ())
        # How the rows were made is a fact about the moments, which no parameter can change any more.
        plan = self._planned(moments.n_features, None, moments.bound.rule, {}, moments.n_rows)
        generator = generator_from(self.random_state)
        payment = self._checked_and_paid(plan, moments, generator)
        if collected:  # they are paid for once; a refused spend leaves them
            self._forget_collected()
        return self._release(plan, moments, request, generator, payment)

    def _preparation(self, d: int) -> RowPreparation:
        return public_preparation(
            d,
            one_of("rows", self.rows, ROW_RULES),
            norm_bound=self.norm_bound,
            bounds=self.bounds,
            feature_scale=self.feature_scale,
            standardize=self.standardize,
            center=self.center,
        )

    def _planned(
        self,
        d: int,
        preparation: RowPreparation | None,
        rule: RowRule,
        choices: dict[str, Guarantee],
        n_rows: int | None,
    ) -> SpendPlan:
        centred = rule.constant is not None
        relation, delta = Relation.parse(self.relation), probability("delta", self.delta)
        spent = sum((exact(part.epsilon) for part in choices.values()), Fraction(0))
        epsilon = decimal_below(exact(positive_number("epsilon", self.epsilon)) - spent)
        name = one_of("law", self.law, ("auto", *LAWS))
        shared: dict[str, Any] = {"epsilon": epsilon, "n_features": d + centred, "relation": relation}

        def choose(rows: int) -> str:
            wanted = None if centred else self._directions_wanted()
            return choose_law(n_rows=rows, n_components=wanted, delta=delta, **shared)

        def make(chosen: str) -> CentralLaw:
            # A pure law that wins against the Gaussian leaves delta unspent.
            used = delta if name != "auto" or LAWS[chosen].needs_delta else 0.0
            k = None if centred else self._directions_released(d)
            law = LAWS[chosen](delta=used, n_components=k, **shared, **(self.law_options or {}))
            self._check_law(law)
            gate.check_rule(law, rule)
            return law

        self._check_rows(rule)
        laws = laws_by_rows(choose, make, n_rows) if name == "auto" else ((0, make(name)),)
        return SpendPlan(d, preparation, choices, laws, asked_by(self))

    def _check_rows(self, rule: RowRule) -> None:
        """Refuse rows that this estimator has no use for; asked before every spend."""

    def _check_law(self, law: CentralLaw) -> None:
        """Refuse a law that releases too little for this estimator; asked before every spend."""
        if self._needs == "noise" and not law.adds_noise:
            raise InvalidParameterError(f"{type(self).__name__} needs a law that adds noise; choose another law.")
        if self._needs == "matrix" and law.releases == "subspace":
            raise InvalidParameterError(f"{law.name} releases no matrix; choose another law.")

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None) -> Request:
        """Return what is asked for, or refuse it; asked before every spend. A plan knows no names yet: None."""
        del n_features, feature_names
        return Request()

    def _directions_wanted(self) -> int | None:
        """Return how many directions would do; None where the matrix is needed."""
        return None

    def _directions_released(self, d: int) -> int | None:
        """Return how many directions a law that draws them should draw; all by default."""
        del d
        return None

    # The fit.

    def _fit_source(self, X: Any, plan: SpendPlan | None = None) -> Self:
        self._forget_collected()
        source = open_source(X)
        plan = self.plan(source.n_features) if plan is None else plan
        plan.check_made_for(asked_by(self))
        preparation = plan.preparation_for(source.n_features)
        request = self._request(source.n_features, source.feature_names or ())
        generator = generator_from(self.random_state)
        payment = None
        if plan.choices:
            counts = row_sizes(source, preparation)
            self._refuse_empty(counts.n_rows)
            preparation.check_choices()
            SecondMoments(preparation.bound, source.n_features).check_capacity(counts.n_rows)
            payment = self._pay(plan, plan.law(counts.n_rows), generator)
            preparation = found_privately(source, preparation, counts, plan.choices, generator)
        moments = collected_moments(source, preparation, PairDirections(preparation.scale))
        if payment is None:
            self._refuse_empty(moments.n_rows)
            payment = self._checked_and_paid(plan, moments, generator)
        return self._release(plan, moments, request, generator, payment)

    def _refuse_empty(self, n_rows: int) -> None:
        # Where the number of rows is private, so is whether there are any.
        if n_rows == 0 and Relation.parse(self.relation) is Relation.REPLACE:
            raise InvalidDataError("The data have too few rows; give at least one, and two for pairs.")

    def _pay(self, plan: SpendPlan, law: CentralLaw, generator: np.random.Generator) -> gate.Payment:
        """Record the whole fit in the ledger, once, before the first draw."""
        return gate.pay(law, plan.guarantee_of(law), generator, self.ledger, f"{type(self).__name__}.fit")

    def _checked_and_paid(self, plan: SpendPlan, moments: SecondMoments, generator: Any) -> gate.Payment:
        law = plan.law(moments.n_rows)
        gate.check(law, moments)
        return self._pay(plan, law, generator)

    def _release(
        self,
        plan: SpendPlan,
        moments: SecondMoments,
        request: Request,
        generator: np.random.Generator,
        payment: gate.Payment,
    ) -> Self:
        self.release_ = release = gate.draw(
            moments,
            generator,
            payment,
            request=request,
            estimator=type(self).__name__,
            chosen_privately=tuple(sorted(plan.choices)),
        )
        self.guarantee_, self.law_ = release.guarantee, release.origin.law
        pairs = release.origin.rows.rows == "pairs"
        self.n_samples_ = None if release.n_rows is None else release.n_rows * (2 if pairs else 1)
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.asarray(moments.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.scale_, self.norm_bound_ = release.scale, release.origin.rows.norm
        self._interpret(release)
        return self

    def _interpret(self, release: Release) -> None:
        """Set the fitted attributes to what the release reads of itself."""
        raise NotImplementedError

    def _forget_collected(self) -> None:
        for name in ("_pairs", "_collected"):
            self.__dict__.pop(name, None)

    def __getstate__(self) -> Any:
        # What pickle, joblib and copy ask for. scikit-learn's clone does not: it makes a new one of the parameters.
        if "_collected" in self.__dict__ or "_pairs" in self.__dict__:
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
