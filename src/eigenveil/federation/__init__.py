"""One release from several data owners: no site shares rows, and whoever combines sees only the sum.

`invite` drafts the public terms, `SiteKeys` joins, `Round.close` binds all of it by a fingerprint, `contribute` runs at
every site, and `combine` makes the release. `eigenveil.interop.flower` runs a round inside Flower. Names are loaded
when they are asked for. Keys, signatures and masks are those of the package `cryptography`, an extra.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .contributions import ContributionError, Objection, combine
    from .rounds import FederationError, Member, Round, SiteKeys, Terms
    from .site import contribute, invite


__all__ = [
    "ContributionError",
    "FederationError",
    "Member",
    "Objection",
    "Round",
    "SiteKeys",
    "Terms",
    "combine",
    "contribute",
    "invite",
]

# No module may have the name of a function here: importing it would put the module in the function's place.
_HOMES = {
    "ContributionError": "contributions",
    "FederationError": "rounds",
    "Member": "rounds",
    "Objection": "contributions",
    "Round": "rounds",
    "SiteKeys": "rounds",
    "Terms": "rounds",
    "combine": "contributions",
    "contribute": "site",
    "invite": "site",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
