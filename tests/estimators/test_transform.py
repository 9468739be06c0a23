"""`standardize=True` on raw rows: what can be transformed is, and what cannot be is told before the spend."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline

from eigenveil import PrivacyLedger, PrivatePCA, load_release
from eigenveil.accounting.calibration import exact
from eigenveil.errors import InvalidParameterError
from eigenveil.estimators.parameters import Features, FitParameters
from eigenveil.estimators.plan import plan_fit, rows_for_ranges
from eigenveil.estimators.split import NORM_SHARE, RANGES_SHARES, SEARCHES
from eigenveil.mechanisms.choices import PureSearch
from helpers import invoked, refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # few rows, on purpose

EPSILON, D = 4.0, 3
LEAST = int(rows_for_ranges(PureSearch(RANGES_SHARES[0] * int(EPSILON) / SEARCHES), D))
"""Rows in which ranges can be found: 375."""
SIZES, MIDDLES = np.array([9_000.0, 0.1, 30.0]), np.array([40_000.0, 1.7, -2_000.0])


def table(n):
    """Columns of unlike units, far from zero; two of them belong together."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(n, 1))
    return MIDDLES + SIZES * (rng.normal(size=(n, D)) * [0.5, 0.5, 1.0] + common * [0.87, 0.87, 0.0])


def standardizing(**options):
    return PrivatePCA(2, **{"epsilon": EPSILON, "standardize": True, **options})


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(tmp_path / "study.ledger", epsilon=20.0, data_set="study")


PIPELINES = {
    "fit_transform": lambda pca, rows: pca.fit_transform(rows),
    "a step before another": lambda pca, rows: make_pipeline(pca, LogisticRegression()).fit(rows, rows[:, 0] > 40_000),
    "the last step, with fit_transform": lambda pca, rows: make_pipeline("passthrough", pca).fit_transform(rows),
    "a union with fit_transform": lambda pca, rows: FeatureUnion([("pca", pca)]).fit_transform(rows),
    "some columns": lambda pca, rows: make_column_transformer((pca, slice(D))).fit(rows),
}


@pytest.mark.parametrize("use", PIPELINES.values(), ids=PIPELINES)
def test_what_needs_a_transform_is_refused_before_the_spend_in_words_that_the_user_wrote(use, ledger):
    with refused(InvalidParameterError) as caught:
        use(standardizing(ledger=ledger), table(LEAST - 1))
    assert ledger.entries() == []
    told = str(caught.value)
    assert "standardize=True releases correlations only" in told
    assert f"bounds, norm_bound or a schema with ranges, or at least {LEAST:,} rows" in told
    assert not re.search("statistic|kendall|signs", told)


@pytest.mark.parametrize("use", PIPELINES.values(), ids=PIPELINES)
def test_what_needs_a_transform_finds_ranges_where_the_rows_allow(use, ledger):
    use(standardizing(ledger=ledger), table(LEAST))
    (entry,) = ledger.entries()
    assert entry.guarantee.epsilon == EPSILON


@pytest.mark.parametrize(("times", "ranges"), [(2, RANGES_SHARES[0]), (4, RANGES_SHARES[1]), (10, RANGES_SHARES[2])])
def test_means_and_sizes_are_released_with_the_shares_of_the_plan(times, ranges, tmp_path):
    rows = table(times * LEAST)
    model = standardizing(random_state=1)
    scores = model.fit_transform(rows)
    origin = model.release_.origin
    assert origin.row_rule.statistic == "clipped"
    assert origin.chosen_privately == ("bounds", "norm_bound")
    parameters, needs = FitParameters.of(model), replace(model._needs(), units=True)
    route = plan_fit(parameters, needs, Features.declared(D, parameters)).route(len(rows))
    assert (route.split.ranges, route.split.norm) == (ranges, NORM_SHARE)
    assert {name: exact(part.epsilon) for name, part in route.choices.items()} == {
        "bounds": ranges * int(EPSILON),
        "norm_bound": NORM_SHARE * int(EPSILON),
    }
    left = exact(EPSILON) - sum(exact(part.epsilon) for part in route.choices.values())
    assert exact(origin.parameters["epsilon"]) == left
    assert model.guarantee_.epsilon == route.guarantee.epsilon == EPSILON
    assert np.abs((model.mean_ - rows.mean(axis=0)) / SIZES).max() < 0.3
    assert np.abs(np.log(model.scale_ * rows.std(axis=0))).max() < 0.3
    loaded = PrivatePCA.from_release(load_release(model.release_.save(tmp_path / "pca.npz")))
    assert np.allclose(loaded.transform(rows), scores)
    assert scores.std(axis=0).max() < 2


def test_fit_alone_compares_rows_until_ranges_pay_for_components():
    rows = table(2 * LEAST)
    assert standardizing(random_state=1).fit(rows).release_.origin.row_rule.statistic == "kendall"


@pytest.mark.parametrize(("options", "asked"), [({}, "standardize=True"), ({"statistic": "kendall"}, "statistic")])
def test_after_a_fit_the_error_names_what_was_asked_for_and_what_to_give(options, asked):
    model = standardizing(**options, **({"standardize": False} if options else {})).fit(table(LEAST - 1))
    with refused(InvalidParameterError) as caught:
        model.transform(table(10))
    assert asked in str(caught.value)
    assert "bounds, norm_bound or a schema with ranges" in str(caught.value)


def test_every_surface_says_before_the_spend_that_there_is_no_transform(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("few.csv", table(LEAST - 1), delimiter=",", header="a,b,c", comments="")
    told = "no transform: neither means nor standard deviations are released"
    plan = standardizing().plan(D, LEAST - 1)
    assert not plan.can_transform
    asked = ("--epsilon", EPSILON, "--standardize")
    forecast = ("plan", "--rows", LEAST - 1, "--features", D, "-k", 2, *asked)
    for surface in (
        str(plan),
        plan._repr_html_(),
        invoked("pca", "few.csv", "-k", 2, *asked, "--dry-run").stderr,
        invoked("pca", "few.csv", "-k", 2, *asked).stderr,
        invoked(*forecast).stdout,
    ):
        assert told in " ".join(surface.replace("│", " ").split())
    many = standardizing().plan(D, 6 * LEAST)
    assert many.can_transform
    assert "no transform" not in str(many)
    assert not standardizing().plan(D).can_transform  # whatever the number of rows
    assert standardizing(bounds=(-1e5, 1e5)).plan(D, 10).can_transform
