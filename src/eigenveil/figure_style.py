"""One style for every figure of the package, its docs and its benchmarks, by matplotlib (the extra ``report``).

The colours are those of the report (``report/page.css``, light), on white, which a dark page may surround. Curves that
differ by colour alone can be told apart with any kind of colour blindness; ``tests/unit/test_figure_style.py`` has the
distances.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import InvalidParameterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE, BROWN, GREEN, VIOLET, GOLD, PINK = "#1f5f8b", "#a65c2e", "#5cba86", "#7a3cc4", "#c9ac1d", "#dd77d8"
INK, GREY, SILVER, MIST = "#1d2430", "#545e6d", "#8a93a0", "#e9e6df"
COLOURS = (BLUE, BROWN, GREEN, VIOLET, GOLD, PINK, SILVER, INK)  # in this order where a figure has several curves

STYLE: Any = {  # for ``matplotlib.rc_context`` and ``pyplot.style.use``
    "figure.figsize": (6.4, 3.8),
    "figure.dpi": 110,
    "figure.facecolor": "white",
    "savefig.dpi": "figure",
    "figure.constrained_layout.use": True,
    "figure.titlesize": 11,
    "figure.labelsize": 10,
    "font.size": 10,
    "text.color": INK,
    "axes.prop_cycle": f"cycler(color={list(COLOURS)})",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": MIST,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.markersize": 4,
    "lines.linewidth": 1.5,
    "hatch.color": SILVER,
    "hatch.linewidth": 0.6,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style within a block, or, as ``@styled()``, within a function; matplotlib is loaded then."""
    try:
        import matplotlib.figure
    except ImportError:
        raise InvalidParameterError(
            "Figures need matplotlib; install it with pip install 'eigenveil[report]'."
        ) from None
    with matplotlib.rc_context(STYLE):
        yield


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of so many inches, outside of pyplot's list, that a notebook can show."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return NotebookFigure(figsize=(width, height), layout="constrained")
