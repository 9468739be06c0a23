"""`eigenveil start`: questions, a schema, a plan, yes or no; and what it prints does the same without questions."""

import json
import re
import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, Schema, load_release
from eigenveil.cli import app, interview
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.sources import open_table

# The tables here are small, and what the noise leaves of them is not asked.
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

ROWS = 3000
# The answers, by the word of the question that they belong to.
ANSWERS = {
    "person": "",
    "columns": "",
    "shared range": "",
    "age": "20:60",
    "income": "0:100000",
    "sex": "F,M",
    "missing": "2",
    "who": "Office",
    "purpose": "",
    "components": "2",
    "alike": "",
    "rows": "3,000",
    "epsilon": "0.5",
    "delta": "",
    "limit": "2",
}
PURPOSES = {
    "components": {},
    "above noise": {"components": ""},
    "own units": {"alike": "2"},
    "no ranges": {"shared range": "none", "age": None, "income": None, "missing": None},
    "covariance": {"purpose": "2", "components": None, "alike": None},
    "prediction": {"purpose": "3", "components": "income", "alike": None},
    "delta": {"delta": "1e-8"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    age = rng.uniform(20, 60, ROWS)
    lines = [
        f"{n + 700000},{a:.1f},{1000 * a + rng.normal(0, 2000):.0f},{rng.choice(['F', 'M'])}" for n, a in enumerate(age)
    ]
    for name in ("people", "semicolons"):
        text = "\n".join(["user_id,age,income,sex", *lines, ""])
        (tmp_path / f"{name}.csv").write_text(text if name == "people" else text.replace(",", ";").replace(".", ","))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers(*last, **changed):
    given = ANSWERS | changed
    return [answer for answer in given.values() if answer is not None] + list(last)


def start(lines, *words, code=0, table="people.csv"):
    result = CliRunner().invoke(app, ["start", table, *words], input="".join(f"{line}\n" for line in lines))
    assert result.exit_code == code, (result.output, result.exception)
    assert "70000" not in result.output  # a cell
    return result


def printed(result):
    """Return the commands and the program that were printed."""
    commands = [shlex.split(line)[1:] for line in re.findall(r"^  eigenveil .*$", result.stdout, flags=re.MULTILINE)]
    program = result.stdout.partition("and in Python:")[2]
    return commands, "\n".join(line[2:] for line in program.strip("\n").splitlines())


def test_from_questions_to_a_report(folder):
    result = start(answers("y"))
    schema = Schema.load("people.yaml")
    assert schema.feature_names == ("age", "income", "sex=F", "sex=M")
    assert [column.missing for column in schema.used] == ["middle", "middle", None]
    assert (schema.declared_by, schema.declared_on is not None) == ("Office", True)
    release = load_release("people.npz")
    assert release.origin.schema == schema
    assert release.guarantee.epsilon == 0.5
    assert release.components.shape == (2, 4)
    book = PrivacyLedger("people.ledger")
    assert (book.epsilon, book.spent, book.data_set) == (2.0, (0.5, 0.0), "people")
    assert "<html" in (folder / "people.html").read_text(encoding="utf-8")
    for words in ("1.65 to 1", "Would spend", "Forecast: with 3,000 rows", "2 components would miss"):
        assert words in result.stderr
    assert "Spend it?" not in result.stdout


def test_a_delta_of_one_over_the_rows_is_asked_for_again(folder):
    given = answers("n", delta="1e-3")
    given.insert(given.index("1e-3") + 1, "1e-8")
    result = start(given, code=1)
    assert "is at least 1/n for these 3,000 rows" in result.stderr
    commands, program = printed(result)
    assert commands[0][-6:-2] == ["--epsilon", "2", "--delta", "4e-08"]
    assert "epsilon=0.5, delta=1e-08, " in program


@pytest.mark.parametrize("purpose", PURPOSES)
def test_no_spends_nothing_and_what_is_printed_does_the_same(folder, purpose, monkeypatch):
    result = start(answers("n", **PURPOSES[purpose]), code=1)
    assert "Nothing was spent." in result.stderr
    assert sorted(file.name for file in folder.iterdir()) == ["people.csv", "people.yaml", "semicolons.csv"]
    commands, program = printed(result)
    *before, fit, page = commands
    for words in (*before, fit):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
    planned = CliRunner().invoke(app, [*fit, "--dry-run", "--json"])
    told = json.loads(planned.stdout)
    assert CliRunner().invoke(app, page).exit_code == 0
    by_command = load_release("people.npz").origin
    for name in ("people.npz", "people.ledger"):
        (folder / name).rename(folder / f"first-{name}")
    scope = {}
    exec(program, scope)
    plan = scope["model"].plan(open_table("people.csv", schema=Schema.load("people.yaml")))
    assert told["laws"] == [law.name for _, law in plan.laws]
    assert told["guarantee"]["text"] == str(plan.guarantee)
    assert told["private_choices"] == {name: part.epsilon for name, part in plan.choices.items()}
    assert told["n_features"] == plan.n_features
    by_program = load_release("people.npz").origin
    for fact in ("law", "parameters", "rows", "n_rows", "request", "estimator", "schema", "ledger_entry"):
        assert getattr(by_command, fact) == getattr(by_program, fact), fact


def test_how_a_file_is_written_is_kept(folder):
    result = start(answers("n"), "--delimiter", ";", "--decimal", ",", code=1, table="semicolons.csv")
    commands, program = printed(result)
    for words in commands:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
    for file in ("semicolons.npz", "semicolons.ledger"):
        (folder / file).unlink()
    exec(program, {})
    assert load_release("semicolons.npz").n_rows == ROWS


class Interrupted:
    """Standard input with these lines, and then Ctrl-C."""

    def __init__(self, lines):
        self.lines = list(lines)

    def readline(self):
        if not self.lines:
            raise KeyboardInterrupt
        return f"{self.lines.pop(0)}\n"


@pytest.mark.parametrize("answered", range(len(answers()) + 1))
def test_ctrl_c_at_any_question_leaves_nothing_spent(folder, answered, monkeypatch):
    monkeypatch.setattr(interview, "sys", SimpleNamespace(stdin=Interrupted(answers()[:answered])))
    result = CliRunner().invoke(app, ["start", "people.csv"])
    assert result.exit_code == 130
    assert "Nothing was spent." in result.stderr
    assert not (folder / "people.npz").exists()
    assert not (folder / "people.ledger").exists()


def test_ctrl_c_after_the_spend_says_that_it_is_spent(folder, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenveil.gate.draw", interrupted)
    result = CliRunner().invoke(app, ["start", "people.csv"], input="\n".join(answers("y", "")))
    assert result.exit_code in (1, 130)
    assert "Nothing was spent." not in result.stderr
    assert "stays spent" in result.stderr
    assert PrivacyLedger("people.ledger").spent == (0.5, 0.0)
    assert not (folder / "people.npz").exists()


def test_an_end_of_input_is_a_no(folder):
    assert "Nothing was spent." in start(answers()[:4], code=1).stderr


def test_no_row_is_read_before_the_yes(folder, monkeypatch):
    monkeypatch.setattr("eigenveil.sources.tracked_batches", None)
    start(answers("n"), code=1)
    (folder / "people.yaml").unlink()
    result = CliRunner().invoke(app, ["start", "people.csv"], input="\n".join(answers("y", "")))
    assert isinstance(result.exception, InvalidDataError)  # now they would have been
    assert "Nothing was spent." in result.stderr


def test_what_cannot_be_used_is_asked_again(folder):
    lines = [
        *("nobody", "", "age,nothing", "age,income"),
        *("", "20", "60:20", "a:b", "20:60", "0:100000"),
        *("4", "1", "", "9", "1", "5", "0.5x", "2.5", "0.9", "3", "1", "-3", "", "0", "0.5", "0.1", "1", "n"),
    ]
    result = start(lines, code=1)
    for told in ("no column 'nobody'", "LOW:HIGH", "ends before it begins", "no number", "between 1 and 2", "share"):
        assert told in result.stderr, told
    schema = Schema.load("people.yaml")
    assert schema.feature_names == ("age", "income")
    assert schema.declared_by is None
    assert "-k 0.9" in result.stdout


def test_files_that_are_there_are_refused_before_a_question(folder):
    (folder / "people.yaml").write_text("mine")
    result = CliRunner().invoke(app, ["start", "people.csv"], input="")
    assert isinstance(result.exception, InvalidParameterError)
    assert "What is a person" not in result.output
    assert (folder / "people.yaml").read_text() == "mine"
    start(answers("n"), "--force", code=1)
    assert (folder / "people.yaml").read_text() != "mine"


def test_a_ledger_that_is_there_is_charged(folder):
    book = PrivacyLedger.create("people.ledger", epsilon=0.7, data_set="people")
    result = start(answers("y", limit=None))
    assert book.spent == (0.5, 0.0)
    assert "ledger create" not in result.stdout
