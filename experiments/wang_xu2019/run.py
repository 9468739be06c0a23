"""Wang and Xu (2019): both algorithms in the local model, and the n and epsilon from which they work.

What the text of the paper leaves open, and what is done here: delta is 1e-4 everywhere; s does not enter Algorithm 2,
so on real data its penalty is set to leave s features (`algorithm2.py`), and beside it PCA runs on the s features with
the largest off-diagonal entries; the truth there is the same on the matrix without noise; features are divided by their
largest absolute value and rows by their norm, without privacy.
"""

import numpy as np

from benchmarks import datasets

from ..common import Cell, Results
from . import measures
from .measures import COMPONENTS, MECHANISMS, NO_NOISE, NORMAL, ONCE, READINGS, TABLES, entry, random_level
from .page import section

__all__ = ["DATASETS", "TITLE", "cells", "findings", "measure", "section"]

TITLE = "Wang, Xu (2019): PCA in the local model"
FIGURE_2_ROWS, FIGURE_2_RUNS = (500, 1000, 2000, 4000), {(500, 10): 2, (2000, 10): 5}
# Tables 1 and 2 by Algorithm 2 itself, on the collection that the paper cites, and how often.
SOLVED = {"isolet5": 2, "colon_skfeature": 1, "leukemia_skfeature": 1}
DATASETS = ("covertype", "isolet5", "colon", "leukemia", "lung_gordon2002", "colon_skfeature", "leukemia_skfeature")
# Not to be had here; measured where a user has them (benchmarks/datasets.py).
WIDE_IF_THERE, TALL_IF_THERE = ("lung", "nips", "cancer_rna_seq"), ("buzz",)
PARTS = {
    "low": measures.low,
    "needed": measures.needed,
    "sparse": measures.sparse,
    "sparse limit": measures.sparse_limit,
    "real": measures.real,
    "algorithm 2": measures.solved,
    "tall": measures.tall_errors,
}


def cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the cells of all parts."""
    return _quick_cells() if quick else _full_cells()


def _quick_cells() -> list[tuple[Cell, int]]:
    found = [(_low(n=10_000, k=k), 12) for k in (5, 20)]
    found += [(_low(n=10_000, epsilon=epsilon), 12) for epsilon in (8.0, 30.0)]
    found += [(_needed(mechanism, k), 10) for k in (5, 20) for mechanism in MECHANISMS]
    found += [({"part": "sparse", "n": 2000, "p": 100, "k": 5, "s": 15, "epsilon": 1.0}, 18)]
    limits: Cell = {"part": "sparse limit", "p": 100, "k": 5, "s": 15, "epsilon": 1.0}
    found += [({**limits, "mechanism": mechanism, "n": 1e10}, 16) for mechanism in MECHANISMS]
    found += [({"part": "real", "data": "isolet5"}, 8)]
    return [*found, ({"part": "tall", "data": "covertype", "max_rows": 20_000, "epsilon": 8.0}, 6)]


def _full_cells() -> list[tuple[Cell, int]]:
    found = [(_low(n=n, k=k), 20 if n == 100_000 else 10) for n in (10_000, 30_000, 100_000) for k in COMPONENTS]
    found += [(_low(p=p, k=10), 5) for p in (20, 80)]
    found += [(_low(epsilon=epsilon), 5) for epsilon in (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)]
    found += [(_needed(mechanism, k), 20) for k in COMPONENTS for mechanism in MECHANISMS]
    tall = [name for name in ("covertype", *TALL_IF_THERE) if datasets.available(name)]
    found += [
        ({"part": "tall", "data": name, "max_rows": None, "epsilon": epsilon}, 2)
        for name in tall
        for epsilon in (0.5, 2.0, 8.0)
    ]
    wide = {"isolet5": 20, "colon": 10, "lung_gordon2002": 5, "leukemia": 3}
    wide |= {name: 3 for name in WIDE_IF_THERE if datasets.available(name)}
    found += [({"part": "real", "data": name}, repeats) for name, repeats in wide.items()]
    found += [({"part": "algorithm 2", "data": name}, repeats) for name, repeats in SOLVED.items()]
    found += [(_sparse(s=s, epsilon=1.0), 5) for s in (15, 20, 40, 80)]
    # The panels of Figure 2: k over n, p, and epsilon; a cell that two of them have is measured once.
    found += [(_sparse(n=n, k=k), FIGURE_2_RUNS.get((n, k), 1)) for k in COMPONENTS for n in FIGURE_2_ROWS]
    found += [(_sparse(p=p), 2) for p in (100, 200)]
    found += [(_sparse(epsilon=epsilon), 2) for epsilon in (0.5, 4.0)]
    limits: Cell = {"part": "sparse limit", "p": 400, "k": 10, "s": 20, "epsilon": 1.0}
    powers = (8, 9, 10, 11, 12)
    return found + [
        ({**limits, "mechanism": mechanism, "n": 10.0**power}, 2) for mechanism in MECHANISMS for power in powers
    ]


def _low(n: int = 100_000, p: int = 40, k: int = 5, epsilon: float = 0.5) -> Cell:
    return {"part": "low", "n": n, "p": p, "k": k, "epsilon": epsilon}


def _sparse(n: int = 2000, p: int = 400, k: int = 10, s: int = 20, epsilon: float = 2.0) -> Cell:
    return {"part": "sparse", "n": n, "p": p, "k": k, "s": s, "epsilon": epsilon}


def _needed(mechanism: str, k: int) -> Cell:
    return {"part": "needed", "p": 40, "k": k, "epsilon": 0.5, "mechanism": mechanism}


def measure(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return one repeat of a cell."""
    return PARTS[cell["part"]](cell, generator)


def findings(results: Results) -> dict[str, float]:
    """Return errors in units of a random subspace, and the n from which mechanisms work."""
    found = {}
    for row in results.select(part="low"):
        level = random_level(row.cell["p"], row.cell["k"])
        for name in (*MECHANISMS, ONCE, NORMAL, NO_NOISE):
            found[f"low, k {row.cell['k']}, epsilon {row.cell['epsilon']:g}, {name}"] = row.mean[name] / level
    for row in results.select(part="needed"):
        found[f"log10 of n for half, k {row.cell['k']}, {row.cell['mechanism']}"] = row.mean["power"]
    for row in results.select(part="sparse"):
        level = random_level(row.cell["p"], row.cell["k"])
        for name in (*MECHANISMS, NO_NOISE):
            found[f"sparse, {name}"] = row.mean[name] / level
    for row in results.select(part="sparse limit"):
        for metric in ("sparse", "plain"):
            found[f"n = {row.cell['n']:g}, {row.cell['mechanism']}, {metric}"] = row.mean[metric]
    for row in results.select(part="real", data="isolet5"):
        found |= {f"isolet5, {key}": row.mean[key] for name in READINGS for key in [entry(name, *TABLES[1])]}
    for row in results.select(part="tall", data="covertype"):
        found |= {f"covertype, {name}": row.mean[f"{name}, k 10"] for name in MECHANISMS}
    return found


if __name__ == "__main__":
    from ..__main__ import main

    main("wang_xu2019")
