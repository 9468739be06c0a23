"""Raw tables: what the default call loses, beside an oracle that knows mean, scale and the best clipping bound.

    python benchmarks/raw_tables.py                           print the table, from the saved results
    python benchmarks/raw_tables.py --write                   put it into docs/explanation/raw_tables.md
    python benchmarks/raw_tables.py --measure [--quick]       measure first, and save every loss
        [--tables wine one_hot] [--epsilon 0.1 1] [--delta 0] [--runs 20] [--max-rows 20000] [--output FILE.json]

The loss of k = 2 directions V is 1 - tr(V'CV)/tr(best). The target "correlations" is that of
`make_pipeline(StandardScaler(), PCA())`, so C is the correlation matrix; "covariance" is that of `PCA`. Three answers:

- default: `PrivatePCA(2, standardize=...)` with nothing but epsilon and delta
- ranges: the same call with ranges that hold all rows and are up to twice too wide
- oracle: knows the mean and the standard deviations s of the columns. Rows are centred, divided by s ("correlations"),
  or by 1, sqrt(s) or s ("covariance"), clipped to a bound, and the whole budget is spent on noise for one matrix. For
  correlations it may divide by the standard deviations of the clipped columns once more. All of this is chosen for the
  least mean loss, the bound among quantiles of the row norms, **without privacy**

Measuring takes about a quarter of an hour, and saves every loss in `raw_tables_results.json` with versions and commit.
Tables of more than `LARGE` entries get a third of the runs.
"""

import argparse
import itertools
import json
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh

from eigenveil import PrivatePCA
from eigenveil.errors import EigenveilError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.additive import AdditiveMechanism
from frontier_page import filled, markdown
from raw_tables_data import NAMES, available, load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("raw_tables_results.json")
PAGE, MARK = ROOT / "docs" / "explanation" / "raw_tables.md", "raw_tables"
K = 2
LARGE = 1_000_000
QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.999, 1.0)
POWERS = {"correlations": (1.0,), "covariance": (0.0, 0.5, 1.0)}
"""Powers of the standard deviations that an oracle divides columns by."""
SMALLEST = 1e-4
"""A smaller loss counts as this one in ratios: nobody sees the difference."""
ROUNDING = 1e-12
FAR = 10.0
"""Ratio from which a cell is named."""

Cell = dict[str, Any]


def target_matrix(X: np.ndarray, target: str) -> np.ndarray:
    """Return the covariance or the correlations of a table; those of constant columns are 0."""
    covariance = np.cov(X.T)
    if target == "covariance":
        return covariance
    spread = spread_of(X)
    return covariance / np.outer(spread, spread)


def spread_of(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0, ddof=1)
    return np.where(spread > 0, spread, 1.0)


def loss(truth: np.ndarray, components: np.ndarray) -> float:
    """Return the share of the best captured variance that directions miss."""
    best = np.linalg.eigvalsh(truth)[-len(components) :].sum()
    return float(1 - np.trace(components @ truth @ components.T) / best)


def random_loss(truth: np.ndarray) -> float:
    """Return the expected loss of random directions."""
    values = np.linalg.eigvalsh(truth)
    return float(1 - K / len(values) * values.sum() / values[-K:].sum())


def wide_ranges(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges that hold all rows, each end moved out by up to half the width."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    below, above = np.random.default_rng(seed).uniform(0, 0.5, (2, X.shape[1]))
    return low - below * width, high + above * width


def fitted(X: np.ndarray, truth: np.ndarray, runs: int, ranges: bool, **options: Any) -> list[float]:
    """Return the losses of some fits; none where the call is refused."""
    losses = []
    for seed in range(runs):
        given = {"bounds": wide_ranges(X, seed)} if ranges else {}
        try:
            model = PrivatePCA(K, random_state=seed, **options, **given).fit(X)
        except EigenveilError:
            return []
        losses.append(loss(truth, model.components_))
    return losses


class Oracle:
    """Clipped second moments of one table at every bound and divisor, for all budgets."""

    def __init__(self, X: np.ndarray, target: str) -> None:
        self.truth = target_matrix(X, target)
        self.choices = []
        for power in POWERS[target]:
            divisor = spread_of(X) ** power
            rows = (X - X.mean(axis=0)) / divisor
            norms = np.linalg.norm(rows, axis=1)
            for quantile in QUANTILES:
                bound = float(np.quantile(norms, quantile))
                if bound > 0:
                    kept = rows * np.minimum(1, bound / np.maximum(norms, bound))[:, None]
                    # In own units, to know the standard deviations would be most of the answer.
                    units = {"": np.ones_like(divisor), ", divided again": 1 / spread_of(kept)}
                    for again, factors in units.items() if target == "correlations" else (("", divisor),):
                        words = f"power {power:g}, quantile {quantile:g}{again}"
                        self.choices.append((words, bound, np.outer(factors, factors), kept.T @ kept))

    def answers(self, mechanism: AdditiveMechanism, runs: int) -> tuple[list[float], str]:
        """Return the losses with the best choice, and that choice in words. All choices meet the same noise."""
        d = len(self.truth)
        noises = [mechanism.simulated_noise(np.random.default_rng(seed)) for seed in range(runs)]
        best, choice = [math.inf], ""
        for words, bound, factors, sums in self.choices:
            noisy = ((sums + bound**2 * noise) * factors for noise in noises)
            losses = [loss(self.truth, eigh(one, subset_by_index=(d - K, d - 1))[1].T) for one in noisy]
            if np.mean(losses) < np.mean(best):
                best, choice = losses, words
        return best, choice


def best_noise(epsilon: float, delta: float, d: int) -> AdditiveMechanism:
    """Return the mechanism with the least noise beside the diagonal."""
    names = ("gaussian", "matrix_laplace") if delta else ("matrix_laplace",)
    made = [MECHANISMS[n](epsilon=epsilon, delta=delta if n == "gaussian" else 0.0, n_features=d) for n in names]
    return min(made, key=lambda mechanism: mechanism.off_diagonal_sd)


def cells(name: str, epsilons: list[float], deltas: list[float], runs: int, max_rows: int) -> Iterator[Cell]:
    """Yield what every budget and target gives on one table."""
    X = load(name, max_rows)
    n, d = X.shape
    runs = runs if X.size <= LARGE else max(2, runs // 3)
    for target in POWERS:
        oracle = Oracle(X, target)
        for delta in deltas:
            for epsilon in epsilons:
                options = {"epsilon": epsilon, "delta": delta, "standardize": target == "correlations"}
                best, choice = oracle.answers(best_noise(epsilon, delta, d), runs)
                losses = {
                    "default": fitted(X, oracle.truth, runs, False, **options),
                    "ranges": fitted(X, oracle.truth, runs, True, **options),
                    "oracle": best,
                }
                yield {
                    "table": name,
                    "n": n,
                    "d": d,
                    "target": target,
                    "epsilon": epsilon,
                    "delta": delta,
                    "losses": {way: [float(f"{one:.4g}") for one in some] for way, some in losses.items()},
                    "oracle": choice,
                    "random": float(f"{random_loss(oracle.truth):.4g}"),
                }


def measure(names: list[str], epsilons: list[float], deltas: list[float], runs: int, max_rows: int, to: Path) -> None:
    """Measure all cells, and save them after each table."""
    sys.path.append(str(ROOT))
    import datasets
    from experiments import provenance

    record = {"commit": provenance.commit(), "day": provenance.today()}  # before the run: files may change in its time
    known = tuple(name for name in names if name in datasets.NAMES)
    results: dict[str, Any] = {"origin": provenance.origin(known, [record]), "max_rows": max_rows, "cells": []}
    for name in names:
        results["cells"] += cells(name, epsilons, deltas, runs, max_rows)
        to.write_text(json.dumps(results) + "\n", encoding="utf-8")
        print(f"{name}: done", file=sys.stderr, flush=True)


def mean_and_error(losses: list[float], otherwise: float, smallest: float = SMALLEST) -> tuple[float, float]:
    """Return the mean loss, at least `smallest`, and its standard error; `otherwise` where the call was refused."""
    if not losses:
        return otherwise, 0.0
    if np.mean(losses) <= smallest:
        return smallest, 0.0
    return float(np.mean(losses)), float(np.std(losses, ddof=1)) / len(losses) ** 0.5


def log_ratio(
    cell: Cell, way: str = "default", beside: str = "oracle", smallest: float = SMALLEST
) -> tuple[float, float]:
    """Return the logarithm of the ratio of mean losses, and its standard error."""
    (mean, error), (other, other_error) = (
        mean_and_error(cell["losses"][one], cell["random"], smallest) for one in (way, beside)
    )
    return math.log(mean / other), math.hypot(error / mean, other_error / other)


def geometric_mean(some: list[Cell], way: str = "default", beside: str = "oracle") -> str:
    """Return the geometric mean of ratios over cells, with its standard error."""
    if not some:
        return ""
    logs, errors = zip(*(log_ratio(cell, way, beside) for cell in some), strict=True)
    mean = math.exp(np.mean(logs))
    error = mean * math.hypot(*errors) / len(some)
    places = 0 if mean >= FAR else 1
    return f"{mean:.{places}f} ± {error:.{places}f}"


def setting(cell: Cell, other: Cell | None = None) -> str:
    """Return target, epsilon (or that of two cells) and delta of a cell in words."""
    epsilons = " to ".join(f"{one['epsilon']:g}" for one in (cell, other) if one)
    return f"{cell['target']}, ε = {epsilons}, δ = {cell['delta']:g}"


def number(value: float) -> str:
    return f"{value:.2g}".removeprefix("0")


def worst(some: list[Cell]) -> str:
    """Return the cell with the largest ratio, and how many are `FAR` or more from the oracle."""
    far = sorted((cell for cell in some if log_ratio(cell)[0] >= math.log(FAR)), key=log_ratio)
    if not far:
        return ""
    mine, best = (mean_and_error(far[-1]["losses"][way], far[-1]["random"])[0] for way in ("default", "oracle"))
    return f"{len(far)} of {len(some)}; {setting(far[-1])}: {number(mine)}, oracle {number(best)}"


def rises(some: list[Cell]) -> list[str]:
    """Return where a larger epsilon has a clearly larger loss."""
    found = []
    for cell, larger in itertools.pairwise(some):
        if (cell["target"], cell["delta"]) != (larger["target"], larger["delta"]):
            continue
        (mean, error), (after, other) = (mean_and_error(one["losses"]["default"], 1.0) for one in (cell, larger))
        if after > 1.2 * mean and after - mean > 2 * math.hypot(error, other):
            found.append(f"{cell['table']} ({setting(cell, larger)}: {number(mean)} to {number(after)})")
    return found


def page_table(results: dict[str, Any]) -> str:
    """Return a line a table: geometric means over epsilon, and the cells that are far from the oracle."""
    everything = results["cells"]
    groups = [(target, delta) for target in POWERS for delta in sorted({cell["delta"] for cell in everything})]
    header = ["table", "n by d", *(f"{target}, δ = {delta:g}" for target, delta in groups), f"{FAR:g} times or more"]
    rows = []
    for name in (*dict.fromkeys(cell["table"] for cell in everything), ""):
        mine = [cell for cell in everything if not name or cell["table"] == name]
        means = [geometric_mean([c for c in mine if (c["target"], c["delta"]) == group]) for group in groups]
        if name:
            rows.append([name, f"{mine[0]['n']:,} by {mine[0]['d']}", *means, worst(mine)])
        else:
            far = sum(log_ratio(cell)[0] >= math.log(FAR) for cell in mine)
            rows.append(["geometric mean", "", *means, f"{far} of {len(mine)} cells"])
    return markdown(header, rows)


def words_below(results: dict[str, Any]) -> str:
    """Return what stands below the table: refusals, rises, and the same call with ranges."""
    everything = results["cells"]
    by_table = [[c for c in everything if c["table"] == name] for name in dict.fromkeys(c["table"] for c in everything)]
    refused = [f"{cell['table']} ({setting(cell)})" for cell in everything if not cell["losses"]["default"]]
    up = [words for some in by_table for words in rises(some)]
    deltas = sorted({cell["delta"] for cell in everything})
    groups = {
        f"{target}, δ = {delta:g}": [c for c in everything if (c["target"], c["delta"]) == (target, delta)]
        for target in POWERS
        for delta in deltas
    }
    beside = [f"{geometric_mean(some, 'ranges', 'default')} ({words})" for words, some in groups.items()]
    hurt = [
        cell["table"] for cell in everything if log_ratio(cell, "ranges", "default")[0] > math.log(2) and cell["delta"]
    ]
    bare = [
        f"{math.exp(np.mean([log_ratio(cell, smallest=ROUNDING)[0] for cell in some])):.1f} ({words})"
        for words, some in groups.items()
    ]
    lines = [
        f"- Geometric means if no loss is raised to {SMALLEST:g}: {', '.join(bare)}.",
        f"- Refused, counted as random directions: {', '.join(refused) or 'no cell'}.",
        f"- A larger ε has a clearly larger loss in: {'; '.join(up) or 'no cell'}.",
        f"- Public ranges up to twice too wide, loss over that of the default call: {', '.join(beside)}. With δ > 0 "
        f"they have more than twice the loss in {len(hurt)} of {sum(cell['delta'] > 0 for cell in everything)} cells "
        f"({', '.join(f'{name} {hurt.count(name)}' for name in dict.fromkeys(hurt)) or 'none'}).",
    ]
    return "\n".join(lines)


def origin_in_words(results: dict[str, Any]) -> str:
    origin, everything = results["origin"], results["cells"]
    epsilons = ", ".join(f"{one:g}" for one in sorted({cell["epsilon"] for cell in everything}))
    runs = sorted({len(cell["losses"]["oracle"]) for cell in everything})
    return (
        f"Loss of the default call over that of the oracle, geometric mean over ε = {epsilons}, with standard errors "
        f"({' or '.join(str(one) for one in runs)} runs a cell, {len(everything)} cells). A loss below {SMALLEST:g} "
        f"counts as {SMALLEST:g}. Measured on {', '.join(origin['days'])} at commit {', '.join(origin['commits'])}."
    )


def page_part(results: dict[str, Any]) -> dict[str, str]:
    """Return what stands between the marks of the page."""
    return {"results": f"{origin_in_words(results)}\n\n{page_table(results)}\n\n{words_below(results)}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="run everything again and save it")
    parser.add_argument("--quick", action="store_true", help="fewer epsilons, rows and runs")
    parser.add_argument("--tables", nargs="+", default=[name for name in NAMES if available(name)], choices=NAMES)
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--delta", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--max-rows", type=int)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    epsilons = options.epsilon or ([0.1, 1.0] if options.quick else [0.1, 0.3, 1.0, 3.0])
    runs = options.runs or (3 if options.quick else 10)
    max_rows = options.max_rows or (10_000 if options.quick else 300_000)
    if options.measure:
        measure(options.tables, sorted(epsilons), options.delta, runs, max_rows, options.output)
    part = page_part(json.loads(options.output.read_text(encoding="utf-8")))
    if options.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), part, MARK), encoding="utf-8")
    else:
        print(*part.values())


if __name__ == "__main__":
    main()
