"""The ledger of a command that fits; by itself, since it loads NumPy, which help does not wait for."""

from os import PathLike

from ..accounting.ledger import LedgerEntry, PrivacyLedger
from ..guarantee import Guarantee
from .terminal import HeldSignals


class ChargedLedger(PrivacyLedger):
    """A ledger at whose charge `signals` begin to wait; see `HeldSignals`."""

    def __init__(self, path: str | PathLike[str]) -> None:
        super().__init__(path)
        self.signals: HeldSignals = HeldSignals(self.path)

    def spend(self, guarantee: Guarantee, what: str) -> LedgerEntry:
        """Record a spend, with signals held from before it on."""
        self.signals.hold()
        try:
            made = super().spend(guarantee, what)
        except Exception:
            self.signals.let_go()  # nothing was spent
            raise
        self.signals.entry = made.entry
        return made


def signals_of(ledger: PrivacyLedger | None) -> HeldSignals:
    """Return the signals that wait from the charge of a ledger on; without one, those of a command that only draws."""
    return ledger.signals if isinstance(ledger, ChargedLedger) else HeldSignals()
