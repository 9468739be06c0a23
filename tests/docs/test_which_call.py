"""The map of docs/how_to/which_call.md is made from one table, names what exists, and leaves nothing public out."""

import importlib
import importlib.util
import inspect
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import typer

import eigenveil
from eigenveil.cli import app

TOOL = Path(__file__).parents[2] / "tools" / "call_map.py"
spec = importlib.util.spec_from_file_location("call_map", TOOL)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

ROWS = [entry for part in tool.PARTS for entry in part.rows]
CALLS = sorted({call for entry in ROWS for call in entry.calls})
# What others return or take, and nobody calls for a question of their own.
NO_CALLS = {"Guarantee", "Adjacency", "Release", "__version__"}


def named(call):
    """Return what a call of the map names, and its keyword."""
    name, _, keyword = call.rstrip(")").partition("(")
    found = eigenveil
    for part in name.split("."):
        if inspect.ismodule(found) and not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found, keyword.partition("=")[0]


def left_out(calls, names):
    return sorted(set(names) - {call.partition("(")[0].partition(".")[0] for call in calls})


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_the_map_exists(call):
    found, keyword = named(call)
    assert not keyword or keyword in inspect.signature(found).parameters


@pytest.mark.parametrize("call", ["PrivateTea", "Release.tea", "theory.tea"])
def test_a_call_that_does_not_exist_is_found(call):
    with pytest.raises((AttributeError, ImportError)):
        named(call)


def test_every_public_name_is_on_the_map():
    public = set(eigenveil.__all__) - NO_CALLS
    assert left_out(CALLS, public) == []
    assert left_out([call for call in CALLS if call != "PrivateRidge"], public) == ["PrivateRidge"]  # the control


def test_every_command_is_on_the_map():
    commands = {command for entry in ROWS for command in entry.commands}
    assert commands == set(typer.main.get_command(app).commands)


def test_every_use_of_a_release_on_its_page_is_on_the_map():
    page = (tool.DOCS / "how_to" / "use_a_release.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE)
    methods = {name for cell in first for name in re.findall(r"`(\w+)", cell)}
    assert {"regress", "sample", "compare"} <= methods
    mapped = {call.removeprefix("Release.") for call in CALLS if call.startswith("Release.")}
    # What stands there beside one that is on the map.
    assert methods - mapped == {"inverse_transform", "whiten", "sample_table"}


def test_page_and_pictures_are_those_of_the_table():
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.with_list(page), "run: python tools/call_map.py --write"
    for path, text in tool.pictures().items():
        assert path.read_text(encoding="utf-8") == text, "run: python tools/call_map.py --write"


def test_both_pictures_hold_every_word_of_the_list():
    for text in tool.pictures().values():
        drawn = [node.text for node in ElementTree.fromstring(text).iter() if node.tag.endswith("}text")]
        for entry in ROWS:
            assert set(entry.question) <= set(drawn)
            assert {f"$ eigenveil {command}" for command in entry.commands} <= set(drawn)


def test_no_word_is_wider_than_its_place():
    """Letters of 13 and 12 pixels are 6.5 and 7.3 wide in the widest of the common fonts."""
    for entry in ROWS:
        assert max(len(line) * 6.5 for line in entry.question) <= 212 - 30
        assert max(len(line) * 7.3 for line in tool._boxed(entry)) <= 180
