"""Lower bounds on epsilon from the outputs of the code as it runs.

An audit makes its own data: it has no way to rows, moments or the gate.
"""

from .lower_bound import Event, LowerBound, epsilon_lower_bound
from .neighbours import Neighbours
from .run import AuditReport, LedgerAudit, audit, audit_ledger
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
