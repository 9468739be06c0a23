"""The list of docs/how_to/which_call.md names what exists, and leaves nothing public out."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

import eigenveil
from eigenveil.cli import app

DOCS = Path(__file__).parents[2] / "docs" / "how_to"
LINES = re.findall(r"^- \*\*.*", (DOCS / "which_call.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
CODE = re.findall(r"`([^`]+)`", "\n".join(LINES))
CALLS = [code for code in CODE if not code.startswith("eigenveil ")]
# What others return or take, and nobody calls for a question of their own.
NO_CALLS = {"Guarantee", "Adjacency", "Release", "__version__"}


def named(call):
    """Return what a call of the list names, and its keyword."""
    name, _, keyword = re.sub(r"^release\.", "Release.", call).rstrip(")").partition("(")
    found = eigenveil
    for part in name.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found, keyword.partition("=")[0]


def test_calls_of_the_list_exist():
    for call in CALLS:
        found, keyword = named(call)
        assert not keyword or keyword in inspect.signature(found).parameters, call
    with pytest.raises(AttributeError):  # the control
        named("release.tea")


def test_every_public_name_and_command_is_in_the_list():
    assert set(eigenveil.__all__) - NO_CALLS <= {re.split(r"[.(]", call)[0] for call in CALLS}
    commands = {code.split()[1] for code in CODE if code.startswith("eigenveil ")}
    assert commands == set(typer.main.get_command(app).commands)


def test_every_use_of_a_release_on_its_page_is_in_the_list():
    page = (DOCS / "use_a_release.md").read_text(encoding="utf-8")
    methods = {
        name for cell in re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE) for name in re.findall(r"`(\w+)", cell)
    }
    listed = {call.removeprefix("release.") for call in CALLS if call.startswith("release.")}
    # What stands there beside one that is in the list.
    assert methods - listed == {"inverse_transform", "whiten", "sample_table"}
