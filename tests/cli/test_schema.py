"""`eigenveil schema`, and `--schema` of the commands that read tables."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from eigenveil import Schema, load_release
from eigenveil.cli import app
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.tables.schema import Column
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


def test_a_draft_is_written_and_overwrites_nothing(folder):
    invoke("schema", "people.csv", "-o", "draft.yaml")
    assert "secret" not in (folder / "draft.yaml").read_text()
    assert [one.kind for one in Schema.load("draft.yaml").columns] == ["number", "number", "ignored", "ignored"]
    invoke("schema", "people.csv", "-o", "people.csv", "--force", fails=InvalidParameterError)
    assert "--force" in invoke("schema", "people.csv", fails=InvalidParameterError)
    assert Schema.load("people.yaml") == SCHEMA
    assert invoke("schema", "people.csv", "--columns", "sex,age", "--force", "--quiet").output == ""
    assert [one.name for one in Schema.load("people.yaml").columns] == ["sex", "age"]


def mixed(gaps):
    """A table of all types, in which values are missing or not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "patient": np.arange(60) + 700_000,
            "age": rng.integers(20, 60, 60).astype(float),
            "member": (rng.random(60) < 0.5).astype(object),
            "city": rng.choice(["secret", "other"], 60),
            "visit": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 60), unit="D"),
        }
    )
    if gaps:
        frame.loc[5::7, ["age", "member", "city", "visit"]] = None
    return frame


def confirm(name):
    """Change the one line that says that nobody has checked a draft."""
    first, rest = Path(name).read_text().split("\n", 1)
    Path(name).write_text(f"{first.replace('draft: true', 'draft: false')}\n{rest}")


WRITERS = {
    "-$x;'.tsv": (lambda frame, path: frame.to_csv(path, index=False, sep="\t"), ()),
    "table.csv": (
        lambda frame, path: frame.to_csv(path, index=False, sep=";", decimal=","),
        ("--delimiter", ";", "--decimal", ","),
    ),
}


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("name", WRITERS)
def test_a_draft_covers_missing_values_and_identifiers_and_its_next_command_runs(folder, name):
    write, words = WRITERS[name]
    drafts = []
    for gaps in (False, True):
        write(mixed(gaps), folder / name)
        result = invoke("schema", *words, "-o", "my draft.yaml", "--force", "--", name)
        drafts.append((folder / "my draft.yaml").read_text())
        assert "secret" not in result.output + drafts[-1]
    assert drafts[0] == drafts[1]  # it does not tell whether values are missing
    columns = Schema.load("my draft.yaml").columns
    assert [(one.name, one.kind, one.missing) for one in columns] == [
        ("patient", "ignored", None),
        ("age", "number", "middle"),
        ("member", "boolean", "middle"),
        ("city", "ignored", None),
        ("visit", "date", "middle"),
    ]
    (line,) = re.findall(r"^  (eigenveil .*)$", result.stdout, flags=re.MULTILINE)
    assert "Check every column" in result.stdout.partition(line)[0]
    assert "draft: false" in invoke(*shlex.split(line)[1:], fails=InvalidParameterError)
    assert not (folder / "release.npz").exists()
    confirm("my draft.yaml")
    invoke(*shlex.split(line)[1:])
    assert load_release("release.npz").origin.schema == Schema.load("my draft.yaml")


AWKWARD = ("passengers", "codes", "names", "years")


def awkward(case):
    """Tables as other packages ship them, each with something that is no plain number."""
    rng, n = np.random.default_rng(1), 300
    gaps = np.where(np.arange(n) % 4 == 0, np.nan, 1.0)
    if case == "passengers":  # text, gaps, truth values, a running number
        frame = {"rownames": np.arange(n), "age": rng.integers(1, 80, n) * gaps, "fare": rng.exponential(30, n)}
        frame |= {"name": "secret", "alone": rng.random(n) < 0.4, "deck": rng.choice([None, "secret"], n)}
        return pd.DataFrame(frame)
    if case == "codes":  # beyond what a float can tell apart; a constant; a column without a single value
        frame = {"code": rng.integers(-(2**62), 2**62, n), "one": 1, "none": np.nan, "x": rng.normal(size=n)}
        return pd.DataFrame(frame)
    if case == "names":  # that need quotes in YAML, in CSV and in a shell
        names = ("a: b", "größe [m²]", 'he said "no"', "yes", "x12")
        return pd.DataFrame({name: rng.normal(size=n) for name in names})
    # Years in the header, and infinity in the cells.
    rates = {str(year): rng.normal(3, 1, n) * gaps for year in range(1960, 1966)}
    quotient = np.where(np.arange(n) % 5 == 0, np.inf, rng.normal(size=n))
    return pd.DataFrame({"Country Name": "secret", "Indicator Code": "secret", **rates, "quotient": quotient})


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("case", AWKWARD)
def test_a_confirmed_draft_is_fitted_at_the_first_attempt(folder, case):
    awkward(case).to_csv(folder / "t.csv", index=case == "codes")
    invoke("schema", "t.csv", "-o", "s.yaml")
    assert "secret" not in (folder / "s.yaml").read_text()
    confirm("s.yaml")
    invoke("pca", "t.csv", "--schema", "s.yaml", "-k", 1, "--epsilon", 1, "--standardize")


def test_text_in_a_table_names_the_draft(folder):
    awkward("passengers").to_csv(folder / "t.csv", index=False)
    assert "`eigenveil schema`" in invoke("pca", "t.csv", "-k", 1, "--epsilon", 1, fails=InvalidDataError)


def test_another_delimiter_is_named_as_it_is_typed(folder):
    awkward("passengers").to_csv(folder / "t.csv", index=False, sep=";")
    assert "--delimiter ';'" in invoke("schema", "t.csv", fails=InvalidDataError)
    invoke("schema", "t.csv", "--delimiter", ";")


def test_a_draft_can_be_shown_and_planned_with(folder):
    invoke("schema", "people.csv", "-o", "s.yaml")
    assert "draft: false" in invoke("schema", "s.yaml").stdout
    assert json.loads(invoke("schema", "s.yaml", "--json").stdout)["draft"] is True
    invoke("plan", "--rows", 5000, "-k", 1, "--epsilon", 1, "--repeats", 2, "--json", "--schema", "s.yaml")


def test_a_draft_without_features_says_so(folder):
    (folder / "words.csv").write_text("patient_id,name\n1,secret\n")
    assert "no column is a feature yet" in invoke("schema", "words.csv").stdout
    assert "has no features" in invoke("schema", "words.yaml", fails=InvalidParameterError)


def test_a_file_without_a_header_is_not_drafted(folder):
    (folder / "rows.csv").write_text("secret one,F\nsecret two,M\n")
    assert "--columns" in invoke("schema", "rows.csv", "-o", "a.yaml", fails=InvalidDataError)
    assert not (folder / "a.yaml").exists()


def test_a_schema_file_is_shown(folder):
    printed = invoke("schema", "people.yaml").stdout
    for told in ("0 to 120; missing: indicator", "F, M", "Features: 5", "the office", "2026-01-31"):
        assert told in " ".join(printed.split())
    told = json.loads(invoke("schema", "people.yaml", "--json").stdout)
    assert told["feature_names"] == ["age", "age=missing", "sex=F", "sex=M", "income"]
    assert invoke("schema", "people.yaml", "--quiet").stdout == ""
    invoke("schema", "people.yaml", "-o", "other.yaml", fails=InvalidParameterError)
    (folder / "table.yaml").write_bytes((folder / "people.csv").read_bytes())
    invoke("schema", "table.yaml", fails=InvalidParameterError)
    (folder / "open.yaml").write_text("version: 1\ncolumns: {sex: {kind: category}}")
    assert "categories" in invoke("schema", "open.yaml", fails=InvalidParameterError)


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


# How files are written, and standard input


def test_delimiters_decimals_and_encodings(folder):
    text = "größe;age\n1,5;2,25\n2,5;3\n"
    (folder / "a.csv").write_bytes((text * 1).encode("latin-1"))
    words = ("a.csv", "--delimiter", ";", "--decimal", ",", "--encoding", "latin-1")
    told = invoke("covariance", *words, "--epsilon", 5, "--norm-bound", 9, "--json").stdout
    assert json.loads(told)["feature_names"] == ["größe", "age"]
    invoke("schema", *words)
    assert "größe" in (folder / "a.yaml").read_text(encoding="utf-8")
    (folder / "a.csv").write_text(text.replace(";", "\t").replace(",", "."))
    for tab in ("tab", "\\t", "\t"):
        assert "--delimiter tab" in invoke("schema", "a.csv", "--delimiter", tab, "--force").stdout
    invoke("schema", "a.csv", "--force", "--decimal", ",", fails=InvalidParameterError)
    invoke("covariance", "people.csv", "--encoding", "klingon", "--epsilon", 1, fails=InvalidParameterError)


def test_standard_input(folder):
    content = (folder / "people.csv").read_bytes()
    by_file = json.loads(invoke("covariance", "people.csv", "--schema", "people.yaml", "--epsilon", 1, "--json").stdout)
    words = ["covariance", "-", "--schema", "people.yaml", "--epsilon", "1", "--json", "--force"]
    result = CliRunner().invoke(app, words, input=content)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["n_rows"], told["feature_names"]) == (by_file["n_rows"], by_file["feature_names"])
    assert CliRunner().invoke(app, ["schema", "-"], input=content).exit_code == 0
    invoke("schema", "people.csv", "-o", "draft.yaml")
    assert (folder / "table.yaml").read_bytes() == (folder / "draft.yaml").read_bytes()
    # A private bound reads the rows twice.
    words = ["pca", "-", "--columns", "age,income", "--missing", "40", "-k", "1", "--epsilon", "1", "--force"]
    assert CliRunner().invoke(app, words, input=content).exit_code == 0
    invoke("covariance", "-", "-", "--epsilon", 1, fails=InvalidParameterError)


def test_standard_input_beyond_memory_is_told(folder, monkeypatch):
    monkeypatch.setattr("eigenveil.tables.files._IN_MEMORY", 1000)
    content = (folder / "people.csv").read_bytes()
    result = CliRunner().invoke(app, ["schema", "-"], input=content)
    assert "until this command ends" in result.stderr
    assert "secret" not in result.output
