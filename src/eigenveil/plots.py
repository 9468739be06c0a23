"""Figures of a release for notebooks and papers, by matplotlib (the extra ``report``).

Each function takes a `Release` and returns a `matplotlib.figure.Figure`; save it by ``figure.savefig("scree.svg")``.
They show released values only, the same as `eigenveil.report`, which needs no matplotlib.
"""

import io
from typing import TYPE_CHECKING

import numpy as np

from .errors import InvalidDataError, InvalidParameterError, integer_between
from .releases import Release
from .report.shown import SHOWN_COMPONENTS, SHOWN_EIGENVALUES, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of the report, safe for colour-blind readers: blue, orange-brown, grey.
BLUE, BROWN, GREY = "#1f5f8b", "#a65c2e", "#545e6d"


def scree(release: Release, *, n_components: int | None = None) -> "Figure":
    """Plot the eigenvalues of a release with 95 % intervals and the noise edge.

    Parameters
    ----------
    release : Release
        With a covariance.
    n_components : int, optional
        How many eigenvalues, at most 15; as many as possible by default.
    """
    shown = read(release)
    if shown.eigenvalues is None or shown.released_eigenvalues is None:
        raise InvalidDataError("The release holds directions only, so there are no eigenvalues to plot.")
    count = _count(shown.eigenvalues.size, n_components)
    figure, axes = _figure()
    ranks = np.arange(1, count + 1)
    values = shown.eigenvalues[:count]
    known_law = shown.alignments is not None
    if shown.intervals is not None:
        low, high = shown.intervals[:count].T
        axes.vlines(ranks, low, high, color=BLUE, linewidth=2, label="95 % interval")
    axes.plot(ranks, values, "o", color=BLUE, label="estimate" if known_law else "as released")
    if known_law:
        released = np.maximum(shown.released_eigenvalues[:count], 0.0)
        axes.plot(ranks + 0.2, released, "o", mfc="white", mec=GREY, markersize=4, label="as released")
    if shown.edge is not None:
        axes.axhspan(0, shown.edge, color=BROWN, alpha=0.08, linewidth=0)
        axes.axhline(shown.edge, color=BROWN, linestyle="--", label="noise edge")
    if shown.needs_root_scale:
        axes.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
    axes.set(xlabel="component", ylabel="eigenvalue", ylim=(0, 1.08 * shown.top(count) or 1.0))
    axes.legend(frameon=False)
    return figure


def explained_variance(release: Release, *, n_components: int | None = None) -> "Figure":
    """Plot the share of variance of every component, and the running total."""
    shown = read(release, with_intervals=False)
    if shown.shares is None or shown.running_shares is None:
        raise InvalidDataError("The release holds directions only, so there are no shares of variance to plot.")
    count = _count(shown.shares.size, n_components)
    figure, axes = _figure()
    ranks = np.arange(1, count + 1)
    axes.bar(ranks, shown.shares[:count], color=BLUE, label="share")
    axes.plot(ranks, shown.running_shares[:count], "o-", color=BROWN, markersize=4, label="running total")
    axes.set(xlabel="component", ylabel="share of variance", ylim=(0, 1.02))
    axes.legend(frameon=False)
    return figure


def loadings(release: Release) -> "Figure":
    """Plot the loadings of the leading features on the first components as a heat map."""
    shown = read(release, with_intervals=False)
    if not len(shown.components):
        raise InvalidDataError(
            "This version cannot tell components from the release, so there are no loadings to plot."
        )
    features = shown.leading_features()
    weights = shown.components[:SHOWN_COMPONENTS][:, features]
    figure, axes = _figure(height=1.5 + 0.25 * len(features))
    from matplotlib.colors import LinearSegmentedColormap

    reach = float(np.abs(weights).max()) or 1.0
    colours = LinearSegmentedColormap.from_list("loadings", ["#8f4200", "#f0efec", "#1b5a94"])
    image = axes.imshow(weights.T, cmap=colours, vmin=-reach, vmax=reach, aspect="auto")
    # Names are text and never mathematics, whatever dollar signs they hold.
    axes.set_yticks(range(len(features)), [shown.names[j] for j in features], parse_math=False)
    axes.set_xticks(range(len(weights)), [str(i + 1) for i in range(len(weights))])
    axes.set(xlabel="component")
    figure.colorbar(image, label="loading")
    return figure


def _count(known: int, n_components: int | None) -> int:
    most = min(SHOWN_EIGENVALUES, known)
    return most if n_components is None else integer_between("n_components", n_components, 1, most)


def _figure(height: float = 3.6) -> tuple["Figure", "Axes"]:
    """Return a figure of its own, outside of pyplot's list, that a notebook can show."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise InvalidParameterError("Plots need matplotlib; install it, or the extra 'report'.") from None

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    figure = NotebookFigure(figsize=(6.0, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes
