"""The time of the calls that people make, over scikit-learn on the same object: processor seconds and wall time.

    python benchmarks/fit.py [--runs 3]          measure, print the tables and save the numbers (about 8 minutes a run)
    python benchmarks/fit.py --write             the same, and put the tables into docs/reference/performance.md
    python benchmarks/fit.py --saved [--write]   the tables of the saved numbers
    python benchmarks/fit.py --quick             small tables only
    python benchmarks/fit.py --only raw 100000x20 pandas
                                                 cells whose call, object or shape contains one of the words

Every round times all contestants of a shape one after the other, and a cell has the median over rounds of the ratio
within a round, so that a busy machine slows both sides alike. Before each there is a pause: the threads of BLAS go on
turning for some 100 ms after their last work, which would be charged to whoever comes next. A call that takes less than
`LEAST` is repeated within its turn. Of several runs a cell has the middle one by processor seconds. Numbers that miss
the goal are bold. Only a complete run is saved by default; with `--only` or `--quick`, give `--output`.
"""

import argparse
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge, RowBound, SecondMoments
from eigenveil.errors import NoiseWarning, PrivacyWarning
from frontier_page import filled, markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("fit_results.json")
PAGE, MARK = ROOT / "docs" / "reference" / "performance.md", "fit"

SHAPES = ((1_000, 5), (10_000, 10), (100_000, 20), (500_000, 20), (100_000, 100), (20_000, 1_000), (5_000, 3_000))
ATTRIBUTE_SHAPES = ((1_000, 5), (100_000, 20), (10_000, 100), (5_000, 1_000))
QUICK = 100_000 * 20
"""The most numbers of a table with `--quick`."""
WIDE = 1_000
"""From so many features on a fit takes seconds: fewer objects, and fewer rounds."""
K = 3
DENSITY = 0.05
LEAST = 0.02
PAUSE = 0.12
BUDGET = 25.0
"""Seconds for a shape, after which no further round is begun."""
ROUNDS = 3
"""The least number of rounds; one more warms up. A wide table has 2, and none to warm up."""
QUICK_ATTRIBUTE = 0.05
"""An attribute that takes less of the fit is measured once, and so is every one of a wide table."""

Times = tuple[float, float]  # processor seconds, seconds on the clock
Cell = dict[str, Any]


# The calls, each with what it is compared with and its goal.


@dataclass(frozen=True)
class Call:
    """One fit of ours, the fit of scikit-learn (or the product) beside it, and the objects that both get."""

    name: str
    ours: Callable[[Any, int], object]
    theirs: str
    goal: Callable[[int, int], float | None]
    objects: tuple[str, ...]


def bounded_goal(n: int, d: int) -> float | None:
    if d >= 100 or n >= 500_000:
        return 1.0
    return 1.5 if n >= 100_000 else None


def no_goal(n: int, d: int) -> None:
    return None


def private_pca(X: Any, **options: Any) -> PrivatePCA:
    return PrivatePCA(K, **options).fit(X)


def inside(d: int) -> float:
    """Return a norm bound that clips no row."""
    return 2 * d**0.5


def private_ridge(X: Any) -> object:
    """Fit a private regression, at an epsilon that is not refused for so many features and so few rows."""
    n, d = X.shape
    return with_target(PrivateRidge(epsilon=max(1.0, 9 * d**1.5 / n), bounds=(-5, 5)), X)


def with_target(estimator: Any, X: Any) -> object:
    """Fit a regression of the last column on the others."""
    if isinstance(X, pd.DataFrame):
        return estimator.fit(X.iloc[:, :-1], X.iloc[:, -1])
    return estimator.fit(X[:, :-1], X[:, -1])


def moments(X: Any, norm: float) -> SecondMoments:
    return SecondMoments(RowBound(norm), X.shape[1]).update(X)


THEIRS: dict[str, Callable[[Any], object]] = {
    "PCA": lambda X: PCA(K, svd_solver="covariance_eigh").fit(X),
    "EmpiricalCovariance": lambda X: EmpiricalCovariance().fit(X),
    "Ridge": lambda X: with_target(Ridge(), X),
    "X.T @ X": lambda X: X.T @ X,
}
ARRAYS = ("C", "Fortran", "float32", "pandas", "Polars")
FRAMES = ("pandas", "Polars")
TABLES = ("C", "pandas")
CALLS = (
    Call("norm bound", lambda X, d: private_pca(X, norm_bound=inside(d)), "PCA", bounded_goal, ARRAYS),
    Call("norm bound, sparse", lambda X, d: private_pca(X, norm_bound=inside(d)), "PCA", lambda n, d: 4.0, ("CSR",)),
    Call("norm bound, δ", lambda X, d: private_pca(X, norm_bound=inside(d), delta=1e-6), "PCA", bounded_goal, ("C",)),
    Call("bounds", lambda X, d: private_pca(X, bounds=(-5, 5)), "PCA", bounded_goal, TABLES),
    Call("raw", lambda X, d: private_pca(X), "PCA", lambda n, d: 4.0, TABLES),
    Call("standardize", lambda X, d: private_pca(X, standardize=True), "PCA", lambda n, d: 4.0, TABLES),
    Call(
        "PrivateCovariance",
        lambda X, d: PrivateCovariance(bounds=(-5, 5)).fit(X),
        "EmpiricalCovariance",
        lambda n, d: 2.0 if n >= 100_000 else 5.0,
        TABLES,
    ),
    Call(
        "PrivateRidge",
        lambda X, d: private_ridge(X),
        "Ridge",
        lambda n, d: 2.0 if n >= 100_000 else 5.0,
        TABLES,
    ),
    Call("SecondMoments", lambda X, d: moments(X, inside(d)), "X.T @ X", no_goal, ("C",)),
    Call("SecondMoments, half clipped", lambda X, d: moments(X, d**0.5), "X.T @ X", no_goal, ("C",)),
)
WIDE_CELLS = (("norm bound", "pandas"), ("norm bound, sparse", "CSR"))
"""What a wide table is measured as, beside an array in C order."""
FRAME_GOAL = 1.3
"""Of a frame over the array of the same numbers, both ours."""
UNITS = "privacy unit"
UNIT_GOAL = 3.0
UNIT_OBJECTS = ("C", "pandas", "pandas, text", "Polars, text")
ATTRIBUTE_GOAL = 1.0
PLAN_GOAL = 2.0
COMMAND_GOAL = 1.3

HOW = {
    "norm bound": "`PrivatePCA(3, norm_bound=…)`",
    "norm bound, sparse": "the same, 5 % of the entries",
    "norm bound, δ": "the same with `delta=1e-6`",
    "bounds": "`PrivatePCA(3, bounds=(-5, 5))`",
    "raw": "`PrivatePCA(3)`",
    "standardize": "`PrivatePCA(3, standardize=True)`",
    "PrivateCovariance": "`PrivateCovariance(bounds=…)`/`EmpiricalCovariance`",
    "PrivateRidge": "`PrivateRidge(bounds=…)`/`Ridge`",
    "SecondMoments": "`SecondMoments`/`X.T @ X`",
    "SecondMoments, half clipped": "the same, half of the rows clipped",
    UNITS: "`PrivatePCA(3, bounds=…, privacy_unit=…)`",
    "frame/array": "`norm_bound`, a frame over our time for the array",
}
GOALS = {
    "norm bound": "1.5; 1.0¹",
    "norm bound, δ": "1.5; 1.0¹",
    "bounds": "1.5; 1.0¹",
    "PrivateCovariance": "2; 5²",
    "PrivateRidge": "2; 5²",
}


# Objects.


def objects_of(n: int, d: int, names: set[str]) -> dict[str, Any]:
    """Return the same rows as every object that is asked for; a sparse one has rows of its own."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    columns = [f"x{position}" for position in range(d)]
    make: dict[str, Callable[[], Any]] = {
        "C": lambda: X,
        "Fortran": lambda: np.asfortranarray(X),
        "float32": lambda: X.astype(np.float32),
        "pandas": lambda: pd.DataFrame(X, columns=columns),
        "Polars": lambda: pl.DataFrame(X, schema=columns),
        "CSR": lambda: sparse.random_array((n, d), density=DENSITY, format="csr", rng=generator),
    }
    return {name: make[name]() for name in make if name in names}


def unit_fits(objects: dict[str, Any], n: int) -> dict[str, Callable[[], object]]:
    """Return fits with ten rows to a unit in no order: units of an array, as numbers and as text in a frame."""
    units = np.random.default_rng(1).integers(0, n // 10, n)
    fits: dict[str, Callable[[], object]] = {}

    def fit(X: Any, unit: Any = "unit") -> PrivatePCA:
        return PrivatePCA(K, bounds=(-5, 5)).fit(X, privacy_unit=unit)

    if "C" in objects:
        fits["C"] = lambda: fit(objects["C"], units)
    if "pandas" in objects:
        numbers = objects["pandas"].assign(unit=units)
        texts = objects["pandas"].assign(unit=[f"unit {one}" for one in units])
        fits["pandas"] = lambda: fit(numbers)
        fits["pandas, text"] = lambda: fit(texts)
    if "Polars" in objects:
        frame = objects["Polars"].with_columns(unit=pl.Series([f"unit {one}" for one in units]))
        fits["Polars, text"] = lambda: fit(frame)
    return fits


# Times.


def seconds(work: Callable[[], object], repeats: int = 1, pause: float = PAUSE) -> Times:
    """Return the processor seconds of all threads, and those on the clock."""
    time.sleep(pause)
    start, used = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        work()
    took, spent = time.perf_counter() - start, time.process_time() - used
    return spent / repeats, took / repeats


def rounds(contestants: dict[Any, Callable[[], object]], budget: float, wide: bool) -> dict[Any, list[Times]]:
    """Return the times of every contestant in every round; a first one warms up and shows what to repeat."""
    start = time.perf_counter()
    first = {name: seconds(work) for name, work in contestants.items()}
    took = time.perf_counter() - start
    repeats = {name: math.ceil(LEAST / max(one[1], 1e-6)) for name, one in first.items()}
    times = {name: [one] if wide else [] for name, one in first.items()}
    done, least = (1, 2) if wide else (0, ROUNDS)
    while done < least or time.perf_counter() - start + took < budget:
        for name, work in contestants.items():
            times[name].append(seconds(work, repeats[name]))
        done += 1
    return times


def ratio(ours: list[Times], theirs: list[Times]) -> dict[str, float]:
    """Return the median ratios of processor seconds and of wall time."""
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "cpu": median(mine[0] / other[0] for mine, other in pairs),
        "wall": median(mine[1] / other[1] for mine, other in pairs),
        "ms": 1e3 * median(mine[1] for mine in ours),
    }


# What is measured.


def wanted(only: list[str], *words: object) -> bool:
    """Return whether a cell is asked for: all where nothing is, else those that contain one of the words."""
    return not only or any(text in str(word) for text in only for word in words)


def shape_cells(n: int, d: int, only: list[str], budget: float) -> Iterator[Cell]:
    """Yield the cells of all calls on tables of one shape."""
    shape = f"{n}x{d}"
    pairs = [
        (call, form)
        for call in CALLS
        for form in call.objects
        if (d < WIDE or (call.name, form) in WIDE_CELLS or form == "C") and wanted(only, call.name, form, shape)
    ]
    frames = [form for form in FRAMES if d < WIDE and wanted(only, "frame/array", form, shape)]
    unit_forms = [form for form in UNIT_OBJECTS if d < WIDE and wanted(only, UNITS, form, shape)]
    forms = {form for _, form in pairs} | {form.split(",")[0] for form in unit_forms}
    objects = objects_of(n, d, forms | set(frames) | ({"C"} if frames else set()))
    work: dict[tuple[str, str], Callable[[], object]] = {}
    for name, form in {(call.theirs, form) for call, form in pairs} | {
        ("PCA", form.split(",")[0]) for form in unit_forms
    }:
        work[name, form] = lambda fit=THEIRS[name], X=objects[form]: fit(X)
    for call, form in pairs:
        work[call.name, form] = lambda fit=call.ours, X=objects[form]: fit(X, d)
    for form in [*frames, *(["C"] if frames else [])]:
        work.setdefault(("norm bound", form), lambda X=objects[form]: CALLS[0].ours(X, d))
    if unit_forms:
        work |= {(UNITS, form): fit for form, fit in unit_fits(objects, n).items() if form in unit_forms}
    times = rounds(work, budget, d >= WIDE) if work else {}
    at = {"n": n, "d": d}
    for call, form in pairs:
        goal = call.goal(n, d)
        yield {"call": call.name, "object": form, **at, "goal": goal} | ratio(
            times[call.name, form], times[call.theirs, form]
        )
    for form in frames:
        numbers = ratio(times["norm bound", form], times["norm bound", "C"])
        yield {"call": "frame/array", "object": form, **at, "goal": FRAME_GOAL, **numbers}
    for form in unit_forms:
        numbers = ratio(times[UNITS, form], times["PCA", form.split(",")[0]])
        yield {"call": UNITS, "object": form, **at, "goal": UNIT_GOAL, **numbers}


def attribute_cells(n: int, d: int, only: list[str]) -> Iterator[Cell]:
    """Yield the first reading of every fitted attribute over the fit, each from a fresh copy of the fitted model."""
    X = objects_of(n, d, {"C"})["C"]
    fits: dict[str, Callable[[], Any]] = {
        "norm bound": lambda: private_pca(X, norm_bound=inside(d)),
        "raw": lambda: private_pca(X),
        "standardize": lambda: private_pca(X, standardize=True),
        "PrivateCovariance": lambda: PrivateCovariance(bounds=(-5, 5)).fit(X),
        "PrivateRidge": lambda: private_ridge(X),
    }
    for name, fit in fits.items() if wanted(only, "attribute", f"{n}x{d}") else ():
        model = fit()
        of_fit = [seconds(fit) for _ in range(ROUNDS)]
        found = {}
        for attribute in sorted(one for one in dir(model) if one.endswith("_") and not one.startswith("_")):
            times = [seconds(reading(model, attribute), pause=0.0)] * ROUNDS
            if d < WIDE and times[0][1] > QUICK_ATTRIBUTE * of_fit[0][1]:
                times = [seconds(reading(model, attribute)) for _ in range(ROUNDS)]
            found[attribute] = ratio(times, of_fit)
        slowest = max(found, key=lambda one: found[one]["cpu"])
        yield {
            "call": name,
            "object": "attribute",
            "n": n,
            "d": d,
            "goal": ATTRIBUTE_GOAL,
            "slowest": slowest,
            **found[slowest],
            "all": {one: [float(f"{number:.3g}") for number in found[one].values()] for one in found},
        }


def reading(model: Any, attribute: str) -> Callable[[], object]:
    """Return the first reading of an attribute, of a copy that has computed nothing since the fit."""
    fresh = copy.deepcopy(model)
    return lambda: getattr(fresh, attribute)


def process_seconds(command: list[str], bytecode: str) -> Times:
    """Return the processor seconds and the wall time of another process, which keeps its bytecode in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    used, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    took, now = time.perf_counter() - start, os.times()
    return now.children_user + now.children_system - used.children_user - used.children_system, took


def command_cells(only: list[str]) -> Iterator[Cell]:
    """Yield the command line on a file of ten rows over an import of scikit-learn, and `plan` in seconds."""
    program = [str(Path(sys.executable).with_name("eigenveil"))]
    sizes = ["--rows", "100000", "--features", "20", "-k", str(K)]
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.csv"
        np.savetxt(
            rows, np.random.default_rng(0).standard_normal((10, 4)), delimiter=",", header="a,b,c,d", comments=""
        )
        fit = [*program, "pca", str(rows), "-k", "2", "--epsilon", "1", "--yes", "--force", "-o", f"{folder}/one.npz"]
        commands = {
            "pca of ten rows": fit,
            "--version": [*program, "--version"],
            "--help": [*program, "--help"],
            "import": [sys.executable, "-c", "import sklearn.decomposition"],
        }
        if wanted(only, "command", *commands):
            for command in commands.values():
                process_seconds(command, folder)
            times: dict[str, list[Times]] = {name: [] for name in commands}
            for _ in range(2 * ROUNDS - 1):
                for name, command in commands.items():
                    times[name].append(process_seconds(command, folder))
            for name in list(commands)[:-1]:
                numbers = ratio(times[name], times["import"])
                yield {"call": name, "object": "command", "goal": COMMAND_GOAL, **numbers}
        for name, options in {"plan": ["--epsilon", "1"], "plan, δ": ["--epsilon", "1", "--delta", "1e-6"]}.items():
            if wanted(only, name, "command"):
                plan = [*program, "plan", *sizes, *options]
                process_seconds(plan, folder)
                found = [process_seconds(plan, folder) for _ in range(ROUNDS)]
                cpu, wall = (median(one[place] for one in found) for place in (0, 1))
                yield {"call": name, "object": "seconds", "goal": PLAN_GOAL, "cpu": cpu, "wall": wall, "ms": 1e3 * wall}


def measure(only: list[str], quick: bool) -> dict[str, Any]:
    """Return all cells that are asked for, with the commit and the versions."""
    sys.path.append(str(ROOT))
    from experiments import provenance

    record = {"commit": provenance.commit(), "day": provenance.today()}  # before the run: files may change in its time
    cells: list[Cell] = []
    sources: list[tuple[str, Iterator[Cell]]] = [
        (f"{n} x {d}", shape_cells(n, d, only, BUDGET / 5 if quick else BUDGET))
        for n, d in SHAPES
        if not quick or n * d <= QUICK
    ]
    sources += [
        (f"attributes, {n} x {d}", attribute_cells(n, d, only))
        for n, d in ATTRIBUTE_SHAPES
        if not quick or n * d <= QUICK
    ]
    sources.append(("command line", command_cells(only)))
    for name, found in sources:
        start = time.perf_counter()
        cells += found
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    for cell in cells:
        cell |= {name: float(f"{cell[name]:.3g}") for name in ("cpu", "wall", "ms")}
    return {"origin": provenance.origin((), [record]), "cells": cells}


def middle_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return for every cell the middle of several runs, and how many times its smallest the largest is."""
    cells = []
    for each in zip(*(run["cells"] for run in runs), strict=True):
        in_order = sorted(each, key=lambda cell: cell["cpu"])
        cells.append(in_order[len(each) // 2] | {"spread": in_order[-1]["cpu"] / in_order[0]["cpu"]})
    return {"origin": runs[-1]["origin"], "runs": len(runs), "cells": cells}


# The page.


def shown(cell: Cell | None) -> str:
    """Return processor seconds and wall time of a cell, bold where the goal is missed."""
    if cell is None:
        return ""
    texts = []
    for number in (cell["cpu"], cell["wall"]):
        text = f"{number:.0f}" if number >= 9.95 else f"{number:.1f}" if number >= 1.995 else f"{number:.2f}"
        texts.append(f"**{text}**" if cell["goal"] is not None and number > cell["goal"] else text)
    return "/".join(texts)


def page_part(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables for the page, by mark."""
    cells = results["cells"]
    fits = [cell for cell in cells if cell["object"] not in ("attribute", "command", "seconds")]
    attributes = [cell for cell in cells if cell["object"] == "attribute"]
    rest = [cell for cell in cells if cell["object"] in ("command", "seconds")]
    return {
        "fits": _by_shape(fits, lambda cell: [HOW[cell["call"]], cell["object"], _goal(cell)], ["call", "on", "goal"]),
        "attributes": _by_shape(attributes, lambda cell: [HOW[cell["call"]]], ["fit"], note="slowest"),
        "commands": markdown(
            ["command", "goal", "CPU/wall"],
            [
                [f"`{cell['call']}`", f"{cell['goal']:g}{' s' * (cell['object'] == 'seconds')}", shown(cell)]
                for cell in rest
            ],
        ),
        "origin": _origin(results["origin"]) + _spread(results),
    }


def _goal(cell: Cell) -> str:
    return GOALS.get(cell["call"]) or ("" if cell["goal"] is None else f"{cell['goal']:g}")


def _by_shape(cells: list[Cell], label: Callable[[Cell], list[str]], heads: list[str], note: str = "") -> str:
    """Return a table with a column for each shape."""
    shapes = list(dict.fromkeys((cell["n"], cell["d"]) for cell in cells))
    lines: dict[tuple[str, ...], dict[tuple[int, int], Cell]] = {}
    order = {name: place for place, name in enumerate(HOW)}
    for cell in sorted(cells, key=lambda cell: order[cell["call"]]):
        lines.setdefault(tuple(label(cell)), {})[cell["n"], cell["d"]] = cell

    def text(cell: Cell | None) -> str:
        return shown(cell) + (f" `{cell[note]}`" if note and cell else "")

    rows = [[*words, *(text(found.get(shape)) for shape in shapes)] for words, found in lines.items()]
    return markdown([*heads, *(f"{n:,}\N{MULTIPLICATION SIGN}{d:,}" for n, d in shapes)], rows)


def _origin(origin: dict[str, Any]) -> str:
    versions = origin["versions"]
    return (
        f"Measured on {', '.join(origin['days'])} at commit {', '.join(origin['commits'])} with Python "
        f"{versions['python']}, NumPy {versions['numpy']} and scikit-learn {versions['scikit-learn']}."
    )


def _spread(results: dict[str, Any]) -> str:
    spreads = sorted(cell["spread"] for cell in results["cells"])
    if results["runs"] == 1:
        return " One run."
    return (
        f" Middle of {results['runs']} runs, by CPU; the largest over the smallest number of a cell is "
        f"{median(spreads):.2f} in the median cell, {spreads[int(0.9 * len(spreads))]:.2f} at the 90th percentile and "
        f"{spreads[-1]:.1f} at most."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="TEXT", help="parts of names of calls, objects, shapes"
    )
    parser.add_argument("--quick", action="store_true", help="small tables, few rounds")
    parser.add_argument("--runs", type=int, default=1, help="how often everything is measured")
    parser.add_argument("--saved", action="store_true", help="do not measure: take the saved numbers")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    parser.add_argument("--output", type=Path, help="JSON file; default of a complete run: fit_results.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    warnings.simplefilter("ignore", PrivacyWarning)  # of a large epsilon
    complete = not (options.only or options.quick)
    output = options.output or (RESULTS if complete or options.saved else None)
    if options.saved:
        results = json.loads(output.read_text(encoding="utf-8"))
    else:
        results = middle_of([measure(options.only, options.quick) for _ in range(options.runs)])
        if output:
            output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    part = page_part(results)
    if options.write:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), part, MARK), encoding="utf-8")
    print(*part.values(), sep="\n\n")


if __name__ == "__main__":
    main()
