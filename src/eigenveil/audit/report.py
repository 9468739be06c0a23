"""`AuditReport` and `LedgerAudit`: the findings of audits, in numbers and in words."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ..accounting.calibration import exact, zcdp_epsilon
from ..accounting.composition import concentrated_rho
from ..accounting.ledger import PrivacyLedger
from ..guarantee import Guarantee, Unit

if TYPE_CHECKING:
    from ..releases.record import Release


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
        if not _covers(entries[entry], release.guarantee):
            findings.append(f"Entry {entry} records less than release {number} promises.")
    findings += [f"Entry {entry} pays for {times} releases." for entry, times in paid.items() if times > 1]
    # What is known to have happened: all entries, and all releases. The total may not be below either.
    for what, guarantees in (("its entries", list(entries.values())), ("the releases", promised)):
        if _spent_less(ledger, guarantees):
            findings.append(f"The ledger says that less was spent than {what} add up to.")
    return LedgerAudit(tuple(findings))


def _covers(recorded: Guarantee, promised: Guarantee) -> bool:
    """Check that a record is at least as large as the cost in every number that composition uses."""
    if recorded.adjacency is not promised.adjacency or recorded.unit is not promised.unit:
        return False
    rhos = concentrated_rho(recorded), concentrated_rho(promised)
    rho_covered = rhos[0] is None or (rhos[1] is not None and rhos[0] >= rhos[1])
    return recorded.epsilon >= promised.epsilon and recorded.delta >= promised.delta and rho_covered


def _spent_less(ledger: PrivacyLedger, guarantees: list[Guarantee]) -> bool:
    epsilon, delta = ledger.spent
    if ledger.composition == "zcdp":
        rhos = [concentrated_rho(guarantee) for guarantee in guarantees]
        total = sum((exact(rho) for rho in rhos if rho is not None), Fraction(0))
        return total > 0 and epsilon < zcdp_epsilon(float(total), ledger.delta) * (1 - 1e-12)
    sums = [
        sum((exact(part) for part in parts), Fraction(0))
        for parts in ([guarantee.epsilon for guarantee in guarantees], [guarantee.delta for guarantee in guarantees])
    ]
    return exact(epsilon) < sums[0] or exact(delta) < sums[1]
