"""Figures 1 and 2 of Chaudhuri et al. (2013): the bound of Theorem 15, and traces of the Gibbs samplers.

Hoff's sampler itself is run by `hoff.py`; here is the block sampler, and the figure with both.
"""

import functools
from pathlib import Path

import numpy as np

from eigenveil.report.plots import BLUE, BROWN, GREY, INK, new_figure, styled
from eigenveil.theory import jmlr_figure_1, jmlr_theorem_15_rows

from ..common import Cell, Results, Row, prose, save_figure
from .diagnostics import block_traces, split_r_hat
from .hoff import steps
from .utility import EPSILON, rows_of, second_moment

CHAINS = 5
SHOWN = ("kddcup99", "insurance")  # those of the paper
DIMENSIONS, BOUND_EPSILONS = (50, 100, 500, 1000), (0.01, 0.1, 0.5, 1.0, 2.0)


def trace_cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return the data sets of Figure 2."""
    names, updates = (("kddcup99",), 40) if quick else (SHOWN, 500)
    return [
        ({"part": "figure 2", "data": name, "method": "block", "updates": updates, "all rows": not quick}, 1)
        for name in names
    ]


@functools.cache
def concentration(name: str, all_rows: bool) -> tuple[np.ndarray, int, int]:
    """Return the eigenvalues of B = (epsilon/2) C, k and n."""
    data = rows_of(name, all_rows)
    return np.linalg.eigvalsh(EPSILON / 2 * second_moment(data.X))[::-1], data.k, len(data.X)


def traces(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return F_k(T) and how far qF is below its maximum, of five chains from uniform starts."""
    eigenvalues, k, n = concentration(cell["data"], cell["all rows"])
    drawn = block_traces(eigenvalues, k, generator, CHAINS, cell["updates"])
    late = slice(cell["updates"] // 2, None)
    lost = (eigenvalues[:k].sum() - drawn.scores) / (EPSILON / 2 * n)
    found = {"R-hat": split_r_hat(drawn.scores[:, late]), "settled": lost[:, late].mean()}
    for T in steps(cell["updates"]):
        for chain in range(CHAINS):
            found |= {f"F {chain} {T}": drawn.mean_norms[chain, T - 1], f"lost {chain} {T}": lost[chain, T - 1]}
    return found


def _mean(row: Row, statistic: str, T: int) -> float:
    return float(np.mean([row.mean[f"{statistic} {chain} {T}"] for chain in range(CHAINS)]))


def chain_findings(results: Results) -> dict[str, float]:
    """Return where Theorem 15 excludes 0.95, and the last values of the traces."""
    found = {
        f"theorem 15, rows below which 0.95 is out of reach, d = {d}": jmlr_theorem_15_rows(
            correlation=0.95, n_features=d, epsilon=1.0
        )
        for d in (100, 1000)
    }
    for row in results.select(part="figure 2"):
        key, T = f"figure 2, {row.cell['data']}, {row.cell['method']}", row.cell["updates"]
        found[f"{key}, sqrt(T) F"] = T**0.5 * _mean(row, "F", T)
        found[f"{key}, qF lost"] = row.mean["settled"]
    return found


@styled()
def figure_1(images: Path) -> list[str]:
    """Return Figure 1: nothing in it is random."""
    n = np.geomspace(1e2, 1e9, 71)
    curves = jmlr_figure_1(n, n_features=DIMENSIONS, epsilons=BOUND_EPSILONS)
    figure = new_figure(9, 2.8)
    panels = figure.subplots(1, 4, sharey=True)
    for panel, d in zip(panels, DIMENSIONS, strict=True):
        for epsilon in BOUND_EPSILONS:
            panel.semilogx(n, curves[d, epsilon], label=f"ε = {epsilon:g}")
        panel.set(title=f"d = {d}", xlabel="n, rows")
    panels[0].set(ylabel="bound on the correlation")
    panels[0].legend(fontsize=8, loc="lower right")
    shown = save_figure(
        figure, images, "chaudhuri2013_bound", "Figure 1: upper bound on the expected correlation of MOD-SULQ"
    )
    few, many = (jmlr_theorem_15_rows(correlation=0.95, n_features=d, epsilon=EPSILON) for d in (100, 1000))
    return [
        "### Figure 1: the bound of Theorem 15 on MOD-SULQ\n",
        shown,
        prose(f"""**Agreement: yes.** The paper prints no numbers. At ε = {EPSILON:g} an expected correlation of 0.95
            is out of reach on some data set below {few:,.0f} rows at d = 100 and {many:,.0f} at d = 1,000."""),
    ]


@styled()
def figure_2(results: Results, images: Path) -> list[str]:
    """Return Figure 2 with both samplers, and what the statistic says and does not say."""
    figure = new_figure(9, 6.2)
    losses = []
    for pair, name in zip(figure.subplots(2, 2), SHOWN, strict=True):
        facts = results.one(part="table 1", data=name, constant=False).mean
        block = results.one(part="figure 2", data=name)
        hoff = results.one(part="hoff", data=name, n=facts["n"])
        passes = steps(hoff.cell["passes"])
        updates = sorted(int(key.split()[-1]) for key in block.mean if key.startswith("F 0 "))
        for panel, statistic in zip(pair, ("F", "lost"), strict=True):
            for chain in range(CHAINS):
                values = [block.mean[f"{statistic} {chain} {t}"] for t in updates]
                panel.plot(updates, values, color=BLUE, lw=0.8, label="block" if chain == 0 else None)
            panel.plot(passes, [hoff.mean[f"{statistic} {t}"] for t in passes], color=BROWN, label="Hoff")
        losses.append(f"{block.mean['settled']:.2g} and {hoff.mean['none'] - hoff.mean['qF']:.2g} on {name}")
        pair[0].plot(passes, np.power(passes, -0.5), color=INK, ls=":", label="independent draws, 1/√T")
        pair[0].axhline(0.01, color=GREY, lw=0.5)
        pair[0].set(
            xscale="log", yscale="log", xlabel="T, updates", ylabel="F_k(T)", title=f"{name}: the paper's statistic"
        )
        pair[1].set(
            xscale="log",
            yscale="log",
            xlabel="T, updates",
            ylabel="qF below its maximum",
            title=f"{name}: the subspace",
        )
        pair[0].legend(fontsize=8)
    return [
        "### Figure 2: traces of the Gibbs samplers\n",
        save_figure(figure, images, "chaudhuri2013_traces", "Figure 2: F_k(T) and the loss of the subspace"),
        prose(f"""**The paper:** 20,000 steps are enough, because $F_k(T)$ is then below 0.01. **Agreement: $F_k(T)$
            falls as printed, but it does not measure convergence.** Independent draws have it too: it is near
            $1/\\sqrt{{T}}$. The loss of the subspace does: both samplers settle within a few steps, at
            {", ".join(losses)}."""),
    ]
