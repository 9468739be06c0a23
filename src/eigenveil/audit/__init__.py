"""Lower bounds on epsilon from the outputs of the code as it runs: what a law cannot be, shown by drawing.

An audit makes its own data: it has no way to rows, moments or the gate.
"""

from .ledger import LedgerAudit, audit_ledger
from .lower_bound import Event, LowerBound, epsilon_lower_bound
from .neighbours import Neighbours
from .persons import PersonSubject, person_neighbours
from .report import AuditReport
from .run import audit
from .subjects import EstimatorSubject, LawSubject, Subject

__all__ = [
    "AuditReport",
    "EstimatorSubject",
    "Event",
    "LawSubject",
    "LedgerAudit",
    "LowerBound",
    "Neighbours",
    "PersonSubject",
    "Subject",
    "audit",
    "audit_ledger",
    "epsilon_lower_bound",
    "person_neighbours",
]
