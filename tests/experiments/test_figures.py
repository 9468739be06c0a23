"""The figures of the papers label every axis; they are drawn from the results that are kept."""

import importlib
import sys
from pathlib import Path

import pytest

from figure_checks import unlabelled

pytest.importorskip("matplotlib", reason="figures are an extra")

# Each with how many figures it has; the slower ones are left to the long run.
FIGURES = {"amin2018": 1, "beyond": 1, "jiang2016": 1}
LONG = {"chaudhuri2013": 4, "wang_xu2019": 2}


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    return importlib.import_module("experiments.common")


@pytest.mark.parametrize(
    ("name", "count"), [*FIGURES.items(), *(pytest.param(*one, marks=pytest.mark.heavy) for one in LONG.items())]
)
def test_every_axis_of_a_paper_has_a_label(name, count, common, monkeypatch, tmp_path):
    drawn = []
    module = common.experiment(name)
    for path, part in list(sys.modules.items()):
        if path.startswith(f"experiments.{name}") and hasattr(part, "save_figure"):
            monkeypatch.setattr(part, "save_figure", lambda figure, *_: drawn.append(figure) or "")
    module.section(common.load_results(common.HERE / name / "results.json"), tmp_path)
    assert len(drawn) == count
    assert [unlabelled(figure) for figure in drawn] == [[]] * count
