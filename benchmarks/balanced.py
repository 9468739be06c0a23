"""What balancing gains `matrix_laplace` under replace: the noise of the balanced form beside that of the product form.

python benchmarks/balanced.py [--draws 2000] [--widths 1 2 5 10 50]

Standard deviations at epsilon 1, for rows of norm 1: beside the diagonal, of the trace (the total variance) and of the
largest eigenvalue of the noise, from draws of both mechanisms; the ratios of variances are balanced over product form.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil.mechanisms import MECHANISMS


def measured(d: int, calibration: str, draws: int, seed: int) -> np.ndarray:
    """Return the variances beside the diagonal and of the trace, and the mean largest eigenvalue."""
    mechanism = MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=d, calibration=calibration)
    generator = np.random.default_rng(seed)
    noise = np.stack([mechanism.simulated_noise(generator) for _ in range(draws)])
    beside = noise[:, 0, 1].var() if d > 1 else np.nan
    return np.array([beside, np.trace(noise, axis1=1, axis2=2).var(), np.linalg.eigvalsh(noise)[:, -1].mean()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 2, 5, 10, 50])
    asked = parser.parse_args()
    table = Table(title="matrix_laplace under replace, epsilon 1")
    for column in ("d", "sd beside", "variance ratio", "sd of the trace", "product form", "edge", "product form"):
        table.add_column(column, justify="right")
    for d in asked.widths:
        new, old = (measured(d, name, asked.draws, seed) for seed, name in enumerate(("balanced", "tight")))
        cells = new[0] ** 0.5, new[0] / old[0], new[1] ** 0.5, old[1] ** 0.5, new[2], old[2]
        table.add_row(str(d), *("" if np.isnan(cell) else f"{cell:.3g}" for cell in cells))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
