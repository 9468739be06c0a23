"""Every experiment, at its quick size, gives what its expected.json says, and not where a constant is wrong."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/expected.json"))
FACTOR = 1.2
# For each mechanism, the beginning of a finding that its noise decides; those of one mechanism go by the whole name.
HELD = {
    "amin2018": [
        f"wine, {mechanism}, frobenius"
        for mechanism in ("laplace (paper)", "gaussian (paper)", "exponential (paper)", "gaussian", "matrix_laplace")
    ],
    "beyond": [
        f"insurance, {mechanism}, log10 of the loss at 1e6"
        for mechanism in (
            "laplace",
            "frobenius",
            "ppca",
            "matrix_laplace",
            "mod_sulq",
            "wishart",
            "gaussian",
        )
    ],
    "chaudhuri2013": [
        f"qF at epsilon = 0.5, {mechanism}" for mechanism in ("ppca", "mod_sulq", "matrix_laplace", "gaussian")
    ],
    "jiang2016": [
        f"loss of {mechanism} at 1" for mechanism in ("laplace (paper)", "wishart (paper)", "laplace", "matrix_laplace")
    ],
    "wang_xu2019": [
        f"log10 of n for half, k 20, {mechanism}" for mechanism in ("gaussian_paper", "gaussian", "double_cap")
    ],
}


@pytest.fixture
def framework(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from experiments import common, expected

    return common, expected


@pytest.mark.parametrize("name", NAMES)
def test_a_tolerance_above_a_fifth_has_its_reason_beside_it(name, framework):
    expected = framework[1]
    loose = [
        key
        for key, one in expected.load_expected(name).items()
        if one["tolerance"] > expected.LOOSE * abs(one["value"]) and not one.get("reason")
    ]
    assert loose == []


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_a_rerun_gives_what_is_expected(name, framework, tmp_path):
    common, expected = framework
    if not common.cells_here(name, quick=True):
        pytest.skip(common.missing_data(name))
    results = common.run(name, quick=True, cache=tmp_path)
    lacking = common.lacking(name)
    wanted = expected.load_expected(name, without=lacking)
    if lacking:  # then not every finding can be had
        return
    assert expected.disagreements(common.experiment(name).findings(results), wanted) == []
    pytest.importorskip("matplotlib", reason="sections draw figures")
    if name == "chaudhuri2013":  # its section needs the chains of the full size
        results = common.load_results(common.HERE / name / "results.json")
    text = common.experiment(name).section(results, tmp_path / "images")
    assert text
    assert not re.search(r"\bnan\b", text)


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_a_constant_wrong_by_a_fifth_is_not_expected(name, framework, tmp_path, monkeypatch):
    """Noise that is 1.2 times too large, as epsilon over 1.2 makes it: every mechanism must leave its error bar."""
    common, expected = framework
    if common.lacking(name):
        pytest.skip(common.missing_data(name))
    module = common.experiment(name)
    honest = module.measure

    def weaker(cell, generator):
        if "epsilon" in cell:
            return honest({**cell, "epsilon": cell["epsilon"] / FACTOR}, generator)
        return honest(cell, generator)

    monkeypatch.setattr(module, "measure", weaker)
    if name == "beyond":
        module.mechanism.cache_clear()
        monkeypatch.setattr(module, "EPSILON", module.EPSILON / FACTOR)
    results = common.run(name, quick=True, cache=tmp_path)
    if name == "beyond":
        module.mechanism.cache_clear()
    wrong = expected.disagreements(module.findings(results), expected.load_expected(name))
    passed = [held for held in HELD[name] if not any(line.startswith(f"{held} is ") for line in wrong)]
    assert passed == []
