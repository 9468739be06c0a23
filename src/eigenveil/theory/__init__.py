"""Know before you spend: bounds, and plans from public numbers."""

from . import bounds
from .bounds import *  # noqa: F403  # the names are those of `bounds.__all__`
from .forecast import Forecast, power_law
from .forecasts import Forecasts

__all__ = ["Forecast", "Forecasts", "power_law", *bounds.__all__]
