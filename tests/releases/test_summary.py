"""Summaries: every number from a view, the same in all formats, in plain words where it is not known."""

import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import eigenveil
from contract.catalogue import CASES, make, some_moments
from eigenveil import PrivateCovariance, RowBound, Schema, load_release
from eigenveil.cli import app
from eigenveil.errors import InvalidParameterError
from eigenveil.releases.origin import ComponentsRequest, Request, SparseRequest
from eigenveil.releases.summary import Column, Summary, Table
from eigenveil.tables.schema import Column as SchemaColumn
from helpers import refused
from made_releases import NAMES, by_hand, directions_by_hand, drawn, local_release, table, with_origin

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
HOSTILE = r"a_b & <b>50 %</b> $x^2$ \input{x} #1 ~"


def released(request=None, **options):
    given = {"bound": RowBound(8.0, constant=8.0), "epsilon": 9.0, "seed": 3, **options}
    return with_origin(drawn("gaussian", request=request or Request(), **given), created="2026-11-17")


@pytest.fixture(scope="module")
def release():
    return released()


def column(found, name, at=0):
    place = [one.name for one in found.tables[at].columns].index(name)
    return [row[place] for row in found.tables[at].rows]


# The text.


def test_the_text_is_a_table_with_facts_and_notes():
    columns = (
        Column("feature", "feature", "text"),
        Column("estimate", "estimate"),
        Column("noise_error", "s.e. noise", "error"),
        Column("noise_interval", "95 % noise only", "interval"),
        Column("population_interval", "95 % population", "interval"),
        Column("mark", "", "text"),
    )
    rows = (
        ("age", 0.53216, 0.0123, (0.508, 0.55643), None, ""),
        ("income", -1234.5678, math.inf, (-math.inf, math.inf), None, "not determined"),
        ("rent", 0.1, math.nan, None, None, ""),
    )
    facts = {"Rows": 3000, "Privacy": "1-DP (pure), replace-one adjacency, unit: one row; exact sampling"}
    notes = ("A note that is longer than a line goes on below its own beginning, not below its number.",)
    found = Summary("A title", facts, (Table("Coefficients", columns, rows),), notes)
    assert "\n" + str(found) == SNAPSHOT


SNAPSHOT = """
                           A title
==============================================================
Rows:    3,000
Privacy: 1-DP (pure), replace-one adjacency, unit: one row;
         exact sampling
==============================================================
Coefficients
--------------------------------------------------------------
feature  estimate  s.e. noise  95 % noise only
--------------------------------------------------------------
age         0.532       0.012   [0.508, 0.556]
income     -1,235           ∞          [-∞, ∞]  not determined
rent       0.1000     unknown
==============================================================
[1] A note that is longer than a line goes on below its own
    beginning, not below its number."""


def test_long_tables_are_printed_in_part():
    rows = tuple((str(i), float(i)) for i in range(50))
    found = Summary("Many", {}, (Table("Rows", (Column("at", "at", "text"), Column("value", "value")), rows),))
    assert "40 of 50 rows; to_frame() and to_dict() have all." in str(found)
    assert len(found.to_dict()["tables"][0]["rows"]) == found.to_latex().count(r"\\") - 1 == 50


# Numbers.


def test_a_matrix_has_the_numbers_of_the_views(release):
    found, view = release.summary(), release.intervals
    assert [one.title.partition(",")[0] for one in found.tables] == ["Means", "Standard deviations", "Correlations"]
    assert column(found, "feature") == NAMES
    np.testing.assert_array_equal(column(found, "estimate"), release.mean)
    np.testing.assert_array_equal(column(found, "noise_interval"), view.mean())
    np.testing.assert_array_equal(column(found, "population_interval"), view.mean(of="population"))
    sizes = np.sqrt(np.diag(release.covariance))
    np.testing.assert_array_equal(column(found, "estimate", 1), sizes)
    np.testing.assert_allclose(np.square(column(found, "noise_interval", 1)), np.einsum("iij->ij", view.covariance()))
    pairs = [
        (NAMES.index(a), NAMES.index(b))
        for a, b in zip(column(found, "feature", 2), column(found, "with", 2), strict=True)
    ]
    for name, values in (
        ("estimate", release.correlation),
        ("noise_interval", view.correlation(simultaneous=True)),
        ("population_interval", view.correlation(of="population", simultaneous=True)),
        ("noise_error", view.standard_errors("correlation")[0]),
        ("sampling_error", view.standard_errors("correlation")[1]),
        ("adjusted_p_value", view.correlation_tests(of="population").adjusted_p_values),
    ):
        np.testing.assert_array_equal(column(found, name, 2), [values[pair] for pair in pairs])
    assert sorted(pairs) == [(i, j) for i in range(6) for j in range(i + 1, 6)]
    sizes = np.abs(column(found, "estimate", 2))
    assert (np.diff(sizes) <= 0).all()


def test_standard_errors_and_intervals_agree(release):
    """An interval by itself reaches as far as its standard errors say, where nothing was widened or cut."""
    view = release.intervals
    for quantity, middle in (("mean", release.mean), ("covariance", release.matrix.row_matrix)):
        noise, sampling = view.standard_errors(quantity)
        for of, error in (("data", noise), ("population", np.hypot(noise, sampling))):
            ends = getattr(view, quantity)(of=of)
            apart = np.abs(ends - middle[..., None]).min(axis=-1)
            assert np.median(apart / error) == pytest.approx(1.96, rel=0.01)
    low, high = np.moveaxis(view.correlation(), -1, 0)
    inside = (high < 1) & (low > -1) & ~np.eye(6, dtype=bool)
    ratios = (high - low)[inside] / 2 / view.standard_errors("correlation")[0][inside]
    assert np.median(ratios) == pytest.approx(1.96, rel=0.1)


def test_simultaneous_intervals_are_wider_and_the_same_each_time(release):
    view = release.intervals
    for of in ("data", "population"):
        alone, together = view.correlation(of=of), view.correlation(of=of, simultaneous=True)
        assert (together[..., 0] <= alone[..., 0]).all()
        assert (together[..., 1] >= alone[..., 1]).all()
        np.testing.assert_array_equal(together, view.correlation(of=of, simultaneous=True))
    tests = view.correlation_tests()
    assert tests.rejected[0, 1]
    assert not tests.rejected[0, 3]
    assert (tests.adjusted_p_values >= tests.p_values).all()
    assert (np.diag(tests.p_values) == 1).all()


def test_components_have_both_facts_in_one_table():
    release = released(ComponentsRequest(3), bound=RowBound(8.0), epsilon=4.0)
    found, errors = release.summary(), release.spectrum.loading_errors()
    assert column(found, "component") == ["1", "2", "3"]
    np.testing.assert_array_equal(column(found, "variance"), release.explained_variance)
    np.testing.assert_array_equal(column(found, "variance_interval"), release.explained_variance_interval)
    np.testing.assert_array_equal(column(found, "share"), release.explained_variance_ratio)
    assert column(found, "above_noise") == release.above_noise.tolist()
    assert column(found, "determined") == (~errors.undetermined).tolist() == [True, True, False]
    np.testing.assert_array_equal(column(found, "angle_bound"), errors.angle_bound)
    bands, wider = release.spectrum.loading_bands(), release.spectrum.loading_bands(of="population")
    places = [
        (int(i) - 1, NAMES.index(name))
        for i, name in zip(column(found, "component", 1), column(found, "feature", 1), strict=True)
    ]
    for name, values in (("estimate", release.components), ("noise_interval", bands), ("population_interval", wider)):
        np.testing.assert_array_equal(column(found, name, 1), [values[place] for place in places])
    # Each has its own simulated critical value; the sampling error is small here, so they differ a little.
    assert (wider[:2, :, 0] <= bands[:2, :, 0] + 1e-3).all()
    assert np.diff(wider[:2], axis=2).sum() > np.diff(bands[:2], axis=2).sum()
    marks = dict(zip(places, column(found, "mark", 1), strict=True))
    assert {marks[2, j] for j in range(6)} == {"not determined"}
    assert marks[0, 0] == ""
    assert marks[0, 4] == "may be noise"


def test_regressions_are_those_of_regress(release):
    found = release.summary("rent", ["age", "visits"])
    fit, wider = (release.regress("rent", ["age", "visits"], alpha=0, of=of) for of in ("data", "population"))
    assert column(found, "feature") == ["age", "visits", "intercept"]
    np.testing.assert_array_equal(column(found, "estimate"), [*fit.coef, fit.intercept])
    np.testing.assert_array_equal(column(found, "noise_error")[:2], fit.noise_error)
    np.testing.assert_array_equal(column(found, "sampling_error")[:2], wider.sampling_error)
    np.testing.assert_array_equal(column(found, "noise_interval")[:2], fit.coef_interval)
    np.testing.assert_array_equal(column(found, "population_interval")[:2], wider.coef_interval)
    assert found.tables[-1].rows == (("R²", fit.r2, tuple(fit.r2_interval), tuple(wider.r2_interval)),)
    assert not set(fit.notes) - set(found.notes)
    # What is not determined is not a number, and what is resolved stands below.
    unclear = release.summary("age")
    assert "not determined" in column(unclear, "mark")
    assert unclear.tables[1].title == "Regression on the features that can be resolved"
    assert "Regression without" in " ".join(unclear.notes)


# Formats.


def numbers(text):
    return re.findall(r"\d+\.\d+(?:e-\d+)?|\d+", text)


@pytest.mark.parametrize("target", [None, "rent"])
def test_all_formats_have_the_same_numbers(release, target):
    found = release.summary(target)
    by_name = json.loads(found.to_json())
    assert by_name == found.to_dict()
    page, latex, text = found._repr_html_(), found.to_latex(), str(found)
    assert page in found.to_html()
    for at, one in enumerate(found.tables):
        columns, cells = one.lines()
        shown = html.unescape(re.sub("<[^>]+>", " ", page)).replace("\N{MINUS SIGN}", "-")
        for line in cells:
            assert re.search(r"\s+".join(map(re.escape, filter(None, line))), shown)
            assert re.search(r"\s+".join(map(re.escape, filter(None, line))), text)
        body = latex.split(r"\midrule")[at + 1].split(r"\bottomrule")[0]
        assert [numbers(line.replace("$^2$", "²")) for line in body.strip().splitlines()] == [
            numbers(" ".join(line)) for line in cells
        ]
        frames = found.to_frame(at), found.to_frame(at, backend="polars")
        for place, given in enumerate(one.columns):
            values = [row[place] for row in one.rows]
            told = [row[given.name] for row in by_name["tables"][at]["rows"]]
            for frame in frames:
                if given.kind in ("interval", "shares"):
                    ends = np.stack([frame[f"{given.name}_{end}"].to_numpy() for end in ("low", "high")], axis=1)
                    np.testing.assert_array_equal(ends, np.array(values))
                elif given.kind == "text":
                    assert frame[given.name].to_list() == values
                else:
                    np.testing.assert_array_equal(frame[given.name].to_numpy(), values)
            if given.kind not in ("interval", "shares"):
                finite = [None if isinstance(one, float) and not math.isfinite(one) else one for one in values]
                assert told == finite
            assert given in columns or all(value is None for value in values)


def test_what_is_not_finite_is_never_a_number():
    found = released(epsilon=0.05).summary("rent")
    assert math.inf in column(found, "noise_error")
    told = json.loads(found.to_json())["tables"][0]["rows"][0]
    assert told["noise_error"] is None
    assert told["noise_interval"] == [None, None]
    assert "[-∞, ∞]" in str(found)
    assert r"[$-$$\infty$, $\infty$]" in found.to_latex()
    assert "nan" not in str(found).lower().replace("finance", "")
    assert np.isinf(found.to_frame()["noise_interval_high"][0])


def test_names_are_escaped():
    rows = table()[:, :2]
    found = released(rows=rows, names=[HOSTILE, "b\x07"]).summary()
    page, latex = found.to_html(), found.to_latex()
    assert "<b>50" not in page
    assert html.escape(HOSTILE) in page
    assert r"a\_b \& \textless{}b\textgreater{}50 \%" in latex
    assert r"\$x\textasciicircum{}2\$ \textbackslash{}input\{x\} \#1 \textasciitilde{}" in latex
    assert "\x07" not in str(found) + page + latex


def test_frames_of_unknown_kinds_are_refused(release):
    found = release.summary()
    with refused(InvalidParameterError):
        found.to_frame(3)
    with refused(InvalidParameterError):
        found.to_frame(backend="excel")


# Every kind of release.


@pytest.mark.parametrize(("name", "calibration"), sorted({case[:2] for case in CASES}))
def test_every_mechanism_has_a_summary(name, calibration):
    mechanism = make(name, calibration, d=3, k=2)
    release = eigenveil.release(mechanism, some_moments(3), generator=np.random.default_rng(0))
    found = release.summary()
    text = str(found)
    assert found.tables
    assert "nan" not in text
    if release.intervals.unavailable:
        assert "No standard errors and intervals" in text
    for other in (found.to_html(), found.to_latex(), found.to_json()):
        assert other


@pytest.mark.parametrize("kind", ["local", "unknown matrix", "unknown directions", "sparse", "kendall", "one feature"])
def test_other_releases_have_a_summary(kind, monkeypatch):
    if kind == "local":
        release, said = local_release(monkeypatch), "not implemented for the local model"
    elif kind == "unknown matrix":
        release, said = by_hand({"matrix": np.diag([6, 2])}, n_rows=4), "need a mechanism that adds noise"
    elif kind == "unknown directions":
        release, said = directions_by_hand(np.eye(3)[:1]), "directions only"
    elif kind == "sparse":
        release, said = released(SparseRequest(2)), "errors of sparse directions"
        assert column(release.summary(), "component", 1).count("1") == (release.components[0] != 0).sum()
    elif kind == "kendall":
        model = PrivateCovariance(epsilon=9.0, statistic="kendall", standardize=True, random_state=0)
        release, said = model.fit(table()).release_, "Kendall's tau, and so its sine, is 0"
        assert len(release.summary().tables) == 1
    else:
        release, said = released(rows=table()[:, :1], names=["age"]), "95"
        assert len(release.summary().tables) == 2
    text = str(release.summary())
    assert said in text.replace("\n    ", " ")
    assert release.summary().to_latex()


def test_features_without_a_range_are_infinite():
    release = with_origin(released(), without_range=(1,))
    found = release.summary()
    assert column(found, "noise_error")[1] == math.inf
    assert column(found, "noise_interval")[1] == (-math.inf, math.inf)


def test_only_regressions_have_features(release):
    with refused(InvalidParameterError):
        release.summary(features=["age"])
    with refused(InvalidParameterError):
        release.summary(base={"age": "old"})


# Categories.


@pytest.fixture(scope="module")
def survey():
    generator = np.random.default_rng(0)
    place = generator.integers(0, 3, 20_000)
    worker = generator.random(20_000) < 0.5
    age = generator.uniform(20, 60, 20_000)
    pay = 0.5 * age + np.array([0.0, 10.0, -10.0])[place] + 5.0 * worker + generator.normal(0, 5, 20_000)
    schema = Schema(
        (
            SchemaColumn("age", range=(20, 60)),
            SchemaColumn("pay", range=(-20, 60)),
            SchemaColumn("place", "category", categories=("north", "south", "west")),
            SchemaColumn("worker", "boolean"),
        )
    )
    frame = pd.DataFrame(
        {"age": age, "pay": pay, "place": np.array(["north", "south", "west"])[place], "worker": worker}
    )
    return PrivateCovariance(epsilon=8.0, delta=1e-6, schema=schema, random_state=0).fit(frame).release_


def test_coefficients_of_categories_are_differences_from_a_base_level(survey):
    found = survey.summary("pay")
    assert column(found, "feature") == ["age", "place=south", "place=west", "worker", "intercept"]
    for estimate, ends, true in zip(
        column(found, "estimate"), column(found, "population_interval"), [0.5, 10.0, -10.0, 5.0], strict=False
    ):
        assert abs(estimate - true) < max(1.0, abs(ends[1] - ends[0]))
    assert any("base level place=north" in note for note in found.notes)
    other = survey.summary("pay", ["place", "worker"], base={"place": "west"})
    assert column(other, "feature") == ["place=north", "place=south", "worker", "intercept"]
    assert column(other, "estimate")[1] == pytest.approx(20.0, abs=3.0)
    # The other categories of the target's own column would predict it.
    assert column(survey.summary("place=south"), "feature") == ["age", "pay", "worker", "intercept"]
    with refused(InvalidParameterError):
        survey.summary("pay", base={"place": "east"})


# The command line.


def test_the_command_prints_what_the_release_has(tmp_path, survey):
    path = survey.save(tmp_path / "survey.npz")
    loaded = load_release(path)

    def run(*options):
        result = CliRunner().invoke(app, ["summary", str(path), *options])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    assert run() == f"{loaded.summary()}\n"
    of_pay = loaded.summary("pay", ["place", "age"], base={"place": "west"})
    options = ("--target", "pay", "--features", "place,age", "--base", "place=west")
    assert run(*options) == f"{of_pay}\n"
    assert run(*options, "--format", "json") == of_pay.to_json() + "\n"
    assert run(*options, "--format", "html") == of_pay.to_html()
    assert run(*options, "--format", "latex") == of_pay.to_latex()
    assert "ridge, alpha = 0.5" in run("--target", "pay", "--alpha", "0.5")
    for wrong in (("--base", "place"), ("--target", "nowhere"), ("--features", "age")):
        result = CliRunner().invoke(app, ["summary", str(path), *wrong])
        assert isinstance(result.exception, InvalidParameterError)
