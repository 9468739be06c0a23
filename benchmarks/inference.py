"""Confidence intervals of least-squares coefficients on real tables, beside published private methods.

    python benchmarks/inference.py                          print the table, from the saved results
    python benchmarks/inference.py --measure [--runs 40]    measure first, some minutes; saved in inference_results.json
    python benchmarks/inference.py --write                  put the table into docs/research/regression_intervals.md

The table is the population: every run draws as many rows with replacement, fits them privately, and asks whether the
95 % interval of a coefficient holds that of the whole table. Ranges are those of the table, **computed without
privacy**, as a data owner would know them; all methods get the same ranges, epsilon and delta, replace-one adjacency.

- eigenveil: `PrivateCovariance(...).regress(target, of="population")`, and `reduced` where a coefficient has no finite
  interval; the truth is then that of the same features.
- delta: noisy moments (Dwork et al. 2014), least squares, variances of noise and sampling by the delta method as Evans
  and King (2023) correct them; eigenvalues below the noise are raised to it.
- AdaSSP with intervals by parametric bootstrap: Wang (2018), Ferrando, Wang and Sheldon (2022), 200 draws.
- projection: Sheffet (2017), Gaussian projections of the rows with a t interval.
- DPrivStats 0.1.0, as its manual says, by default: **only the target is protected**, features are public, and sampling
  covariances are computed without privacy.

All were written anew from the papers. Widths are medians over finite intervals, in units of those without privacy.
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from eigenveil import PrivateCovariance
from eigenveil.accounting.calibration import gaussian_mu
from eigenveil.errors import NoiseWarning
from frontier_page import filled
from ridge import tables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("inference_results.json")
PAGE, MARK = ROOT / "docs" / "research" / "regression_intervals.md", "inference"
NAMES = ("diabetes", "airfoil", "covertype", "census")
EPSILONS, DELTA, Z = (1.0, 10.0), 1e-6, 1.959964
METHODS = {
    "full": "eigenveil",
    "reduced": "its `reduced`",
    "delta": "delta",
    "adassp": "AdaSSP",
    "sheffet": "projection",
    "public": "DPrivStats",
}
BOOTSTRAPS = 200


def least_squares(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=0)
    return np.linalg.lstsq(centred[:, :-1], centred[:, -1], rcond=None)[0]


def plain_widths(rows: np.ndarray) -> np.ndarray:
    """Return the widths of the usual intervals, without privacy."""
    centred, coef = rows - rows.mean(axis=0), least_squares(rows)
    residual = np.mean((centred[:, -1] - centred[:, :-1] @ coef) ** 2)
    return 2 * Z * np.sqrt(residual * np.diag(np.linalg.inv(centred[:, :-1].T @ centred[:, :-1])))


def ours(rows: np.ndarray, epsilon: float, seed: int) -> dict[str, tuple[np.ndarray, list[int]]]:
    model = PrivateCovariance(epsilon=epsilon, delta=DELTA, bounds=(-1, 1), random_state=seed).fit(rows)
    fit = model.regress(rows.shape[1] - 1, of="population")
    found = {"full": (fit.coef_interval, list(fit.features))}
    if fit.reduced is not None:
        found["reduced"] = (fit.reduced.coef_interval, list(fit.reduced.features))
    return found


def noisy_moments(rows: np.ndarray, mu: float, generator: np.random.Generator) -> tuple[np.ndarray, float]:
    """Return the noisy sum of [x, 1, y][x, 1, y]' with its deviation beside the diagonal, the count as it is."""
    whole = np.column_stack([rows[:, :-1], np.ones(len(rows)), rows[:, -1]])
    sd = whole.shape[1] / mu  # the Frobenius sensitivity is sqrt(2) times the squared norm
    noise = generator.standard_normal((whole.shape[1],) * 2) * sd / math.sqrt(2)
    return whole.T @ whole + noise + noise.T, sd


def centred_moments(moments: np.ndarray, n: int) -> np.ndarray:
    """Return the covariance of [x, y] from sums with the constant last but one."""
    others = [*range(len(moments) - 2), len(moments) - 1]
    mean = moments[others, -2] / n
    return np.asarray(moments[np.ix_(others, others)] / n - np.outer(mean, mean))


def delta_method(rows: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    n, p = len(rows), rows.shape[1] - 1
    moments, sd = noisy_moments(rows, gaussian_mu(epsilon, DELTA), generator)
    M, tau = centred_moments(moments, n), sd / n
    values, vectors = np.linalg.eigh(M[:p, :p])
    inverse = (vectors / np.maximum(values, tau)) @ vectors.T
    coef = inverse @ M[:p, p]
    residual = max(float(M[p, p] - 2 * coef @ M[:p, p] + coef @ M[:p, :p] @ coef), tau)
    noise = tau**2 * ((1 + coef @ coef) * np.eye(p) + np.outer(coef, coef))
    reach = Z * np.sqrt(np.diag(inverse @ noise @ inverse) + residual * np.diag(inverse) / n)
    return np.stack([coef - reach, coef + reach], axis=-1)


def adassp(rows: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    """AdaSSP on the noisy moments; a bootstrap draws moments of Gaussian rows with the released values, and noise."""
    n, p, mu = len(rows), rows.shape[1] - 1, gaussian_mu(epsilon, DELTA)
    each = mu / math.sqrt(2)  # of the moments and of the least eigenvalue
    d = p + 2

    def estimate(moments: np.ndarray) -> np.ndarray:
        M = centred_moments(moments, n) * n
        least = np.linalg.eigvalsh(M[:p, :p])[0] + d / each * (generator.standard_normal() - Z)
        ridge = max(0.0, math.sqrt(p * math.log(2 * p**2 / 0.05)) * d / each - max(0.0, least))
        return np.linalg.solve(M[:p, :p] + ridge * np.eye(p), M[:p, p])

    moments, sd = noisy_moments(rows, each, generator)
    coef = estimate(moments)
    M = centred_moments(moments, n)
    values, vectors = np.linalg.eigh(M[:p, :p])
    features = (vectors * np.maximum(values, sd / n)) @ vectors.T
    residual = max(float(M[p, p] - 2 * coef @ M[:p, p] + coef @ features @ coef), sd / n)
    mean = moments[[*range(p), d - 1], -2] / n
    whole = np.zeros((p + 1, p + 1))
    whole[:p, :p], whole[:p, p] = features, features @ coef
    whole[p, :p], whole[p, p] = whole[:p, p], coef @ features @ coef + residual
    root, draws = np.linalg.cholesky(whole + 1e-12 * np.eye(p + 1)), []
    for _ in range(BOOTSTRAPS):
        triangle = np.tril(generator.standard_normal((p + 1, p + 1)), -1)
        triangle += np.diag(np.sqrt(generator.chisquare(n - 1 - np.arange(p + 1))))
        scatter, middle = root @ triangle, mean + root @ generator.standard_normal(p + 1) / math.sqrt(n)
        drawn, others = np.zeros((d, d)), [*range(p), d - 1]
        drawn[np.ix_(others, others)] = scatter @ scatter.T + n * np.outer(middle, middle)
        drawn[others, -2] = drawn[-2, others] = n * middle
        drawn[-2, -2] = n
        noise = generator.standard_normal((d, d)) * sd / math.sqrt(2)
        draws.append(estimate(drawn + noise + noise.T))
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return np.stack([2 * coef - high, 2 * coef - low], axis=-1)


def sheffet(rows: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    """Algorithm 1 of Sheffet (2017): projected rows; w times the identity is appended where they are nearly singular.

    A projection of rows with Gaussian entries has the distribution of a Gaussian matrix times the root of their moment.
    """
    whole = np.column_stack([rows[:, :-1], np.ones(len(rows)), rows[:, -1]])
    n, d = whole.shape
    r, squared = 2 * d + 20, float(d)
    w = 8 * squared / epsilon * (math.sqrt(2 * r * math.log(8 / DELTA)) + 2 * math.log(8 / DELTA))
    moments = whole.T @ whole
    test = w + generator.laplace(scale=4 * squared / epsilon) + 4 * squared * math.log(1 / DELTA) / epsilon
    if np.linalg.eigvalsh(moments)[0] <= test:
        moments = moments + w * np.eye(d)
    projected = generator.standard_normal((r, d)) @ np.linalg.cholesky(moments).T
    X, y = projected[:, :-1], projected[:, -1]
    inverse = np.linalg.inv(X.T @ X)
    coef = inverse @ X.T @ y
    residual = float(np.sum((y - X @ coef) ** 2)) / (r - d + 1)
    # The error of the projection, and that of the rows, whose residual variance is residual / n.
    reach = student.ppf(0.975, r - d + 1) * np.sqrt(residual * np.diag(inverse) * (1 + r / n))
    return np.stack([coef - reach, coef + reach], axis=-1)[:-1]


def public_features(rows: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    """Return intervals as DPrivStats 0.1.0 documents them, for public features: noise on the coefficients alone."""
    X = np.column_stack([rows[:, :-1], np.ones(len(rows))])
    moments = X.T @ X
    longest, least = math.sqrt(np.max(np.sum(X**2, axis=1))), np.linalg.eigvalsh(moments)[0]
    sd = longest * 2 / least / gaussian_mu(epsilon, DELTA)
    inverse = np.linalg.inv(moments)
    exact = inverse @ X.T @ rows[:, -1]
    residual = float(np.sum((rows[:, -1] - X @ exact) ** 2)) / (len(X) - X.shape[1])
    coef = exact + sd * generator.standard_normal(len(exact))
    reach = Z * np.sqrt(residual * np.diag(inverse) + sd**2)
    return np.stack([coef - reach, coef + reach], axis=-1)[:-1]


def measure(runs: int) -> dict[str, Any]:
    warnings.simplefilter("ignore", NoiseWarning)
    known, cells = tables(), []
    if "covertype" in known:
        known["covertype"] = known["covertype"][:, [*range(9), -1]]  # numbers alone
    for name in NAMES:
        if name not in known:
            print(f"{name} is not available", file=sys.stderr)
            continue
        low, high = known[name].min(axis=0), known[name].max(axis=0)
        table = (known[name] - (low + high) / 2) / ((high - low) / 2)
        n, d = table.shape
        truth, widths = least_squares(table), plain_widths(table)
        for epsilon in EPSILONS:
            found: dict[str, list[tuple[int, int, int, list[float]]]] = {method: [] for method in METHODS}
            for run in range(runs):
                generator = np.random.default_rng([run, d])
                rows = table[generator.integers(n, size=n)]
                answers = ours(rows, epsilon, run)
                everything = list(range(d - 1))
                answers["delta"] = delta_method(rows, epsilon, generator), everything
                answers["adassp"] = adassp(rows, epsilon, generator), everything
                answers["sheffet"] = sheffet(rows, epsilon, generator), everything
                answers["public"] = public_features(rows, epsilon, generator), everything
                for method, (ends, features) in answers.items():
                    true = truth if method != "reduced" else least_squares(table[:, [*features, d - 1]])
                    held = (ends[:, 0] <= true) & (true <= ends[:, 1])
                    finite = np.isfinite(ends).all(axis=1)
                    ratio = ((ends[:, 1] - ends[:, 0]) / widths[features])[finite]
                    found[method].append((int(held.sum()), len(held), int(finite.sum()), ratio.tolist()))
            cell: dict[str, Any] = {"table": name, "n": n, "features": d - 1, "epsilon": epsilon, "runs": runs}
            for method, each in found.items():
                total = sum(one[1] for one in each)
                ratios = [ratio for one in each for ratio in one[3]]
                cell[method] = {
                    "coverage": sum(one[0] for one in each) / total if total else None,
                    "intervals": total,
                    "finite": sum(one[2] for one in each) / total if total else None,
                    "width": float(np.median(ratios)) if ratios else None,
                }
            cells.append(cell)
            print(name, epsilon, "done", file=sys.stderr, flush=True)
    sys.path.append(str(ROOT))
    from experiments import provenance

    return {"commit": provenance.commit(), "day": provenance.today(), "delta": DELTA, "cells": cells}


def rows_of(results: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table: coverage, and the median width."""

    def text(one: dict[str, Any]) -> str:
        if one["coverage"] is None:
            return ""
        if one["width"] is None:
            return "all infinite"
        some = "" if one["finite"] == 1 else f", {one['finite']:.0%} finite"
        return f"{one['coverage']:.2f}; {one['width']:.2g}{some}"

    return [
        [
            cell["table"],
            f"{cell['n']:,}, {cell['features']}",
            f"{cell['epsilon']:g}",
            *(text(cell[one]) for one in METHODS),
        ]
        for cell in results["cells"]
    ]


def parts(results: dict[str, Any]) -> dict[str, str]:
    """Return the parts of the page: its table."""
    header = ["table", "rows, features", "ε", *METHODS.values()]
    lines = (f"|{'|'.join(cells)}|" for cells in (header, ["---"] * len(header), *rows_of(results)))
    return {"table": "\n".join(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    arguments = parser.parse_args()
    if arguments.measure:
        RESULTS.write_text(json.dumps(measure(arguments.runs), indent=1) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(*parts(results).values())
    if arguments.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), parts(results), MARK), encoding="utf-8")


if __name__ == "__main__":
    main()
