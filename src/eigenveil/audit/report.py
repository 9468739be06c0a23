"""`AuditReport`: what an audit found, in numbers and in words."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ..guarantee import Unit


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
    statistic : str
        What the event is about: the "score" that was asked for, or a statistic of the last bits in words.
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
    statistic: str = "score"
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
