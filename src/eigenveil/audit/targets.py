"""What can be audited: anything that names its pairs of neighbours and draws scores on them."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, NoiseWarning, one_of
from ..guarantee import Relation
from ..local.protocol import LOCAL_MECHANISMS, LocalProtocol
from ..mechanisms import MECHANISMS, AdditiveMechanism, Mechanism
from ..moments import SecondMoments
from ..randomness import secure_generator
from ..rows import RowBound
from .claims import mechanism_claims
from .likelihood import Outputs, Statistic, features, log_likelihood_ratio
from .local import LocalTarget
from .pairs import Pair, added_row_pairs, one_row_pairs, random_pairs, tied_pairs

FloatArray = NDArray[np.float64]

# Zero rows under add/remove, times epsilon: so many that the noisy count is hardly ever cut off at one.
_BASE_ROWS = 120
PEER_NAMES = ("diffprivlib", "opendp")


@runtime_checkable
class Target(Protocol):
    """The small protocol of what can be audited."""

    name: str

    def parameters(self) -> dict[str, Any]:
        """Return public parameters in JSON types, for the report and the checkpoint."""

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return the epsilons that are stated at `delta`, by who states them; infinity where nothing is."""

    def pairs(self) -> Sequence[Pair]:
        """Return the pairs of neighbours to try."""

    def scores(self, pair: Pair, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Run the code n times on D (side 0) or D' (side 1) and return n numbers, or n rows of features to learn from.

        An infinite number means: impossible on the other data set.
        """


class MechanismTarget:
    """A central mechanism: its own sampling code, on moments of neighbouring tables.

    Parameters
    ----------
    mechanism : Mechanism
    n_random : int
        Random pairs to search beside the known ones.
    learned : bool
        Learn the statistic from the draws even where the likelihood is known.
    """

    def __init__(self, mechanism: Mechanism, *, n_random: int = 2, learned: bool = False) -> None:
        self.mechanism = mechanism
        self.name = mechanism.name
        self.n_random = n_random
        self.learned = learned

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism."""
        kind = f"{type(self.mechanism).__module__}.{type(self.mechanism).__qualname__}"
        extra = {"class": kind, "n_random": self.n_random, "learned": self.learned}
        return {**self.mechanism.parameters(), **extra}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return what the guarantee states at this delta, and what the paper does."""
        return mechanism_claims(self.mechanism, delta)

    def pairs(self) -> Sequence[Pair]:
        """Return the worst pairs known for this kind of mechanism, and a few random ones."""
        d, relation, epsilon = self.mechanism.n_features, self.mechanism.relation, self.mechanism.epsilon
        known: list[Pair] = []
        if not isinstance(self.mechanism, AdditiveMechanism) and d > 1:
            cost = 2 if relation is Relation.REPLACE else 1
            known = tied_pairs(d, getattr(self.mechanism, "strength", epsilon / cost), relation)
        if relation is Relation.REPLACE:
            known += one_row_pairs(d)
        else:
            known += added_row_pairs(d, max(2, round(_BASE_ROWS / epsilon)))
        # The random pairs are public and the same in every run, so that an audit can be resumed.
        return known + random_pairs(d, relation, self.n_random, np.random.default_rng(d))

    def scores(self, pair: Pair, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n releases and return their log-likelihood ratios, or their features where these are not known."""
        moments = [SecondMoments(RowBound(1.0), self.mechanism.n_features).update(pair.rows(which)) for which in (0, 1)]
        statistic: Statistic | None = None
        if not self.learned:
            statistic = log_likelihood_ratio(self.mechanism, *moments)
        # `release` without the record around it: the same check and the same draw, which is all that sees data.
        self.mechanism.check(moments[side])
        outputs = stacked([self.mechanism._draw(moments[side], generator) for _ in range(n)])
        return features(outputs) if statistic is None else statistic(outputs)


def stacked(drawn: Sequence[Mapping[str, Any]]) -> Outputs:
    """Return the arrays of many releases, one array a name; what a release does not tell is left out."""
    names = [name for name, value in drawn[0].items() if value is not None]
    return {name: np.array([one[name] for one in drawn], dtype=np.float64) for name in names}


class EstimatorTarget:
    """A whole estimator: fitted on neighbouring tables, bounds and means included.

    Parameters
    ----------
    estimator : scikit-learn estimator
        One of `eigenveil.estimators`, unfitted; it is cloned for every fit.
    pairs : sequence of Pair, optional
        Tables in the units of the estimator's own bounds; by default small tables around norm 1, with a row turned, a
        row made longer, and a row made an outlier.
    """

    def __init__(self, estimator: Any, pairs: Sequence[Pair] | None = None, n_features: int = 2) -> None:
        self.estimator = estimator
        self.name = type(estimator).__name__
        self.n_features = n_features
        self._pairs = None if pairs is None else list(pairs)

    def parameters(self) -> dict[str, Any]:
        """Return the estimator's parameters as text."""
        return {name: repr(value) for name, value in sorted(self.estimator.get_params().items())}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return what the guarantee of a fit states at this delta."""
        from .claims import claims_of

        return claims_of(self._fitted(self.pairs()[0].first, secure_generator()).guarantee_, delta)

    def pairs(self) -> Sequence[Pair]:
        """Return the given pairs, or small tables with one row changed."""
        return estimator_pairs(self.n_features) if self._pairs is None else self._pairs

    def scores(self, pair: Pair, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Fit n times, and return everything that a user of the fitted estimator sees as numbers."""
        return features(stacked([self._seen(pair.rows(side), generator) for _ in range(n)]))

    def _fitted(self, rows: FloatArray, generator: np.random.Generator) -> Any:
        from sklearn.base import clone

        # `clone` copies parameters, and a secure generator refuses to be copied: it is set afterwards.
        estimator = clone(self.estimator)
        estimator.random_state = generator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)  # tables this small are mostly noise, on purpose
            return estimator.fit(rows)

    def _seen(self, rows: FloatArray, generator: np.random.Generator) -> dict[str, Any]:
        fitted = self._fitted(rows, generator)
        seen = dict(fitted.release_.arrays)
        for name in ("norm_bound_", "scale_", "mean_", "location_", "n_samples_"):
            value = getattr(fitted, name, None)
            if value is not None:
                seen[name] = value
        return seen


def estimator_pairs(d: int, n_rows: int = 20) -> list[Pair]:
    """Return tables of rows with norms around 1 and 4, the quantile of a private norm bound on the edge between."""
    base = np.zeros((n_rows, d))
    base[:, 0] = np.where(np.arange(n_rows) < 0.8 * n_rows, 1.0, 4.0)
    base[1::2, 0] *= -1

    def changed(name: str, row: FloatArray) -> Pair:
        other = base.copy()
        other[0] = row
        return Pair(name, base, other)

    first, last = np.eye(d)[0], np.eye(d)[-1]
    return [
        changed("a row turned", last),
        changed("a row made longer", 4 * first),
        changed("a row made an outlier", 1e6 * last),
    ]


def target_for(mechanism: Any, parameters: Mapping[str, Any] | None = None) -> Target:
    """Return the target that an argument of `audit` stands for."""
    if isinstance(mechanism, Mechanism):
        return MechanismTarget(mechanism)
    if isinstance(mechanism, LocalProtocol):
        return LocalTarget(mechanism)
    if isinstance(mechanism, str):
        return named_target(mechanism, dict(parameters or {}))
    if isinstance(mechanism, Target):
        return mechanism
    if hasattr(mechanism, "fit") and hasattr(mechanism, "get_params"):
        return EstimatorTarget(mechanism)
    raise InvalidParameterError(
        "audit needs a mechanism, its name with parameters, a local protocol, an estimator or a Target."
    )


def named_target(name: str, parameters: dict[str, Any]) -> Target:
    """Return the target of a name: a mechanism, "local:" and a local mechanism, or another library."""
    if name in MECHANISMS:
        return MechanismTarget(MECHANISMS[name](**parameters))
    if name.startswith("local:"):
        law = one_of("mechanism", name.removeprefix("local:"), tuple(LOCAL_MECHANISMS))
        return LocalTarget(LocalProtocol(mechanism=law, **parameters))
    if name in PEER_NAMES:
        from .peers import PEERS

        peer: Target = PEERS[name](**parameters)
        return peer
    choices = (*MECHANISMS, *(f"local:{law}" for law in LOCAL_MECHANISMS), *PEER_NAMES)
    one_of("name", name, choices)
    raise AssertionError  # one_of has raised
