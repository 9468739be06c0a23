"""From the parameters of an estimator to the rule of the rows, and what finding it out will cost."""

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, positive_number
from ..rows import RowBound
from ..rows.norm_counts import LADDER

FloatArray = NDArray[np.float64]

NORM_SHARE = Fraction(1, 10)
"""Share of epsilon for a privately chosen norm bound."""
STANDARDIZE_SHARE = Fraction(1, 5)
"""Share of epsilon for privately chosen feature scales."""
CHOICES = {"feature_scale": "the sizes of the features", "norm_bound": "the norm bound"}
"""What may be chosen privately, in words."""
_SMALLEST_UNIT = 1e-140


@dataclass(frozen=True, eq=False)
class RowPreparation:
    """Where the rows are mapped to; what is None or asked for by `standardize` is found privately.

    Parameters
    ----------
    rows : {"clip", "pairs"}
    shift, scale : ndarray, optional
        Public location and scale of every feature.
    norm : float, optional
        Bound on the norm of a row.
    standardize : bool
        Find the sizes of the features, and divide by them.
    center : bool
        Append a constant, so that the mean is part of the release.
    """

    rows: str = "clip"
    shift: FloatArray | None = None
    scale: FloatArray | None = None
    norm: float | None = None
    standardize: bool = False
    center: bool = False

    def costs(self, epsilon: Fraction) -> dict[str, Fraction]:
        """Return what the private choices cost, by what is chosen."""
        shares = {"feature_scale": STANDARDIZE_SHARE if self.standardize else Fraction(0)}
        shares["norm_bound"] = NORM_SHARE if self.norm is None else Fraction(0)
        return {name: epsilon * share for name, share in shares.items() if share}

    def divided_by(self, sizes: FloatArray) -> "RowPreparation":
        """Return the preparation with the features divided by sizes that were found."""
        return replace(self, scale=1 / sizes if self.scale is None else self.scale / sizes, standardize=False)

    def with_norm(self, norm: float) -> "RowPreparation":
        """Return the preparation with a norm bound that was found."""
        return replace(self, norm=norm)

    def check_choices(self) -> None:
        """Refuse, before anything is spent, what some outcome of the private choices could not be combined with."""
        ends = LADDER[0], LADDER[-1]
        for size, norm in itertools.product(
            ends if self.standardize else (None,), ends if self.norm is None else (None,)
        ):
            chosen = self if size is None else self.divided_by(np.full(1, size) if self.scale is None else size)
            _ = (chosen if norm is None else chosen.with_norm(norm)).bound

    @property
    def bound(self) -> RowBound:
        """The rule at work; with norm 1 where it is not found yet, on the same grid."""
        norm = 1.0 if self.norm is None else self.norm
        # What is read off a release is in squared units, which must not overflow or vanish once it is paid for.
        units = np.append(1.0 if self.scale is None else self.scale, norm)
        if not ((units > _SMALLEST_UNIT) & (units < 1 / _SMALLEST_UNIT)).all():
            raise InvalidParameterError("norm and scale are too far apart for float64; give both in units nearer to 1.")
        return RowBound(
            norm,
            shift=None if self.shift is None else tuple(self.shift),
            scale=None if self.scale is None else tuple(self.scale),
            constant=norm / 2 if self.center else None,
            rows=self.rows,
        )


def public_preparation(
    d: int, rows: str, *, norm_bound: Any, bounds: Any, feature_scale: Any, standardize: bool, center: bool
) -> RowPreparation:
    """Read the public bounds for rows of d features."""
    if rows == "pairs":
        if center or standardize or norm_bound is not None or bounds is not None:
            raise InvalidParameterError(
                "rows='pairs' needs no norm_bound, bounds, center or standardize; leave them out."
            )
        return RowPreparation(rows, scale=_feature_scale(feature_scale, d), norm=1.0)
    norm = None if norm_bound is None else positive_number("norm_bound", norm_bound)
    if bounds is None:
        return RowPreparation(rows, None, _feature_scale(feature_scale, d), norm, bool(standardize), bool(center))
    if feature_scale is not None or standardize:
        raise InvalidParameterError("bounds already scale the features; leave out feature_scale and standardize.")
    low, high = _bounds(bounds, d)
    # Features map to [-1, 1], so no row is longer than sqrt(d).
    norm = d**0.5 if norm is None else norm
    return RowPreparation(rows, (low + high) / 2, 2 / (high - low), norm, False, bool(center))


def rows_pass_once(estimator: Any) -> bool:
    """Return whether nothing about the rows must be found out before they are collected."""
    public = estimator.rows == "pairs" or estimator.norm_bound is not None or estimator.bounds is not None
    if not public or estimator.standardize:
        raise AttributeError("partial_fit needs a public norm_bound or bounds and no standardize.")
    return True


def _feature_scale(feature_scale: Any, d: int) -> FloatArray | None:
    if feature_scale is None:
        return None
    sizes = np.atleast_1d(np.asarray(feature_scale, dtype=np.float64))
    if not (np.isfinite(sizes).all() and (sizes > 0).all()) or sizes.size not in (1, d):
        raise InvalidParameterError("feature_scale must be one number above 0, or one for every feature.")
    return np.asarray(1 / np.broadcast_to(sizes, d))


def _bounds(bounds: Any, d: int) -> tuple[FloatArray, FloatArray]:
    try:
        low, high = (np.broadcast_to(np.asarray(side, dtype=np.float64), d) for side in bounds)
    except (TypeError, ValueError):
        raise InvalidParameterError("bounds must be (low, high), each one number or one for every feature.") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise InvalidParameterError("bounds must be finite, with low below high for every feature.")
    return low, high
