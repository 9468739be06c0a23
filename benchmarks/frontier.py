"""eigenveil beside the strongest published competitors at equal privacy, on real tables and on wide ones.

    python benchmarks/frontier.py --out FOLDER --write     all, half an hour on one core, then docs/research/utility.md
    python benchmarks/frontier.py --out FOLDER --quick     three small sets, two minutes
    python benchmarks/frontier.py --out FOLDER --show      the tables of what FOLDER has

Every result is kept in FOLDER as soon as it is there, and a second call goes on where the first was stopped; `--again
eigenveil` measures again the contestants whose names begin so, as after a change of the library.

Measures: the loss of captured variance 1 - qF/qF(best) of k directions, k = 1 and 5 (3 where d = 5), and the Frobenius
error of the released second moment over the norm of the true one. Adjacency "replace_one", about the origin, the same
rows. An oracle who sees the true error on pilot draws chooses the parameters of every contestant for every row; the
draws that count are others. "eigenveil, same inputs" is given what they are given, the best clip radius of the same
list; plain "eigenveil" is given the rows and nothing else, and pays for its norm bound.
"""

import argparse
import json
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import datasets
import frontier_page
import frontier_tables
from competitors import Budget
from eigenveil.errors import NoiseWarning
from frontier_contestants import APPROXIMATE, CONTESTANTS, DELTAS, WIDEST_KEPT, Errors
from frontier_tables import Table

EPSILONS = (0.1, 1.0, 3.0)
QUICK_SETS = ("airfoil", "wine", "breast_cancer")
# Wide rows take up to a minute a fit, so they get fewer cases.
WIDE_EPSILONS = {"images_784": EPSILONS, "text_3000": (1.0,), "text_10000": (1.0,)}
# So do broad ones where delta is 0; isolet5 has too few rows for anything to be seen there.
PURE_EPSILONS = {"kddcup99": (1.0,), "insurance": (1.0,), "census": (1.0,), "isolet5": ()}


def effort(table: Table, name: str, measure: str) -> tuple[int, int]:
    """Return the runs that count and the pilots for each choice: fewer where a draw takes long."""
    if not table.has_matrix:
        return (2, 1) if table.d <= WIDEST_KEPT else (1, 1)
    runs, pilots = (16, 6) if table.d <= 64 else (10, 2) if table.d <= 200 else (4, 1)
    if CONTESTANTS[name].slow:
        return max(3, runs // 2), max(1, pilots // 2)
    # A matrix is read once more, but a radius chosen from few pilots makes more of a difference than the contestants.
    return (max(3, runs // 2) if measure == "matrix" else runs), pilots


class Case:
    """One table at one budget: draws are numbered, so that every result can be repeated."""

    def __init__(self, table: Table, epsilon: float, delta: float) -> None:
        self.table, self.budget = table, Budget(epsilon, delta)
        self._drawn: dict[str, Errors] = {}
        self.name = f"{table.name}-{table.preparation}-{epsilon:g}-{delta:g}"

    def draw(self, name: str, choice: dict[str, Any], measure: str, run: int, pilot: bool) -> Errors:
        """Return the error of one draw, or nothing where the contestant releases no such thing."""
        measures = self.table.measures if CONTESTANTS[name].whole else (measure,)
        label = f"{self.name}|{name}|{sorted(choice.items())}|{pilot}"
        key = f"{label}|{run}|{measures}"
        if key not in self._drawn:
            rng = np.random.default_rng([zlib.crc32(label.encode()), run])
            self._drawn[key] = CONTESTANTS[name].draw(self.table, self.budget, rng, measures, **choice)
        return self._drawn[key]

    def chosen(self, name: str, measure: str, pilots: int) -> dict[str, Any]:
        """Return the oracle's choice, one parameter after the other."""
        contestant = CONTESTANTS[name]
        grid = {**({"radius": self.table.radii} if contestant.clips else {}), **contestant.grid}
        choice = {parameter: values[0] for parameter, values in grid.items()}
        for parameter, values in grid.items():
            if len(values) > 1:
                errors = [self.pilot(name, choice | {parameter: value}, measure, pilots) for value in values]
                choice[parameter] = values[int(np.argmin(errors))]
        return choice

    def pilot(self, name: str, choice: dict[str, Any], measure: str, pilots: int) -> float:
        """Return the mean error of draws that do not count."""
        found = [self.draw(name, choice, measure, run, pilot=True) for run in range(pilots)]
        return float(np.mean([errors.get(measure, np.inf) for errors in found]))

    def result(self, name: str, runs_wanted: int | None) -> dict[str, Any]:
        """Return the errors of a contestant by measure, with what the oracle chose."""
        results = {}
        for measure in self.table.measures:
            runs, pilots = effort(self.table, name, measure)
            runs = runs_wanted or runs
            choice = self.chosen(name, measure, pilots)
            found = [self.draw(name, choice, measure, run, pilot=False) for run in range(runs)]
            if measure in found[0]:
                results[measure] = {"errors": [each[measure] for each in found], "choice": choice}
        return results


def cases(arguments: argparse.Namespace) -> list[tuple[str, str, float, float]]:
    """Return (set, form, epsilon, delta), the cases of one table together."""
    found = []
    for name in arguments.sets:
        wide = name in frontier_tables.WIDE
        epsilons = {delta: WIDE_EPSILONS.get(name, EPSILONS) for delta in (APPROXIMATE if wide else DELTAS)}
        if not wide:
            epsilons[0.0] = PURE_EPSILONS.get(name, EPSILONS)
        for form in ("raw",) if wide else frontier_tables.PREPARATIONS:
            found += [(name, form, epsilon, delta) for delta, each in epsilons.items() for epsilon in each]
    return found


def kept_file(folder: Path, case: tuple[str, str, float, float]) -> Path:
    name, form, epsilon, delta = case
    return folder / f"{name}-{form}-{epsilon:g}-{delta:g}.json"


def run(arguments: argparse.Namespace) -> None:
    table: Table | None = None
    todo = cases(arguments)
    start = time.perf_counter()
    for done, (name, form, epsilon, delta) in enumerate(todo, 1):
        path = kept_file(arguments.out, (name, form, epsilon, delta))
        kept = json.loads(path.read_text()) if path.exists() else {"contestants": {}}
        stale = tuple(arguments.again)
        missing = [
            each
            for each, contestant in CONTESTANTS.items()
            if delta in contestant.deltas and (each not in kept["contestants"] or (stale and each.startswith(stale)))
        ]
        if not missing:
            continue
        if table is None or (table.name, table.preparation) != (name, form):
            table = frontier_tables.load(name, form)
        kept |= {"set": name, "form": form, "epsilon": epsilon, "delta": delta, "n": table.n, "d": table.d}
        for each in missing:
            began = time.process_time()
            fits = table.d <= CONTESTANTS[each].widest
            kept["contestants"][each] = Case(table, epsilon, delta).result(each, arguments.runs) if fits else {}
            kept.setdefault("seconds", {})[each] = round(time.process_time() - began, 2)
            path.write_text(json.dumps(kept, indent=1))
        taken = time.perf_counter() - start
        print(f"{done}/{len(todo)} {path.stem}: {taken:.0f} s so far", file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmark-results/frontier"))
    parser.add_argument("--sets", nargs="+", choices=(*frontier_tables.SETS, *frontier_tables.WIDE))
    parser.add_argument("--runs", type=int, help="by default 20 for narrow tables down to 1 for the widest")
    parser.add_argument("--quick", action="store_true", help="three small sets, five runs")
    parser.add_argument("--again", nargs="+", default=(), help="contestants to measure again, by how they begin")
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="save frontier_results.json and write the page from it")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs = arguments.runs or 5
    wanted = arguments.sets or (QUICK_SETS if arguments.quick else (*frontier_tables.SETS, *frontier_tables.WIDE))
    made = frontier_tables.WIDE if not arguments.show else wanted
    arguments.sets = [name for name in wanted if name in made or datasets.available(name)]
    for name in sorted(set(wanted) - set(arguments.sets)):
        print(f"{name} is left out: its file is not there; see benchmarks/datasets.py.", file=sys.stderr)
    return arguments


def main() -> None:
    arguments = parsed()
    arguments.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", NoiseWarning)  # small epsilons are meant to have more noise than signal
    if not arguments.show:
        with threadpool_limits(1):
            run(arguments)
    files = [kept_file(arguments.out, case) for case in cases(arguments)]
    found = [json.loads(path.read_text()) for path in files if path.exists()]
    results = frontier_page.summarized(found, list(CONTESTANTS))
    print("\n\n".join(frontier_page.sections(results).values()))
    if arguments.write:
        frontier_page.save(results)
        frontier_page.main()


if __name__ == "__main__":
    main()
