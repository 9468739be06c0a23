"""A format is one line in FORMATS, an engine one entry in ENGINES: everything else takes them from there."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil.cli import app
from eigenveil.errors import EngineError, InvalidDataError, InvalidParameterError
from eigenveil.moments import RowBound
from eigenveil.tables.base import Engine, EngineSource, FileReader
from eigenveil.tables.files import FORMATS
from eigenveil.tables.open import ENGINES, open_source, open_table, open_with_engine, second_moments
from helpers import refused

BOUND = RowBound(5.0)
ROWS = np.random.default_rng(3).normal(size=(40, 3))
SENTINEL = "987654321"


class JsonFile(FileReader):
    """A list of records in a JSON file, as a further format would be read."""

    def _read_schema(self):
        import pyarrow as pa

        self._table = pa.Table.from_pylist(json.loads(self.path.read_text()))
        self._schema = self._table.schema
        return self._table.column_names

    def read(self, columns, step):
        for start in range(0, self._table.num_rows, step):
            yield self._table.select(columns).slice(start, step)


class NumberedFile(FileReader):
    """Rows of text without names."""

    numbered = True

    def _read_schema(self):
        self._rows = np.loadtxt(self.path, ndmin=2)
        return range(self._rows.shape[1])

    def read(self, columns, step):
        for start in range(0, len(self._rows), step):
            yield self._rows[start : start + step, columns]


class Pile:
    """The collection of an engine that there is not."""

    def __init__(self, parts, columns=("a", "b", "c")):
        self.parts, self.columns = parts, columns


class PileSource(EngineSource):
    def __init__(self, pile, columns):
        self._pile, self.feature_names = pile, tuple(columns or pile.columns)
        self._positions = [pile.columns.index(name) for name in self.feature_names]
        self.n_features = len(self.feature_names)

    def collect(self, make):
        total = make()
        for part in self._pile.parts:
            total = total + make().update(part[:, self._positions])
        return total


def open_pile(data, declared):
    return PileSource(data, declared.columns) if isinstance(data, Pile) else None


def read_pile(places, declared):
    return Pile([np.loadtxt(place, delimiter=",", skiprows=1, ndmin=2) for place in places])


@pytest.fixture
def pile(monkeypatch):
    engine = Engine("pile", open_pile, {".csv": read_pile})
    monkeypatch.setitem(ENGINES, "pile", engine)
    return engine


@pytest.fixture
def json_format(monkeypatch):
    monkeypatch.setitem(FORMATS, ".json", JsonFile)


def write_csv(path, rows, header="a,b,c"):
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")
    return path


def write_json(path, rows, **more):
    records = [dict(zip("abc", row, strict=True)) for row in rows.tolist()]
    for name, values in more.items():
        for record, value in zip(records, values, strict=True):
            record[name] = value
    path.write_text(json.dumps(records))
    return path


# Formats


def test_a_further_format_is_read_with_columns_categories_and_missing_numbers(json_format, tmp_path):
    path = write_json(tmp_path / "rows.JSON", ROWS, sex=["F", None] * 20, age=[None, 1.0] * 20)
    assert second_moments(path, BOUND, columns=list("abc")) == second_moments(ROWS, BOUND)
    source = open_table(path, ["c", "sex", "age"], categories={"sex": ["F"]}, missing=7)
    expected = np.column_stack([ROWS[:, 2], [1, 0] * 20, [7, 1] * 20])
    assert np.array_equal(np.concatenate(list(source.batches())), expected)


def test_a_further_format_makes_parts_of_one_table_with_the_others(json_format, tmp_path):
    parts = [write_csv(tmp_path / "1.csv", ROWS[:10]), write_json(tmp_path / "2.json", ROWS[10:])]
    assert second_moments(parts, BOUND) == second_moments(ROWS, BOUND)


def test_what_a_further_reader_raises_is_one_sentence(json_format, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(f"[{{'a': {SENTINEL}")
    with refused(InvalidDataError, SENTINEL) as caught:
        open_source(path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_errors_and_commands_know_a_further_format(json_format, monkeypatch, tmp_path):
    with refused(InvalidDataError) as caught:
        open_source(tmp_path / "rows.xlsx")
    assert ".json" in str(caught.value)
    monkeypatch.setitem(FORMATS, ".txt", NumberedFile)
    np.savetxt(tmp_path / "rows.txt", ROWS)
    words = ["--epsilon", "1", "--norm-bound", "5", "--output", str(tmp_path / "a.npz"), "--json"]
    for name, columns in (("rows.txt", "2,0"), ("rows.json", "c,a")):
        write_json(tmp_path / "rows.json", ROWS)
        told = CliRunner().invoke(app, ["covariance", str(tmp_path / name), "--columns", columns, *words, "--force"])
        assert told.exit_code == 0, told.output
    with refused(InvalidParameterError) as caught:
        CliRunner().invoke(
            app, ["covariance", str(tmp_path / "rows.txt"), "--columns", "a", *words], catch_exceptions=False
        )
    assert "has no column names" in str(caught.value)


# Engines


def test_the_collections_of_a_further_engine_are_data(pile):
    data = Pile(np.array_split(ROWS, 4))
    assert second_moments(data, BOUND) == second_moments(ROWS, BOUND)
    assert open_source(data, ["c", "a"]).feature_names == ("c", "a")
    with refused(InvalidDataError):
        open_table(data, missing=0.0)
    with refused(InvalidDataError):
        open_table(data, categories={"a": ["1"]})
    with refused(InvalidDataError):
        next(open_source(data).batches())


def test_a_further_engine_reads_files(pile, tmp_path):
    paths = [write_csv(tmp_path / f"{number}.csv", part) for number, part in enumerate(np.array_split(ROWS, 2))]
    assert second_moments(open_with_engine(paths, "pile"), BOUND) == second_moments(ROWS, BOUND)
    with refused(InvalidDataError) as caught:
        open_with_engine([tmp_path / "a.parquet"], "pile")
    assert str(caught.value).endswith("its name must end in .csv.")


def test_a_further_engine_is_an_option_of_commands(pile, tmp_path):
    path = str(write_csv(tmp_path / "rows.csv", ROWS))
    words = ["covariance", path, "--engine", "pile", "--epsilon", "1", "--norm-bound", "5", "--output"]
    told = CliRunner().invoke(app, [*words, str(tmp_path / "a.npz"), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["feature_names"] == ["a", "b", "c"]
    with refused(InvalidParameterError) as caught:
        open_with_engine([path], "heap")
    assert "'pile'" in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [(ImportError(SENTINEL), EngineError, "eigenveil[pile]"), (ValueError(SENTINEL), InvalidDataError, "Pile cannot")],
)
def test_what_a_further_engine_raises_is_one_sentence(monkeypatch, tmp_path, error, kind, told):
    def failing(places, declared):
        raise error

    monkeypatch.setitem(ENGINES, "pile", Engine("pile", open_pile, {".csv": failing}))
    with refused(kind, SENTINEL) as caught:
        open_source(open_with_engine([write_csv(tmp_path / "a.csv", ROWS)], "pile"))
    assert told in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_no_engine_takes_a_row_of_numbers_for_a_header(monkeypatch, tmp_path):
    read = {".csv": lambda places, declared: Pile([ROWS], (SENTINEL, "0.5", "1.5"))}
    monkeypatch.setitem(ENGINES, "pile", Engine("pile", open_pile, read))
    with refused(InvalidDataError, SENTINEL):
        open_source(open_with_engine([write_csv(tmp_path / "a.csv", ROWS, f"{SENTINEL},0.5,1.5")], "pile"))
