"""`forecast`: fits on made-up rows, their inverse questions, the command and the figure."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eigenveil import PrivatePCA, forecast
from eigenveil.cli.plan import plan as plan_command
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.estimators import forecast as forecasting
from eigenveil.estimators.forecast import normalized_spectrum, smallest_meeting
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import MECHANISMS
from eigenveil.report.plots import plan_figure
from eigenveil.tables.schema import Column, Schema
from eigenveil.theory import power_law
from helpers import assert_one_sentence, refused

SMALL = {"n_rows": 2000, "n_features": 6, "n_components": 2, "epsilon": 1.0, "repeats": 4}


def plan(*, n_rows, n_features, n_components, epsilon=1.0, delta=0.0, adjacency="replace_one", **more):
    """Return the forecast of fits with a public norm bound, about the origin."""
    public = {"norm_bound": 1.0, "center": False, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    return forecast(PrivatePCA(n_components, **public), n_features, n_rows, **more)


def one(name, *, n_rows=2000, n_features=6, n_components=2, **more):
    """Return the forecast of one mechanism, with the one that any plan has."""
    more = {"repeats": 10, **more}
    mechanisms = {name, "matrix_laplace"}
    return plan(n_rows=n_rows, n_features=n_features, n_components=n_components, mechanisms=mechanisms, **more)[name]


@pytest.fixture(scope="module")
def pure():
    return plan(**SMALL, target_loss=0.01)


@pytest.fixture(scope="module")
def approximate():
    return plan(**SMALL, delta=1e-6)


# Spectra.


def test_spectra_are_shapes_with_the_stated_energy():
    assert power_law(4, 2.0) == pytest.approx(np.array([144, 36, 16, 9]) / 205)
    given = normalized_spectrum([1, 2, 3, 40, 5, 6], 6, 0.25)
    assert given == pytest.approx(np.array([40, 6, 5, 3, 2, 1]) * 0.25 / 57)
    assert normalized_spectrum(None, 6, 0.5) == pytest.approx(0.5 * power_law(6))
    assert normalized_spectrum([1e308] * 6, 6, 0.5) == pytest.approx([0.5 / 6] * 6)


@pytest.mark.parametrize(
    "bad",
    [
        {"spectrum": [1.0, 2.0]},
        {"spectrum": [1.0] * 5 + [-1.0]},
        {"spectrum": [0.0] * 6},
        {"spectrum": [np.nan] * 6},
        {"spectrum": "steep"},
        {"spectrum": [[1.0] * 6]},
        {"energy": 0.0},
        {"energy": 1.5},
        {"n_rows": 1},
        {"n_rows": 10**13},
        {"n_components": 7},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"adjacency": "sideways"},
        {"target_loss": 0.0},
        {"target_loss": 1.0},
        {"repeats": 1},
        {"seed": -1},
        {"mechanisms": ["tea"]},
        {"n_components": 0.9},
    ],
    ids=lambda bad: f"{next(iter(bad))}={next(iter(bad.values()))}",
)
def test_bad_input_is_one_sentence(bad):
    with refused(InvalidParameterError):
        plan(**{**SMALL, **bad})


# Forecasts.


def test_every_mechanism_is_forecast_or_left_out_with_a_reason(pure, approximate):
    for answer in (pure, approximate):
        assert {found.mechanism for found in answer.forecasts} | set(answer.left_out) == set(MECHANISMS)
    assert (
        set(pure.left_out)
        == {"gaussian", "mod_sulq", "wishart"}
        == {n for n in MECHANISMS if MECHANISMS[n].needs_delta}
    )
    assert all("delta above 0" in reason for reason in pure.left_out.values())
    assert not approximate.left_out
    assert 0 < pure["none"].mean < 1e-3  # what clipping alone takes
    with refused(InvalidParameterError):
        pure["gaussian"]


def test_the_random_baseline_has_its_known_mean():
    answer = one("random_projection", repeats=200, n_rows=500)
    expected = 1 - (2 / 6) / power_law(6)[:2].sum()
    assert answer.random_loss == pytest.approx(expected, abs=0.02)
    assert abs(answer.mean - answer.random_loss) < 6 * answer.standard_error
    assert answer.standard_error < 0.02


def test_the_recommendation_is_the_lowest_proved_loss(pure, approximate):
    for answer in (pure, approximate, plan(**{**SMALL, "n_rows": 12, "n_components": 1})):
        eligible = [found for found in answer.forecasts if found.as_asked]
        assert answer.recommended == min(eligible, key=lambda found: found.mean).mechanism
        means = [found.mean for found in answer.forecasts]
        assert means == sorted(means)
        for found in answer.forecasts:
            if found.as_asked:
                assert found.guarantee.epsilon <= SMALL["epsilon"]
                assert found.guarantee.numerics is not Numerics.EMPIRICAL
                assert found.guarantee.claimed is None
            else:
                assert found.mechanism in ("none", "random_projection", "ppca", "mod_sulq")
                assert found.note
    # One direction has an exact sampler, which may be recommended.
    assert one("ppca", n_components=1, repeats=2).as_asked


def test_auto_is_what_the_fit_takes(pure, approximate):
    for answer, delta in ((pure, 0.0), (approximate, 1e-6)):
        asked = PrivatePCA(2, epsilon=1.0, delta=delta, norm_bound=1.0, center=False)
        assert answer.auto == asked.plan(6, 2000).most_rows.mechanism.name
    assert pure.taken.mechanism == pure.auto


def test_a_hopeless_plan_says_so(pure):
    assert not pure.hopeless
    lost = plan(n_rows=5, n_features=30, n_components=3, epsilon=0.01, repeats=10)
    assert lost.hopeless
    assert "random subspace" in str(lost)


# Long and wide tables.


@pytest.mark.parametrize(
    "name",
    ["matrix_laplace", *(pytest.param(one, marks=pytest.mark.heavy) for one in ("gaussian", "eigenvector_sampling"))],
)
def test_more_rows_than_are_made_up_have_the_same_noise_at_a_larger_epsilon(name, monkeypatch):
    public = {"n_rows": 8000, "delta": 1e-6 if name == "gaussian" else 0.0, "epsilon": 0.5, "repeats": 40}
    whole = one(name, **public)
    monkeypatch.setattr(forecasting, "MOST_NUMBERS", 6 * 2000)  # a quarter of the rows
    fewer = one(name, **public)
    room = 6 * np.hypot(whole.standard_error, fewer.standard_error)
    assert abs(whole.mean - fewer.mean) < room
    assert fewer.guarantee == whole.guarantee
    # The control: without the larger epsilon the noise is four times as large.
    monkeypatch.setattr(forecasting, "_epsilon_factor", lambda mechanism, times: 1.0)
    assert one(name, **public).mean > fewer.mean + room


def test_where_epsilon_cannot_be_raised_so_far_the_forecast_says_at_most(monkeypatch):
    monkeypatch.setattr(forecasting, "MOST_NUMBERS", 6 * 500)
    answer = one("gaussian", n_rows=10**6, delta=1e-6, repeats=2)
    assert "at most" in answer.note
    assert 0 < answer.mean < 0.01


def test_wide_tables_get_a_formula_and_say_so():
    public = {"n_features": 2000, "n_components": 3, "repeats": 2}
    wide = plan(n_rows=10**7, **public)
    assert wide["matrix_laplace"].low is None
    assert "first-order" in wide["matrix_laplace"].note
    assert 0 == wide["none"].mean < wide["matrix_laplace"].mean < wide["random_projection"].mean < 1
    random = 1 - 3 / 2000 / power_law(2000)[:3].sum()
    assert wide["random_projection"].mean == pytest.approx(random)
    assert one("matrix_laplace", n_rows=10, **public).mean == pytest.approx(random)
    with refused(InvalidParameterError):
        plan(n_rows=10**7, **{**public, "n_components": "above_noise"})


def test_the_formula_is_what_fits_of_the_widest_table_give(monkeypatch):
    """Where rows are all shorter than the bound, and gaps exceed the noise."""
    public = {"n_rows": 5000, "epsilon": 8.0, "spectrum": [6, 3, 0.3, 0.2, 0.1, 0.1], "energy": 0.05, "repeats": 60}
    for name in ("matrix_laplace", "eigenvector_sampling"):
        fitted = one(name, **public)
        monkeypatch.setattr(forecasting, "WIDEST", 5)
        formula = one(name, **public)
        monkeypatch.undo()
        assert formula.standard_error is None
        room = 6 * fitted.standard_error + 0.05 * formula.mean
        assert abs(fitted.mean - formula.mean) < room
        assert abs(fitted.mean - 2.25 * formula.mean) > room  # the control: noise that is 1.5 times as large


def test_one_feature_and_all_components_lose_nothing():
    for d in (1, 3):
        answer = plan(n_rows=100, n_features=d, n_components=d, epsilon=1.0, repeats=4)
        assert max(found.mean for found in answer.forecasts) < 1e-9
        assert not answer.hopeless


def test_noise_beyond_the_integers_is_left_out_with_its_reason():
    answer = plan(n_rows=100, n_features=4, n_components=1, epsilon=1e-7, repeats=4)
    assert "int64" in answer.left_out["matrix_laplace"]
    assert answer.recommended in ("ppca", "eigenvector_sampling")
    # The fit that was asked about is refused, so none is said to be taken.
    assert answer.auto is None
    assert f"The fit is refused unless it names {answer.recommended}." in str(answer)


def test_a_wide_table_about_a_private_mean_has_a_formula_too():
    # From so many rows on, ranges and a mean are found privately, and a whole matrix is drawn.
    wide = {"n_features": 400, "repeats": 2, "mechanisms": ["matrix_laplace"]}
    few, many, most = (forecast(PrivatePCA(2), n_rows=rows, **wide) for rows in (10**5, 10**6, 10**7))
    assert "directions of differences" in few.taken.preparation
    assert "a constant for the mean" in many.taken.preparation
    assert 50 < many.taken.mean / most.taken.mean < 200  # the square of the noise
    assert len(few.against_rows()) == 5


# Inverse questions.


@pytest.mark.parametrize("start", [1.0, 30.0, 1e5])
@pytest.mark.parametrize("power", [1, 2])
def test_a_search_ends_at_the_smallest_number_that_meets_the_target(start, power):
    found = smallest_meeting(lambda x: (50 / x) ** power, 1.0, start, 1.0, 1e9)
    assert 50 <= found < 50 * 1.06
    assert smallest_meeting(lambda x: 1 / x, 1e-12, start, 1.0, 1e9) is None
    assert smallest_meeting(lambda x: 1 / x, 2.0, start, 1.0, 1e9) == 1.0


@pytest.mark.heavy
def test_rows_and_epsilon_needed_meet_the_target_and_not_much_less_does():
    target = 0.02
    answer = plan(**{**SMALL, "repeats": 30}, mechanisms=["matrix_laplace"])
    rows, epsilon = answer.rows_for(target), answer.epsilon_for(target)
    for better, worse in (
        (answer.at(rows, 1.0), answer.at(int(0.6 * rows), 1.0)),
        (answer.at(2000, epsilon), answer.at(2000, 0.6 * epsilon)),
    ):
        assert better.mean <= target + 3 * better.standard_error
        assert worse.mean > target
    assert float(f"{rows:.2g}") == rows


def test_a_plan_with_a_target_answers_for_every_mechanism_that_may_be_used(pure):
    for found in pure.forecasts:
        assert (found.rows_needed is not None) == found.as_asked
    best = pure[pure.recommended]
    assert pure.rows_for(0.01) == best.rows_needed
    assert pure.epsilon_for(0.01) == best.epsilon_needed
    assert pure.rows_for(0.01, "eigenvector_sampling") > best.rows_needed
    with refused(InvalidParameterError):
        pure.rows_for(2.0)


def test_what_is_out_of_reach_is_none():
    answer = plan(n_rows=3, n_features=6, n_components=2, epsilon=1.0, repeats=2, mechanisms=["eigenvector_sampling"])
    assert answer.epsilon_for(1e-9) is None


# Output.


def test_a_seed_repeats_a_plan_and_more_repeats_narrow_it():
    once, again = (plan(**{**SMALL, "repeats": 2}) for _ in range(2))
    assert once.to_dict() == again.to_dict()
    assert one("matrix_laplace", repeats=100).standard_error < one("matrix_laplace", repeats=10).standard_error


def test_the_table_and_the_json_hold_everything(pure):
    text = str(pure)
    for word in ("2,000 rows", "→  matrix_laplace", "rows needed", "Recommended: matrix_laplace", "Left out", "±"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 140
    fields = json.loads(json.dumps(pure.to_dict(), allow_nan=False))
    assert fields["recommended"] == "matrix_laplace"
    assert {forecast["mechanism"] for forecast in fields["forecasts"]} | set(fields["left_out"]) == set(MECHANISMS)


@pytest.mark.heavy
def test_the_figure_shows_every_mechanism():
    pytest.importorskip("matplotlib")
    answer = plan(
        **{**SMALL, "repeats": 2, "n_components": 1}, target_loss=0.01
    )  # of one there is no chain to wait for
    figure = plan_figure(answer)
    losses, _, reports, _ = figure.axes  # against the rows, and beside each the same against epsilon
    labels = " ".join(text.get_text() for text in losses.get_legend().get_texts())
    for found in answer.forecasts:
        assert (found.mechanism in labels) == (found.mechanism != "none")
    assert "target 0.01" in labels
    assert [axes.get_xlabel() for axes in figure.axes[2:]] == ["rows", "epsilon"]
    reported = reports.get_lines()[0]
    (at,) = (y for x, y in zip(*reported.get_data(), strict=True) if x == SMALL["n_rows"])
    assert at == pytest.approx(answer.taken.total)


def test_without_matplotlib_one_sentence_says_what_to_install(pure, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(EigenveilError, match=r"pip install 'eigenveil\[report\]'") as info:
        plan_figure(pure)
    assert_one_sentence(info.value)


# The command.


def invoke(*words, fails=None):
    app = typer.Typer()
    app.command()(plan_command)
    size = ("--rows", 2000, "--features", 5, "--components", 2, "--epsilon", 1, "--repeats", 2)
    result = CliRunner().invoke(app, [str(word) for word in (*size, *words)])
    if fails is not None:
        assert isinstance(result.exception, fails), result.output
        assert_one_sentence(result.exception)
        return ""
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.mark.heavy
def test_the_command_takes_a_spectrum_in_three_forms(tmp_path):
    file = tmp_path / "spectrum.txt"
    file.write_text("4 3\n2, 1\n1\n")
    by_file, by_list, by_power = (
        json.loads(invoke("--json", "--spectrum", given))["spectrum"] for given in (file, "4,3,2,1,1", "power:2")
    )
    assert by_file == by_list == pytest.approx(np.array([4, 3, 2, 1, 1]) * 0.5 / 11)
    assert by_power == pytest.approx(0.5 * power_law(5, 2.0))


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        ((), {}),
        (("--public", "norm", "--delta", "1e-6", "--stages", "1"), {"norm_bound": 1.0, "delta": 1e-6, "stages": 1}),
        pytest.param(
            ("--public", "ranges", "--standardize"), {"bounds": (-1, 1), "standardize": True}, marks=pytest.mark.heavy
        ),
        pytest.param(
            ("--public", "norm", "--adjacency", "add_or_remove_one", "--no-center"),
            {"norm_bound": 1.0, "adjacency": "add_or_remove_one", "center": False},
            marks=pytest.mark.heavy,
        ),
    ],
    ids=["nothing", "norm", "ranges", "add or remove"],
)
def test_the_command_forecasts_the_estimator_with_these_parameters(words, parameters):
    by_command = json.loads(invoke("--json", *words))
    of_estimator = forecast(PrivatePCA(2, **parameters), 5, 2000, repeats=2).to_dict()
    assert {name: by_command[name] for name in of_estimator} == json.loads(json.dumps(of_estimator))
    control = forecast(PrivatePCA(2, epsilon=1.1, **parameters), 5, 2000, repeats=2).to_dict()
    assert by_command["forecasts"] != json.loads(json.dumps(control["forecasts"]))


def test_a_schema_tells_the_features_and_their_ranges(tmp_path):
    file = Schema(tuple(Column(name, range=(0.0, 1.0)) for name in "abcde")).save(tmp_path / "schema.yaml")
    app = typer.Typer()
    app.command()(plan_command)
    words = ["--rows", "2000", "-k", "2", "--epsilon", "1", "--repeats", "4", "--schema", str(file), "--json"]
    answer = json.loads(CliRunner().invoke(app, words).output)
    assert answer["n_features"] == 5
    assert sum(answer["spectrum"]) == pytest.approx(1 / 3)
    assert "a public bound" in answer["forecasts"][0]["preparation"]


def test_the_command_refuses_in_one_sentence(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    empty = tmp_path / "empty"
    empty.write_text("")
    for spectrum in ("power:", "power:x", "power:-1", "1,2,x", "1,2", tmp_path / "nowhere", binary, empty):
        invoke("--spectrum", spectrum, fails=InvalidParameterError)
    invoke("--schema", tmp_path / "schema.yaml", fails=InvalidParameterError)  # beside --features
    invoke("-k", "0.9", fails=InvalidParameterError)
    invoke("--statistic", "clipped", "--rows", 20, fails=EigenveilError)  # too few to find a bound
    invoke("--plot", tmp_path / "plan.docx", fails=InvalidParameterError)
    # Without matplotlib it is that which is missing, and said first.
    invoke("--plot", tmp_path / "nowhere" / "plan.png", fails=EigenveilError)


@pytest.mark.heavy
def test_the_example_of_the_docs_prints_what_the_page_shows(capsys):
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "planning.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    # Its first two digits depend on the platform's linear algebra, and the search takes seconds: the words are enough.
    exec(
        compile(code.replace("target_loss=0.01", "target_loss=0.01, repeats=2"), "docs/how_to/planning.md", "exec"), {}
    )
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    expected = shown.splitlines()
    assert printed[:3] == expected[:3]
    assert printed[3].split() == expected[3].split()
    assert {line.split()[-1] for line in printed[-5:]} == {line.split()[-1] for line in expected[-5:]}
