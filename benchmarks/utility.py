"""What a private fit is worth: loss at equal epsilon, error of covariances, and time and memory beside scikit-learn.

    python benchmarks/utility.py --output FILE.json --plot FILE.png      all but the peers, half an hour on busy cores
    python benchmarks/utility.py --quick                                 small sets and few runs, about a minute
    python benchmarks/utility.py --only peers --peers --diffprivlib-python PATH/TO/python --output FILE.json

The loss of directions V is 1 - qF(V)/qF(V_k), with qF(V) = tr V'AV for the second moment A of the rows and V_k its
first k eigenvectors. Every law gets the same rows, the same public norm bound 1, the relation "replace" and the
same epsilon. Scales were read off the data without privacy (see `datasets.py`). Sections that are not run keep what
FILE.json has, so a long run can be made in parts.

Left out: `none`, whose loss is 0; `ppca` with the paper's sampler, which takes minutes for one draw; and published
eigenvector sampling, which draws all d directions, where d > 200. `ppca` and wide data get fewer runs (`runs_for`), and
every result says how many it had.

Peers run in processes of their own, with the interpreter of another environment for diffprivlib, which needs an older
scikit-learn. A fit that takes more than a minute "did not finish", and is not tried again.
"""

import argparse
import functools
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import rich.box
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import datasets
from eigenveil import PrivateCovariance, PrivatePCA, RowBound, SecondMoments, release
from eigenveil.errors import NoiseWarning
from eigenveil.guarantee import Numerics
from eigenveil.laws import LAWS, CentralLaw
from eigenveil.metrics import captured_variance, frobenius_error
from eigenveil.postprocess import top_components
from eigenveil.randomness import seeded_generator
from peers_fit import peer_fit

EPSILONS = {"synthetic": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)}
OTHER_EPSILONS = (0.1, 1.0)
DELTAS = (0.0, 1e-6)
WIDEST_PUBLISHED_SAMPLING = 200
QUICK_SETS = ("synthetic", "breast_cancer", "airfoil")
PEER_SETS = ("synthetic", "breast_cancer", "digits")
# Three fits where a fit takes long; twenty, for a usable standard error, where the first took less than a second.
PEER_FITS, QUICK_PEER_FITS, PEER_SECONDS = 3, 20, 60.0
SECTIONS = ("loss", "covariance", "cost", "peers")
console = Console(width=320)

# Loss.


def contestants(epsilon: float, delta: float, d: int, k: int) -> dict[str, CentralLaw]:
    """Every law and calibration that has a use for this delta."""
    found: dict[str, CentralLaw] = {}
    for name, kind in LAWS.items():
        for calibration in kind.calibrations:
            if name == "none" or (name, calibration) == ("ppca", "paper"):
                continue
            if (name, calibration) == ("eigenvector_sampling", "paper") and d > WIDEST_PUBLISHED_SAMPLING:
                continue
            if kind.refusal(delta, calibration) is not None:  # pure laws refuse a delta, and the others need one
                continue
            options = {"allow_unsound": True} if calibration in kind.unsound_calibrations else {}
            options["accept_inexact"] = True  # `standing` tells them apart
            found[name if calibration == "tight" else f"{name} (paper)"] = kind(
                epsilon=epsilon, delta=delta, n_features=d, n_components=k, calibration=calibration, **options
            )
    return found


def standing(law: CentralLaw) -> str:
    """Return whether the loss may be compared: "private", "empirical" (a Markov chain), or "weaker" than asked."""
    guarantee = law.guarantee()
    if guarantee.epsilon > law.epsilon * (1 + 1e-9) or guarantee.delta > law.delta:
        return "weaker"
    return "empirical" if guarantee.numerics is Numerics.EMPIRICAL else "private"


def runs_for(name: str, d: int, runs: int) -> int:
    if name == "ppca":  # seconds a draw on wide data
        return runs // 2 if d <= 200 else min(runs, 4)
    return min(runs, 20) if d > 200 else runs


@functools.cache
def moments_of(name: str) -> tuple[SecondMoments, int]:
    rows = datasets.load(name)
    return SecondMoments(RowBound(1.0), rows.X.shape[1]).update(rows.X), rows.k


def second_moment(moments: SecondMoments) -> np.ndarray:
    return moments.gram * (moments.bound.unit_squared / moments.n_rows)


def quietly(estimator: Any, moments: SecondMoments) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # at the small epsilons the noise is meant to swamp the signal
        return estimator.fit_moments(moments)


def directions(law: CentralLaw, moments: SecondMoments, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        return release(law, moments, generator=seeded_generator(seed)).components


def loss_row(task: tuple[str, float, float, int]) -> dict[str, Any]:
    """Return the losses of all contestants on one set, at one epsilon and delta."""
    name, epsilon, delta, runs = task
    moments, k = moments_of(name)
    truth = second_moment(moments)
    d = truth.shape[0]
    best = captured_variance(truth, top_components(truth, k))

    def result(losses: list[float], **more: Any) -> dict[str, Any]:
        error = float(np.std(losses, ddof=1) / len(losses) ** 0.5)
        return {"mean": float(np.mean(losses)), "se": error, "runs": len(losses), **more}

    results = {}
    for contestant, law in contestants(epsilon, delta, d, k).items():
        losses = [
            1 - captured_variance(truth, directions(law, moments, seed)) / best
            for seed in range(runs_for(contestant, d, runs))
        ]
        results[contestant] = result(losses, standing=standing(law))
    # The seeds are those of the laws, so "auto" differs from its choice only where post-processing does.
    auto = PrivatePCA(k, epsilon=epsilon, delta=delta, norm_bound=1.0)
    losses = []
    for seed in range(runs_for(auto.law, d, runs)):
        quietly(auto.set_params(random_state=seed), moments)
        losses.append(1 - captured_variance(truth, auto.components_) / best)
    results["auto"] = result(losses, standing="private", choice=auto.law_)
    case = {"set": name, "n": moments.n_rows, "d": d, "k": k, "epsilon": epsilon, "delta": delta}
    return {**case, "losses": results, "lower_than_auto": lower_than_auto(results)}


def lower_than_auto(results: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return the contestants of at least the privacy asked for that lose less, by how many standard errors."""
    auto = results["auto"]
    return {
        name: (auto["mean"] - other["mean"]) / max(1e-300, (auto["se"] ** 2 + other["se"] ** 2) ** 0.5)
        for name, other in results.items()
        if other["standing"] != "weaker" and other["mean"] < auto["mean"] * (1 - 1e-9)
    }


def cases(arguments: argparse.Namespace) -> list[tuple[str, float, float]]:
    return [
        (name, epsilon, delta)
        for name in arguments.sets
        for epsilon in arguments.epsilons or EPSILONS.get(name, OTHER_EPSILONS)
        for delta in DELTAS
    ]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (datasets.NAMES.index(row["set"]), row["delta"], row["epsilon"]))


def run_loss(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    tasks = [(*case, arguments.runs) for case in cases(arguments)]
    return in_processes(loss_row, tasks, arguments.jobs)


def in_processes(work: Callable[[Any], Any], tasks: list[Any], jobs: int) -> Iterator[Any]:
    with threadpool_limits(1), ProcessPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(work, task) for task in tasks]):
            yield done.result()


def show_loss(rows: list[dict[str, Any]]) -> None:
    for delta in DELTAS:
        mine = [row for row in rows if row["delta"] == delta]
        names = list(dict.fromkeys(name for row in mine for name in row["losses"] if name != "auto"))
        table = Table(title=f"Mean loss ± standard error, delta = {delta:g}", box=rich.box.MARKDOWN)
        for column in ("set", "d", "ε", "auto", *names):
            table.add_column(column, justify="right")
        for row in mine:
            table.add_row(
                row["set"],
                str(row["d"]),
                f"{row['epsilon']:g}",
                *(loss_text(row["losses"].get(name)) for name in ("auto", *names)),
            )
        console.print(table)
    for row in rows:
        for name, errors in row["lower_than_auto"].items():
            case = f"{row['set']}, epsilon {row['epsilon']:g}, delta {row['delta']:g}"
            chosen = row["losses"]["auto"]["choice"]
            kind = row["losses"][name]["standing"]
            console.print(f"{case}: {name} ({kind}) loses less than auto ({chosen}) by {errors:.1f} standard errors")


def loss_text(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    mark = "*" if result["standing"] == "weaker" else ""
    return f"{result['mean']:.3g} ± {result['se']:.1g}{mark}"


# Covariance.


def covariance_row(task: tuple[str, float, float, int]) -> dict[str, Any]:
    """Return the Frobenius errors of the raw release and of the shrunk one, from the same draws."""
    name, epsilon, delta, runs = task
    moments, _ = moments_of(name)
    truth = second_moment(moments)
    errors = []
    for seed in range(runs):
        model = PrivateCovariance(epsilon=epsilon, delta=delta, norm_bound=1.0, random_state=seed)
        quietly(model, moments)
        raw = model.release_.scaled_matrix
        errors.append((frobenius_error(truth, raw), frobenius_error(truth, model.covariance_)))
    raw, shrunk = np.transpose(errors)
    ratio = shrunk.mean() / raw.mean()
    # Both errors come from one draw, so the standard error is that of the paired difference.
    error = np.std(shrunk - ratio * raw, ddof=1) / runs**0.5 / raw.mean()
    case = {"set": name, "d": truth.shape[0], "epsilon": epsilon, "delta": delta, "law": model.law_}
    of_truth = {
        "raw": float(raw.mean() / np.linalg.norm(truth)),
        "shrunk": float(shrunk.mean() / np.linalg.norm(truth)),
    }
    return {**case, "ratio": float(ratio), "se": float(error), "runs": runs, **of_truth}


def run_covariance(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    # Shrinking simulates the noise many times for each run, and twenty runs settle the ratio.
    tasks = [(*case, 8 if arguments.quick else 20) for case in cases(arguments)]
    return in_processes(covariance_row, tasks, arguments.jobs)


def show_covariance(rows: list[dict[str, Any]]) -> None:
    table = Table(title="Frobenius error of covariance_ over that of the raw release", box=rich.box.MARKDOWN)
    for column in ("set", "d", "ε", "δ", "law", "raw error / ‖A‖", "shrunk error / ‖A‖", "ratio", "runs"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["set"],
            str(row["d"]),
            f"{row['epsilon']:g}",
            f"{row['delta']:g}",
            row["law"],
            f"{row['raw']:.3g}",
            f"{row['shrunk']:.3g}",
            f"{row['ratio']:.4f} ± {row['se']:.4f}",
            str(row["runs"]),
        )
    console.print(table)
    console.print(f"largest ratio {max(row['ratio'] for row in rows):.4f}")


# Time and memory.


def estimators(k: int) -> dict[str, Any]:
    return {
        "scikit-learn": PCA(k, svd_solver="covariance_eigh"),
        "PrivatePCA": PrivatePCA(k, norm_bound=1.0),
        "PrivatePCA center=True": PrivatePCA(k, norm_bound=1.0, center=True),
    }


def timings(X: np.ndarray, k: int, rounds: int, cores: int) -> dict[str, list[float]]:
    """Return seconds of the fits, one after the other in every round, on the same number of cores."""
    allowed = os.sched_getaffinity(0)
    seconds: dict[str, list[float]] = {name: [] for name in estimators(k)}
    try:
        # eigenveil threads by the cores it may use, scikit-learn by BLAS: both are told the same number.
        os.sched_setaffinity(0, sorted(allowed)[:cores])
        with threadpool_limits(cores):
            for _ in range(rounds):
                for name, estimator in estimators(k).items():
                    start = time.perf_counter()
                    estimator.fit(X)
                    seconds[name].append(time.perf_counter() - start)
    finally:
        os.sched_setaffinity(0, allowed)
    return seconds


def peak_memory(task: tuple[str, str, int]) -> tuple[float, float]:
    """Return MB of this process after loading rows from a .npy file, and at the peak of one fit."""
    path, name, k = task
    X = np.load(path)
    loaded = status_megabytes("VmRSS")
    estimators(k)[name].fit(X)
    return loaded, status_megabytes("VmHWM")


def status_megabytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def cost_tables(sets: Iterable[str], quick: bool) -> Iterable[tuple[str, np.ndarray, int]]:
    if quick:
        X = np.random.default_rng(0).standard_normal((100_000, 50))
        yield "Gaussian", X / np.linalg.norm(X, axis=1).max(), 5
        return
    if "covertype" in sets:
        rows = datasets.load("covertype", max_rows=None)
        yield "covertype", rows.X, rows.k
    X = np.random.default_rng(0).standard_normal((200_000, 100))
    yield "Gaussian", X / np.linalg.norm(X, axis=1).max(), 5


def run_cost(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    rounds = 3 if arguments.quick else arguments.rounds
    for name, X, k in cost_tables(arguments.sets, arguments.quick):
        case: dict[str, Any] = {"set": name, "n": X.shape[0], "d": X.shape[1], "rounds": rounds, "cores": {}}
        for cores in sorted({1, len(os.sched_getaffinity(0))}):
            seconds = timings(X, k, rounds, cores)
            plain = np.array(seconds["scikit-learn"])
            case["cores"][str(cores)] = {
                side: {"seconds": float(np.median(each)), "ratio": float(np.median(np.array(each) / plain))}
                for side, each in seconds.items()
            }
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "rows.npy")
            np.save(path, X)
            case["data_mb"] = X.nbytes / 2**20
            case["memory"] = {}
            for side in estimators(k):
                # A process for each fit: the peak of a process never goes down again.
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                    loaded, peak = pool.submit(peak_memory, (path, side, k)).result()
                case["memory"][side] = {"loaded_mb": loaded, "peak_mb": peak}
        yield case


def show_cost(rows: list[dict[str, Any]]) -> None:
    table = Table(title='Beside PCA(svd_solver="covariance_eigh"), medians over rounds', box=rich.box.MARKDOWN)
    for column in ("set", "n", "d", "fit", "cores", "seconds", "time ratio", "peak MB", "fit alone MB", "memory ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        for cores, sides in row["cores"].items():
            for side, result in sides.items():
                memory = row["memory"][side]
                plain = row["memory"]["scikit-learn"]["peak_mb"]
                table.add_row(
                    row["set"],
                    f"{row['n']:,}",
                    str(row["d"]),
                    side,
                    cores,
                    f"{result['seconds']:.3f}",
                    f"{result['ratio']:.2f}",
                    f"{memory['peak_mb']:.0f}",
                    f"{memory['peak_mb'] - memory['loaded_mb']:.0f}",
                    f"{memory['peak_mb'] / plain:.2f}",
                )
    console.print(table)


# Peers.


def run_peers(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    pythons = {"opendp": sys.executable}
    if arguments.diffprivlib_python:
        pythons["diffprivlib"] = str(arguments.diffprivlib_python)
    for name in (name for name in PEER_SETS if name in arguments.sets):
        rows = datasets.load(name)
        moments, k = moments_of(name)
        truth = second_moment(moments)
        best = captured_variance(truth, top_components(truth, k))
        for epsilon in OTHER_EPSILONS:
            for package, python in pythons.items():
                case = {"set": name, "epsilon": epsilon, "package": package, "cap": PEER_SECONDS}
                losses, seconds, note = [], [], ""
                while len(losses) < (QUICK_PEER_FITS if seconds and seconds[0] < 1 else PEER_FITS):
                    fit = peer_fit(python, package, rows.X, rows.k, epsilon, PEER_SECONDS)
                    if isinstance(fit, str):
                        note = fit
                        break
                    case["version"] = fit["version"]
                    losses.append(1 - captured_variance(truth, fit["components"]) / best)
                    seconds.append(fit["seconds"])
                yield {**case, "losses": losses, "seconds": seconds, "note": note}


def show_peers(rows: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    table = Table(title=f"Peers, {PEER_SECONDS:g} s a fit at most", box=rich.box.MARKDOWN)
    for column in ("set", "ε", "package", "fits that ended", "mean loss", "seconds", "note", "our loss (auto)"):
        table.add_column(column, justify="right")
    auto = {(row["set"], row["epsilon"]): row["losses"]["auto"] for row in ours if row["delta"] == 0}
    for row in rows:
        losses = row["losses"]
        error = f" ± {np.std(losses, ddof=1) / len(losses) ** 0.5:.4f}" if len(losses) > 1 else ""
        table.add_row(
            row["set"],
            f"{row['epsilon']:g}",
            f"{row['package']} {row.get('version', '')}",
            str(len(losses)),
            f"{np.mean(losses):.4f}{error}" if losses else "none",
            f"{np.median(row['seconds']):.2f}" if losses else "none",
            row["note"],
            loss_text(auto.get((row["set"], row["epsilon"]))),
        )
    console.print(table)


# Plot.

STYLES = {
    "matrix_laplace": ("C0", "-", "o"),
    "eigenvector_sampling": ("C1", "-", "s"),
    "ppca": ("C2", "-", "^"),
    "frobenius": ("C4", "-", "v"),
    "laplace": ("C3", "-", "D"),
    "random_projection": ("0.6", ":", ""),
    "gaussian": ("C0", "--", "o"),
    "wishart": ("C5", "--", "P"),
    "mod_sulq (paper)": ("C3", "--", "X"),
}


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(row["set"] for row in rows))
    columns = min(4, len(sets) + 1)
    lines = -(-(len(sets) + 1) // columns)  # one more panel for the legend
    figure, axes = plt.subplots(lines, columns, figsize=(3.6 * columns, 3.2 * lines), squeeze=False)
    for axis in axes.flat[len(sets) :]:
        axis.axis("off")
    handles: dict[str, Any] = {}
    for axis, name in zip(axes.flat, sets, strict=False):
        for delta in DELTAS:
            mine = [row for row in rows if (row["set"], row["delta"]) == (name, delta)]
            epsilons = [row["epsilon"] for row in mine]
            for contestant, (colour, line, marker) in STYLES.items():
                if any(contestant not in row["losses"] for row in mine):
                    continue
                means, errors = ([row["losses"][contestant][part] for row in mine] for part in ("mean", "se"))
                label = contestant + (" (ε, δ)" if delta else "")
                handles[label] = axis.errorbar(
                    epsilons, means, errors, color=colour, linestyle=line, marker=marker, markersize=4, linewidth=1.3
                )
            means = [row["losses"]["auto"]["mean"] for row in mine]
            ring = {"facecolors": "none", "edgecolors": "k", "zorder": 5, "linestyles": "-" if delta == 0 else ":"}
            label = "auto, pure" if delta == 0 else "auto (ε, δ)"
            handles[label] = axis.scatter(epsilons, means, s=90, **ring)
        case = mine[0]
        axis.set_title(f"{name}: n = {case['n']:,}, d = {case['d']}, k = {case['k']}", fontsize=9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.grid(alpha=0.3, which="major")
    axes.flat[len(sets)].legend(handles.values(), handles.keys(), loc="center", fontsize=8.5, frameon=False)
    figure.supxlabel("epsilon")
    figure.supylabel("mean loss 1 - qF(V) / qF(V_k)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def versions() -> dict[str, str]:
    names = ("eigenveil", "numpy", "scipy", "scikit-learn", "opendp")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=15, help="of the timings")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sets", nargs="+", choices=datasets.NAMES, help="all that are there by default")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--only", nargs="*", default=SECTIONS, help="sections to run; none shows what FILE.json has")
    parser.add_argument("--peers", action="store_true", help="also run diffprivlib and OpenDP")
    parser.add_argument("--diffprivlib-python", type=Path, help="interpreter of an environment with diffprivlib")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if not set(arguments.only) <= set(SECTIONS):
        parser.error(f"--only takes some of {', '.join(SECTIONS)}")
    if arguments.quick:
        arguments.runs = min(arguments.runs, 20)
        arguments.epsilons = arguments.epsilons or OTHER_EPSILONS
    wanted = QUICK_SETS if arguments.quick else datasets.NAMES
    arguments.sets = arguments.sets or [name for name in wanted if datasets.available(name)]
    for name in wanted:
        if not datasets.available(name):
            console.print(f"{name} is left out: its file is not there; see benchmarks/datasets.py.")
    return arguments


def main() -> None:
    arguments = parsed()
    results: dict[str, Any] = {}
    if arguments.output and arguments.output.exists():
        results = json.loads(arguments.output.read_text())
    runners = {"loss": run_loss, "covariance": run_covariance, "cost": run_cost, "peers": run_peers}
    for section in arguments.only:
        if section == "peers" and not arguments.peers:
            continue
        start = time.perf_counter()
        rows: list[dict[str, Any]] = []
        for row in runners[section](arguments):
            rows.append(row)
            results[section] = rows if section in ("cost", "peers") else in_order(rows)
            results["seconds"] = {**results.get("seconds", {}), section: round(time.perf_counter() - start, 1)}
            results["versions"] = versions()
            print(f"{section}: {row['set']}, {results['seconds'][section]} s", file=sys.stderr, flush=True)
            if arguments.output:  # after every row: a long run may be stopped and still tell something
                arguments.output.write_text(json.dumps(results, indent=1))
    if "loss" in results:
        show_loss(results["loss"])
    if "covariance" in results:
        show_covariance(results["covariance"])
    if "cost" in results:
        show_cost(results["cost"])
    if "peers" in results:
        show_peers(results["peers"], results.get("loss", []))
    console.print(results.get("versions"), results.get("seconds"))
    if arguments.plot:
        plot(results["loss"], arguments.plot)


if __name__ == "__main__":
    main()
