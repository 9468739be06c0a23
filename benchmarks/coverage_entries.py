"""How often the intervals of a release hold the truth, and how long they are.

    python benchmarks/coverage_entries.py                    # summarized in docs/research/intervals_of_entries.md
    python benchmarks/coverage_entries.py --repeats 1000 --features 5

Gaussian rows, a correlated covariance of unit variances, a bound that clips next to nothing: simulated on the level of
matrices, with the noise of the mechanism. "data" is the covariance of the rows, "population" that of the distribution
they come from.
"""

import argparse
from dataclasses import replace

import numpy as np

from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess.components import loading_errors
from eigenveil.postprocess.entries import correlation_intervals, covariance_intervals, plain_error
from eigenveil.postprocess.least_squares import LeastSquares

KINDS = ("diagonal", "beside", "correlation", "coefficient", "R²", "angle")


def truth(d):
    generator = np.random.default_rng(3)
    factors = generator.standard_normal((d, 3))
    covariance = factors @ factors.T + np.diag(generator.uniform(0.3, 1.5, d))
    sizes = np.sqrt(np.diag(covariance))
    return covariance / np.outer(sizes, sizes)


def sampled(covariance, n, generator):
    d = len(covariance)
    triangle = np.tril(generator.standard_normal((d, d)), -1)
    triangle += np.diag(np.sqrt(generator.chisquare(n - np.arange(d))))
    root = np.linalg.cholesky(covariance) @ triangle
    return root @ root.T / n


def error_of(mechanism, unit, level):
    facts, error = mechanism.noise_facts(), plain_error(mechanism.n_features, 1.0, level=level)
    extra = np.full(mechanism.n_features, facts.diagonal_extra * unit**2)
    known = {"beside": facts.off_variance * unit**2, "shared": facts.shared_variance * unit**2, "extra": extra}
    return replace(error, **known, quantiles=mechanism.noise_quantiles(level), common_size=mechanism.common_size)


def cell(name, d, strength, n, repeats):
    """Return coverages by kind for data and population, the share of regressions that are determined, and widths."""
    generator, covariance = np.random.default_rng([d, int(strength)]), truth(d)
    mechanism = MECHANISMS[name](
        epsilon=strength * d / n, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=d
    )
    unit = 2.2 * d / n
    error, wider = error_of(mechanism, unit, 0.95), error_of(mechanism, unit, 1 - 0.05 / 3)
    beside, diagonal, k = np.triu_indices(d, 1), np.diag_indices(d), min(d, 3)
    held = {of: {kind: [] for kind in KINDS} for of in ("data", "population")}
    width, determined = [], []
    for _ in range(repeats):
        data = sampled(covariance, n, generator)
        matrix = data + mechanism.simulated_noise(generator) * unit
        values, vectors = np.linalg.eigh(matrix)
        for of, true, share in (("data", data, 0.0), ("population", covariance, 1 / n)):
            sizes = np.sqrt(np.diag(true))
            coef = np.linalg.solve(true[:-1, :-1], true[:-1, -1])
            entries = covariance_intervals(matrix, error, sampled=share)
            found = LeastSquares(matrix, error, per_row=share, population=share > 0)
            coefs = np.array([found.contrast(axis).interval for axis in np.eye(d - 1)])
            angles = loading_errors(values[::-1], vectors.T[::-1], k, error, level=0.95, sampled=share).angle_bound
            cosines = np.abs(np.sum(vectors * np.linalg.eigh(true)[1], axis=0))[::-1][:k]
            ends = correlation_intervals(matrix, error, wider, sampled=share)[beside]
            for kind, interval, value in (
                ("diagonal", entries[diagonal], true[diagonal]),
                ("beside", entries[beside], true[beside]),
                ("correlation", ends, (true / np.outer(sizes, sizes))[beside]),
                ("coefficient", coefs, coef),
                ("R²", found.r2_interval(), coef @ true[:-1, -1] / true[-1, -1]),
                ("angle", np.stack([0 * angles, angles], -1), np.degrees(np.arccos(np.minimum(cosines, 1)))),
            ):
                held[of][kind].append(np.mean((interval[..., 0] <= value) & (value <= interval[..., 1])))
        width.append(np.median(np.diff(ends)))
        determined.append(found.bounded)
    shares = {of: {kind: np.mean(values) for kind, values in kinds.items()} for of, kinds in held.items()}
    return shares, np.mean(determined), np.median(width)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--features", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--mechanisms", nargs="+", default=["gaussian", "matrix_laplace"])
    parser.add_argument("--strengths", type=float, nargs="+", default=[10, 100, 1000, 3000], help="n epsilon / d")
    asked = parser.parse_args()
    print("| mechanism | d | nε/d |", " | ".join(KINDS), "| determined | correlation ± |")
    print("|" + " --- |" * (len(KINDS) + 5))
    for name in asked.mechanisms:
        for d in asked.features:
            for strength in asked.strengths:
                shares, determined, width = cell(name, d, strength, asked.rows, asked.repeats)
                both = (f"{shares['data'][kind]:.3f} / {shares['population'][kind]:.3f}" for kind in KINDS)
                print(f"| {name} | {d} | {strength:g} |", " | ".join(both), f"| {determined:.2f} | {width / 2:.2g} |")


if __name__ == "__main__":
    main()
