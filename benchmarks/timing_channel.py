"""How well the time of a pass over rows, and of a fit, tells two neighbouring tables apart.

Run `python benchmarks/timing_channel.py [--repeats 2000]`. The tables differ in one row, and that row becomes the same
integers in both, so that everything that is computed from them is the same and only the way there could differ. The
two take turns, in random order. The table printed gives the AUC: the probability that the pass over the first table
took longer than that over the second. 0.5 tells nothing; two standard errors are printed beside it. `--reference`
uses the kernels in NumPy in place of the compiled ones.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import mannwhitneyu

from eigenveil import PrivatePCA, RowBound, SecondMoments
from eigenveil.moments import kernels
from eigenveil.moments.counts import RowSizes
from eigenveil.moments.sums import SumsByNorm

N_ROWS, N_FEATURES = 200, 10
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Two lengths of one row that come to the same integers, and what reads the table."""

    name: str
    lengths: tuple[float, float]
    read: Callable[[Rows], object]


def tables(lengths: tuple[float, float]) -> list[Rows]:
    """Return neighbouring tables: one row is so much longer than the bound, along an axis."""
    rows = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES)) / (4 * N_FEATURES**0.5)
    found = []
    for length in lengths:
        table = rows.copy()
        table[N_ROWS // 2] = np.eye(N_FEATURES)[0] * length
        found.append(table)
    return found


def auc(case: Case, repeats: int) -> tuple[float, float]:
    """Return the AUC, and two standard errors of it."""
    pair, order = tables(case.lengths), np.random.default_rng(1).integers(0, 2, repeats)
    seconds: tuple[list[float], list[float]] = ([], [])
    for table in pair * 20:  # warm up
        case.read(table)
    for first in order.tolist():
        for which in (first, 1 - first):
            start = time.perf_counter()
            case.read(pair[which])
            seconds[which].append(time.perf_counter() - start)
    statistic = mannwhitneyu(*seconds).statistic
    return float(statistic) / repeats**2, 2 * float(np.sqrt((2 * repeats + 1) / (12 * repeats**2)))


def main() -> None:
    """Measure all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--reference", action="store_true", help="the kernels in NumPy")
    options = parser.parse_args()
    if options.reference:
        kernels.compiled = lambda: None  # type: ignore[assignment]
    warnings.simplefilter("ignore")
    bound = RowBound(1.0)
    centred = RowBound(1.0, constant=0.5, shift=(0.0,) * N_FEATURES)
    far, clipped, near = (1e6, 2.0), (2.0, 1.0), (1.0, 0.99)
    private = {"delta": 1e-6, "adjacency": "add_or_remove_one"}
    shown = Table("what is timed", "row", "AUC", "± 2 se")
    cases = [
        Case("moments", far, lambda rows: SecondMoments(bound, N_FEATURES).update(rows)),
        Case("moments", clipped, lambda rows: SecondMoments(bound, N_FEATURES).update(rows)),
        Case("moments with a constant", far, lambda rows: SecondMoments(centred, N_FEATURES).update(rows)),
        Case("moments, column by column", far, lambda rows: SecondMoments(bound, N_FEATURES).update(rows.T.copy().T)),
        Case("counts of norms", near, lambda rows: RowSizes(None, None).update(rows)),
        Case("sums by norm", near, lambda rows: SumsByNorm(bound, N_FEATURES).update(rows)),
        Case("fit, public bound", far, lambda rows: PrivatePCA(2, norm_bound=1.0, **private).fit(rows)),
        Case("fit, private bound", near, lambda rows: PrivatePCA(2, **private).fit(rows)),
    ]
    for case in cases:
        found, error = auc(case, options.repeats // (10 if case.name.startswith("fit") else 1))
        shown.add_row(case.name, " or ".join(f"{one:g}" for one in case.lengths), f"{found:.3f}", f"{error:.3f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
