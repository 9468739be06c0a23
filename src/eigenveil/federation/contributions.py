"""Contributions to a round: their bytes, the reasons to refuse one, and the `Release` that all of them make.

A contribution is, in this order: 4 bytes "EVF1", 32 bytes fingerprint of the round, 4 bytes place of the site in it,
1 byte flags; 8 bytes for each number, masked, modulo 2^64, the upper triangle row by row and then the single numbers;
64 bytes signature of all before it, by the site's key. No key is needed to combine: whoever does sees the sum alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from os import PathLike
from pathlib import Path

import numpy as np

from .. import __version__
from ..errors import quoted
from ..guarantee import Adjacency
from ..mechanisms.base import Integers
from ..mechanisms.federated import UNITS, FederatedMechanism
from ..releases.origin import Collection, Origin
from ..releases.record import Release
from .crypto import SIGNATURE_BYTES, signed, verified
from .rounds import FederationError, Round, Words

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
    """The masked numbers of one site, and whether their noise came from a seed."""

    place: int
    words: Words
    seeded: bool


def n_numbers(mechanism: FederatedMechanism) -> int:
    """Return the number of integers in a contribution: an upper triangle, and single numbers beside it."""
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
    """Read and check the bytes of a contribution, or raise `ContributionError`; the caller looks for repetitions."""
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


OUT_OF_RANGE = (
    "The sum is not one that so many rows and this noise can have, so there is no release: some site contributed what "
    "it must not, masked numbers do not tell which, and the round has to be repeated with fresh keys."
)


def combine(agreed: Round, contributions: Iterable[bytes | str | PathLike[str]]) -> Release:
    """Return the release of a closed round from one contribution of every site: bytes, or files.

    Every contribution is checked for its round, its site and its signature, each site counts once, and the sum is
    checked for its range. It costs nothing: what is combined is private already.

    Parameters
    ----------
    agreed : Round
        Closed.
    contributions : iterable of bytes or paths
        One of every site, in any order.
    """
    total = np.zeros(n_numbers(agreed.mechanism), dtype=np.uint64)
    seen: set[int] = set()
    seeded = False
    for content in contributions:
        one = _read(agreed, content)
        if one.place in seen:
            raise ContributionError(Objection.REPEATED, agreed.sites[one.place])
        seen.add(one.place)
        total += one.words
        seeded |= one.seeded
    missing = [site for place, site in enumerate(agreed.sites) if place not in seen]
    if missing:
        raise FederationError(
            f"Contributions are missing from {', '.join(missing)}: wait for them, or repeat the round without them and "
            "with fresh keys."
        )
    sums = from_words(agreed.mechanism, total)
    _check_range(agreed, sums)
    return _released(agreed, sums, seeded)


def _read(agreed: Round, content: bytes | str | PathLike[str]) -> Contribution:
    if isinstance(content, bytes):
        return opened(agreed, content)
    longest = contribution_bytes(agreed)
    try:
        with open(Path(content), "rb") as file:
            return opened(agreed, file.read(longest + 1))
    except OSError as error:
        raise FederationError(f"The contribution {content} cannot be read: {error.strerror}.") from error
    except ContributionError as error:
        error.args = (f"{content}: {error}",)
        raise


def _check_range(agreed: Round, sums: Integers) -> None:
    """Refuse a sum that honest sites cannot have but with a chance below exp(-300); a function of what leaves anyway.

    Units add positive semidefinite matrices of trace at most the grid: so entries on the diagonal are from 0 to n times
    that, and those beside it half as large.
    """
    mechanism, rule = agreed.mechanism, agreed.terms.row_rule
    grid, reach = rule.limit_squared, mechanism.noise_reach * rule.limit_squared
    matrix = sums["matrix"].astype(np.float64)
    diagonal = matrix.diagonal()
    most = mechanism.n_sites * mechanism.site_capacity(grid)
    if mechanism.adjacency is Adjacency.REPLACE_ONE:
        n: float = int(sums[UNITS])
    elif "count" in sums:  # noisy, as the others: numbers that the units of all sites do not pass
        n = (float(sums["count"]) + reach) / grid + 1
    else:
        n = (float(sums["slack"]) + float(diagonal.sum()) + (mechanism.n_features + 1) * reach) / grid + 1
    inside = 1 <= n <= most + 2 * reach * (mechanism.n_features + 2) / grid
    whole = n * grid
    inside &= bool((diagonal >= -reach).all() and (diagonal <= whole + reach).all())
    inside &= bool((np.abs(matrix - np.diag(diagonal)) <= whole / 2 + reach).all())
    inside &= float(diagonal.sum()) <= whole + mechanism.n_features * reach
    if mechanism.adjacency is Adjacency.REPLACE_ONE and rule.constant is not None and rule.knows_corner:
        inside &= abs(float(diagonal[-1]) - n * rule.constant_units**2) <= reach
    if not inside:
        raise FederationError(OUT_OF_RANGE)


def _released(agreed: Round, sums: Integers, seeded: bool) -> Release:
    mechanism, terms = agreed.mechanism, agreed.terms
    integers = mechanism.combined(sums, terms.row_rule.limit_squared)
    units = mechanism.units(terms.row_rule.limit_squared, terms.row_rule.unit_squared)
    guarantee = agreed.guarantee()
    origin = Origin(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        row_rule=terms.row_rule,
        n_rows=int(sums[UNITS]) if UNITS in sums else None,
        feature_names=terms.schema.feature_names,
        model="federated",
        request=terms.request,
        collection=Collection(agreed.fingerprint, sites=agreed.sites),
        schema=terms.schema,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
    return Release(
        integers,
        {name: units[name] for name in integers},
        guarantee.marked_reproducible() if seeded else guarantee,
        origin,
    )
