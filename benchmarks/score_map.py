"""Private score maps beside those of R's package dppca (Jo and Kim 2026), on data made like its own examples.

Run `python benchmarks/score_map.py [--runs 20] [--output FILE] [--plot FILE]`. R is not run here: `dppca_frame` and
`dppca_cells` are **our own re-implementation** of the method that its documentation and source describe: a square frame
from medians and the 0.99 quantile of radii by smooth sensitivity, inflated by a fifth, with half of the budget; then
Gaussian noise on all cells, cut at 0 and normalized, "add"; or Laplace noise on the cells that are not empty, with a
threshold, "sparse".

Both get the same directions, those of a release, and the same budget for the map. The error is the total variation
distance between the map, as a density, and that of a million further rows of the same distribution, on a fine common
grid. dppca has 15 x 15 cells as in its examples, or, for "best", the number of cells that turned out best for it, which
nobody can know; ours takes its own from public numbers. "our grid" hands dppca our frame and cells, as its
`fixed_frame`, with the whole budget for the counts; "no noise" is the histogram itself on our cells.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil import PrivatePCA, score_map
from eigenveil.errors import NoiseWarning
from eigenveil.report.plots import BLUE, new_figure, styled

FINE, POPULATION = 120, 1_000_000
CELLS = (5, 8, 10, 12, 15, 20, 25, 30)


def gau(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows like dppca's `gau_g`: five Gaussian groups in 20 dimensions, of different sizes."""
    d, groups = 20, np.arange(n) % 5
    means = np.zeros((5, d))
    means[1, :5], means[2, :5], means[3, 5:10], means[4, 5:10] = 5, -3, -1, 3
    sizes = np.sqrt([1, 1, 5, 5, 8])
    return means[groups] + rng.normal(size=(n, d)) * sizes[groups, None], groups


def adult(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows like its `adult`: age, schooling, hours, and gains and losses that are mostly 0; in public units."""
    schooling = np.clip(rng.normal(10, 2.6, n), 1, 16)
    age = np.clip(17 + rng.gamma(2.6, 8.3, n), 17, 90)
    hours = np.clip(np.where(rng.random(n) < 0.47, 40, rng.normal(40, 14, n)), 1, 99)
    gain = np.where(rng.random(n) < 0.08, np.clip(rng.lognormal(8.5, 1.2, n), 0, 99_999), 0)
    loss = np.where(rng.random(n) < 0.047, rng.normal(1870, 390, n), 0)
    rows = np.stack([age / 90, schooling / 16, gain / 1e5, loss / 4500, hours / 99], axis=1)
    return rows, (schooling > 12).astype(int)


DATA = {"gau": (gau, 5000, (-15.0, 15.0)), "adult": (adult, 32_561, (0.0, 1.0))}


def smooth_quantile(x: np.ndarray, q: float, epsilon: float, delta: float, rng: np.random.Generator) -> float:
    """Return a quantile with Laplace noise of its smooth sensitivity (Nissim, Raskhodnikova and Smith 2007)."""
    ordered, n = np.sort(x), x.size
    place = min(n, max(1, int(np.ceil(q * n)))) - 1
    beta, most = epsilon / (2 * np.log(1 / delta)), 0.0
    for k in range(n):
        if np.exp(-beta * k) * (ordered[-1] - ordered[0]) <= most:
            break
        left = np.arange(max(0, place - k - 1), min(place, n - k - 2) + 1)
        if left.size:
            most = max(most, float(np.exp(-beta * k) * (ordered[left + k + 1] - ordered[left]).max()))
    return float(ordered[place] + rng.laplace(scale=2 * most / epsilon))


def dppca_frame(scores, epsilon, delta, rng):
    """Return the centre and the reach of dppca's private frame; None where the noise leaves none."""
    part = epsilon / 3, delta / 3
    centre = np.array([smooth_quantile(column, 0.5, *part, rng) for column in scores.T])
    radius = 1.2 * smooth_quantile(np.linalg.norm(scores - centre, axis=1), 0.99, *part, rng)
    return None if radius <= 0 else (centre, radius)


def dppca_cells(scores, edges, epsilon, delta, method, rng):
    """Return the probabilities of the cells of a map as dppca makes them, by our re-implementation."""
    counts = counted(scores, edges)
    if method == "add":
        noisy = counts + rng.normal(scale=np.sqrt(4 * np.log(1.25 / delta)) / epsilon, size=counts.shape)
        found = np.maximum(noisy, 0)
    else:
        noisy = np.where(counts > 0, counts + rng.laplace(scale=2 / epsilon, size=counts.shape), 0)
        found = np.where(noisy >= 2 * np.log(2 / delta) / epsilon + 1, noisy, 0)
    return found / max(found.sum(), 1e-300)


def counted(scores, edges):
    """Return the histogram, with what is outside at the border."""
    inside = np.clip(scores, [ends[0] for ends in edges], [ends[-1] for ends in edges])
    return np.histogram2d(*inside.T, bins=edges)[0]


def spread_out(edges, masses, fine):
    """Return the mass that a map puts on the cells of a fine grid."""
    shares = []
    for ends, places in zip(edges, fine, strict=True):
        low = np.maximum(places[:-1, None], ends[None, :-1])
        high = np.minimum(places[1:, None], ends[None, 1:])
        shares.append(np.maximum(high - low, 0) / np.diff(ends))
    return shares[0] @ masses @ shares[1].T


def distance(edges, masses, fine, truth):
    """Return the total variation distance; mass outside of the fine grid counts against the map."""
    found = spread_out(edges, masses, fine)
    return 0.5 * (np.abs(found - truth).sum() + abs(1 - found.sum()) + abs(1 - truth.sum()))


def one_run(make, n, bounds, epsilon, delta, rng):
    rows, _ = make(n, rng)
    release = PrivatePCA(2, epsilon=3.0, delta=1e-6, bounds=bounds).fit(rows).release_
    many, scores = release.transform(make(POPULATION, rng)[0]), release.transform(rows)
    fine = [np.linspace(*np.quantile(column, [0.0, 1.0]), FINE + 1) for column in many.T]
    truth = np.histogram2d(*many.T, bins=fine)[0] / POPULATION
    ours = score_map(rows, release, epsilon=epsilon)
    half, found = (epsilon / 2, delta / 2), {}
    for method in ("add", "sparse"):
        errors = {}
        for cells in CELLS:
            frame = dppca_frame(scores, *half, rng)
            errors[cells] = 1.0
            if frame is not None:
                edges = [np.linspace(one - frame[1], one + frame[1], cells + 1) for one in frame[0]]
                errors[cells] = distance(edges, dppca_cells(scores, edges, *half, method, rng), fine, truth)
        found[f"{method}, 15"] = errors[15]
        found[f"{method}, best"] = min(errors.values())
        in_ours = dppca_cells(scores, ours.edges, epsilon, delta, method, rng)
        found[f"{method}, our grid"] = distance(ours.edges, in_ours, fine, truth)
    found["ours"] = distance(ours.edges, ours.counts[0] / n, fine, truth)
    found["no noise"] = distance(ours.edges, counted(scores, ours.edges) / n, fine, truth)
    return found


@styled()
def draw(path: Path) -> None:
    """Draw the figure of docs/research/score_map.md: the scores of made-up rows, and a map of them."""
    rows, _ = gau(5000, np.random.default_rng(1))
    release = PrivatePCA(2, epsilon=3.0, delta=1e-6, bounds=(-15, 15)).fit(rows).release_
    cloud = score_map(rows, release, epsilon=1.0)
    figure = new_figure(9.0, 3.8)
    points, cells = figure.subplots(1, 2, sharex=True, sharey=True)
    points.plot(*release.transform(rows).T, ".", ms=2, alpha=0.3, color=BLUE)
    points.set(title="scores: private, never released", ylabel="score on component 2")
    counts = np.where(cloud.counts[0] > 0, cloud.counts[0], np.nan)
    image = cells.pcolormesh(*cloud.edges, counts.T, cmap="Blues")
    x, y = cloud.edges
    cells.set(title="score map, epsilon = 1", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    figure.colorbar(image, ax=cells, label=f"rows in a cell; noise has standard deviation {cloud.noise_sd:.2g}")
    cells.grid(False)  # an empty cell is white
    for panel in (points, cells):
        panel.set(xlabel="score on component 1")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path, help="draw the figure of the docs, and stop")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    if arguments.plot is not None:
        draw(arguments.plot)
        return
    results = []
    for name, (make, n, bounds) in DATA.items():
        for epsilon in (0.5, 1.0, 3.0, 5.0):
            rng = np.random.default_rng(2026)
            runs = [one_run(make, n, bounds, epsilon, 1e-5, rng) for _ in range(arguments.runs)]
            means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            results.append({"data": name, "n": n, "epsilon": epsilon, **means})
    table = Table(title="Total variation distance of private score maps; dppca is our re-implementation")
    for heading in results[0]:
        table.add_column(heading)
    for result in results:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in result.values()))
    Console(width=160).print(table)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
