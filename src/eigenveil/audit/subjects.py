"""Subjects of an audit: mechanisms, local protocols, estimators and privacy units, each with the epsilon it claims."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..accounting.calibration import guaranteed_epsilon, implied_epsilon
from ..errors import InvalidParameterError, NoiseWarning, one_of
from ..guarantee import Adjacency, Guarantee
from ..local.protocol import ID_BYTES, LocalProtocol, mechanism_of
from ..mechanisms.base import CentralMechanism, Mechanism
from ..mechanisms.local import LOCAL_MECHANISMS
from ..mechanisms.table import MECHANISMS
from ..numerics import FloatArray, IntArray
from .lower_bound import features
from .neighbours import (
    Neighbours,
    added_row_neighbours,
    estimator_neighbours,
    one_row_neighbours,
    random_neighbours,
    tied_neighbours,
)


def mechanism_claims(mechanism: Mechanism, delta: float) -> dict[str, float]:
    """Return the epsilon of a mechanism at a delta, by its privacy curve and by the paper behind it if that differs.

    Examples
    --------
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> mechanism_claims(MECHANISMS["laplace"](epsilon=1.0, n_features=2, calibration="paper"), 0.0)
    {'guarantee': 0.55901..., 'published': 1.0}
    """
    return {**guarantee_claims(mechanism.guarantee(), delta), "guarantee": mechanism.epsilon_at(delta)}


def guarantee_claims(guarantee: Guarantee, delta: float) -> dict[str, float]:
    """Return the epsilon of a guarantee at a delta, and that of the paper behind it if the paper claims another."""
    published = {} if guarantee.claimed is None else {"published": implied_epsilon(*guarantee.claimed, delta)}
    return {"guarantee": guaranteed_epsilon(guarantee, delta), **published}


class LocalSubject:
    """A local protocol, audited by single reports on integer rows that the audit makes up.

    Rows are in units of the norm bound; shift and scale, which are public, play no part.

    Parameters
    ----------
    protocol : LocalProtocol
    """

    def __init__(self, protocol: LocalProtocol) -> None:
        self.protocol = protocol
        self.name: str = f"local:{protocol.mechanism}"

    def parameters(self) -> dict[str, Any]:
        """Return the fields of the protocol."""
        kind = type(mechanism_of(self.protocol))
        return {**asdict(self.protocol), "class": f"{kind.__module__}.{kind.__qualname__}"}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return the epsilon of one report at this delta, and that of the paper."""
        return mechanism_claims(mechanism_of(self.protocol), delta)

    def neighbours(self) -> Sequence[Neighbours]:
        """Return tables of a single row, of norm 1 or 0."""
        return one_row_neighbours(self.protocol.n_features)

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Make n reports of the row and return their log-likelihood ratios, or their features where not known."""
        mechanism = mechanism_of(self.protocol)
        rows = [data.integer_rows(which, mechanism.row_bits)[:1] for which in (0, 1)]
        ids = np.frombuffer(generator.bytes(ID_BYTES * n), dtype=np.uint8).reshape(n, ID_BYTES)
        payloads = mechanism.perturb(np.repeat(rows[side], n, axis=0), ids, generator)
        first, second = (mechanism.log_likelihood(payloads, ids, row[0]) for row in rows)
        if first is not None and second is not None:
            return first - second
        folded = [mechanism.fold(payloads[i : i + 1], ids[i : i + 1]) for i in range(n)]
        sums, ones = (np.array(part, dtype=np.float64) for part in zip(*folded, strict=True))
        return features({"sums": sums, "ones": ones})


# Zero rows under add/remove, times epsilon: so many that the noisy count is hardly ever cut off at one.
_BASE_ROWS = 120
_BITS = 16
# Entries of the matrices that are held at a time.
_AT_ONCE = 2**22
LOCAL = "local:"
"""Stands before the name of a local mechanism."""


@runtime_checkable
class Subject(Protocol):
    """Interface of everything that can be audited."""

    name: str

    def parameters(self) -> dict[str, Any]:
        """Return public parameters in JSON types, for the report."""

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return the epsilons that are claimed at `delta`, by who claims them; infinity where nothing is."""

    def neighbours(self) -> Sequence[Neighbours]:
        """Return the neighbouring data sets to try."""

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Run the code n times on D (side 0) or D' (side 1) and return n numbers, or n rows of features to learn from.

        An infinite number means: impossible on the other data set.
        """


class MechanismSubject:
    """A central mechanism: its own sampling code, on integer second moments that the audit makes up.

    Parameters
    ----------
    mechanism : CentralMechanism
        Of the table or of one's own: only the object is asked.
    n_random : int
        Random neighbours to search beside the known ones.
    learned : bool
        Learn the statistic from the draws even where the likelihood is known.
    """

    def __init__(self, mechanism: CentralMechanism, *, n_random: int = 2, learned: bool = False) -> None:
        self.mechanism = mechanism
        self.name: str = mechanism.name
        self.n_random = n_random
        self.learned = learned

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism and of the search."""
        kind = f"{type(self.mechanism).__module__}.{type(self.mechanism).__qualname__}"
        searched = {"n_random": self.n_random, "learned": self.learned}
        return {**self.mechanism.parameters(), "class": kind, **searched}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return the epsilon of the mechanism at this delta, and that of the paper."""
        return mechanism_claims(self.mechanism, delta)

    def neighbours(self) -> Sequence[Neighbours]:
        """Return the worst neighbours known for a mechanism of this kind, and a few random ones."""
        d, adjacency, strength = self.mechanism.n_features, self.mechanism.adjacency, self.mechanism.strength
        known = tied_neighbours(d, strength, adjacency) if strength is not None and d > 1 else []
        if adjacency is Adjacency.REPLACE_ONE:
            known += one_row_neighbours(d)
        else:
            known += added_row_neighbours(d, max(2, round(_BASE_ROWS / self.mechanism.epsilon)))
        # The random ones are public and the same in every run, so that an audit can be repeated.
        return known + random_neighbours(d, adjacency, self.n_random, np.random.default_rng(d))

    def collected(self, data: Neighbours) -> tuple[tuple[IntArray, IntArray], tuple[int, int], int]:
        """Return the Gram matrices of both tables, their numbers of rows, and the largest trace of one row."""
        grams = []
        for side in (0, 1):
            integers = data.integer_rows(side, _BITS).astype(np.int64)
            grams.append(integers.T @ integers)
            grams[side].flags.writeable = False  # a mechanism under audit may read it and not change it
        return (grams[0], grams[1]), (len(data.first), len(data.second)), 4**_BITS

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n releases and return their log-likelihood ratios, or their features where these are not known."""
        grams, sizes, grid = self.collected(data)
        self.mechanism.check_grid(grid)
        units = self.mechanism.units(grid, 1 / grid)
        parts = []
        # Wide matrices are drawn a few at a time.
        at_once = max(1, _AT_ONCE // self.mechanism.n_features**2)
        for start in range(0, n, at_once):
            count = min(at_once, n - start)
            integers = _stacked([self.mechanism.draw(grams[side], grid, sizes[side], generator) for _ in range(count)])
            values = {name: stack * units[name] for name, stack in integers.items()}
            densities = [
                None if self.learned else self.mechanism.log_likelihood(values, gram / grid, size)
                for gram, size in zip(grams, sizes, strict=True)
            ]
            first, second = densities
            if first is None or second is None:
                parts.append(features(values))
                continue
            with np.errstate(invalid="ignore"):
                ratio = first - second
            # Rounding may make an output impossible on both.
            parts.append(np.where(np.isnan(ratio), 0.0, ratio))
        return np.concatenate(parts)


def _stacked(drawn: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.array([one[name] for one in drawn]) for name in drawn[0]}


class EstimatorSubject:
    """A whole estimator: fitted on neighbouring tables, bounds and means included.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted, with `get_params`, `fit` and `plan`; it is made anew for every fit. Its claim is what its plan says
        that a fit will spend, and what is seen of a fit are the integers of its `release_`, its bound, scale and mean.
    neighbours : sequence of Neighbours, optional
        Tables in the units of the estimator's own bounds; by default small tables around norm 1, with a row turned, a
        row made longer, and a row made an outlier. With `privacy_units`, `fit` gets them as ``privacy_unit=``.
    """

    def __init__(self, estimator: Any, neighbours: Sequence[Neighbours] | None = None, n_features: int = 2) -> None:
        self.estimator = estimator
        self.name: str = type(estimator).__name__
        self._neighbours = estimator_neighbours(estimator, n_features) if neighbours is None else list(neighbours)

    def parameters(self) -> dict[str, Any]:
        """Return the estimator's parameters as text."""
        return {name: repr(value) for name, value in sorted(self.estimator.get_params().items())}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return the epsilon that the plan of a fit claims at this delta."""
        pair = self._neighbours[0]
        n_rows, n_features = np.unique(pair.owners(0)).size, pair.first.shape[1]
        return guarantee_claims(self.estimator.plan(n_features, n_rows=n_rows).guarantee, delta)

    def neighbours(self) -> Sequence[Neighbours]:
        """Return the given tables, or small ones with one row changed."""
        return self._neighbours

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Fit n times, and return everything that a user of the fitted estimator sees as numbers."""
        whose = {} if data.privacy_units is None else {"privacy_unit": data.owners(side)}
        seen = []
        for _ in range(n):
            # No clone: fits of made-up rows do not count with those of the user's own.
            fresh = type(self.estimator)(**self.estimator.get_params())
            fresh.random_state = generator
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)  # tables this small are mostly noise, on purpose
                fitted = fresh.fit(data.rows(side), **whose)
            attributes = ("norm_bound_", "scale_", "mean_", "location_", "n_samples_")
            told = {name: getattr(fitted, name, None) for name in attributes}
            seen.append(dict(fitted.release_.integers) | {name: one for name, one in told.items() if one is not None})
        return features({name: stack.astype(np.float64) for name, stack in _stacked(seen).items()})


def subject_for(what: Any, parameters: Mapping[str, Any] | None = None) -> Subject:
    """Return a mechanism, a name, a protocol or an estimator as a subject of an audit."""
    if isinstance(what, CentralMechanism):
        return MechanismSubject(what)
    if isinstance(what, LocalProtocol):
        return LocalSubject(what)
    if isinstance(what, str):
        one_of("name", what, names())
        given = dict(parameters or {})
        if what in MECHANISMS:
            return MechanismSubject(MECHANISMS[what](**given))
        return LocalSubject(LocalProtocol(mechanism=what.removeprefix(LOCAL), **given))
    if isinstance(what, Subject):
        return what
    if all(hasattr(what, method) for method in ("fit", "get_params", "plan")):
        return EstimatorSubject(what)
    raise InvalidParameterError(
        "audit needs a mechanism, its name with parameters, a local protocol, an estimator or a Subject."
    )


def names() -> tuple[str, ...]:
    """Return the names of all mechanisms that `audit` knows, the local ones with "local:" before them."""
    return (*MECHANISMS, *(f"{LOCAL}{name}" for name in LOCAL_MECHANISMS))


Collect = Callable[[FloatArray, IntArray], tuple[IntArray, int, int]]
"""From rows, and whose each of them is, to the Gram matrix, the largest trace that a person may add to it, and n."""

ROWS_OF_ONE = 50
"""Rows of the person who is replaced."""


def unit_neighbours(d: int, adjacency: Adjacency, n_rows: int = ROWS_OF_ONE, n_others: int = 3) -> list[Neighbours]:
    """Return tables in which one person with many rows is replaced by another, or is added.

    Their rows are of norm 1, or so long that whoever shortens them one by one leaves each at the bound: the sum of
    squares then grows with the number of rows, and so does what a release reveals about that person.

    Parameters
    ----------
    d : int
        Number of features.
    adjacency : Adjacency
    n_rows : int
        Rows of the person who is replaced.
    n_others : int
        Privacy units beside them, of one row each.

    Examples
    --------
    >>> pair = unit_neighbours(2, Adjacency.REPLACE_ONE)[0]
    >>> pair.name, [np.unique(one).size for one in pair.privacy_units]
    ('a person of 50 rows turned', [4, 4])
    """
    others, one, last = np.zeros((n_others, d)), np.eye(d)[:1], np.eye(d)[-1:]
    many, long = np.repeat(one, n_rows, axis=0), 1e3 * np.repeat(one, n_rows, axis=0)
    around = np.random.default_rng(d).standard_normal((n_rows, d))
    around *= 1e3 / np.linalg.norm(around, axis=1, keepdims=True)

    def pair(name: str, first: FloatArray, second: FloatArray) -> Neighbours:
        def owners(own: FloatArray) -> IntArray:
            return np.repeat(np.arange(n_others + 1), [1] * n_others + [len(own)])

        tables = np.vstack([others, first]), np.vstack([others, second])
        return Neighbours(name, *tables, privacy_units=(owners(first), owners(second)))

    if adjacency is Adjacency.REPLACE_ONE:
        return [
            pair(f"a person of {n_rows} rows turned", many, many @ np.roll(np.eye(d), 1, axis=1)),
            pair(f"a person of {n_rows} long rows turned", long, long @ np.roll(np.eye(d), 1, axis=1)),
            pair(f"a person of {n_rows} rows all around replaced by one of one row", around, 0 * last),
        ]
    nobody = np.zeros((0, d))
    return [
        pair(f"a person of {n_rows} rows added", nobody, many),
        pair(f"a person of {n_rows} long rows added", nobody, long),
        pair(f"a person of {n_rows} zero rows added, whom only a count shows", nobody, 0 * many),
    ]


class UnitSubject(MechanismSubject):
    """A central mechanism behind the code that makes one statistic of all rows of all privacy units.

    Parameters
    ----------
    mechanism : CentralMechanism
    collect : callable
        Takes rows and whose each of them is, as integers; returns the int64 Gram matrix, the largest trace that one
        person may add to it, and n. It is the code under audit: an audit has no way to rows and moments of its own.
    """

    def __init__(self, mechanism: CentralMechanism, collect: Collect) -> None:
        super().__init__(mechanism)
        self.collect = collect

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism, and the code before it."""
        return {**super().parameters(), "collect": getattr(self.collect, "__qualname__", repr(self.collect))}

    def neighbours(self) -> Sequence[Neighbours]:
        """Return tables in which one person with many rows is replaced or added."""
        return unit_neighbours(self.mechanism.n_features, self.mechanism.adjacency)

    def collected(self, data: Neighbours) -> tuple[tuple[IntArray, IntArray], tuple[int, int], int]:
        """Return the Gram matrices of both tables, their numbers of units, and the largest trace of one unit."""
        (first, grid, n_first), (second, _, n_second) = (
            self.collect(data.rows(side), data.owners(side)) for side in (0, 1)
        )
        return (first, second), (n_first, n_second), grid
