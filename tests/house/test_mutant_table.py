"""The table of mutants fits the source and the tests: tools/mutants.py runs it, which takes minutes."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def table(monkeypatch):
    if not (ROOT / "tools" / "mutants.py").exists():
        pytest.skip("the tools are not part of this installation")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import mutant_table
    import mutants

    yield list(mutants.mutants(mutant_table.TABLE)), mutants
    for name in ("mutants", "mutant_table"):
        sys.modules.pop(name, None)


def test_every_constant_is_where_the_table_says_and_its_tests_are_fast_ones(table):
    for mutant in table[0]:
        file, changed = mutant.applied()
        compile(changed, file, "exec")
        for test in mutant.tests:
            file, name = test.split("::")
            before, found, _ = (ROOT / "tests" / file).read_text().partition(f"def {name}(")
            assert found, test
            assert "pytest.mark.heavy" not in before.rpartition("\n\n\n")[2]


def test_an_expression_is_found_by_its_syntax_and_never_guessed(table):
    mutant = table[1].Mutant
    assert "SMALL_ERROR = (1)" in mutant("estimators.split.SMALL_ERROR", "(1/10)", "1", ()).applied()[1]
    twice = "mechanisms.eigenvector_sampling.EigenvectorSampling._cost"
    for where in (twice, twice + "#3", "estimators.split.SMALL_ERROR", "estimators.split.NOT_THERE"):
        with pytest.raises(ValueError, match="times"):
            mutant(where, "self.n_components", "1", ()).applied()


def test_every_distribution_of_the_tables_has_its_constants_there(table):
    """But for the baselines, which have none."""
    from eigenveil.mechanisms import MECHANISMS
    from eigenveil.mechanisms.local import LOCAL_MECHANISMS

    names = [mutant.where for mutant in table[0]]
    mechanisms = [
        *(mechanism for mechanism in MECHANISMS.values() if not mechanism.baseline),
        *LOCAL_MECHANISMS.values(),
    ]
    for mechanism in mechanisms:
        module = mechanism.__module__.removeprefix("eigenveil.") + "."
        assert any(name.startswith(module) for name in names), module


def test_a_mutant_that_dies_is_not_caught(table):
    judged = table[1].verdict
    assert judged(0, "") == "missed"
    assert judged(1, "E       assert 2 == 3\nFAILED tests/x.py::test - assert 2 == 3") == "caught"
    assert judged(1, "FAILED tests/x.py::test - NameError: name 'x' is not defined").startswith("died")
    assert judged(4, "ERROR: not found").startswith("died")
