"""Coverage of the 95 % intervals for the variance along released directions, cell by cell.

python benchmarks/coverage.py [--features 5 20 64 200] [--mechanisms gaussian matrix_laplace] [--rows clipped kendall]
                              [--sizes 1 3 10 30 100 1000] [--repeats 200] [--seed 0] [--output FILE.json]
python benchmarks/coverage.py --real [--tables breast_cancer airfoil] [--epsilon 0.3 1 3] [--repeats 20]

A cell is a mechanism, a rule of the rows, a width d, a spectrum and a size n epsilon/d. The truth is a known matrix;
noise of the mechanism is added to it, and the release reads itself. Shown is how often the interval of the first,
second and third component, and that of the three together, held the true variance along the released directions; the
median width of the first interval over the total variance; and the same coverage of the naive interval, eigenvalue +-
1.96 standard deviations of the noise, for the first component. With R repeats a coverage of 0.95 has the
standard error 0.22/sqrt(R).

`--real` fits real tables: how often intervals of entries hold what they are about, and how often they hold the
covariance or the correlation of the table as it is. The first is that of the clipped rows, or sin(pi tau/2), tau
Kendall's of the same comparisons. Public ranges are a tenth of the width wider than the table on each side.
"""

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.stats
from rich.console import Console
from rich.table import Table

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS, CentralMechanism
from eigenveil.moments.row_rule import RowRule
from eigenveil.releases.origin import ComponentsRequest, Origin
from raw_tables_data import BUNDLED, NAMES, load

DELTA, K = 1e-6, 3
UNIT = 2.0**-32
LEAST = 0.93


def spectra(d: int) -> dict[str, np.ndarray]:
    """Return steep, tied and flat spectra of trace 1."""
    values = {
        "steep": np.arange(1.0, d + 1) ** -2,
        "tied": np.where(np.arange(d) < 2, 1.0, 0.3 / max(1, d - 2)),
        "flat": np.ones(d),
    }
    return {name: value / value.sum() for name, value in values.items()}


def truth_of(rows: str, values: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix that components are of, and the mean over rows that leaves with noise."""
    if rows == "kendall":
        correlation = scipy.stats.random_correlation.rvs(values * values.size, random_state=generator)
        return correlation, 2 / np.pi * np.arcsin(np.clip(correlation, -1, 1))
    return np.diag(values), np.diag(values)


def released(mechanism: CentralMechanism, rule: RowRule, mean: np.ndarray, noise: np.ndarray, n: float) -> Release:
    """Return the release of a mean over n rows with this noise on the sum."""
    matrix = n * mean + noise * rule.reach_squared
    origin = Origin(
        mechanism=mechanism.name,
        parameters=mechanism.parameters(),
        row_rule=rule,
        n_rows=round(n),
        request=ComponentsRequest(K),
    )
    return Release({"matrix": np.rint(matrix / UNIT).astype(np.int64)}, {"matrix": UNIT}, mechanism.guarantee(), origin)


def cell(releases: Iterator[Release], truth: np.ndarray) -> dict[str, list[float]]:
    """Return coverages of the intervals of components and their total, of the naive one, and the width of the first."""
    held, naive, width = [], [], []
    for release in releases:
        found = release.spectrum.variances_by_distribution(K).first(K)
        directions = release.spectrum.leading[1][:K]
        along = np.einsum("ki,ij,kj->k", directions, truth, directions)
        ends = np.vstack([found.interval, found.total_interval[-1:]])
        true = np.append(along, along.sum())
        held.append((ends[:, 0] - 1e-9 <= true) & (true <= ends[:, 1] + 1e-9))
        naive.append(abs(release.spectrum.leading[0][0] - along[0]) <= 1.96 * np.sqrt(2) * release.noise_sd)
        width.append((ends[0, 1] - ends[0, 0]) / np.trace(truth))
    return {"held": np.mean(held, axis=0).tolist(), "naive": float(np.mean(naive)), "width": float(np.median(width))}


def cells(
    mechanism_name: str, rows: str, d: int, sizes: list[float], repeats: int, seed: int
) -> Iterator[tuple[str, float, dict]]:
    """Yield spectrum, size and what was found, on common noise for all of them."""
    generator = np.random.default_rng([seed, d, len(mechanism_name), len(rows)])
    mechanism = MECHANISMS[mechanism_name](
        epsilon=1.0, delta=DELTA if MECHANISMS[mechanism_name].needs_delta else 0.0, n_features=d
    )
    rule = RowRule(np.sqrt(d), statistic=rows, comparisons=8) if rows == "kendall" else RowRule(1.0)
    noises = [mechanism.simulated_noise(generator) for _ in range(repeats)]
    for name, values in spectra(d).items():
        truth, mean = truth_of(rows, values, generator)
        for size in sizes:
            n = size * d / mechanism.epsilon
            # Rounding n to a whole number would change the noise: take the noise of the whole number.
            made = (released(mechanism, rule, mean, noise, round(n)) for noise in noises)
            yield name, size, cell(made, truth)


def clipped_covariance(release: Release, X: np.ndarray) -> np.ndarray:
    """Return the covariance of rows as they were clipped for a release, in the units of the table."""
    rule = release.origin.row_rule
    scale = np.ones(X.shape[1]) if rule.scale is None else np.asarray(rule.scale)
    rows = clipped(scale * (X if rule.shift is None else X - rule.shift), rule.row_norm)
    if rule.mapped_from is not None:
        P = release.integers["map"] * release.unit["map"]
        rows = np.linalg.solve(P, clipped(rows @ P.T, rule.norm).T).T
    return np.cov((rows / scale).T, bias=True)


def clipped(rows: np.ndarray, norm: float) -> np.ndarray:
    return rows * np.minimum(1, norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), norm))


def covered(ends: np.ndarray, truth: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> float:
    """Return how many of some entries their intervals hold."""
    low, high = ends[places].T
    return float(np.mean((low <= truth[places] + 1e-12) & (truth[places] <= high + 1e-12)))


def real_cells(name: str, epsilons: list[float], repeats: int) -> Iterator[dict]:
    """Yield both coverages of a table by route, and how many fits were preconditioned."""
    X = load(name, 20_000)
    d, width = X.shape[1], np.ptp(X, axis=0)
    bounds = X.min(axis=0) - width / 10, X.max(axis=0) + width / 10
    tau = PrivateCovariance(statistic="kendall", mechanism="none", random_state=0).fit(X).release_.matrix.row_matrix
    signs = np.sin(np.pi / 2 * tau / np.sqrt(np.outer(np.diag(tau), np.diag(tau))))
    makers = {
        "covariance, public ranges": lambda **o: PrivateCovariance(bounds=bounds, delta=DELTA, **o),
        "components, public ranges": lambda **o: PrivatePCA(2, bounds=bounds, delta=DELTA, **o),
        "correlations, Kendall": lambda **o: PrivateCovariance(statistic="kendall", **o),
    }
    for route, make in makers.items():
        for epsilon in epsilons:
            own, plain, mapped = [], [], 0
            for seed in range(repeats):
                release = make(epsilon=epsilon, random_state=seed).fit(X).release_
                if route.endswith("Kendall"):
                    ends, places = release.intervals.correlation(), np.triu_indices(d, 1)
                    truths = signs, np.corrcoef(X.T)
                else:
                    ends, places = release.intervals.covariance(), np.triu_indices(d)
                    truths = clipped_covariance(release, X), np.cov(X.T, bias=True)
                own.append(covered(ends, truths[0], places))
                plain.append(covered(ends, truths[1], places))
                mapped += release.origin.row_rule.mapped_from is not None
            shape = {"table": name, "n": len(X), "d": d, "route": route, "epsilon": epsilon}
            yield {**shape, "about": np.mean(own), "data": np.mean(plain), "preconditioned": mapped / repeats}


def print_real(console: Console, tables: list[str], epsilons: list[float], repeats: int) -> list[dict]:
    """Print and return the cells of real tables."""
    grid = Table("table", "n", "d", "route", "epsilon", "what it is about", "the data", "preconditioned")
    found = [one for name in tables for one in real_cells(name, epsilons, repeats)]
    for one in found:
        numbers = (f"{one[part]:.2f}" for part in ("about", "data", "preconditioned"))
        grid.add_row(one["table"], f"{one['n']:,}", str(one["d"]), one["route"], f"{one['epsilon']:g}", *numbers)
    console.print(grid)
    return found


def main() -> None:
    """Print one line a cell, and which of them are below."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, nargs="+", default=[5, 20, 64, 200])
    parser.add_argument("--mechanisms", nargs="+", default=["gaussian", "matrix_laplace"])
    parser.add_argument("--rows", nargs="+", default=["clipped", "kendall"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 3, 10, 30, 100, 1000])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--real", action="store_true", help="real tables in place of known matrices")
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=list(BUNDLED))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    console = Console(width=140)
    options.repeats = options.repeats or (20 if options.real else 200)
    if options.real:
        found = print_real(console, options.tables, options.epsilon, options.repeats)
        if options.output:
            options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    everything, low = [], 0
    for mechanism in options.mechanisms:
        for rows in options.rows:
            for d in options.features:
                table = Table(title=f"{mechanism}, {rows}, d = {d}, {options.repeats} repeats")
                for column in (
                    "spectrum",
                    "n epsilon/d",
                    "1st",
                    "2nd",
                    "3rd",
                    "all three",
                    "width of 1st",
                    "naive 1st",
                ):
                    table.add_column(column, justify="right")
                for spectrum, size, found in cells(mechanism, rows, d, options.sizes, options.repeats, options.seed):
                    shown = [f"{one:.3f}" if one >= LEAST else f"[red]{one:.3f}[/red]" for one in found["held"]]
                    low += sum(one < LEAST for one in found["held"])
                    table.add_row(spectrum, f"{size:g}", *shown, f"{found['width']:.3f}", f"{found['naive']:.3f}")
                    everything.append(
                        {"mechanism": mechanism, "rows": rows, "d": d, "spectrum": spectrum, "size": size, **found}
                    )
                console.print(table)
    total = sum(len(one["held"]) for one in everything)
    console.print(f"{low} of {total} coverages below {LEAST}; the lowest {min(min(e['held']) for e in everything):.3f}")
    if options.output:
        options.output.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
