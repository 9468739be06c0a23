"""`ScoreMap`: a private histogram of scores on two released directions, which reads itself."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ReleaseFileError
from .guarantee import Guarantee
from .laws.counting import CountLaw
from .notebook import notebook_table
from .postprocess.histogram import projected_counts
from .release_archive import arrays_of
from .release_file import MAX_BYTES, archive_bytes, read_archive
from .score_grid import FloatArray, ScoreGrid
from .whole_file import whole_file

FORMAT, KIND = 1, "score map"


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """What left: noisy counts of rows, or of persons, in the cells of a public grid, with the guarantee they carry.

    Parameters
    ----------
    integers : ndarray of int64, of shape (groups, cells, cells)
        What left: the noisy counts, in units of `law.unit`.
    grid : ScoreGrid
        The public cells.
    law : CountLaw
        That of the noise.
    guarantee : Guarantee
    n_units : int, optional
        How many rows or persons there are, where that is public.
    ledger_entry : int, optional
    created, package_version : str
    """

    integers: NDArray[np.int64]
    grid: ScoreGrid
    law: CountLaw
    guarantee: Guarantee
    n_units: int | None = None
    ledger_entry: int | None = None
    created: str = ""
    package_version: str = ""

    @property
    def noisy_counts(self) -> FloatArray:
        """The counts as they left, in rows or persons; some are below 0."""
        return np.asarray(self.integers * self.law.unit)

    @property
    def counts(self) -> FloatArray:
        """The nearest counts of at least 0; without groups, of the sum that is known to be true."""
        noisy = self.noisy_counts
        whole = self.n_units is not None and not self.grid.groups
        return projected_counts(noisy, float(self.n_units or 0) if whole else float(noisy.sum()))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on a count."""
        return self.law.noise_sd

    @property
    def noise_level(self) -> float:
        """What no empty cell of the map passes, in 95 of 100 maps."""
        return self.law.level(self.integers.size)

    @property
    def may_be_empty(self) -> NDArray[np.bool_]:
        """Cells in which the noise may be all there is."""
        return np.asarray(self.noisy_counts <= self.noise_level)

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Where cells end along both directions. What lies beyond the map was counted in the cells at its border."""
        return self.grid.edges

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in the order of the counts; one without a name where rows are not grouped."""
        return self.grid.names

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the map to one file, whole or not at all; see `load_score_map`."""
        target = Path(path)
        law = {"epsilon": self.law.epsilon, "delta": self.law.delta, "kind": self.law.kind}
        header = {
            "format": FORMAT,
            "kind": KIND,
            "grid": self.grid.to_dict(),
            "law": {**law, "relation": self.law.relation.value},
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

    def __repr__(self) -> str:
        return f"ScoreMap({' x '.join(map(str, self.integers.shape))} cells; {self.guarantee})"

    def facts(self) -> dict[str, Any]:
        """Return what it is, in words."""
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
        """Return what a notebook shows."""
        return notebook_table("Score map", self.facts(), more=self.guarantee._repr_html_())


def load_score_map(path: str | PathLike[str]) -> ScoreMap:
    """Read the file of a score map, or raise `ReleaseFileError` if a single bit of it changed."""
    return read_archive(Path(path), _read, MAX_BYTES)


def _read(header: dict[str, Any], members: dict[str, bytes], source: Path) -> ScoreMap:
    if header.get("kind") != KIND:
        raise ReleaseFileError(f"The file {source} holds no score map; load it by load_release.")
    if header["format"] != FORMAT:
        raise ReleaseFileError(
            f"The score map {source} has format {header['format']}, and this version reads up to {FORMAT}; update "
            "eigenveil."
        )
    grid, counts = ScoreGrid.from_dict(header["grid"]), arrays_of(members, {"counts"})["counts"]
    if counts.shape != grid.shape:
        raise ValueError("there is one count a cell")
    told = {name: header[name] for name in ("n_units", "ledger_entry", "created", "package_version")}
    return ScoreMap(counts, grid, CountLaw(**header["law"]), Guarantee.from_dict(header["guarantee"]), **told)
