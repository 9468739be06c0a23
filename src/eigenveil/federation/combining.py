"""From the contributions of all sites to one `Release`. No key is needed: whoever combines sees the sum alone."""

from collections.abc import Iterable
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

import numpy as np

from .. import __version__
from ..guarantee import Adjacency
from ..mechanisms.base import Integers
from ..mechanisms.federated import UNITS
from ..releases.origin import Collection, Origin
from ..releases.record import Release
from .rounds import Round
from .terms import FederationError
from .wire import Contribution, ContributionError, Objection, contribution_bytes, from_words, n_numbers, opened

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
    n = (
        int(sums[UNITS])
        if mechanism.adjacency is Adjacency.REPLACE_ONE
        else _noisy_units(sums, grid, reach, mechanism.n_features)
    )
    inside = 1 <= n <= most + 2 * reach * (mechanism.n_features + 2) / grid
    whole = n * grid
    inside &= bool((diagonal >= -reach).all() and (diagonal <= whole + reach).all())
    inside &= bool((np.abs(matrix - np.diag(diagonal)) <= whole / 2 + reach).all())
    inside &= float(diagonal.sum()) <= whole + mechanism.n_features * reach
    if mechanism.adjacency is Adjacency.REPLACE_ONE and rule.constant is not None and rule.knows_corner:
        inside &= abs(float(diagonal[-1]) - n * rule.constant_units**2) <= reach
    if not inside:
        raise FederationError(OUT_OF_RANGE)


def _noisy_units(sums: Integers, grid: int, reach: float, width: int) -> float:
    """Return a number that the units of all sites do not pass, by what leaves of it."""
    if "count" in sums:
        return (float(sums["count"]) + reach) / grid + 1
    return (float(sums["slack"]) + float(np.trace(sums["matrix"].astype(np.float64))) + (width + 1) * reach) / grid + 1


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
