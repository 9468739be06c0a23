"""Draw docs/images/gibbs_trace.png: how the chains of each Gibbs kernel settle from uniform starts.

python benchmarks/gibbs_trace.py docs/images/gibbs_trace.png
"""

import sys

import numpy as np

from eigenveil.report.plots import BLUE, BROWN, GREEN, INK, new_figure, styled
from eigenveil.sampling.matrix_bingham import BlockKernel, ColumnKernel, HoffKernel, haar_orthogonal

D, K, CHAINS = 116, 4, 5
# ε = 0.1 and n = 494,021 as in the kddcup99 experiment of Chaudhuri et al. (2013), with a spectrum of its kind.
CONCENTRATION = 0.1 / 2 * 494_021
SPECTRUM = np.r_[0.36, 0.17, 0.09, 0.04, 0.03 * 0.9 ** np.arange(D - 4)]
RUNS = {
    "block: a column and all planes": (BlockKernel, 40, BLUE),
    "columns only": (ColumnKernel, 200, GREEN),
    "Hoff: a pass over all coordinates": (HoffKernel, 200, BROWN),
}


@styled()
def main(path: str) -> None:
    gaps = CONCENTRATION * (SPECTRUM[0] - SPECTRUM)
    figure = new_figure(9.0, 3.8)
    left, right = figure.subplots(1, 2)
    for label, (kernel_type, updates, colour) in RUNS.items():
        generator = np.random.default_rng(1)
        kernel, states = kernel_type(gaps, K), haar_orthogonal(CHAINS, D, K, generator)
        total, losses, norms = np.zeros_like(states), [], []
        for update in range(1, updates + 1):
            states = kernel.update(states, generator)
            total += states
            losses.append(np.square(states).sum(axis=2) @ gaps - gaps[:K].sum())
            norms.append(np.linalg.norm(total, axis=(1, 2)) / (np.sqrt(K) * update))
        steps = np.arange(1, updates + 1)
        for axes, values in ((left, np.array(losses)), (right, np.array(norms))):
            axes.loglog(steps, values, color=colour, linewidth=0.8)
            axes.loglog([], [], color=colour, label=label)
        late = np.array(losses)[updates // 2 :].mean()
        print(f"{label}: mean loss over the second half of {updates} updates {late:.1f}")
    left.axhline(K * (D - K) / 2, color=INK, linestyle=":", label="k(d-k)/2, the limit at high concentration")
    left.set(xlabel="updates", ylabel="tr VᵀBV below its maximum", title="the subspace")
    right.set(
        xlabel="updates T",
        ylabel="F_k(T), norm of the mean state / √k",
        title="the statistic of Chaudhuri et al. (2013)",
    )
    left.legend(fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1])
