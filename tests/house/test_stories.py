"""Each user story names tests that exist; CI runs the stories themselves by `python tools/stories.py`."""

import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
reach = pytest.importorskip("reach", reason="the tools are not part of this installation")
stories = pytest.importorskip("stories")


def test_stories_name_their_tests_and_the_functions_that_stay():
    named = [name for story in stories.STORIES for name in story.tests]
    assert [name for name in named if not (TESTS / name).is_file()] == []
    assert [name for name in stories.TESTS if not (TESTS.parent / name).exists()] == []
    known = [function.path for function in reach.functions()]
    assert [pattern for pattern in stories.UNREACHED if not fnmatch.filter(known, pattern)] == []


@pytest.mark.parametrize("name", ["pandas_with_schema", "ledger", "correlation_table"])
def test_a_story_runs(name, capsys):
    assert stories.run_stories([story for story in stories.STORIES if story.name == name])


def test_control_a_story_that_fails_ends_the_run(capsys):
    def broken():
        raise ValueError

    assert not stories.run_stories([stories.Story("As a tester, I fail.", broken, ())])
    assert "failed: broken" in capsys.readouterr().err
