"""Privacy arithmetic: sensitivities, calibration, composition, and the ledger of what was spent.

Names are loaded when they are asked for: a number of the calibration does not wait for SQLite.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .calibration import exact, zcdp_epsilon, zcdp_rho
    from .composition import compose
    from .ledger import LedgerEntry, PrivacyLedger


__all__ = ["LedgerEntry", "PrivacyLedger", "compose", "exact", "zcdp_epsilon", "zcdp_rho"]

_HOMES = {
    "LedgerEntry": "ledger",
    "PrivacyLedger": "ledger",
    "compose": "composition",
    "exact": "calibration",
    "zcdp_epsilon": "calibration",
    "zcdp_rho": "calibration",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
