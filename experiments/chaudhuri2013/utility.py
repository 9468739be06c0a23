"""Figures 3, 4 and 5 of Chaudhuri et al. (2013): qF against the number of rows and against epsilon."""
# ruff: noqa: RUF001  (the page has Greek letters and real minus signs)

import functools
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from eigenveil import RowBound, SecondMoments
from eigenveil.mechanisms import MECHANISMS
from eigenveil.metrics import captured_variance
from eigenveil.report.plots import BLUE, BROWN, GREEN, INK, SILVER, VIOLET, new_figure, styled
from eigenveil.sampling.matrix_bingham import matrix_bingham
from eigenveil.theory import expected_loss

from ..common import Cell, Results, Row, drawn_directions, prose, save_figure, table

EPSILON = 0.1
SIZES = {
    "kddcup99": (5_000, 20_000, 100_000, 494_021),
    "localization": (5_000, 20_000, 60_000, 164_860),
    "insurance": (1_000, 3_000, 9_822),
    "census": (10_000, 50_000, 199_523),
}
# Restarts on each subset: of PPCA, and of everything else. The paper has 10 and 100 everywhere.
RESTARTS = {"kddcup99": (10, 100), "localization": (10, 100), "insurance": (5, 100), "census": (2, 20)}
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
CONTESTANTS = ("none", "ppca", "mod_sulq", "random_projection", "matrix_laplace", "gaussian")
STYLES: dict[str, dict[str, Any]] = {
    "none": {"color": SILVER, "label": "not private"},
    "ppca": {"color": BLUE, "ls": "--", "label": "PPCA"},
    "mod_sulq": {"color": VIOLET, "ls": "--", "label": "MOD-SULQ"},
    "random_projection": {"color": GREEN, "ls": "--", "label": "random projection"},
    "matrix_laplace": {"color": BROWN, "label": "matrix_laplace (pure, ours)"},
    "gaussian": {"color": INK, "label": "gaussian (approximate, ours)"},
}


def utility_cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return data x n for Figures 3 and 4 with a repeat for each subset, and epsilon for Figure 5."""

    def sized(data: str, n: int, restarts: tuple[int, int]) -> Cell:
        return {
            "part": "utility",
            "data": data,
            "all rows": not quick,
            "n": n,
            "ppca": restarts[0],
            "restarts": restarts[1],
        }

    if quick:
        return [
            (sized("localization", 20_000, (6, 40)), 2),
            (sized("kddcup99", 20_000, (4, 40)), 1),
            ({"part": "figure 5", "epsilon": 0.5, "ppca": 80, "restarts": 80, "passes": 60}, 4),
        ]
    found = [(sized(data, n, RESTARTS[data]), 5) for data, sizes in SIZES.items() for n in sizes]
    drawn = {"part": "figure 5", "ppca": 20, "restarts": 20, "passes": 1_000}  # 100 samples, and T, as in the paper
    return found + [({**drawn, "epsilon": epsilon}, 5) for epsilon in EPSILONS]


@functools.cache
def rows_of(name: str, all_rows: bool, label_is_feature: bool | None = None) -> datasets.Rows:
    """Return a prepared data set: all its rows, or 50,000 at most."""
    options = {"max_rows": None} if all_rows else {}
    return datasets.load(name, label_is_feature=label_is_feature, **options)


def second_moment(X: np.ndarray) -> np.ndarray:
    """Return C, summed exactly."""
    moments = SecondMoments(RowBound(1.0), X.shape[1]).update(X)
    return moments.gram * moments.bound.unit_squared


def subspaces(
    name: str,
    C: np.ndarray,
    k: int,
    generator: np.random.Generator,
    size: int,
    epsilon: float,
    delta: float,
    passes: int | None = None,
) -> np.ndarray:
    """Return the directions of so many releases, shape (size, k, d); PPCA by Hoff's sampler where `passes` is given."""
    if name == "none":
        size = 1
    kind = MECHANISMS[name]
    mechanism = kind(epsilon=epsilon, delta=delta if kind.needs_delta else 0.0, n_features=len(C), n_components=k)
    if name != "ppca":
        return np.stack([drawn_directions(mechanism, C, generator) for _ in range(size)])
    how = {"method": "hoff", "updates": passes} if passes else {}
    drawn = matrix_bingham(mechanism.strength * C, k, generator, max(2, size), **how)  # all chains run together
    return drawn.mT[:size]


def utility(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Draw one subset, run everything on it; return the mean of qF over the restarts, and its standard deviation."""
    if cell["part"] == "figure 5":
        data, epsilon, delta = datasets.load("synthetic"), cell["epsilon"], 0.05
        X = data.X
    else:
        data, epsilon, delta = rows_of(cell["data"], cell["all rows"]), EPSILON, 0.01
        X = data.X[np.sort(generator.choice(len(data.X), cell["n"], replace=False))]
    C = second_moment(X)
    found = {}
    for name in CONTESTANTS:
        size = cell["ppca"] if name == "ppca" else cell["restarts"]
        drawn = subspaces(name, C, data.k, generator, size, epsilon, delta, cell.get("passes"))
        values = np.array([captured_variance(C / len(X), V) for V in drawn])
        found |= {name: values.mean(), f"{name} sd": values.std()}
    return found


def utility_findings(results: Results) -> dict[str, float]:
    """Return qF of every contestant, on subsets and on the synthetic set."""
    found = {}
    for row in results.select(part="utility") + results.select(part="figure 5"):
        key = f"{row.cell['data']}, n = {row.cell['n']}" if "n" in row.cell else f"epsilon = {row.cell['epsilon']:g}"
        found |= {f"qF at {key}, {name}": row.mean[name] for name in CONTESTANTS}
    return found


def _line(row: Row, first: str) -> list[str]:
    return [first, *(f"{row.mean[name]:.4f}" for name in CONTESTANTS)]


def _curves(panel: Any, x: list[float], rows: list[Row]) -> None:
    for name in CONTESTANTS:
        panel.errorbar(x, [row.mean[name] for row in rows], [row.mean[f"{name} sd"] for row in rows], **STYLES[name])
    panel.set(xscale="log", ylabel="qF(U), captured variance")


@styled()
def figures_3_and_4(results: Results, images: Path) -> list[str]:
    """Return Figures 3 and 4 and their table."""
    names = list(dict.fromkeys(row.cell["data"] for row in results.some(part="utility")))
    figure = new_figure(9, 7)
    panels = figure.subplots(2, 2).ravel()
    lines = []
    for panel, name in zip(panels, names, strict=False):
        rows = results.select(part="utility", data=name)
        _curves(panel, [row.cell["n"] for row in rows], rows)
        panel.set(title=name, xlabel="n, rows")
        lines.append(_line(rows[-1], f"{name}, {rows[-1].cell['n']:,}"))
    for panel in panels[len(names) :]:
        panel.set_axis_off()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    shown = save_figure(
        figure, images, "chaudhuri2013_rows", "Figures 3 and 4: qF against n, ε = 0.1, bars of one standard deviation"
    )
    return [
        "### Figures 3 and 4: utility against the number of rows\n",
        prose("""**The paper:** PPCA approaches the non-private utility as n grows; MOD-SULQ is hardly better than a
            random projection, except on localization. **Measured:** qF at ε = 0.1, δ = 0.01, mean over 5 subsets;
            the table has the largest n."""),
        shown,
        table(["data, n", *CONTESTANTS], lines),
        prose("""**Agreement: yes, except that MOD-SULQ finds the first direction of kddcup99.** MOD-SULQ loses by its
            constants: `gaussian` adds the same kind of noise, 3.5d to 5.8d times smaller, and is better than PPCA
            everywhere. `matrix_laplace` is better than PPCA at the largest n; PPCA is better with few rows, except on
            localization."""),
    ]


@styled()
def figure_5(results: Results, images: Path) -> list[str]:
    """Return Figure 5 and its table."""
    rows = results.some(part="figure 5")
    figure = new_figure(6.4, 4)
    panel = figure.subplots()
    _curves(panel, [row.cell["epsilon"] for row in rows], rows)
    panel.set(xlabel="ε")
    panel.legend(fontsize=8)
    shown = save_figure(figure, images, "chaudhuri2013_epsilon", "Figure 5: qF against ε, n = 5,000, d = 10, k = 2")
    eigenvalues = np.linalg.eigvalsh(second_moment(datasets.load("synthetic").X) / 5_000)[::-1]
    predicted = expected_loss(
        "ppca", eigenvalues=tuple(eigenvalues), n_components=2, n_rows=5_000, epsilon=rows[-1].cell["epsilon"]
    )
    lost = rows[-1].mean["none"] - rows[-1].mean["ppca"]
    return [
        "### Figure 5: utility against ε\n",
        shown,
        prose(f"""**Agreement: yes.** PPCA keeps most of the utility at an ε where MOD-SULQ does not. At ε =
            {rows[-1].cell["epsilon"]:g} PPCA loses {lost:.2g}, where k(d − k)/(nε) predicts {predicted.loss:.2g},
            and MOD-SULQ is ahead of PPCA. `gaussian` and `matrix_laplace` lose less than both at every ε."""),
    ]
