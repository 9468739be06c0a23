"""SecondMoments against `X.T @ X` and against scikit-learn's PCA, as ratios within one run.

Run `python benchmarks/moments.py [--output FILE.json]`. Every round times all contestants one after the other, and
the table shows the median over rounds of the ratio, so that a busy machine slows both sides alike.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA

from eigenveil import PrivatePCA, RowBound, SecondMoments

SHAPES = ((500_000, 100), (40_000, 500))
# What a table may look like: rows inside the bound, and a bound that clips half of them.
SHARES_CLIPPED = {"no row clipped": 2.0, "half of the rows clipped": 1.0}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    table = Table(title="Median ratios; below 1 is faster than the other side")
    for column in ("n", "d", "rows", "moments / X.T @ X", "moments / PCA fit", "PrivatePCA / PCA fit"):
        table.add_column(column, justify="right")
    results = []
    for n, d in SHAPES:
        X = np.random.default_rng(0).standard_normal((n, d))
        for rows, slack in SHARES_CLIPPED.items():
            norm = slack * d**0.5
            bound = RowBound(norm)
            timings = []
            for _ in range(arguments.rounds):
                product = seconds(lambda: X.T @ X)  # noqa: B023
                moments = seconds(lambda: SecondMoments(bound, d).update(X))  # noqa: B023
                fit = seconds(lambda: PCA(10, svd_solver="covariance_eigh").fit(X))  # noqa: B023
                private = seconds(lambda: PrivatePCA(10, norm_bound=norm, center=False).fit(X))  # noqa: B023
                timings.append((moments / product, moments / fit, private / fit))
            ratios = [float(ratio) for ratio in np.median(timings, axis=0)]
            results.append({"n": n, "d": d, "rows": rows, "ratios": ratios})
            table.add_row(str(n), str(d), rows, *(f"{ratio:.2f}" for ratio in ratios))
    Console().print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
