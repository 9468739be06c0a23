"""Second moments of a Parquet file ten times larger than the memory the process may grow by.

    python benchmarks/out_of_core.py [--quick] [--output result.json]

Incompressible rows are written in row groups that are themselves larger than the permitted growth. A child
process warms up (imports, threads, BLAS buffers), then sets RLIMIT_DATA to what it has plus the permitted
growth, and reads the file. RLIMIT_DATA is a hard limit of the kernel on all private writable memory, touched
or not, heap and anonymous mappings alike; RLIMIT_RSS is not enforced by Linux, and RLIMIT_AS would also count
shared libraries and mapped files. The result must equal, bit by bit, the moments of the same rows taken from
NumPy as they were written. Throughput is given as a ratio to a second child that reads the same file with
PyArrow and multiplies in floating point, with no bound, no quantizing and no limit; the better of two runs
each.

Then whole fits of a CSV and of a Parquet file, a tenth of 1 GB and all of it: the peak of memory must stay flat.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from eigenveil import PrivatePCA
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.tables.base import batch_rows
from eigenveil.tables.open import second_moments

MIB = 2**20
FIT_BYTES, QUICK_FIT_BYTES = 10**9, 10**8
FIT_FEATURES = 20
BOUND = RowBound(5.0)


def digest(moments: SecondMoments) -> str:
    return hashlib.sha256(moments.gram.tobytes() + str(moments.n_rows).encode()).hexdigest()


def write_file(path: Path, n_bytes: int, n_features: int, group_bytes: int) -> SecondMoments:
    """Write at least `n_bytes` of random rows, and return their moments."""
    generator = np.random.default_rng(0)
    names = [f"x{position}" for position in range(n_features)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    moments = SecondMoments(BOUND, n_features, names)
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        while path.stat().st_size < n_bytes:
            columns = generator.random((n_features, group_bytes // (8 * n_features)))
            moments.update(columns.T)
            table = pa.table(list(columns), schema=schema)
            writer.write_table(table, row_group_size=len(table))
    return moments


def write_csv(path: Path, n_bytes: int, n_features: int) -> None:
    """Write at least `n_bytes` of random rows as text."""
    generator = np.random.default_rng(0)
    names = [f"x{position}" for position in range(n_features)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pa.csv.CSVWriter(path, schema) as writer:
        while path.stat().st_size < n_bytes:
            writer.write_table(pa.table(list(generator.random((n_features, 50_000))), schema=schema))


def memory(field: str) -> int:
    """Return a field of this process's status in bytes.

    VmData is what RLIMIT_DATA counts. VmHWM is the peak of the resident set; ru_maxrss would be the same, but
    a child inherits it from a larger parent.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("This benchmark needs Linux.")


def child(engine: str, path: Path, growth: int) -> None:
    """Read the file in this process, and print what it took as JSON."""
    read = {"eigenveil": read_with_eigenveil, "pyarrow": read_with_pyarrow, "fit": fit_file}[engine]
    read(path.with_name("warm_up").with_suffix(path.suffix))
    before = memory("VmHWM")
    if growth:
        limit = memory("VmData") + growth
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    start = time.perf_counter()
    result = read(path)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_growth": memory("VmHWM") - before, "result": result}))


def read_with_eigenveil(path: Path) -> str:
    return digest(second_moments(path, BOUND, progress=False))


def fit_file(path: Path) -> str:
    PrivatePCA(3, bounds=(0, 1)).fit(path)
    return "private"


def read_with_pyarrow(path: Path) -> str:
    with pq.ParquetFile(path, pre_buffer=False) as file:
        width = file.metadata.num_columns
        total = np.zeros((width, width))
        for batch in file.iter_batches(batch_rows(width)):
            rows = np.empty((len(batch), width), order="F")
            for position, column in enumerate(batch.columns):
                rows[:, position] = column.to_numpy()
            total += rows.T @ rows
    return "floating point"


def run_child(engine: str, path: Path, growth: int) -> dict[str, float | str]:
    # The default pool of PyArrow reserves address space far ahead, which RLIMIT_DATA counts as used.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, __file__, "--child", engine, str(path), str(growth)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return dict(json.loads(done.stdout))


def fits(n_bytes: int) -> dict[str, float]:
    """Return the peaks of whole fits, and their seconds, of files of so many bytes and of a tenth of them."""
    numbers: dict[str, float] = {}
    for suffix in ("csv", "parquet"):
        for size in (n_bytes // 10, n_bytes):
            with tempfile.TemporaryDirectory() as directory:
                path = Path(directory) / f"rows.{suffix}"
                for one, least in ((path, size), (path.with_name(f"warm_up.{suffix}"), MIB)):
                    if suffix == "csv":
                        write_csv(one, least, FIT_FEATURES)
                    else:
                        write_file(one, least, FIT_FEATURES, min(least, 64 * MIB))
                found = run_child("fit", path, 0)
                told = f"fit of {path.stat().st_size / 1e9:.2f} GB of {suffix}"
            numbers[f"{told}, peak growth in MiB"] = float(found["peak_growth"]) / MIB
            numbers[f"{told}, seconds"] = float(found["seconds"])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small file, in seconds")
    parser.add_argument("--growth", type=int, help="permitted growth in MiB (default 256, quick 96)")
    parser.add_argument("--features", type=int, help="default 100, quick 20")
    parser.add_argument("--output", type=Path, help="write the numbers to this JSON file")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        engine, path, growth = arguments.child
        child(engine, Path(path), int(growth))
        return
    n_features = arguments.features or (20 if arguments.quick else 100)
    growth = (arguments.growth or (96 if arguments.quick else 256)) * MIB
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        expected = write_file(path, 10 * growth, n_features, growth * 5 // 4)
        write_file(path.with_name("warm_up.parquet"), MIB, n_features, 2 * MIB)
        file_bytes = path.stat().st_size
        runs = [(run_child("pyarrow", path, 0), run_child("eigenveil", path, growth)) for _ in range(2)]
    plain, ours = (min(results, key=lambda run: run["seconds"]) for results in zip(*runs, strict=True))
    numbers = {
        "rows": expected.n_rows,
        "features": n_features,
        "file_mib": file_bytes / MIB,
        "permitted_growth_mib": growth / MIB,
        "file_to_permitted_growth": file_bytes / growth,
        "peak_growth_mib": float(ours["peak_growth"]) / MIB,
        "peak_growth_pyarrow_mib": float(plain["peak_growth"]) / MIB,
        "seconds": ours["seconds"],
        "seconds_pyarrow": plain["seconds"],
        "throughput_to_pyarrow": float(plain["seconds"]) / float(ours["seconds"]),
        "equal_to_numpy": ours["result"] == digest(expected),
        **fits(QUICK_FIT_BYTES if arguments.quick else FIT_BYTES),
    }
    for name, value in numbers.items():
        print(f"{name:45} {value:.2f}" if isinstance(value, float) else f"{name:45} {value}")
    if arguments.output:
        arguments.output.write_text(json.dumps(numbers, indent=2) + "\n")
    if not numbers["equal_to_numpy"] or file_bytes < 10 * growth:
        sys.exit("The result differs from the one in memory, or the file is too small to show anything.")


if __name__ == "__main__":
    main()
