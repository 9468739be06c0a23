"""One style for every figure: colours of the report that can be told apart, and a label on every axis."""

import itertools
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from figure_checks import unlabelled

pytest.importorskip("matplotlib", reason="figures are an extra")

import matplotlib.colors

from eigenveil.moments import RowBound
from eigenveil.releases.origin import Request
from eigenveil.report import plots
from eigenveil.report import plots as figure_style
from eigenveil.report.plots import COLOURS, STYLE, new_figure, styled
from made_releases import drawn

ROOT = Path(__file__).parents[2]
# How linear red, green and blue look to those who lack one kind of cone (Machado, Oliveira and Fernandes 2009).
EYES = {
    "all cones": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no medium": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
APART = 20.0  # CIELAB 1976; about 2 is the least that an eye tells apart side by side


def linear(colour):
    parts = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light):
    f = np.cbrt(TO_XYZ @ np.clip(light, 0, 1) / TO_XYZ.sum(axis=1))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colours):
    """Return how far the nearest two of some colours are from each other, to the eye that tells them apart worst."""
    return min(
        np.linalg.norm(lab(np.array(eye) @ linear(a)) - lab(np.array(eye) @ linear(b)))
        for a, b in itertools.combinations(colours, 2)
        for eye in EYES.values()
    )


def test_colours_can_be_told_apart_by_all_eyes_and_matplotlibs_own_cannot():
    assert least_distance(COLOURS) > APART
    assert least_distance([f"tab:{name}" for name in ("blue", "orange", "green", "red")]) < APART / 2


def test_every_colour_stands_out_from_white():
    for colour in COLOURS:
        assert 1.05 / (TO_XYZ[1] @ linear(colour) + 0.05) > 2, colour


@pytest.mark.parametrize(
    ("name", "colour"), [("accent", "BLUE"), ("n4", "BROWN"), ("ink", "INK"), ("soft", "GREY"), ("grid", "MIST")]
)
def test_colours_are_those_of_the_report(name, colour):
    css = (files("eigenveil") / "report" / "page.css").read_text(encoding="utf-8")
    (light,) = re.findall(rf"--{name}: light-dark\((#\w+),", css)
    assert light == getattr(figure_style, colour)


def test_the_style_is_in_force_while_drawing_and_not_afterwards():
    before = {name: matplotlib.rcParams[name] for name in STYLE}
    with styled():
        axes = new_figure(4, 3).subplots()
        assert axes.plot([1, 2])[0].get_color() == COLOURS[0]
        assert axes.plot([1, 2])[0].get_color() == COLOURS[1]
        assert matplotlib.rcParams["legend.frameon"] is STYLE["legend.frameon"]
    assert not axes.spines["top"].get_visible()
    assert {name: matplotlib.rcParams[name] for name in STYLE} == before


@pytest.mark.parametrize("plot", ["scree", "explained_variance", "loadings", "loading_errors", "correlations"])
def test_every_axis_of_a_plot_has_a_label(plot):
    rows = np.random.default_rng(0).normal(size=(3000, 4)) * [3.0, 2.0, 1.0, 0.3]
    release = drawn("matrix_laplace", rows, epsilon=2.0, bound=RowBound(6.0), names=None, request=Request())
    asked = release if plot == "correlations" else release.pca(2)
    assert unlabelled(getattr(plots, plot)(asked)) == []


def test_an_axis_without_a_label_is_found():
    with styled():
        figure = new_figure(6, 3)
        left, right = figure.subplots(1, 2, sharey=True)
        left.plot([1, 2])
        left.set(xlabel="rows")
    assert unlabelled(figure) == ["y of panel 0", "x of panel 1"]
    left.set(ylabel="error")
    right.set_axis_off()
    assert unlabelled(figure) == []
