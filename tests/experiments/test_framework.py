"""The framework of the experiments: kept cells, seeds, error bars, the page."""

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def common(monkeypatch):
    if not (ROOT / "experiments").exists():
        pytest.skip("the experiments are not part of this installation")
    monkeypatch.syspath_prepend(str(ROOT))
    from experiments import common

    return common


class KilledError(Exception):
    pass


@pytest.fixture
def toy(common, monkeypatch):
    """An experiment of two cells; it dies at the n-th measurement when told to."""
    module = types.ModuleType("experiments.toy.run")
    module.TITLE, module.DATASETS, module.calls, module.dies_at = "A toy", (), 0, None

    def measure(cell, generator):
        module.calls += 1
        if module.calls == module.dies_at:
            raise KilledError
        return {"value": generator.normal(cell["mean"], 1.0), "constant": cell["mean"]}

    module.measure = measure
    module.cells = lambda quick: [({"mean": 0.0}, 3 if quick else 30), ({"mean": 5.0}, 40)]
    module.findings = lambda results: {f"at {row.cell['mean']:g}": row.mean["value"] for row in results.rows}
    module.section = lambda results, images: common.table(["cell"], [[str(row.cell["mean"])] for row in results.rows])
    monkeypatch.setitem(sys.modules, "experiments.toy.run", module)
    monkeypatch.setattr(common, "names", lambda: ["toy"])
    return module


def test_a_killed_run_goes_on_where_it_stopped(common, toy, tmp_path):
    toy.dies_at = 20
    with pytest.raises(KilledError):
        common.run("toy", quick=False, cache=tmp_path / "killed")
    (kept,) = (tmp_path / "killed").iterdir()
    assert len(kept.read_text().splitlines()) == 19
    with kept.open("a") as file:
        file.write('{"cell": {"mean"')  # a kill in the middle of a line
    toy.calls, toy.dies_at = 0, None
    resumed = common.run("toy", quick=False, cache=tmp_path / "killed")
    assert toy.calls == 70 - 19
    assert resumed.rows == common.run("toy", quick=False, cache=tmp_path / "whole").rows
    assert [json.loads(line)["repeat"] for line in kept.read_text().splitlines()] == [*range(30), *range(40)]


def test_nothing_is_measured_twice_unless_fresh(common, toy, tmp_path):
    common.run("toy", quick=True, cache=tmp_path)
    toy.calls = 0
    common.run("toy", quick=True, cache=tmp_path)
    assert toy.calls == 0
    common.run("toy", quick=True, cache=tmp_path, fresh=True)
    assert toy.calls == 43


def test_results_are_means_with_standard_errors_and_survive_their_file(common, toy, tmp_path):
    results = common.run("toy", quick=False, cache=tmp_path)
    row = results.one(mean=5.0)
    values = [common.generator_for("toy", {"mean": 5.0}, repeat).normal(5.0, 1.0) for repeat in range(40)]
    assert row.repeats == 40
    assert row.mean["value"] == pytest.approx(np.mean(values), rel=1e-7)
    assert row.se["value"] == pytest.approx(np.std(values, ddof=1) / 40**0.5, rel=1e-7)
    assert (row.mean["constant"], row.se["constant"]) == (5.0, 0.0)
    results.save(tmp_path / "results.json")
    assert common.load_results(tmp_path / "results.json") == results
    runs = common.load_runs(tmp_path / common.RUNS)
    assert [line["cell"] for line in runs] == [row.cell for row in results.rows]
    assert runs[1]["values"]["value"] == pytest.approx(values, rel=1e-7)


def test_the_kept_results_are_the_means_of_the_kept_runs(common):
    for name in common.names():
        path = common.HERE / name / "results.json"
        results, runs = common.load_results(path), common.load_runs(path.with_name(common.RUNS))
        assert [line["cell"] for line in runs] == [row.cell for row in results.rows]
        for row, line in zip(results.rows, runs, strict=True):
            for metric, values in line["values"].items():
                assert len(values) == row.repeats
                assert np.mean(values) == pytest.approx(row.mean[metric], rel=1e-6, abs=1e-12)


def test_expected_values_hold_for_a_rerun_and_catch_a_change(common, toy, tmp_path, monkeypatch):
    from experiments import expected

    (tmp_path / "toy").mkdir()
    monkeypatch.setattr(expected, "HERE", tmp_path)
    expected.write_expected("toy", 10, cache=tmp_path)
    wanted = expected.load_expected("toy")
    found = toy.findings(common.run("toy", quick=True, cache=tmp_path))
    assert expected.disagreements(found, wanted) == []
    # 40 draws of sd 1: the bar is 6/sqrt(40) = 0.95, within what ten runs tell of it.
    assert 0.3 < wanted["at 5"]["tolerance"] < 3
    shifted = {**found, "at 5": found["at 5"] + 3 * wanted["at 5"]["tolerance"]}
    assert len(expected.disagreements(shifted, wanted)) == 1
    assert len(expected.disagreements({**found, "at 5": np.nan}, wanted)) == 1
    assert len(expected.disagreements({"at 0": found["at 0"], "new": 1.0}, wanted)) == 2


def test_the_page_is_what_the_kept_results_say(common, tmp_path, monkeypatch):
    """And `python -m experiments --page-only` writes it."""
    pytest.importorskip("matplotlib", reason="sections draw figures")
    from experiments import __main__ as command

    monkeypatch.setattr(command, "names", common.names)  # a toy's, where a test with one imported it first
    page = tmp_path / "research" / "page.md"
    command.build_page(
        {name: common.load_results(common.HERE / name / "results.json") for name in common.names()}, page
    )
    assert page.read_text() == command.PAGE.read_text()
