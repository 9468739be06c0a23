"""How many rows a privately found bound should leave beyond it; public numbers alone.

docs/explanation/row_bound.md derives the numbers, and benchmarks/clip_bound.py shows them at work.
"""

import math
from fractions import Fraction

from ..errors import InvalidDataError
from ..guarantee import Relation
from ..laws import CentralLaw
from ..row_rule import RowRule

CLIPPED_PER_NOISE = 4
"""Rows to clip, in units of d times the noise of unit rows beside the diagonal: there bias and noise balance."""
# In units of one over the epsilon of the choice: rows beyond the bound, so that the noise of the threshold does not
# carry the search past the longest row; rows within it, so that none of the rungs below all rows stops it.
_BEYOND, _WITHIN = 6, 16
LEAST_ROWS = 20
"""Rows times epsilon below which nothing is found: a search goes astray in more than one of twenty."""


def rows_beyond(law: CentralLaw, rule: RowRule, epsilon: Fraction, n_rows: int) -> int:
    """Return how many rows should lie beyond the bound that a choice of this epsilon looks for.

    Parameters
    ----------
    law : CentralLaw
        The law that will draw.
    rule : RowRule
        How rows become integers; its norm plays no role.
    epsilon : Fraction
        What the choice costs.
    n_rows : int
        Looked at under replace only, where it is public.

    Examples
    --------
    >>> from eigenveil.laws import LAWS
    >>> law = LAWS["gaussian"](epsilon=0.9, delta=1e-6, n_features=10)
    >>> [rows_beyond(law, RowRule(1.0), Fraction(1, 10), n) for n in (300, 100_000)]
    [140, 186]
    """
    wanted = max(balanced_rows(law, rule), _BEYOND / epsilon)
    if law.relation is Relation.REPLACE:
        wanted = min(wanted, Fraction(n_rows, 2), max(Fraction(0), n_rows - _WITHIN / epsilon))
    return math.floor(wanted)


def too_few_to_clip(law: CentralLaw, rule: RowRule, epsilon: Fraction) -> Fraction:
    """Return the number of rows below which a bound would clip more than half of them, or not be found."""
    return max(2 * balanced_rows(law, rule), LEAST_ROWS / epsilon)


def balanced_rows(law: CentralLaw, rule: RowRule) -> Fraction:
    """Return the number of clipped rows whose bias is about the noise of the law, however many rows there are."""
    noise = Fraction(law.equivalent_sd) * Fraction(rule.limit_squared, 4**rule.bits)
    return CLIPPED_PER_NOISE * law.n_features * noise


def check_enough(n: int, counted: str, epsilon: Fraction, takes: Fraction, what: str, instead: str) -> None:
    """Refuse, before anything is spent, to look for what so few rows or persons do not show at this epsilon."""
    if n < takes:
        raise InvalidDataError(
            f"{n:,} {counted} are too few to find {what} privately: the share of epsilon for it, {float(epsilon):.3g}, "
            f"takes {math.ceil(takes):,}; give {instead}, or more epsilon."
        )
