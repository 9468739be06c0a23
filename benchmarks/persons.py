"""Rows of privacy units: the cost of grouping them, and a file ten times larger than the memory for it.

    python benchmarks/persons.py [--quick] [--rounds 5] [--busy] [--output result.json]

First a frame in memory, with rows in no order. Every round times all contestants one after the other, and the table
shows the median over rounds of each ratio. With `--busy`, for a machine that others use too, it is the ratio of the
least seconds of the processor; bind it to one core then (OPENBLAS_NUM_THREADS=1 taskset -c 0), since the work of
threads adds up. Then a Parquet file in no order by person, read in a process of its own with a tenth of its size as
`memory`; the moments must equal, bit by bit, those of the same rows held in memory, and the peak of that process is
printed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from eigenveil import PrivateCovariance
from eigenveil.moments import RowBound
from eigenveil.tables.open import open_table, second_moments
from fit import seconds
from out_of_core import digest, memory

MIB = 2**20


def bounds(n_features: int) -> tuple[RowBound, RowBound]:
    """Return a bound on rows and one on privacy units, which clip few of them."""
    norm = 1.5 * n_features**0.5
    return RowBound(norm), RowBound(norm, unit_weight="equal")


def made_frame(n_rows: int, n_features: int, n_privacy_units: int) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((n_rows, n_features)), columns=names(n_features))
    return frame.assign(id=generator.integers(0, n_privacy_units, n_rows))


def names(n_features: int) -> list[str]:
    return [f"x{position}" for position in range(n_features)]


def in_memory(n_rows: int, n_features: int, n_privacy_units: int, rounds: int, busy: bool) -> dict[str, float]:
    """Return ratios of times."""
    frame = made_frame(n_rows, n_features, n_privacy_units)
    without = frame[names(n_features)]
    columns, (rows, privacy_units) = names(n_features), bounds(n_features)
    X = frame[columns].to_numpy()
    array, ids = np.ascontiguousarray(X), frame["id"].to_numpy()
    contestants: dict[str, Callable[[], object]] = {
        "groupby": lambda: frame.groupby("id").sum(),
        "product": lambda: X.T @ X,
        "fit of rows": lambda: PrivateCovariance(norm_bound=rows.norm).fit(without),
        "fit of units": lambda: PrivateCovariance(norm_bound=rows.norm, privacy_unit="id").fit(frame),
        "rows": lambda: second_moments(frame, rows, columns=columns, progress=False),
        "units": lambda: second_moments(frame, privacy_units, privacy_unit="id", progress=False),
        "units, array": lambda: second_moments(array, privacy_units, privacy_unit=ids, progress=False),
        "grouping": lambda: sum(block.n_privacy_units for block in open_table(frame, privacy_unit="id").batches()),
        "grouping, array": lambda: sum(
            block.n_privacy_units for block in open_table(array, privacy_unit=ids).batches()
        ),
    }
    timed = [{name: seconds(work)[int(not busy)] for name, work in contestants.items()} for _ in range(rounds)]
    if busy:
        timed = [{name: min(one[name] for one in timed) for name in contestants}]

    def ratio(ours: str, *theirs: str) -> float:
        return median(one[ours] / sum(one[name] for name in theirs) for one in timed)

    return {
        "seconds, groupby + X.T @ X": median(one["groupby"] + one["product"] for one in timed),
        "fit of units / fit of rows": ratio("fit of units", "fit of rows"),
        "fit of units / (groupby + X.T @ X)": ratio("fit of units", "groupby", "product"),
        "grouping / groupby": ratio("grouping", "groupby"),
        "grouping / groupby, array": ratio("grouping, array", "groupby"),
        "units / rows": ratio("units", "rows"),
        "units / (groupby + X.T @ X)": ratio("units", "groupby", "product"),
        "units / (groupby + X.T @ X), array": ratio("units, array", "groupby", "product"),
    }


def write_file(path: Path, n_bytes: int, n_features: int) -> str:
    """Write rows of privacy units in no order, at least so many bytes, and return the digest of their moments."""
    generator = np.random.default_rng(1)
    schema = pa.schema([(name, pa.float64()) for name in names(n_features)] + [("id", pa.int64())])
    n_rows = 1 + n_bytes // (8 * n_features)
    ids = generator.integers(0, n_rows // 10, n_rows)
    rows = generator.random((n_rows, n_features))
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, n_rows, 100_000):
            part = rows[start : start + 100_000]
            writer.write_table(pa.table([*part.T, ids[start : start + 100_000]], schema=schema))
    return digest(second_moments(rows, bounds(n_features)[1], privacy_unit=ids, progress=False))


def child(path: Path, n_features: int, allowed: int) -> None:
    """Read the file in this process, and print what it took as JSON."""
    bound = bounds(n_features)[1]
    warm_up = np.random.default_rng(0).random((20_000, n_features))
    second_moments(warm_up, bound, privacy_unit=np.arange(20_000) % 7, progress=False)
    before = memory("VmHWM")
    result: dict[str, object] = {}
    _, took = seconds(lambda: result.update(moments=second_moments(path, bound, privacy_unit="id", memory=allowed)))
    peak = memory("VmHWM") - before
    print(json.dumps({"seconds": took, "peak_growth_mib": peak / MIB, "digest": digest(result["moments"])}))


def from_file(allowed: int, n_features: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "visits.parquet"
        expected = write_file(path, 10 * allowed, n_features)
        size = path.stat().st_size
        command = [sys.executable, __file__, "--child", str(path), str(n_features), str(allowed)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    reported = dict(json.loads(done.stdout))
    return {
        "file_mib": size / MIB,
        "allowed_mib": allowed / MIB,
        "file / allowed": size / allowed,
        "seconds": reported["seconds"],
        "peak_growth_mib": reported["peak_growth_mib"],
        "same bits as in memory": reported["digest"] == expected,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small frame and a small file, in seconds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="least seconds of the processor")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(Path(arguments.child[0]), int(arguments.child[1]), int(arguments.child[2]))
        return
    n_rows, allowed = (100_000, 8 * MIB) if arguments.quick else (1_000_000, 128 * MIB)
    numbers: dict[str, object] = {
        **in_memory(n_rows, 50, n_rows // 10, arguments.rounds, arguments.busy),
        **from_file(allowed, 20),
    }
    for name, value in numbers.items():
        print(f"{name:38} {value:.2f}" if isinstance(value, float) else f"{name:38} {value}")
    if arguments.output:
        arguments.output.write_text(json.dumps(numbers, indent=2) + "\n")
    if not numbers["same bits as in memory"]:
        sys.exit("The moments of the file differ from those of the rows in memory.")


if __name__ == "__main__":
    main()
