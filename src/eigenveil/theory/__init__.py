"""Know before you spend: bounds, and plans from public numbers."""

from . import bounds
from .bounds import *
from .forecast import Forecast
from .plan import Plan
from .spectra import power_law

__all__ = ["Forecast", "Plan", "power_law", *bounds.__all__]
