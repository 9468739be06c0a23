"""Rounds of many sites: what a contribution and the combination cost beside a site's own moments, and in bytes.

python benchmarks/federation.py [--quick] [--rounds 3] [--output result.json]

Every round times all of it one after the other, and the table shows the median over rounds of each ratio. A
contribution is timed without the moments that it starts from: noise, masks, signature and file. Noise of
`matrix_laplace` is drawn by the first t + 1 sites alone; the time is that of one of them.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from eigenveil import PrivatePCA, Schema
from eigenveil.federation import Round, SiteKeys, combine, contribute, invite
from eigenveil.federation.site import site_moments

PARAMETERS = {"gaussian": {"mechanism": "gaussian", "delta": 1e-6}, "matrix_laplace": {"mechanism": "matrix_laplace"}}
GOAL = 3.0
PAUSE = 0.2  # the threads of BLAS go on turning for some 100 ms after their last work


def seconds(work: Callable[[], object]) -> float:
    """Return the time of a piece of work on the clock."""
    time.sleep(PAUSE)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def closed_round(mechanism: str, n_sites: int, d: int, folder: Path) -> tuple[Round, list[Path]]:
    """Return a round, and the files of the keys of its sites."""
    columns = {str(position): {"range": [-4, 4]} for position in range(d)}
    schema = Schema.from_dict({"version": 1, "columns": columns})
    model = PrivatePCA(10, epsilon=1.0, schema=schema, center=False, **PARAMETERS[mechanism])
    draft = invite(model, [f"site {number}" for number in range(n_sites)])
    keys = [SiteKeys.create(site, draft.terms) for site in draft.terms.invited]
    copies = [own.join(draft) for own in keys]
    files = [own.save(folder / f"{number}.key") for number, own in enumerate(keys)]
    return copies[0].close(copies[1:]), files


def timed(mechanism: str, n_sites: int, n_rows: int, d: int) -> dict[str, float]:
    """Return seconds and bytes of one whole round, in which all sites have the same rows."""
    X = np.random.default_rng(0).standard_normal((n_rows, d))
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        agreed, keys = closed_round(mechanism, n_sites, d, folder)
        held = {}
        own = seconds(lambda: held.update(moments=site_moments(agreed, X)))
        sent = [folder / f"{number}.contribution" for number in range(n_sites)]
        took = [
            seconds(lambda key=key, file=file: contribute(agreed, key, held["moments"], file))
            for key, file in zip(keys, sent, strict=True)
        ]
        combined = seconds(lambda: combine(agreed, sent))
        size = sent[0].stat().st_size
    return {"moments": own, "contribution": took[0], "combination": combined, "bytes": float(size)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sites and features, in seconds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    n_sites, n_rows, d = (5, 5_000, 40) if arguments.quick else (50, 100_000, 500)
    numbers: dict[str, dict[str, float]] = {}
    print(f"{n_sites} sites, {n_rows:,} rows each, d = {d}; over the site's own moments, goal {GOAL:g}")
    for mechanism in PARAMETERS:
        runs = [timed(mechanism, n_sites, n_rows, d) for _ in range(arguments.rounds)]
        numbers[mechanism] = {
            "contribution / moments": median(run["contribution"] / run["moments"] for run in runs),
            "combination / moments": median(run["combination"] / run["moments"] for run in runs),
            "moments, seconds": median(run["moments"] for run in runs),
            "bytes a site": runs[0]["bytes"],
            "bytes beyond 8 d(d+1)/2": runs[0]["bytes"] - 4 * d * (d + 1),
        }
        for name, value in numbers[mechanism].items():
            print(f"{mechanism:16} {name:26} {value:,.2f}")
    if arguments.output:
        arguments.output.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
