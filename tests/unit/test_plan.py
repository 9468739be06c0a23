"""`plan`: forecasts from public numbers, their inverse questions, the command and the figure."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eigenveil.cli.plan import plan as plan_command
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.guarantee import Numerics, Relation
from eigenveil.mechanisms import LAWS, choose_law
from eigenveil.tables.schema import Column, Schema
from eigenveil.theory import plan, power_law
from eigenveil.theory.forecast import Scenario
from eigenveil.theory.plan_figure import plan_figure
from eigenveil.theory.spectra import normalized_spectrum
from helpers import assert_one_sentence, refused

SMALL = {"n_rows": 5000, "n_features": 6, "n_components": 2, "epsilon": 1.0, "repeats": 15}


@pytest.fixture(scope="module")
def pure():
    return plan(**SMALL, target_loss=1e-3)


@pytest.fixture(scope="module")
def approximate():
    return plan(**SMALL, delta=1e-6)


def scenario(d=6, k=2, delta=0.0, repeats=30, spectrum=None):
    values = 0.5 * power_law(d) if spectrum is None else spectrum
    return Scenario(d, k, delta, Relation.REPLACE, tuple(map(float, values)), repeats, 0)


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
        {"n_rows": 0},
        {"n_rows": 10**13},
        {"n_components": 7},
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"relation": "sideways"},
        {"target_loss": 0.0},
        {"target_loss": 1.0},
        {"repeats": 1},
        {"seed": -1},
    ],
    ids=lambda bad: f"{next(iter(bad))}={next(iter(bad.values()))}",
)
def test_bad_input_is_one_sentence(bad):
    with refused(InvalidParameterError):
        plan(**{**SMALL, **bad})


# Forecasts.


def test_every_law_is_forecast_or_left_out_with_a_reason(pure, approximate):
    for answer in (pure, approximate):
        assert {forecast.law for forecast in answer.forecasts} | set(answer.left_out) == set(LAWS)
    assert set(pure.left_out) == {"gaussian", "mod_sulq", "wishart"} == {n for n in LAWS if LAWS[n].needs_delta}
    assert all("delta above 0" in reason for reason in pure.left_out.values())
    assert not approximate.left_out
    assert pure["none"].mean == pytest.approx(0.0, abs=1e-12)
    with refused(InvalidParameterError):
        pure["gaussian"]


def test_the_random_baseline_has_its_known_mean():
    answer = scenario(repeats=2000).forecast("random_projection", 10, 1.0)
    expected = 1 - (2 / 6) / power_law(6)[:2].sum()
    assert answer.random_loss == pytest.approx(expected)
    assert abs(answer.mean - expected) < 6 * answer.standard_error
    assert answer.standard_error < 0.01


def test_the_recommendation_is_the_lowest_proved_loss(pure, approximate):
    for answer in (pure, approximate, plan(**{**SMALL, "n_rows": 12, "n_components": 1})):
        eligible = [forecast for forecast in answer.forecasts if forecast.as_asked]
        assert answer.recommended == min(eligible, key=lambda forecast: forecast.mean).law
        means = [forecast.mean for forecast in answer.forecasts]
        assert means == sorted(means)
        for forecast in answer.forecasts:
            if forecast.as_asked:
                assert forecast.guarantee.epsilon <= SMALL["epsilon"]
                assert forecast.guarantee.numerics is not Numerics.EMPIRICAL
                assert forecast.guarantee.claimed is None
            else:
                assert forecast.law in ("none", "random_projection", "ppca", "mod_sulq")
                assert forecast.note
    # One direction has an exact sampler, which may be recommended.
    assert plan(**{**SMALL, "n_components": 1})["ppca"].as_asked


def test_auto_is_what_the_estimators_take(pure, approximate):
    public = {name: value for name, value in SMALL.items() if name != "repeats"}
    assert pure.auto == choose_law(**public)
    assert approximate.auto == choose_law(**public, delta=1e-6)


def test_a_hopeless_plan_says_so(pure):
    assert not pure.hopeless
    lost = plan(n_rows=5, n_features=30, n_components=3, epsilon=0.01, repeats=10)
    assert lost.hopeless
    assert "random subspace" in str(lost)


@pytest.mark.parametrize("name", ["matrix_laplace", "gaussian", "eigenvector_sampling", "ppca"])
def test_losses_fall_with_rows_and_epsilon(name):
    k = 1 if name == "ppca" else 2
    assumed = scenario(k=k, delta=1e-6 if name == "gaussian" else 0.0, repeats=20)

    def mean(n_rows, epsilon):
        return assumed.forecast(name, n_rows, epsilon).mean

    by_rows = [mean(n, 1.0) for n in (100, 1000, 10_000)]
    by_epsilon = [mean(1000, epsilon) for epsilon in (0.1, 1.0, 10.0)]
    for losses in (by_rows, by_epsilon):
        # Tenfold steps divide the loss by ten at the least, but for the first, where it is near that of no knowledge.
        assert losses[0] > losses[1] > 5 * losses[2] > 0


def test_pure_laws_depend_on_the_product_of_rows_and_epsilon():
    assumed = scenario()
    for name in ("matrix_laplace", "frobenius"):
        one, other = assumed.forecast(name, 1000, 1.0), assumed.forecast(name, 4000, 0.25)
        assert one.mean == pytest.approx(other.mean, rel=1e-6)


def test_far_from_the_noise_simulation_meets_the_first_order_formula():
    assumed = scenario(repeats=150, spectrum=[0.3, 0.2, 0.05, 0.04, 0.03, 0.02])
    for name in ("matrix_laplace", "frobenius", "eigenvector_sampling"):
        forecast = assumed.forecast(name, 10**6, 1.0)
        first_order, _ = assumed.first_order(assumed.fit(name, 10**6, 1.0))
        assert abs(forecast.mean - first_order) < 6.1 * forecast.standard_error + 0.01 * first_order


def test_wide_tables_get_a_formula_and_say_so():
    assumed = scenario(d=400, k=3, repeats=2)
    sampled, added = (assumed.forecast(name, 10**6, 1.0) for name in ("eigenvector_sampling", "matrix_laplace"))
    assert sampled.standard_error is None
    assert "first-order" in sampled.note
    assert added.standard_error is not None
    wide = scenario(d=2000, k=3).forecast("matrix_laplace", 10**7, 1.0)
    assert wide.low is None
    assert 0 < wide.mean < 1
    random = 1 - 3 / 2000 / power_law(2000)[:3].sum()
    assert scenario(d=2000, k=3).forecast("matrix_laplace", 10, 1.0).mean == pytest.approx(random)


def test_a_formula_without_a_gap_is_a_random_subspace_for_noise_and_none_for_sampling():
    added = scenario(d=2000, k=3, spectrum=[0.5 / 2000] * 2000).forecast("matrix_laplace", 10**9, 1.0)
    assert added.mean == pytest.approx(added.random_loss) == pytest.approx(0.0)
    tied = scenario(d=2000, k=3, spectrum=[0.1] * 4 + [0.1 / 1996] * 1996)
    added = tied.forecast("matrix_laplace", 10**9, 1.0)
    assert added.mean == pytest.approx(added.random_loss)
    assert tied.forecast("eigenvector_sampling", 10**9, 1.0).mean < 0.01 * added.random_loss


def test_one_feature_and_all_components_lose_nothing():
    for d in (1, 3):
        answer = plan(n_rows=100, n_features=d, n_components=d, epsilon=1.0, repeats=4)
        assert max(forecast.mean for forecast in answer.forecasts) < 1e-9
        assert not answer.hopeless


def test_noise_beyond_the_integers_is_left_out_with_its_reason():
    answer = plan(n_rows=100, n_features=4, n_components=1, epsilon=1e-7, repeats=4)
    assert "int64" in answer.left_out["matrix_laplace"]
    assert answer.recommended in ("ppca", "eigenvector_sampling")


# Inverse questions.


@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param("matrix_laplace", 0.1, marks=pytest.mark.heavy),
        ("gaussian", 1e-4),
        pytest.param("eigenvector_sampling", 0.03, marks=pytest.mark.heavy),
    ],
)
def test_rows_and_epsilon_needed_meet_the_target_and_not_much_less_does(name, target):
    assumed = scenario(delta=1e-6 if name == "gaussian" else 0.0, repeats=25)
    rows = assumed.rows_for(name, 1.0, target, start=1000)
    epsilon = assumed.epsilon_for(name, 10_000, target, start=1.0)
    assert assumed.forecast(name, rows, 1.0).mean <= 1.05 * target
    assert assumed.forecast(name, int(0.8 * rows), 1.0).mean > target
    assert assumed.forecast(name, 10_000, epsilon).mean <= 1.05 * target
    assert assumed.forecast(name, 10_000, 0.8 * epsilon).mean > target
    assert float(f"{rows:.3g}") == rows
    # From wherever the search starts, it ends at the same place.
    assert assumed.rows_for(name, 1.0, target, start=10**8) == pytest.approx(rows, rel=0.06)


def test_a_plan_with_a_target_answers_for_every_law_that_may_be_used(pure):
    for forecast in pure.forecasts:
        assert (forecast.rows_needed is not None) == forecast.as_asked
    best = pure[pure.recommended]
    assert pure.rows_for(1e-3) == best.rows_needed
    assert pure.epsilon_for(1e-3) == best.epsilon_needed
    assert pure.rows_for(1e-3, "laplace") > best.rows_needed
    with refused(InvalidParameterError):
        pure.rows_for(2.0)


def test_what_is_out_of_reach_is_none():
    assumed = scenario(repeats=4)
    assert assumed.rows_for("eigenvector_sampling", 1e-3, 1e-12, start=10) is None
    assert assumed.epsilon_for("eigenvector_sampling", 2, 1e-6, start=1.0) is None
    assert assumed.rows_for("matrix_laplace", 1000.0, 0.9, start=10) == 1


# Output.


def test_a_seed_repeats_a_plan_and_more_repeats_narrow_it():
    one, again = (plan(**{**SMALL, "repeats": 5}) for _ in range(2))
    assert one.to_dict() == again.to_dict()
    many = scenario(repeats=200).forecast("matrix_laplace", 5000, 1.0)
    assert many.standard_error < scenario(repeats=25).forecast("matrix_laplace", 5000, 1.0).standard_error


def test_the_table_and_the_json_hold_everything(pure):
    text = str(pure)
    for word in ("5,000 rows", "→  matrix_laplace", "rows needed", "Recommended: matrix_laplace", "Left out", "±"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 140
    fields = json.loads(json.dumps(pure.to_dict(), allow_nan=False))
    assert fields["recommended"] == "matrix_laplace"
    assert {forecast["law"] for forecast in fields["forecasts"]} | set(fields["left_out"]) == set(LAWS)


def test_the_figure_shows_every_law():
    pytest.importorskip("matplotlib")
    answer = plan(
        **{**SMALL, "repeats": 4, "n_components": 1}, target_loss=0.01
    )  # of one there is no chain to wait for
    figure = plan_figure(answer)
    losses, _, reports, _ = figure.axes  # against the rows, and beside each the same against epsilon
    labels = " ".join(text.get_text() for text in losses.get_legend().get_texts())
    for forecast in answer.forecasts:
        assert (forecast.law in labels) == (forecast.law != "none")
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
    size = ("--rows", 2000, "--features", 5, "--components", 2, "--epsilon", 1, "--repeats", 4)
    result = CliRunner().invoke(app, [str(word) for word in (*size, *words)])
    if fails is not None:
        assert isinstance(result.exception, fails), result.output
        assert_one_sentence(result.exception)
        return ""
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_the_command_prints_a_table_and_writes_a_plot(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "plan.svg"
    output = invoke("-k", "above-noise", "--plot", picture)
    assert "2,000 rows of 5 features, components above the noise, epsilon 1, delta 0, replace" in output
    for words in ("Recommended: ", "Rows: directions between rows", "in fits", "together", "reported together"):
        assert words in output
    for value in ("0.1 ", "10 ", "200 ", "20,000 "):  # other epsilons, and other numbers of rows
        assert any(line.startswith(value) for line in output.splitlines())
    assert "\x1b" not in output
    assert b"<svg" in picture.read_bytes()
    assert invoke("--quiet") == ""


def test_the_command_takes_a_spectrum_in_three_forms(tmp_path):
    file = tmp_path / "spectrum.txt"
    file.write_text("4 3\n2, 1\n1\n")
    by_file, by_list, by_power = (
        json.loads(invoke("--json", "--spectrum", given))["spectrum"] for given in (file, "4,3,2,1,1", "power:2")
    )
    assert by_file == by_list == pytest.approx(np.array([4, 3, 2, 1, 1]) * 0.5 / 11)
    assert by_power == pytest.approx(0.5 * power_law(5, 2.0))


def test_the_command_prepares_rows_as_a_fit_would():
    told = {
        "nothing": ("--rule", "pairs"),
        "public": ("--public", "norm"),
        "signs": ("--standardize",),
        "unit": ("--rule", "unit", "--no-center"),
        "private": ("--rule", "clip"),
    }
    prepared = {name: json.loads(invoke("--json", *words)) for name, words in told.items()}
    how = {name: answer["forecasts"][-1]["preparation"] for name, answer in prepared.items()}
    for name, words in {
        "nothing": "directions between rows",
        "public": "a public bound with a constant",
        "signs": "signs of differences",
        "unit": "length 1",
        "private": "found privately",
    }.items():
        assert words in how[name]
    one = prepared["public"]["against_epsilon"][2]
    assert one["law"] == prepared["public"]["auto"]
    assert one["components"][0]["half_width"] > 0
    losses = [entry["mean"] for entry in prepared["public"]["against_rows"]]
    assert losses == sorted(losses, reverse=True)


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
    invoke("--rule", "clip", "--rows", 20, fails=EigenveilError)  # too few to find a bound
    invoke("--plot", tmp_path / "plan.docx", fails=InvalidParameterError)
    # Without matplotlib it is that which is missing, and said first.
    invoke("--plot", tmp_path / "nowhere" / "plan.png", fails=EigenveilError)


def test_the_example_of_the_docs_prints_what_the_page_shows(capsys):
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "planning.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    # Its first two digits depend on the platform's linear algebra, and the search takes seconds: the words are enough.
    exec(
        compile(code.replace("target_loss=0.01", "target_loss=0.01, repeats=3"), "docs/how_to/planning.md", "exec"), {}
    )
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    expected = shown.splitlines()
    assert printed[:3] == expected[:3]
    assert printed[3].split() == expected[3].split()
    assert {line.split()[-1] for line in printed[-5:]} == {line.split()[-1] for line in expected[-5:]}
