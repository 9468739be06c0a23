"""What the estimators share: from parameters and rows to one paid release."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from ..accounting.calibration import decimal_below, exact
from ..accounting.composition import compose
from ..accounting.ledger import PrivacyLedger
from ..errors import (
    InvalidDataError,
    InvalidParameterError,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Guarantee, Numerics, Relation
from ..rows.norm_counts import LADDER, RowSizes, scaled_rows
from ..mechanisms import MECHANISMS, Mechanism, choose_mechanism
from ..mechanisms.selection import choose_magnitudes
from ..moments import SecondMoments
from ..rows.differences import PairDirections
from ..randomness import generator_from, is_secure
from ..release import Release
from ..rows import RowBound
from ..sources import collect, open_source
from ..sources.progress import tracked_batches

FloatArray = NDArray[np.float64]

NORM_SHARE = Fraction(1, 10)
"""Share of epsilon for a privately chosen norm bound."""
STANDARDIZE_SHARE = Fraction(1, 5)
"""Share of epsilon for privately chosen feature scales."""
NORM_QUANTILE = 0.8
"""The quantile of row norms that a private bound aims at."""
SCALE_QUANTILE = 0.7
"""The quantile of a feature's size that a private scale aims at: about one standard deviation for a Gaussian."""


@dataclass
class _Preparation:
    """Where the rows are mapped to, and what finding that out will cost."""

    shift: FloatArray | None
    scale: FloatArray | None
    norm: float | None
    standardize: bool

    def cost(self, epsilon: Fraction) -> dict[str, Fraction]:
        shares = {"feature_scale": STANDARDIZE_SHARE if self.standardize else Fraction(0)}
        shares["norm_bound"] = NORM_SHARE if self.norm is None else Fraction(0)
        return {name: epsilon * share for name, share in shares.items() if share}


def _rows_pass_once(estimator: Any) -> bool:
    """Return whether nothing about the rows must be found out before they are collected."""
    public = estimator.rows == "pairs" or estimator.norm_bound is not None or estimator.bounds is not None
    if not public or estimator.standardize:
        raise AttributeError("partial_fit needs a public norm_bound or bounds and no standardize.")
    return True


class MomentsEstimator(BaseEstimator):
    """Base of the estimators that work on one released second moment. Not used by itself."""

    _wants_matrix = True
    _pairs: PairDirections

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        rows: str = "clip",
        norm_bound: float | None = None,
        bounds: tuple[Any, Any] | None = None,
        feature_scale: float | Sequence[float] | None = None,
        standardize: bool = False,
        center: bool = False,
        mechanism: str = "auto",
        relation: str = "replace",
        mechanism_options: dict[str, Any] | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rows = rows
        self.norm_bound = norm_bound
        self.bounds = bounds
        self.feature_scale = feature_scale
        self.standardize = standardize
        self.center = center
        self.mechanism = mechanism
        self.relation = relation
        self.mechanism_options = mechanism_options
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit from rows and spend the budget; a second call spends it again.

        Parameters
        ----------
        X : array, sparse matrix, data frame, Dask or Spark collection, path or list of paths
            The private rows; see `eigenveil.sources.open_source`.
        y : ignored
            For scikit-learn's pipelines.
        """
        del y
        return self._fit_source(X)

    @available_if(_rows_pass_once)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Collect rows and spend nothing; `fit_moments()` then draws the release and spends.

        There only with a public `norm_bound` or `bounds` (or pairs), since a private one takes another pass.
        """
        del y
        self._relation()
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
        pairs = PairDirections() if collected is None else copy(self._pairs)
        added = self._moments(source, preparation, pairs)
        self._collected = added if collected is None else collected + added
        self._pairs = pairs
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        return self

    def fit_moments(self, moments: SecondMoments | None = None) -> Self:
        """Release from moments collected elsewhere, or by `partial_fit`; spends the budget like `fit`."""
        if moments is None:
            moments = self.__dict__.pop("_collected", None)
            if moments is None:
                raise InvalidDataError("There are no moments yet; give some, or call partial_fit first.")
        return self._release(moments, {}, generator_from(self.random_state))

    # From rows to moments.

    def _fit_source(self, X: Any) -> Self:
        self.__dict__.pop("_collected", None)
        self._relation()
        source = open_source(X)
        preparation = self._preparation(source.n_features)
        costs = preparation.cost(exact(positive_number("epsilon", self.epsilon)))
        generator = generator_from(self.random_state)
        parts: dict[str, Guarantee] = {}
        if costs:
            parts = self._prepare(source, preparation, costs, generator)
        moments = self._moments(source, preparation, PairDirections())
        if moments.n_rows == 0:
            raise InvalidDataError("The data have too few rows; give at least one, and two for pairs.")
        return self._release(moments, parts, generator)

    def _moments(self, source: Any, preparation: _Preparation, pairs: PairDirections) -> SecondMoments:
        make = partial(SecondMoments, self._row_bound(preparation), source.n_features, source.feature_names)
        if self._in_pairs():
            return make().update_from(_directions(source, preparation.scale, pairs))
        moments: SecondMoments = collect(source, make)
        return moments

    def _prepare(
        self, source: Any, preparation: _Preparation, costs: dict[str, Fraction], generator: np.random.Generator
    ) -> dict[str, Guarantee]:
        """Choose scales and norm privately. The whole budget is recorded before the first draw."""
        d = source.n_features
        features = d if preparation.standardize else None
        counts = collect(source, partial(RowSizes, preparation.shift, preparation.scale, features))
        probe = SecondMoments(self._row_bound(replace(preparation, norm=1.0)), d, source.feature_names)
        probe.check_capacity(counts.n_rows)
        probe.n_rows = counts.n_rows
        parts = {
            name: Guarantee(decimal_below(cost), 0.0, self._relation(), Numerics.EXACT) for name, cost in costs.items()
        }
        self._mechanism(probe, parts).check(probe)
        self._spend(probe, parts, generator)
        if preparation.standardize:
            sizes = choose_magnitudes(counts, SCALE_QUANTILE, costs["feature_scale"], generator)
            # A feature that is mostly zero has no size to divide by; it must not be blown up.
            sizes = np.where(sizes > LADDER[0], sizes, sizes.max())
            preparation.scale = 1 / sizes if preparation.scale is None else preparation.scale / sizes
            if preparation.norm is None:
                counts = collect(source, partial(RowSizes, preparation.shift, preparation.scale), progress=False)
        if preparation.norm is None:
            preparation.norm = float(choose_magnitudes(counts, NORM_QUANTILE, costs["norm_bound"], generator)[0])
        return parts

    # Parameters.

    def _in_pairs(self) -> bool:
        return one_of("rows", self.rows, ("clip", "pairs")) == "pairs"

    def _relation(self) -> Relation:
        relation = Relation.parse(self.relation)
        if self._in_pairs():
            if relation is not Relation.REPLACE:
                raise InvalidParameterError(
                    "rows='pairs' needs relation='replace', since an added row would shift every later pair."
                )
            if self.center or self.standardize or self.norm_bound is not None or self.bounds is not None:
                raise InvalidParameterError(
                    "rows='pairs' needs no norm_bound, bounds, center or standardize; leave them out."
                )
        return relation

    def _preparation(self, d: int) -> _Preparation:
        """Read the public bounds for rows of d features."""
        if self._in_pairs():
            return _Preparation(None, _feature_scale(self.feature_scale, d), 1.0, False)
        norm = None if self.norm_bound is None else positive_number("norm_bound", self.norm_bound)
        if self.bounds is None:
            return _Preparation(None, _feature_scale(self.feature_scale, d), norm, bool(self.standardize))
        if self.feature_scale is not None or self.standardize:
            raise InvalidParameterError("bounds already scale the features; leave out feature_scale and standardize.")
        low, high = _bounds(self.bounds, d)
        # Features map to [-1, 1], so no row is longer than sqrt(d).
        return _Preparation((low + high) / 2, 2 / (high - low), d**0.5 if norm is None else norm, False)

    def _row_bound(self, preparation: _Preparation) -> RowBound:
        norm = 1.0 if preparation.norm is None else preparation.norm
        scaled_later = preparation.scale is not None and not self._in_pairs()  # pairs are scaled before they form
        return RowBound(
            norm,
            shift=None if preparation.shift is None else tuple(preparation.shift),
            scale=tuple(preparation.scale) if scaled_later and preparation.scale is not None else None,
            constant=norm / 2 if self.center else None,
        )

    # From moments to a release.

    def _mechanism(self, moments: SecondMoments, parts: dict[str, Guarantee]) -> Mechanism:
        relation = self._relation()
        epsilon = exact(positive_number("epsilon", self.epsilon)) - sum(exact(part.epsilon) for part in parts.values())
        delta = probability_below_one("delta", self.delta)
        name = one_of("mechanism", self.mechanism, ("auto", *MECHANISMS))
        if name == "auto":
            name = choose_mechanism(
                n_rows=moments.n_rows,
                n_features=moments.width,
                n_components=self._directions_wanted(),
                epsilon=float(epsilon),
                delta=delta,
                relation=relation,
            )
            # A pure mechanism that wins against the Gaussian leaves delta unspent.
            delta = delta if name == "gaussian" else 0.0
        mechanism = MECHANISMS[name](
            epsilon=decimal_below(epsilon),
            delta=delta,
            n_features=moments.width,
            n_components=self._released_components(moments, name),
            relation=relation,
            **(self.mechanism_options or {}),
        )
        if name in ("ppca", "random_projection") and (self._wants_matrix or self.center):
            raise InvalidParameterError(f"{name} releases no matrix; choose another mechanism.")
        return mechanism

    def _directions_wanted(self) -> int | None:
        """Return how many directions would do; None where the matrix is needed."""
        return None

    def _released_components(self, moments: SecondMoments, name: str) -> int | None:
        del moments, name
        return None

    def _spend(self, moments: SecondMoments, parts: dict[str, Guarantee], generator: np.random.Generator) -> Guarantee:
        """Record the whole fit in the ledger, once, and return its guarantee."""
        total = compose([*parts.values(), self._mechanism(moments, parts).guarantee()])
        if not is_secure(generator):
            total = total.marked_reproducible()
        # None too is set: a fit that broke off after it was paid for must not leave its entry to the next.
        self._entry = None if self.ledger is None else self.ledger.spend(total, f"{type(self).__name__}.fit").entry
        return total

    def _release(self, moments: SecondMoments, parts: dict[str, Guarantee], generator: np.random.Generator) -> Self:
        mechanism = self._mechanism(moments, parts)
        mechanism.check(moments)
        if parts:  # paid for in _prepare, before the first draw
            total = compose([*parts.values(), mechanism.guarantee()])
            total = total if is_secure(generator) else total.marked_reproducible()
        else:
            total = self._spend(moments, parts, generator)
        drawn = mechanism.release(moments, generator)
        provenance = {
            **drawn.provenance,
            "ledger_entry": self.__dict__.pop("_entry", None),
            "estimator": type(self).__name__,
            "rows": self.rows,
            "chosen_privately": sorted(parts),
        }
        self.release_ = Release(drawn.arrays, total, provenance)
        self.guarantee_, self.mechanism_ = total, mechanism.name
        n_rows = drawn.provenance["n_rows"]
        self.n_samples_ = None if n_rows is None else int(n_rows) * (2 if self._in_pairs() else 1)
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.asarray(moments.feature_names, dtype=object)
        bound, d = moments.bound, moments.n_features
        scale = _feature_scale(self.feature_scale, d) if self._in_pairs() else bound.scale
        self.scale_ = np.ones(d) if scale is None else np.asarray(scale)
        self.norm_bound_ = bound.norm
        self._interpret(mechanism, bound)
        return self

    def _interpret(self, mechanism: Mechanism, bound: RowBound) -> None:
        """Set the fitted attributes from `release_`, public numbers and nothing else."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # noise is the point
        return tags


def _directions(source: Any, scale: FloatArray | None, pairs: PairDirections) -> Iterator[FloatArray]:
    for batch in tracked_batches(source):
        directions = pairs.push(scaled_rows(batch, None, scale))
        if directions.shape[0]:
            yield directions


def _feature_scale(feature_scale: Any, d: int) -> FloatArray | None:
    if feature_scale is None:
        return None
    sizes = np.atleast_1d(np.asarray(feature_scale, dtype=np.float64))
    if not (np.isfinite(sizes).all() and (sizes > 0).all()) or sizes.size not in (1, d):
        raise InvalidParameterError("feature_scale must be one number above 0, or one for every feature.")
    return np.asarray(1 / np.broadcast_to(sizes, d))


def _bounds(bounds: Any, d: int) -> tuple[FloatArray, FloatArray]:
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), d) for side in bounds)
    except (TypeError, ValueError):
        raise InvalidParameterError("bounds must be (low, high), each one number or one for every feature.") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InvalidParameterError("bounds must be finite, with low below high for every feature.")
    return low, high
