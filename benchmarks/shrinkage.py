"""Closed forms beside simulation: shrunk matrices, the noise edge, and the reach of mapped noise.

    python benchmarks/shrinkage.py [--widths 2 3 5 10 30] [--noises 0.1 1] [--runs 8] [--fresh] [--quick]

Losses are mean Frobenius distances to the truth, closed form over simulation on the same releases; "best" is that of
the eigenvalues u'Au. `--fresh` takes spectra that nothing was chosen on, real covariance matrices among them. A cell
loses where its ratio is above 1.02 by two standard errors. Noise is in units of its edge over the largest eigenvalue,
as in docs/research/postprocessing.md. "lever" is |m|^2 of a subtracted mean m in units of the appended constant: the
largest eigenvalue of BB' is 1 + |m|^2. Edges are compared with quantiles of simulated noise.
"""

import argparse
import functools
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_image

from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.additive import AdditiveMechanism
from eigenveil.postprocess.noise_spectrum import edge_quantile, mapped_reach
from eigenveil.postprocess.shrinkage import shrink, shrink_by_simulation
from eigenveil.postprocess.spectrum import Eigensystem

# Shapes that the constants of the closed forms were not chosen on, but for the share of averages.
SPECTRA: dict[str, Callable[[int], np.ndarray]] = {
    "geometric": lambda d: 0.7 ** np.arange(d),
    "two levels": lambda d: np.where(np.arange(d) < (d + 1) // 2, 1.0, 0.2),
    "white noise": lambda d: np.linalg.svd(np.random.default_rng(d).normal(size=(2 * d, d)))[1] ** 2 / (2 * d),
    "spikes on a ramp": lambda d: np.sort(np.append(np.linspace(0.2, 0.05, d)[3:], [1.0, 0.6, 0.3]))[::-1][:d],
    "three decades": lambda d: np.logspace(0, -3, d),
    "half empty": lambda d: np.where(np.arange(d) < (d + 1) // 2, np.linspace(1, 0.5, d), 0.0),
}
# Shapes that nothing was chosen on.
FRESH: dict[str, Callable[[int], np.ndarray]] = {
    "two clusters": lambda d: np.where(np.arange(d) < (d + 3) // 4, np.linspace(1, 0.9, d), np.linspace(0.12, 0.08, d)),
    "power 0.5": lambda d: np.arange(1.0, d + 1) ** -0.5,
    "power 1": lambda d: np.arange(1.0, d + 1) ** -1,
    "power 2": lambda d: np.arange(1.0, d + 1) ** -2,
    "tied spikes": lambda d: np.where(np.arange(d) < min(3, (d + 1) // 2), 1.0, 0.1),
    "tied rank": lambda d: np.where(np.arange(d) < min(5, (d + 1) // 2), 1.0, 0.0),
    "uniform": lambda d: np.linspace(1, 1 / d, d),
    "flat": np.ones,
    "breast cancer": lambda d: eigenvalues_of(load_breast_cancer().data[:, :d]),
    "digits": lambda d: eigenvalues_of(load_digits().data[:, load_digits().data.std(axis=0) > 1][:, :d]),
    "pixels": lambda d: eigenvalues_of(pixels()[: len(pixels()) // d * d].reshape(-1, d)),
}
# Features of tables.
WIDTHS = {"breast cancer": 30, "digits": 40}
LEVERS = (0.0, 1.0, 3.0)
LOSING = 1.02


@functools.cache
def pixels() -> np.ndarray:
    return load_sample_image("china.jpg").mean(axis=2).ravel()


def eigenvalues_of(table: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of the covariance matrix of features divided by their ranges, from the largest down."""
    return np.linalg.eigvalsh(np.cov((table / np.ptp(table, axis=0)).T))[::-1].copy()


def mechanism_of(name: str, d: int) -> AdditiveMechanism:
    budget = {"epsilon": 1.0, "delta": 1e-6 if MECHANISMS[name].needs_delta else 0.0}
    made = MECHANISMS[name](**budget, n_features=d)
    assert isinstance(made, AdditiveMechanism)
    return made


def losses(name: str, shape: str, d: int, noise: float, lever: float, runs: int, seed: int) -> np.ndarray:
    """Return, by run, the loss of the closed form, of the simulation and of the best eigenvalues."""
    generator = np.random.default_rng(seed)
    mechanism = mechanism_of(name, d + (lever > 0))
    spectrum = (SPECTRA | FRESH)[shape](d)
    facts = mechanism.noise_facts()
    unit = noise * spectrum[0] / (2 * np.sqrt(facts.off_variance * d))
    mean = generator.standard_normal(d)
    mean *= np.sqrt(lever) / np.linalg.norm(mean)
    mapping = np.column_stack([np.eye(d), -mean]) if lever else np.eye(d)

    def draws(g: np.random.Generator, count: int) -> np.ndarray:
        return mapping @ (mechanism.simulated_noises(g, count) * unit) @ mapping.T

    found = []
    for _ in range(runs):
        basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
        truth = (basis * spectrum) @ basis.T
        release = truth + draws(generator, 1)[0]
        release = (release + release.T) / 2
        system = Eigensystem(release)
        rows = system.rows()
        off = facts.off_variance * (unit * (1 + lever / d)) ** 2
        sharp = mechanism.sharp_trace
        estimates = (
            shrink(release, off, facts.excess, system, keep_trace=sharp).covariance,
            shrink_by_simulation(release, draws, system, keep_trace=sharp).covariance,
            (rows.T * np.einsum("ki,ij,kj->k", rows, truth, rows)) @ rows,
        )
        found.append([np.linalg.norm(one - truth) for one in estimates])
    return np.array(found)


def cells(arguments: argparse.Namespace) -> Iterator[tuple[str, str, int, float, float]]:
    for name in ("gaussian", "matrix_laplace"):
        for d in arguments.widths:
            for shape in FRESH if arguments.fresh else SPECTRA:
                if arguments.fresh and d > WIDTHS.get(shape, d):
                    continue
                for noise in arguments.noises:
                    for lever in LEVERS:
                        yield name, shape, d, noise, lever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[2, 3, 5, 10, 30])
    parser.add_argument("--noises", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--draws", type=int, default=2000, help="simulated noise matrices behind a quantile")
    parser.add_argument("--fresh", action="store_true", help="spectra that nothing was chosen on")
    parser.add_argument("--quick", action="store_true", help="two widths, few runs")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.widths, arguments.runs, arguments.draws = [3, 10], 8, 300
    console = Console(width=130)
    ratios: dict[tuple[str, int, float], list[float]] = {}
    losing = Table(title=f"Cells that lose: closed over simulated above {LOSING} by two standard errors")
    for heading in ("mechanism", "spectrum", "d", "noise", "lever", "closed / simulated", "best / simulated"):
        losing.add_column(heading)
    for number, cell in enumerate(cells(arguments)):
        found = losses(*cell, arguments.runs, number)
        closed, simulated, best = found.T
        ratio = float(closed.mean() / simulated.mean())
        error = float((closed - ratio * simulated).std(ddof=1) / np.sqrt(len(found)) / simulated.mean())
        ratios.setdefault((cell[0], cell[2], cell[4]), []).append(ratio)
        if ratio - 2 * error > LOSING:
            losing.add_row(*map(str, cell), f"{ratio:.3f} ± {error:.3f}", f"{best.mean() / simulated.mean():.3f}")
    table = Table(title="Loss of the closed form over simulation, over all spectra and noises: mean (largest)")
    for heading in ("mechanism", "d", *(f"lever {lever:g}" for lever in LEVERS)):
        table.add_column(heading)
    for name in ("gaussian", "matrix_laplace"):
        for d in arguments.widths:
            row = [ratios[name, d, lever] for lever in LEVERS]
            table.add_row(name, str(d), *(f"{np.mean(one):.3f} ({max(one):.3f})" for one in row))
    console.print(table)
    console.print(losing)
    console.print(edges(arguments))


def edges(arguments: argparse.Namespace) -> Table:
    """Return how often the first edge is passed by noise, and the reach of mapped noise over its mean."""
    table = Table(title="Share of noise above the 5 % edge; mapped reach over the mean largest eigenvalue, by lever")
    for heading in ("mechanism", "d", "above the edge", *(f"lever {lever:g}" for lever in LEVERS[1:])):
        table.add_column(heading)
    for name in ("gaussian", "matrix_laplace"):
        for d in arguments.widths:
            mechanism, generator = mechanism_of(name, d), np.random.default_rng(d)
            facts, wider = mechanism.noise_facts(), mechanism_of(name, d + 1)
            tops = [np.linalg.eigvalsh(mechanism.simulated_noise(generator))[-1] for _ in range(arguments.draws)]
            edge = edge_quantile(d, facts.off_variance, facts.excess, sharp_trace=mechanism.sharp_trace)
            reached = []
            for lever in LEVERS[1:]:
                mapping = np.column_stack([np.eye(d), np.sqrt(lever / d) * np.ones(d)])
                draws = (mapping @ wider.simulated_noise(generator) @ mapping.T for _ in range(arguments.draws // 10))
                mean = np.mean([np.linalg.eigvalsh(noise)[-1] for noise in draws])
                reach = mapped_reach(np.append(np.ones(d - 1), 1 + lever)) * wider.off_diagonal_sd
                reached.append(f"{reach / mean:.3f}")
            table.add_row(name, str(d), f"{np.mean(np.array(tops) > edge):.4f}", *reached)
    return table


if __name__ == "__main__":
    main()
