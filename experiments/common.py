"""What all experiments share: cells measured once and kept, seeds, results, tables and figures.

README.md in this folder says what an experiment has to define.
"""

import hashlib
import importlib
import json
import lzma
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from eigenveil.errors import NoiseWarning
from eigenveil.mechanisms import MECHANISMS, CentralMechanism
from eigenveil.postprocess import top_components

from . import provenance

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"  # ignored by git
RUNS = "runs.jsonl.xz"
LEAST_RUNS = 10
"""Fewer runs do not tell a standard error: none is kept or shown."""
console = Console(stderr=True)

Cell = dict[str, Any]


def names() -> list[str]:
    """Return the experiments: every folder with a run.py."""
    return sorted(path.parent.name for path in HERE.glob("*/run.py"))


def experiment(name: str) -> Any:
    """Return the run.py of an experiment as a module."""
    return importlib.import_module(f"{__package__}.{name}.run")


def lacking(name: str) -> list[str]:
    """Return the data sets that an experiment lacks here."""
    return [needed for needed in experiment(name).DATASETS if not datasets.available(needed)]


def data_of(name: str) -> tuple[str, ...]:
    """Return the data sets of an experiment that are here."""
    return tuple(needed for needed in experiment(name).DATASETS if datasets.available(needed))


def cells_here(name: str, quick: bool, most: int | None = None) -> list[tuple[Cell, int]]:
    """Return the cells of an experiment but for those whose data are not here, each with `most` repeats at most."""
    missing = lacking(name)
    return [
        (cell, repeats if most is None else min(repeats, most))
        for cell, repeats in experiment(name).cells(quick)
        if cell.get("data") not in missing
    ]


def missing_data(name: str) -> str | None:
    """Return a sentence that names the data sets an experiment lacks here, or None."""
    if not (missing := lacking(name)):
        return None
    what = "left out" if cells_here(name, quick=True) else "all that this experiment is about"
    return f"{name}: {', '.join(missing)} not found, {what}; name the folder with the data in EIGENVEIL_DATA."


def published_mechanism(name: str, **parameters: Any) -> CentralMechanism:
    """Return a mechanism that may be released here whether its bits are exact or not: a paper is repeated as it is."""
    return MECHANISMS[name](accept_inexact=True, **parameters)


PUBLIC_GRID = 2**32


def drawn_directions(mechanism: CentralMechanism, C: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the directions of one release on a *public* sum of x x' over rows of norm at most 1, shape (k, d).

    It is the mechanism's own draw, on integers; nothing is spent or recorded, so C must never be private.
    """
    gram = np.rint(C * PUBLIC_GRID).astype(np.int64)
    integers = mechanism.draw(gram, PUBLIC_GRID, 1, generator)
    units = mechanism.units(PUBLIC_GRID, 1 / PUBLIC_GRID)
    values = {name: value * units[name] for name, value in integers.items()}
    drawn = mechanism.directions(values)
    if drawn is None:
        matrix = mechanism.second_moment(values, 1)
        assert matrix is not None
        drawn = top_components(matrix, mechanism.n_components)
    return drawn


# Cells and seeds.


def generator_for(name: str, cell: Cell, repeat: int, entropy: int = 0) -> np.random.Generator:
    """Return the generator of one repeat of one cell: the same whatever else is run, in any order."""
    words = np.frombuffer(hashlib.sha256(f"{name}:{_key(cell, repeat)}".encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([entropy, *map(int, words)]))


def _key(cell: Cell, repeat: int) -> str:
    return json.dumps([cell, repeat], sort_keys=True)


def _measure(name: str, cell: Cell, repeat: int, entropy: int) -> dict[str, Any]:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # some cells have more noise than signal, on purpose
        found = experiment(name).measure(cell, generator_for(name, cell, repeat, entropy))
    values = {metric: float(value) for metric, value in found.items()}
    record = {"cell": cell, "repeat": repeat, "values": values, "seconds": time.process_time() - start}
    return record | {"commit": provenance.commit(), "day": provenance.today()}


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of an earlier run; a line that a kill cut short is dropped from the file."""
    if not path.exists():
        return {}
    lines = path.read_bytes().split(b"\n")
    if lines[-1]:
        with open(path, "r+b") as file:
            file.truncate(path.stat().st_size - len(lines[-1]))
    records = [json.loads(line) for line in lines[:-1]]
    return {_key(record["cell"], record["repeat"]): record for record in records}


def run(
    name: str,
    *,
    quick: bool,
    cache: Path = CACHE,
    workers: int = 1,
    entropy: int = 0,
    fresh: bool = False,
    most: int | None = None,
) -> "Results":
    """Measure what is not yet kept in the cache, and return the summary of all cells, of `most` repeats at most.

    Every record is written as soon as it is there, so a killed run goes on where it stopped. The cache does not know
    when code changes: `fresh` forgets it.
    """
    size = "quick" if quick else "full"
    path = cache / f"{name}-{size}-{entropy}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)
    kept = _kept(path)
    wanted = [(cell, repeat) for cell, repeats in cells_here(name, quick, most) for repeat in range(repeats)]
    missing = [(cell, repeat) for cell, repeat in wanted if _key(cell, repeat) not in kept]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar, open(path, "a") as file:
        task = bar.add_task(f"{name} ({size})", total=len(wanted), completed=len(wanted) - len(missing))
        for record in _measured(name, missing, entropy, workers):
            file.write(json.dumps(record) + "\n")
            file.flush()
            kept[_key(record["cell"], record["repeat"])] = record
            bar.advance(task)
    return _summary(name, size, wanted, kept)


def _measured(name: str, missing: Sequence[tuple[Cell, int]], entropy: int, workers: int) -> Iterator[dict[str, Any]]:
    # Small matrices by the thousand: one BLAS thread a process is all they can use.
    if workers == 1:
        with threadpool_limits(1):
            for cell, repeat in missing:
                yield _measure(name, cell, repeat, entropy)
        return
    # "spawn", because the progress bar is a thread, and a process with threads must not fork.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=threadpool_limits, initargs=(1,))
    try:
        for done in as_completed([pool.submit(_measure, name, cell, repeat, entropy) for cell, repeat in missing]):
            yield done.result()
    finally:  # an error or a keyboard interrupt must not wait for the rest
        pool.shutdown(cancel_futures=True)


# Results.


class NotMeasuredError(LookupError):
    """Says which cells a part of a section needs and does not have, at this size or with the data that are here."""


@dataclass(frozen=True)
class Row:
    """One cell: the mean of each metric over the repeats, and its standard error (0 below `LEAST_RUNS` repeats)."""

    cell: Cell
    repeats: int
    mean: dict[str, float]
    se: dict[str, float]


@dataclass(frozen=True)
class Results:
    """The summary of one experiment at one size, what it rests on, and every single run of each row.

    `runs` has a dict for each row, with the values of all repeats by metric; it has a file of its own.
    """

    name: str
    size: str
    origin: dict[str, Any]
    seconds: float
    rows: list[Row]
    runs: list[dict[str, list[float]]] = field(default_factory=list, compare=False, repr=False)

    def select(self, **cell: Any) -> list[Row]:
        """Return the rows whose cells have these parameters, in the order of `cells`."""
        return [row for row in self.rows if all(row.cell.get(key) == value for key, value in cell.items())]

    def some(self, **cell: Any) -> list[Row]:
        """Return the rows with these parameters; where there are none, the part of the page is left out."""
        if not (rows := self.select(**cell)):
            raise NotMeasuredError(", ".join(f"{key} {value}" for key, value in cell.items() if value is not None))
        return rows

    def one(self, **cell: Any) -> Row:
        """Return the only row with these parameters."""
        (row,) = self.some(**cell)
        return row

    def save(self, path: Path) -> None:
        """Write the summary as JSON, one cell a line, and beside it runs.jsonl.xz: a cell and all its values a line."""
        head = {key: getattr(self, key) for key in ("name", "size", "origin", "seconds")}
        lines = ",\n".join(json.dumps(asdict(row)) for row in self.rows)
        path.write_text(json.dumps(head)[:-1] + ', "rows": [\n' + lines + "\n]}\n")
        with lzma.open(path.with_name(RUNS), "wt", encoding="utf-8") as file:
            for row, values in zip(self.rows, self.runs, strict=True):
                file.write(json.dumps({"cell": row.cell, "values": values}) + "\n")


def load_results(path: Path) -> Results:
    """Read the summary that `Results.save` wrote."""
    stored = json.loads(path.read_text())
    return Results(**{**stored, "rows": [Row(**row) for row in stored["rows"]]})


def load_runs(path: Path) -> list[dict[str, Any]]:
    """Read the single runs that `Results.save` wrote: a cell and its values by metric, in the order of the rows."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _summary(name: str, size: str, wanted: list[tuple[Cell, int]], kept: dict[str, dict[str, Any]]) -> Results:
    cells: dict[str, list[dict[str, Any]]] = {}
    for cell, repeat in wanted:
        cells.setdefault(_key(cell, 0), []).append(kept[_key(cell, repeat)])
    rows, runs = [], []
    for records in cells.values():
        values = {metric: np.array([record["values"][metric] for record in records]) for metric in records[0]["values"]}
        n = len(records)
        mean = {metric: _short(value.mean()) for metric, value in values.items()}
        known = n >= LEAST_RUNS
        se = {metric: _short(value.std(ddof=1) / n**0.5) if known else 0.0 for metric, value in values.items()}
        rows.append(Row(records[0]["cell"], n, mean, se))
        runs.append({metric: [_short(one) for one in value] for metric, value in values.items()})
    every = [record for records in cells.values() for record in records]
    seconds = round(sum(record["seconds"] for record in every), 1)
    return Results(name, size, provenance.origin(data_of(name), every), seconds, rows, runs)


def _short(value: float) -> float:
    return float(f"{value:.8g}")


# Markdown and figures for `section`.


def assembled(*parts: Callable[[], Sequence[str]]) -> str:
    """Return the parts of a section one after the other; in place of one that was not measured, what it lacks."""
    lines: list[str] = []
    for part in parts:
        try:
            lines += part()
        except NotMeasuredError as lacks:
            lines.append(f"*A part is left out here: not measured at this size or without the data ({lacks}).*\n")
    return "\n".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def prose(text: str) -> str:
    """Return a wrapped text as one paragraph."""
    return " ".join(text.split()) + "\n"


def save_figure(figure: Any, images: Path, name: str, caption: str) -> str:
    """Save a matplotlib figure as a small SVG with the same bytes every time; return the Markdown that shows it."""
    import matplotlib as mpl

    images.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(images / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    return f"![{caption}](../images/{images.name}/{name}.svg)\n"
