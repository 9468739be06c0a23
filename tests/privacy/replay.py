"""Replay: draw once on a table, hand the same drawn values to a neighbouring table, and compare what can be seen.

Noise is added in few places, `MEETINGS`. On the table D they draw as ever, and a `Tape` keeps what was private, what
was public and what was drawn. On D', which differs in one row, they draw nothing: they return what was drawn on D and
keep what was private there. If the proof holds, an observer who got these values cannot tell D from D' by anything
else, so everything else must be the same: which draws there are and in which order, their public parameters, what is
told of the release, features, warnings. And what was private must have moved by no more than the noise is made for.
`differences` says in words what is not so; an empty list is what a test asks for.

What is compared
----------------
1. What a source tells before a row is read: names and number of features, which are truth values or one-hot, whether
   rows come in order, the unit.
2. The encoded rows: all but the changed one are the same to the last bit, in the same order where the source says that
   they come in one.
3. Draws: the same ones, with the same public parameters. No other generator was used.
4. What was private in each: by the norm of its mechanism, and all together by the guarantee of the release. The cost of
   this pair is computed from the scales of the noise, not from the table of sensitivities.
5. The release, guarantee and origin, whatever else the fit has in public, and the warnings.

Refusals
--------
Both tables may be refused, in the same words. One alone may be refused, or both in other words, in one of two cases:
the cell is not of the kind that was declared for its column, so that the table is malformed; or the container itself
has other types for the two tables, which are assumed to be public. The refusal is an error of this package, one
sentence, and comes before anything is drawn. Neither it nor any error that it can be traced to holds the cell, its key
or any other cell.
"""

import contextlib
import dataclasses
import inspect
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr

from eigenveil.errors import EigenveilError
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms import MECHANISMS, choices
from eigenveil.mechanisms.budget import BudgetShare
from eigenveil.mechanisms.choices import CountMechanism
from eigenveil.moments.units import Blocks
from eigenveil.releases.record import Release
from eigenveil.sampling import randomness
from eigenveil.tables.base import EngineSource
from eigenveil.tables.open import open_table
from helpers import assert_one_sentence

# Eigenvalues and roots are computed in floats from integers that are exact.
ROUNDING = 1e-9


# Where private integers meet noise.


@dataclass(frozen=True)
class Cost:
    """What noise costs on one pair of tables: a pure epsilon, the square of a Gaussian mu, and a delta of its own."""

    epsilon: float = 0.0
    mu_squared: float = 0.0
    delta: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    def within(self, epsilon: float, delta: float) -> bool:
        """Tell whether all of it is covered by a promise: the exact curve of a Gaussian, beside the rest."""
        left = epsilon * (1 + ROUNDING) - self.epsilon
        if self.mu_squared == 0:
            return left >= 0 and self.delta <= delta
        mu = math.sqrt(self.mu_squared) * (1 - ROUNDING)
        curve = math.exp(log_ndtr(mu / 2 - left / mu)) - math.exp(left + log_ndtr(-mu / 2 - left / mu))
        return left >= 0 and curve + self.delta <= delta


class TooFarError(Exception):
    """One row has moved what is private by more than the noise is made for."""


@dataclass(frozen=True)
class Meeting:
    """A function that adds noise to something private.

    Parameters
    ----------
    owner, name : object, str
        Where it stands.
    private : tuple of str
        Those of its arguments that are private; all others but the generator are public.
    cost : callable
        Takes all arguments, and the private ones of the neighbour; returns a `Cost`, or raises `TooFarError`.
    """

    owner: Any
    name: str
    private: tuple[str, ...]
    cost: Callable[[Mapping[str, Any], Mapping[str, Any]], Cost]

    @property
    def title(self) -> str:
        """What differences call it."""
        return f"{getattr(self.owner, '__name__', self.owner)}.{self.name}"

    def split(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the public and the private arguments; a mechanism stands for its parameters."""
        private = {name: _copied(arguments[name]) for name in self.private}
        public = {name: value for name, value in arguments.items() if name not in (*self.private, "generator")}
        if self.owner in MECHANISMS.values():
            public["parameters"] = public["self"].parameters()
            if public["self"].adjacency is Adjacency.REPLACE_ONE:
                public["n_rows"] = int(private["n_rows"])
        return public, private


def change(one: Any, other: Any) -> Any:
    """Return the change of integers, exactly, as floats."""
    return np.asarray(np.asarray(other).astype(object) - np.asarray(one).astype(object), dtype=np.float64)


def cost_of_matrix(at: Mapping[str, Any], neighbour: Mapping[str, Any]) -> Cost:
    """Return what a release of second moments costs; a unit adds A >= 0 of trace at most `grid`."""
    mechanism, grid = at["self"], at["grid"]
    moved, more = change(at["gram"], neighbour["gram"]) / grid, float(change(at["n_rows"], neighbour["n_rows"]))
    if not np.array_equal(moved, moved.T):
        raise TooFarError("the change of the matrix is not symmetric")
    eigenvalues = np.linalg.eigvalsh(moved)
    up, down = (float(np.maximum(sign * eigenvalues, 0).sum()) for sign in (1, -1))
    if max(up, down) > 1 + ROUNDING:
        raise TooFarError(f"the change of the matrix has traces +{up:.6g} and -{down:.6g}, where 1 is calibrated")
    if mechanism.needs_rank_one and any((sign * eigenvalues > ROUNDING).sum() > 1 for sign in (1, -1)):
        raise TooFarError("one row has changed the matrix by more than two rows x x'")
    if mechanism.adjacency is Adjacency.REPLACE_ONE and more:
        raise TooFarError(f"the number of rows has moved by {more:g}, and is public")
    if mechanism.adjacency is not Adjacency.REPLACE_ONE and (abs(more) > 1 or min(up, down) > ROUNDING):
        raise TooFarError(f"one row more or less moved the count by {more:g}, the traces by +{up:.3g}, -{down:.3g}")
    return COSTS.get(mechanism.name, _declared)(mechanism, moved, eigenvalues, more)


def _declared(mechanism: Any, *_: Any) -> Cost:
    """Return the whole guarantee of a mechanism whose loss has no short form: its proof is for any such change."""
    promise = mechanism.guarantee()
    return Cost(promise.epsilon, delta=promise.delta)


def _count(mechanism: Any, more: float) -> Cost:
    return Cost(abs(more) * float(mechanism.count_share) * mechanism.epsilon)


def _gaussian(mechanism: Any, moved: Any, eigenvalues: Any, more: float) -> Cost:
    diagonal, beside = mechanism.noise_scale(), mechanism.off_diagonal_sd
    squares = np.square(np.diag(moved) / diagonal).sum() + np.square(np.triu(moved, 1) / beside).sum()
    if mechanism.traced:
        trace = np.trace(moved) if mechanism.adjacency is Adjacency.REPLACE_ONE else more - np.trace(moved)
        squares += (trace / diagonal) ** 2
    if mechanism.count_share > 0:
        squares += (more / mechanism.count_sd) ** 2
    return Cost(mu_squared=float(squares))


def _matrix_laplace(mechanism: Any, moved: Any, eigenvalues: Any, more: float) -> Cost:
    up, down = (float(np.maximum(sign * eigenvalues, 0).sum()) for sign in (1, -1))
    size = max(up, down) if mechanism.balanced else up + down
    return Cost(size / (2 * mechanism.noise_scale())) + _count(mechanism, more)


def _laplace(mechanism: Any, moved: Any, eigenvalues: Any, more: float) -> Cost:
    return Cost(float(np.abs(np.triu(moved)).sum()) / mechanism.noise_scale()) + _count(mechanism, more)


def _frobenius(mechanism: Any, moved: Any, eigenvalues: Any, more: float) -> Cost:
    return Cost(float(np.linalg.norm(moved)) / mechanism.noise_scale()) + _count(mechanism, more)


def _ppca(mechanism: Any, moved: Any, eigenvalues: Any, more: float) -> Cost:
    """Return how far the exponent of a subspace can move one way, and the others' the other way."""
    sizes = (np.sort(np.maximum(sign * eigenvalues, 0))[::-1][: mechanism.n_components].sum() for sign in (1, -1))
    return Cost(mechanism.strength * float(sum(sizes)))


COSTS = {
    "gaussian": _gaussian,
    "matrix_laplace": _matrix_laplace,
    "laplace": _laplace,
    "frobenius": _frobenius,
    "ppca": _ppca,
}


def _one_way(counts: Any, of_neighbour: Any) -> None:
    moved = set(change(counts, of_neighbour).tolist())
    if not (moved <= {0.0, 1.0} or moved <= {0.0, -1.0}):
        raise TooFarError(f"one row has moved counts by {sorted(moved)}, where they may move one way by 1")


def cost_of_choice(at: Mapping[str, Any], neighbour: Mapping[str, Any]) -> Cost:
    """Return what a pure search of the first small count costs, in all columns."""
    for column, of_neighbour in zip(at["counts"], neighbour["counts"], strict=True):
        _one_way(column, of_neighbour)
    return Cost(float(len(at["counts"]) * at["epsilon"]))


def cost_of_bisection(at: Mapping[str, Any], neighbour: Mapping[str, Any]) -> Cost:
    """Return what a search with Gaussian noise costs: its whole share."""
    _one_way(at["counts"], neighbour["counts"])
    return Cost(mu_squared=at["self"].scale(1) ** -2)


def cost_of_numbers(at: Mapping[str, Any], neighbour: Mapping[str, Any]) -> Cost:
    """Return what numbers with Gaussian noise cost."""
    squared = float(np.square(change(at["values"], neighbour["values"])).sum())
    if squared > at["squared_change"] * (1 + ROUNDING):
        raise TooFarError(
            f"the numbers have moved by {math.sqrt(squared / at['squared_change']):.6g} times what is calibrated"
        )
    return Cost(mu_squared=squared / at["self"].scale(at["squared_change"]) ** 2)


def cost_of_counts(at: Mapping[str, Any], neighbour: Mapping[str, Any]) -> Cost:
    """Return what noise on counts in disjoint cells costs: one leaves a cell, one enters another."""
    mechanism, moved = at["self"], change(at["counts"], neighbour["counts"])
    up, down = (float(np.maximum(sign * moved, 0).sum()) for sign in (1, -1))
    replaced = mechanism.adjacency is Adjacency.REPLACE_ONE
    if max(up, down) > 1 or (up != down if replaced else min(up, down) > 0):
        raise TooFarError(f"one unit has moved counts by +{up:g} and -{down:g}")
    if mechanism.kind == "gaussian":
        return Cost(mu_squared=float(np.square(moved).sum()) / mechanism.scale**2)
    return Cost((up + down) / mechanism.scale)


MEETINGS = (
    *(Meeting(kind, "draw", ("gram", "n_rows"), cost_of_matrix) for kind in MECHANISMS.values()),
    Meeting(choices, "first_at_most", ("counts",), cost_of_choice),
    Meeting(BudgetShare, "first_at_most", ("counts",), cost_of_bisection),
    Meeting(BudgetShare, "measured", ("values",), cost_of_numbers),
    Meeting(CountMechanism, "draw", ("counts",), cost_of_counts),
)


@dataclass(frozen=True)
class Draw:
    """One call of a meeting: what was public, what was private, what came out."""

    meeting: Meeting
    public: Mapping[str, Any]
    private: Mapping[str, Any]
    drawn: Any


class DivergedError(BaseException):
    """The neighbour has come to another draw than the table; no error that a fit may turn into its own words."""


@dataclass
class Tape:
    """The draws of one fit; with `given` those of another, which are handed out again."""

    given: Sequence[Draw] | None = None
    draws: list[Draw] = field(default_factory=list)
    _busy: bool = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold the meetings; while values are handed out, no generator may be touched."""
        streams: list[tuple[Any, str]] = []
        fresh = randomness._fresh_aes

        def watched() -> Any:
            stream = fresh()
            streams.append((stream, repr(stream.state)))
            return stream

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(randomness, "_fresh_aes", watched)
            # All of them are looked up before any is replaced: one mechanism may have the function of another.
            for meeting, function in [(one, getattr(one.owner, one.name)) for one in MEETINGS]:
                patch.setattr(meeting.owner, meeting.name, self._around(meeting, function))
            yield
        if self.given is not None:
            if len(self.draws) < len(self.given):
                raise DivergedError(f"{self.given[len(self.draws)].meeting.title} was not called again")
            if any(repr(stream.state) != before for stream, before in streams):
                raise DivergedError("something was drawn where the replay knows no meeting")

    def _around(self, meeting: Meeting, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        def held(*args: Any, **options: Any) -> Any:
            if self._busy:  # a meeting within a meeting is a part of it
                return function(*args, **options)
            bound = signature.bind(*args, **options)
            bound.apply_defaults()
            public, private = meeting.split(bound.arguments)
            self._busy = True
            try:
                drawn = function(*args, **options) if self.given is None else self._again(meeting, public)
            finally:
                self._busy = False
            self.draws.append(Draw(meeting, public, private, _copied(drawn)))
            return drawn

        return held

    def _again(self, meeting: Meeting, public: Mapping[str, Any]) -> Any:
        assert self.given is not None
        if len(self.draws) >= len(self.given):
            raise DivergedError(f"{meeting.title} is one more draw")
        given = self.given[len(self.draws)]
        if given.meeting is not meeting:
            raise DivergedError(f"{meeting.title} comes in place of {given.meeting.title}")
        found = list(unlike(_without_self(given.public), _without_self(public), meeting.title))
        if found:
            raise DivergedError(f"public parameters: {found[0]}")
        return _copied(given.drawn)

    def cost(self, neighbour: "Tape") -> Cost:
        """Return what all draws cost on this pair; raise `TooFarError` where one is not made for it."""
        total = Cost()
        for one, other in zip(self.draws, neighbour.draws, strict=True):
            try:
                total += one.meeting.cost({**one.public, **one.private}, other.private)
            except TooFarError as error:
                raise TooFarError(f"{one.meeting.title}: {error}") from None
        return total


def _without_self(public: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in public.items() if name != "self" or dataclasses.is_dataclass(value)}


def _copied(drawn: Any) -> Any:
    if isinstance(drawn, Mapping):
        return {name: np.array(value) for name, value in drawn.items()}
    if isinstance(drawn, list | tuple):
        return [_copied(one) for one in drawn]
    return np.array(drawn) if isinstance(drawn, np.ndarray) else drawn


# What can be seen of a table.


@dataclass(frozen=True)
class Table:
    """One table of a pair.

    Parameters
    ----------
    make : callable
        Makes the data anew: some can be read once.
    options : mapping
        How `open_table` is to read them: a schema, columns, a privacy unit.
    """

    make: Callable[[], Any]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Seen:
    """What can be seen of a table while it is read and fitted; rows are private, and compared all the same."""

    error: Exception | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    rows: Any = None
    result: Any = None
    warnings: list[tuple[str, str]] = field(default_factory=list)
    tape: Tape = field(default_factory=Tape)
    diverged: str = ""


FACTS = ("n_features", "feature_names", "truths", "one_hot", "n_categorical", "in_order", "reads_once", "by_unit")
Fit = Callable[[Any, Mapping[str, Any]], Any]
"""Takes data and the options of `open_table`; returns an estimator, a map of scores, or whatever else is public."""


def seen(table: Table, fit: Fit | None = None, given: Seen | None = None) -> Seen:
    """Read and fit a table; with `given` by what was drawn there."""
    found = Seen(tape=Tape(None if given is None else given.tape.draws))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = open_table(table.make(), **table.options)
            found.facts = {name: getattr(source, name, None) for name in FACTS}
            found.rows = encoded(source)
            if fit is not None:
                with found.tape.running():
                    found.result = fit(table.make(), table.options)
        except DivergedError as error:
            found.diverged = str(error)
        except Exception as error:
            found.error = error
    found.warnings = [(one.category.__name__, str(one.message)) for one in caught]
    return found


def encoded(source: Any) -> Any:
    """Return all rows of a source as they are encoded: a matrix, or where persons are the unit one for each key."""
    if isinstance(source, EngineSource):
        return _on_engine(source)
    batches = list(source.batches())
    if not any(isinstance(batch, Blocks) for batch in batches):
        return np.vstack([_dense(batch) for batch in batches] or [np.empty((0, source.n_features))])
    rows: dict[tuple[int, ...], list[Any]] = {}
    for batch in batches:
        ends = [*batch.starts[1:].tolist(), batch.rows.shape[0]]
        for key, low, high in zip(batch.keys.tolist(), batch.starts.tolist(), ends, strict=True):
            rows.setdefault(tuple(key), []).append(_dense(batch.rows[low:high]))
    return {key: np.vstack(parts) for key, parts in rows.items()}


def _on_engine(source: EngineSource) -> Any:
    """Return the rows that an engine encodes; those of persons are collected there alone, and seen by their sums."""
    if getattr(source, "by_unit", False):
        return None
    mapped = source.mapped(_dense, [f"f{place}" for place in range(source.n_features)])
    if hasattr(mapped, "compute"):
        return np.asarray(mapped.compute(scheduler="synchronous"))
    return np.array([tuple(row) for row in mapped.collect()], dtype=np.float64).reshape(-1, source.n_features)


def _dense(rows: Any) -> Any:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def public_state(result: Any) -> Any:
    """Return everything that whoever gets the result can see; the time of its making is that of the day."""
    if isinstance(result, Release):
        return {
            "integers": dict(result.integers),
            "unit": dict(result.unit),
            "guarantee": result.guarantee,
            "origin": dataclasses.replace(result.origin, created=None),
        }
    if hasattr(result, "release_"):
        fitted = {name: value for name, value in vars(result).items() if name.endswith("_") and name != "release_"}
        return {**fitted, "release": public_state(result.release_)}
    return {name: value for name, value in vars(result).items() if name != "created"}


def unlike(one: Any, other: Any, where: str = "result") -> Iterator[str]:
    """Yield where two values differ, to the last bit; values themselves are not shown where they are long."""
    if type(one) is not type(other):
        yield f"{where}: {type(one).__name__} and {type(other).__name__}"
    elif dataclasses.is_dataclass(one) and not isinstance(one, type):
        for name in (each.name for each in dataclasses.fields(one)):
            yield from unlike(getattr(one, name), getattr(other, name), f"{where}.{name}")
    elif isinstance(one, Mapping):
        if list(one) != list(other):
            yield f"{where}: keys {sorted(map(str, one))} and {sorted(map(str, other))}"
            return
        for name in one:
            yield from unlike(one[name], other[name], f"{where}[{name!r}]")
    elif isinstance(one, list | tuple):
        if len(one) != len(other):
            yield f"{where}: {len(one)} and {len(other)} of them"
            return
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from unlike(a, b, f"{where}[{place}]")
    elif isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape or not same_bits(one, other).all():
            yield f"{where}: arrays"
    elif isinstance(one, float):
        if one != other and not (math.isnan(one) and math.isnan(other)):
            yield f"{where}: {one!r} and {other!r}"
    elif type(one).__eq__ is object.__eq__:
        yield from unlike(vars(one), vars(other), where) if hasattr(one, "__dict__") else ()
    elif one != other:
        yield f"{where}: {one!r:.80} and {other!r:.80}"


def same_bits(one: Any, other: Any) -> Any:
    """Tell where two arrays of the same shape are the same; any NaN is the same as any other."""
    if one.dtype == object:
        return np.array([a == b for a, b in zip(one.ravel(), other.ravel(), strict=True)], dtype=bool)
    same = one == other
    return same | ((one != one) & (other != other))


# The comparison.


@dataclass(frozen=True)
class Changed:
    """How the neighbour differs.

    Parameters
    ----------
    row : int
        The place of the row that is another one.
    more : {-1, 0, 1}
        How many rows more the neighbour has: it lacks this one, has another one in its place, or has one more there.
    may_refuse : bool
        Whether one of the tables alone may be refused, by the rule at the top.
    private : sequence of str
        What no error may hold.
    """

    row: int
    more: int = 0
    may_refuse: bool = False
    private: Sequence[str] = ()


def differences(first: Seen, second: Seen, changed: Changed) -> list[str]:
    """Return in words what tells the two tables apart, beyond what the noise hides."""
    found = [f"the error says {told}" for one in (first, second) for told in _told(one.error, changed.private)]
    found += ["refused when something was drawn already" for one in (first, second) if one.error and one.tape.draws]
    if first.error is not None or second.error is not None:
        if (first.error is None) != (second.error is None):
            if not changed.may_refuse:
                refused = "the table" if second.error is None else "the neighbour"
                found.append(f"{refused} alone is refused: {(first.error or second.error)!s:.200}")
        elif str(first.error) != str(second.error) and not changed.may_refuse:
            found.append(f"refused in other words: {first.error!s:.150} | {second.error!s:.150}")
        return found
    found += unlike(first.facts, second.facts, "source")
    found += _rows_apart(first.rows, second.rows, changed, first.facts["in_order"])
    found += unlike(first.warnings, second.warnings, "warnings")
    if second.diverged:
        return [*found, f"other draws: {second.diverged}"]
    if first.result is None:
        return found
    found += unlike(public_state(first.result), public_state(second.result))
    promise = public_state(first.result).get("release", public_state(first.result))["guarantee"]
    try:
        cost = first.tape.cost(second.tape)
        if not cost.within(promise.epsilon, promise.delta):
            found.append(f"this pair costs {cost}, and {promise} is promised")
    except TooFarError as error:
        found.append(str(error))
    return found


def _rows_apart(one: Any, other: Any, changed: Changed, in_order: bool) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        apart = sum(not _same_rows(one.get(key), other.get(key)) for key in one.keys() | other.keys())
        if apart > 1:
            yield f"the rows of {apart} persons are encoded otherwise"
        return
    if one is None or other is None:
        return
    if not in_order:
        lost, won = (Counter(map(bytes, a)) - Counter(map(bytes, b)) for a, b in ((one, other), (other, one)))
        if lost.total() > (changed.more <= 0) or won.total() > (changed.more >= 0):
            yield f"{lost.total()} rows are lost and {won.total()} are new"
        return
    if one.shape[1:] != other.shape[1:] or len(other) - len(one) != changed.more:
        yield f"encoded rows have the shapes {one.shape} and {other.shape}"
        return
    kept, others = (
        rows if changed.more == without else np.delete(rows, changed.row, axis=0)
        for rows, without in ((one, 1), (other, -1))
    )
    apart = ~same_bits(kept, others).all(axis=1)
    if apart.any():
        yield f"{apart.sum()} of {len(kept)} other rows are encoded otherwise"


def _same_rows(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one.shape == other.shape and bool(same_bits(one, other).all())


def _told(error: Exception | None, private: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong about a refusal."""
    if error is None:
        return
    if not isinstance(error, EigenveilError):
        yield f"what another library says, by {type(error).__name__}"
    else:
        try:
            assert_one_sentence(error)
        except AssertionError:
            yield f"more or less than a sentence: {error!s:.200}"
    chain, traced = [error], set()
    while chain:
        one = chain.pop()
        if one is None or id(one) in traced:
            continue
        traced.add(id(one))
        text = f"{one} {one!r} {getattr(one, '__notes__', '')}"
        yield from (f"a private value ({cell[:20]!r})" for cell in private if cell in text)
        chain += [one.__cause__, one.__context__]


def compared(first: Table, second: Table, changed: Changed, fit: Fit | None = None) -> list[str]:
    """Return what tells two tables apart, read and fitted from scratch."""
    before = seen(first, fit)
    return differences(before, seen(second, fit, before), changed)
