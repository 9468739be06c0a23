"""Laws of several sites: noise drawn in shares that add up, integers modulo 2^64, so that one sum may be released.

No site and nobody who adds up is trusted with the noise of all. `FEDERATED_LAWS` is the one table.
docs/explanation/federation.md has the proofs.
"""

from typing import TYPE_CHECKING

from ...lazy import lazily

if TYPE_CHECKING:
    from .base import UNITS, FederatedLaw
    from .table import FEDERATED_LAWS

__all__ = ["FEDERATED_LAWS", "UNITS", "FederatedLaw"]

_HOMES = {"FEDERATED_LAWS": "table", "UNITS": "base", "FederatedLaw": "base"}

__getattr__, __dir__ = lazily(__name__, _HOMES)
