"""An audit of bookkeeping: whether the entries of a ledger pay for the releases that name them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from ..accounting.calibration import exact, zcdp_epsilon
from ..accounting.composition import concentrated_rho
from ..accounting.ledger import PrivacyLedger
from ..guarantee import Guarantee

if TYPE_CHECKING:
    from ..releases import Release


@dataclass(frozen=True)
class LedgerAudit:
    """What a comparison of a ledger with releases found.

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
    """Compare what releases promise with what a ledger recorded for them, and with what it says was spent.

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
    """Return whether a record is at least as large as the cost in every number that composition uses."""
    if recorded.relation is not promised.relation or recorded.unit is not promised.unit:
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
