"""A schema is a public record: validated whole, written and read back, drafted from names and types alone."""

import itertools
import json
import pickle
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from eigenveil import Schema
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.tables.open import draft_schema, open_table
from eigenveil.tables.schema import Column
from helpers import refused

SCHEMA = Schema(
    (
        Column("id", "ignored"),
        Column("age", range=(0, 120.5), unit="years"),
        Column("mass", range=(0, 300), missing="indicator"),
        Column("income", range=(0, 1e6), missing=2e4),
        Column("sex", "category", categories=("F", "M"), missing="indicator"),
        Column("member", "boolean", missing="middle"),
        Column("visit", "date", range=("2020-01-01", "2020-01-11"), missing="2020-01-02"),
    ),
    "Ada Lovelace",
    "2026-01-31",
)
AWKWARD = [
    "yes",
    "no",
    "null",
    "~",
    "010",
    "1e3",
    "a, b",
    "- x",
    "#c",
    "k: v",
    "'q\"",
    "ü€😀",
    "two\nlines",
    "\x7f",
    "[x]",
    "!t",
    "&a",
    "*a",
]


def column(**keys):
    return {"version": 1, "columns": {"a": keys}}


def test_features_bounds_and_norm_follow():
    assert SCHEMA.feature_names == (
        "age", "mass", "mass=missing", "income", "sex=F", "sex=M", "sex=missing", "member", "visit",
    )  # fmt: skip
    low, high = SCHEMA.bounds
    assert low == [0, 0, -1, 0, -1, -1, -1, 0, 18262]
    assert high == [120.5, 300, 1, 1e6, 1, 1, 1, 1, 18272]
    assert len(SCHEMA.used) == 6
    assert SCHEMA.sizes == [60.25, 150, 1, 5e5, 1, 1, 1, 0.5, 5]
    assert [one.fill for one in SCHEMA.used] == [None, 150, 2e4, None, 0.5, 18263]
    assert SCHEMA.without("age").feature_names == SCHEMA.feature_names[1:]


def test_one_range_too_few_leaves_sizes():
    schema = Schema((Column("a", range=(0, 4)), Column("b", scale=3), Column("c")))
    assert schema.bounds is None
    assert schema.sizes == [2, 3, 1]


@pytest.mark.parametrize("unit", [("second", 86400), ("minute", 1440), ("hour", 24), ("day", 1), ("week", 1 / 7)])
def test_dates_in_their_units(unit):
    name, per_day = unit
    low, high = Column("a", "date", unit=name, range=("1970-01-02", date(1970, 1, 3))).limits
    assert (low, high) == (per_day, 2 * per_day)
    assert Column("a", "date", unit=name).date_number("1970-01-02T01:00:00+01:00") == per_day


def test_it_travels(tmp_path):
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA
    assert Schema.from_dict(json.loads(json.dumps(SCHEMA.to_dict(), sort_keys=True))) == SCHEMA
    path = SCHEMA.save(tmp_path / "table.yaml")
    assert Schema.load(path) == SCHEMA
    with refused(InvalidParameterError):
        SCHEMA.save(path)
    SCHEMA.without("age").save(path, overwrite=True)
    assert Schema.load(path) != SCHEMA


@pytest.mark.parametrize("word", AWKWARD)
def test_no_word_is_taken_for_something_else(word, tmp_path):
    schema = Schema((Column(word, "category", categories=(word, "other")), Column("b", unit=word)), word)
    schema = replace(schema, table=word, period=word)
    assert Schema.load(schema.save(tmp_path / "a.yaml")) == schema


def test_what_a_person_writes_is_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "version: 1\ndeclared_on: 2026-01-31\ncolumns:\n"
        "  no:\n    kind: category\n    categories: [yes, no, 010, null ]\n"
        "  2024: {range: [0, 1e3]}\n  visit:\n    kind: date\n    range: [2020-01-01, 2021-01-01]\n".replace(
            ", null ]", "]"
        )
    )
    schema = Schema.load(path)
    assert schema.feature_names == ("no=yes", "no=no", "no=010", "2024", "visit")
    assert schema.columns[1].range == (0.0, 1000.0)


def test_a_table_and_a_period_are_told_and_a_schema_without_them_is_written_as_before():
    plain = Schema((Column("a"),))
    assert not {"table", "period"} & set(plain.to_dict())
    told = replace(plain, table="admissions", period="2024")
    assert Schema.from_dict(told.to_dict()) == told != plain
    assert "table: admissions\nperiod: '2024'\n" in told.to_yaml()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"columns": {}}, "must be a mapping"),
        ("private words", "must be a mapping"),
        ({"version": 2, "columns": {"a": {}}}, "version"),
        ({"version": 1}, "columns"),
        ({"version": 1, "columns": ["a"]}, "columns"),
        ({"version": 1, "colums": {}}, "did you mean columns"),
        ({"version": 1, "columns": {"a": {}}, "declared_on": "yesterday"}, "ISO date"),
        (column(rnage=[0, 1]), "did you mean range"),
        (column(zzz=1), "known are"),
        ({"version": 1, "columns": {"a": 3}}, "mapping"),
        (column(kind="numbre"), "did you mean number"),
        (column(range=[3, 3]), "kind ignored"),
        (column(range=[3, 2]), "lower end"),
        (column(range=[0, "inf"]), "finite"),
        (column(range=[True, 2]), "finite"),
        (column(range=[0]), "two values"),
        (column(range=[0, 1], scale=2), "scale"),
        (column(scale=0), "above 0"),
        (column(kind="category", range=[0, 1]), "no range"),
        (column(kind="ignored", missing=1), "no missing"),
        (column(categories="FM"), "list"),
        (column(categories=["F", " F"]), "more than once"),
        (column(categories=["F", ""]), "without a name"),
        (column(categories=["F"], missing="M"), "not one of its declared values"),
        (column(categories=["F"], missing="middle"), "not one of its declared values"),
        (column(categories=["missing"], missing="indicator"), "Two features"),
        (column(kind="boolean", missing="perhaps"), "not one of its declared values"),
        (column(missing="indicator"), "no range"),
        (column() | {"draft": "maybe"}, "true or false"),
        (column(missing="mean"), "finite"),
        (column(kind="date", range=["2020-01-01", "soon"]), "ISO dates"),
        (column(kind="date", range=[1, 2]), "ISO dates"),
        (column(kind="date", unit="fortnight"), "units"),
        ({"version": 1, "columns": {" ": {}}}, "needs a name"),
        ({"version": 1, "columns": {"a": {"kind": "privacy_unit"}, "b": {"kind": "privacy_unit"}}}, "more than one"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(content, told):
    with refused(InvalidParameterError, "private words") as caught:
        Schema.from_dict(content)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,secret\n",
        "name: secret\nother: secret\n",
        "version: 1\nversion: 1\ncolumns: {a: {}}\n",
        "version: 1\ncolumns: {a: &x {}, b: *x}\n",
        "version: 1\ncolumns: {a: !!python/object/apply:os.system [secret]}\n",
        "version: !!int 1\ncolumns: {a: {}}\n",
        "version: 1\ncolumns: {a: {}}\n---\nsecret: 1\n",
        "version: 1\ncolumns: [" * 1 + "[" * 5000,
        "version: 1\n? [secret]\n: 1\n",
        "version: 1\ncolumns:\n  a: {secret\n",
        "\tsecret",
        "",
        "version: 1\ncolumns: {a: {}}\n# " + "x" * 2**22,
    ],
)  # fmt: skip
def test_files_that_are_no_schema_are_refused_and_not_quoted(text, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with refused(InvalidParameterError, "secret") as caught:
        Schema.load(path)
    assert str(path) in str(caught.value)
    assert caught.value.__suppress_context__


def test_no_file_no_text(tmp_path):
    with refused(InvalidParameterError):
        Schema.load(tmp_path / "nowhere.yaml")
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with refused(InvalidParameterError):
        Schema.load(tmp_path / "a.yaml")
    with refused(InvalidParameterError):
        SCHEMA.save(tmp_path / "no" / "folder.yaml")


def test_duplicate_columns_and_no_columns_are_refused():
    with refused(InvalidParameterError):
        Schema((Column("a"), Column("a")))
    with refused(InvalidParameterError):
        Schema(({"name": "a"},))
    with refused(InvalidParameterError) as caught:
        Schema((Column("a", "ignored"),)).check_complete()
    assert "feature" in str(caught.value)
    with refused(InvalidParameterError) as caught:
        Schema((Column("a", "category"),)).check_complete()
    assert "categories" in str(caught.value)


# Drafts

FRAME = pd.DataFrame(
    {
        "age": [31, 7777],
        "mass": [70.5, np.nan],
        "city": ["Zanzibar", "Ulm"],
        "grade": pd.Categorical(["Zanzibar", "Ulm"], categories=["Zanzibar", "Ulm", "Xanten"]),
        "member": [True, False],
        "visit": pd.to_datetime(["1987-06-05", "1999-09-09"]),
        "span": pd.to_timedelta([7777, 1], unit="D"),
        "patient_id": [7777, 31],
        "valid": [1, 2],
    }
)
KINDS = ["number", "number", "ignored", "ignored", "boolean", "date", "ignored", "ignored", "number"]
MISSING = {"number": "middle", "boolean": "middle", "date": "middle", "ignored": None}
FRAMES = {
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "enum": pl.from_pandas(FRAME).with_columns(pl.col("grade").cast(pl.Enum(["Zanzibar", "Ulm", "Xanten"]))),
    "lazy": pl.from_pandas(FRAME).lazy(),
    "arrow": pl.from_pandas(FRAME).to_arrow(),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_draft_holds_names_and_types_and_no_value(kind):
    schema = Schema.from_frame_types(FRAMES[kind])
    assert [one.kind for one in schema.columns] == KINDS
    assert [one.name for one in schema.columns] == list(FRAME.columns)
    assert [one.missing for one in schema.columns] == [MISSING[kind] for kind in KINDS]
    for text in (schema.to_yaml(), repr(schema), json.dumps(schema.to_dict())):
        for value in ("Zanzibar", "Ulm", "Xanten", "7777", "70.5", "1987", "1999"):
            assert value not in text


def test_a_draft_is_the_same_whatever_the_rows(tmp_path):
    """So it does not tell whether a value is missing."""
    complete = FRAME.assign(mass=70.5)
    for number, rows in enumerate((FRAME, complete, complete.iloc[:1], pd.concat([FRAME] * 5, ignore_index=True))):
        rows.to_csv(tmp_path / f"{number}.csv", index=False)
        rows.to_parquet(tmp_path / f"{number}.parquet")
    assert len({draft_schema(tmp_path / f"{number}.csv").to_yaml() for number in range(4)}) == 1
    assert len({draft_schema(tmp_path / f"{number}.parquet").to_yaml() for number in range(4)}) == 1
    assert Schema.from_frame_types(FRAME) == Schema.from_frame_types(FRAME.iloc[:1])


def test_a_draft_loads_and_says_what_to_do_with_columns_that_it_leaves_out(tmp_path):
    draft = Schema.from_frame_types(FRAME)
    assert Schema.load(draft.save(tmp_path / "a.yaml")) == draft
    draft.check_complete()
    lines = draft.to_yaml().splitlines()
    assert all("  # " in line for line in lines if line.startswith("    kind: "))  # the reason
    left_out = {line.strip(" :"): after for line, after in itertools.pairwise(lines) if "kind: ignored" in after}
    assert list(left_out) == ["city", "grade", "span", "patient_id"]
    assert all("not used" in left_out[name] and "categories" in left_out[name] for name in ("city", "grade", "span"))
    assert "# an identifier" in left_out["patient_id"]
    assert "kind: privacy_unit" in left_out["patient_id"]


@pytest.mark.parametrize("name", ["id", "userId", "customer", "Person-Nr", "e_mail", "index", "rownames"])
def test_identifiers_by_name_are_left_out_of_a_draft_whatever_their_type(name, tmp_path):
    rows = pd.DataFrame({name: [1, 2], "age": [3, 4]})
    rows.to_csv(tmp_path / "a.csv", index=False)
    for data in (rows, tmp_path / "a.csv"):
        assert [one.kind for one in draft_schema(data).columns] == ["ignored", "number"]


def test_a_draft_says_so_in_its_first_line_until_it_is_confirmed(tmp_path):
    draft = draft_schema(FRAME)
    assert draft.draft
    assert Schema.from_dict(json.loads(json.dumps(draft.to_dict()))) == draft
    first, rest = draft.to_yaml().split("\n", 1)
    assert first.startswith("draft: true  # guessed from the table")
    assert "draft:" not in rest
    for written in (first.replace("true", "false", 1), ""):
        (tmp_path / "a.yaml").write_text(f"{written}\n{rest}")
        assert Schema.load(tmp_path / "a.yaml") == draft.confirmed()
    assert not draft.confirmed().draft
    assert not SCHEMA.draft
    for confirmed in (draft.confirmed(), SCHEMA):  # nothing but a draft speaks of drafts
        assert "draft" not in confirmed.to_dict()
        assert "draft" not in confirmed.to_yaml()


def test_a_draft_leaves_out_an_index_without_a_name(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv")
    assert [one.name for one in draft_schema(tmp_path / "a.csv").columns] == list(FRAME.columns)


def test_the_middle_follows_the_range_and_is_a_fixed_value_without_one():
    assert (Column("age", missing="middle").fill, Column("age", missing="middle").in_words()) == (0.0, "missing: 0")
    assert Column("age", range=(0, 120), missing="middle").fill == 60.0
    visit = Column("visit", "date", missing="middle")
    assert (visit.fill, visit.in_words()) == (visit.date_number("2000-01-01"), "missing: 2000-01-01")


@pytest.mark.parametrize(
    ("header", "row", "is_header"),
    [
        ("city,mass", "Rome,2.5", True),
        ("city,member", "Rome,true", True),
        ("city,day", "Rome,2020-01-31", True),
        ("land,1960,1961,1962", "Peru,6.7,6.6,", True),
        ("Peru,1960,1961,34", "Oslo,1970,1980,35", False),
        ("Peru,1,2,3", "Oslo,3,4,4", False),
        ("city,land", "Rome,Italy", False),  # which may be a row
        ("Oslo,false", "Rome,true", False),
        ("Oslo,2020-02-01", "Rome,2020-01-31", False),
    ],
)
def test_a_first_line_is_taken_for_names_where_it_cannot_be_a_row(header, row, is_header, tmp_path):
    (tmp_path / "a.csv").write_text(f"{header}\n{row}\n{row}\n")
    if is_header:
        assert [one.name for one in draft_schema(tmp_path / "a.csv").columns] == header.split(",")
    else:
        with refused(InvalidDataError, "Oslo", "2020", "Peru"):
            draft_schema(tmp_path / "a.csv")


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_a_draft_of_a_file_with_another_delimiter_names_it(sign, tmp_path):
    (tmp_path / "a.csv").write_text(f"city{sign}mass\nRome{sign}2.5\n")
    with refused(InvalidDataError, "Rome", "mass") as caught:
        draft_schema(tmp_path / "a.csv")
    assert f"delimiter={sign!r}" in str(caught.value)
    assert [one.kind for one in draft_schema(tmp_path / "a.csv", delimiter=sign).columns] == ["ignored", "number"]


def test_infinity_is_a_missing_value_where_there_is_a_rule_for_these(tmp_path):
    frame = pd.DataFrame({"a": [1.0, np.inf, -np.inf, np.nan], "b": [1.0, 2.0, 3.0, 4.0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    schema = Schema((Column("a", range=(0, 8), missing="indicator"), Column("b")))
    for data in (frame, tmp_path / "a.csv"):
        (rows,) = open_table(data, schema=schema).batches()
        assert np.asarray(rows).tolist() == [[1, 0, 1], [4, 1, 2], [4, 1, 3], [4, 1, 4]]
    sparse = scipy.sparse.csr_matrix(frame.to_numpy())
    (rows,) = open_table(sparse, missing=7.0).batches()
    assert rows.toarray()[:, 0].tolist() == [1, 7, 7, 7]


def test_a_draft_of_an_array_and_of_what_is_no_frame():
    assert [one.name for one in draft_schema(np.eye(3)).columns] == ["0", "1", "2"]
    with refused(InvalidParameterError, "secret"):
        Schema.from_frame_types({"a": "secret"})
