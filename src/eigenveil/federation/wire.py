"""The bytes of a contribution, and the reasons to refuse one.

In this order: 4 bytes "EVF1", 32 bytes fingerprint of the round, 4 bytes place of the site in it, 1 byte flags; 8 bytes
for each number, masked, modulo 2^64, the upper triangle row by row and then the single numbers; 64 bytes signature of
all before it, by the site's key.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ..errors import quoted
from ..mechanisms.base import Integers
from ..mechanisms.federated import FederatedMechanism
from .crypto import SIGNATURE_BYTES, signed, verified
from .rounds import Round, Words
from .terms import FederationError

MAGIC = b"EVF1"
SEEDED_FLAG = 1
_PRINT_AT = len(MAGIC)
_PLACE_AT = _PRINT_AT + 32
_FLAGS_AT = _PLACE_AT + 4
HEADER_BYTES = _FLAGS_AT + 1
OVERHEAD_BYTES = HEADER_BYTES + SIGNATURE_BYTES


class Objection(StrEnum):
    """Why a contribution was not taken."""

    MALFORMED = "malformed"
    """Not the bytes of a contribution to such a round: of another length, or something else altogether."""
    FOREIGN = "foreign"
    """Made for another round, or by a site that is not in this one."""
    FORGED = "forged"
    """Not signed by the site that it names: changed on the way, or sent in another's name."""
    REPEATED = "repeated"
    """The site has contributed something else before."""


class ContributionError(FederationError):
    """A contribution was refused.

    Parameters
    ----------
    objection : Objection
    site : str, optional
        Whose it is, or is said to be.
    """

    objection: Objection
    site: str | None

    def __init__(self, objection: Objection, site: str | None = None) -> None:
        self.objection, self.site = objection, site
        whose = "A contribution" if site is None else f"The contribution of the site {quoted(site)}"
        super().__init__(f"{whose} is {objection.value}: {_TOLD[objection]}.")


_TOLD = {
    Objection.MALFORMED: "it has not the bytes of one; get it anew",
    Objection.FOREIGN: "it was made for another round",
    Objection.FORGED: "its signature is not by that site; get it anew, and ask who changed it",
    Objection.REPEATED: "the site has contributed something else before",
}


@dataclass(frozen=True)
class Contribution:
    """What a site sent: masked numbers, and whether its noise came from a seed."""

    place: int
    words: Words
    seeded: bool


def n_numbers(mechanism: FederatedMechanism) -> int:
    """Return how many numbers a site sends."""
    return mechanism.n_features * (mechanism.n_features + 1) // 2 + len(mechanism.numbers)


def contribution_bytes(agreed: Round) -> int:
    """Return the length of every contribution to a round."""
    return OVERHEAD_BYTES + 8 * n_numbers(agreed.mechanism)


def to_words(mechanism: FederatedMechanism, numbers: Integers) -> Words:
    """Return the numbers of a site as one array modulo 2^64: the upper triangle, and what stands beside it."""
    matrix = numbers["matrix"]
    rows = [matrix[i, i:] for i in range(mechanism.n_features)]
    singles = [int(numbers[name]) % 2**64 for name in mechanism.numbers]
    return np.concatenate([np.concatenate(rows).view(np.uint64), np.array(singles, dtype=np.uint64)])


def from_words(mechanism: FederatedMechanism, words: Words) -> Integers:
    """Return numbers as integers from -2^63 on, the matrix with both triangles."""
    integers, d = words.view(np.int64), mechanism.n_features
    matrix = np.zeros((d, d), dtype=np.int64)
    start = 0
    for i in range(d):
        matrix[i, i:] = matrix[i:, i] = integers[start : start + d - i]
        start += d - i
    return {"matrix": matrix, **{name: np.array(integers[start + k]) for k, name in enumerate(mechanism.numbers)}}


def sealed(agreed: Round, place: int, words: Words, seeded: bool, signing: bytes) -> bytes:
    """Return the bytes of a contribution, signed."""
    header = MAGIC + bytes.fromhex(agreed.fingerprint) + place.to_bytes(4, "little")
    body = header + bytes([SEEDED_FLAG if seeded else 0]) + words.astype("<u8").tobytes()
    return body + signed(signing, body)


def opened(agreed: Round, content: bytes) -> Contribution:
    """Return what a contribution holds, or raise `ContributionError`; whether it came before is left to the caller."""
    if len(content) < OVERHEAD_BYTES or not content.startswith(MAGIC):
        raise ContributionError(Objection.MALFORMED)
    # Before the length: what was made for another round may have another one, and its reason is the round.
    if content[_PRINT_AT:_PLACE_AT] != bytes.fromhex(agreed.fingerprint):
        raise ContributionError(Objection.FOREIGN)
    if len(content) != contribution_bytes(agreed) or content[_FLAGS_AT] > SEEDED_FLAG:
        raise ContributionError(Objection.MALFORMED)
    place = int.from_bytes(content[_PLACE_AT:_FLAGS_AT], "little")
    if place >= len(agreed.members):
        raise ContributionError(Objection.FOREIGN)
    member, body = agreed.members[place], content[:-SIGNATURE_BYTES]
    if not verified(bytes.fromhex(member.signing), content[-SIGNATURE_BYTES:], body):
        raise ContributionError(Objection.FORGED, member.site)
    words = np.frombuffer(body, dtype="<u8", offset=HEADER_BYTES).astype(np.uint64)
    return Contribution(place, words, content[_FLAGS_AT] == SEEDED_FLAG)
