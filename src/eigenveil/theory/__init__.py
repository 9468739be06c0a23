"""Know before you spend: bounds, and plans from public numbers."""

from . import bounds
from .bounds import *
from .expected import Forecast
from .plan import Plan, plan
from .spectra import power_law

__all__ = ["Forecast", "Plan", "plan", "power_law", *bounds.__all__]
