"""Coverage of the 95 % intervals for the variance along released directions, cell by cell.

python benchmarks/coverage.py [--features 5 20 64 200] [--mechanisms gaussian matrix_laplace] [--rows clipped kendall]
                              [--sizes 1 3 10 30 100 1000] [--repeats 200] [--seed 0] [--output FILE.json]

A cell is a mechanism, a rule of the rows, a width d, a spectrum and a size n epsilon/d. The truth is a known matrix;
noise of the mechanism is added to it, and the release reads itself. Shown is how often the interval of the first,
second and third component, and that of the three together, held the true variance along the released directions; the
median width of the first interval over the total variance; and the same coverage of the naive interval, eigenvalue +-
1.96 standard deviations of the noise, for the first component. With R repeats a coverage of 0.95 has the
standard error 0.22/sqrt(R).
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

from eigenveil import Release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS, CentralMechanism
from eigenveil.moments.row_rule import RowRule
from eigenveil.releases.origin import ComponentsRequest, Origin

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


def main() -> None:
    """Print one line a cell, and which of them are below."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, nargs="+", default=[5, 20, 64, 200])
    parser.add_argument("--mechanisms", nargs="+", default=["gaussian", "matrix_laplace"])
    parser.add_argument("--rows", nargs="+", default=["clipped", "kendall"])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 3, 10, 30, 100, 1000])
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    console = Console(width=140)
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
