"""Typical mistakes: the error names the option or the parameter, and what to do; in a command and in Python."""

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, load_release
from eigenveil.cli import app
from eigenveil.errors import EigenveilError
from eigenveil.tables.open import draft_schema, open_table
from eigenveil.tables.schema import Schema
from helpers import assert_one_sentence

# The values of the table are not in any message.
SECRET = "4711"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(3).uniform(0, 1, (200, 3))
    np.savetxt("table.csv", rows, delimiter=",", header="a,b,c", comments="", fmt="%.4f")
    lines = ["a,b,sex", *(f"0.{SECRET},0.5,{'FM'[i % 2]}" for i in range(50)), "0.1,,M", ""]
    (tmp_path / "mixed.csv").write_text("\n".join(lines))
    (tmp_path / "there.npz").write_bytes(b"mine")
    (tmp_path / "wrong.npz").write_bytes(b"no release")
    PrivacyLedger.create("small.ledger", epsilon=0.5, data_set="study")
    draft_schema("table.csv").save("draft.yaml")
    return tmp_path


TABLE = ("table.csv", "--norm-bound", 2)
PCA = ("pca", *TABLE, "-k", 1, "--epsilon", 1)

# What is typed, the exit code, and the words that must be in the error: first the option, then the fix.
MISTAKES = {
    "unknown column": (("pca", "table.csv", "--columns", "a,rate", "-k", 1, "--epsilon", 1), 1, ["'rate'", "spelling"]),
    "missing epsilon": (("pca", *TABLE, "-k", 1), 2, ["Missing option", "--epsilon"]),
    "epsilon of 0": (("pca", *TABLE, "-k", 1, "--epsilon", 0), 1, ["--epsilon", "above 0"]),
    "negative epsilon": (("covariance", *TABLE, "--epsilon", -1), 1, ["--epsilon", "above 0"]),
    "delta of 1": ((*PCA, "--delta", 1), 1, ["--delta must", "1"]),
    "too little left": ((*PCA, "--ledger", "small.ledger"), 1, ["epsilon = 0.5", "left", "less"]),
    "no ledger there": ((*PCA, "--ledger", "no.ledger"), 1, ["no.ledger", "does not exist", "eigenveil ledger create"]),
    "output exists": ((*PCA, "-o", "there.npz"), 1, ["there.npz already exists", "--output", "--force"]),
    "output is an input": ((*PCA, "-o", "table.csv", "--force"), 1, ["table.csv is an input", "--output"]),
    "no such file": (("pca", "tabel.csv", "-k", 1, "--epsilon", 1), 1, ["tabel.csv", "check the path"]),
    "no file matches": (("pca", "part-*.csv", "-k", 1, "--epsilon", 1), 1, ["part-*.csv", "check the folder"]),
    "not a release": (("show", "wrong.npz"), 1, ["wrong.npz", "not a release", "give a file"]),
    "bounds as a list": ((*PCA[:2], "-k", 1, "--epsilon", 1, "--bounds", "[0,1]"), 1, ["--bounds", "LOW:HIGH"]),
    "bounds without numbers": ((*PCA[:2], "-k", 1, "--epsilon", 1, "--bounds", "0:many"), 1, ["--bounds", "0:100"]),
    "bounds of no column": ((*PCA[:2], "-k", 1, "--epsilon", 1, "--bounds", "x=0:1"), 1, ["--bounds", "'x'"]),
    "bounds of some": (
        (*PCA[:2], "-k", 1, "--epsilon", 1, "--bounds", "a=0:1"),
        1,
        ["--bounds", "no range for 'b'", "LOW:HIGH for all columns"],
    ),
    "text column": (
        ("pca", "mixed.csv", "-k", 1, "--epsilon", 1, "--missing", 0),
        1,
        ["column", "schema", "--columns"],
    ),
    "missing values": (
        ("pca", "mixed.csv", "--columns", "a,b", "-k", 1, "--epsilon", 1, "--norm-bound", 1),
        1,
        ["missing", "--missing"],
    ),
    "unconfirmed draft": (("pca", "table.csv", "--schema", "draft.yaml", "-k", 1, "--epsilon", 1), 1, ["draft: false"]),
    "schema and columns": (
        ("pca", "table.csv", "--schema", "draft.yaml", "--columns", "a,b", "-k", 1, "--epsilon", 1),
        1,
        ["--columns", "--schema"],
    ),
    "unknown mechanism": ((*PCA, "--mechanism", "laplas"), 1, ["--mechanism must be one of", "laplace"]),
    "mechanism without privacy": ((*PCA, "--mechanism", "none"), 1, ["--mechanism none", "eigenveil mechanisms"]),
    "k too large": (("pca", *TABLE, "-k", 9, "--epsilon", 1), 1, ["--components", "3"]),
    "k is a word": (("pca", *TABLE, "-k", "many", "--epsilon", 1), 2, ["--components", "above-noise"]),
    "unknown adjacency": ((*PCA, "--adjacency", "swap"), 2, ["--adjacency", "replace_one"]),
    "unknown option": ((*PCA, "--privacy", 1), 2, ["--privacy"]),
    "unknown target": (("ridge", *TABLE, "--target", "y", "--epsilon", 1), 1, ["--target 'y'", "column"]),
    "ridge without epsilon": (("ridge", *TABLE, "--target", "a"), 2, ["--epsilon", "such as 1"]),
    "weight without units": ((*PCA, "--unit-weight", "equal"), 1, ["--unit-weight", "--privacy-unit"]),
    "plan without features": (("plan", "--rows", 10, "-k", 1, "--epsilon", 1), 1, ["--features", "--schema"]),
    "sample as a sheet": (("sample", "there.npz", "-n", 5, "-o", "rows.xlsx"), 1, ["--output rows.xlsx", ".csv"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_command_names_the_option_and_the_fix(folder, mistake):
    words, code, named = MISTAKES[mistake]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    text = str(result.exception) if code == 1 else " ".join(result.stderr.split())
    for word in named:
        assert word in text, text
    assert SECRET not in text
    if code == 1:
        assert isinstance(result.exception, EigenveilError)
        assert_one_sentence(result.exception)
    assert result.stdout == ""
    assert (folder / "there.npz").read_bytes() == b"mine"
    assert PrivacyLedger("small.ledger").entries() == []


ROWS = np.random.default_rng(3).uniform(0, 1, (200, 3))
IN_PYTHON = {
    "unknown column": (lambda: open_table("table.csv", ["a", "rate"]), ["'rate'", "spelling"]),
    "epsilon of 0": (lambda: PrivatePCA(1, epsilon=0.0, norm_bound=2.0).fit(ROWS), ["epsilon", "above 0"]),
    "delta of 1": (lambda: PrivatePCA(1, delta=1.0, norm_bound=2.0).fit(ROWS), ["delta", "1"]),
    "too little left": (
        lambda: PrivatePCA(1, epsilon=1.0, norm_bound=2.0, ledger="small.ledger").fit(ROWS),
        ["epsilon = 0.5", "left", "less"],
    ),
    "no such file": (lambda: PrivatePCA(1).fit("tabel.csv"), ["tabel.csv", "check the path"]),
    "not a release": (lambda: load_release("wrong.npz"), ["wrong.npz", "not a release", "give a file"]),
    "bounds as a list": (
        lambda: PrivatePCA(1, bounds=[(0, 1)] * 3).fit(ROWS),
        ["bounds must be", "dict(zip(columns, bounds))"],
    ),
    "text column": (lambda: PrivatePCA(1, norm_bound=1.0).fit("mixed.csv"), ["column", "schema"]),
    "missing values": (
        lambda: PrivatePCA(1, norm_bound=1.0).fit(open_table("mixed.csv", ["a", "b"])),
        ["missing=", "schema"],
    ),
    "unconfirmed draft": (
        lambda: PrivatePCA(1, schema=Schema.load("draft.yaml")).fit("table.csv"),
        ["draft: false", "confirmed()"],
    ),
    "unknown mechanism": (
        lambda: PrivatePCA(1, mechanism="laplas", norm_bound=2.0).fit(ROWS),
        ["mechanism", "laplace"],
    ),
    "k too large": (lambda: PrivatePCA(9, norm_bound=2.0).fit(ROWS), ["n_components", "3"]),
    "unknown target": (lambda: PrivateRidge(target="y", norm_bound=2.0).fit(ROWS), ["'y'", "target"]),
    "unknown statistic": (lambda: PrivateCovariance(statistic="clip").fit(ROWS), ["statistic", "clipped"]),
}


@pytest.mark.parametrize("mistake", IN_PYTHON)
def test_a_mistake_in_python_names_the_parameter_and_the_fix(folder, mistake):
    make, named = IN_PYTHON[mistake]
    with pytest.raises(EigenveilError) as info:
        make()
    for word in named:
        assert word in str(info.value), str(info.value)
    assert SECRET not in str(info.value)
    assert PrivacyLedger("small.ledger").entries() == []
