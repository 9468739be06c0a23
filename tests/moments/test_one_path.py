"""A row takes the same path whatever its length: two neighbouring tables lead to the same calls, one by one.

Measured in time by benchmarks/timing_channel.py; here calls are counted, which do not depend on the machine.
"""

import gc
import sys

import numpy as np
import pytest
import scipy.sparse

from eigenveil import RowBound, SecondMoments
from eigenveil.moments import bound as bounds
from eigenveil.moments import kernels, sums
from eigenveil.moments.bound import integer_map, mapped_bound
from eigenveil.moments.comparisons import NeighbourDifferences
from eigenveil.moments.counts import MappedSizes, RowSizes
from eigenveil.moments.sums import SumsByNorm
from eigenveil.moments.units import Weighted
from made_units import blocks_of

N, D = 40, 5
BOUND = RowBound(1.0)
CENTRED = RowBound(1.0, shift=(0.1,) * D, constant=0.5)
MAP = integer_map(np.diag([1.0, 0.5, 0.5, 0.25, 0.25]))


def table(*lengths):
    """Return rows well within the bound, but for some of these lengths along an axis."""
    rows = np.random.default_rng(0).normal(size=(N, D)) / 16
    for place, length in enumerate(lengths):
        rows[7 + 5 * place] = np.eye(D)[1] * length
    return rows


def persons(rows):
    return blocks_of(np.split(rows, [3, 12, 30]))


MOMENTS = {
    "dense": lambda rows: SecondMoments(BOUND, D).update(rows),
    "with a constant": lambda rows: SecondMoments(CENTRED, D).update(rows),
    "by columns": lambda rows: SecondMoments(BOUND, D).update(np.asfortranarray(rows)),
    "of 32 bits": lambda rows: SecondMoments(BOUND, D).update(np.clip(rows, -1e30, 1e30).astype(np.float32)),
    "wide": lambda rows: SecondMoments(BOUND, 1030).update(np.tile(rows, 206) * np.repeat(np.eye(206)[0], D)),
    "sparse": lambda rows: SecondMoments(BOUND, D).update(scipy.sparse.csr_array(rows)),
    "sparse, shifted": lambda rows: SecondMoments(CENTRED, D).update(scipy.sparse.csr_array(rows)),
    "weighted": lambda rows: SecondMoments(RowBound(1.0, most_weight=1.0), D).update(Weighted(rows, np.ones(N))),
    "in batches": lambda rows: SecondMoments(BOUND, D).update(rows[:20]).update(rows[20:]),
    "directions": lambda rows: SecondMoments(RowBound(1.0, statistic="normalized"), D).update(rows),
    "persons": lambda rows: SecondMoments(RowBound(1.0, unit_weight="equal"), D).update(persons(rows)),
    "pooled": lambda rows: SecondMoments(RowBound(1.0, unit_weight="by_rows"), D).update(persons(rows)),
    "mapped": lambda rows: SecondMoments(mapped_bound(BOUND, MAP, 0.5), D).update(rows),
    "mapped norms": lambda rows: MappedSizes(BOUND, MAP).update(rows),
}
COUNTS = {
    "norms": lambda rows: RowSizes(None, None).update(rows),
    "norms, scaled": lambda rows: RowSizes(np.zeros(D), np.ones(D)).update(rows),
    "sums by norm": lambda rows: SumsByNorm(BOUND, D).update(rows),
}


@pytest.fixture(params=["compiled", "numpy"])
def passes(request, monkeypatch):
    """Read rows by the compiled kernels and by NumPy."""
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "compiled", lambda: None)


def calls(read, rows):
    """Return the names of all functions that are called, in order."""
    read(rows)  # once before: some things are kept for the next time
    seen = []

    def note(frame, event, called):
        if event in ("call", "c_call"):
            seen.append(called.__name__ if event == "c_call" else frame.f_code.co_name)

    before = sys.getprofile()
    gc.disable()  # which would call what has nothing to do with rows
    sys.setprofile(note)
    try:
        read(rows)
    finally:
        sys.setprofile(before)
        gc.enable()
    return seen


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.usefixtures("passes")
def test_the_length_of_a_row_leads_to_no_other_call(name):
    """A row within the bound, at it, beyond it, and beyond 1,448 times it, where squares are not exact any more."""
    ordinary = calls(MOMENTS[name], table(0.5))
    for lengths in ((1.0,), (2.0,), (1447.0,), (1e6,), (1e300,), (1e-300,), (0.0,), (1e6, 1e5)):
        assert calls(MOMENTS[name], table(*lengths)) == ordinary


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.usefixtures("passes")
def test_a_norm_on_a_step_of_the_grid_leads_to_no_other_call(name):
    ordinary = calls(COUNTS[name], table(0.99))
    for lengths in ((1.0,), (2.0**0.125,), (0.0,), (1e-300,), (1e300,), (1.0, 2.0)):
        assert calls(COUNTS[name], table(*lengths)) == ordinary


def test_extreme_differences_lead_to_no_other_call():
    def read(rows):
        ring = NeighbourDifferences(RowBound(1.0, statistic="spatial_sign", comparisons=2))
        return [*ring.push(rows), *ring.closing()]

    ordinary = calls(read, table(0.5))
    for length in (1e300, 1e-320, 0.0):
        assert calls(read, table(length)) == ordinary


@pytest.mark.parametrize("length", [0.5, 1e6])
def test_long_rows_of_several_blocks_are_brought_to_the_bound_at_once(monkeypatch, length):
    """However many blocks have none of them, and however many have some."""
    monkeypatch.setattr(sums, "_BLOCK_ENTRIES", D)
    rescaled, together = [], bounds._rescaled

    def counted(*arguments):
        rescaled.append(len(arguments[1]))
        return together(*arguments)

    monkeypatch.setattr(bounds, "_rescaled", counted)
    rows = np.tile(table(length), (4, 1))
    moments = SecondMoments(BOUND, D).update(rows)
    blocks = -(-len(rows) // (4 * D))
    compiled = kernels.compiled()
    at_once = 1 if compiled is None or not compiled.multiplies else sums._BLOCKS_TOGETHER
    assert len(rescaled) == -(-blocks // at_once)
    quantized = BOUND.quantize(rows)
    assert np.array_equal(moments.gram, quantized.T @ quantized)
