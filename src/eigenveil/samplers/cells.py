"""Cells under a normal density: proposals by a table of 16 bits, and bounds on the coins that thin them out.

Lazy normals and discrete Gaussian numbers are both proposed here, in units of their standard deviation. Cell k begins
at k/16 and is proposed with probability m_k/2¹⁶, m_k = ⌈c·exp(−(k/16)²/2)⌉; a number z within it is kept with
probability (c/m_k)·exp(−z²/2) <= 1. What is kept is then in proportion to exp(−z²/2) everywhere.
"""

import decimal
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

CELL_BITS = 16
TABLE_CELLS = 128
"""Cells below |z| = 8. The last entry of the table stands for all beyond, cell 128 + j with probability 2^-(j + 1)."""
_NEVER = 255


def _tables() -> tuple[int, NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint32]]:
    """Return c, the weights m of the cells, the cell of every 16-bit word, and bounds on when a coin falls.

    A 16-bit prefix of the coin's uniform number below `sure` keeps a proposal, one from `never` on does not.
    """
    with decimal.localcontext(prec=40):
        height = [(-((decimal.Decimal(k) / 16) ** 2) / 2).exp() for k in range(TABLE_CELLS + 1)]
        hair = decimal.Decimal("1e-30")  # more than the rounding of all that is below
        # The largest c whose weights fit: they grow with it, so halving the interval finds it.
        c, too_large = 1, 2**CELL_BITS
        while too_large - c > 1:
            middle = (c + too_large) // 2
            fits = sum(math.ceil(middle * h + hair) for h in height[:-1]) + 1 <= 2**CELL_BITS
            c, too_large = (middle, too_large) if fits else (c, middle)
        weights = [math.ceil(c * h + hair) for h in height[:-1]] + [1]
        sure, never = np.zeros(256, np.uint16), np.zeros(256, np.uint32)
        for k in range(TABLE_CELLS):
            sure[k] = math.floor(2**16 * c * height[k + 1] / weights[k] * (1 - hair))
            never[k] = min(2**16, math.ceil(2**16 * c * height[k] / weights[k] * (1 + hair)))
        never[TABLE_CELLS] = 1  # far below 2^-16, decided exactly
    cell = np.full(2**CELL_BITS, _NEVER, np.uint8)
    cell[: sum(weights)] = np.repeat(np.arange(TABLE_CELLS + 1, dtype=np.uint8), weights)
    return c, np.array(weights + [1] * (255 - TABLE_CELLS), np.int64), cell, sure, never


HEIGHT, WEIGHTS, CELL, _SURE, UNSURE_BELOW = _tables()
RATIO = HEIGHT / WEIGHTS
# By the 16 bits that choose the cell, which saves a step.
SURE_BY_WORD = _SURE[CELL]


def settled_cell(cell: int, generator: np.random.Generator) -> tuple[int, Fraction]:
    """Return the number of a cell, drawn now if it is beyond the table, and its c/m."""
    beyond = 0
    if cell == TABLE_CELLS:
        while generator.integers(0, 2):
            beyond += 1
        return cell + beyond, Fraction(HEIGHT * 2 ** (beyond + 1))
    return cell, Fraction(HEIGHT, int(WEIGHTS[cell]))
