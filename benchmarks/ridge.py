"""R² of `PrivateRidge` on raw tables with public ranges, beside AdaSSP, a functional mechanism and no privacy.

Run `python benchmarks/ridge.py [--runs 20] [--output FILE.json] [--widen 1.0]`. The ranges are those of the table,
made `--widen` times as wide about their middle: **they are computed from the data without privacy**, as a data owner
would know them. R² is that of the rows themselves (private fits do not overfit), the median over runs. AdaSSP
(Wang 2018) needs a delta; it has the exact Gaussian accounting that ours has, and an intercept without penalty. The
functional mechanism (Zhang et al. 2012, as diffprivlib's LinearRegression has it: Laplace noise on the coefficients of
the loss) is pure. Both get the same ranges. "refused" is before the spend.
"""

import argparse
import json
import math
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from datasets import available, data_folder
from eigenveil import PrivateRidge
from eigenveil.accounting.calibration import gaussian_mu
from eigenveil.errors import InvalidDataError, NoiseWarning

EPSILONS = (0.1, 1.0, 3.0)
DELTAS = (0.0, 1e-6)
MAX_ROWS = 50_000


def tables() -> dict[str, np.ndarray]:
    """Return raw tables, the target last."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris

    known = {"iris": load_iris().data}
    for name, load in (("diabetes", load_diabetes), ("breast cancer", load_breast_cancer), ("digits", load_digits)):
        bunch = load(scaled=False) if name == "diabetes" else load()
        known[name] = np.column_stack([bunch.data, bunch.target])
    for name, file, target, dropped in (
        ("airfoil", "airfoil/airfoil_self_noise.csv.xz", "scaled_sound_pressure_level_db", ()),
        ("wine", "wine/wine.csv.xz", "alcohol", ("class",)),
        ("insurance", "insurance/insurance_coil2000.csv.xz", "CARAVAN", ()),
        ("census", "census/census_income_kdd_train.csv.xz", "weeks_worked_in_year", ("year",)),
    ):
        if available(name):
            import pandas as pd

            frame = pd.read_csv(data_folder() / file, keep_default_na=False).select_dtypes("number")
            frame = frame.drop(columns=list(dropped))
            known[name] = frame[[*(column for column in frame if column != target), target]].to_numpy(np.float64)
    if available("covertype"):
        with np.load(data_folder() / "covertype/covertype.npz") as stored:
            known["covertype"] = np.roll(stored["X"][:MAX_ROWS].astype(np.float64), -1, axis=1)  # elevation
    generator = np.random.default_rng(1)
    X = generator.standard_normal((100, 5))
    known["small"] = np.column_stack([X, X @ [1, 0.5, 0, 0, 0] + generator.standard_normal(100)])
    X = generator.standard_normal((5000, 2)) @ generator.standard_normal((2, 20))
    X += 0.05 * generator.standard_normal(X.shape)
    known["ill-conditioned"] = np.column_stack([X, X[:, 0] - X[:, 1] + 0.5 * generator.standard_normal(5000)])
    X = np.exp(0.5 * generator.standard_normal((20_000, 8)))  # skewed sizes, as in a table of houses
    y = np.log1p(X) @ [1, 0.5, -0.5, 0, 0, 0, 0.2, 0] + 0.5 * generator.standard_normal(20_000)
    known["skewed"] = np.column_stack([X, y])
    return {name: table[:, np.ptp(table, axis=0) > 0] for name, table in known.items()}


def r2(table: np.ndarray, coef: np.ndarray, intercept: float) -> float:
    errors = table[:, -1] - table[:, :-1] @ coef - intercept
    return float(1 - np.mean(errors**2) / table[:, -1].var())


def ours(table: np.ndarray, bounds: tuple, epsilon: float, delta: float, seed: int) -> float:
    model = PrivateRidge(epsilon=epsilon, delta=delta, bounds=bounds, random_state=seed)
    model.fit(table[:, :-1], table[:, -1])
    return r2(table, model.coef_, model.intercept_)


def scaled(table: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with a constant in the ball of radius √d, and targets in [-1, 1]."""
    rows = (table - shift) * scale
    return np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1]


def unscaled_r2(y: np.ndarray, prediction: np.ndarray) -> float:
    return float(1 - np.mean((y - prediction) ** 2) / y.var())


def adassp(X: np.ndarray, y: np.ndarray, epsilon: float, delta: float, generator: np.random.Generator) -> float:
    """Wang 2018, Algorithm 2, with rho = 0.05; |x| is at most √d and |y| at most 1, and the constant is last.

    Its three measurements share mu² evenly. A replaced row moves the least eigenvalue by at most d, the matrix by √2 d,
    the products by 2√d. The ridge spares the intercept.
    """
    d, each = X.shape[1], gaussian_mu(epsilon, delta) / math.sqrt(3)
    gram, sd = X.T @ X, math.sqrt(2) * d / each
    least = np.linalg.eigvalsh(gram)[0] + d / each * (generator.standard_normal() - 1.645)
    ridge = max(0.0, math.sqrt(d * math.log(2 * d**2 / 0.05)) * sd - max(0.0, least))
    noise = np.triu(generator.standard_normal((d, d)))
    noisy = gram + sd * (noise + np.triu(noise, 1).T)
    cross = X.T @ y + 2 * math.sqrt(d) / each * generator.standard_normal(d)
    coef = np.linalg.lstsq(noisy + ridge * np.diag(np.arange(d) < d - 1), cross, rcond=None)[0]
    return unscaled_r2(y, X @ coef)


def functional(X: np.ndarray, y: np.ndarray, epsilon: float, generator: np.random.Generator) -> float:
    """Zhang et al. 2012: Laplace noise on the coefficients of the loss, trimmed to its positive eigenvalues."""
    d = X.shape[1]
    scale = 2 * (1 + 2 * d + d**2) / epsilon  # entries are at most 1, replace
    noise = np.triu(generator.laplace(scale=scale, size=(d, d)))
    values, vectors = np.linalg.eigh(X.T @ X + noise + np.triu(noise, 1).T)
    cross = X.T @ y + generator.laplace(scale=scale, size=d) / 2
    kept = values > 0
    coef = vectors[:, kept] @ ((vectors[:, kept].T @ cross) / values[kept]) if kept.any() else np.zeros(d)
    return unscaled_r2(y, X @ coef)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--widen", type=float, default=1.0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", nargs="*", help="names of tables")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    report = Table(title=f"Median R² (worst) of {arguments.runs} runs")
    names = ("eigenveil", "AdaSSP", "functional")
    for column in ("table", "n", "d", "no privacy", "epsilon", "delta", *names):
        report.add_column(column, justify="right")
    results = []
    for name, table in track(tables().items(), console=Console(stderr=True)):
        if arguments.only and name not in arguments.only:
            continue
        n, d = table.shape
        low, high = table.min(axis=0), table.max(axis=0)
        shift, half = (low + high) / 2, arguments.widen * (high - low) / 2
        bounds = (shift - half, shift + half)
        X, y = scaled(table, shift, 1 / half)
        best = unscaled_r2(y, X @ np.linalg.lstsq(X, y, rcond=None)[0])
        for epsilon in EPSILONS:
            for delta in DELTAS:
                generator = np.random.default_rng(7)
                if delta:
                    peers = {"AdaSSP": [adassp(X, y, epsilon, delta, generator) for _ in range(arguments.runs)]}
                else:
                    peers = {"functional": [functional(X, y, epsilon, generator) for _ in range(arguments.runs)]}
                try:
                    seeds = range(arguments.runs)
                    mine = [ours(table, bounds, epsilon, delta, seed) for seed in seeds]
                except InvalidDataError:  # refused before the spend
                    mine = []
                runs = {each: [] for each in names} | peers | {"eigenveil": mine}
                medians = {each: [float(np.median(v)), min(v)] if v else None for each, v in runs.items()}
                results.append(
                    {"table": name, "n": n, "d": d, "best": best, "epsilon": epsilon, "delta": delta, **medians}
                )
                cells = [f"{medians[each][0]:.3g} ({medians[each][1]:.2g})" if medians[each] else "" for each in names]
                cells[0] = cells[0] or "refused"
                report.add_row(name, str(n), str(d), f"{best:.3f}", f"{epsilon:g}", f"{delta:g}", *cells)
    Console(width=120).print(report)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
