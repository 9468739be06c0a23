"""Acceptance rates of an exact sampler of subspaces, which docs/explanation/choosing.md quotes.

python benchmarks/subspace_acceptance.py [--features 10 30 60 64] [--components 2 3 4] [--proposals 200]

The target is exp(tr V'BV) on k-dimensional subspaces, B = (epsilon/2) C with trace C = n; the proposal is the matrix
angular central Gaussian distribution with precision I + (2/b) A, A = lambda_1(B) I - B (Kent, Ganeiber and Mardia
2018). With u the eigenvalues of V'AV a proposal is kept with probability prod exp(-u_i) (1 + 2 u_i/b)^(d/2)/M_i, M_i
the maximum over u >= lambda_i(A), which Cauchy's interlacing allows. The mean of this chance is measured, for the best
of 30 b.
"""

import argparse

import numpy as np

from choosing import spectra

RATIOS = (2, 4, 6, 8)  # n epsilon/d


def log_bound(smallest: np.ndarray, b: float, d: int) -> float:
    """Return the sum of ln M_i: d/2 ln(1 + 2u/b) - u rises up to u = (d - b)/2."""
    u = np.maximum(smallest, max((d - b) / 2, 0.0))
    return float(np.sum(d / 2 * np.log1p(2 * u / b) - u))


def log_chances(a: np.ndarray, k: int, b: float, proposals: int, generator: np.random.Generator) -> np.ndarray:
    """Return ln of the chance to keep each of some proposals; `a` are the eigenvalues of A, rising."""
    d = a.size
    y = generator.standard_normal((proposals, d, k)) / np.sqrt(1 + 2 * a / b)[:, np.newaxis]
    V = np.linalg.qr(y)[0]
    u = np.linalg.eigvalsh(V.mT @ (a[:, np.newaxis] * V))
    return np.sum(d / 2 * np.log1p(2 * u / b) - u, axis=1) - log_bound(a[:k], b, d)


def chance(spectrum: np.ndarray, k: int, ratio: float, proposals: int, generator: np.random.Generator) -> float:
    """Return the mean chance to keep a proposal, for the best b."""
    d = spectrum.size
    B = ratio * d / 2 * np.sort(spectrum)[::-1] / spectrum.sum()
    found = [np.exp(log_chances(B[0] - B, k, b, proposals, generator)).mean() for b in np.geomspace(d / 100, 2 * d, 30)]
    return float(max(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="*", default=[10, 30, 60, 64])
    parser.add_argument("--components", type=int, nargs="*", default=[2, 3, 4])
    parser.add_argument("--proposals", type=int, default=200)
    arguments = parser.parse_args()
    generator = np.random.default_rng(1)
    print("| spectrum | d | k | " + " | ".join(f"nε/d = {ratio}" for ratio in RATIOS) + " |")
    print("| --- " * (3 + len(RATIOS)) + "|")
    for d in arguments.features:
        for k in arguments.components:
            for name, spectrum in spectra(d).items():
                values = [chance(spectrum, k, ratio, arguments.proposals, generator) for ratio in RATIOS]
                print(f"| {name} | {d} | {k} | " + " | ".join(f"{value:.1g}" for value in values) + " |", flush=True)


if __name__ == "__main__":
    main()
