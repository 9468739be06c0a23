"""Local mechanisms: what one client reports, and what a server reads off the sums of reports.

`LOCAL_MECHANISMS` is the one table. A local mechanism is a function of plain parameters: it knows of no protocol, no
file and no row but the integer rows that a client hands to `LocalMechanism.perturb`. Names are loaded when they are
asked for.
"""

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .base import LocalMechanism, Totals
    from .table import LOCAL_MECHANISMS, best_local_mechanism, local_mechanism_from


__all__ = ["LOCAL_MECHANISMS", "LocalMechanism", "Totals", "best_local_mechanism", "local_mechanism_from"]

_HOMES = {
    "LOCAL_MECHANISMS": "table",
    "LocalMechanism": "base",
    "Totals": "base",
    "best_local_mechanism": "table",
    "local_mechanism_from": "table",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
