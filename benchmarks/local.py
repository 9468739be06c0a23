"""The local model: bytes against error against epsilon, and how fast a server aggregates.

    python benchmarks/local.py error      [--output error.json]   four mechanisms, synthetic rows and covertype
    python benchmarks/local.py variance                           one direction, subspaces, double_cap: formulas, time
    python benchmarks/local.py target                             double_cap against gaussian at d = 20, epsilon = 1
    python benchmarks/local.py throughput                         100,000 reports at d = 40, with peak memory
    python benchmarks/local.py sparse                             p = 2,000 by the Fantope estimator

`python benchmarks/local_plot.py error.json FOLDER` draws the first. Covertype is looked for in the folder that
EIGENVEIL_DATA names, else in ../shared/datasets beside the checkout; without it that part is left out.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from eigenveil.local import LocalProtocol, aggregate, encode, encode_many, mechanism_of, simulate
from eigenveil.local.client import new_ids, on_grid
from eigenveil.local.protocol import to_line
from eigenveil.metrics import subspace_distance
from eigenveil.postprocess import top_components
from eigenveil.sampling.randomness import secure_generator

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
MECHANISMS = {"double_cap": 0.0, "one_bit": 0.0, "gaussian": DELTA, "gaussian_paper": DELTA}
K = 2
console = Console()


def spiked(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Gaussian rows with two strong directions, shortened to norm 1."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.standard_normal((d, d)))[0]
    scales = np.sqrt(np.r_[8.0, 6.0, np.ones(d - 2)])
    rows = (generator.standard_normal((n, d)) * scales) @ rotation.T / np.sqrt(np.square(scales).sum())
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def covertype() -> np.ndarray | None:
    """Features over their largest value, rows over the largest norm; computed from the data without privacy."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    path = Path(os.environ.get("EIGENVEIL_DATA", beside)) / "covertype" / "covertype.npz"
    if not path.exists():
        console.print("covertype was not found; set EIGENVEIL_DATA to the folder of the data sets.")
        return None
    X = np.load(path)["X"].astype(np.float64)
    X /= np.abs(X).max(axis=0)
    return X / np.linalg.norm(X, axis=1).max()


def errors_of(rows: np.ndarray, protocol: LocalProtocol, repeats: int) -> list[float]:
    truth = top_components(rows.T @ rows / len(rows), K)
    return [
        subspace_distance(truth, simulate(protocol, rows, secure_generator(), K).components) for _ in range(repeats)
    ]


def run_error(arguments: argparse.Namespace) -> None:
    data = {"synthetic": spiked(100_000, 20)}
    cover = covertype()
    if cover is not None:
        data["covertype"] = cover
    results = []
    for name, rows in data.items():
        n, d = rows.shape
        chance = float(np.sqrt(2 * K * (1 - K / d)))
        table = Table(title=f"{name}: n = {n:,}, d = {d}, k = {K}; no information is {chance:.2f}")
        for column in ("mechanism", "bytes", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)):
            table.add_column(column, justify="right")
        for mechanism, delta in MECHANISMS.items():
            medians = []
            for epsilon in EPSILONS:
                protocol = LocalProtocol(d, epsilon, delta, mechanism=mechanism)
                medians.append(float(np.median(errors_of(rows, protocol, arguments.repeats))))
            size = protocol.report_bytes
            results.append(
                {"data": name, "n": n, "d": d, "chance": chance, "mechanism": mechanism, "bytes": size}
                | {"delta": delta, "epsilons": EPSILONS, "errors": medians}
            )
            table.add_row(mechanism, f"{size:,}", *(f"{error:.3f}" for error in medians))
        console.print(table)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1))


def run_variance(arguments: argparse.Namespace) -> None:
    """Variances are formulas, unit rows; the time is that of one report, made and folded."""
    epsilons = (0.1, 0.5, 1.0, 2.0, 4.0)
    table = Table(
        title="E|S - xx'|^2/d^2 of one report, unit rows; in brackets: over one direction's, inverted for variances"
    )
    for column in (
        "d",
        "mechanism",
        *(f"ε = {epsilon:g}" for epsilon in epsilons),
        "encode µs",
        "fold µs",
        "encode 1 µs",
    ):
        table.add_column(column, justify="right")
    for d in (10, 20, 100, 1000):
        ranks = sorted({1, *(rank for rank in (5, 10, 25) if d >= 100), min(d // 2, 50)})
        first = direction = None
        for mechanism, rank in (*(("one_bit", rank) for rank in ranks), ("double_cap", 1)):
            protocols = [LocalProtocol(d, e, mechanism=mechanism, rank=rank, row_norms="unit") for e in epsilons]
            variances = np.array([mechanism_of(protocol).variance() for protocol in protocols]) / d**2
            times = np.array(seconds_of(protocols[1])) * 1e6
            first, direction = (variances, times) if first is None else (first, direction)
            cells = (f"{v:.3g} ({f / v:.2f})" for v, f in zip(variances, first, strict=True))
            times = (f"{t:,.0f} ({t / f:.1f})" for t, f in zip(times, direction, strict=True))
            table.add_row(str(d), f"{mechanism}, rank {rank}" if mechanism == "one_bit" else mechanism, *cells, *times)
        table.add_section()
    console.print(table)


def seconds_of(protocol: LocalProtocol, size: int = 500) -> tuple[float, float, float]:
    """Return the processor time of a report: encoded among many, folded among many, encoded alone."""
    mechanism, generator = mechanism_of(protocol), secure_generator()
    rows = on_grid(protocol, np.random.default_rng(0).standard_normal((size, protocol.n_features)))
    ids = new_ids(size, generator)
    mechanism.fold(mechanism.perturb(rows[:2], ids[:2], generator), ids[:2])  # what is computed once
    times = [time.process_time()]
    payloads = mechanism.perturb(rows, ids, generator)
    times.append(time.process_time())
    mechanism.fold(payloads, ids)
    times.append(time.process_time())
    for i in range(20):
        mechanism.perturb(rows[i : i + 1], ids[i : i + 1], generator)
    times.append(time.process_time())
    return (times[1] - times[0]) / size, (times[2] - times[1]) / size, (times[3] - times[2]) / 20


def run_target(arguments: argparse.Namespace) -> None:
    rows = spiked(100_000, 20)
    table = Table(title="Subspace error at d = 20, k = 2, n = 100,000, epsilon = 1: median and quartiles")
    for column in ("mechanism", "delta", "error", "quartiles", "over double_cap's"):
        table.add_column(column, justify="right")
    first = None
    for mechanism, delta in (("double_cap", 0.0), ("one_bit", 0.0), *(("gaussian", delta) for delta in (1e-6, 1e-4))):
        errors = errors_of(rows, LocalProtocol(20, 1.0, delta, mechanism=mechanism), arguments.repeats)
        low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75])
        first = middle if first is None else first
        table.add_row(mechanism, f"{delta:g}", f"{middle:.3f}", f"{low:.3f}-{high:.3f}", f"{middle / first:.2f}")
    console.print(table)


def run_throughput(arguments: argparse.Namespace) -> None:
    table = Table(title="d = 40; rates in reports per second of processor time, so that a busy machine counts less")
    for column in ("mechanism", "encode one", "encode many", "reports", "aggregate", "peak MB"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for mechanism, delta in MECHANISMS.items():
            protocol = LocalProtocol(40, 1.0, delta, mechanism=mechanism)
            protocol.save(Path(folder, "protocol.json"))
            sizes = (arguments.reports // 10, arguments.reports)
            if delta:
                sizes = tuple(size // 50 for size in sizes)  # 3 kB each, and exact noise of 820 entries
            start = time.process_time()
            for _ in range(50):
                encode(protocol, np.ones(40))
            one = 50 / (time.process_time() - start)
            for size in sizes:
                path = Path(folder, "reports.txt")
                start = time.process_time()
                with open(path, "wb") as file:
                    for _ in range(0, size, 1000):
                        block = np.random.default_rng(0).standard_normal((min(1000, size), 40)) / 7
                        file.writelines(map(to_line, encode_many(protocol, block)))
                many = size / (time.process_time() - start)
                command = [sys.executable, __file__, "aggregate-once", "--folder", folder]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds, accepted, peak = json.loads(done.stdout)
                assert accepted == size
                speed = size / seconds
                table.add_row(mechanism, f"{one:,.0f}", f"{many:,.0f}", f"{size:,}", f"{speed:,.0f}", f"{peak:.0f}")
    console.print(table)


def run_aggregate_once(arguments: argparse.Namespace) -> None:
    protocol = LocalProtocol.load(arguments.folder / "protocol.json")
    start = time.process_time()
    accepted = aggregate(protocol, arguments.folder / "reports.txt").n_reports
    seconds = time.process_time() - start
    print(json.dumps([seconds, accepted, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def run_sparse(arguments: argparse.Namespace) -> None:
    from eigenveil.estimators.local_pca import LocalSparsePCA

    table = Table(title="One direction on 8 of p features, epsilon = 1; no information is 1.41")
    for column in ("p", "n", "mechanism", "sparse error", "dense error", "iterations", "seconds", "of processor"):
        table.add_column(column, justify="right")
    # A Gaussian report has 8 MB at p = 2,000: the double cap alone goes there.
    both = (("double_cap", 0.0), ("gaussian", DELTA))
    for p, mechanisms in ((200, both), (2000, both[:1])):
        n = arguments.reports
        generator = np.random.default_rng(0)
        truth = np.zeros((1, p))
        truth[0, :8] = 8**-0.5
        # Unit rows along the direction with some noise, in single precision to keep 2,000 columns small.
        rows = np.float32(generator.standard_normal((n, 1)) * truth)
        rows += generator.standard_normal((n, p), dtype=np.float32) * np.float32(0.3 / np.sqrt(p))
        for mechanism, delta in mechanisms:
            options = {"epsilon": 1.0, "delta": delta, "norm_bound": 1.0, "mechanism": mechanism}
            start, used = time.perf_counter(), time.process_time()
            sparse = LocalSparsePCA(1, **options).fit(rows)
            seconds, used = time.perf_counter() - start, time.process_time() - used
            dense = top_components(sparse.covariance_, 1)
            table.add_row(
                f"{p:,}",
                f"{n:,}",
                mechanism,
                f"{subspace_distance(truth, sparse.components_):.3f}",
                f"{subspace_distance(truth, dense):.3f}",
                str(sparse.n_iter_),
                f"{seconds:.0f}",
                f"{used:.0f}",
            )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["error", "variance", "target", "throughput", "sparse", "aggregate-once"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    globals()[f"run_{arguments.part.replace('-', '_')}"](arguments)


if __name__ == "__main__":
    main()
