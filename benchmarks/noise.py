"""Seconds for a noisy matrix of every additive mechanism, as a ratio to the float noise of version 0.1 in the same run.

Run `python benchmarks/noise.py [--output FILE.json]`. The secure generator is used, as in a real release. What is timed
is `mechanism.draw`: the noise, its rounding and the sum. The reference draws and adds the noise as version 0.1 did, and
takes turns with it. The last rows time OpenDP's exact discrete Gaussian for as many numbers, with which our sampler
agrees in distribution.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism
from eigenveil.mechanisms.additive import RealNoiseMechanism
from eigenveil.mechanisms.matrix_laplace import MatrixLaplace
from eigenveil.sampling.randomness import secure_generator
from eigenveil.sampling.wishart import wishart

SIZES = (100, 500, 1000)
BITS = 16
LARGEST_RATIO = 2.0
"""What matrix_laplace may cost at most."""


def float_draw(
    mechanism: AdditiveMechanism, gram: NDArray[np.int64], grid: int, generator: np.random.Generator
) -> None:
    """Draw as version 0.1 did: float noise, rounded to integers in blocks, clipped and added."""
    if isinstance(mechanism, MatrixLaplace):
        scale, d = 2 * mechanism.noise_scale() * grid, mechanism.n_features
        noise = wishart(d + 1, scale, d, generator)
        noise -= wishart(d + 1, scale, d, generator)
    else:
        noise = mechanism.noise(generator, float(grid))
    whole = noise.view(np.int64)
    if max(noise.max(), -noise.min()) < 2.0**53:
        for low in range(0, len(noise), 512):
            whole[low : low + 512] = np.rint(noise[low : low + 512]).astype(np.int64)
    np.clip(whole, -(2**62), 2**62, out=whole)
    whole += gram


def opendp_seconds(numbers: int) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale=4.0**BITS)
    start = time.perf_counter()
    measurement([0] * numbers)
    return time.perf_counter() - start


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--mechanisms", nargs="*", default=[name for name, kind in MECHANISMS.items() if kind.adds_noise]
    )
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    table = Table(title="One noisy matrix")
    for column in ("d", "mechanism", "seconds", "to float noise", "at most"):
        table.add_column(column, justify="right")
    results = []
    generator, grid = secure_generator(), 4**BITS
    for d in SIZES:
        gram = np.zeros((d, d), np.int64)
        for name in arguments.mechanisms:
            mechanism = MECHANISMS[name](epsilon=1.0, delta=1e-6 if MECHANISMS[name].needs_delta else 0.0, n_features=d)
            assert isinstance(mechanism, AdditiveMechanism)
            mechanism.draw(gram, grid, 1, generator)  # imports, calibration and the test of BLAS are not the noise
            timings = []
            for _ in range(arguments.rounds):
                reference = None
                if isinstance(mechanism, RealNoiseMechanism):
                    reference = seconds(partial(float_draw, mechanism, gram, grid, generator))
                timings.append((seconds(partial(mechanism.draw, gram, grid, 1, generator)), reference))
            own = float(np.median([mine for mine, _ in timings]))
            ratios = [mine / other for mine, other in timings if other is not None]
            ratio = float(np.median(ratios)) if ratios else None
            limit = LARGEST_RATIO if name == "matrix_laplace" else None
            results.append({"d": d, "mechanism": name, "seconds": own, "ratio": ratio, "at_most": limit})
            shown = ("" if number is None else f"{number:.2f}" for number in (ratio, limit))
            table.add_row(str(d), name, f"{own:.4f}", *shown)
        if "gaussian" in arguments.mechanisms:
            lasted = opendp_seconds(d * (d + 1) // 2)
            results.append({"d": d, "mechanism": "OpenDP's discrete Gaussian", "seconds": lasted})
            table.add_row(str(d), "OpenDP's discrete Gaussian", f"{lasted:.3f}", "", "")
    Console().print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
