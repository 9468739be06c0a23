"""Files of text are read by what is declared: no cell, key or quote of one row changes how other rows are read."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA
from eigenveil.errors import EigenveilError
from eigenveil.moments import RowBound
from eigenveil.tables import text as delimited
from eigenveil.tables.open import draft_schema, open_table, second_moments
from eigenveil.tables.schema import Column, Schema
from helpers import assert_one_sentence

KEY = "treated_for_hepatitis_c"
ROWS = [{"age": a, "dose": b} for a, b in np.random.default_rng(0).uniform(size=(300, 2)).tolist()]
MATRIX = np.array([list(row.values()) for row in ROWS])


def lines(path, rows, mark=""):
    path.write_text(mark + "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def replaced(rows, at, row):
    return [*rows[:at], row, *rows[at + 1 :]]


def read(*data, **options):
    source = open_table(*data, **options)
    return np.vstack([*source.batches(), np.empty((0, source.n_features))])


def refusal(call, *private):
    with pytest.raises(EigenveilError) as caught:
        call()
    assert_one_sentence(caught.value)
    for word in private:
        assert word not in str(caught.value)
    return str(caught.value)


# JSON lines: columns are declared


ODD_ROWS = {
    "a key of its own": {"age": 0.5, "dose": 0.1, KEY: 1.0},
    "a key of its own with text": {"age": 0.5, "dose": 0.1, KEY: "since 2019"},
    "another order": {"dose": 0.1, "age": 0.5},
    "no key": {"dose": 0.1},
    "no keys": {},
}


@pytest.mark.parametrize("odd", ODD_ROWS)
def test_one_row_of_json_lines_changes_no_name_and_no_other_row(tmp_path, odd):
    at = 0 if odd == "no keys" else 123
    path = lines(tmp_path / "a.jsonl", replaced(ROWS, at, ODD_ROWS[odd]))
    told = refusal(lambda: PrivateCovariance(norm_bound=2.0).fit(path), KEY)
    assert "columns" in told
    assert "schema" in told
    source = open_table(path, ["age", "dose"], missing=0.25)
    assert source.feature_names == ("age", "dose")
    expected = MATRIX.copy()
    expected[at] = [ODD_ROWS[odd].get(name, 0.25) for name in ("age", "dose")]
    np.testing.assert_array_equal(np.vstack(list(source.batches())), expected)
    model = PrivateCovariance(epsilon=99.0, norm_bound=2.0).fit(open_table(path, ["age", "dose"], missing=0.0))
    assert model.release_.feature_names == ("age", "dose")


@pytest.mark.parametrize("options", [{}, {"categories": {"age": ["1"]}}, {"privacy_unit": "age"}, {"missing": 0.0}])
def test_json_lines_without_columns_are_refused_before_a_line_is_read(tmp_path, options):
    for content in ("", "no JSON", json.dumps({KEY: 1})):
        (tmp_path / "a.jsonl").write_text(content)
        assert "not declared" in refusal(lambda: open_table(tmp_path / "a.jsonl", **options), KEY)


def test_a_declared_key_that_nobody_has_is_a_missing_value(tmp_path):
    for at in (None, 7):
        rows = ROWS if at is None else replaced(ROWS, at, {**ROWS[at], "rare": 1.0})
        path = lines(tmp_path / "a.jsonl", rows)
        found = read(path, ["age", "rare"], missing=0.0)
        assert found[:, 1].tolist() == [float(row == at) for row in range(len(rows))]
        schema = Schema((Column("age", missing=0), Column("rare", "category", categories=("x",))))
        assert read(path, schema=schema)[:, 1].tolist() == [0.0] * len(rows)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # such a release is noise alone
def test_an_empty_table_is_the_same_in_every_format(tmp_path):
    (tmp_path / "a.csv").write_text("age,dose\n")
    for content in (b"", b"\n\n", b"\xef\xbb\xbf"):
        (tmp_path / "a.jsonl").write_bytes(content)
        for data in (tmp_path / "a.jsonl", tmp_path / "a.csv", pd.DataFrame({"age": [0.5], "dose": [0.5]})[:0]):
            source = open_table(data, ["age", "dose"])
            model = PrivateCovariance(adjacency="add_or_remove_one", norm_bound=1.0).fit(source)
            assert model.release_.feature_names == ("age", "dose")
            assert "rows; give at least one" in refusal(
                lambda source=source: PrivateCovariance(norm_bound=1.0).fit(source)
            )
            assert second_moments(source, RowBound(1.0)).n_rows == 0
    (tmp_path / "a.jsonl.gz").write_bytes(b"")  # no empty file is that short when it is compressed
    assert "truncated" in refusal(lambda: read(tmp_path / "a.jsonl.gz", ["age"]))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b""))
    assert len(read(tmp_path / "a.jsonl.gz", ["age"])) == 0


# JSON lines: value by value


EVERY_KIND = Schema(
    (
        Column("number", missing=-1),
        Column("label", "category", categories=("x", "1", "true", "0.5")),
        Column("flag", "boolean", missing=False),
        Column("day", "date", missing="1970-01-01"),
    )
)
VALUES = [
    ({"number": 1, "label": "x", "flag": True, "day": "2020-01-01"}, [1, 1, 0, 0, 0, 1, 18262]),
    ({"number": 2.5, "label": 1, "flag": "no", "day": None}, [2.5, 0, 1, 0, 0, 0, 0]),
    ({"number": None, "label": 1.0, "flag": 1, "other": [1, {}]}, [-1, 0, 1, 0, 0, 1, 0]),
    ({"label": True, "flag": 1.0}, [-1, 0, 0, 1, 0, 1, 0]),
    ({"number": -3, "label": "true", "flag": "TRUE"}, [-3, 0, 0, 1, 0, 1, 0]),
    ({"number": 1e300, "label": 0.5, "flag": None}, [1e300, 0, 0, 0, 1, 0, 0]),
    ({"label": "y"}, [-1, 0, 0, 0, 0, 0, 0]),
]


@pytest.mark.parametrize(("block", "mark"), [(1, ""), (7, "\ufeff"), (2**22, "")])
def test_json_lines_are_read_value_by_value(tmp_path, monkeypatch, block, mark):
    monkeypatch.setattr(delimited, "_BLOCK", block)
    generator = np.random.default_rng(3)
    for _ in range(20):
        order = generator.integers(len(VALUES), size=5)
        path = lines(tmp_path / "a.jsonl", [VALUES[at][0] for at in order], mark)
        np.testing.assert_array_equal(read(path, schema=EVERY_KIND), [VALUES[at][1] for at in order])


@pytest.mark.parametrize(("odd", "at"), [('"secret"', 0), ("true", 250), ('{"secret": 1}', 0), ('"3.5"', 250)])
def test_what_is_no_number_is_refused_by_the_name_that_was_declared(tmp_path, odd, at):
    rows = [json.dumps(row) for row in ROWS]
    rows[at] = f'{{"age": {odd}, "dose": 0.5}}'
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    told = refusal(lambda: read(tmp_path / "a.jsonl", ["dose", "age"]), "secret", "3.5")
    assert "numbers in the column 'age'" in told
    assert len(read(tmp_path / "a.jsonl", ["dose"])) == len(ROWS)


ODD_LINES = ["secret", "[1]", "null", "3", '{"age": 1', '{"age": 1}{"age": 2}', '{"age": 1} {"age": 2}', "{age: 1}"]


@pytest.mark.parametrize("line", [*ODD_LINES, '{"age": 1}\r{"age": 2}', '{"x":' * 100_000, '{"age": ' + "9" * 5000])
def test_a_line_is_one_object_or_refused(tmp_path, line):
    (tmp_path / "a.jsonl").write_bytes(b'{"age": 1}\n' + line.encode() + b"\n")
    told = refusal(lambda: read(tmp_path / "a.jsonl", ["age"]), "secret")
    assert "no JSON object" in told


def test_odd_bytes_and_values_of_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"age": "\xff"}\n')
    refusal(lambda: read(path, ["age"]))
    path.write_bytes(b'{"age": "\\ud800", "sex": "F"}\n')  # half a character
    refusal(lambda: read(path, ["age", "sex"], categories={"age": ["x"], "sex": ["F"]}))
    path.write_bytes(b'{"age": ["secret"]}\n')
    told = refusal(lambda: read(path, ["age"], categories={"age": ["x"]}), "secret")
    assert "a list or an object in the column 'age'" in told
    path.write_bytes(b'{"age": NaN}\r\n\r\n{"age": 1e999}\r\n{"age": ' + b"9" * 400 + b"}")
    assert read(path, ["age"], missing=0.0).ravel().tolist() == [0.0, 0.0, 0.0]  # infinity is missing too
    path.write_text(json.dumps({"größe": 1.0}, ensure_ascii=False), encoding="utf-16")
    assert read(path, ["größe"], encoding="utf-16").tolist() == [[1.0]]
    assert "no column 0" in refusal(lambda: open_table(path, [0]))


# CSV: one cell decides nothing about its column


def csv_of(path, cells, names):
    path.write_text("\n".join(",".join(row) for row in [names, *cells]) + "\n")
    return path


FLAGS = ["smoker", "diabetic", "asthma"]
CELLS = [[str(value) for value in row] for row in np.random.default_rng(0).integers(0, 2, size=(200, 3))]


def test_a_truth_word_makes_no_column_of_truth_values(tmp_path):
    number = Schema(tuple(Column(name, missing=0) for name in FLAGS))
    for cells in (CELLS, replaced(CELLS, 123, ["true"] * 3), [["true"] * 3] * 200, [[""] * 3] * 200):
        path = csv_of(tmp_path / "a.csv", cells, FLAGS)
        for options in ({}, {"columns": FLAGS}, {"schema": number}):
            source = open_table(path, **options)
            assert source.truths == (False,) * 3  # the same plan, whatever the cells say
            if ["true"] * 3 in cells:
                told = refusal(lambda source=source: list(source.batches()))
                assert "declare it boolean" in told
                assert any(f"{name!r}" in told for name in FLAGS) == bool(options)  # threads decide which is met first
        flags = Schema(tuple(Column(name, "boolean", missing=False) for name in FLAGS))
        assert open_table(path, schema=flags).truths == (True,) * 3
        assert set(read(path, schema=flags).ravel()) <= {0.0, 1.0}


def test_a_refused_cell_costs_nothing(tmp_path):
    path = csv_of(tmp_path / "a.csv", replaced(CELLS, 190, ["1", "true", "0"]), FLAGS)
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=3.0, data_set="a")
    for options in ({}, {"bounds": (0, 1)}, {"statistic": "clipped"}):
        refusal(lambda options=options: PrivatePCA(1, ledger=ledger, **options).fit(path))
    assert ledger.spent == (0.0, 0.0)


# CSV: quotes


def test_text_inside_of_a_cell_is_never_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 2**12)
    head = 'value,note\n1,a 5" pipe\n'
    filler = "1,ok\n" * ((2**12 - len(head) - 20) // 5)
    cell = '2,"thanks\n' + "1000000,x\n" * 500 + '1000000,bye"\n'
    path = tmp_path / "a.csv"
    path.write_text(head + filler + cell + "1,ok\n" * 100)
    expected = pd.read_csv(path)["value"].tolist()
    assert expected.count(1_000_000) == 0
    for options in ({"columns": ["value"]}, {"columns": ["value", "note"], "categories": {"note": ["ok"]}}):
        assert read(path, **options)[:, 0].tolist() == expected


@pytest.mark.parametrize("cell", ['4,4,"he said', '4,4,"', '4,4,"a"b', '4,4,"a" ', '"4"5,4,x', '"4,4,x'])
@pytest.mark.parametrize(("at", "block"), [(4, 2**22), (299, 64)])
def test_a_broken_quote_never_removes_rows(tmp_path, monkeypatch, cell, at, block):
    monkeypatch.setattr(delimited, "_BLOCK", block)
    rows = replaced([f"{i % 7},{i % 5},note {i}" for i in range(300)], at, cell)
    path = tmp_path / "a.csv"
    path.write_text("a,b,note\n" + "\n".join(rows) + "\n")
    told = refusal(lambda: read(path, ["a", "b"]), "he said")
    assert "quote" in told


def test_a_field_longer_than_python_reads_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"' + "x" * 200_000 + '"\n')
    assert "more than 131072 characters" in refusal(lambda: read(path, ["a"]))
    path.write_text("a,b\n1," + "x" * 200_000 + "\n")
    assert read(path, ["a"]).tolist() == [[1.0]]


def test_two_counts_of_rows_must_agree(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x"\n2,y\n')
    counted = delimited.whole_rows
    monkeypatch.setattr(
        delimited, "whole_rows", lambda *given: ((block, n_rows + 1) for block, n_rows in counted(*given))
    )
    assert "two ways" in refusal(lambda: read(path, ["a"]))


# Drafts guess, and nothing else does


def test_a_draft_guesses_and_no_fit_does(tmp_path):
    csv_text = "age,sex,member,day,empty\n1.5,F,true,2020-01-01,\nNA,M,False,2021-01-01T10:00,\n"
    (tmp_path / "a.csv").write_text(csv_text)
    (tmp_path / "a.tsv").write_text(csv_text.replace(",", "\t"))
    row = {"age": 1.5, "sex": "F", "member": True, "day": "2020-01-01", "empty": None}
    lines(tmp_path / "a.jsonl", [{"age": None}, row, {"sex": "3"}], "\ufeff")
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        draft = draft_schema(tmp_path / name)
        kinds = {column.name: column.kind for column in draft.columns}
        assert kinds == {"age": "number", "sex": "ignored", "member": "boolean", "day": "date", "empty": "number"}
        assert [column.name for column in draft_schema(tmp_path / name, ["sex", "age"]).columns] == ["sex", "age"]
    for text in ("Ann,Rome\nBob,Lima\n", "Ann,Rome\nBob,\n", "Ann,Rome\n", "Ann,2020-01-01\nBob,2021-01-01\n"):
        (tmp_path / "a.csv").write_text(text)
        refusal(lambda: draft_schema(tmp_path / "a.csv"), "Ann", "Rome")
    code = (
        "import sys\n"
        "from eigenveil import PrivateCovariance, Schema\n"
        "from eigenveil.tables.open import open_table\n"
        "for name in ('b.csv', 'b.jsonl'):\n"
        "    PrivateCovariance(epsilon=9.0, bounds=(0, 1)).fit(open_table(name, ['age', 'dose']))\n"
        "assert 'eigenveil.tables.guesses' not in sys.modules\n"
    )
    lines(tmp_path / "b.jsonl", ROWS)
    pd.DataFrame(ROWS).to_csv(tmp_path / "b.csv", index=False)
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=tmp_path)
