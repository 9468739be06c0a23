"""One cell of the grid of reports, so small that a draw must be fine to hit it as often as the proof says.

At d = 2 a report is a cell of the 16-bit grid. Some are met by an arc of a few billionths, right beside a row's own
direction. A draw that keeps t = (u.x)^2 as a float near 1 has sines of 1e-8 and nothing below, and hits such a cell far
too often or never. Both rows here lie beside one such cell. Importance sampling: all draws are close to the row.
"""

import math

import numpy as np
import pytest
from scipy import special, stats

from eigenveil.mechanisms.local.directions import DIRECTION_SCALE
from eigenveil.mechanisms.local.double_cap import CapMechanism
from eigenveil.sampling import caps as caps_module
from eigenveil.sampling.caps import RoundedDirections
from statistical.constants import ALPHA

CLOSE = 25  # bits: the angle is below 2^-25 of the half width of the cap
N = 1_000_000
SCALE = 2**16  # of integer rows
CORNER = (27173, 59635)
CELL = tuple((entry + 1) // 2 for entry in CORNER)
ARC = math.acos(CORNER[0] / (2 * DIRECTION_SCALE)) - math.asin(CORNER[1] / (2 * DIRECTION_SCALE))


def row_beside(corner: tuple[int, int]) -> tuple[int, int]:
    """The longest integer row that is between 1.5 and 6.5 billionths away from the direction of the corner."""
    a, b = corner
    u = np.arange(1, SCALE)
    found = []
    for offset in (-1, 0, 1):
        v = np.rint(u * b / a).astype(np.int64) + offset
        squares = u * u + v * v
        multiple = np.sqrt(SCALE**2 // squares).astype(np.int64)
        with np.errstate(divide="ignore"):
            angle = np.abs(u * b - v * a) / np.sqrt(squares) / math.hypot(a, b)
        fits = (squares <= SCALE**2) & (v > 0) & (angle > 1.5e-9) & (angle < 6.5e-9)
        found += [
            (int(m * m * s), int(m * x), int(m * y))
            for m, s, x, y in zip(multiple[fits], squares[fits], u[fits], v[fits], strict=True)
        ]
    return max(found)[1:]


ROWS = {"corner": CORNER, "gap": row_beside(CORNER)}


def exact_draw(mechanism, row, monkeypatch):
    """Our draw within the caps, given that the uniform number behind the sine is below 2^-CLOSE; and that chance."""
    calls = []

    def words(generator, size):
        calls.append(size)
        drawn = generator.bit_generator.random_raw(size)
        return drawn >> np.uint64(CLOSE) if len(calls) % 2 else drawn  # every second call is for the coins

    monkeypatch.setattr(caps_module, "random_words", words)
    rows = np.tile(np.array(row, dtype=float), (N, 1))
    drawn = RoundedDirections(
        rows, np.ones(N, dtype=bool), mechanism.threshold, DIRECTION_SCALE, np.random.default_rng(0)
    )
    assert len(calls) % 2 == 0
    reached = (1 - mechanism.threshold) * 4.0**-CLOSE
    return drawn.integers, special.betainc(0.5, 0.5, reached) / mechanism.mass


def old_draw(mechanism, row, monkeypatch):
    """The draw of earlier versions: t by inversion from its own tail, and the sine as the root of 1 - t."""
    del monkeypatch
    generator = np.random.default_rng(0)
    uniform = np.floor(generator.random(N) * 2.0 ** (53 - CLOSE)) * 2.0**-53
    t = np.maximum(special.betainccinv(0.5, 0.5, mechanism.mass * uniform), mechanism.threshold)
    x = np.array(row) / math.hypot(*row)
    sign, side = (generator.choice([-1.0, 1.0], N)[:, None] for _ in range(2))
    across = np.array([-x[1], x[0]])
    points = side * np.sqrt(1 - t)[:, None] * across + sign * np.sqrt(t)[:, None] * x
    return np.rint(points * DIRECTION_SCALE), 2.0**-CLOSE


def log_ratio(mechanism, row, draw, monkeypatch):
    """The log of P(cell | row)/P(cell | a row whose caps it is not in), with the ends of its confidence interval."""
    integers, chance = draw(mechanism, row, monkeypatch)
    hits = stats.binomtest(int((integers == CELL).all(axis=1).sum()), N).proportion_ci(1 - ALPHA)
    gain = math.expm1(mechanism.epsilon) * mechanism.mass
    kept = (row[0] ** 2 + row[1] ** 2) / SCALE**2
    uniform = ARC / (2 * math.pi)
    outside = uniform / (1 + gain)

    def of(share):
        inside = (gain * share * chance + uniform) / (1 + gain)
        return math.log((kept * inside + (1 - kept) * uniform) / outside)

    return of(hits.low), of(hits.high)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("epsilon", [0.1, pytest.param(1.0, marks=pytest.mark.heavy)])
def test_the_smallest_cell_is_hit_as_often_as_the_proof_says(epsilon, row, monkeypatch):
    mechanism = CapMechanism.best(2, epsilon)
    low, high = log_ratio(mechanism, row, exact_draw, monkeypatch)
    kept = (row[0] ** 2 + row[1] ** 2) / SCALE**2
    wanted = math.log(1 + kept * math.expm1(epsilon))
    assert low < wanted < high
    assert low < epsilon
    assert high - low < 0.1  # the interval is short enough to tell


def test_the_old_draw_is_caught(monkeypatch):
    """The control: more than epsilon at one of the two rows."""
    mechanism = CapMechanism.best(2, 1.0)
    lows = [log_ratio(mechanism, row, old_draw, monkeypatch)[0] for row in ROWS.values()]
    assert max(lows) > 1.0 + 1
