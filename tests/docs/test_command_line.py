"""docs/reference/command_line.md names every command and every option, and nothing else; its opening runs."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eigenveil.cli import app

# A reader of small examples is told that the noise hides some of what they ask for.
pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command_line.md").read_text(encoding="utf-8")
HELP = {"--help", "-h"}
SHARED = ("pca", "sparse-pca", "covariance", "ridge")


def commands(command=None, path=()):
    """Return every command that can be run, by its path."""
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {path: command}
    found = {}
    for name, part in command.commands.items():
        found |= commands(part, (*path, name))
    return found


def options(command):
    return {name for parameter in command.params for name in parameter.opts if name.startswith("-")}


def section(name):
    """Return the part of the page whose heading names the command."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    found = [part for part in parts if f"`eigenveil {name}`" in part.partition("\n")[0]]
    assert len(found) == 1, name
    return found[0]


def words(text):
    """Return the options that a text names, in code and in indented commands."""
    code = re.findall(r"`[^`]+`", text) + re.findall(r"^    eigenveil .*$", text, flags=re.MULTILINE)
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", " ".join(code)))


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_and_option_is_documented(path):
    text = section(path[0])
    assert all(re.search(rf"\b{name}\b", text) for name in path)
    missing = options(commands()[path]) - words(text) - HELP
    assert not missing


def test_nothing_is_documented_that_is_not_there():
    every = HELP | {"--install-completion", "--show-completion", "--version", "--debug"}
    for command in commands().values():
        every |= options(command) | {name for parameter in command.params for name in parameter.secondary_opts}
    assert words(PAGE) <= every
    for name in {path[0] for path in commands()} - set(SHARED):
        here = set().union(*(options(command) for path, command in commands().items() if path[0] == name))
        assert words(section(name)) <= here | HELP, name


def test_the_options_before_a_command_are_documented():
    assert {name for name in options(typer.main.get_command(app)) if name not in HELP} <= words(PAGE)


def test_every_exit_code_is_documented():
    codes = re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "130", "143"]


def test_the_opening_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opening = re.findall(r"^    eigenveil (.*)$", PAGE.partition("`eigenveil -h`")[0], flags=re.MULTILINE)
    assert len(opening) == 6
    for line in opening:
        result = CliRunner().invoke(app, shlex.split(line))
        assert result.exit_code == 0, (line, result.output, result.exception)
    assert (tmp_path / "tumours.html").exists()
