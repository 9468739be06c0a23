"""`a + b`: two releases of one table as one, by their inverse-variance mean; what both promise adds up.

A sum of integers with public whole weights is post-processing, and what leaves is integers again. That both are of the
same rows is the caller's word: the public facts can only contradict it. The promise does not rest on it: whoever is in
one table or in both is protected by the composition of both guarantees.
"""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .accounting.composition import compose
from .errors import InvalidParameterError
from .laws.additive import AdditiveLaw
from .laws.averaged import Averaged, kind_of
from .version import __version__

if TYPE_CHECKING:
    from .releases import Release

IntArray = NDArray[np.int64]
# Weights are whole numbers whose ratio is that of the precisions, to a fraction of this denominator.
_FINEST, _LARGEST = 64, 2**20
_BITS = 62
# Facts about the making of a release that two of one table have in common.
_SAME = ("rows", "n_rows", "feature_names", "schema", "total_weight", "without_range", "mean_sd", "model")


def added(first: "Release", second: "Release") -> "Release":
    """Return the inverse-variance mean of two releases, with the guarantee of both together.

    Raises
    ------
    InvalidParameterError
        Where they cannot be of the same rows made by the same rule, are of different laws, relations or units, or are
        one release.
    """
    laws = _checked(first, second)
    kept = [_known_parts(one, law) for one, law in zip((first, second), laws, strict=True)]
    if {part["digest"] for part in kept[0]} & {part["digest"] for part in kept[1]}:
        raise InvalidParameterError("A release is in both of them, and counted twice it would tell nothing more.")
    totals = [sum(part["weight"] for part in parts) for parts in kept]
    factors = _factors(laws, totals)
    law = Averaged(
        parts=[
            part | {"weight": factor * part["weight"]}
            for factor, parts in zip(factors, kept, strict=True)
            for part in parts
        ]
    )
    integers: dict[str, IntArray] = {}
    unit: dict[str, float] = {}
    for name in first.integers:
        # An integer of the first stands for unit * (sum of its weights): the same power of two times one of the grid.
        ones = [Fraction(one.unit[name] * total) for one, total in zip((first, second), totals, strict=True)]
        least = min(ones)
        steps = [factor * round(one / least) for factor, one in zip(factors, ones, strict=True)]
        whole = [[int(value) for value in one.integers[name].ravel()] for one in (first, second)]
        sums = [steps[0] * left + steps[1] * right for left, right in zip(*whole, strict=True)]
        divisor = sum(law.weights)
        if name == "count":  # which is read as it is
            sums, divisor = [(2 * total + divisor) // (2 * divisor) for total in sums], 1
        lost = max(0, max((abs(total).bit_length() for total in sums), default=0) - _BITS)
        sums = [(total + (1 << lost >> 1)) >> lost for total in sums]
        integers[name] = np.array(sums, dtype=np.int64).reshape(first.integers[name].shape)
        unit[name] = float(least * 2**lost / divisor)
    origin = replace(
        first.origin,
        law=law.name,
        parameters=law.parameters(),
        chosen_privately=tuple(sorted({*first.origin.chosen_privately, *second.origin.chosen_privately})),
        ledger_entry=None,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
    return replace(
        first, integers=integers, unit=unit, guarantee=compose([first.guarantee, second.guarantee]), origin=origin
    )


def _checked(first: "Release", second: "Release") -> tuple[AdditiveLaw, AdditiveLaw]:
    """Return the laws of two releases that can be averaged, or refuse them in one sentence."""
    if first.origin.model != "central" or second.origin.model != "central":
        raise InvalidParameterError(
            "Only releases of the central model are averaged; reports of the local one add up in one collection."
        )
    laws = first.law, second.law
    if not isinstance(laws[0], AdditiveLaw) or not isinstance(laws[1], AdditiveLaw):
        raise InvalidParameterError("Only matrices plus noise of a known law can be averaged; directions cannot.")
    promises = first.guarantee, second.guarantee
    if promises[0].unit is not promises[1].unit or promises[0].relation is not promises[1].relation:
        raise InvalidParameterError(
            "The releases make promises about different units or relations, which do not add up; make both alike."
        )
    if kind_of(laws[0]) != kind_of(laws[1]):
        raise InvalidParameterError(
            "The releases were drawn by different laws or constants, so their integers mean different things; average "
            "what you read off them."
        )
    unlike = [name for name in _SAME if getattr(first.origin, name) != getattr(second.origin, name)]
    if unlike or first.integers.keys() != second.integers.keys() or {"map", "mean"} & first.integers.keys():
        raise InvalidParameterError(
            "The releases are not of the same rows made by the same rule"
            + (f" ({', '.join(unlike)} differ)" if unlike else "")
            + "; fit both with the same public bounds, in one stage, on one table."
        )
    return laws[0], laws[1]


def _known_parts(release: "Release", law: AdditiveLaw) -> list[dict[str, Any]]:
    if isinstance(law, Averaged):
        return list(law.parameters()["parts"])
    left = hashlib.sha256()
    for name, value in sorted(release.integers.items()):
        left.update(name.encode() + value.tobytes())
    return [{"law": law.name, "parameters": law.parameters(), "weight": 1, "digest": left.hexdigest()[:32]}]


def _factors(laws: tuple[AdditiveLaw, AdditiveLaw], totals: list[int]) -> list[int]:
    """Return by which whole numbers the weights of both are multiplied, so that they go by their precisions."""
    precisions = [Fraction(law.off_diagonal_sd) ** -2 / total for law, total in zip(laws, totals, strict=True)]
    larger = 0 if precisions[0] >= precisions[1] else 1
    ratio = min(precisions[larger] / precisions[1 - larger], Fraction(_LARGEST)).limit_denominator(_FINEST)
    factors = [ratio.denominator] * 2
    factors[larger] = ratio.numerator
    return factors
