"""`audit`: draws block by block on several cores, and goes on where an earlier run was stopped."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import EngineError, InvalidDataError, InvalidParameterError, integer_between, probability_below_one
from ..guarantee import Unit
from ..numerics import FloatArray
from ..sampling.randomness import secure_generator
from .lower_bound import Choice, error_level, evaluate
from .neighbours import Neighbours
from .report import AuditReport
from .subjects import Subject, subject_for

_APPLICATION_ID = 0x65766176  # "evav"; "evau" had no digests
_SCHEMA = (
    "CREATE TABLE audit (only INTEGER PRIMARY KEY CHECK (only = 1), settings TEXT NOT NULL)",
    "CREATE TABLE block (key TEXT PRIMARY KEY, columns INTEGER NOT NULL, scores BLOB NOT NULL, digest BLOB NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
)


class Checkpoint:
    """A SQLite file of finished blocks; a block is there whole or not at all, and never twice.

    Parameters
    ----------
    path : path or None
        None keeps the blocks in memory.
    settings : mapping
        Everything that the scores depend on, in JSON types; a file made with other settings is refused.
    """

    def __init__(self, path: str | PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        self.path: Path | None = None if path is None else Path(path)
        text = json.dumps(settings, sort_keys=True)
        if self.path is not None and self.path.exists() and not self.path.is_file():
            raise InvalidDataError(f"The checkpoint {self.path} is no regular file; name another.")
        with self._usable():
            self._connection = sqlite3.connect(":memory:" if self.path is None else self.path, isolation_level=None)
            try:
                self._open(text)
            except BaseException:
                self._connection.close()  # and leave no lock
                raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InvalidDataError(f"The checkpoint {self.path} cannot be used; name another file.") from error

    def _open(self, text: str) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO audit VALUES (1, ?)", (text,))
        connection.execute("COMMIT")
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
        if not ours or connection.execute("SELECT settings FROM audit").fetchone()[0] != text:
            raise InvalidDataError(f"The checkpoint {self.path} belongs to another audit; name another file.")

    def __contains__(self, key: str) -> bool:
        with self._usable():
            found = self._connection.execute("SELECT 1 FROM block WHERE key = ?", (key,)).fetchone()
        return found is not None

    def put(self, key: str, scores: FloatArray) -> None:
        """Keep a block; one that is there already stays as it is."""
        columns = 0 if scores.ndim == 1 else scores.shape[1]
        content = np.ascontiguousarray(scores, dtype="<f8").tobytes()
        row = (key, columns, content, _digest(key, columns, content))
        with self._usable():
            self._connection.execute("INSERT OR IGNORE INTO block VALUES (?, ?, ?, ?)", row)

    def get(self, key: str) -> FloatArray:
        """Return a block as it was kept; one that was changed since is refused."""
        try:
            columns, content, digest = self._connection.execute(
                "SELECT columns, scores, digest FROM block WHERE key = ?", (key,)
            ).fetchone()
            whole = digest == _digest(key, columns, content)
        except (sqlite3.Error, TypeError, ValueError):
            whole = False
        if not whole:
            raise InvalidDataError(f"The checkpoint {self.path} is damaged; name another file.")
        scores = np.frombuffer(content, dtype="<f8")
        return scores.reshape(-1, columns) if columns else scores

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _digest(key: str, columns: int, content: bytes) -> bytes:
    return hashlib.sha256(f"{key}\n{columns}\n".encode() + content).digest()


Progress = Callable[[int, int], None]

# Where only an approximate guarantee is given, its delta is usually far below what draws can see.
SMALLEST_AUDITED_DELTA = 0.01
# Draws of the search for a pair that is extra.
_FEW = 200
_STAGES = ("search", "choose", "evaluate")
# All blocks are listed before the first is drawn.
_MOST_DRAWS, _MOST_WORKERS = 10**9, 1000


@dataclass(frozen=True)
class _Block:
    """Draws of one phase, on one side of one pair of neighbours, that are made and kept together."""

    stage: str
    data: int
    side: int
    number: int
    size: int

    @property
    def key(self) -> str:
        return f"{self.stage}/{self.data}/{self.side}/{self.number}"

    def generator(self, seed: int | None) -> np.random.Generator:
        if seed is None:
            return secure_generator()
        return np.random.default_rng([seed, _STAGES.index(self.stage), self.data, self.side, self.number])


def audit(
    subject: Any,
    *,
    parameters: Mapping[str, Any] | None = None,
    delta: float | None = None,
    confidence: float = 0.99,
    draws: int = 20_000,
    neighbours: Sequence[Neighbours] | None = None,
    seed: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
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
        half to evaluate it. Pairs that are `extra` get a few more.
    neighbours : sequence of Neighbours, optional
        Data sets to try in place of the subject's own.
    seed : int, optional
        For repeatable audits; by default the generators are the secure ones that releases use.
    checkpoint : path, optional
        A file that keeps every finished block; the same call with the same file goes on where the last one stopped.
    progress : callable, optional
        Called with the draws made and the draws to make.
    workers : int
        Processes. More than one needs a subject that can be pickled, and the usual guard of the main module.
    block : int
        Draws made and kept at a time.

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
    names = tuple(getattr(subject, "statistics", ()))
    workers = integer_between("workers", workers, 1, _MOST_WORKERS)
    sharing = sum(not one.extra for one in tried) or len(tried)
    quarter = integer_between("draws", draws, 16 * sharing, _MOST_DRAWS) // 4
    error_level(at, confidence, 1)  # refused before anything is drawn
    settings: dict[str, Any] = {
        "subject": subject.name,
        "parameters": subject.parameters(),
        "neighbours": _fingerprint(tried),
        "delta": at,
        "confidence": confidence,
        "draws": draws,
        "block": integer_between("block", block, 1),
        "seed": seed,
    }
    # Extra pairs show much or nothing, and a few draws tell which.
    few = quarter // sharing if sharing == len(tried) else max(2, min(_FEW, quarter // 4))
    search = [few if one.extra else quarter // sharing for one in tried]
    sizes = {"search": search, "choose": [quarter] * len(tried), "evaluate": [draws - 2 * quarter] * len(tried)}
    total = 2 * (sum(search) + draws - quarter)
    with (
        closing(Checkpoint(checkpoint, json.loads(json.dumps(settings, default=str)))) as kept,
        closing(_Runner(subject, tried, kept, seed, workers, progress, total, block, sizes)) as runner,
    ):
        limits: dict[str, Any] = {"delta": at, "confidence": confidence}
        runner.draw("search", range(len(tried)))
        choices = [Choice(names, *runner.samples("search", number)) for number in range(len(tried))]
        ranks = [one.rank(len(tried), extra=pair.extra, **limits) for one, pair in zip(choices, tried, strict=True)]
        number = int(np.argmax(ranks))
        runner.draw("choose", [number])
        statistic, score, event = choices[number].choose(*runner.samples("choose", number), **limits)
        runner.draw("evaluate", [number])
        bound = evaluate(event, *map(score, runner.samples("evaluate", number)), **limits)
    claims = dict(subject.claims(at))
    claimed_by = min(claims, key=lambda name: claims[name])
    certain = np.isinf(event.threshold) and event.above == (event.threshold > 0) and bound.counts[1] == 0
    return AuditReport(
        name=subject.name,
        parameters=settings["parameters"],
        epsilon_lower=bound.epsilon,
        delta=at,
        confidence=confidence,
        claimed=claims[claimed_by],
        claimed_by=claimed_by,
        neighbours=tried[number].name,
        event=f"{statistic}: {bound.direction}" if statistic else bound.direction,
        counts=bound.counts,
        draws=bound.draws,
        n_searched=len(tried),
        impossible=bound.p_low if certain else 0.0,
        statistic=statistic or "score",
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


def _fingerprint(tried: Sequence[Neighbours]) -> str:
    """Return a text that is another one for other data."""
    digest = sha256()
    for one in tried:
        digest.update(repr(one.bits).encode() + one.first.tobytes() + one.second.tobytes())
        digest.update(b"".join(owners.tobytes() for owners in one.privacy_units or ()))
    return digest.hexdigest()


class _Runner:
    """Makes the blocks that are missing, in this process or in several, and keeps them."""

    def __init__(
        self,
        subject: Subject,
        tried: list[Neighbours],
        kept: Checkpoint,
        seed: int | None,
        workers: int,
        progress: Progress | None,
        total: int,
        block: int,
        sizes: dict[str, list[int]],
    ) -> None:
        self.subject, self.tried, self.kept, self.seed, self.workers = subject, tried, kept, seed, workers
        self.progress, self.total, self.block, self.sizes = progress, total, block, sizes
        self.done = 0
        self.pool: ProcessPoolExecutor | None = None

    def _blocks(self, stage: str, data: int) -> Iterator[_Block]:
        size = self.sizes[stage][data]
        for side in (0, 1):
            for number, start in enumerate(range(0, size, self.block)):
                yield _Block(stage, data, side, number, min(self.block, size - start))

    def draw(self, stage: str, numbers: Sequence[int]) -> None:
        """Make every block of a stage that is not there yet."""
        missing = []
        for block in (block for number in numbers for block in self._blocks(stage, number)):
            if block.key in self.kept:
                self._advance(block)
            else:
                missing.append(block)
        if self.workers == 1 or len(missing) < 2:
            with threadpool_limits(1, user_api="blas"):
                for block in missing:
                    self._keep(block, self._scores(block))
            return
        if self.pool is None:
            self.pool = ProcessPoolExecutor(self.workers, get_context("spawn"), threadpool_limits, (1, "blas"))
        jobs = {
            self.pool.submit(_draw_block, self.subject, self.tried[block.data], block, self.seed): block
            for block in missing
        }
        try:
            for job in as_completed(jobs):
                self._keep(jobs[job], job.result())
        except BrokenProcessPool:
            raise EngineError(
                "A process of the audit ended by itself, mostly for want of memory; use fewer features or workers."
            ) from None

    def close(self) -> None:
        """End the worker processes; blocks not begun are left undone."""
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def _scores(self, block: _Block) -> FloatArray:
        return _draw_block(self.subject, self.tried[block.data], block, self.seed)

    def _keep(self, block: _Block, scores: FloatArray) -> None:
        self.kept.put(block.key, scores)
        self._advance(block)

    def _advance(self, block: _Block) -> None:
        self.done += block.size
        if self.progress is not None:
            self.progress(self.done, self.total)

    def samples(self, stage: str, data: int) -> tuple[FloatArray, FloatArray]:
        """Return the scores of a stage on D and on D'."""
        sides: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        for block in self._blocks(stage, data):
            sides[block.side].append(self.kept.get(block.key))
        return np.concatenate(sides[0]), np.concatenate(sides[1])


def _draw_block(subject: Subject, data: Neighbours, block: _Block, seed: int | None) -> FloatArray:
    """Return the scores of one block; in a worker process this is all that runs."""
    return subject.scores(data, block.side, block.size, block.generator(seed))
