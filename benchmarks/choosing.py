"""Where sampling beats adding noise: loss against n * epsilon / d, for pure mechanisms; the evidence behind "auto".

Run `python benchmarks/choosing.py [--draws 40] [--output FILE.json] [--plot FILE.png]`. The loss of directions V is
1 - qF(V)/qF(best), averaged over draws of the exact mechanisms, for rows of norm at most 1: Gaussian ones of given
spectrum (epsilon = 1, n moves), and real tables (n is theirs, epsilon moves). A crossing is where adding noise
overtakes.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from datasets import available, load
from eigenveil import RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.table import ONE_DIRECTION_BELOW
from eigenveil.metrics import captured_variance
from eigenveil.postprocess import top_components
from eigenveil.report.plots import GREY, new_figure, styled
from eigenveil.sampling.randomness import seeded_generator

NAMES = ("matrix_laplace", "eigenvector_sampling", "ppca")
BUDGETS = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)  # n * epsilon / d
SPECTRA = ((10, 1), (30, 1), (60, 1), (30, 3))
TABLES = ("synthetic", "breast_cancer", "digits", "wine", "airfoil", "localization", "insurance")


def rows_of(spectrum: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Gaussian rows of the given spectrum, shortened to norm 1."""
    X = generator.standard_normal((n, spectrum.size)) * np.sqrt(spectrum / spectrum.sum())
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def spectra(d: int) -> dict[str, np.ndarray]:
    i = np.arange(1, d + 1)
    return {"power law": 1.0 / i, "steep": 1.0 / i**2, "one spike": np.where(i == 1, float(d), 1.0)}


def mean_loss(name: str, moments: SecondMoments, k: int, epsilon: float, draws: int) -> float:
    truth = moments.gram.astype(np.float64)
    best = captured_variance(truth, top_components(truth, k))
    mechanism = MECHANISMS[name](epsilon=epsilon, n_features=truth.shape[0], n_components=k, accept_inexact=True)
    losses = [
        1
        - captured_variance(truth, release(mechanism, moments, generator=seeded_generator(1000 + j)).components) / best
        for j in range(draws)
    ]
    return float(np.mean(losses))


def crossing(additive: list[float], sampling: list[float]) -> float | None:
    """Return the budget from which on adding noise loses less, by interpolation; None where it always does."""
    ahead = np.log(np.array(additive) / sampling)
    behind = np.flatnonzero(ahead > 0)
    if not behind.size or behind[-1] == len(BUDGETS) - 1:
        return None
    i = behind[-1]
    return float(np.exp(np.interp(0.0, ahead[[i + 1, i]], np.log([BUDGETS[i + 1], BUDGETS[i]]))))


def measured(make: Callable[[float], tuple[SecondMoments, float]], k: int, draws: int, **facts: Any) -> list[dict]:
    results = []
    for budget in BUDGETS:
        moments, epsilon = make(budget)
        losses = {name: mean_loss(name, moments, k, epsilon, draws) for name in NAMES if k == 1 or name != "ppca"}
        results.append({**facts, "k": k, "budget": budget, **losses})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)  # few rows are the question here
    cases = []
    for d, k in SPECTRA:
        for kind, spectrum in spectra(d).items():

            def of_spectrum(budget: float, d: int = d, spectrum: np.ndarray = spectrum) -> tuple[SecondMoments, float]:
                rows = rows_of(spectrum, max(2, round(budget * d)), seeded_generator(round(10 * budget)))
                return SecondMoments(RowBound(1.0), d).update(rows), 1.0

            cases.append(measured(of_spectrum, k, arguments.draws, data=kind, d=d))
    drawn = len(cases)
    for name in TABLES:
        if available(name):
            rows = load(name, label_is_feature=False).X
            moments = SecondMoments(RowBound(1.0), rows.shape[1]).update(rows)
            for k in (1, 2):
                per_budget = rows.shape[1] / len(rows)
                cases.append(
                    measured(
                        lambda budget, moments=moments, factor=per_budget: (moments, budget * factor),
                        k,
                        arguments.draws,
                        data=name,
                        d=rows.shape[1],
                    )
                )
    table = Table(title="Loss by adding noise over loss by sampling; below 1 adding noise is better")
    for column in ("data", "d", "k", *(f"{budget:g}" for budget in BUDGETS), "crossing"):
        table.add_column(column, justify="right")
    for mine in cases:
        sampler = "ppca" if mine[0]["k"] == 1 else "eigenvector_sampling"
        additive, sampling = ([row[name] for row in mine] for name in ("matrix_laplace", sampler))
        place = crossing(additive, sampling)
        ratios = (f"{a / b:.2f}" for a, b in zip(additive, sampling, strict=True))
        facts = (mine[0]["data"], str(mine[0]["d"]), str(mine[0]["k"]))
        table.add_row(*facts, *ratios, "none" if place is None else f"{place:.1f}")
    Console(width=140).print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(cases, indent=1))
    if arguments.plot:
        plot(cases[:drawn], arguments.plot)


@styled()
def plot(cases: list[list[dict]], path: Path) -> None:
    figure = new_figure(9.0, 9.0)
    axes = figure.subplots(4, 3, sharex=True, sharey=True)
    for mine, axis in zip(cases, axes.flat, strict=True):
        for name in (name for name in NAMES if name in mine[0]):
            axis.semilogx(BUDGETS, [row[name] for row in mine], marker="o", label=name)
        axis.set_title(f"d = {mine[0]['d']}, k = {mine[0]['k']}, {mine[0]['data']}")
        if mine[0]["k"] == 1:
            axis.axvline(ONE_DIRECTION_BELOW, color=GREY, linewidth=0.8)
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("n · epsilon / d")
    figure.supylabel("mean loss 1 - qF(V) / qF(best)")
    figure.savefig(path)


if __name__ == "__main__":
    main()
