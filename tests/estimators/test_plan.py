"""`Plan`: made of public numbers; what `fit` executes, what is printed, what an audit takes as the claim."""

import numpy as np
import pytest
from sklearn.base import clone

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, gate
from eigenveil.accounting.calibration import exact
from eigenveil.errors import CapacityError, InvalidParameterError
from eigenveil.estimators.fit import whole_moments
from eigenveil.estimators.parameters import Features, FitParameters
from eigenveil.estimators.preparation import prepared
from eigenveil.estimators.split import NORM_SEARCHES, USUAL_ROUNDS
from eigenveil.guarantee import ORDER_ASSUMPTION
from eigenveil.mechanisms import MECHANISMS, choose_mechanism
from eigenveil.releases.file import MEANS
from eigenveil.tables.open import open_table
from helpers import left_for_the_matrix, scales

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose

ROWS = np.random.default_rng(2).normal(size=(300, 5))
MODELS = [
    PrivatePCA(1),
    PrivatePCA(1, statistic="clipped", center=False),
    PrivatePCA(2, norm_bound=2.0),
    PrivatePCA(2, norm_bound=2.0, center=False),
    PrivatePCA(0.8, epsilon=30.0, standardize=True),
    PrivatePCA(0.8, epsilon=30.0, standardize=True, statistic="clipped"),
    PrivatePCA(2, norm_bound=2.0, delta=1e-6),
    PrivatePCA(2, delta=1e-6, adjacency="add_or_remove_one"),
    PrivatePCA(2, statistic="spatial_sign"),
    PrivatePCA(2, statistic="kendall"),
    PrivatePCA(2, bounds=(-4, 4), center=True, mechanism="laplace"),
    PrivateCovariance(epsilon=10.0, delta=1e-9, standardize=True),
    PrivateCovariance(epsilon=10.0, delta=1e-9, statistic="clipped"),
    PrivateSparsePCA(1, norm_bound=2.0),
    PrivateRidge(
        target=4, norm_bound=2.0, mechanism="gaussian", delta=1e-6, mechanism_options={"calibration": "paper"}
    ),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_fit_spends_what_the_plan_says(model, tmp_path):
    ledger = PrivacyLedger.create(
        tmp_path / "ledger", epsilon=100.0, delta=1e-3, adjacency=model.adjacency, data_set="study"
    )
    plan = model.plan(5)
    route = plan.route(300)
    mechanism = route.mechanism
    fitted = model.set_params(ledger=ledger).fit(ROWS)
    model.set_params(ledger=None)
    assert fitted.mechanism_ == mechanism.name
    assert fitted.guarantee_ == route.guarantee
    assert [entry.guarantee for entry in ledger.entries()] == [fitted.guarantee_]
    # The matrix has what the mean and its bounds leave; less where preconditioning was tried, as the noise has it.
    split = route.split
    never_searched = split.residual_norm / NORM_SEARCHES  # nor were 300 rows enough for one mean alone
    saved = (0, split.pilot, split.pilot + split.preconditioned_norm)
    # A further round for the mean, which the noise may bring about, takes as much as each of the usual ones.
    further = max(0, len({*MEANS} & {*fitted.release_.integers}) - USUAL_ROUNDS)
    of_round = split.mean / USUAL_ROUNDS + split.residual_norm / NORM_SEARCHES
    at_least = left_for_the_matrix(split) + split.further_rounds - further * of_round
    shares = [float(at_least + more + searched) for more in saved for searched in (0, never_searched)]
    drawn = dict(fitted.release_.origin.parameters)
    share = drawn.pop("share", 1.0)
    assert any(share == pytest.approx(one, rel=2e-3) for one in shares)  # as near as weights of averages come
    assert drawn == {name: value for name, value in mechanism.parameters().items() if name != "share"}
    assert fitted.release_.origin.chosen_privately == route.split.chosen


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_parts_add_up_to_the_budget(model):
    plan = model.plan(5)
    for _, route in plan.routes:
        parts = sum(exact(part.epsilon) for part in route.choices.values()) + exact(route.mechanism.epsilon)
        assert parts <= exact(model.epsilon)
        assert float(parts) == pytest.approx(model.epsilon, rel=1e-15)
    assert all(promise.epsilon <= plan.guarantee.epsilon for promise in plan.guarantees.values())


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_routes_are_a_table_by_the_number_of_rows(model):
    plan = model.plan(5)
    starts = [rows for rows, _ in plan.routes]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    for at, (rows, route) in enumerate(plan.routes):
        assert plan.route(rows) is route
        if at:
            assert plan.route(rows - 1) is plan.routes[at - 1][1]
        assert all(line in str(plan) for line in route.in_words())
    assert [one["from_rows"] for one in plan.to_dict()["routes"]] == starts


@pytest.mark.parametrize("model", [*MODELS, PrivatePCA(1, delta=1e-6, center=False)], ids=repr)
@pytest.mark.parametrize("n_rows", [300, 60_000, 10**7])
def test_a_plan_for_a_number_of_rows_shows_the_route_that_runs(model, n_rows):
    running = model.plan(5).route(n_rows)
    plan = model.plan(5, n_rows)
    ((_, route),) = plan.routes
    assert route.to_dict() == running.to_dict()
    assert plan.guarantee == running.guarantee
    assert plan.can_transform == running.can_transform
    guarantee, *lines = str(plan).splitlines()
    assert guarantee.split(maxsplit=1) == ["guarantee", str(running.guarantee)]
    assert lines[0].startswith(f"{n_rows:,} rows  ")
    assert [line.removeprefix(f"{n_rows:,} rows").strip() for line in lines] == running.in_words()
    assert "; ".join(running.in_words()).replace("'", "&#x27;") in plan._repr_html_()


def test_a_plan_for_a_number_of_rows_refuses_what_the_fit_refuses():
    model = PrivatePCA(1, epsilon=1e-7, norm_bound=1.0, center=False)
    for attempt in (lambda: model.plan(5, 300), lambda: model.fit(ROWS)):
        with pytest.raises(CapacityError, match="int64"):
            attempt()


@pytest.mark.parametrize(
    ("model", "statistic"),
    [
        (PrivatePCA(1), "spatial_sign"),
        (PrivatePCA(1, standardize=True), "kendall"),
        (PrivatePCA(1, schema=scales(*[2.0] * 5)), "spatial_sign"),
        (PrivatePCA(1, norm_bound=2.0), "clipped"),
        (PrivatePCA(1, bounds=(0, 1), standardize=True), "clipped"),
        (PrivatePCA(1, center=False), "normalized"),
        (PrivatePCA(1, adjacency="add_or_remove_one"), "clipped"),
        (PrivateSparsePCA(1), "spatial_sign"),
        (PrivateCovariance(standardize=True), "kendall"),
        (PrivateCovariance(), "clipped"),
        (PrivateCovariance(center=False), "clipped"),
        (PrivateRidge(target=0), "clipped"),
    ],
    ids=repr,
)
def test_the_statistic_by_what_is_public(model, statistic):
    few = model.plan(5).route(0)
    assert few.preparation.statistic == statistic
    ranges = isinstance(model, PrivateCovariance | PrivateRidge) and model.center and not model.standardize
    assert bool(few.preparation.ranges) == ranges


@pytest.mark.parametrize("epsilon", [0.07, 1.0])
def test_the_mechanism_changes_where_auto_changes_it(epsilon):
    plan = PrivatePCA(1, epsilon=epsilon, norm_bound=1.0, center=False).plan(20)
    (start, few), (crossing, many) = ((rows, route.mechanism) for rows, route in plan.routes)
    assert start == 0
    assert crossing == pytest.approx(8 * 20 / epsilon, abs=1)
    for n_rows, mechanism in ((crossing - 1, few), (crossing, many), (10**9, many)):
        assert plan.route(n_rows).mechanism is mechanism
        assert mechanism.name == choose_mechanism(n_rows=n_rows, n_features=20, n_components=1, epsilon=epsilon)
    known = PrivatePCA(1, epsilon=epsilon, norm_bound=1.0, center=False).plan(20, n_rows=crossing)
    assert [route.mechanism.name for _, route in known.routes] == [many.name]
    assert len(PrivatePCA(3, epsilon=epsilon, norm_bound=1.0).plan(20).routes) == 1


COMPARED = [
    PrivatePCA(1),
    PrivatePCA(1, standardize=True),
    PrivatePCA(1, statistic="spatial_sign", mechanism="gaussian", delta=1e-6),
]


@pytest.mark.parametrize("model", COMPARED, ids=repr)
def test_the_guarantee_of_compared_rows_says_that_order_matters(model, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=1e-3, data_set="study")
    model = clone(model).set_params(ledger=ledger)
    assert model.plan(5).guarantee.assumptions.count(ORDER_ASSUMPTION) == 1
    for promise in (model.fit(ROWS).guarantee_, model.partial_fit(ROWS).fit_moments().guarantee_):
        assert promise.assumptions.count(ORDER_ASSUMPTION) == 1
    assert [entry.guarantee.assumptions.count(ORDER_ASSUMPTION) for entry in ledger.entries()] == [1, 1]
    drawn = gate.release(MECHANISMS["laplace"](epsilon=1.0, n_features=5), whole_moments_of(model))
    assert drawn.guarantee.assumptions == (ORDER_ASSUMPTION,)


def whole_moments_of(model):
    """The moments of compared rows, as a fit makes them."""
    source = open_table(ROWS)
    return whole_moments(source, prepared(FitParameters.of(model), model._needs(), Features.of(source)))


def test_ranges_that_are_found_by_comparing_rows_say_so_too():
    model = PrivateCovariance(epsilon=20.0)
    assert model.plan(5).routes[-1][1].choices.keys() == {"bounds", "norm_bound"}
    assert model.fit(ROWS).guarantee_.assumptions == (ORDER_ASSUMPTION,)
    assert ORDER_ASSUMPTION in PrivatePCA(1).plan(5, 10**6).guarantee.assumptions


@pytest.mark.parametrize(
    "more", [{"norm_bound": 2.0}, {"bounds": (-4, 4)}, {"statistic": "clipped"}, {"adjacency": "add_or_remove_one"}]
)
def test_clipped_rows_may_come_in_any_order(more):
    model = PrivatePCA(1, epsilon=10.0, **more)
    assert ORDER_ASSUMPTION not in model.plan(5).guarantee.assumptions
    assert ORDER_ASSUMPTION not in model.fit(ROWS).guarantee_.assumptions


def test_a_private_number_of_rows_decides_nothing():
    assert len(PrivatePCA(1, norm_bound=1.0, adjacency="add_or_remove_one").plan(20).routes) == 1


def test_fit_executes_the_plan_that_it_is_given():
    model = PrivatePCA(1, norm_bound=1.0, center=False)
    plan = model.plan(5, n_rows=10)
    assert [route.mechanism.name for _, route in plan.routes] == ["ppca"]
    assert model.fit(ROWS, plan=plan).mechanism_ == "ppca"
    assert PrivatePCA(1, norm_bound=1.0, center=False).fit(ROWS).mechanism_ == "matrix_laplace"
    with pytest.raises(InvalidParameterError, match="another plan"):
        model.fit(ROWS[:, :4], plan=plan)


class Policy(PrivateCovariance):
    """A subclass whose constructor has fewer parameters: the others are set from a policy."""

    def __init__(self):
        super().__init__(epsilon=1.0, bounds=(0, 1))


def test_a_fit_of_a_subclass_with_a_shorter_constructor_has_its_own_plan():
    rows, errors = np.random.default_rng(0).uniform(size=(5000, 4)), []
    for epsilon in (5.0, 0.05, 5.0):
        model = Policy()
        model.epsilon = epsilon
        assert model.plan(4, 5000).guarantee.epsilon == model.fit(rows).guarantee_.epsilon == epsilon
        errors.append(np.abs(model.covariance_ - np.cov(rows.T)).mean())
    assert min(errors[1] / errors[0], errors[1] / errors[2]) > 10  # 100 times the noise
    for largest in (1, 1000):
        model = Policy()
        model.bounds = (0, largest)
        assert np.allclose(np.diag(model.fit(rows * largest).covariance_), largest**2 / 12, rtol=0.2)


def test_a_plan_follows_parameters_that_are_changed_in_place():
    model = PrivatePCA(2, bounds=(-1.0, [1.0, 2.0, 3.0]), mechanism_options={"calibration": "tight"}, epsilon=1.375)
    before = model.plan(3)
    model.bounds[1][0] = 7.0
    assert model.plan(3).most_rows.rule.shift[0] == 3.0
    with pytest.raises(InvalidParameterError, match="other parameters"):
        model.fit(ROWS[:, :3], plan=before)
    model.mechanism_options["calibration"] = "no such"
    with pytest.raises(InvalidParameterError, match="calibration"):
        model.plan(3)
    high = np.array([1.0, 2.0, 3.0])
    model = PrivatePCA(2, bounds=(-1.0, high))
    for _ in range(2):
        assert np.allclose(model.plan(3).most_rows.rule.shift, (high - 1) / 2)
        high *= 2.0
    PrivatePCA(2, mechanism_options={"accept_inexact": True}).plan(3)
    with pytest.raises(InvalidParameterError, match="accept_inexact"):  # 1 is as large as True, and no truth value
        PrivatePCA(2, mechanism_options={"accept_inexact": 1}).plan(3)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (PrivatePCA(6), InvalidParameterError),
        (PrivatePCA(2, mechanism="nonsense"), InvalidParameterError),
        (PrivatePCA(2, mechanism="laplace", delta=1e-6), InvalidParameterError),
        (PrivatePCA(2, mechanism="gaussian"), InvalidParameterError),
        (PrivatePCA(0.5, mechanism="ppca"), InvalidParameterError),
        (PrivatePCA(2, mechanism="ppca", norm_bound=1.0), InvalidParameterError),
        (PrivatePCA(2, statistic="spatial_sign", adjacency="add_or_remove_one"), InvalidParameterError),
        (PrivatePCA(2, statistic="spatial_sign", center=False), InvalidParameterError),
        (PrivatePCA(2, statistic="kendall", adjacency="add_or_remove_one"), InvalidParameterError),
        (PrivatePCA(1, statistic="kendall", mechanism="ppca"), InvalidParameterError),
        (PrivatePCA(1, statistic="spatial_sign", mechanism="wishart", delta=1e-6), InvalidParameterError),
        (PrivatePCA(2, epsilon=1e-12), CapacityError),
        (PrivateCovariance(mechanism="random_projection"), InvalidParameterError),
        (PrivateRidge(mechanism="none"), InvalidParameterError),
    ],
    ids=repr,
)
def test_what_can_be_refused_without_rows_is_refused_by_the_plan(model, error):
    with pytest.raises(error) as caught:
        model.plan(5)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"center": False}])
def test_the_constants_of_a_paper_ask_for_its_bounded_rows(options):
    published = {"mechanism": "laplace", "mechanism_options": {"calibration": "paper"}, **options}
    with pytest.raises(InvalidParameterError, match="rows of bounded norm"):
        PrivatePCA(1, **published).fit(ROWS)
    assert PrivatePCA(1, **published, norm_bound=2.0).fit(ROWS).guarantee_.claimed == (1.0, 0.0)
