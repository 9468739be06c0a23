"""Audits: `audit` bounds the epsilon of running code from below, `audit_ledger` compares a ledger with releases."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from fractions import Fraction
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..accounting.calibration import exact, zcdp_epsilon
from ..accounting.composition import concentrated_rho
from ..accounting.ledger import PrivacyLedger
from ..errors import EngineError, InvalidParameterError, integer_between, probability_below_one
from ..guarantee import Guarantee, Unit
from ..numerics import FloatArray
from ..sampling.randomness import secure_generator
from .lower_bound import choose_event, error_level, evaluate, judged
from .neighbours import Neighbours
from .subjects import Subject, subject_for

if TYPE_CHECKING:
    from ..releases.record import Release

Progress = Callable[[int, int], None]

# Where only an approximate guarantee is given, its delta is usually far below what draws can see.
_AUDITED_DELTAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MOST_DRAWS, _MOST_WORKERS = 10**9, 1000


@dataclass(frozen=True)
class AuditReport:
    """A lower bound on epsilon, beside what is claimed.

    Attributes
    ----------
    name : str
        What was audited.
    parameters : dict
        Its public parameters.
    epsilon_lower : float
        With probability `confidence`, epsilon at `delta` is at least this on some pair of neighbours.
    delta, confidence : float
        At which delta, and with which confidence over everything that was tried.
    claimed : float
        The smallest epsilon that is claimed at this very delta; infinity where nothing is.
    claimed_by : str
        Who states it: the "guarantee" of the code, or the "published" paper.
    neighbours, event : str
        The two data sets and the event that gave the bound.
    counts, draws : (int, int)
        Outputs in the event, and outputs evaluated: where the event is likely, and on the neighbour.
    n_searched : int
        Pairs of neighbours that were searched.
    impossible : float
        A lower bound on the probability of outputs that the neighbour cannot produce; 0 where none were found. No
        epsilon helps against them: a delta below this number is refuted.
    unit : Unit
        What the two data sets differ in: one row, or one person with all of their rows.
    """

    name: str
    parameters: dict[str, Any]
    epsilon_lower: float
    delta: float
    confidence: float
    claimed: float
    claimed_by: str
    neighbours: str
    event: str
    counts: tuple[int, int]
    draws: tuple[int, int]
    n_searched: int
    impossible: float
    unit: Unit = Unit.ROW

    @property
    def verdict(self) -> str:
        """The word "violation" where the bound passes the claim, else "consistent", which proves nothing."""
        return "violation" if self.epsilon_lower > self.claimed else "consistent"

    @property
    def tightness(self) -> float:
        """The lower bound over the claimed epsilon: 1 would mean that nothing is given away."""
        if self.claimed == 0 or not math.isfinite(self.claimed):
            return math.nan
        return self.epsilon_lower / self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return everything in JSON types; numbers that JSON lacks become None."""
        fields = {**asdict(self), "verdict": self.verdict, "tightness": self.tightness}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }

    def __str__(self) -> str:
        claim = f"{self.claimed:.4g} ({self.claimed_by})" if math.isfinite(self.claimed) else "nothing"
        text = (
            f"{self.name}: epsilon >= {self.epsilon_lower:.4g} at delta = {self.delta:g} with confidence "
            f"{self.confidence:.10g}; claimed {claim} for {self.unit.in_words}: {self.verdict}"
        )
        if self.impossible:
            text += (
                f"; support violation, outputs of probability >= {self.impossible:.3g} betray the data with certainty"
            )
        return text


def audit(
    subject: Any,
    *,
    parameters: Mapping[str, Any] | None = None,
    delta: float | None = None,
    confidence: float = 0.99,
    draws: int = 20_000,
    neighbours: Sequence[Neighbours] | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    workers: int = 1,
    block: int = 500,
) -> AuditReport:
    """Return a lower bound on the epsilon of the code as it runs.

    Parameters
    ----------
    subject : CentralMechanism, str, LocalProtocol, estimator or Subject
        What to audit; a name ("gaussian", "local:double_cap") takes its arguments from `parameters`.
    parameters : mapping, optional
        Keyword arguments of a mechanism given by name.
    delta : float, optional
        The delta at which epsilon is bounded. By default 0 for a pure claim, and otherwise the claimed one or 0.01,
        whichever is larger: events of probability 1e-6 cannot be counted. The report compares with the epsilon that is
        claimed at this very delta.
    confidence : float
        The probability that the bound is right, over everything that was tried.
    draws : int
        Outputs drawn on each of the two data sets: a quarter to find the neighbours, a quarter to choose the event,
        half to evaluate it.
    neighbours : sequence of Neighbours, optional
        Data sets to try in place of the subject's own.
    seed : int, optional
        For repeatable audits; by default the generators are the secure ones that releases use.
    progress : callable, optional
        Called with the draws made and the draws to make.
    workers : int
        Processes. More than one needs a subject that can be pickled, and the usual guard of the main module.
    block : int
        Draws made at a time.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> from eigenveil.mechanisms import MECHANISMS
    >>> honest = MECHANISMS["laplace"](epsilon=1.0, n_features=2)
    >>> audit(honest, draws=400, confidence=1 - 1e-9, seed=0).verdict
    'consistent'
    """
    subject = subject_for(subject, parameters)
    if delta is None:
        # A pure claim is finite at delta 0; a subject need not state its delta, so others are looked up on a grid.
        # Where nothing is claimed anywhere, epsilon is bounded at delta 0.
        at = next((one for one in _AUDITED_DELTAS if min(subject.claims(one).values()) < np.inf), 0.0)
    else:
        at = probability_below_one("delta", delta)
    tried = list(subject.neighbours() if neighbours is None else neighbours)
    if not tried:
        raise InvalidParameterError("An audit needs at least one pair of neighbours.")
    workers = integer_between("workers", workers, 1, _MOST_WORKERS)
    quarter = integer_between("draws", draws, 16 * len(tried), _MOST_DRAWS) // 4
    block = integer_between("block", block, 1)
    error_level(at, confidence, 1)  # refused before anything is drawn
    limits: dict[str, Any] = {"delta": at, "confidence": confidence}
    total, done = 2 * (len(tried) * (quarter // len(tried)) + draws - quarter), 0

    def draw(stage: int, numbers: Sequence[int], size: int) -> list[tuple[FloatArray, FloatArray]]:
        """Return `size` scores on D and on D' for each of these pairs."""
        nonlocal done
        sizes = [min(block, size - start) for start in range(0, size, block)]
        keys = [(number, side, place) for number in numbers for side in (0, 1) for place in range(len(sizes))]
        blocks = [
            (subject, tried[key[0]], key[1], sizes[key[2]], None if seed is None else (seed, stage, *key))
            for key in keys
        ]
        made = []
        for drawn in map(_scores, blocks) if pool is None else pool.map(_scores, blocks):
            made.append(drawn)
            done += len(drawn)
            if progress is not None:
                progress(done, total)
        sides = [np.concatenate(made[start : start + len(sizes)]) for start in range(0, len(made), len(sizes))]
        return list(zip(sides[::2], sides[1::2], strict=True))

    pool = None
    if workers > 1:
        pool = ProcessPoolExecutor(workers, get_context("spawn"), threadpool_limits, (1, "blas"))
    try:
        with threadpool_limits(1, user_api="blas"):
            searched = [judged(*pair, **limits) for pair in draw(0, range(len(tried)), quarter // len(tried))]
            number = int(np.argmax([value for value, _ in searched]))
            score = searched[number][1]
            [chosen_on] = draw(1, [number], quarter)
            _, event = choose_event(*map(score, chosen_on), **limits)
            [evaluated_on] = draw(2, [number], draws - 2 * quarter)
            bound = evaluate(event, *map(score, evaluated_on), **limits)
    except BrokenProcessPool:
        raise EngineError(
            "A process of the audit ended by itself, mostly for want of memory; use fewer features or workers."
        ) from None
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    claims = dict(subject.claims(at))
    claimed_by = min(claims, key=lambda name: claims[name])
    certain = np.isinf(event.threshold) and event.above == (event.threshold > 0) and bound.counts[1] == 0
    return AuditReport(
        name=subject.name,
        parameters=subject.parameters(),
        epsilon_lower=bound.epsilon,
        delta=at,
        confidence=confidence,
        claimed=claims[claimed_by],
        claimed_by=claimed_by,
        neighbours=tried[number].name,
        event=event.direction,
        counts=bound.counts,
        draws=bound.draws,
        n_searched=len(tried),
        impossible=bound.p_low if certain else 0.0,
        unit=Unit.ROW if tried[number].privacy_units is None else Unit.PERSON,
    )


def _scores(block: tuple[Subject, Neighbours, int, int, tuple[int, ...] | None]) -> FloatArray:
    """Return the scores of one block of draws; in a worker process this is all that runs."""
    subject, data, side, size, seed = block
    return subject.scores(data, side, size, secure_generator() if seed is None else np.random.default_rng(seed))


# Ledgers.


@dataclass(frozen=True)
class LedgerAudit:
    """Findings of a comparison of a ledger with releases.

    Attributes
    ----------
    findings : tuple of str
        One sentence for everything that does not fit; none where all is paid for.
    """

    findings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The word "violation" where anything was found, else "consistent"."""
        return "violation" if self.findings else "consistent"


def audit_ledger(ledger: PrivacyLedger, releases: "Iterable[Release]") -> LedgerAudit:
    """Compare the guarantees of releases with the entries of a ledger and with its total.

    Parameters
    ----------
    ledger : PrivacyLedger
        As its users see it: `entries()` and `spent` are asked, nothing else.
    releases : iterable of Release
        Drawn with this ledger. Releases that the audit does not know of may be in the ledger too.
    """
    entries = {entry.entry: entry.guarantee for entry in ledger.entries()}
    findings, paid = [], Counter[int]()
    promised = []
    for number, release in enumerate(releases, 1):
        promised.append(release.guarantee)
        entry = release.origin.ledger_entry
        if entry is None or entry not in entries:
            findings.append(f"Release {number} has no entry in the ledger.")
            continue
        paid[entry] += 1
        recorded, promise = entries[entry], release.guarantee
        rho, least = concentrated_rho(recorded), concentrated_rho(promise)
        alike = recorded.adjacency is promise.adjacency and recorded.unit is promise.unit
        enough = recorded.epsilon >= promise.epsilon and recorded.delta >= promise.delta
        if not (alike and enough and (rho is None or (least is not None and rho >= least))):
            findings.append(f"Entry {entry} records less than release {number} promises.")
    findings += [f"Entry {entry} pays for {times} releases." for entry, times in paid.items() if times > 1]
    # What is known to have happened: all entries, and all releases. The total may not be below either.
    for what, guarantees in (("its entries", list(entries.values())), ("the releases", promised)):
        if _spent_less(ledger, guarantees):
            findings.append(f"The ledger says that less was spent than {what} add up to.")
    return LedgerAudit(tuple(findings))


def _spent_less(ledger: PrivacyLedger, guarantees: list[Guarantee]) -> bool:
    epsilon, delta = ledger.spent
    if ledger.composition == "zcdp":
        rhos = [concentrated_rho(guarantee) for guarantee in guarantees]
        total = sum((exact(rho) for rho in rhos if rho is not None), Fraction(0))
        return total > 0 and epsilon < zcdp_epsilon(float(total), ledger.delta) * (1 - 1e-12)
    least = sum((exact(one.epsilon) for one in guarantees), Fraction(0))
    return exact(epsilon) < least or exact(delta) < sum((exact(one.delta) for one in guarantees), Fraction(0))
