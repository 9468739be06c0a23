"""Know before you spend: bounds, and plans from public numbers."""

from . import bounds
from .bounds import *  # noqa: F403  # the names are those of `bounds.__all__`
from .forecast import Forecast, power_law
from .plan import Plan

__all__ = ["Forecast", "Plan", "power_law", *bounds.__all__]
