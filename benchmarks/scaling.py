"""How a fit grows: against other packages, in rows, in features, in partitions and workers; time and peak memory.

    python benchmarks/scaling.py [--quick] [--output FILE.json] [--plot FILE.png] [--diffprivlib-python PYTHON]

Times are ratios to another fit of the same rows measured in the same round, or slopes within one run, since
absolute times of a shared machine mean little. Peak memory is that of a child process which reads its rows from a file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA, IncrementalPCA

from eigenveil import PrivatePCA
from eigenveil.errors import NoiseWarning
from eigenveil.report.plots import new_figure, styled
from peers_fit import peer_fit

FITS = ((100_000, 20), (100_000, 100), (500_000, 100), (100_000, 500))
ROWS, ROW_WIDTH = (10**4, 10**5, 10**6, 10**7), 20
FEATURES, FEATURE_ROWS = (10, 100, 1000, 2000, 5000), 10_000
PARTITIONS, WORKERS, ENGINE_SHAPE = (2, 8, 32), (1, 2), (400_000, 50)
PEER_SHAPE, PEER_EPSILON, PEER_LIMIT = (5_000, 10), 0.1, 60.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rows_of(n: int, d: int) -> np.ndarray:
    """Return rows with a decaying spectrum, most of them within norm 1."""
    rows = np.random.default_rng(0).standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))
    rows /= 1.5 * np.sqrt((1 / np.arange(1, d + 1)).sum())
    return rows


def ours(X: Any, k: int = 5, epsilon: float = 1.0) -> PrivatePCA:
    return PrivatePCA(min(k, 5), epsilon=epsilon, norm_bound=1.0, center=False).fit(X)


def fits(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Time our fit against scikit-learn's two ways."""
    results = []
    for n, d in FITS[:2] if quick else FITS:
        X = rows_of(n, d)
        contestants = {
            "eigenveil": lambda X=X: ours(X),
            "covariance_eigh": lambda X=X: PCA(5, svd_solver="covariance_eigh").fit(X),
            "IncrementalPCA": lambda X=X: IncrementalPCA(5).fit(X),
        }
        timings = [[seconds(work) for work in contestants.values()] for _ in range(rounds)]
        ratios = np.median(np.array(timings)[:, :1] / np.array(timings), axis=0)
        results.append({"n": n, "d": d, **dict(zip(contestants, ratios.tolist(), strict=True))})
    return results


def peers(pythons: dict[str, str]) -> list[dict[str, Any]]:
    """Time our fit against diffprivlib and OpenDP, which may not finish."""
    X = rows_of(*PEER_SHAPE)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    results = []
    for package, python in pythons.items():
        their = peer_fit(python, package, X, 2, PEER_EPSILON, PEER_LIMIT)
        our = min(seconds(lambda: ours(X, 2, PEER_EPSILON)) for _ in range(5))
        failed = their if isinstance(their, str) else ""
        taken = PEER_LIMIT if isinstance(their, str) else their["seconds"]
        results.append({"package": package, "seconds": taken, "ours": our, "times": taken / our, "note": failed})
    return results


def growth_in_rows(quick: bool) -> list[dict[str, Any]]:
    """Fit from a file of more and more rows, in a child whose peak memory is read."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for n in ROWS[:3] if quick else ROWS:
            path = Path(folder) / "rows.npy"
            file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, ROW_WIDTH))
            for start in range(0, n, 10**5):
                file[start : start + 10**5] = rows_of(min(10**5, n - start), ROW_WIDTH)
            del file
            command = [sys.executable, __file__, "--child", str(path)]
            results.append({"n": n, **json.loads(subprocess.run(command, check=True, capture_output=True).stdout)})
    return results


def child(path: str) -> None:
    """Fit once to warm up, then from the file, and print seconds and the growth of the peak."""
    ours(rows_of(20_000, ROW_WIDTH))
    before = private_memory()
    taken = seconds(lambda: ours(path))
    print(json.dumps({"seconds": taken, "growth_mib": (private_memory() - before) / 2**20}))


def private_memory() -> int:
    """Return the peak of the resident set (Linux); it counts pages of a mapped file while they are mapped."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def growth_in_features(quick: bool) -> list[dict[str, Any]]:
    results = []
    for d in FEATURES[:3] if quick else FEATURES:
        X = rows_of(FEATURE_ROWS, d)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            for mechanism, delta in (("matrix_laplace", 0.0), ("gaussian", 1e-6)):
                model = PrivatePCA(5, epsilon=1.0, delta=delta, norm_bound=1.0, center=False, mechanism=mechanism)
                ratio = [seconds(lambda: model.fit(X)) / seconds(lambda: X.T @ X) for _ in range(1 if d > 999 else 5)]  # noqa: B023
                results.append({"d": d, "mechanism": mechanism, "to_product": float(np.median(ratio))})
    return results


def engines(quick: bool) -> list[dict[str, Any]]:
    """Fit a Dask array of more and more chunks on one and two workers, against the same rows in memory."""
    try:
        import dask.array
        from distributed import Client, LocalCluster
    except ImportError:
        return []
    X = rows_of(*ENGINE_SHAPE)
    results = []
    for workers in WORKERS:
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster),
        ):
            for partitions in PARTITIONS[:2] if quick else PARTITIONS:
                lazy = dask.array.from_array(X, chunks=(-(-len(X) // partitions), -1)).persist()
                ours(lazy)
                ratio = seconds(lambda: ours(lazy)) / seconds(lambda: ours(X))  # noqa: B023
                results.append({"workers": workers, "partitions": partitions, "to_memory": ratio})
    return results


def show(title: str, results: list[dict[str, Any]], console: Console) -> None:
    if not results:
        return
    table = Table(title=title)
    for column in results[0]:
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else f"{value}" for value in row.values()))
    console.print(table)


@styled()
def plot(everything: dict[str, Any], path: Path) -> None:
    figure = new_figure(9.0, 3.2)
    seconds, memory, ratio = figure.subplots(1, 3)
    rows = everything["rows"]
    seconds.loglog([row["n"] for row in rows], [row["seconds"] for row in rows], "o-")
    seconds.set(xlabel="rows", ylabel="seconds", title=f"From a file, d = {ROW_WIDTH}")
    memory.semilogx([row["n"] for row in rows], [row["growth_mib"] for row in rows], "o-")
    memory.set(xlabel="rows", ylabel="memory growth, MiB", title=f"From a file, d = {ROW_WIDTH}", ylim=(0, None))
    for mechanism in ("matrix_laplace", "gaussian"):
        chosen = [row for row in everything["features"] if row["mechanism"] == mechanism]
        ratio.semilogx([row["d"] for row in chosen], [row["to_product"] for row in chosen], "o-", label=mechanism)
    ratio.set(xlabel="features", ylabel="time of a fit / X.T @ X", title=f"n = {FEATURE_ROWS:,}", ylim=(0, None))
    ratio.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in about a minute")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment with diffprivlib")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child)
        return
    console = Console()
    pythons = {"opendp": sys.executable}
    if arguments.diffprivlib_python:
        pythons["diffprivlib"] = arguments.diffprivlib_python
    sections: dict[str, tuple[str, Callable[[], list[dict[str, Any]]]]] = {
        "fits": ("Our time as a ratio to that of others", lambda: fits(arguments.rounds, arguments.quick)),
        "peers": (f"{PEER_SHAPE}, epsilon {PEER_EPSILON}: how many times faster", lambda: peers(pythons)),
        "rows": (f"Growth in rows, from a file, d = {ROW_WIDTH}", lambda: growth_in_rows(arguments.quick)),
        "features": (f"Growth in features, n = {FEATURE_ROWS:,}", lambda: growth_in_features(arguments.quick)),
        "engines": (f"Dask on one machine, {ENGINE_SHAPE}", lambda: engines(arguments.quick)),
    }
    everything = {}
    for name, (title, work) in sections.items():
        everything[name] = work()
        show(title, everything[name], console)
        if arguments.output:  # after every section, so that nothing is lost
            arguments.output.write_text(json.dumps(everything, indent=1) + "\n")
    slope = np.polyfit(
        *np.log([[row["n"] for row in everything["rows"][1:]], [row["seconds"] for row in everything["rows"][1:]]]), 1
    )[0]
    console.print(f"Slope of time in rows, from {ROWS[1]:,} on: {slope:.2f} (1 is linear)")
    if arguments.plot:
        plot(everything, arguments.plot)


if __name__ == "__main__":
    main()
