"""`eigenveil schema draft | check`, and `--schema` of the commands that read tables."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import Schema, load_release
from eigenveil.cli import app
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.schema import Column
from helpers import invoked as invoke

SCHEMA = Schema(
    (
        Column("age", range=(0, 120), missing="indicator"),
        Column("sex", "category", categories=("F", "M")),
        Column("income", range=(0, 70_000)),
    ),
    "the office",
    "2026-01-31",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 60, 2000)
    lines = [f"{'' if n % 9 == 0 else a},{1000 * a:.2f},{'FMX'[n % 3]},secret{n}" for n, a in enumerate(age)]
    (tmp_path / "people.csv").write_text("\n".join(["age,income,sex,name", *lines, ""]))
    monkeypatch.chdir(tmp_path)
    SCHEMA.save("people.yaml")
    return tmp_path


def test_a_draft_is_printed_or_written_and_overwrites_nothing(folder):
    printed = invoke("schema", "draft", "people.csv").stdout
    invoke("schema", "draft", "people.csv", "-o", "draft.yaml")
    assert (folder / "draft.yaml").read_text() == printed
    assert "secret" not in printed
    assert [one.kind for one in Schema.load("draft.yaml").columns] == ["number", "number", "category", "category"]
    invoke("schema", "draft", "people.csv", "-o", "people.csv", "--force", fails=InvalidParameterError)
    assert "--force" in invoke("schema", "draft", "people.csv", "-o", "people.yaml", fails=InvalidParameterError)
    assert Schema.load("people.yaml") == SCHEMA
    invoke("schema", "draft", "people.csv", "-o", "people.yaml", "--columns", "sex,age", "--force")
    assert [one.name for one in Schema.load("people.yaml").columns] == ["sex", "age"]
    assert "categories" in invoke("schema", "check", "draft.yaml", fails=InvalidParameterError)


def test_a_file_without_a_header_is_not_drafted(folder):
    (folder / "rows.csv").write_text("secret one,F\nsecret two,M\n")
    assert "--columns" in invoke("schema", "draft", "rows.csv", "-o", "a.yaml", fails=InvalidDataError)
    assert not (folder / "a.yaml").exists()
    (folder / "words.csv").write_text("name,sex\nsecret,M\n")
    invoke("schema", "draft", "words.csv", "--columns", "name,sex")


def test_check_tells_what_is_declared(folder):
    printed = invoke("schema", "check", "people.yaml").stdout
    for told in ("0 to 120; missing: indicator", "F, M", "5 features", "the office", "2026-01-31"):
        assert told in printed
    told = json.loads(invoke("schema", "check", "people.yaml", "--json").stdout)
    assert told["feature_names"] == ["age", "age=missing", "sex=F", "sex=M", "income"]
    assert invoke("schema", "check", "people.yaml", "--quiet").stdout == ""
    invoke("schema", "check", "people.csv", fails=InvalidParameterError)


def test_fits_by_schema(folder):
    told = json.loads(invoke("covariance", "people.csv", "--schema", "people.yaml", "--epsilon", 5, "--json").stdout)
    assert told["norm_bound"] == 3**0.5
    assert told["feature_names"] == ["age", "age=missing", "sex=F", "sex=M", "income"]
    assert load_release("release.npz").origin.schema == SCHEMA
    words = ("people.csv", "--schema", "people.yaml", "--epsilon", 5, "--json", "--force")
    assert len(json.loads(invoke("pca", *words, "-k", 2).stdout)["components"]) == 2
    told = json.loads(invoke("ridge", *words, "--target", "income").stdout)
    assert set(told["coefficients"]) == {"age", "age=missing", "sex=F", "sex=M"}
    invoke("pca", "people.csv", "--schema", "people.yaml", "-k", 1, "--epsilon", 1, "--dry-run")
    for option in (("--bounds", "0:1"), ("--columns", "age"), ("--missing", 1), ("--categories", "sex=F")):
        assert option[0] in invoke("pca", "-k", 1, *words, *option, fails=InvalidParameterError)
    invoke("ridge", *words, "--target", "sex", fails=InvalidParameterError)


def test_a_plan_by_schema(folder):
    words = ("plan", "--rows", 5000, "--components", 1, "--epsilon", 1, "--repeats", 2, "--json", "--quiet")
    public = ("--public", "ranges")  # as the schema says
    assert invoke(*words, "--schema", "people.yaml").stdout == invoke(*words, "--features", 5, *public).stdout
    invoke(*words, fails=InvalidParameterError)
    invoke(*words, "--features", 5, "--schema", "people.yaml", fails=InvalidParameterError)


# How files are written, and standard input


def test_delimiters_decimals_and_encodings(folder):
    text = "größe;age\n1,5;2,25\n2,5;3\n"
    (folder / "a.csv").write_bytes((text * 1).encode("latin-1"))
    words = ("a.csv", "--delimiter", ";", "--decimal", ",", "--encoding", "latin-1")
    told = invoke("covariance", *words, "--epsilon", 5, "--norm-bound", 9, "--json").stdout
    assert json.loads(told)["feature_names"] == ["größe", "age"]
    assert "größe" in invoke("schema", "draft", *words).stdout
    (folder / "a.csv").write_text(text.replace(";", "\t").replace(",", "."))
    for tab in ("tab", "\\t", "\t"):
        invoke("schema", "draft", "a.csv", "--delimiter", tab)
    invoke("schema", "draft", "a.csv", "--decimal", ",", fails=InvalidParameterError)
    invoke("covariance", "people.csv", "--encoding", "klingon", "--epsilon", 1, fails=InvalidParameterError)


def test_standard_input(folder):
    content = (folder / "people.csv").read_bytes()
    by_file = json.loads(invoke("covariance", "people.csv", "--schema", "people.yaml", "--epsilon", 1, "--json").stdout)
    words = ["covariance", "-", "--schema", "people.yaml", "--epsilon", "1", "--json", "--force"]
    result = CliRunner().invoke(app, words, input=content)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["n_rows"], told["feature_names"]) == (by_file["n_rows"], by_file["feature_names"])
    drafted = CliRunner().invoke(app, ["schema", "draft", "-"], input=content).stdout
    assert drafted == invoke("schema", "draft", "people.csv").stdout
    # A private bound reads the rows twice.
    words = [
        "pca",
        "-",
        "--columns",
        "age,income",
        "--missing",
        "40",
        "-k",
        "1",
        "--epsilon",
        "1",
        "--force",
        "--json",
    ]
    assert CliRunner().invoke(app, words, input=content).exit_code == 0
    invoke("covariance", "-", "-", "--epsilon", 1, fails=InvalidParameterError)


def test_standard_input_beyond_memory_is_told(folder, monkeypatch):
    monkeypatch.setattr("eigenveil.sources.places._IN_MEMORY", 1000)
    content = (folder / "people.csv").read_bytes()
    result = CliRunner().invoke(app, ["schema", "draft", "-"], input=content)
    assert "gone when this command ends" in result.stderr
    assert "secret" not in result.output
