"""Help fits a terminal and documents every option; warnings are lines; slow steps show progress on terminals only."""

import io
import json
import sys
import time
import warnings

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eigenveil import PrivateCovariance
from eigenveil.cli import app, terminal
from eigenveil.cli.messages import Command
from eigenveil.errors import NoiseWarning, PrivacyWarning, ReleaseFileWarning


def leaves(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {path: command}
    return {key: leaf for name, part in command.commands.items() for key, leaf in leaves(part, (*path, name)).items()}


GROUPS = [(), ("ledger",), ("local",), ("federation",)]


def invoke(*words, code=0, **options):
    result = CliRunner().invoke(app, [str(word) for word in words], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


# Help.


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("path", [*GROUPS, *leaves()], ids=" ".join)
def test_help_fits_eighty_columns(path, option):
    lines = invoke(*path, option, env={"COLUMNS": "80"}, prog_name="eigenveil").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(" ".join(["Usage: eigenveil", *path]))


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_command_and_option_documents_itself_in_sentences(path):
    command = leaves()[path]
    page = " ".join(invoke(*path, "-h", env={"COLUMNS": "80"}).stdout.replace("-\n", "-").split())
    assert isinstance(command, Command)
    assert command.help.endswith(".")
    for parameter in command.params:
        assert parameter.help.endswith("."), parameter.name
        assert len(parameter.help.split()) <= 26, parameter.help
        assert all(name in page for name in parameter.opts if name.startswith("-"))


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_a_group_lists_its_commands_with_whole_sentences(path):
    listed = invoke(*path, "-h", env={"COLUMNS": "80"}).stdout.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in listed} == {leaf[len(path)] for leaf in leaves() if leaf[: len(path)] == path}
    assert all(line.endswith(".") and not line.endswith("...") for line in listed)


# Warnings.


@pytest.mark.parametrize("path", [("pca",), ("ledger", "show")], ids=" ".join)
def test_warnings_are_one_line_each(path, monkeypatch, capsys):
    def warn(**_):
        for kind in (NoiseWarning, PrivacyWarning, ReleaseFileWarning, NoiseWarning):
            warnings.warn(f"Of {kind.__name__},\n give norm_bound.", kind, stacklevel=1)
        warnings.warn("another package quotes a cell: 4711", stacklevel=1)

    leaf = leaves()[path]
    monkeypatch.setattr(leaf, "callback", warn)
    context = typer.Context(leaf, info_name=path[-1])
    leaf.invoke(context)
    printed = capsys.readouterr()
    named = "--norm-bound" if path == ("pca",) else "norm_bound"
    kinds = ("NoiseWarning", "PrivacyWarning", "ReleaseFileWarning")
    assert printed.err == "".join(f"eigenveil: warning: Of {kind}, give {named}.\n" for kind in kinds)
    assert printed.out == ""
    context.params["quiet"] = True
    leaf.invoke(context)
    assert capsys.readouterr().err == ""


FIT = ("t.csv", "--norm-bound", 2)
WARNING = {
    "pca": ("pca", *FIT, "--epsilon", 0.1, "-k", 2),
    "ridge": ("ridge", *FIT, "--epsilon", 50, "--target", "a"),
    "ridge of a release": ("ridge", "covariance.npz", "--target", "a"),
    "demo": ("demo", "--epsilon", 0.05),
}


@pytest.mark.usefixtures("noise_that_repeats")  # fresh noise passes the test of noise once in 20 fits
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("name", WARNING)
def test_commands_that_warn_show_no_file_and_no_line_number(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(5).uniform(-1, 1, (60, 3))
    np.savetxt("t.csv", rows, delimiter=",", header="a,b,c", comments="", fmt="%.4f")
    PrivateCovariance(epsilon=0.1, norm_bound=2.0).fit("t.csv").release_.save("covariance.npz")
    result = invoke(*WARNING[name])
    shown = [line for line in result.stderr.splitlines() if line.startswith("eigenveil: warning: ")]
    assert shown
    assert len(shown) == len(set(shown))
    assert ".py" not in result.stderr
    assert invoke(*WARNING[name], "--quiet", "--force").stderr == ""
    as_json = invoke(*WARNING[name], "--json", "--force")
    assert json.loads(as_json.stdout)["warnings"]
    assert all(f"eigenveil: warning: {one}" in as_json.stderr for one in json.loads(as_json.stdout)["warnings"])


# Progress.


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("patience", "shown"), [(0.01, True), (60.0, False)])
def test_a_slow_step_says_what_it_does_and_a_fast_one_does_not(monkeypatch, patience, shown):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(terminal, "PATIENCE", patience)
    with terminal.busy("computing intervals"):
        time.sleep(0.2 if shown else 0.0)
    assert ("computing intervals" in screen.getvalue()) == shown


def test_a_slow_step_says_nothing_in_a_pipe_or_when_hidden(monkeypatch):
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    for screen, hidden in ((io.StringIO(), False), (Screen(), True)):
        monkeypatch.setattr(sys, "stderr", screen)
        with terminal.busy("computing", hidden):
            time.sleep(0.05)
        with terminal.fit_progress(None, hidden):
            assert not sys.stderr.isatty()  # so that readers show no bars
        assert screen.getvalue() == ""


def test_a_step_that_fails_ends_its_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with pytest.raises(ZeroDivisionError), terminal.busy("computing"):
        raise ZeroDivisionError
