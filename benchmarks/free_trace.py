"""What the free number of `gaussian` gains: old and new readings of the same draws, side by side.

python benchmarks/free_trace.py [--sets wine digits] [--epsilons 0.1 1 3] [--runs 20] [--output FILE.json]

Replace: the error of the total variance, of the share of the first component and of the shrunk covariance, without the
released trace (the mechanism before it had one) and with it. Old is "raw M, shrunk without a trace", new is as a
release reads itself; "projected" is the projection on positive semidefinite matrices of the released trace. Errors are
root mean squares over the runs; the last column of a pair is new over old.

Add/remove: the standard deviation of the number of rows and of a variance of a quarter, in units of 1/mu, by width:
with a paid count, with the free number alone, and as the mechanism does it.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from datasets import load
from eigenveil.mechanisms.additive import TYPICAL_VARIANCE
from eigenveil.mechanisms.gaussian import Gaussian
from eigenveil.postprocess.shrinkage import shrink

GRID = 4**16
DELTA = 1e-6
WIDTHS = (2, 5, 10, 20, 27, 28, 50, 100, 300)


def projected(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest positive semidefinite matrix of the same trace."""
    values, vectors = np.linalg.eigh(matrix)
    values, total = values[::-1], max(0.0, float(np.trace(matrix)))
    levels = (np.cumsum(values) - total) / np.arange(1, values.size + 1)
    level = levels[values > levels][-1] if total > 0 else np.inf
    return (vectors[:, ::-1] * np.maximum(values - level, 0.0)) @ vectors[:, ::-1].T


def replace_errors(X: np.ndarray, epsilon: float, runs: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return old and new errors by what is read."""
    n, d = X.shape
    integers = np.trunc(X * 2**16).astype(np.int64)
    gram = integers.T @ integers
    truth = gram / GRID / n
    total = float(np.trace(truth))
    share = float(np.linalg.eigvalsh(truth)[-1]) / total
    new, old = (Gaussian(epsilon=epsilon, delta=DELTA, n_features=d, calibration=name) for name in ("traced", "tight"))
    generator = np.random.default_rng(seed)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(runs):
        drawn = new.draw(gram, GRID, n, generator)
        values = {name: value / GRID for name, value in drawn.items()}
        plain, traced = old.second_moment({"matrix": values["matrix"]}, n), new.second_moment(values, n)
        before = shrink(plain, (old.off_diagonal_sd / n) ** 2)
        after = shrink(traced, (new.off_diagonal_sd / n) ** 2, keep_trace=True)
        sums = float(before.eigenvalues.sum()), float(after.eigenvalues.sum())
        shares = [
            min(1.0, one.eigenvalues[0] / max(s, 1e-300)) - share for one, s in zip((before, after), sums, strict=True)
        ]
        distance = [float(np.linalg.norm(one.covariance - truth)) for one in (before, after)]
        for name, pair in {
            "trace of the matrix": (np.trace(plain) - total, np.trace(traced) - total),
            "total variance": (sums[0] - total, sums[1] - total),
            "share of the first": shares,
            "covariance": distance,
            "projected covariance": (distance[0], float(np.linalg.norm(projected(traced) - truth))),
        }.items():
            scale = {"share of the first": 1.0}.get(name, total if "co" not in name else float(np.linalg.norm(truth)))
            found.setdefault(name, []).append((pair[0] / scale, pair[1] / scale))
    return {name: tuple(np.sqrt(np.mean(np.square(pairs), axis=0))) for name, pairs in found.items()}


def count_errors(d: int, runs: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return sds of the number of rows, and of a variance, in units of 1/mu, by how the rows are counted."""
    generator, v = np.random.default_rng(seed), float(TYPICAL_VARIANCE)
    results = {}
    for name in ("tight", "traced"):
        mechanism = Gaussian(epsilon=1.0, delta=DELTA, n_features=d, adjacency="add_or_remove_one", calibration=name)
        drawn = [mechanism.simulated_errors(generator) for _ in range(runs)]
        errors = np.array([(rows, noise[0, 0] - v * rows) for noise, rows in drawn])
        results[name] = tuple(np.sqrt(np.mean(errors**2, axis=0)) * mechanism.total_mu())
    results["free alone, by formula"] = math.sqrt(d + 1), math.sqrt(1 - 2 * v + v**2 * (d + 1))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=["wine", "breast_cancer", "digits"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=[0.1, 1.0, 3.0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results: dict[str, list[dict[str, object]]] = {"replace_one": [], "add_or_remove_one": []}
    table = Table(title=f"Replace, delta {DELTA:g}: relative errors without and with the trace")
    for column in ("set", "n", "d", "epsilon", "what", "without", "with", "ratio"):
        table.add_column(column, justify="right")
    for name in arguments.sets:
        X = load(name).X
        for epsilon in arguments.epsilons:
            for what, (old, new) in replace_errors(X, epsilon, arguments.runs, arguments.seed).items():
                results["replace_one"].append({"set": name, "epsilon": epsilon, "what": what, "old": old, "new": new})
                numbers = f"{epsilon:g}", what, f"{old:.4g}", f"{new:.4g}", f"{new / old:.2f}"
                table.add_row(name, str(len(X)), str(X.shape[1]), *numbers)
    Console(width=120).print(table)
    table = Table(title="Add/remove: sd of the number of rows, and of a variance of 1/4, in units of 1/mu")
    for column in ("d", "rows, paid", "rows, free", "rows, now", "variance, paid", "variance, free", "variance, now"):
        table.add_column(column, justify="right")
    for d in WIDTHS:
        errors = count_errors(d, 100 * arguments.runs if d <= 100 else 20 * arguments.runs, arguments.seed)
        results["add_or_remove_one"].append({"d": d, **errors})
        ways = [errors[name] for name in ("tight", "free alone, by formula", "traced")]
        table.add_row(str(d), *(f"{way[i]:.2f}" for i in (0, 1) for way in ways))
    Console(width=120).print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
