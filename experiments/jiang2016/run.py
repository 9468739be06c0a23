"""Jiang, Xie and Zhang (2016): Table 1 by measurement, Theorem 7 against simulation, an audit, and PCA.

The paper has no experiments; its Table 1 and theorems are what can be measured. epsilon = 1 unless stated, delta = 1e-6
where a mechanism needs one, adjacency "replace_one", all noise on C = nA.
"""
# ruff: noqa: RUF001  (the page has Greek letters and real minus signs)

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from eigenveil import RowBound, SecondMoments, release
from eigenveil.audit import Neighbours, audit
from eigenveil.mechanisms import CentralMechanism
from eigenveil.metrics import captured_variance
from eigenveil.postprocess import top_components
from eigenveil.report.plots import new_figure, styled
from eigenveil.theory import jiang_table_1, jiang_theorem_7

from ..common import Cell, Results, assembled, prose, published_mechanism, save_figure, table

TITLE = "Jiang, Xie, Zhang (2016): the Wishart mechanism"
DATASETS = ()
DELTA = 1e-6
DIMENSIONS = (16, 32, 64, 128, 256)
GAP, ETA = 0.5, 0.05
THEOREM_7 = [(d, rho) for d in (5, 20, 80) for rho in (0.75, 0.9, 0.99)]
EPSILON_SHOWN = 1.0  # in the page
CONFIDENCE = 1 - 1e-6
SULQ, WISHART = "sulq (paper)", "wishart (paper)"
OPTIONS: dict[str, dict[str, Any]] = {
    "laplace (paper)": {"calibration": "paper"},
    WISHART: {"calibration": "paper", "allow_unsound": True},
    "gaussian (paper)": {"calibration": "paper", "delta": DELTA},
    "laplace": {},
    "matrix_laplace": {},
    "wishart": {"delta": DELTA},
    "gaussian": {"delta": DELTA},
}
# The rows of Table 1 by the names that `jiang_table_1` has for them.
TABLE_1 = {"laplace (paper)": "laplace", SULQ: "sulq", WISHART: "wishart", "gaussian (paper)": "gaussian"}
PURE = ("laplace (paper)", WISHART, "laplace", "matrix_laplace")


def cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the cells of the four parts."""
    sets, epsilons = (("synthetic",), (0.1, 1.0)) if quick else (("synthetic", "digits"), (0.1, 0.3, 1.0, 3.0))
    found: list[tuple[Cell, int]] = [
        ({"part": "norm", "mechanism": name, "d": d}, 40 if quick else 50)
        for name in (SULQ, *OPTIONS)
        for d in (DIMENSIONS[:3] if quick else DIMENSIONS)
    ]
    found += [
        ({"part": "theorem 7", "d": d, "rho": rho}, 150 if quick else 1000)
        for d, rho in (((5, 0.9), (20, 0.9)) if quick else THEOREM_7)
    ]
    found += [
        ({"part": "audit", "mechanism": name, "epsilon": epsilon, "d": 3, "draws": 3_000 if quick else 20_000}, 1)
        for epsilon in ((1.0,) if quick else (0.1, 1.0, 3.0))
        for name in (WISHART, "matrix_laplace")
    ]
    return found + [
        ({"part": "pca", "mechanism": name, "data": data, "epsilon": epsilon}, 300 if quick else 100)
        for data in sets
        for epsilon in epsilons
        for name in PURE
    ]


@functools.cache
def mechanism(name: str, d: int, epsilon: float = 1.0, k: int | None = None) -> CentralMechanism:
    """Return a mechanism with the paper's constants or ours."""
    published = name.removesuffix(" (paper)")
    return published_mechanism(published, epsilon=epsilon, n_features=d, n_components=k, **OPTIONS[name])


def measure(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return one repeat of a cell."""
    part = {"norm": noise_norm, "theorem 7": theorem_7, "audit": audited, "pca": pca_loss}
    return part[cell["part"]](cell, generator)


def noise_norm(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return the spectral norm of one draw of the noise."""
    d = cell["d"]
    if cell["mechanism"] == SULQ:
        # Variance 8 d^2 ln^2(d/delta)/epsilon^2 on each of the d^2 entries, as JMLR 2013, section 3.1 quotes Blum et
        # al. (2005). The noisy matrix is not symmetric, so it is no mechanism of the library.
        noise = generator.normal(0.0, math.sqrt(8) * d * math.log(d / DELTA), (d, d))
    else:
        grid = 2.0**32
        noise = mechanism(cell["mechanism"], d).noise(generator, grid) / grid
    return {"norm": np.linalg.norm(noise, 2)}


def theorem_7(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Draw W, and find the rows that it takes to reach rho where A has one eigenvalue, `GAP` above the others."""
    d, rho = cell["d"], cell["rho"]
    noise = mechanism(WISHART, d).noise(generator)

    def correlation(n: float) -> float:
        # A multiple of the identity turns no eigenvector, so the other eigenvalues of A may be 0.
        noisy = noise.copy()
        noisy[0, 0] += n * GAP
        return abs(top_components(noisy, 1)[0, 0])

    bound = theorem_7_rows(d, rho)
    low, high = 0.0, bound
    while correlation(high) < rho:
        high *= 2
    while high - low > 1e-4 * high:  # the correlation grows with n, as the top eigenvalue is convex in it
        middle = (low + high) / 2
        low, high = (low, middle) if correlation(middle) >= rho else (middle, high)
    return {"success": high <= bound, "success of sharp": high <= theorem_7_rows(d, rho, sharp=True), "needed": high}


def theorem_7_rows(d: int, rho: float, sharp: bool = False) -> float:
    """Return the rows that Theorem 7 asks for."""
    return jiang_theorem_7(n_features=d, epsilon=1.0, gap=GAP, correlation=rho, failure_probability=ETA, sharp=sharp)


def audited(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return a lower bound on epsilon at delta = 0, and how many outputs are impossible on the neighbour."""
    chosen, d = mechanism(cell["mechanism"], cell["d"], cell["epsilon"]), cell["d"]
    report = audit(
        chosen,
        neighbours=[Neighbours("a unit row against the zero row", np.eye(d)[0], np.zeros(d))],
        delta=0.0,
        confidence=CONFIDENCE,
        draws=cell["draws"],
        seed=int(generator.integers(2**62)),
    )
    # On the zero row the noise is released as it is. With Wishart noise the unit row gives M with M - x x' >= 0;
    # matrix_laplace has a density everywhere.
    grid = 2.0**32
    noise = np.stack([chosen.noise(generator, grid) / grid for _ in range(cell["draws"])])
    smallest = np.linalg.eigvalsh(noise - np.diag(np.eye(d)[0]))[:, 0]
    return {
        "epsilon": report.epsilon_lower,
        "impossible": (smallest < 0).mean() if cell["mechanism"] == WISHART else 0.0,
        "violation": report.epsilon_lower > cell["epsilon"],
    }


@functools.cache
def moments_of(name: str) -> tuple[SecondMoments, int]:
    """Return the moments of a data set and its number of components."""
    rows = datasets.load(name)
    return SecondMoments(RowBound(1.0), rows.X.shape[1]).update(rows.X), rows.k


def pca_loss(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return 1 - qF(V)/qF(V_k)."""
    moments, k = moments_of(cell["data"])
    truth = moments.gram * (moments.bound.unit_squared / moments.n_rows)
    drawn = mechanism(cell["mechanism"], len(truth), cell["epsilon"], k)
    released = release(drawn, moments, generator=generator)
    best = captured_variance(truth, top_components(truth, k))
    return {"loss": 1 - captured_variance(truth, released.components) / best}


def exponent(results: Results, name: str) -> tuple[float, float]:
    """Return the slope of log |noise|_2 against log d by least squares, and its standard error."""
    rows = results.select(part="norm", mechanism=name)
    x = np.log([row.cell["d"] for row in rows])
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    logs = np.log([row.mean["norm"] for row in rows])
    errors = np.array([row.se["norm"] / row.mean["norm"] for row in rows])
    return float(weights @ logs), float(np.linalg.norm(weights * errors))


def printed_exponent(results: Results, key: str) -> float:
    """Return the slope that the formula of Table 1 has over the same d."""
    d = [row.cell["d"] for row in results.select(part="norm", mechanism=WISHART)]
    values = [jiang_table_1(n_features=one, n_rows=1, epsilon=1.0)[key] for one in d]
    return float(np.polyfit(np.log(d), np.log(values), 1)[0])


def findings(results: Results) -> dict[str, float]:
    """Return fitted exponents, rates and bounds."""
    found = {f"exponent of {name}": exponent(results, name)[0] for name in (SULQ, *OPTIONS)}
    for row in results.select(part="theorem 7"):
        d, rho = row.cell["d"], row.cell["rho"]
        key = f"theorem 7, d = {d}, rho = {rho}"
        found[f"{key}, success"] = row.mean["success"]
        found[f"{key}, needed over bound"] = row.mean["needed"] / theorem_7_rows(d, rho)
    for row in results.select(part="audit", epsilon=1.0):
        found[f"audit of {row.cell['mechanism']}, violation"] = row.mean["violation"]
        found[f"audit of {row.cell['mechanism']}, impossible on the neighbour"] = row.mean["impossible"]
    for row in results.select(part="pca", data="synthetic"):
        found[f"loss of {row.cell['mechanism']} at {row.cell['epsilon']:g}"] = row.mean["loss"]
    return found


def section(results: Results, images: Path) -> str:
    """Return Table 1 with a figure, Theorem 7, the audit and the PCA losses."""
    return assembled(
        lambda: _table_1(results),
        lambda: [_figure(results, images)],
        lambda: _theorem_7(results),
        lambda: _audit(results),
        lambda: _pca(results),
    )


def _table_1(results: Results) -> list[str]:
    dimensions = [row.cell["d"] for row in results.select(part="norm", mechanism=WISHART)]
    lines = []
    for name in (*TABLE_1, "matrix_laplace"):
        printed = f"{printed_exponent(results, TABLE_1[name]):.2f}" if name in TABLE_1 else ""
        row = results.one(part="norm", mechanism=name, d=dimensions[-1])
        lines.append([name, printed, f"{exponent(results, name)[0]:.2f}", f"{row.mean['norm']:,.0f}"])
    return [
        "### Table 1: spectral norm of the noise\n",
        prose(f"""Exponents of d in the norm of the noise on C = nA, $d$ from {dimensions[0]} to {dimensions[-1]}, ε
            = 1."""),
        table(["", "exponent of Table 1", "measured", f"norm at d = {dimensions[-1]}"], lines),
        prose("""**Agreement: yes for Laplace, SULQ and Gaussian noise; Wishart noise is smaller than printed.** Its
            norm grows as d, without the printed log d."""),
    ]


def _theorem_7(results: Results) -> list[str]:
    row = results.one(part="theorem 7", d=20, rho=0.9)
    printed, sharp = (theorem_7_rows(20, 0.9, sharp=sharp) for sharp in (False, True))
    success = min(row.mean["success"] for row in results.select(part="theorem 7"))
    return [
        "### Theorem 7: rows for a correlation ρ with the top eigenvector\n",
        prose(f"""**Agreement: yes, the theorem holds** (success rate {success:.3g}, where {1 - ETA:g} is
            guaranteed), although its proof drops a square. It asks for many times the rows that are needed: at d =
            20, ρ = 0.9, gap {GAP:g} and ε = 1 for {printed:,.0f}, where {row.mean["needed"]:,.0f} are enough on
            average and our sharper bound asks for {sharp:,.0f}."""),
    ]


def _audit(results: Results) -> list[str]:
    lines = []
    for row in results.some(part="audit", mechanism=WISHART):
        epsilon = row.cell["epsilon"]
        ours = results.one(part="audit", mechanism="matrix_laplace", epsilon=epsilon)
        predicted = f"{1 - np.exp(-epsilon / 3):.3f}"
        lines.append([f"{epsilon:g}", predicted])
        for each in (row, ours):
            lines[-1] += [f"{each.mean['impossible']:.3f}", f"{each.mean['epsilon']:.2f}"]
    draws = results.select(part="audit")[0].cell["draws"]
    titles = ["claimed ε", "$1 - e^{-\\varepsilon/3}$"]
    for name in (WISHART, "matrix_laplace"):
        titles += [f"{name}: impossible", "ε is at least"]
    return [
        "### Theorem 4: an audit of pure ε-privacy\n",
        table(titles, lines),
        prose(f"""**Contradiction: Theorem 4 is false.** With probability 1 − exp(−ε/3) the published Wishart
            mechanism produces an output on a zero row that is impossible on a unit row, so no ε holds for it
            ([proof](wishart.md)). "Impossible" counts such outputs among {draws:,} at d = 3;
            the bounds on ε have confidence 1 − 10⁻⁶."""),
    ]


def _pca(results: Results) -> list[str]:
    lines = []
    for data in dict.fromkeys(row.cell["data"] for row in results.select(part="pca", epsilon=EPSILON_SHOWN)):
        losses = [results.one(part="pca", data=data, epsilon=EPSILON_SHOWN, mechanism=name) for name in PURE]
        lines.append([data, *(f"{row.mean['loss']:.3g}" for row in losses)])
    return [
        "### Laplace against Wishart in PCA\n",
        prose(f"""The paper has no experiment. Loss $1 - qF(V)/qF(V_k)$ at ε = {EPSILON_SHOWN:g}, mean of
            {results.select(part="pca")[0].repeats} runs."""),
        table(["data", *PURE], lines),
        prose("""**Agreement: yes, Wishart noise loses less than Laplace noise at the same stated ε**, but its ε does
            not hold. `matrix_laplace` keeps its ε and loses less."""),
    ]


@styled()
def _figure(results: Results, images: Path) -> str:
    figure = new_figure(7.5, 4)
    panel = figure.subplots()
    for name in (SULQ, *OPTIONS):
        rows = results.select(part="norm", mechanism=name)
        d, norms = [row.cell["d"] for row in rows], [row.mean["norm"] for row in rows]
        panel.plot(d, norms, marker=".", ls="--" if name in TABLE_1 else "-", label=name)
    panel.set(xscale="log", yscale="log", xlabel="d, features", ylabel="spectral norm of the noise on C, ε = 1")
    panel.set_xticks(d, map(str, d), minor=False)
    panel.set_xticks([], minor=True)
    figure.legend(loc="outside right upper", fontsize=8)
    return save_figure(figure, images, "jiang2016", "Spectral norm of the noise against d, paper's constants dashed")


if __name__ == "__main__":
    from ..__main__ import main

    main("jiang2016")
