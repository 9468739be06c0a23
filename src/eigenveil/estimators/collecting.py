"""From a source to private statistics, and from these to a preparation that was paid for."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from .. import gate
from ..errors import own_words
from ..moments import SecondMoments
from ..rows.column_counts import ColumnCounts
from ..rows.mixing import MixedRing
from ..rows.norm_counts import RowSizes
from ..rows.sums import SumsByNorm
from ..sources import collect
from .preparation import CHOICES, FloatArray, RowPreparation
from .ranging import found_ranges, rows_to_compare
from .spend_plan import SpendPlan

_SIZES = f"finding {CHOICES['norm_bound']}"
ADDING = "adding up rows"
"""What rows are read for in the end, in words for a progress bar."""


@own_words
def collected_moments(source: Any, preparation: RowPreparation, ring: MixedRing) -> SecondMoments:
    """Return the exact moments of all rows of a source; `ring` keeps those that are not yet compared with all."""
    make = partial(SecondMoments, preparation.bound, source.n_features, source.feature_names)
    if preparation.bound.compares:
        return make().update_from(_comparisons(source, ring))
    moments: SecondMoments = collect(source, make, purpose=ADDING)
    return moments


def _comparisons(source: Any, ring: MixedRing) -> Iterator[FloatArray]:
    for batch in rows_to_compare(source, ADDING):
        yield from (part for part in ring.push(batch) if part.shape[0])


def whole_moments(source: Any, preparation: RowPreparation) -> SecondMoments:
    """Return the exact moments of all rows of a source, to which no more will come."""
    ring = MixedRing(preparation.bound)
    return with_ring_closed(collected_moments(source, preparation, ring), ring)


def with_ring_closed(moments: SecondMoments, ring: MixedRing) -> SecondMoments:
    """Return the moments with the last rows compared with the first; `moments` and `ring` stay open for more rows."""
    if not moments.bound.compares:
        return moments
    seam = SecondMoments(moments.bound, moments.n_features, moments.feature_names)
    return moments + seam.update_from(ring.closing())


def row_sizes(source: Any, preparation: RowPreparation, progress: bool | None = None) -> RowSizes:
    """Return counts of the norms of rows."""
    make = partial(RowSizes, preparation.shift, preparation.scale, person_weight=preparation.person_weight)
    sizes: RowSizes = collect(source, make, progress, _SIZES)
    return sizes


def sums_by_norm(source: Any, preparation: RowPreparation, progress: bool | None = None) -> SumsByNorm:
    """Return counts of the norms of rows, and what their mean under any bound is found from."""
    make = partial(SumsByNorm, preparation.without_constant.bound, source.n_features)
    sums: SumsByNorm = collect(source, make, progress, f"{_SIZES} and the mean")
    return sums


def found_privately(
    source: Any,
    plan: SpendPlan,
    preparation: RowPreparation,
    counts: RowSizes | ColumnCounts,
    generator: np.random.Generator,
) -> tuple[RowPreparation, RowSizes]:
    """Return the preparation with ranges and norm chosen privately, which has been paid for, and counts of its rows."""
    if isinstance(counts, ColumnCounts):
        if preparation.ranges:  # else they were counted for a plan of more rows than there are
            preparation = preparation.within(*found_ranges(source, counts, plan.cost("bounds"), generator))
        counts = (sums_by_norm if plan.measures_mean else row_sizes)(source, preparation, progress=False)
    beyond, epsilon = plan.rows_beyond(counts.n_rows), plan.cost("norm_bound")
    norm = float(gate.choose_magnitudes(counts, beyond, epsilon, generator)[0])
    return preparation.with_norm(norm), counts
