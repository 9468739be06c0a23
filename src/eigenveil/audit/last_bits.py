"""Statistics that look at the last bits of what left, not at its size: what a likelihood of real numbers cannot see.

Each is the number of integers that fit D less the number that fit D'. Take the sums of a candidate away from what was
released, and ask whether the rest is noise that the code could have drawn: is it even more often than not, a float64, a
float64 times a scale, the square of one, a sum with a float Laplace number? Noise on all integers, drawn exactly,
answers alike for both. docs/how_to/audit.md says why trying them keeps an audit valid.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..accounting.calibration import exact, float_above
from ..accounting.sensitivity import diagonal_l1
from ..laws.additive import AdditiveLaw
from ..laws.base import FloatArray, IntArray
from ..laws.central import CentralLaw
from .fingerprint import WIDEST, Fingerprint
from .reachable import is_float, is_float_laplace, is_float_square, is_scaled_float, trailing_zeros
from .units import Stacks, shift, unit

PARITY = "parity of the released integers"
PARITY_BESIDE = "parity of the released integers beside the diagonal"
ZEROS = "trailing zeros of the released integers"
ZEROS_BESIDE = "trailing zeros of the released integers beside the diagonal"
ZEROS_TRACE = "trailing zeros of the released trace, or number of rows less the trace"
FLOATS = "released integers that float64 noise reaches"
SCALED = "released integers that a float64 times the scale reaches"
FIRST_SQUARE = "first corners that the square of a float64 reaches"
LAST_SQUARE = "last corners that the square of a float64 reaches"
LAPLACE = "quotients that float64 Laplace noise reaches"
NORMS = "norms of the directions, to the last bit"
ANGLES = "products of the directions, to the last bit"
STATISTICS = (
    *(PARITY, PARITY_BESIDE, ZEROS, ZEROS_BESIDE, ZEROS_TRACE),
    *(FLOATS, SCALED, FIRST_SQUARE, LAST_SQUARE, LAPLACE),
    *(NORMS, ANGLES),
)
"""The statistics in words, in the order of their columns."""

Residues = tuple[IntArray, IntArray]


class LastBits:
    """The scores of releases of a law on two candidate data sets, high where the last bits fit D.

    Parameters
    ----------
    law : CentralLaw
    grams : pair of ndarray
        The integer second moments of D and D'.
    grid : int
    sizes : pair of int
        Their numbers of rows.
    """

    def __init__(
        self, law: CentralLaw, grams: tuple[IntArray, IntArray], grid: int, sizes: tuple[int, int] = (0, 0)
    ) -> None:
        self.law, self.grams, self.grid, self.sizes = law, grams, grid, sizes
        wide = law.n_features > WIDEST or law.releases == "matrix"
        self.fingerprint = None if wide else Fingerprint(law, grams, grid)

    def __call__(self, integers: Stacks) -> FloatArray:
        """Return one row of scores for every release, in the order of `STATISTICS`; 0 where nothing is said."""
        whole = {name: stack for name, stack in integers.items() if stack.dtype.kind == "i"}
        n = len(next(iter(integers.values())))
        scores: dict[str, NDArray[Any]] = {}
        if "matrix" in whole:
            scores |= self._of_matrices(whole["matrix"])
        for name in ("trace", "slack"):
            if name in whole:
                rest = self._of_traces(whole[name], name)
                scores[ZEROS_TRACE] = _zeros(rest)
                scores[FLOATS] = scores.get(FLOATS, 0) + _fits(is_float(rest[0]), is_float(rest[1]))
        if "quotients" in whole and "directions" in whole:
            scores |= self._of_quotients(whole)
        if "directions" in whole and self.fingerprint is not None:
            scores[NORMS], scores[ANGLES] = self.fingerprint(whole)
        table = np.zeros((n, len(STATISTICS)))
        for column, name in enumerate(STATISTICS):
            if name in scores:
                table[:, column] = scores[name]
        return table

    def _of_matrices(self, matrices: IntArray) -> dict[str, NDArray[Any]]:
        d = self.law.n_features
        s = shift(self.law, self.grid, "matrix")
        rows, columns = np.triu_indices(d, 1)
        # In the unit that left: what is finer of the sums was rounded away with the noise.
        rest = [matrices - _rounded(gram, s) for gram in self.grams]
        diagonal = rest[0].diagonal(axis1=1, axis2=2), rest[1].diagonal(axis1=1, axis2=2)
        beside = rest[0][:, rows, columns], rest[1][:, rows, columns]
        scores: dict[str, Any] = {PARITY: _parity(diagonal), ZEROS: _zeros(diagonal)}
        if d > 1:
            scores |= {PARITY_BESIDE: _parity(beside), ZEROS_BESIDE: _zeros(beside)}
        scores[FLOATS] = sum(_fits(is_float(one), is_float(two)) for one, two in (diagonal, beside))
        if isinstance(self.law, AdditiveLaw):
            reached = partial(is_scaled_float, scale=self.law.noise_scale() * self.grid / 2.0**s)
            scores[SCALED] = sum(_fits(reached(one), reached(two)) for one, two in (diagonal, beside))
        # Of a product of triangular matrices, one corner is the square of a single number.
        for name, corner in ((FIRST_SQUARE, slice(1)), (LAST_SQUARE, slice(-1, None))):
            one, two = (part[:, corner] for part in diagonal)
            scores[name] = _fits(is_float_square(one), is_float_square(two))
        return scores

    def _of_traces(self, released: IntArray, name: str) -> Residues:
        """Return what is left of a released trace, or of rows less the trace, with that of D and of D' taken away."""
        traces = [int(np.trace(gram)) for gram in self.grams]
        if name == "slack":
            traces = [size * self.grid - trace for size, trace in zip(self.sizes, traces, strict=True)]
        return released[:, None] - traces[0], released[:, None] - traces[1]

    def _of_quotients(self, whole: Stacks) -> dict[str, NDArray[Any]]:
        s = shift(self.law, self.grid, "quotients")
        quotients = whole["quotients"]
        directions = whole["directions"].astype(np.longdouble) * unit(self.law, self.grid, "directions")
        forms = [_forms(directions, gram)[:, : quotients.shape[1]] / 2.0**s for gram in self.grams]
        quotients = quotients[:, : forms[0].shape[1]]
        rest = quotients - np.rint(forms[0]).astype(np.int64), quotients - np.rint(forms[1]).astype(np.int64)
        scores = {PARITY: _parity(rest), ZEROS: _zeros(rest), FLOATS: _fits(is_float(rest[0]), is_float(rest[1]))}
        share = getattr(self.law, "eigenvalue_share", None)
        if share is not None:
            epsilon = self.law.matrix_epsilon * exact(share)
            scale = float_above(diagonal_l1(self.law.relation) / epsilon) * self.grid / 2.0**s
            first, second = (is_float_laplace(quotients, form.astype(np.float64), scale) for form in forms)
            scores[LAPLACE] = _fits(first, second)
        return scores


def _rounded(gram: IntArray, s: int) -> IntArray:
    """Return integers over 2^s, rounded to nearest."""
    return (gram + (1 << (s - 1))) >> s if s > 0 else gram


def _forms(directions: np.ndarray, gram: IntArray) -> np.ndarray:
    """Return u'Gu for every direction, and what they leave of the trace, in longdouble."""
    matrix = gram.astype(np.longdouble)
    forms = np.asarray(((directions @ matrix) * directions).sum(axis=2))
    return np.hstack([forms, np.trace(matrix) - forms.sum(axis=1, keepdims=True)])


def _parity(rest: Residues) -> IntArray:
    return np.asarray((rest[1] & 1).sum(axis=1) - (rest[0] & 1).sum(axis=1))


def _zeros(rest: Residues) -> IntArray:
    return np.asarray(trailing_zeros(rest[0]).sum(axis=1) - trailing_zeros(rest[1]).sum(axis=1))


def _fits(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> IntArray:
    return np.asarray(first.sum(axis=1) - second.sum(axis=1))
