"""Plots of a release: the numbers of the reading, in figures that can be saved and shown."""

import subprocess
import sys

import numpy as np
import pytest

from eigenveil import Release, RowBound
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.releases.origin import Request
from eigenveil.report.estimates import read_estimates
from helpers import refused
from made_releases import directions_by_hand, drawn

pytest.importorskip("matplotlib", reason="plots are an extra")

from eigenveil.report import plots

PLOTS = {plot.__name__: plot for plot in (plots.scree, plots.explained_variance, plots.loadings, plots.loading_errors)}


@pytest.fixture(scope="module")
def release() -> Release:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(3000, 5)) * [3.0, 2.0, 1.0, 0.3, 0.1]
    return drawn("matrix_laplace", rows, epsilon=2.0, bound=RowBound(6.0), names=None, n_components=3)


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_figures_can_be_saved_and_shown(plot, release, tmp_path):
    figure = plot(release)
    figure.savefig(tmp_path / "figure.svg")
    assert "<svg" in (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_scree_shows_variances_intervals_and_the_edge_of_the_noise(release):
    axes = plots.scree(release, n_components=3).axes[0]
    shown = read_estimates(release)
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["variance"].get_ydata(), release.explained_variance)
    released = np.maximum(shown.released_eigenvalues[:3], 0)
    np.testing.assert_allclose(lines["released eigenvalue"].get_ydata(), released)
    assert lines["noise level"].get_ydata()[0] == shown.edges[0] == release.spectrum.noise_test.edges[0]
    segments = np.array(axes.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, :, 1], release.explained_variance_interval)
    assert axes.get_ylim()[1] > release.explained_variance_interval.max()
    assert ("not above noise" in lines) == (not release.above_noise.all())


def test_explained_variance_shows_the_shares_with_intervals(release):
    axes = plots.explained_variance(release).axes[0]
    heights = [bar.get_height() for bar in axes.patches]
    np.testing.assert_allclose(heights, release.explained_variance_ratio)
    bars = np.array(axes.containers[-1].lines[2][0].get_segments())[:, :, 1]
    np.testing.assert_allclose(bars, release.spectrum.explained_variance_ratio_interval)


def test_what_may_be_zero_has_no_colour():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(3000, 2)) @ [[1.0, 0.9, 0.0], [0.0, 0.3, 1.0]]
    wanted = drawn("gaussian", rows, epsilon=4.0, bound=RowBound(4.0), names=["a", "b", "c"], request=Request())
    figure = plots.correlations(wanted)
    figure._repr_png_()
    low, high = np.moveaxis(wanted.intervals.correlation(), -1, 0)
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), (low <= 0) & (high >= 0))
    assert not np.ma.getmaskarray(shown)[0, 1]
    found = wanted.intervals.correlation_tests(0.01).rejected | np.eye(3, dtype=bool)
    strict = plots.correlations(wanted, fdr=0.01).axes[0].images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(strict), ~found)
    noise = drawn("gaussian", rows, epsilon=1e-3, bound=RowBound(4.0), names=["a", "b", "c"], request=Request())
    axes = plots.correlations(noise).axes[0]
    faded = np.ma.getmaskarray(axes.images[0].get_array())
    assert faded[0, 1]
    # What may be 0 is hatched, also in a grey print, with a legend; other cells have their numbers.
    hatched = sorted([int(one.get_y() + 0.5), int(one.get_x() + 0.5)] for one in axes.patches if one.get_hatch())
    assert hatched == np.argwhere(faded).tolist()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["may be 0"]
    assert len(axes.texts) == 9 - len(hatched)
    errors = wanted.spectrum.loading_errors()
    axes = plots.loading_errors(wanted).axes[0]
    order = np.argsort(-np.abs(wanted.components[0]), kind="stable")[::-1]
    ends = np.array(axes.containers[0].lines[2][0].get_segments())[:, :, 0]
    np.testing.assert_allclose(np.diff(ends)[:, 0], 2 * 1.96 * errors.standard_errors[0, order])
    with refused(InvalidDataError):
        plots.correlations(drawn("gaussian", n_components=2))
    with refused(InvalidDataError):
        plots.loading_errors(drawn("ppca", n_components=2))


def test_loadings_show_the_components_with_names_as_they_are():
    names = ["$x_", "b", "c$\\frac"]
    release = directions_by_hand(np.eye(2, 3), feature_names=tuple(names))
    figure = plots.loadings(release)
    figure._repr_png_()
    np.testing.assert_allclose(np.asarray(figure.axes[0].images[0].get_array()), np.eye(2, 3).T)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == names


def test_a_subspace_has_no_eigenvalues_to_plot(release):
    subspace = drawn("ppca", n_components=2)
    for plot in (plots.scree, plots.explained_variance):
        with refused(InvalidDataError):
            plot(subspace)
    with refused(InvalidParameterError):
        plots.scree(release, n_components=6)


def test_matplotlib_loads_with_the_first_plot_and_pyplot_never(tmp_path):
    path = directions_by_hand(np.eye(2, 3)).save(tmp_path / "a.npz")
    code = (
        "import sys; from eigenveil import load_release; from eigenveil.report import plots;"
        "print('matplotlib' in sys.modules);"
        f"plots.loadings(load_release({str(path)!r}));"
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


def test_without_matplotlib_one_sentence_says_so(release, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with refused(InvalidParameterError):
        plots.scree(release)
