"""Forecasts beside outcomes: what `forecast` says of a fit, and what fits on rows of the assumed spectrum then give.

    python benchmarks/forecast.py                                  # all ways to prepare rows, sizes 3 to 1000
    python benchmarks/forecast.py --ways pairs signs --sizes 10 100 --fits 20

`size` is n epsilon/d. Each pair of columns has the forecast first and the mean over fits second: the loss of captured
variance, the share of the variance that the directions carry, the number of components above the noise, and half of the
interval of the first component's share. `alone` is the loss that a plan of the law alone would forecast, with a public
bound and without what preparing the rows costs; the last column is the ratio of the outcome to that.
"""

import argparse
import math
import warnings
from dataclasses import dataclass

import numpy as np
import scipy.stats

from eigenveil import PrivatePCA
from eigenveil.errors import EigenveilError, NoiseWarning
from eigenveil.estimators.forecast import forecast_of_fit
from eigenveil.theory import plan, power_law

DELTA = 1e-6
WAYS = {
    "public norm": {"norm_bound": 1.0},
    "public norm, origin": {"norm_bound": 1.0, "center": False},
    "public ranges": {"bounds": (-1.0, 1.0)},
    "private norm": {"rows": "clip", "center": False, "stages": 1},
    "private norm, mean": {"rows": "clip"},
    "pairs": {"rows": "pairs"},
    "signs": {"rows": "signs", "standardize": True},
    "unit": {"rows": "unit", "center": False},
    "nothing public": {},
}
"""Parameters of `PrivatePCA`, for each way to prepare rows."""
ENERGY = {"public norm": 0.5, "public norm, origin": 0.5, "public ranges": 1 / 3}


@dataclass(frozen=True)
class Numbers:
    """What is compared."""

    loss: float
    captured: float
    above_noise: float
    half_width: float


def assumed(way: str, d: int, n_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return Gaussian rows with the spectrum 1, 1/2, 1/3, ...; far from the origin where that should not matter."""
    shares = power_law(d)
    if WAYS[way].get("standardize"):
        correlation = scipy.stats.random_correlation.rvs(shares * d, random_state=generator, tol=1e-6)
        values, basis = np.linalg.eigh(correlation)
        return generator.standard_normal((n_rows, d)) * np.sqrt(np.maximum(values, 0)) @ basis.T + 5.0
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    # In units of the norm bound, which is 1, or for ranges from -1 to 1 the root of d.
    size = ENERGY.get(way, 1.0) * (d if way == "public ranges" else 1.0)
    rows = generator.standard_normal((n_rows, d)) * np.sqrt(size * shares) @ basis.T
    return rows + 5.0 if way in ("pairs", "nothing public") else rows


def one_fit(way: str, d: int, n_rows: int, k: int, parameters: dict, seed: int) -> Numbers:
    """Return what one fit comes to."""
    generator = np.random.default_rng((11, seed))
    X = assumed(way, d, n_rows, generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # a forecast must hold there too
        model = PrivatePCA(k, random_state=generator, **WAYS[way], **parameters).fit(X)
        release, V = model.release_, model.components_
        if WAYS[way].get("standardize"):
            true = np.corrcoef(X.T)
        else:
            true = np.cov(X.T, ddof=0) if WAYS[way].get("center", True) else X.T @ X / n_rows
        carried, best = np.trace(V @ true @ V.T), np.linalg.eigvalsh(true)[-k:].sum()
        low, high = release.explained_variance_interval[0]
        width = (high - low) / 2 / release.total_variance if release.total_variance > 0 else math.inf
        return Numbers(1 - carried / best, carried / np.trace(true), release.n_above_noise, width)


def outcome(way: str, d: int, n_rows: int, k: int, parameters: dict, fits: int) -> Numbers:
    """Return the means over fits, each on rows of its own; of the width the median."""
    all_of_them = [one_fit(way, d, n_rows, k, parameters, seed) for seed in range(fits)]
    means = np.mean([(one.loss, one.captured, one.above_noise) for one in all_of_them], axis=0)
    return Numbers(*map(float, means), float(np.median([one.half_width for one in all_of_them])))


def expected(way: str, d: int, n_rows: int, k: int, parameters: dict, repeats: int = 100) -> Numbers:
    """Return the forecast of the law that the fit takes."""
    told = forecast_of_fit(PrivatePCA(k, **WAYS[way], **parameters), d, n_rows, repeats=repeats)
    return Numbers(told.mean, told.captured, told.above_noise, told.components[0].half_width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--sizes", nargs="+", type=float, default=[3, 10, 30, 100, 1000])
    parser.add_argument("--features", nargs="+", type=int, default=[5, 20])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--fits", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{'way':20} {'law':15} {'d':>3} {'size':>5} {'loss':>14} {'captured':>13} {'above':>11} {'±':>13}   alone")
    for way in arguments.ways:
        for d in arguments.features:
            for delta in (0.0, DELTA):
                parameters = {"epsilon": arguments.epsilon, "delta": delta}
                for size in arguments.sizes:
                    n_rows, k = round(size * d / arguments.epsilon), 2 if d < 10 else 3
                    law = "gaussian" if delta else "matrix_laplace"
                    label = f"{way:20} {law:15} {d:3} {size:5g}"
                    try:
                        told = expected(way, d, n_rows, k, {**parameters, "law": law})
                    except EigenveilError as error:
                        print(f"{label} refused: {error}"[:110])
                        continue
                    came = outcome(way, d, n_rows, k, {**parameters, "law": law}, arguments.fits)
                    alone = plan(n_rows=n_rows, n_features=d, n_components=k, **parameters)[law].mean
                    print(
                        f"{label} {told.loss:6.3g} {came.loss:7.3g} {told.captured:6.3f} {came.captured:6.3f} "
                        f"{told.above_noise:5.1f} {came.above_noise:5.1f} {told.half_width:6.2g} "
                        f"{came.half_width:6.2g} {alone:7.2g} {came.loss / alone:6.1f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
