"""The first call on raw tables: what `PrivatePCA(2).fit(table)` and its relatives lose, with no word about the columns.

Run `python benchmarks/raw_tables.py [--tables wine airfoil] [--epsilon 0.1 1 3] [--delta 0 1e-6] [--runs 20]
[--targets correlations covariance ridge]`.

Columns of numbers as they are, in the order of the file. The loss of k = 2 directions V is 1 - tr(V'CV)/tr(best): with
C the covariance for the target of scikit-learn's `PCA`, the correlation matrix for that of
`make_pipeline(StandardScaler(), PCA())`. Ways to fit:

- plain: nothing but epsilon and delta, and for correlations `standardize=True`
- ranges: an expert's, each end wrong by up to half of the width, so that widths are wrong by up to 2; for correlations
  with the rescaling (`standardize=True`), and by hand without it ("ranges, as they are": features mapped to [-1, 1])
- private bound: `statistic="clipped"`, what version 0.1 did, centred
- diffprivlib, with the expert's ranges and its own scaler, where it can be imported (it wants scikit-learn below 1.8);
  "no end" where a fit took more than `PATIENCE` seconds, and nothing for a delta above 0, since it is pure
- random: two random directions; the non-private answer has loss 0 by definition

For `PrivateRidge` the last column is predicted from the others, and R² is on the same rows. Ranges of the expert and
losses are computed **without privacy**.
"""

import argparse
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
TARGETS = ("correlations", "covariance", "ridge")
PEER = "diffprivlib"
PATIENCE = 8
"""Seconds for one fit of the peer, whose sampler may not end."""

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


def mapped_by_hand(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Return the components of features that were mapped to [-1, 1] before."""
    low, high = experts_ranges(X, seed)
    model = PrivatePCA(K, bounds=(-1, 1), epsilon=epsilon, delta=delta, random_state=seed)
    return model.fit(2 * (X - low) / (high - low) - 1).components_


@contextmanager
def _patience(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def why_no_peer() -> str | None:
    """Return why the peer is left out; None where it is there."""
    try:
        import diffprivlib.models  # noqa: F401
    except ImportError as error:
        return f"{PEER} is left out: {error}"
    return None


def peer(standardize: bool) -> Fit:
    def fit(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray | None:
        from diffprivlib.models import PCA, StandardScaler

        del delta
        bounds, share = experts_ranges(X, seed), 0.5 if standardize else 1.0
        if standardize:
            scaler = StandardScaler(epsilon=epsilon / 2, bounds=bounds, random_state=seed)
            X = scaler.fit_transform(X)
            bounds = (bounds[0] - scaler.mean_) / scaler.scale_, (bounds[1] - scaler.mean_) / scaler.scale_
        norm = float(np.linalg.norm(np.maximum(np.abs(bounds[0]), np.abs(bounds[1]))))
        model = PCA(K, epsilon=epsilon * share, bounds=bounds, data_norm=norm, random_state=seed)
        with _patience(PATIENCE):
            return np.asarray(model.fit(X).components_)

    return fit


def ways(standardize: bool) -> dict[str, Fit]:
    """Return the ways to fit, by name."""
    found = {"plain": fitted(lambda X, seed, **o: PrivatePCA(K, standardize=standardize, **o))}
    found["ranges"] = fitted(
        lambda X, seed, **o: PrivatePCA(K, bounds=experts_ranges(X, seed), standardize=standardize, **o)
    )
    if standardize:
        found["ranges, as they are"] = mapped_by_hand
    found["private bound"] = fitted(
        lambda X, seed, **o: PrivatePCA(K, statistic="clipped", standardize=standardize, **o)
    )
    if why_no_peer() is None:
        found[PEER] = peer(standardize)
    found["random"] = random_directions
    return found


def random_directions(X: np.ndarray, epsilon: float, delta: float, seed: int) -> np.ndarray:
    del epsilon, delta
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], K)))[0].T


def measured(fit: Fit, X: np.ndarray, truth: np.ndarray, epsilon: float, delta: float, runs: int) -> str:
    """Return the mean loss of some runs, or that it was refused."""
    losses = []
    for seed in range(runs):
        try:
            components = fit(X, epsilon, delta, seed)
        except TimeoutError:
            return "no end"
        if components is None:
            return "refused"
        losses.append(loss(truth, components))
    return f"{np.mean(losses):.4f}"


def r_squared(X: np.ndarray, epsilon: float, delta: float, runs: int, ranges: bool) -> str:
    """Return the mean and the least R² of `PrivateRidge`, and the least of the runs without a warning, if any."""
    features, target = X[:, :-1], X[:, -1]
    scores, silent = [], []
    for seed in range(runs):
        given = {"bounds": experts_ranges(X, seed)} if ranges else {}
        model = PrivateRidge(epsilon=epsilon, delta=delta, random_state=seed, **given)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                scores.append(float(model.fit(features, target).score(features, target)))
            except EigenveilError:
                return "refused"
        if not any(issubclass(warning.category, NoiseWarning) for warning in caught):
            silent.append(scores[-1])
    warned = f"{min(silent):.3f} of {len(silent)} not warned of" if silent else "all warned of"
    return f"{np.mean(scores):.3f} (least {min(scores):.3f}; {warned})"


def main() -> None:
    """Print one table for each target and one for the regression."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[name for name in NAMES if available(name)], choices=NAMES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 3.0])
    parser.add_argument("--delta", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--targets", nargs="+", default=TARGETS, choices=TARGETS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    console = Console(width=150)
    console.print(why_no_peer() or f"{PEER} has {PATIENCE} seconds for a fit.")
    settings = [(epsilon, delta) for delta in asked.delta for epsilon in asked.epsilon]
    tables = {name: load(name) for name in asked.tables}
    titles = {"correlations": "Loss against StandardScaler + PCA", "covariance": "Loss against PCA"}
    for target, title in titles.items():
        if target not in asked.targets:
            continue
        standardize = target == "correlations"
        grid = Table("table", "n", "d", "epsilon", "delta", *ways(standardize), title=title)
        for name, X in tables.items():
            truth = np.corrcoef(X.T) if standardize else np.cov(X.T)
            for epsilon, delta in settings:
                found = [
                    "" if way == PEER and delta else measured(fit, X, truth, epsilon, delta, asked.runs)
                    for way, fit in ways(standardize).items()
                ]
                grid.add_row(name, f"{len(X):,}", str(X.shape[1]), f"{epsilon:g}", f"{delta:g}", *found)
        console.print(grid)
    if "ridge" not in asked.targets:
        return
    grid = Table("table", "epsilon", "delta", "not private", "plain", "ranges", title="R² of PrivateRidge")
    for name, X in tables.items():
        best = LinearRegression().fit(X[:, :-1], X[:, -1]).score(X[:, :-1], X[:, -1])
        for epsilon, delta in settings:
            found = [r_squared(X, epsilon, delta, asked.runs, ranges) for ranges in (False, True)]
            grid.add_row(name, f"{epsilon:g}", f"{delta:g}", f"{best:.3f}", *found)
    console.print(grid)


if __name__ == "__main__":
    main()
