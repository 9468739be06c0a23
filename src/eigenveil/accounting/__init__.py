"""Privacy arithmetic: sensitivities, calibration, composition, and the ledger of what was spent."""

from .calibration import exact, zcdp_delta, zcdp_epsilon, zcdp_rho
from .composition import compose
from .ledger import LedgerEntry, PrivacyLedger

__all__ = ["LedgerEntry", "PrivacyLedger", "compose", "exact", "zcdp_delta", "zcdp_epsilon", "zcdp_rho"]
