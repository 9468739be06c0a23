"""Lower bounds on epsilon from the outputs of the code as it runs: what a mechanism cannot be, shown by drawing.

An audit makes its own data: it has no way to rows, moments or the gate.
"""

from .lower_bound import Event, LowerBound, epsilon_lower_bound
from .neighbours import Neighbours
from .report import AuditReport, LedgerAudit, audit_ledger
from .run import audit
from .subjects import EstimatorSubject, MechanismSubject, Subject, UnitSubject, unit_neighbours

__all__ = [
    "AuditReport",
    "EstimatorSubject",
    "Event",
    "LedgerAudit",
    "LowerBound",
    "MechanismSubject",
    "Neighbours",
    "Subject",
    "UnitSubject",
    "audit",
    "audit_ledger",
    "epsilon_lower_bound",
    "unit_neighbours",
]
