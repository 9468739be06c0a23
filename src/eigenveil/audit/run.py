"""`audit`: draws outputs block by block on several cores, and bounds epsilon from below."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import EngineError, InvalidParameterError, integer_between, probability_below_one
from ..guarantee import Unit
from ..numerics import FloatArray
from ..sampling.randomness import secure_generator
from .lower_bound import choose_event, error_level, evaluate, judged
from .neighbours import Neighbours
from .report import AuditReport
from .subjects import Subject, subject_for

Progress = Callable[[int, int], None]

# Where only an approximate guarantee is given, its delta is usually far below what draws can see.
SMALLEST_AUDITED_DELTA = 0.01
_MOST_DRAWS, _MOST_WORKERS = 10**9, 1000


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
    at = _audited_delta(subject, delta)
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
        """Return so many scores on D and on D' of each of these pairs."""
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


def _audited_delta(subject: Subject, delta: float | None) -> float:
    if delta is not None:
        return probability_below_one("delta", delta)
    # A pure claim is finite at delta 0. Others are looked up on a grid of candidate bounds, so that a subject need not
    # state its delta.
    if min(subject.claims(0.0).values()) < np.inf:
        return 0.0
    for at in (SMALLEST_AUDITED_DELTA, 0.02, 0.05, 0.1, 0.2, 0.5):
        if min(subject.claims(at).values()) < np.inf:
            return at
    return 0.0  # nothing is claimed anywhere


def _scores(block: tuple[Subject, Neighbours, int, int, tuple[int, ...] | None]) -> FloatArray:
    """Return the scores of one block of draws; in a worker process this is all that runs."""
    subject, data, side, size, seed = block
    return subject.scores(data, side, size, secure_generator() if seed is None else np.random.default_rng(seed))
