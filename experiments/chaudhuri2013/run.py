"""Chaudhuri, Sarwate and Sinha (JMLR 2013, and NIPS 2012): all tables and figures, with our mechanisms added.

Rows are prepared as in the paper (`benchmarks/datasets.py`), which computes scales from the data without privacy.
`tables.py` has Tables 1 and 2, `chains.py` Figures 1 and 2, `hoff.py` the chains of the paper's length, `utility.py`
Figures 3 to 5.
"""

from pathlib import Path

import numpy as np

from ..common import Cell, Results, assembled
from .chains import chain_findings, figure_1, figure_2, trace_cells, traces
from .hoff import chain_cells, hoff, hoff_findings, hoff_note
from .tables import classify, describe, table_1, table_2, table_cells, table_findings
from .utility import figure_5, figures_3_and_4, utility, utility_cells, utility_findings

TITLE = "Chaudhuri, Sarwate, Sinha (2012, 2013): PPCA and MOD-SULQ"
DATASETS = ("kddcup99", "census", "localization", "insurance")
PARTS = {
    "table 1": describe,
    "figure 2": traces,
    "hoff": hoff,
    "utility": utility,
    "table 2": classify,
    "figure 5": utility,
}


def cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the cells of all parts."""
    return table_cells(quick) + trace_cells(quick) + chain_cells(quick) + utility_cells(quick)


def measure(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return one repeat of a cell."""
    return PARTS[cell["part"]](cell, generator)


def findings(results: Results) -> dict[str, float]:
    """Return the numbers of all parts."""
    return table_findings(results) | chain_findings(results) | hoff_findings(results) | utility_findings(results)


def section(results: Results, images: Path) -> str:
    """Return the tables and figures in the order of the paper."""
    return assembled(
        lambda: table_1(results),
        lambda: figure_1(images),
        lambda: figure_2(results, images),
        lambda: figures_3_and_4(results, images),
        lambda: hoff_note(results),
        lambda: table_2(results),
        lambda: figure_5(results, images),
    )


if __name__ == "__main__":
    from ..__main__ import main

    main("chaudhuri2013")
