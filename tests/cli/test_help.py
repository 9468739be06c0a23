"""Help at 80 columns, warnings through one channel, and progress on terminals only."""

import io
import json
import re
import sys
import time
import warnings

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.cli import app, messages, overview, terminal
from eigenveil.cli.fitting import Statistic
from eigenveil.cli.options import AdjacencyName, Weight
from eigenveil.errors import NoiseWarning, PrivacyWarning, ReleaseFileWarning


def leaves(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {path: command}
    return {key: leaf for name, part in command.commands.items() for key, leaf in leaves(part, (*path, name)).items()}


PAGES = [(), ("ledger",), ("local",), ("federation",), *leaves()]


def invoke(*words, code=0, **options):
    result = CliRunner().invoke(app, [str(word) for word in words], **options)
    assert result.exit_code == code, (result.output, result.exception)
    return result


# Help.


def help_page(path, columns=80):
    return invoke(*path, "--help", env={"COLUMNS": str(columns)}, prog_name="eigenveil").stdout


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_help_is_readable_at_eighty_columns(path):
    page = help_page(path)
    lines = page.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(" ".join(["Usage: eigenveil", *path]))
    # No frame, no cut, no name of a Python type, and no word that only we use.
    assert not re.search(r"[│╭╰…<>]|\bbool\b|\bstr\b|\bfloat\b|Path\b", page)
    wide = help_page(path, 2000)
    assert page.split() == wide.split()  # no word is broken


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_option_has_its_name_its_value_and_one_or_two_short_sentences(path):
    page = " ".join(help_page(path, 2000).split())
    for parameter in leaves()[path].params:
        text = parameter.help
        assert text, parameter.name
        assert text.endswith("."), text
        assert len(text.split()) <= 26, text
        assert " ".join(text.split()) in page
        for name in parameter.opts:
            assert name in page if name.startswith("-") else True
        if parameter.param_type_name == "option" and not parameter.is_flag:
            value = parameter.metavar or messages._VALUES.get(parameter.name, "NAME")
            assert f"{max(parameter.opts, key=len)} {value}" in page
        elif parameter.param_type_name == "option":
            assert not re.search(rf"{max(parameter.opts, key=len)} (?:NAME|NUMBER|N|FILE)\b", page)


def test_options_are_in_groups_where_there_are_many():
    page = help_page(("pca",))
    assert re.findall(r"^(\w+):$", page, re.MULTILINE) == [
        "Arguments", "Options", "Privacy", "Bounds", "Table", "Output",
    ]  # fmt: skip
    privacy = page.partition("\nPrivacy:\n")[2].partition("\n\n")[0]
    assert [name in privacy for name in ("--epsilon", "--delta", "--ledger", "--columns")] == [True, True, True, False]
    assert re.findall(r"^(\w+):$", help_page(("show",)), re.MULTILINE) == ["Arguments", "Options"]
    known = {parameter.name for leaf in leaves().values() for parameter in leaf.params} | {"help"}
    assert set(messages._GROUP_OF) | set(messages._VALUES) <= known


def test_help_lists_the_choices():
    page = help_page(("pca",), 2000)
    for choices in (Statistic.__origin__, AdjacencyName, Weight):
        for choice in choices.__args__:
            assert choice in page


def test_what_is_required_and_what_is_the_default_is_said():
    page = " ".join(help_page(("pca",)).split())
    assert "Privacy budget ε to spend, such as 1. Required." in page
    assert "Release file to write (.npz). Default: release.npz" in page
    assert "Default: False" not in page
    assert "None" not in page


def test_the_overview_fits_too():
    assert max(map(len, overview(80).splitlines())) <= 80
    assert overview(80).split() == overview(500).split()


# Warnings.


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_command_shows_warnings_as_one_line_each(path, monkeypatch, capsys):
    def warn(**_):
        for kind in (NoiseWarning, PrivacyWarning, ReleaseFileWarning, NoiseWarning):
            warnings.warn(f"Of {kind.__name__},\n give norm_bound.", kind, stacklevel=1)
        warnings.warn("another package quotes a cell: 4711", stacklevel=1)

    leaf = leaves()[path]
    monkeypatch.setattr(leaf, "callback", warn)
    context = typer.Context(leaf, info_name=path[-1])
    leaf.invoke(context)
    printed = capsys.readouterr()
    named = "--norm-bound" if "norm_bound" in {one.name for one in leaf.params} else "norm_bound"
    kinds = ("NoiseWarning", "PrivacyWarning", "ReleaseFileWarning")
    assert printed.err == "".join(f"eigenveil: warning: Of {kind}, give {named}.\n" for kind in kinds)
    assert printed.out == ""
    context.params["quiet"] = True
    leaf.invoke(context)
    assert capsys.readouterr().err == ""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small table, noisy releases of it, and what the commands need beside."""
    rows = np.random.default_rng(5).uniform(-1, 1, (60, 3))
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b,c", comments="", fmt="%.4f")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        PrivatePCA(2, epsilon=0.1, norm_bound=2.0).fit("t.csv").release_.save("pca.npz")
        PrivateCovariance(epsilon=0.1, norm_bound=2.0).fit("t.csv").release_.save("covariance.npz")
    return tmp_path


FIT = ("t.csv", "--epsilon", 0.1, "--norm-bound", 2)
WARNING = {
    "pca": ("pca", *FIT, "-k", 2),
    "sparse-pca": ("sparse-pca", "t.csv", "--epsilon", 50, "--norm-bound", 2, "-k", 1),
    "covariance": ("covariance", *FIT),
    "ridge": ("ridge", "t.csv", "--epsilon", 50, "--norm-bound", 2, "--target", "a"),
    "ridge of a release": ("ridge", "covariance.npz", "--target", "a"),
    "scores": ("scores", "pca.npz", "t.csv", "--epsilon", 50),
    "demo": ("demo", "--epsilon", 0.05),
}


@pytest.mark.usefixtures("noise_that_repeats")  # fresh noise passes the test of noise once in 20 fits
@pytest.mark.parametrize("name", WARNING)
def test_commands_that_warn_show_no_file_and_no_line_number(folder, name):
    result = invoke(*WARNING[name])
    shown = [line for line in result.stderr.splitlines() if line.startswith("eigenveil: warning: ")]
    assert shown
    assert len(shown) == len(set(shown))
    assert ".py" not in result.stderr
    assert "warning" not in result.stdout.lower().replace("warnings", "")
    quiet = invoke(*WARNING[name], "--quiet", "--force")
    assert quiet.stderr == ""
    as_json = invoke(*WARNING[name], "--json", "--force")
    assert json.loads(as_json.stdout)["warnings"]
    assert all(f"eigenveil: warning: {one}" in as_json.stderr for one in json.loads(as_json.stdout)["warnings"])


def test_a_warning_is_shown_before_an_error(monkeypatch, capsys):
    leaf = leaves()[("show",)]

    def fail(**_):
        warnings.warn("It is noisy.", NoiseWarning, stacklevel=1)
        raise RuntimeError

    monkeypatch.setattr(leaf, "callback", fail)
    with pytest.raises(RuntimeError):
        leaf.invoke(typer.Context(leaf))
    assert capsys.readouterr().err == "eigenveil: warning: It is noisy.\n"


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
        assert screen.getvalue() == ""


def test_a_step_that_fails_ends_its_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    with pytest.raises(ZeroDivisionError), terminal.busy("computing"):
        raise ZeroDivisionError


SLOW = {
    "show": ("show", "pca.npz"),
    "compare": ("compare", "pca.npz", "pca.npz"),
    "export": ("export", "pca.npz", "--force"),
    "sample": ("sample", "covariance.npz", "-n", 5, "--force"),
    "report": ("report", "pca.npz", "--force"),
    "demo": ("demo", "--force"),
    "ridge": ("ridge", "covariance.npz", "--target", "a"),
    "plan": ("plan", "--rows", 50, "--features", 2, "-k", 1, "--epsilon", 1, "--repeats", 2),
}


@pytest.mark.parametrize("name", SLOW)
def test_steps_without_rows_to_count_are_watched(folder, name, monkeypatch):
    watched = []
    honest = terminal.busy

    def busy(doing, quiet=False):
        watched.append((doing, quiet))
        return honest(doing, quiet)

    for module in ("show", "demo", "fitting", "plan"):
        monkeypatch.setattr(f"eigenveil.cli.{module}.busy", busy)
    invoke(*SLOW[name])
    assert [quiet for _, quiet in watched] == [False]
    if name not in ("export", "sample", "report"):
        watched.clear()
        invoke(*SLOW[name], "--json")
        assert all(quiet for _, quiet in watched)
