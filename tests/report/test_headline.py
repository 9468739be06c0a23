"""The report begins with its answer, which is a sentence with its error, and then answers an officer in order."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, Release, RowBound, Schema, score_map
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError
from eigenveil.releases.origin import ComponentsRequest, RegressionRequest, Request
from eigenveil.releases.summary import by_name
from eigenveil.report import render_report, write_report
from eigenveil.report.charts import LETTER, Strip, ordered_features, strip_table, text_width, wrapped
from eigenveil.report.estimates import Estimate, read_estimates
from eigenveil.report.headline import headline, noise_banner
from eigenveil.report.page import QUESTIONS
from eigenveil.tables.schema import Column
from eigenveil.uncertainty import CORRELATION, SIZE, for_readers, with_error
from helpers import refused
from made_releases import NAMES, by_hand, directions_by_hand, drawn, local_release, quietly, table
from report.test_page import swamped

CENTRED = RowBound(8.0, constant=8.0)
BANNER = "below may be noise. Do not draw conclusions"


def headline_of(release: Release) -> str:
    said = re.search("<h1>(.*?)</h1>", render_report(release)).group(1).replace("\N{NO-BREAK SPACE}", " ")
    assert said == headline(read_estimates(release), release).replace("<", "&lt;")
    assert said.endswith(".")
    return said


# The headline.


def test_a_headline_counts_what_rises_and_names_no_loading_that_may_be_zero():
    release = drawn("gaussian", epsilon=8.0, bound=CENTRED, request=ComponentsRequest(4))
    lost = replace(read_estimates(release), above_noise=np.array([False, True, False, False]))
    assert headline(lost, release).startswith("One of four components is above the noise; it captures ")
    anywhere = replace(lost, angle_bounds=np.full(4, 90.0))
    assert headline(anywhere, release).endswith("; its direction is not determined.")
    spread = np.random.default_rng(0).normal(size=(3000, 1)) * np.ones(9) + 0.1
    many = drawn("gaussian", spread, epsilon=8.0, names=None, request=ComponentsRequest(1))
    assert "spread over many features, most of all x" in headline_of(many)


def test_a_headline_without_an_error_says_so():
    with pytest.MonkeyPatch.context() as patch:
        said = headline_of(local_release(patch))
    assert "of the variance (its error is not known), mostly age" in said
    assert "error" not in headline_of(drawn("none", n_components=2))


def test_headlines_of_a_matrix():
    release = drawn("gaussian", epsilon=8.0, bound=CENTRED, request=Request())
    ends = release.intervals.correlation()
    told = [(i, j) for i in range(6) for j in range(i) if not ends[i, j, 0] <= 0 <= ends[i, j, 1]]
    i, j = max(told, key=lambda pair: abs(release.correlation[pair]))
    value = for_readers(with_error(release.correlation[i, j], ends[i, j], CORRELATION))
    assert headline_of(release) == (
        f"{len(told)} of 15 correlations are significantly different from 0; "
        f"the strongest, of {NAMES[j]} with {NAMES[i]}, is {value}."
    )
    one = drawn("gaussian", table()[:, :1], epsilon=8.0, bound=CENTRED, names=NAMES[:1], request=Request())
    variance = for_readers(with_error(one.covariance[0, 0], one.intervals.covariance()[0, 0], SIZE))
    assert headline_of(one) == f"The variance of age is {variance}."
    assert noise_banner(read_estimates(one)) is None
    lost = replace(read_estimates(one), spreads=Estimate(np.array([1.0]), np.array([[0.0, 3.0]])))
    assert headline(lost, one) == "The variance of age is not significantly different from 0."
    assert BANNER in noise_banner(lost)
    unknown = by_hand({"matrix": np.diag([20, 10, 5])})
    assert headline_of(unknown).startswith("The strongest of 3 correlations, of x0 with x1, is ")


def test_headlines_of_a_regression():
    rows = np.random.default_rng(0).normal(size=(50_000, 3))
    rows[:, 2] = rows[:, 0] + 0.2 * rows[:, 2]
    names = ["dose", "other", "effect"]
    release = drawn("gaussian", rows, epsilon=8.0, bound=CENTRED, names=names, request=RegressionRequest(2))
    fit = release.regression
    assert fit.determined
    value = for_readers(with_error(fit.coef[0], fit.coef_interval[0]))
    assert f"dose has the largest effect, with {value} (R² = " in headline_of(release)
    assert BANNER not in render_report(release)
    for determined, told in (
        (False, "The regression of effect on the other features is not determined"),
        (True, "No coefficient for effect is significantly different from 0"),
    ):
        known = {"target": 2, "features": (0, 1), "reduced": None, "r2": 0.1, "r2_interval": (0.0, 0.5)}
        hopeless = SimpleNamespace(**known, determined=determined, coef_interval=np.tile([-np.inf, np.inf], (2, 1)))
        lost = replace(read_estimates(release), regressions=(hopeless,))
        assert told in headline(lost, release)
        # The correlations of the same release are significant: the banner is about the request alone.
        assert "<strong>No coefficient is significantly different from 0</strong>" in noise_banner(lost)
        assert "Correlations, means and standard deviations have separate intervals." in noise_banner(lost)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"n_components": 2}, "No component is above the noise"),
        ({"request": Request()}, "No correlation is significantly different from 0"),
    ],
    ids=["components", "matrix"],
)
def test_a_red_banner_stands_where_all_of_the_answer_may_be_noise(request_, said):
    release = swamped(**request_)
    page = render_report(release)
    assert BANNER in page
    assert f"<strong>{said}</strong>" in page
    assert headline_of(release).startswith(said)
    loud = drawn("gaussian", epsilon=8.0, bound=CENTRED, request=request_.get("request", ComponentsRequest(2)))
    assert BANNER not in render_report(loud)


# The figures.


def test_uncertain_correlations_are_hatched_and_ordered_by_likeness():
    release = drawn("gaussian", epsilon=8.0, bound=CENTRED, request=Request())
    shown, page = read_estimates(release), render_report(release)
    ends = shown.correlation_intervals
    unsure = sum(ends[i, j, 0] <= 0 <= ends[i, j, 1] for i in range(6) for j in range(i))
    assert unsure > 0
    assert page.count('class="hatch"') == unsure + 1  # and one in the key
    mixed = table()[:, [0, 3, 1, 4, 2, 5]]
    sure = drawn("none", mixed, bound=CENTRED, names=[NAMES[j] for j in (0, 3, 1, 4, 2, 5)], request=Request())
    assert render_report(sure).count('class="hatch"') == 1
    order = ordered_features(read_estimates(sure))
    assert {frozenset(order[:3]), frozenset(order[3:])} == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


@pytest.mark.parametrize(
    "name", ["a" * 60, 60 * "W", "血" * 60, "mean concave points (worst) of the cell", "é" * 30, ""]
)
def test_names_are_wrapped_and_never_cut(name):
    lines = wrapped(name, 100)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")
    assert all(text_width(line) <= 100 + LETTER for line in lines)


def test_an_interval_beyond_the_axis_ends_in_an_arrow():
    rows = [Strip("a", "1", 1.0, (0.5, 1.5)), Strip("b", "2", 2.0, (-np.inf, np.inf)), Strip("c", "0", 0.0)]
    drawn_rows = strip_table("t", ("a", "b", "c"), rows)
    assert drawn_rows.count("l3 -3") == drawn_rows.count("l-3 -3") == 1
    assert "nan" not in drawn_rows
    assert "inf" not in drawn_rows
    assert "nan" not in strip_table("t", ("a", "b", "c"), [Strip("c", "0", 0.0, (0.0, 0.0))])


def test_warnings_call_features_by_their_names():
    warning = "The noise hides how much x1 varies, and x7."
    assert by_name(warning, ("age", "mean area")) == "The noise hides how much mean area varies, and x7."
    assert by_name(warning, ("x1", "mean area")) == warning


# The score map.


@pytest.fixture(scope="module")
def with_map(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    frame = pd.DataFrame(table(), columns=NAMES)
    ledger = PrivacyLedger.create(folder / "study.ledger", epsilon=20.0, delta=1e-5, data_set="study")
    columns = tuple(Column(name, range=(-15, 15)) for name in NAMES)
    schema = Schema(columns, "the data office", "2026-01-31", "patients of a clinic", "2024 and 2025")
    release = quietly(lambda: PrivatePCA(2, epsilon=4.0, delta=1e-6, schema=schema, ledger=ledger).fit(frame)).release_
    cloud = score_map(frame, release, epsilon=3.0, ledger=ledger)
    return release.save(folder / "a.npz"), cloud.save(folder / "map.npz"), ledger, release, cloud


def test_a_score_map_is_drawn_and_accounted_for(with_map):
    path, file, ledger, _, cloud = with_map
    page = render_report(path, ledger=ledger, scores=file).replace("\N{NO-BREAK SPACE}", " ")
    assert page == render_report(path, ledger=ledger, scores=cloud).replace("\N{NO-BREAK SPACE}", " ")
    assert 'id="scores-1-title"' in page
    sure = (cloud.counts > 0) & ~cloud.may_be_empty
    assert f"{int(sure.sum())} of {cloud.counts.size} cells are distinguishable from noise" in page
    assert f"a score map of {' × '.join(map(str, cloud.grid.bins))} counts with noise" in page  # noqa: RUF001
    assert f"The score map has its own guarantee: {cloud.guarantee}." in page
    assert "Both together: epsilon = 7 and delta = 1e-06." in page
    assert "(its score map)" in page
    assert "Total known spend: epsilon = 7" in page
    assert 'id="scores"' not in render_report(path)
    reach = cloud.mechanism.level(1)
    top = float(cloud.noisy_counts[np.unravel_index(np.argmax(cloud.counts), cloud.counts.shape)])
    assert f">{with_error(top, (max(0.0, top - reach), top + reach), SIZE)}</span>" in page


def test_a_score_map_of_other_components_is_refused(with_map, tmp_path):
    path, file, _, _, cloud = with_map
    for release in (
        directions_by_hand(np.eye(2, 6)[::-1]),
        directions_by_hand(np.eye(1, 6)),
        directions_by_hand(np.eye(2, 5)),
    ):
        with refused(InvalidParameterError) as caught:
            render_report(release, scores=cloud)
        assert "other components" in str(caught.value)
    with pytest.raises(InvalidParameterError):
        write_report(path, file, scores=file)
    done = CliRunner().invoke(app, ["report", str(path), "--scores", str(file), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    assert 'id="scores-1-title"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["report", str(path), "--scores", str(file), "-o", str(file), "--force"])
    assert done.exit_code != 0


# The officer.


def test_first_the_answer_then_the_questions_of_an_officer_in_order(with_map):
    path, file, ledger, _, _ = with_map
    page = render_report(path, ledger=ledger, scores=file).replace("\N{NO-BREAK SPACE}", " ")
    halves = ["<h1>", 'id="spectrum"', 'id="plane"', 'id="loadings"', 'id="scores"', 'id="means"', 'id="officer"']
    asked = [f"{place}. {question}" for place, question in enumerate(QUESTIONS, 1)]
    places = [page.index(mark) for mark in [*halves, *asked, 'id="facts"']]
    assert places == sorted(places)
    answers = re.split("|".join(map(re.escape, asked)), page[page.index('id="officer"') : page.index('id="facts"')])[1:]
    for answer, told in zip(
        answers,
        (
            "Table: patients of a clinic. Period: 2024 and 2025.",
            "matrix of integers",
            "No privacy unit was given",
            "at most a factor of",
            "One row is one person.",
            "declared in the schema by the data office on 2026-01-31",
            "Total known spend: epsilon = 7 and delta = 1e-06 in the ledger.",
            "Facts about people in general.",
            "Signature of the data-protection officer",
        ),
        strict=True,
    ):
        assert told in answer
    assert "No row and no other statistic was released." in answers[1]
    assert "-15 to 15" in answers[5]


def test_hostile_words_of_a_schema_stay_text():
    evil = "<script>alert(1)</script>"
    schema = Schema(tuple(Column(name, range=(-15, 15)) for name in NAMES), evil, None, evil, evil)
    frame = pd.DataFrame(table(), columns=NAMES)
    release = quietly(lambda: PrivateCovariance(epsilon=8.0, schema=schema).fit(frame)).release_
    page = render_report(release)
    assert page.count("<script>") == 1
    assert page.count("&lt;script&gt;") == 3
