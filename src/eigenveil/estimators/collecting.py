"""From a source to private statistics, and from these to a preparation that was paid for."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import gate
from ..accounting.calibration import exact
from ..errors import own_words
from ..guarantee import Guarantee
from ..moments import SecondMoments
from ..rows.differences import PairDirections
from ..rows.norm_counts import LADDER, RowSizes
from ..sources import collect
from ..sources.progress import tracked_batches
from .preparation import FloatArray, RowPreparation

NORM_QUANTILE = 0.8
"""The quantile of row norms that a private bound aims at."""
SCALE_QUANTILE = 0.7
"""The quantile of a feature's size that a private scale aims at: about one standard deviation for a Gaussian."""


@own_words
def collected_moments(source: Any, preparation: RowPreparation, pairs: PairDirections) -> SecondMoments:
    """Return the exact moments of all rows of a source; `pairs` keeps the odd row between calls."""
    make = partial(SecondMoments, preparation.bound, source.n_features, source.feature_names)
    if preparation.rows == "pairs":
        return make().update_from(_directions(source, pairs))
    moments: SecondMoments = collect(source, make)
    return moments


def _directions(source: Any, pairs: PairDirections) -> Iterator[FloatArray]:
    for batch in tracked_batches(source):
        directions = pairs.push(batch)
        if directions.shape[0]:
            yield directions


def row_sizes(source: Any, preparation: RowPreparation, progress: bool | None = None) -> RowSizes:
    """Return counts of the norms of rows, or of the sizes of features where these are to be found first."""
    features = source.n_features if preparation.standardize else None
    make = partial(RowSizes, preparation.shift, preparation.scale, features)
    sizes: RowSizes = collect(source, make, progress)
    return sizes


def found_privately(
    source: Any,
    preparation: RowPreparation,
    counts: RowSizes,
    choices: Mapping[str, Guarantee],
    generator: np.random.Generator,
) -> RowPreparation:
    """Return the preparation with scales and norm chosen privately, which has been paid for."""
    if "feature_scale" in choices:
        epsilon = exact(choices["feature_scale"].epsilon)
        sizes = gate.choose_magnitudes(counts, SCALE_QUANTILE, epsilon, generator)
        # A feature that is mostly zero has no size to divide by; it must not be blown up.
        preparation = preparation.divided_by(np.where(sizes > LADDER[0], sizes, sizes.max()))
        counts = row_sizes(source, preparation, progress=False) if "norm_bound" in choices else counts
    if "norm_bound" in choices:
        epsilon = exact(choices["norm_bound"].epsilon)
        return preparation.with_norm(float(gate.choose_magnitudes(counts, NORM_QUANTILE, epsilon, generator)[0]))
    return preparation
