"""The error of the covariance for each `unit_weight`: a plot over the norm bound.

    python benchmarks/unit_weights.py [--runs 20] [--plot docs/images/unit_weights.png]

The visits are generated: most people come once or twice, some come fifty times, and those who come often vary more.
Errors are relative, in the Frobenius norm, to the target of each weight. "one by one" clips each row by itself, to a
bound that a privacy unit with the largest number of rows keeps.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from eigenveil import PrivateCovariance
from eigenveil.errors import NoiseWarning
from eigenveil.report.plots import BLUE, BROWN, SILVER, new_figure, styled

PRIVACY_UNITS, D, MOST_ROWS, EPSILON, DELTA = 5_000, 6, 50, 1.0, 1e-6


def visits(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and the privacy unit of each."""
    generator = np.random.default_rng(seed)
    sizes = np.minimum(generator.geometric(np.where(generator.random(PRIVACY_UNITS) < 0.2, 0.05, 0.6)), MOST_ROWS)
    spread = np.sqrt(sizes.clip(1, 16)) / 2
    ids = np.repeat(np.arange(PRIVACY_UNITS), sizes)
    scale = 2.0 ** -np.arange(D)
    own = generator.standard_normal((PRIVACY_UNITS, D)) * scale * spread[:, None]
    return own[ids] + generator.standard_normal((ids.size, D)) * scale / 2, ids


def targets(rows: np.ndarray, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Return the covariance in which every privacy unit counts once, and that of all rows."""
    once = 1 / np.bincount(ids)[ids]
    return {"equal": np.cov(rows.T, aweights=once, ddof=0), "by_rows": np.cov(rows.T, ddof=0)}


def released(rows: np.ndarray, ids: np.ndarray, way: str, norm: float | None) -> np.ndarray:
    """Return a private covariance; "one by one" is that of rows that are clipped before they are grouped."""
    weight = "by_rows" if way == "by_rows" else "equal"
    if way == "one by one" and norm is not None:
        most = norm / MOST_ROWS**0.5
        rows = rows * np.minimum(1, most / np.linalg.norm(rows, axis=1))[:, None]
        weight = "by_rows"
    # Without preconditioning where a bound is given: centering first would look for another bound.
    stages = "auto" if norm is None else 1
    known = {"norm_bound": norm, "statistic": "clipped", "stages": stages}
    model = PrivateCovariance(epsilon=EPSILON, delta=DELTA, unit_weight=weight, **known)
    return np.asarray(model.fit(rows, privacy_unit=ids).covariance_)


def errors(way: str, norm: float | None, runs: int) -> float:
    rows, ids = visits()
    target = targets(rows, ids)["equal" if way == "equal" else "by_rows"]
    found = [np.linalg.norm(released(rows, ids, way, norm) - target) for _ in range(runs)]
    return float(np.mean(found) / np.linalg.norm(target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    norms = 2.0 ** np.arange(-1, 6.5, 0.5)
    ways = ("equal", "by_rows", "one by one")
    curves = {way: [errors(way, float(norm), options.runs) for norm in norms] for way in ways}
    private = {way: errors(way, None, options.runs) for way in ("equal", "by_rows")}
    print("bound      " + "".join(f"{way:>14}" for way in ways))
    for place, norm in enumerate(norms):
        print(f"{norm:<11.3g}" + "".join(f"{curves[way][place]:14.3f}" for way in ways))
    print(f"{'private':<11}" + "".join(f"{private[way]:14.3f}" for way in private))
    if options.plot is not None:
        draw(norms, curves, private, options.plot)


@styled()
def draw(norms: np.ndarray, curves: dict[str, list[float]], private: dict[str, float], path: Path) -> None:
    figure = new_figure(8.6, 3.8)
    axis = figure.subplots()
    for colour, (way, values) in zip((BLUE, BROWN, SILVER), curves.items(), strict=True):
        axis.loglog(norms, values, color=colour, label=way, marker="o")
        if way in private:
            axis.axhline(private[way], color=colour, linestyle=":", label=f"{way}, bound found privately")
    axis.set(xlabel="norm bound of a privacy unit, in the units of the rows", ylabel="relative error of the covariance")
    axis.set_title(f"{PRIVACY_UNITS:,} privacy units of 1 to {MOST_ROWS} rows, epsilon {EPSILON:g}, delta {DELTA:g}")
    figure.legend(loc="outside right upper")
    figure.savefig(path)


if __name__ == "__main__":
    main()
