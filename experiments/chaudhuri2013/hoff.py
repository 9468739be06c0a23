"""PPCA by Hoff's sampler for as long as Chaudhuri et al. (2013) run it, and the block sampler on the same rows.

A step is a pass over all columns. The paper starts a chain 10 times and keeps its state at T = 20,000; here a chain is
started once, and its second half, thousands of states of the same distribution, says how good one such state is.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.sampling.matrix_bingham import HoffKernel, haar_orthogonal

from ..common import CACHE, Cell, Results, prose
from .diagnostics import block_traces, effective_sample_size
from .utility import EPSILON, RESTARTS, SIZES, rows_of, second_moment

T = 20_000
# Figure 2 of the paper goes to 40,000 on kddcup99 and insurance.
PASSES = {"kddcup99": 40_000, "localization": T, "insurance": T, "census": 200}
# How often a chain is saved, so that a killed run goes on inside of it.
SAVED_EVERY = 250


def chain_cells(quick: bool) -> list[tuple[Cell, int]]:
    """Return data x n; the longest of PASSES is run on all rows."""

    def cell(data: str, n: int, passes: int) -> Cell:
        return {"part": "hoff", "data": data, "all rows": not quick, "n": n, "passes": passes}

    if quick:
        return [(cell("localization", 20_000, 150), 1)]
    found = [(cell(data, sizes[-1], PASSES[data]), 1) for data, sizes in SIZES.items()]
    return found + [(cell("localization", n, T), 1) for n in SIZES["localization"][:-1]]


def steps(passes: int) -> list[int]:
    """Return the iterations that are kept: a few in every octave, and those that the paper names."""
    return sorted({round(t) for t in np.geomspace(1, passes, 25)} | {t for t in (T, 2 * T) if t <= passes})


def hoff(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return F_k(T), qF along one chain and at its end, and what the block sampler draws on the same rows."""
    data, n = rows_of(cell["data"], cell["all rows"]), cell["n"]
    state = json.dumps(generator.bit_generator.state)
    X = data.X[np.sort(generator.choice(len(data.X), n, replace=False))]
    eigenvalues = np.linalg.eigvalsh(EPSILON / 2 * second_moment(X))[::-1]
    blocks = block_traces(eigenvalues, data.k, generator, 2 * RESTARTS[cell["data"]][0])
    saved = CACHE / "chains" / f"{hashlib.sha256(state.encode()).hexdigest()[:16]}.npz"
    traces, norms = run_chain(eigenvalues, data.k, cell["passes"], generator, saved)
    unit = EPSILON / 2 * n
    late = traces[len(traces) // 2 :] / unit
    drawn = blocks.scores[:, -1] / unit
    found = {
        "none": eigenvalues[: data.k].sum() / unit,
        "qF at the end": late[-1],
        "qF": late.mean(),
        "qF sd": late.std(ddof=1),
        "effective draws": effective_sample_size(late),
        "block qF": drawn.mean(),
        "block sd": drawn.std(ddof=1),
        "block draws": len(drawn),
    }
    for t in steps(cell["passes"]):
        found |= {f"F {t}": norms[t - 1], f"lost {t}": found["none"] - traces[t - 1] / unit}
    return found


def run_chain(
    eigenvalues: np.ndarray, k: int, passes: int, generator: np.random.Generator, saved: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Return tr V'BV and F_k(t) at every pass of one chain, going on from `saved` where that is there."""
    gaps = eigenvalues[0] - eigenvalues
    kernel = HoffKernel(gaps, k)
    states = haar_orthogonal(1, len(gaps), k, generator)
    total, done = np.zeros_like(states), 0
    traces, norms = np.empty(passes), np.empty(passes)
    if saved.exists():
        with np.load(saved) as kept:
            states, total, done = kept["states"], kept["total"], int(kept["done"])
            traces[:done], norms[:done] = kept["traces"], kept["norms"]
            generator.bit_generator.state = json.loads(str(kept["generator"]))
    for t in range(done, passes):
        states = kernel.update(states, generator)
        total += states
        traces[t] = k * eigenvalues[0] - np.square(states[0]).sum(axis=1) @ gaps
        norms[t] = np.linalg.norm(total) / (k**0.5 * (t + 1))
        if (t + 1) % SAVED_EVERY == 0 and t + 1 < passes and passes > 4 * SAVED_EVERY:
            _save(saved, states, total, traces[: t + 1], norms[: t + 1], generator)
    saved.unlink(missing_ok=True)
    return traces, norms


def _save(saved: Path, states: Any, total: Any, traces: Any, norms: Any, generator: np.random.Generator) -> None:
    saved.parent.mkdir(parents=True, exist_ok=True)
    part = saved.with_suffix(".part.npz")  # a kill must not leave half a file
    word = json.dumps(generator.bit_generator.state)
    np.savez(part, states=states, total=total, done=len(traces), traces=traces, norms=norms, generator=word)
    part.replace(saved)


def hoff_findings(results: Results) -> dict[str, float]:
    """Return the mean of qF along the chains, and that of the block sampler beside it."""
    found = {}
    for row in results.select(part="hoff"):
        key = f"hoff, {row.cell['data']}, n = {row.cell['n']}"
        found |= {f"{key}, qF": row.mean["qF"], f"{key}, block": row.mean["block qF"]}
        found[f"{key}, sqrt(T) F"] = row.cell["passes"] ** 0.5 * row.mean[f"F {row.cell['passes']}"]
    return found


def hoff_note(results: Results) -> list[str]:
    """Return how PPCA by Hoff's sampler agrees with the block sampler that the tables use."""
    rows = results.some(part="hoff")
    differences = []
    for row in rows:
        mean = row.mean
        error = mean["qF sd"] / max(mean["effective draws"], 1.0) ** 0.5
        beside = mean["block sd"] / mean["block draws"] ** 0.5
        differences.append(abs(mean["qF"] - mean["block qF"]) / (error**2 + beside**2) ** 0.5)
    longest = [row for row in rows if row.cell["passes"] >= T] or rows
    fewest = min(row.mean["effective draws"] for row in longest)
    return [
        prose(f"""The block sampler used for PPCA agrees with Hoff's, the paper's, within {max(differences):.1f}
            standard errors. The paper keeps the last states of 10 chains; the second half of our one chain is worth at
            least {fewest:,.0f} independent states, so its mean is known {(fewest / 10) ** 0.5:.0f} times better."""),
    ]
