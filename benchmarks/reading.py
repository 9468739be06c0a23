"""What it costs to read a release: the time of every attribute over that of scikit-learn's PCA on rows of that shape.

    python benchmarks/reading.py [--quick] [--shapes 20000x784 6000x3000] [-k 10] [--mechanism NAME] [--output FILE]

Each attribute is computed from a fresh copy of the release, so that nothing is shared between them. Ratios are to
`PCA(k, svd_solver="covariance_eigh")`, fitted in the same run; far below 1, a number is at hand with the fit.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA

from eigenveil import Release, RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS

READINGS: dict[str, Callable[[Release], Any]] = {
    "components": lambda one: one.components,
    "explained_variance": lambda one: one.explained_variance,
    "explained_variance_interval": lambda one: one.explained_variance_interval,
    "explained_variance_ratio_interval": lambda one: one.spectrum.explained_variance_ratio_interval,
    "captured_variance_interval": lambda one: one.spectrum.captured_variance_interval,
    "above_noise": lambda one: one.above_noise,
    "noise_test": lambda one: one.spectrum.noise_test,
    "spectrum.loading_errors()": lambda one: one.spectrum.loading_errors(),
    "intervals.covariance()": lambda one: one.intervals.covariance(),
    "intervals.correlation()": lambda one: one.intervals.correlation(),
    "covariance": lambda one: one.covariance,
}
QUICK = ("3000x100",)
SHAPES = ("20000x784", "6000x3000")


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_of(n: int, d: int) -> np.ndarray:
    """Return rows with a decaying spectrum, nearly all of them within norm 1."""
    sizes = 1 / np.arange(1, d + 1)
    return np.random.default_rng(0).standard_normal((n, d)) * np.sqrt(sizes / (2 * sizes.sum()))


def measured(shape: str, k: int, mechanism: str) -> dict[str, float]:
    n, d = map(int, shape.split("x"))
    rows, k, repeats = rows_of(n, d), min(k, d), 2 if d > 100 else 10
    moments = SecondMoments(RowBound(1.0), d).update(rows)
    budget = {"epsilon": 1.0, "delta": 1e-6 if MECHANISMS[mechanism].needs_delta else 0.0}
    drawn = release(MECHANISMS[mechanism](**budget, n_features=d, n_components=k), moments)
    base = min(seconds(lambda: PCA(k, svd_solver="covariance_eigh").fit(rows)) for _ in range(repeats))
    ratios = {"PCA, seconds": base}
    for name, read in READINGS.items():
        taken = []
        for _ in range(repeats):
            fresh = Release(drawn.integers, drawn.unit, drawn.guarantee, drawn.origin)
            taken.append(seconds(lambda read=read, fresh=fresh: read(fresh)))
        ratios[name] = min(taken) / base
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--components", "-k", type=int, default=10)
    parser.add_argument(
        "--mechanism",
        choices=[name for name, mechanism in MECHANISMS.items() if mechanism.adds_noise],
        default="gaussian",
    )
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    shapes = QUICK if arguments.quick else arguments.shapes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        results = {shape: measured(shape, arguments.components, arguments.mechanism) for shape in shapes}
    table = Table(title=f"Time to read a release of {arguments.mechanism}, over that of scikit-learn's PCA")
    for heading in ("attribute", *shapes):
        table.add_column(heading, justify="left" if heading == "attribute" else "right")
    for name in ("PCA, seconds", *READINGS):
        table.add_row(name, *(f"{results[shape][name]:.3f}" for shape in shapes))
    Console().print(table)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
