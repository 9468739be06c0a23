"""Neighbouring tables replayed: cells that try to change types, in every container, and rows that try to move sums.

`replay` says what is compared and which refusals are allowed, `replay_tables` has the containers and the cells.
Controls plant flaws that the comparison must find.
"""

import contextlib
import functools
import itertools
import os
import sys
import warnings
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from eigenveil import (
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateSparsePCA,
    RowBound,
    SecondMoments,
    gate,
    release,
)
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.estimators import inputs
from eigenveil.estimators.score_map import score_map
from eigenveil.mechanisms import MECHANISMS, frobenius, gaussian
from eigenveil.mechanisms.matrix_laplace import MatrixLaplace
from eigenveil.moments.counts import RowSizes
from eigenveil.moments.row_rule import STATISTICS, RowRule
from eigenveil.sampling.randomness import secure_generator
from eigenveil.tables.open import open_table
from privacy import replay
from privacy.replay import Changed, Table, compared, differences, seen
from privacy.replay_tables import (
    ALIKE,
    BY_COLUMNS,
    CELLS,
    COLUMNS,
    CONTAINERS,
    ENGINES,
    NAMELESS,
    PLACES,
    PRIVATE,
    TRIED,
    Shape,
    as_json,
    as_text,
    proper,
)

# Dask's own reading of Parquet, on pandas 3.1.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")


# Cells that try to change types.


def fitted(data, options):
    """Fit what has a schema through the estimator, and what has none through an opened table."""
    schema = options.get("schema")
    if schema is None:
        return PrivatePCA(1, epsilon=2.0, bounds=(0, 5000)).fit(open_table(data, **options))
    return PrivatePCA(1, epsilon=2.0, schema=schema).fit(data)


@pytest.fixture
def released_alone(monkeypatch):
    """What is read off a release is a function of it, and takes most of the time of a fit."""
    for kind in (PrivatePCA, PrivateCovariance, PrivateRidge, PrivateSparsePCA):
        monkeypatch.setattr(kind, "_interpret", lambda self, release: None)


def replayed(container, shape, cells, folder, *, fit=None, options=None, place=None):
    """Return what tells tables with these cells apart from the one without, and how many of them were read."""
    build = functools.partial(CONTAINERS[container], folder=folder, types=shape.types())
    options = {"schema": shape.schema()} if options is None else options
    place = PLACES.get(container, 0) if place is None else place
    held = build(shape.values())
    first, found, n_read = seen(Table(held.make, options), fit), {}, 0
    for cell in cells:
        try:
            other = build(shape.with_cell(place, CELLS[cell]))
        except Exception:  # its own library has no such table
            continue
        second = seen(Table(other.make, options), fit, first)
        may_refuse = not proper(shape.kind, cell, container) or held.types != other.types
        told = differences(first, second, Changed(place, may_refuse=may_refuse, private=PRIVATE))
        n_read += first.error is None and second.error is None
        found |= {cell: told} if told else {}
    return found, n_read


def holds(container, column):
    """Tell whether there is such a table; Dask makes text of decimals by itself."""
    if container == "Dask" and "decimal" in column:
        return False
    return container not in NAMELESS or Shape(column).kind in ("number", "boolean")


def some_cells(container, column):
    """Return all cells, or where a container shares its reader with another one a third of them."""
    turn = list(COLUMNS).index(column) + list(CONTAINERS).index(container)
    return list(CELLS)[turn % 3 :: 3] if container in ALIKE else list(CELLS)


def column_of(container):
    """Return one of the columns that a container holds: each another one."""
    columns = [column for column in COLUMNS if holds(container, column)]
    return columns[list(CONTAINERS).index(container) % len(columns)]


IN_PROCESS = [name for name in CONTAINERS if name not in ENGINES]
CASES = [(container, column) for container in IN_PROCESS for column in COLUMNS if holds(container, column)]
NUMBERS = [column for column in COLUMNS if Shape(column).kind == "number"]


@pytest.mark.parametrize(("container", "column"), CASES)
def test_a_cell_changes_its_own_row_alone(container, column, tmp_path):
    found, _ = replayed(container, Shape(column), some_cells(container, column), tmp_path)
    assert not found


@pytest.mark.parametrize("container", IN_PROCESS)
def test_a_cell_changes_nothing_that_a_fit_tells(container, tmp_path):
    found, _ = replayed(container, Shape(column_of(container)), list(CELLS)[::2], tmp_path, fit=fitted)
    assert not found


@pytest.mark.parametrize("container", IN_PROCESS)
def test_control_tables_are_read(container, tmp_path):
    """Where both tables were always refused, nothing would have been compared."""
    assert any(
        replayed(container, Shape(column), ["None"], tmp_path)[1] for column in COLUMNS if holds(container, column)
    )


@pytest.mark.parametrize("container", ["pandas", "pandas objects", "Arrow", "Parquet", "CSV", "JSON lines"])
@pytest.mark.parametrize("column", ["floats", "codes", "truths as categories", "truths", "days", "ignored"])
@pytest.mark.usefixtures("released_alone")
def test_a_cell_changes_its_own_person_alone(container, column, tmp_path):
    found, _ = replayed(container, Shape(column, persons=True), list(CELLS)[::3], tmp_path, fit=fitted)
    assert not found


@pytest.mark.parametrize("container", [name for name in BY_COLUMNS if name not in ENGINES])
@pytest.mark.parametrize("column", NUMBERS)
@pytest.mark.parametrize("named", [["x", TRIED], None], ids=["named", "not named"])
def test_columns_of_text_files_without_a_schema_hold_numbers(container, column, named, tmp_path):
    options = {"columns": named, "missing": 0.0}
    found, _ = replayed(container, Shape(column), CELLS, tmp_path, options=options)
    assert not found


@pytest.mark.heavy
@pytest.mark.parametrize(("container", "column"), CASES)
def test_every_cell_in_every_place_tells_nothing(container, column, tmp_path):
    for place, persons in itertools.product([0, 11, 23], [False] if container in NAMELESS else [False, True]):
        found, _ = replayed(container, Shape(column, persons), CELLS, tmp_path, fit=fitted, place=place)
        assert not found, (place, persons)


# Lines that try to change columns.

KEYS = {  # what stands in a line of JSON, and whether such a line is as it should be
    "another order": ('{"a": 1, "x": 3.5}', True),
    "one key more": ('{"x": 3.5, "a": 1, "Jane_HIV": 31337}', True),
    "one key more at first": ('{"Jane_HIV": 31337, "x": 3.5, "a": 1}', True),
    "one key less": ('{"a": 1}', True),
    "no key": ("{}", True),
    "another case": ('{"X": 3.5, "a": 1}', True),
    "a key twice": ('{"x": 3.5, "a": 1, "a": "Jane"}', False),
    "an object": ('{"x": {"Jane": 31337}, "a": 1}', False),
    "a list": ('{"x": [3.5, 31337], "a": 1}', False),
    "no object": ('"Jane"', False),
    "cut off": ('{"x": 3.5, "a": "Jane', False),
}
FIELDS = {  # the same for a line of CSV, whose second column is text
    "one field more": ("3.5,red,31337", False),
    "a comma more": ("3.5,red,", False),
    "one field less": ("3.5", False),
    "a quote that is not closed": ('3.5,"Jane', False),
    "a quote within": ('3.5,5" Jane', False),
    "lines in quotes": ('3.5,"Jane\n31337,red\n4,green"', True),
    "quotes in quotes": ('3.5,"Jane ""HIV"" Doe"', True),
    "blanks": (" 3.5 , red ", True),
    "a number in quotes": ('"3.5","red"', True),
    "a header": ("x,a", False),
}


def compared_lines(path, head, lines, line, options, *, may_refuse, fit=None):
    """Return what tells a file of text apart from those in which its first, a middle or its last line is another."""

    def table(written):
        def make():
            path.write_text("\n".join([*head, *written]) + "\n", encoding="utf-8")
            return path

        return Table(make, options)

    first, found = seen(table(lines), fit), []
    for place in (0, len(lines) // 2, len(lines) - 1):
        second = seen(table([*lines[:place], line, *lines[place + 1 :]]), fit, first)
        found += differences(first, second, Changed(place, may_refuse=may_refuse, private=PRIVATE))
    return found


DECLARED = {
    "a schema": {"schema": Shape("zeros and ones").schema()},
    "a schema that ignores the rest": {"schema": Shape("ignored").schema()},
    "columns": {"columns": ["x", "a"], "missing": 0.0},
    "nothing": {},
}


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.usefixtures("released_alone")
def test_a_line_of_json_changes_its_own_row_alone(case, declared, tmp_path):
    line, as_it_should_be = KEYS[case]
    values = Shape("zeros and ones").values()
    lines = [f'{{"x": {as_json(x)}, "a": {as_json(a)}}}' for x, a in zip(*values.values(), strict=True)]
    options = DECLARED[declared]
    fit = fitted if options else None
    may_refuse = not as_it_should_be
    assert not compared_lines(tmp_path / "table.jsonl", [], lines, line, options, may_refuse=may_refuse, fit=fit)


@pytest.mark.parametrize("case", FIELDS)
@pytest.mark.parametrize("column", ["words", "ignored"])
@pytest.mark.usefixtures("released_alone")
def test_a_line_of_csv_changes_its_own_row_alone(case, column, tmp_path):
    line, as_it_should_be = FIELDS[case]
    lines = [f"{as_text(x)},{as_text(a)}" for x, a in zip(*Shape(column).values().values(), strict=True)]
    for options in ({"schema": Shape(column).schema()}, {"columns": ["x"], "missing": 0.0}):
        found = compared_lines(
            tmp_path / "table.csv", ["x,a"], lines, line, options, may_refuse=not as_it_should_be, fit=fitted
        )
        assert not found


# Rows that come in an order of their own.

SORTED = {
    "Polars lazy": lambda frame: pl.from_pandas(frame).lazy().sort("a"),
    "DuckDB": lambda frame: duckdb.from_df(frame).order("a"),
    # A connection each: one has one open result.
    "DuckDB stream": lambda frame: duckdb.connect().from_df(frame).order("a").to_arrow_reader(),
}


@pytest.mark.parametrize("container", SORTED)
def test_rows_that_are_sorted_by_a_query_are_not_compared_by_their_places(container):
    rows = np.random.default_rng(3).normal(size=(400, 3)) * [3, 2, 1]
    frames = [pd.DataFrame(np.vstack([row, rows]), columns=list("abc")) for row in ([0.01, 0, 0], [99.0, 0, 0])]
    tables = [Table(functools.partial(SORTED[container], frame)) for frame in frames]
    assert not compared(*tables, Changed(0), lambda data, _: PrivatePCA(1, epsilon=20.0).fit(data))


# Rows that try to move sums.

# As long as a bound allows, against and across one another; nothing; and far beyond.
HOSTILE = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1e308, -1e308, 5e-324]]
FEW, MANY = 40, 1200
ROWS = np.random.default_rng(1).uniform(-1, 1, size=(MANY, 3))
DELTAS, ADJACENCIES = (0.0, 1e-6), ("replace_one", "add_or_remove_one")
FITS = {
    "PCA, a norm": (FEW, PrivatePCA, {"norm_bound": 1.0}),
    "PCA, a norm, not centred": (FEW, PrivatePCA, {"norm_bound": 1.0, "center": False}),
    "PCA, ranges": (FEW, PrivatePCA, {"bounds": (-1, 1)}),
    "PCA, ranges, standardized": (FEW, PrivatePCA, {"bounds": (-1, 1), "standardize": True}),
    "PCA, raw": (FEW, PrivatePCA, {}),
    "PCA, raw, many rows": (MANY, PrivatePCA, {"epsilon": 30.0}),
    "PCA, standardized": (FEW, PrivatePCA, {"standardize": True}),
    **{f"PCA, {name}": (MANY, PrivatePCA, {"statistic": name, "epsilon": 10.0}) for name in STATISTICS},
    "PCA, two stages": (FEW, PrivatePCA, {"norm_bound": 1.0, "stages": 2}),
    "PCA, two stages, raw": (MANY, PrivatePCA, {"statistic": "clipped", "stages": 2, "epsilon": 12.0}),
    "covariance": (FEW, PrivateCovariance, {"norm_bound": 1.0}),
    "covariance, raw": (MANY, PrivateCovariance, {"epsilon": 30.0}),
    "sparse PCA": (FEW, PrivateSparsePCA, {"norm_bound": 1.0}),
    "ridge": (MANY, PrivateRidge, {"norm_bound": 1.0, "target": 0}),
    "ridge, raw": (MANY, PrivateRidge, {"epsilon": 30.0, "target": 0}),
    **{
        f"by {name}": (FEW, PrivatePCA, {"mechanism": name, "norm_bound": 1.0, "center": False})
        for name, mechanism in MECHANISMS.items()
        if not mechanism.baseline
    },
}


def makers():
    """Return what can be fitted: some parameters do not go together, whatever the rows."""
    found = []
    for name, (n_rows, kind, given) in FITS.items():
        components = {} if kind in (PrivateCovariance, PrivateRidge) else {"n_components": 1}
        for delta in DELTAS:
            for adjacency in ADJACENCIES:
                make = functools.partial(kind, **{"delta": delta, "adjacency": adjacency, **components, **given})
                with contextlib.suppress(InvalidParameterError):
                    make().plan(3, n_rows)
                    found.append(pytest.param(make, n_rows, adjacency, id=f"{name}-{delta:g}-{adjacency}"))
    return found


MAKERS = makers()


def moved(fit, first, others, more):
    """Return what tells tables apart from the first one."""
    before = seen(first, fit)
    assert before.error is None, before.error
    return [told for other in others for told in differences(before, seen(other, fit, before), Changed(0, more))]


@pytest.mark.parametrize(("make", "n_rows", "adjacency"), MAKERS)
@pytest.mark.usefixtures("released_alone")
def test_a_row_moves_what_is_private_by_what_the_noise_is_made_for(make, n_rows, adjacency):
    tables = [Table(functools.partial(np.vstack, [row, ROWS[:n_rows]])) for row in HOSTILE]
    more = int(adjacency != "replace_one")
    first = Table(lambda: ROWS[:n_rows]) if more else tables.pop(0)
    assert not moved(lambda data, _: make().fit(data), first, tables, more)


@pytest.mark.parametrize("weight", ["equal", "by_rows"])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    "given", [{"norm_bound": 1.0}, {"statistic": "clipped", "epsilon": 20.0}, {"epsilon": 20.0}], ids=str
)
@pytest.mark.usefixtures("released_alone")
def test_a_person_moves_what_is_private_by_what_the_noise_is_made_for(given, delta, weight):
    """A person of three rows becomes one of one row, or of five."""
    tables = []
    for count, row in zip((3, 1, 5, 3, 5), HOSTILE, strict=True):
        rows, people = np.vstack([[row] * count, ROWS[:300]]), [0] * count + [1 + place // 2 for place in range(300)]
        tables.append(Table(lambda rows=rows: rows, {"privacy_unit": people}))

    def fit(data, options):
        return PrivatePCA(1, delta=delta, unit_weight=weight, **given).fit(data, **options)

    assert not moved(fit, tables[0], tables[1:], 0)


def test_a_row_with_a_weight_moves_what_is_private_by_what_the_noise_is_made_for():
    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in HOSTILE]
    weights = np.linspace(1, 0, FEW + 1)

    def fit(data, _):
        return PrivatePCA(1, norm_bound=1.0).fit(data, sample_weight=weights)

    assert not moved(fit, tables[0], tables[1:], 0)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", [{}, {"delta": 0.01, "mechanism": "gaussian"}], ids=str)
def test_a_row_moves_a_map_of_scores_by_what_the_noise_is_made_for(adjacency, noise):
    known = PrivatePCA(2, epsilon=100.0, norm_bound=2.0, random_state=0).fit(ROWS).release_
    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in HOSTILE]
    more = int(adjacency != "replace_one")
    first = Table(lambda: ROWS[:FEW]) if more else tables.pop(0)

    def fit(data, _):
        return score_map(data, known, epsilon=1.0, adjacency=adjacency, **noise)

    assert not moved(fit, first, tables, more)


@pytest.mark.parametrize("n_rows", [0, 1])
@pytest.mark.parametrize("given", [{"bounds": (-1, 1)}, {"statistic": "clipped"}], ids=str)
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.usefixtures("released_alone")
def test_where_the_number_of_rows_is_private_few_of_them_tell_nothing(n_rows, given, delta, tmp_path):
    """As arrays, frames and files, of which that of lines has nothing in it where there are no rows."""

    def fit(data, options):
        return PrivatePCA(1, delta=delta, adjacency="add_or_remove_one", **given).fit(open_table(data, **options))

    def as_csv(rows):
        pd.DataFrame(rows, columns=list("abc")).to_csv(tmp_path / "table.csv", index=False)
        return tmp_path / "table.csv"

    def as_lines(rows):
        pd.DataFrame(rows, columns=list("abc")).to_json(tmp_path / "table.jsonl", orient="records", lines=True)
        return tmp_path / "table.jsonl"

    rows, more, columns = ROWS[:n_rows], np.vstack([HOSTILE[0], ROWS[:n_rows]]), {"columns": list("abc")}
    frame = functools.partial(pd.DataFrame, columns=list("abc"))
    for make, options in ((np.array, {}), (frame, {}), (as_csv, columns), (as_lines, columns)):
        tables = [Table(functools.partial(make, given), options) for given in (rows, more)]
        assert not moved(fit, tables[0], tables[1:], 1), make


def test_where_the_number_of_rows_is_private_no_refusal_depends_on_it():
    """At 24 bits int64 is sure to hold the sums of 2^14 - 1 rows."""

    def fit(data, _):
        moments = SecondMoments(RowBound(1.0, bits=24), 1).update(data)
        return release(MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=1, adjacency=ADJACENCIES[1]), moments)

    tables = [Table(functools.partial(np.zeros, (n_rows, 1))) for n_rows in (2**14 - 1, 2**14)]
    assert not compared(*tables, Changed(0, 1), fit)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(300))
@pytest.mark.usefixtures("released_alone")
def test_random_rows_move_what_is_private_by_what_the_noise_is_made_for(seed):
    """Twenty rows each against one drawn table: of any width, length and budget, by any way to fit."""
    generator = np.random.default_rng(seed)
    make, n_rows, adjacency = MAKERS[seed % len(MAKERS)].values
    rows, more = ROWS[: int(n_rows * generator.uniform(0.9, 1))], int(adjacency != "replace_one")
    sizes = 10.0 ** generator.choice([-300, -12, -1, 0, 0, 0, 1, 12, 300], size=(21, 3))
    hostile = generator.normal(size=(21, 3)) * sizes * (generator.random((21, 3)) < 0.8)
    tables = [Table(functools.partial(np.vstack, [row, rows])) for row in hostile]
    first = Table(lambda: rows) if more else tables.pop(0)
    epsilon = make().epsilon * generator.uniform(1, 1.4)
    assert not moved(lambda data, _: make(epsilon=epsilon).fit(data), first, tables, more)


# Engines.


def cases_on(engine):
    """Return the tables that an engine holds."""
    containers = [name for name, on in ENGINES.items() if on == engine]
    return [(container, column) for container in containers for column in COLUMNS if holds(container, column)]


def engine_cells(column):
    """Return few cells, for every column other ones: jobs take long."""
    return ("None", "text", list(CELLS)[2 + list(COLUMNS).index(column)])


@pytest.mark.parametrize(("container", "column"), cases_on("dask"))
def test_a_cell_changes_its_own_row_alone_on_dask(container, column, tmp_path):
    pytest.importorskip("dask.dataframe", reason="needs eigenveil[dask]")
    fit = fitted if column == column_of(container) else None
    found, _ = replayed(container, Shape(column), engine_cells(column), tmp_path, fit=fit)
    assert not found


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session in local mode, for small jobs, far from UTC."""
    pytest.importorskip("pyspark", reason="needs eigenveil[spark]")
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        builder = SparkSession.builder.master("local[1]").appName("eigenveil replays")
        for name, value in options.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.mark.heavy  # the session alone takes longer than all other cells
@pytest.mark.parametrize(("container", "column"), cases_on("spark"))
@pytest.mark.usefixtures("spark")
def test_a_cell_changes_its_own_row_alone_on_spark(container, column, tmp_path):
    fit = fitted if column == column_of(container) else None
    found, _ = replayed(container, Shape(column), engine_cells(column), tmp_path, fit=fit)
    assert not found


# Controls: planted flaws are found.


def planted(patch, opened):
    """Read all tables by a function in place of `open_table`."""
    patch.setattr(replay, "open_table", opened)
    patch.setattr(inputs, "open_table", opened)


def inferred_truths(data, *args, **options):
    source = open_table(data, *args, **options)
    source.truths = tuple(np.isin(replay.encoded(source), (0, 1)).all(axis=0).tolist())
    return source


def order_of_first_row(data, *args, **options):
    return open_table(data[data.columns[np.argsort(data.iloc[0])]], *args, **options)


def labels_by_text(data, *args, **options):
    hits = np.array([[str(value) == label for label in ("1", "2", "3")] for value in data["a"]], dtype=float)
    return open_table(pd.DataFrame(hits, columns=list("bcd")))


def refused_by_value(data, *args, **options):
    if data["a"].iloc[0] > 1:
        raise InvalidDataError(f"The first row holds {data['a'].iloc[0]}, which is too much.")
    return open_table(data, *args, **options)


def warned_of_value(data, *args, **options):
    if data["a"].iloc[0] > 1:
        warnings.warn("The first row holds much.", stacklevel=2)
    return open_table(data, *args, **options)


READING = {
    "an inferred truth value": (inferred_truths, "truths"),
    "an order of columns that is read off rows": (order_of_first_row, "feature_names"),
    "a label matched by text": (labels_by_text, "other rows are encoded otherwise"),
    "a refusal by value": (refused_by_value, "alone is refused"),
    "a cell in a refusal": (refused_by_value, "private value"),
    "a warning by value": (warned_of_value, "warnings"),
}


@pytest.mark.parametrize("flaw", READING)
def test_control_what_reads_rows_is_found(flaw, monkeypatch):
    opened, expected = READING[flaw]
    codes = [1, 2, 3] * 8
    tables = [
        Table(lambda a=a: pd.DataFrame({"a": a, "x": [1, 0] * 12})) for a in ([1, *codes[1:]], [31337.5, *codes[1:]])
    ]
    if flaw == "an inferred truth value":
        tables = [Table(lambda a=a: pd.DataFrame({"a": a, "x": [1, 0] * 12})) for a in ([1] * 24, [2] + [1] * 23)]
    changed = Changed(0, private=PRIVATE)

    def fit(data, _):
        return PrivatePCA(1, norm_bound=5.0).fit(data)

    assert not compared(*tables, changed, fit)
    planted(monkeypatch, opened)
    assert any(expected in told for told in compared(*tables, changed, fit))


def smaller(function, factor):
    """Return the same sensitivity, too small by a factor."""
    return lambda *args: function(*args) / Fraction(factor)


NOISE = {
    "Gaussian noise, 1.2 times too small": (
        lambda patch: patch.setattr(
            gaussian, "frobenius_with_trace_squared", smaller(gaussian.frobenius_with_trace_squared, "1.44")
        ),
        {"norm_bound": 1.0, "center": False, "delta": 1e-6, "mechanism": "gaussian", "stages": 1},
        "this pair costs",
    ),
    "matrix Laplace noise, 1.2 times too small": (
        lambda patch: patch.setattr(
            MatrixLaplace, "noise_scale", lambda self, before=MatrixLaplace.noise_scale: before(self) / 1.2
        ),
        {"norm_bound": 1.0, "center": False, "mechanism": "matrix_laplace"},
        "this pair costs",
    ),
    "noise by the Frobenius norm, 1.2 times too small": (
        lambda patch: patch.setattr(frobenius, "frobenius_squared", smaller(frobenius.frobenius_squared, "1.44")),
        {"norm_bound": 1.0, "center": False, "mechanism": "frobenius"},
        "this pair costs",
    ),
    "a grid 1.2 times too small": (
        lambda patch: patch.setattr(
            RowRule, "limit_squared", property(lambda self: int(4**self.bits * self.comparisons / 1.2))
        ),
        {"norm_bound": 1.0, "center": False, "mechanism": "matrix_laplace"},
        "where 1 is calibrated",
    ),
    "a sum of rows, 1.2 times too small": (
        lambda patch: patch.setattr(gate, "sum_squared", lambda adjacency: 4 / 1.44),
        {"norm_bound": 1.0, "delta": 1e-6, "stages": 2},
        "times what is calibrated",
    ),
    "rows that are counted twice": (
        lambda patch: patch.setattr(RowSizes, "above", lambda self, before=RowSizes.above: 2 * before(self)),
        {"statistic": "clipped", "epsilon": 20.25},
        "one row has moved counts",
    ),
}


@pytest.mark.parametrize("flaw", NOISE)
def test_control_noise_that_is_too_small_is_found(flaw, monkeypatch):
    plant, given, expected = NOISE[flaw]
    given = {"epsilon": 1.3125, **given}  # that no other test has: mechanisms are kept
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, 1.0, 1.0]]
    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in rows]

    def fit(data, _):
        return PrivatePCA(1, **given).fit(data)

    plant(monkeypatch)
    assert any(expected in told for told in moved(fit, tables[0], tables[1:], 0))


def test_control_a_draw_of_its_own_is_found(monkeypatch):
    def jittered(self, sums=SecondMoments.check_whole):
        secure_generator().normal()
        sums(self)

    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in HOSTILE[:2]]
    monkeypatch.setattr(SecondMoments, "check_whole", jittered)
    found = compared(*tables, Changed(0), lambda data, _: PrivatePCA(1, norm_bound=1.0).fit(data))
    assert found == ["other draws: something was drawn where the replay knows no meeting"]


def test_control_a_refusal_after_the_draw_is_found(monkeypatch):
    def late(self, release):
        if self.first < 0:
            raise InvalidDataError("This table is refused too late.")

    def fit(data, _):
        model = PrivatePCA(1, norm_bound=1.0)
        model.first = float(data[0, 0])
        return model.fit(data)

    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in HOSTILE[:2]]
    monkeypatch.setattr(PrivatePCA, "_interpret", late)
    assert compared(*tables, Changed(0, may_refuse=True), fit) == ["refused when something was drawn already"]


def test_control_a_private_number_in_the_open_is_found(monkeypatch):
    def told(self, release, before=PrivatePCA._interpret):
        before(self, release)
        self.first_ = self.first

    def fit(data, _):
        model = PrivatePCA(1, norm_bound=1.0)
        model.first = float(data[0, 0])
        return model.fit(data)

    tables = [Table(functools.partial(np.vstack, [row, ROWS[:FEW]])) for row in HOSTILE[:2]]
    monkeypatch.setattr(PrivatePCA, "_interpret", told)
    assert any("first_" in told for told in compared(*tables, Changed(0), fit))
