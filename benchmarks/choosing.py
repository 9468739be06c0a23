"""Where sampling beats adding noise: loss against n * epsilon / d, for pure laws; the evidence behind "auto".

Run `python benchmarks/choosing.py [--output FILE.json] [--plot FILE.png]`. The loss of directions V is
1 - qF(V)/qF(best), averaged over draws, for data of given spectrum; the laws see exact moments of rows of norm
at most 1.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil import RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.laws import LAWS
from eigenveil.metrics import captured_variance
from eigenveil.postprocess import top_components
from eigenveil.randomness import seeded_generator

NAMES = ("matrix_laplace", "eigenvector_sampling", "ppca")
BUDGETS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # n * epsilon / d


def rows_of(spectrum: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Gaussian rows of the given spectrum, shortened to norm 1."""
    X = generator.standard_normal((n, spectrum.size)) * np.sqrt(spectrum / spectrum.sum())
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def spectra(d: int) -> dict[str, np.ndarray]:
    i = np.arange(1, d + 1)
    return {"power law": 1.0 / i, "steep": 1.0 / i**2, "one spike": np.where(i == 1, float(d), 1.0)}


def mean_loss(name: str, moments: SecondMoments, k: int, draws: int, seed: int) -> float:
    truth = moments.gram.astype(np.float64)
    best = captured_variance(truth, top_components(truth, k))
    law = LAWS[name](epsilon=1.0, n_features=truth.shape[0], n_components=k, accept_inexact=True)
    losses = [
        1 - captured_variance(truth, release(law, moments, generator=seeded_generator(seed + j)).components) / best
        for j in range(draws)
    ]
    return float(np.mean(losses))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)  # few rows are the question here
    table = Table(title="Mean loss 1 - qF/qF(best), epsilon = 1")
    for column in ("d", "k", "spectrum", "n eps / d", *NAMES):
        table.add_column(column, justify="right")
    results = []
    for d, k in ((10, 2), (30, 1), (30, 5), (100, 3)):
        for kind, spectrum in spectra(d).items():
            for budget in BUDGETS:
                n = max(2, round(budget * d))
                moments = SecondMoments(RowBound(1.0), d).update(rows_of(spectrum, n, seeded_generator(n)))
                losses = {name: mean_loss(name, moments, k, arguments.draws, 1000) for name in NAMES}
                results.append({"d": d, "k": k, "spectrum": kind, "budget": budget, **losses})
                table.add_row(str(d), str(k), kind, f"{budget:g}", *(f"{losses[name]:.3f}" for name in NAMES))
    Console().print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))
    if arguments.plot:
        plot(results, arguments.plot)


def plot(results: list[dict], path: Path) -> None:
    import matplotlib.pyplot as plt

    cases = list(dict.fromkeys((row["d"], row["k"], row["spectrum"]) for row in results))
    figure, axes = plt.subplots(4, 3, figsize=(11, 11), sharex=True, sharey=True)
    for (d, k, kind), axis in zip(cases, axes.flat, strict=True):
        mine = [row for row in results if (row["d"], row["k"], row["spectrum"]) == (d, k, kind)]
        for name in NAMES:
            axis.semilogx([row["budget"] for row in mine], [row[name] for row in mine], marker="o", label=name)
        axis.set_title(f"d = {d}, k = {k}, {kind}", fontsize=9)
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("n · epsilon / d")
    figure.supylabel("mean loss 1 - qF(V) / qF(best)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
