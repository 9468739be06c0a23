"""The first call on raw tables: what `PrivatePCA(2).fit(table)` and its relatives lose, with no word about the columns.

Run `python benchmarks/raw_tables.py [--tables wine airfoil] [--epsilon 0.1 1 3] [--delta 0 1e-6] [--runs 20]`.

Columns of numbers as they are, in the order of the file. The loss of k = 2 directions V is 1 - tr(V'CV)/tr(best): with
C the covariance for the target of scikit-learn's `PCA`, the correlation matrix for that of
`make_pipeline(StandardScaler(), PCA())`. Ways to fit:

- plain: nothing but epsilon and delta, and for correlations `standardize=True`
- ranges: an expert's, each end wrong by up to half of the width, so that widths are wrong by up to 2; for correlations
  with the rescaling (`standardize=True`) and without ("ranges, as they are")
- private bound: `rows="clip"`, what version 0.1 did, centred
- diffprivlib, with its own scaler, where it is installed
- random: two random directions; the non-private answer has loss 0 by definition

For `PrivateRidge` the last column is predicted from the others, and R² is on the same rows. Ranges of the expert and
losses are computed **without privacy**.
"""

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn import datasets as bundled
from sklearn.linear_model import LinearRegression

from datasets import data_folder
from eigenveil import PrivatePCA, PrivateRidge
from eigenveil.errors import EigenveilError, NoiseWarning

K = 2
MAX_ROWS = 100_000
FILES = {
    "airfoil": "airfoil/airfoil_self_noise.csv.xz",
    "census": "census/census_income_kdd_train.csv.xz",
    "insurance": "insurance/insurance_coil2000.csv.xz",
    "kddcup99": "kddcup99/kddcup99_10pct.csv.xz",
    "localization": "localization/localization.csv.xz",
}
BUNDLED = ("wine", "breast_cancer", "diabetes", "digits")
NAMES = (*BUNDLED, *FILES, "covertype")
PEER = "diffprivlib"

Fit = Callable[[np.ndarray, float, float, int], np.ndarray | None]


def load(name: str) -> np.ndarray:
    """Return the columns of numbers of a table that are not constant, at most so many rows from its beginning."""
    if name in BUNDLED:
        options = {"scaled": False} if name == "diabetes" else {}
        X = getattr(bundled, f"load_{name}")(**options).data
    elif name == "covertype":
        X = np.load(data_folder() / "covertype/covertype.npz")["X"][:, :10]
    else:
        table = pd.read_csv(data_folder() / FILES[name], keep_default_na=name != "census", low_memory=False)
        X = table.select_dtypes("number").dropna(axis=1).to_numpy()
    # A fixed stretch of a sorted file is no sample of it: every so many-th row, in the order of the file.
    X = np.asarray(X, dtype=np.float64)[:: max(1, -(-len(X) // MAX_ROWS))]
    return X[:, X.std(axis=0) > 0]


def available(name: str) -> bool:
    """Return whether a table can be loaded here."""
    file = "covertype/covertype.npz" if name == "covertype" else FILES.get(name)
    return file is None or (data_folder() / file).exists()


def experts_ranges(X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ranges that hold all rows, up to twice as wide as need be."""
    rng = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    below, above = rng.uniform(0, 0.5, (2, X.shape[1]))
    return low - below * width, high + above * width


def loss(truth: np.ndarray, components: np.ndarray) -> float:
    """Return the share of the best captured variance that directions miss."""
    best = np.linalg.eigvalsh(truth)[-len(components) :].sum()
    return float(1 - np.trace(components @ truth @ components.T) / best)


def fitted(make: Callable[..., PrivatePCA]) -> Fit:
    def fit(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray | None:
        try:
            return make(X, seed, epsilon=epsilon, delta=delta, random_state=seed).fit(X).components_
        except EigenveilError:
            return None

    return fit


def peer(standardize: bool) -> Fit:
    def fit(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray | None:
        from diffprivlib.models import PCA, StandardScaler

        bounds, share = experts_ranges(X, seed), 0.5 if standardize else 1.0
        if standardize:
            scaler = StandardScaler(epsilon=epsilon / 2, bounds=bounds, random_state=seed)
            X = scaler.fit_transform(X)
            bounds = (bounds[0] - scaler.mean_) / scaler.scale_, (bounds[1] - scaler.mean_) / scaler.scale_
        norm = float(np.linalg.norm(np.maximum(np.abs(bounds[0]), np.abs(bounds[1]))))
        model = PCA(K, epsilon=epsilon * share, bounds=bounds, data_norm=norm, random_state=seed)
        return np.asarray(model.fit(X).components_)

    return fit


def ways(standardize: bool) -> dict[str, Fit]:
    """Return the ways to fit, by name."""
    ranges = {
        "ranges": fitted(lambda X, seed, **o: PrivatePCA(K, bounds=experts_ranges(X, seed), standardize=True, **o)),
        "ranges, as they are": fitted(lambda X, seed, **o: PrivatePCA(K, bounds=experts_ranges(X, seed), **o)),
    }
    found = {"plain": fitted(lambda X, seed, **o: PrivatePCA(K, standardize=standardize, **o))}
    found |= ranges if standardize else {"ranges": fitted(in_raw_units)}
    found["private bound"] = fitted(lambda X, seed, **o: PrivatePCA(K, rows="clip", standardize=standardize, **o))
    if importlib.util.find_spec(PEER):
        found[PEER] = peer(standardize)
    found["random"] = random_directions
    return found


def in_raw_units(X: np.ndarray, seed: int, **options: Any) -> PrivatePCA:
    """Return a model for the covariance in raw units of an expert: ranges about a public middle give the norm."""
    low, high = experts_ranges(X, seed)
    return OfRanges(K, (low + high) / 2, float(np.linalg.norm(high - low) / 2), options)


class OfRanges:
    """PCA of rows about the middle of ranges, with the norm that these imply; features keep their units."""

    def __init__(self, k: int, middle: np.ndarray, norm: float, options: dict[str, Any]) -> None:
        self.middle, self.model = middle, PrivatePCA(k, norm_bound=norm, **options)

    def fit(self, X: np.ndarray) -> PrivatePCA:
        """Fit about the middle."""
        return self.model.fit(X - self.middle)


def random_directions(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray:
    del epsilon, delta
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], K)))[0].T


def measured(fit: Fit, X: np.ndarray, truth: np.ndarray, epsilon: float, delta: float, runs: int) -> str:
    """Return the mean loss of some runs, or that it was refused."""
    losses = []
    for seed in range(runs):
        components = fit(X, epsilon, delta, seed)
        if components is None:
            return "refused"
        losses.append(loss(truth, components))
    return f"{np.mean(losses):.4f}"


def r_squared(X: np.ndarray, epsilon: float, delta: float, runs: int, ranges: bool) -> str:
    """Return the mean and the least R² of `PrivateRidge`, and in how many runs it warned; or that it was refused."""
    features, target = X[:, :-1], X[:, -1]
    scores, warned = [], 0
    for seed in range(runs):
        given = {"bounds": experts_ranges(X, seed)} if ranges else {}
        model = PrivateRidge(epsilon=epsilon, delta=delta, random_state=seed, **given)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                scores.append(float(model.fit(features, target).score(features, target)))
            except EigenveilError:
                return "refused"
        warned += any(issubclass(warning.category, NoiseWarning) for warning in caught)
    return f"{np.mean(scores):.3f} (least {min(scores):.3f}, warned {warned}/{runs})"


def main() -> None:
    """Print one table for each target and one for the regression."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[name for name in NAMES if available(name)], choices=NAMES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 3.0])
    parser.add_argument("--delta", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    console = Console(width=150)
    if not importlib.util.find_spec(PEER):
        console.print(f"{PEER} is not installed, and left out.")
    settings = [(epsilon, delta) for delta in asked.delta for epsilon in asked.epsilon]
    tables = {name: load(name) for name in asked.tables}
    for standardize, title in ((True, "Loss against StandardScaler + PCA"), (False, "Loss against PCA")):
        grid = Table("table", "n", "d", "epsilon", "delta", *ways(standardize), title=title)
        for name, X in tables.items():
            truth = np.corrcoef(X.T) if standardize else np.cov(X.T)
            for epsilon, delta in settings:
                found = [measured(fit, X, truth, epsilon, delta, asked.runs) for fit in ways(standardize).values()]
                grid.add_row(name, f"{len(X):,}", str(X.shape[1]), f"{epsilon:g}", f"{delta:g}", *found)
        console.print(grid)
    grid = Table("table", "epsilon", "delta", "not private", "plain", "ranges", title="R² of PrivateRidge")
    for name, X in tables.items():
        best = LinearRegression().fit(X[:, :-1], X[:, -1]).score(X[:, :-1], X[:, -1])
        for epsilon, delta in settings:
            found = [r_squared(X, epsilon, delta, asked.runs, ranges) for ranges in (False, True)]
            grid.add_row(name, f"{epsilon:g}", f"{delta:g}", f"{best:.3f}", *found)
    console.print(grid)


if __name__ == "__main__":
    main()
