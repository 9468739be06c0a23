"""The tutorials run as they stand, and their command line is their Python: with the same noise, the same release."""

import re

import pytest

from eigenveil import PrivacyLedger, load_release
from page_snippets import ROOT, assert_same_release, run_command, run_page, said, snippets

FIRST, MEDICAL = "docs/tutorials/first_release.md", "docs/tutorials/medical_table.md"
pytestmark = pytest.mark.usefixtures("noise_that_repeats")


def test_the_medical_table_runs_in_order_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_page(MEDICAL)
    for snippet in done:
        assert set(said(snippet)) <= set(snippet.printed.splitlines())
    assert [snippet.kind for snippet in done].count("command") == 3
    assert_same_release(load_release("tumours.npz"), load_release("clinic.npz"))
    assert PrivacyLedger("tumours.ledger").spent == PrivacyLedger("clinic.ledger").spent == (2.0, 0.0)
    for name in ("tumours.html", "clinic.html"):
        assert "<html" in (tmp_path / name).read_text(encoding="utf-8")


def test_another_parameter_is_another_release(tmp_path, monkeypatch):
    """The control: what makes the tutorial's two ways the same is that they ask for the same."""
    monkeypatch.chdir(tmp_path)
    run_command("eigenveil demo")
    fit = "eigenveil pca eigenveil-demo/tumours.csv -k 2 --epsilon 2"
    run_command(f"{fit} --standardize --output one.npz")
    run_command(f"{fit} --standardize --columns radius,texture,area --output other.npz")
    assert_same_release(load_release("eigenveil-demo/tumours.npz"), load_release("one.npz"))
    with pytest.raises(AssertionError):
        assert_same_release(load_release("one.npz"), load_release("other.npz"))


def told_answers() -> list[str]:
    """Return the last column of the table of questions: what is typed here."""
    lines = [line for line in (ROOT / FIRST).read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ")[-1] for line in lines[2:]]
    return ["" if cell == "Enter" else re.fullmatch("`(.*)`", cell)[1] for cell in cells]


def test_the_first_release_is_what_its_answers_make_and_what_it_prints_does_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo, start = (snippet.text for snippet in snippets(FIRST) if snippet.kind == "command")
    commands, program = (snippet.text for snippet in snippets(FIRST) if snippet.kind == "text")
    run_command(demo)
    printed = run_command(start, "".join(f"{answer}\n" for answer in told_answers()))
    without_questions, _, in_python = printed.partition("The same without questions:")[2].partition("and in Python:")
    assert [line.strip() for line in without_questions.splitlines() if line] == commands.splitlines()
    assert [line.strip() for line in in_python.splitlines() if line] == program.splitlines()
    asked = load_release("tumours.npz")
    assert asked.above_noise.all()
    for name in ("tumours.npz", "tumours.ledger", "tumours.html"):
        (tmp_path / name).unlink()
    for command in commands.splitlines():
        run_command(command)
    assert_same_release(load_release("tumours.npz"), asked)
    for name in ("tumours.npz", "tumours.ledger"):
        (tmp_path / name).unlink()
    exec(program, {})
    assert_same_release(load_release("tumours.npz"), asked)
