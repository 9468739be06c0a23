"""Lower bounds on epsilon from the outputs of the code as it runs: what a mechanism cannot be, shown by drawing."""

from .ledger import LedgerAudit, audit_ledger
from .lower_bound import Event, LowerBound, epsilon_lower_bound
from .pairs import Pair
from .report import AuditReport
from .run import audit
from .targets import EstimatorTarget, MechanismTarget, Target

__all__ = [
    "AuditReport",
    "EstimatorTarget",
    "Event",
    "LedgerAudit",
    "LowerBound",
    "MechanismTarget",
    "Pair",
    "Target",
    "audit",
    "audit_ledger",
    "epsilon_lower_bound",
]
