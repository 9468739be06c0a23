"""Probabilities and odds in words, always rounded to the side that promises less."""

import math
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction


def odds_factor(epsilon: float) -> str:
    """Return e^epsilon as text, rounded up.

    Examples
    --------
    >>> odds_factor(1.0), odds_factor(0.01), odds_factor(10.0), odds_factor(100.0)
    ('2.72', '1.011', '22,100', '10^44')
    """
    if epsilon > 27:
        return f"10^{math.ceil(epsilon / math.log(10))}"
    if epsilon == 0:
        return "1"
    factor = Decimal(max(epsilon, 1e-9)).exp()  # rounded up, as all of it
    # Two digits of what exceeds 1, three in all.
    places = 1 - (factor - 1).adjusted() if factor < 2 else 2 - factor.adjusted()
    return f"{factor.quantize(Decimal(1).scaleb(-max(2, places) if factor < 10 else -places), ROUND_CEILING):,f}"


def chance(probability: float) -> str:
    """Return a probability in words, rounded up.

    Examples
    --------
    >>> chance(1e-6)
    'a chance of 1 in 1,000,000'
    """
    if probability > 0.01:
        return f"a chance of {math.ceil(probability * 1000 * (1 - 1e-12)) / 10:g} %"
    times = math.floor(1 / Fraction(repr(probability)))
    step = 10 ** max(0, len(str(times)) - 3)
    return f"a chance of 1 in {times // step * step:,}"
