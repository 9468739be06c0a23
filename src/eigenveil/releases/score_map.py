"""`ScoreMap`: private counts of rows on two released directions, and `ScoreGrid`, the public rule of its cells.

The grid comes from a release and from parameters, and holds no row; `eigenveil.moments.counts` is the rule at work.
"""

import math
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, ReleaseFileError
from ..files import given_path, whole_file
from ..guarantee import Guarantee
from ..mechanisms.choices import CountMechanism
from ..notebook import notebook_table
from ..numerics import FloatArray
from .file import MAX_BYTES, archive_bytes, arrays_of, read_archive


def projected_counts(counts: FloatArray, total: float) -> FloatArray:
    """Return the counts of at least 0 and of this sum that are nearest to noisy ones, in squares.

    The same amount is taken from all, and what is below 0 then is 0. The truth is among the candidates, so it is never
    farther from it than the noisy counts are.

    Examples
    --------
    >>> projected_counts(np.array([5.0, 3.0, -2.0, 1.0]), 6.0)
    array([4., 2., 0., 0.])
    """
    if total <= 0:
        return np.zeros_like(counts)
    falling = np.sort(counts.ravel())[::-1]
    taken = (np.cumsum(falling) - total) / np.arange(1, falling.size + 1)
    kept = np.flatnonzero(falling > taken)[-1]
    return np.asarray(np.maximum(counts - taken[kept], 0.0))


ENTRY_BITS = 22
"""Entries of a row are held to 2^this, in units of the grid, before they are projected."""
_STEPS = 2**14  # of the grid, in the shorter half-width of the map
MOST_BINS = 200


@dataclass(frozen=True)
class ScoreGrid:
    """Two directions as integers, the frame of the map and its cells.

    A row x becomes ``q = trunc((x - shift) * factor)``, each entry held to 2^22, and its two scores are the integers
    ``weights @ q``: exact whatever the order of summation. Scores beyond the frame count in the cells at its border.

    Parameters
    ----------
    shift, factor : tuple of float
        One a feature.
    weights : two tuples of int
        The directions, one entry a feature.
    frame : two pairs of int
        The ends of the map along both directions, as integer scores.
    unit : float
        The value of one of them, in the units of scores.
    bins : (int, int)
    axes : (int, int)
        Which components they are, from 0.
    groups : tuple of (str, tuple of (int, float))
        The name of every group, and which features have which values in its rows; none where rows are not grouped.
    """

    shift: tuple[float, ...]
    factor: tuple[float, ...]
    weights: tuple[tuple[int, ...], tuple[int, ...]]
    frame: tuple[tuple[int, int], tuple[int, int]]
    unit: float
    bins: tuple[int, int]
    axes: tuple[int, int]
    groups: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = ()

    @classmethod
    def of(
        cls,
        mean: FloatArray,
        scale: FloatArray,
        directions: FloatArray,
        frame: FloatArray,
        bins: tuple[int, int],
        axes: tuple[int, int],
        groups: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = (),
    ) -> Self:
        """Return the grid of two directions of scaled features, for a frame in the units of scores."""
        widths = (frame[:, 1] - frame[:, 0]) / 2
        if not (np.all(np.isfinite(frame)) and np.all(widths > 0)):
            raise InvalidParameterError("The frame of a map needs two ends along each direction, the lower one first.")
        d = len(mean)
        bits = 53 - ENTRY_BITS - math.ceil(math.log2(d)) if d > 1 else 53 - ENTRY_BITS  # so that all sums are exact
        step = float(widths.min()) / _STEPS
        weights = np.rint(np.ldexp(directions, bits - 1)).astype(np.int64)
        unit = math.ldexp(step, 1 - bits)
        ends = np.rint(frame / unit).astype(np.int64)
        if np.abs(ends).max() >= 2**53:
            raise InvalidParameterError("The frame of the map lies too far from the mean; give one around it.")
        return cls(
            tuple(map(float, mean)),
            tuple(map(float, scale / step)),
            (tuple(map(int, weights[0])), tuple(map(int, weights[1]))),
            ((int(ends[0, 0]), int(ends[0, 1])), (int(ends[1, 0]), int(ends[1, 1]))),
            unit,
            bins,
            axes,
            groups,
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of groups, and of cells along both directions."""
        return max(1, len(self.groups)), *self.bins

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups; one without a name where rows are not grouped."""
        return tuple(name for name, _ in self.groups) or ("",)

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the cells along both directions, in the units of scores."""
        ends = [np.linspace(low, high, count + 1) for (low, high), count in zip(self.frame, self.bins, strict=True)]
        return ends[0] * self.unit, ends[1] * self.unit

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the grid that `to_dict` wrote, or raise `ValueError` where the content cannot be a grid."""
        pairs = ("weights", "frame")
        groups = tuple((name, tuple((int(p), float(v)) for p, v in where)) for name, where in content["groups"])
        known = {
            **{name: tuple(content[name]) for name in ("shift", "factor", "bins", "axes")},
            **{name: tuple(map(tuple, content[name])) for name in pairs},
        }
        grid = cls(**{**content, **known, "groups": groups})
        numbers = np.array([*grid.shift, *grid.factor, grid.unit, *np.ravel(grid.frame)], dtype=np.float64)
        width = len(grid.shift)
        alike = width >= 1 and all(len(one) == width for one in (grid.factor, *grid.weights))
        sides = all(type(count) is int and 1 <= count <= MOST_BINS for count in grid.bins)
        ends = all(type(end) is int and abs(end) < 2**53 for pair in grid.frame for end in pair)
        ordered = ends and all(low < high for low, high in grid.frame)
        places = all(0 <= place < width for _, where in groups for place, _ in where)
        axes = all(type(axis) is int and axis >= 0 for axis in grid.axes)
        if not (np.isfinite(numbers).all() and grid.unit > 0 and alike and sides and ordered and places and axes):
            raise ValueError("a grid has two directions, a frame and cells")
        return grid


def adaptive_bins(n_units: float, noise_sd: float, n_groups: int = 1, width: float = 6.0) -> int:
    """Return the number of cells a side that a map should have, from public numbers alone.

    The squared error of a histogram of cells of width h, in standard deviations of the scores, is h^2/12 times the
    integral of the squared slope of the density, plus what noise and sampling leave in every cell. The slope is that
    of a cloud made of four lumps, each half as wide as the cloud: docs/research/score_map.md.

    Examples
    --------
    >>> [adaptive_bins(n, 2.8) for n in (100, 5000, 100_000)]
    [5, 17, 41]
    """
    n = max(1.0, n_units / n_groups)
    slope = 4 / (4 * math.pi)

    def error(bins: int) -> float:
        h = width / bins
        return h**2 / 12 * slope + (width / h) ** 2 * (noise_sd / n) ** 2 / h**2 + 1 / (n * h**2)

    return min(range(2, MOST_BINS + 1), key=error)


FORMAT, KIND = 1, "score map"


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """A differentially private score plot: noisy counts of rows or privacy units on a grid of two components.

    Parameters
    ----------
    integers : ndarray of int64, of shape (groups, cells, cells)
        The noisy counts, in units of `mechanism.unit`.
    grid : ScoreGrid
        The public cells.
    mechanism : CountMechanism
        The mechanism of the noise.
    guarantee : Guarantee
    n_units : int, optional
        Number of rows or privacy units, if it is public.
    ledger_entry : int, optional
    created, package_version : str
    """

    integers: NDArray[np.int64]
    grid: ScoreGrid
    mechanism: CountMechanism
    guarantee: Guarantee
    n_units: int | None = None
    ledger_entry: int | None = None
    created: str = ""
    package_version: str = ""

    @property
    def noisy_counts(self) -> FloatArray:
        """The noisy counts as released; some are negative."""
        return np.asarray(self.integers * self.mechanism.unit)

    @property
    def counts(self) -> FloatArray:
        """The nearest nonnegative counts; without groups, with the true total if it is public."""
        noisy = self.noisy_counts
        whole = self.n_units is not None and not self.grid.groups
        return projected_counts(noisy, float(self.n_units or 0) if whole else float(noisy.sum()))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on a count."""
        return self.mechanism.noise_sd

    @property
    def noise_level(self) -> float:
        """95 % bound on the noise in all empty cells."""
        return self.mechanism.level(self.integers.size)

    @property
    def may_be_empty(self) -> NDArray[np.bool_]:
        """Cells that are not distinguishable from noise."""
        return np.asarray(self.noisy_counts <= self.noise_level)

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the cells along both directions. Scores beyond the map were counted in the cells at its border."""
        return self.grid.edges

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in the order of the counts; one without a name where rows are not grouped."""
        return self.grid.names

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the map to one file, atomically; read it with `load_score_map`."""
        target = given_path(path)
        mechanism = {"epsilon": self.mechanism.epsilon, "delta": self.mechanism.delta, "kind": self.mechanism.kind}
        header = {
            "format": FORMAT,
            "kind": KIND,
            "grid": self.grid.to_dict(),
            "mechanism": {**mechanism, "adjacency": self.mechanism.adjacency.value},
            "guarantee": self.guarantee.to_dict(),
            "n_units": self.n_units,
            "ledger_entry": self.ledger_entry,
            "created": self.created,
            "package_version": self.package_version,
        }
        try:
            with whole_file(target) as file:
                file.write(archive_bytes(header, {"counts": self.integers}))
        except OSError as error:
            raise ReleaseFileError(f"The score map cannot be written to {target}: {error.strerror}.") from error
        return target

    def facts(self) -> dict[str, Any]:
        """Return the facts of the map, in words."""
        named = [name for name in self.groups if name]
        return {
            "directions": " and ".join(f"component {axis + 1}" for axis in self.grid.axes),
            "cells": " x ".join(map(str, self.grid.bins)),
            "groups": ", ".join(named) or None,
            self.guarantee.unit.counted: None if self.n_units is None else f"{self.n_units:,}",
            "noise on a count": f"standard deviation {self.noise_sd:.3g}",
            "no empty cell passes": f"{self.noise_level:.3g}, in 95 of 100 maps",
            "created": self.created or None,
        }

    def _repr_html_(self) -> str:
        """Return the map as HTML for a notebook."""
        return notebook_table("Score map", self.facts(), more=self.guarantee._repr_html_())


def load_score_map(path: str | PathLike[str]) -> ScoreMap:
    """Read the file of a score map; raise `ReleaseFileError` if it is damaged or was changed."""
    return read_archive(given_path(path), _read, MAX_BYTES)


def _read(header: dict[str, Any], members: dict[str, bytes], source: Path) -> ScoreMap:
    if header.get("kind") != KIND:
        raise ReleaseFileError(f"The file {source} is not a score map. Load it with load_release.")
    if header["format"] != FORMAT:
        raise ReleaseFileError(
            f"The score map {source} has format {header['format']}, and this version reads up to {FORMAT}; update "
            "eigenveil."
        )
    grid, counts = ScoreGrid.from_dict(header["grid"]), arrays_of(members, {"counts"})["counts"]
    if counts.shape != grid.shape:
        raise ValueError("there is one count a cell")
    told = {name: header[name] for name in ("n_units", "ledger_entry", "created", "package_version")}
    return ScoreMap(
        counts, grid, CountMechanism(**header["mechanism"]), Guarantee.from_dict(header["guarantee"]), **told
    )
