"""Times of the samplers, and of what else does the same, as ratios measured in one run.

    python benchmarks/samplers.py --output samplers.json
    python benchmarks/samplers.py --exact      # exact directions against those of floats, and nothing else

diffprivlib is compared if it is installed. Each of its draws runs in a process of its own, which is ended after
--timeout seconds.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.sampling_directions import sample_directions
from eigenveil.sampling.bingham import bingham
from eigenveil.sampling.matrix_bingham import default_updates, matrix_bingham
from eigenveil.sampling.randomness import secure_generator
from eigenveil.sampling.wishart import wishart

DIMENSIONS = (10, 50, 100, 500)
SUBSPACES = ((116, 4), (513, 8))
EPSILON = 1.0
ROWS = (20, 100, 10_000)


def gram(d: int, n: int) -> np.ndarray:
    """Return Σ xxᵀ of n rows of norm 1 with a spectrum that decays like 1/i."""
    generator = np.random.default_rng(d)
    rows = generator.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.T @ rows


def seconds(call: Callable[[], object], budget: float = 1.0) -> float:
    """Return the mean time of a call, over as many calls as the budget allows, and one at least."""
    call()
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < budget:
        call()
        count += 1
    return (time.perf_counter() - start) / count


def their_draw(d: int, n: int) -> float:
    from diffprivlib.mechanisms import Bingham

    mechanism, matrix = Bingham(epsilon=EPSILON, random_state=1), gram(d, n)
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < 2.0:
        mechanism.randomise(matrix)
        count += 1
    return (time.perf_counter() - start) / count


def their_seconds(d: int, n: int, timeout: float) -> float | str:
    command = [sys.executable, "-W", "ignore", __file__, "--their-draw", str(d), str(n)]
    try:
        run = subprocess.run(command, timeout=timeout, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return f"did not finish in {timeout:.0f} s"
    if run.returncode:
        return "not installed" if "ModuleNotFoundError" in run.stderr else run.stderr.splitlines()[-1]
    return float(run.stdout)


def bingham_rows(timeout: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    generator = np.random.default_rng(1)
    for d in DIMENSIONS:
        theirs: float | str = 0.0
        for n in ROWS:
            # The same distribution for both: diffprivlib draws from exp(ε/4 uᵀCu), by its own constant.
            B = EPSILON / 4 * gram(d, n)
            eigenvalues = np.linalg.eigvalsh(B)
            ours = seconds(lambda B=B: bingham(B, generator))
            row: dict[str, object] = {"what": f"Bingham draw, d = {d}, n = {n}", "seconds": ours}
            row["known eigenbasis"] = seconds(lambda e=eigenvalues: bingham(e, generator))
            # Their time grows with the concentration: where they did not finish, more rows are not tried.
            theirs = their_seconds(d, n, timeout) if isinstance(theirs, float) else theirs
            row["other"] = theirs
            if isinstance(theirs, float):
                row["ratio"] = theirs / ours
            rows.append(row)
    return rows


def subspace_rows() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for d, k in SUBSPACES:
        generator = np.random.default_rng(2)
        B = np.linalg.eigvalsh(50 * gram(d, 10_000))
        ours = seconds(lambda B=B, k=k, g=generator: matrix_bingham(B, k, g))
        step = seconds(lambda B=B, k=k, g=generator: matrix_bingham(B, k, g, method="hoff", updates=1))
        hoff = step * default_updates(d, k, "hoff")
        row: dict[str, object] = {"what": f"matrix Bingham draw, d = {d}, k = {k}", "seconds": ours}
        row["other"], row["ratio"] = hoff, hoff / ours
        rows.append(row)
    return rows


def wishart_row(d: int = 1000) -> dict[str, object]:
    generator = np.random.default_rng(3)
    square = generator.standard_normal((d, d))
    other = generator.standard_normal((d, d))
    ours, product = seconds(lambda: wishart(d + 1, 1.0, d, generator)), seconds(lambda: square @ other)
    return {"what": f"Wishart draw, d = {d}", "seconds": ours, "other": product, "ratio": product / ours}


def median_seconds(calls: tuple[Callable[[], object], ...], rounds: int = 5) -> list[float]:
    """Return the median time of each call; they take turns, so that a busy machine slows all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, found in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return [float(np.median(found[1:])) for found in times]


def exact_rows() -> list[dict[str, object]]:
    """Time what a release draws, in integers, against the same in floats; few rows are nearly uniform directions."""
    rows: list[dict[str, object]] = []
    generator, grid = secure_generator(), 2**32
    for d, k in ((1000, 1), (500, 3)):
        for n in (20, 12 * d, 100 * d):
            drawn = min(n, 2 * d)  # more rows are these again
            C = np.rint(gram(d, drawn) * (grid * n / drawn)).astype(np.int64)
            name = "ppca" if k == 1 else "eigenvector_sampling"
            mechanism = MECHANISMS[name](epsilon=1.0, n_features=d, n_components=k)

            def exact(mechanism=mechanism, C=C, n=n):  # type: ignore[no-untyped-def]
                return mechanism.draw(C, grid, n, generator)

            def floats(mechanism=mechanism, C=C):  # type: ignore[no-untyped-def]
                strengths = np.full(mechanism.n_components, mechanism.strength)
                if len(strengths) > 1:
                    return sample_directions(C.astype(np.float64) / grid, strengths, generator)
                return bingham(C.astype(np.float64) * (mechanism.strength / grid), generator)

            ours, other = median_seconds((exact, floats))
            what = f"{name}, exact, d = {d}, k = {k}, n = {n}"
            rows.append({"what": what, "seconds": ours, "other": other, "ratio": ours / other})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of the samplers, as ratios measured in one run.")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds for each draw of diffprivlib")
    parser.add_argument("--exact", action="store_true", help="time exact directions only")
    parser.add_argument("--their-draw", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.their_draw:
        print(their_draw(*arguments.their_draw))
        return
    rows = exact_rows()
    if not arguments.exact:
        rows += [*bingham_rows(arguments.timeout), *subspace_rows(), wishart_row()]
    table = Table("what", "seconds", "other", "ratio", "remarks", title="Samplers")
    for row in rows:
        other, ratio = row["other"], row.get("ratio")
        remarks = [f"{name} {row[name]:.3g}" for name in ("known eigenbasis",) if name in row]
        table.add_row(
            str(row["what"]),
            f"{row['seconds']:.3g}",
            f"{other:.3g}" if isinstance(other, float) else str(other),
            f"{ratio:.3g}" if ratio else "",
            ", ".join(remarks),
        )
    console = Console()
    console.print(table)
    console.print(
        "other: diffprivlib's Bingham; Hoff's sampler at the papers' 20,000 updates (from the time of one); "
        "one matrix product. For exact directions: the same in floats, and the ratio is exact to float."
    )
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
