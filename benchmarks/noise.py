"""Seconds for one noise matrix of every additive law, and as a ratio to one d x d matrix product in the same run.

Run `python benchmarks/noise.py [--output FILE.json]`. The secure generator is used, as in a real release. The last
rows time OpenDP's exact discrete Gaussian for as many numbers, the reference that our sampler agrees with in law.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil.laws import LAWS, AdditiveLaw
from eigenveil.randomness import secure_generator

SIZES = (100, 500, 1000)
GRID = 2.0**32


def opendp_seconds(numbers: int) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement = dp.m.make_gaussian(*space, scale=GRID)
    start = time.perf_counter()
    measurement([0] * numbers)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    table = Table(title="One noise matrix")
    for column in ("d", "law", "seconds", "in products"):
        table.add_column(column, justify="right")
    results = []
    generator = secure_generator()
    for d in SIZES:
        square = generator.standard_normal((d, d))
        for name, kind in LAWS.items():
            if not issubclass(kind, AdditiveLaw):
                continue
            delta = 1e-6 if kind.needs_delta else 0.0
            law = kind(epsilon=1.0, delta=delta, n_features=d)
            law.noise(generator, GRID)  # imports and calibration are not the noise
            timings = []
            for _ in range(arguments.rounds):
                start = time.perf_counter()
                law.noise(generator, GRID)
                middle = time.perf_counter()
                square @ square
                timings.append((middle - start, (middle - start) / (time.perf_counter() - middle)))
            seconds, ratio = np.median(timings, axis=0)
            results.append({"d": d, "law": name, "seconds": seconds, "products": ratio})
            table.add_row(str(d), name, f"{seconds:.3f}", f"{ratio:.1f}")
        seconds = opendp_seconds(d * (d + 1) // 2)
        results.append({"d": d, "law": "OpenDP's discrete Gaussian", "seconds": seconds})
        table.add_row(str(d), "OpenDP's discrete Gaussian", f"{seconds:.3f}", "")
    Console().print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
