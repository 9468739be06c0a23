"""The private norm bound, before and now: error of the released second moment and loss of its components.

Before: the candidate on a grid of factor sqrt(2) near the 0.8 quantile of the norms, by permute-and-flip, written again
here. Now: the library's. Rows are standardized without privacy, the mechanism is `gaussian` in both cases, and a tenth
of epsilon finds the bound. Errors are relative, in Frobenius norm, expected over the noise for every bound that was
found; losses are shares of the variance that the best subspace captures. `unit` is the loss of rows of length 1, and a
star stands where a fit of directions takes them.

    python benchmarks/clip_bound.py --epsilon 1 --runs 20
"""

import argparse
from fractions import Fraction

import numpy as np

from datasets import NAMES, available, load
from eigenveil.estimators.plan import LEAST_ROWS, rows_beyond, too_few_to_clip
from eigenveil.gate import choose_norm
from eigenveil.mechanisms import MECHANISMS
from eigenveil.metrics import captured_variance
from eigenveil.moments.counts import NORM_GRID, RowSizes
from eigenveil.moments.row_rule import RowRule
from eigenveil.postprocess.spectrum import top_components

SHARE = Fraction(1, 10)
OLD_NORM_GRID = 2.0 ** (np.arange(-60, 61) / 2)


def old_bound(norms, epsilon, rng):
    """Return what permute-and-flip finds at the 0.8 quantile: the largest score plus exponential noise."""
    counts = np.searchsorted(np.sort(norms), OLD_NORM_GRID, side="right")
    target = 0.8 * len(norms)
    before = np.append(-np.inf, counts[:-1]) - target
    scores = -np.maximum(0, np.maximum(target - counts, before))
    return OLD_NORM_GRID[np.argmax(scores + rng.exponential(2 / epsilon, scores.size))]


class Table:
    """Standardized rows, and what a bound makes of them."""

    def __init__(self, name, max_rows):
        rows = load(name, max_rows=max_rows)
        centred = rows.X - rows.X.mean(axis=0)
        spread = centred.std(axis=0)
        self.X = centred[:, spread > 1e-9] / spread[spread > 1e-9]
        self.k = rows.k
        self.norms = np.linalg.norm(self.X, axis=1)
        self.C = self.X.T @ self.X
        self._moments = {}

    def moments(self, bound):
        """Return the second moment of rows clipped to a bound, or of unit rows where it is None."""
        if bound not in self._moments:
            lengths = np.maximum(self.norms, 1e-300)
            Y = self.X * (1 / lengths if bound is None else np.minimum(1, bound / lengths))[:, None]
            self._moments[bound] = Y.T @ Y
        return self._moments[bound]

    def error(self, bound, mechanism):
        """Return the root of the expected squared error of the release, relative to the second moment."""
        d = len(self.C)
        noise = bound**4 * mechanism.off_diagonal_sd**2 * (d * (d - 1) + 2 * d)
        return np.sqrt(np.sum((self.moments(bound) - self.C) ** 2) + noise) / np.linalg.norm(self.C)

    def loss(self, bound, mechanism, rng):
        """Return the share of variance that the components of one release miss."""
        noisy = self.moments(bound) + (1 if bound is None else bound**2) * mechanism.simulated_noise(rng)
        best, found = (captured_variance(self.C, top_components(matrix, self.k)) for matrix in (self.C, noisy))
        return 1 - found / best


def compare(name, options, rng):
    """Print one line for a table."""
    table = Table(name, options.max_rows)
    n, d = table.X.shape
    share = SHARE * Fraction(str(options.epsilon))
    mechanism, whole = (
        MECHANISMS["gaussian"](epsilon=epsilon, delta=options.delta, n_features=d)
        for epsilon in (options.epsilon - float(share), options.epsilon)
    )
    rule = RowRule(1.0)
    beyond = rows_beyond(mechanism, rule, share, n)
    counts = RowSizes(None, None).update(table.X)
    old = [old_bound(table.norms, float(share), rng) for _ in range(options.runs)]
    new = [choose_norm(counts, beyond, share, rng) for _ in range(options.runs)]
    errors = [[table.error(bound, mechanism) for bound in bounds] for bounds in (old, new)]
    best = min(
        table.error(candidate, mechanism)
        for candidate in NORM_GRID[(table.norms.min() < NORM_GRID) & (table.norms.max() > NORM_GRID)]
    )
    losses = [np.mean([table.loss(bound, mechanism, rng) for bound in bounds]) for bounds in (old, new)]
    unit = np.mean([table.loss(None, whole, rng) for _ in range(options.runs)])
    star = "*" if n < too_few_to_clip(whole, rule, share) else " "
    refused = "a covariance is refused" if n < LEAST_ROWS / share else ""
    middle = [np.median(one) for one in errors]
    print(
        f"{name:13s} {n:6d} {d:4d} {beyond:6d} | {middle[0]:7.3f} {middle[1]:7.3f} {middle[0] / middle[1]:6.2f} "
        f"{max(errors[0]):9.2g} {max(errors[1]):6.2f} {best:6.3f} | "
        f"{losses[0]:7.4f} {losses[1]:7.4f} {unit:7.4f}{star} {refused}",
        flush=True,
    )


def failures(rows_epsilon, rng, runs, n=1000):
    """Print how often a bound is more than an octave from where it was aimed at, for lognormal norms."""
    epsilon = Fraction(rows_epsilon, n)
    beyond = int(min(Fraction(n, 2), n - 16 / epsilon, 6 / epsilon))
    far = np.zeros(2)
    for _ in range(runs):
        norms = np.exp(0.3 * rng.standard_normal(n))
        found = choose_norm(RowSizes(None, None).update(norms[:, None]), beyond, epsilon, rng)
        pairs = ((old_bound(norms, float(epsilon), rng), 0.8 * n), (found, n - beyond))
        far += [abs(np.log2(bound / np.sort(norms)[int(at) - 1])) > 1.2 for bound, at in pairs]
    print(f"{rows_epsilon:6d} | {far[0] / runs:7.3f} {far[1] / runs:7.3f}", flush=True)


def main():
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--max-rows", type=int, default=10_000)
    parser.add_argument("--tables", nargs="+", default=[name for name in NAMES if available(name)])
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("                               |  error, median of runs      worst of runs  least |  loss, mean")
    print("table           rows    d beyond |     old     new  ratio       old    new  error |     old     new    unit")
    for name in options.tables:
        compare(name, options, rng)
    print("\nMore than an octave off (and a step)\nrows x epsilon of the choice |  old     new")
    for rows_epsilon in (20, 30, 60, 200):
        failures(rows_epsilon, rng, 50 * options.runs)


if __name__ == "__main__":
    main()
