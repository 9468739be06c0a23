"""PrivatePCA and SecondMoments against scikit-learn's PCA and `X.T @ X`, as ratios within one run.

Run `python benchmarks/moments.py [--seconds 20] [--output FILE.json]`. Every round times all contestants one after the
other, and the table shows the median over rounds of the ratio, so that a busy machine slows both sides alike. Before
each there is a pause: the threads of BLAS go on turning for some 100 ms after their last work, which would be charged
to whoever comes next. The second number in a cell is the ratio of processor seconds, of all threads, which depends less
on what else runs.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA

from eigenveil import PrivatePCA, RowBound, SecondMoments
from eigenveil.errors import NoiseWarning
from eigenveil.moments import kernels

SHAPES = ((100_000, 20), (500_000, 20), (100_000, 100), (500_000, 100), (100_000, 500), (20_000, 1_000))
COLUMNS = ("uncentred, pure", "centred, Gaussian", "moments", "moments, half clipped", "X.T @ X")
LEAST_ROUNDS = 3
PAUSE = 0.2


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time on the clock and that of the processors."""
    time.sleep(PAUSE)
    start, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - used


def rounds(n: int, d: int, budget: float) -> np.ndarray:
    """Return the times of scikit-learn's fit and of all columns, of every round but the first."""
    X = np.random.default_rng(0).standard_normal((n, d))
    inside, half = 2 * d**0.5, d**0.5  # no row is clipped, or half of them are
    contestants = (
        lambda: PCA(10, svd_solver="covariance_eigh").fit(X),
        lambda: PrivatePCA(10, norm_bound=inside, center=False).fit(X),
        lambda: PrivatePCA(10, norm_bound=inside, delta=1e-6).fit(X),
        lambda: SecondMoments(RowBound(inside), d).update(X),
        lambda: SecondMoments(RowBound(half), d).update(X),
        lambda: X.T @ X,
    )
    timings, end = [], time.perf_counter() + budget
    while time.perf_counter() < end or len(timings) <= LEAST_ROUNDS:
        timings.append([seconds(work) for work in contestants])
    return np.array(timings[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for every shape")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    way = "NumPy alone" if kernels._compiled() is None else "the compiled passes"
    table = Table(title=f"Over PCA(10, covariance_eigh), by {way}: time, and processor seconds")
    for column in ("n", "d", "PCA, ms", *COLUMNS):
        table.add_column(column, justify="right")
    results = []
    for n, d in SHAPES:
        timings = rounds(n, d, arguments.seconds)
        ratios = np.median(timings[:, 1:] / timings[:, :1], axis=0)
        milliseconds = float(np.median(timings[:, 0, 0])) * 1e3
        results.append({"n": n, "d": d, "ms": milliseconds, "ratios": dict(zip(COLUMNS, ratios.tolist(), strict=True))})
        table.add_row(str(n), str(d), f"{milliseconds:.0f}", *(f"{time:.2f} ({used:.2f})" for time, used in ratios))
    Console(width=140).print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
