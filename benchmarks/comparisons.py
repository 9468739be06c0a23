"""Gain from comparing each row with several neighbours: efficiency of Kendall's correlation, and PCA of real tables.

Run `python benchmarks/comparisons.py [--tables wine covertype] [--epsilon 1] [--runs 20]`.

The relative privacy noise does not depend on k, the comparisons that a row takes part in; the sampling error falls.
Disjoint pairs, which version 0.1 compared, are made here by hand and released as rows of norm 1.

The loss of directions V is 1 - qF(V)/qF(best), q the captured variance: for pairs on the covariance of features that
were divided by public sizes, for signs on the correlation matrix. Sizes are computed **without privacy**.
"""

import argparse
import itertools
import math
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

from datasets import load
from eigenveil import PrivatePCA, RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.metrics import captured_variance
from eigenveil.moments.comparisons import NeighbourDifferences
from eigenveil.postprocess import top_components
from eigenveil.postprocess.correlations import correlation_from_signs
from eigenveil.sampling.randomness import seeded_generator

RINGS = (1, 2, 8, 32)


def rule_of(kind: str, d: int, k: int) -> RowBound:
    return RowBound(1.0 if kind == "spatial_sign" else math.sqrt(d), statistic=kind, comparisons=max(2, k))


def comparisons(kind: str, X: np.ndarray, k: int) -> np.ndarray:
    """Return the compared rows: with neighbours, or for k = 1 those of disjoint pairs."""
    differences_buffer = NeighbourDifferences(rule_of(kind, X.shape[1], k))
    if k > 1:
        return np.concatenate([*differences_buffer.push(X), *differences_buffer.closing()])
    return np.concatenate(list(differences_buffer.push(X)))[::2]  # rows 0 and 1, 2 and 3, ...


def efficiency(rho: float, k: int, n: int, runs: int, seed: int) -> float:
    """Return the variance of Pearson's correlation over that of sin(pi tau / 2)."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(runs):
        z = rng.standard_normal((n, 2))
        z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
        tau = comparisons("kendall", z, k).prod(axis=1).mean()
        found.append((np.corrcoef(z.T)[0, 1], math.sin(math.pi / 2 * tau)))
    pearson, sine = np.var(found, axis=0)
    return float(pearson / sine)


def disjoint_components(kind: str, X: np.ndarray, n_components: int, epsilon: float, seed: int) -> np.ndarray:
    """Return components as version 0.1 would: one comparison a row, released as rows of norm 1."""
    compared = comparisons(kind, X, 1)
    scale = 1.0 if kind == "spatial_sign" else math.sqrt(X.shape[1])
    moments = SecondMoments(RowBound(scale), X.shape[1]).update(compared)
    mechanism = MECHANISMS["matrix_laplace"](epsilon=epsilon, n_features=X.shape[1])
    drawn = release(mechanism, moments, generator=seeded_generator(seed))
    matrix = drawn.matrix.scaled_matrix
    if kind == "kendall":
        matrix = correlation_from_signs(matrix, drawn.noise_sd or 0.0).matrix
    return top_components(matrix, n_components)


def losses(kind: str, X: np.ndarray, k: int, epsilon: float, runs: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Return the mean loss of disjoint pairs and of neighbours, without noise and with it, over orders of the rows."""
    truth = np.cov(X.T) if kind == "spatial_sign" else np.corrcoef(X.T)
    best = captured_variance(truth, top_components(truth, k))
    found = []
    for run in range(runs):
        rows = X[rng.permutation(len(X))]
        directions = []
        for many in (1e6, epsilon):
            directions.append(disjoint_components(kind, rows, k, many, run))
            differences_buffer = PrivatePCA(
                k, statistic=kind, epsilon=many, mechanism="matrix_laplace", random_state=run
            )
            directions.append(differences_buffer.fit(rows).components_)
        found.append([1 - captured_variance(truth, one) / best for one in directions])
    return tuple(np.mean(found, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=["wine", "airfoil", "covertype", "kddcup99"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=2_000, help="at most so many rows of each table")
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    console = Console(width=120)

    table = Table(
        title="Efficiency against Pearson, normal rows (n = 400); relative privacy noise is the same for all k"
    )
    for heading in ("rho", *(f"k = {k}" if k > 1 else "disjoint" for k in RINGS)):
        table.add_column(heading, justify="right")
    theory = (4 * k / (math.pi**2 * (2 + 4 * (k - 1) / 9)) for k in RINGS)
    table.add_row("0 (formula)", *(f"{value:.2f}" for value in theory))
    for rho in (0.0, 0.5):
        table.add_row(f"{rho:g}", *(f"{efficiency(rho, k, 400, 75 * arguments.runs, k):.2f}" for k in RINGS))
    console.print(table)

    table = Table(title=f"Loss of captured variance (mean of {arguments.runs} orders and draws, matrix_laplace)")
    table.add_column("table (n, d, k)")
    table.add_column("rows")
    for heading, way in itertools.product(("no noise", f"eps {arguments.epsilon:g}"), ("disjoint", "neighbours")):
        table.add_column(f"{heading}, {way}", justify="right")
    rng = np.random.default_rng(0)
    for name in arguments.tables:
        rows = load(name)
        X = rows.X[rng.permutation(len(rows.X))[: arguments.rows]]
        X = X[:, X.std(axis=0) > 0]
        X = (X / X.std(axis=0))[:, :40]
        for kind in ("spatial_sign", "kendall"):
            values = losses(kind, X, rows.k, arguments.epsilon, arguments.runs, rng)
            size = f"{name} ({X.shape[0]}, {X.shape[1]}, {rows.k})"
            table.add_row(size, kind, *(f"{value:.4f}" for value in values))
    console.print(table)


if __name__ == "__main__":
    main()
