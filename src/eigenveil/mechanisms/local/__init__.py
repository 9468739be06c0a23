"""Local laws: what one client reports, and what a server reads off the sums of reports.

`LOCAL_LAWS` is the one table. A local law is a function of plain parameters: it knows of no protocol, no file and no
row but the integer rows that a client hands to `LocalLaw.perturb`. Names are loaded when they are asked for.
"""

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .base import LocalLaw, Totals
    from .table import LOCAL_LAWS, best_local_law, local_law_from


__all__ = ["LOCAL_LAWS", "LocalLaw", "Totals", "best_local_law", "local_law_from"]

_HOMES = {
    "LOCAL_LAWS": "table",
    "LocalLaw": "base",
    "Totals": "base",
    "best_local_law": "table",
    "local_law_from": "table",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
