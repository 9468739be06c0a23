"""Portions of a Gaussian budget: constants, their sum over all that a fit draws, and averages in integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA
from eigenveil.accounting.calibration import DISCRETE_SHARE, discrete_gaussian_excess, exact
from eigenveil.accounting.sensitivity import frobenius_squared
from eigenveil.errors import CapacityError, InvalidParameterError
from eigenveil.estimators import fit, plan, split
from eigenveil.estimators.parameters import Needs
from eigenveil.estimators.split import NORM_SHARE
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms.budget import Budget, BudgetShare, at_share, averaged, bisections
from eigenveil.mechanisms.gaussian import Gaussian
from eigenveil.moments.counts import NORM_GRID
from eigenveil.postprocess import preconditioning
from eigenveil.releases.file import MEANS
from helpers import left_for_the_matrix

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # payments are what is tested

EPSILON, DELTA = 1.0, 1e-6
COUNT_GRID = 2**30
GENERATOR = np.random.default_rng(3)
STEEP = GENERATOR.normal(size=(4000, 20)) * np.arange(1, 21) ** -1.5


def naive_mu(epsilon, delta):
    """The change that noise of sd 1 hides, by Balle and Wang's formula as they print it."""
    normal = scipy.stats.norm.cdf

    def excess(mu):
        return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu) - delta

    return scipy.optimize.brentq(excess, 1e-3, 10)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 50)])
def test_the_noise_of_a_portion_is_that_of_its_share_of_mu_squared(share):
    portion = BudgetShare(EPSILON, DELTA, share)
    mu = naive_mu(EPSILON, DELTA * (1 - DISCRETE_SHARE))
    assert portion.scale(10**12) == pytest.approx(10**6 / (mu * math.sqrt(share)), rel=1e-6)
    assert portion.count_sd(128) == pytest.approx(math.sqrt(7) / (mu * math.sqrt(share)), rel=1e-6)


def test_a_mechanism_at_a_share_has_its_noise_and_speaks_for_the_whole_budget():
    whole = Gaussian(epsilon=EPSILON, delta=DELTA, n_features=5)
    part = at_share(whole, Fraction(1, 4))
    assert part.noise_scale() == pytest.approx(2 * whole.noise_scale(), rel=1e-9)
    assert part.guarantee().epsilon == whole.guarantee().epsilon
    assert part.guarantee().rho == pytest.approx(whole.guarantee().rho, rel=1e-9)
    assert part.epsilon_at(1e-5) == pytest.approx(whole.epsilon_at(1e-5), rel=1e-9)
    assert Gaussian(**part.parameters()).noise_scale() == part.noise_scale()
    assert "share" not in whole.parameters()


@pytest.mark.parametrize(
    "options",
    [
        {"share": 0.0},
        {"share": 1.5},
        {"share": 0.5, "adjacency": "add_or_remove_one"},
        {"share": 0.5, "calibration": "paper"},
    ],
)
def test_a_share_that_makes_no_sense_is_refused(options):
    with pytest.raises(InvalidParameterError):
        Gaussian(epsilon=EPSILON, delta=DELTA, n_features=5, **options)


def test_no_more_than_all_of_a_budget_is_given():
    budget = Budget(Gaussian(epsilon=EPSILON, delta=DELTA, n_features=5))
    budget.take(Fraction(3, 4))
    for share in (Fraction(1, 3), Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="spent"):
            budget.take(share)
    assert budget.mechanism(budget.left).share == 0.25
    with pytest.raises(ValueError, match="spent"):
        budget.mechanism(Fraction(1, 100))


class Recorder:
    """Everything that a fit draws by Gaussian noise: squared changes in units of the noise, and excess of delta."""

    def __init__(self, monkeypatch):
        self.costs, self.excess, self.parts = [], [], []
        measured, count_noises, draw = BudgetShare.measured, BudgetShare.count_noises, Gaussian.draw

        def record_numbers(portion, values, squared_change, generator):
            scale = portion.scale(squared_change)
            self.costs.append(squared_change / scale**2)
            self.excess.append(discrete_gaussian_excess(portion.epsilon, values.size, scale))
            self.parts.append("numbers")
            return measured(portion, values, squared_change, generator)

        def record_counts(portion, size, generator):
            scale = portion.scale(COUNT_GRID**2)
            self.costs.extend([COUNT_GRID**2 / scale**2] * size)
            self.excess.extend([discrete_gaussian_excess(portion.epsilon, 1, scale)] * size)
            self.parts.extend(["count"] * size)
            return count_noises(portion, size, generator)

        def record_matrix(mechanism, gram, grid, n_rows, generator):
            # By the definition of the mechanism: rows of squared norm up to the grid move the matrix by sqrt(2) of it.
            self.costs.append(float(frobenius_squared(Adjacency.REPLACE_ONE)) / mechanism.noise_scale() ** 2)
            self.excess.append(
                discrete_gaussian_excess(mechanism.epsilon, mechanism.n_numbers, mechanism.off_diagonal_sd * grid)
            )
            self.parts.append("matrix")
            return draw(mechanism, gram, grid, n_rows, generator)

        monkeypatch.setattr(BudgetShare, "measured", record_numbers)
        monkeypatch.setattr(BudgetShare, "count_noises", record_counts)
        monkeypatch.setattr(Gaussian, "draw", record_matrix)


BOUND = ["count"] * 7
MEAN = [*BOUND, "numbers"]
MAPPED = ["matrix", *["count"] * 6, "matrix"]
FITS = {
    "mean first": ({"center": True}, 1.0, [*MEAN, *MEAN, "matrix"]),
    "mean first, near": ({"center": True}, 1.0, [*MEAN, "matrix"]),
    "mean first, far again": ({"center": True}, 1.0, [*MEAN, *MEAN, *BOUND, "matrix"]),
    "mean first, two stages": ({"center": True, "stages": 2}, 1.0, [*MEAN, *MEAN, *MAPPED]),
    "two stages": ({"center": False, "stages": 2}, 1.0, MAPPED),
    "no map": ({"center": False, "stages": 2}, 0.0, ["matrix", "matrix"]),
    "a promise not kept": ({"center": False, "stages": 2}, 0.5, MAPPED),
    "one stage": ({"stages": 1}, 1.0, ["matrix"]),
}


@pytest.mark.parametrize("name", FITS)
def test_all_that_a_fit_draws_adds_up_to_what_was_paid(name, monkeypatch, tmp_path):
    parameters, promise, expected = FITS[name]
    if promise == 0.0:
        monkeypatch.setattr(preconditioning, "MOST_RELATIVE_LOSS", 1e-12)
    if promise == 0.5:
        monkeypatch.setattr(preconditioning.Preconditioner, "is_good_enough", lambda *_: False)
    if "center" in parameters and "stages" not in parameters:
        needs = Needs("PrivatePCA", matrix=False, lengths=False, n_directions=2, even_noise=True)
        monkeypatch.setattr(PrivatePCA, "_needs", lambda self: needs)  # no preconditioning
    monkeypatch.setattr(fit, "SMALL_STEP", 0.0 if "far" in name else np.inf)
    monkeypatch.setattr(split, "SMALL_ERROR", np.inf if "near" in name else 0.0)
    recorder = Recorder(monkeypatch)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1.0, delta=1e-6, data_set="rows")
    model = PrivatePCA(2, epsilon=EPSILON, delta=DELTA, norm_bound=4.0, ledger=ledger, **parameters).fit(STEEP)
    assert recorder.parts == expected
    assert ("map" in model.release_.integers) == (promise == 1.0 and expected[-8:] == MAPPED)
    assert [entry.guarantee for entry in ledger.entries()] == [model.guarantee_]
    mu = naive_mu(EPSILON, DELTA * (1 - DISCRETE_SHARE))
    spent = sum(recorder.costs)
    assert spent <= mu**2 * (1 + 1e-6)
    assert spent >= mu**2 * (1 - 1e-6)  # nothing is left over, so a constant 1.2 times too large is seen as well
    assert sum(recorder.excess) <= DISCRETE_SHARE * DELTA
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (EPSILON, DELTA)


def test_further_rounds_for_the_mean_are_paid_out_of_the_same_budget(monkeypatch):
    monkeypatch.setattr(fit, "SMALL_STEP", 0.0)
    monkeypatch.setattr(fit, "MUCH_NARROWER", np.inf)  # every round is followed by another
    recorder = Recorder(monkeypatch)
    model = PrivateCovariance(epsilon=EPSILON, delta=DELTA, center=True, norm_bound=4.0).fit(STEEP)
    mu = naive_mu(EPSILON, DELTA * (1 - DISCRETE_SHARE))
    assert recorder.parts == [*MEAN * len(MEANS), *BOUND, "matrix"]
    assert sum(recorder.costs) == pytest.approx(mu**2, rel=1e-6)
    route = model.plan(STEEP.shape[1], len(STEEP)).most_rows
    assert recorder.costs[-1] / mu**2 == pytest.approx(float(left_for_the_matrix(route.split)), rel=1e-6)
    assert all(name in model.release_.integers for name in MEANS)
    shift = sum(model.release_.integers[name] * model.release_.unit[name] for name in MEANS)
    assert model.release_.mean == pytest.approx(shift / model.release_.scale)


def test_a_norm_bound_of_many_rows_is_paid_out_of_the_gaussian_budget(monkeypatch):
    recorder, table = Recorder(monkeypatch), np.vstack([STEEP] * 4)
    model = PrivateCovariance(epsilon=EPSILON, delta=DELTA, center=True, statistic="clipped").fit(table)
    assert model.release_.origin.chosen_privately == ("norm_bound",)
    mu = naive_mu(EPSILON, DELTA * (1 - DISCRETE_SHARE))
    spent = sum(recorder.costs)
    # A bisection may end a question early, and what it has not asked is not spent.
    assert (1 - float(split.GAUSSIAN_NORM_SHARE) / 5) * mu**2 < spent <= mu**2 * (1 + 1e-6)
    assert sum(recorder.excess) <= DISCRETE_SHARE * DELTA
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (EPSILON, DELTA)


def test_a_private_norm_bound_of_few_rows_is_paid_beside_the_gaussian_budget(monkeypatch):
    monkeypatch.setattr(plan, "GAUSSIAN_NORM_MARGINS", 1e9)
    recorder = Recorder(monkeypatch)
    model = PrivateCovariance(epsilon=EPSILON, delta=DELTA, center=True, stages=2, statistic="clipped").fit(STEEP)
    assert model.release_.origin.chosen_privately == ("norm_bound",)
    mu = naive_mu(float(1 - NORM_SHARE) * EPSILON, DELTA * (1 - DISCRETE_SHARE))
    assert sum(recorder.costs) == pytest.approx(mu**2, rel=1e-6)
    assert model.guarantee_.epsilon == EPSILON


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # of the constant
@pytest.mark.parametrize("constant", [False, True])
def test_private_ranges_are_paid_out_of_the_gaussian_budget(monkeypatch, constant):
    """Every count of every search, mean and matrix: together mu^2, also where a second search is not needed."""
    recorder = Recorder(monkeypatch)
    table = np.vstack([STEEP] * 4)
    table[:, 3] = 5.0 if constant else table[:, 3]
    model = PrivateCovariance(epsilon=EPSILON, delta=DELTA).fit(table)
    assert model.release_.origin.chosen_privately == ("bounds", "norm_bound")
    assert model.release_.origin.without_range == ((3,) if constant else ())
    mu = naive_mu(EPSILON, DELTA * (1 - DISCRETE_SHARE))
    spent = sum(recorder.costs)
    # A bisection may end a question early, and what it has not asked is not spent.
    assert 0.9 * mu**2 < spent <= mu**2 * (1 + 1e-6)
    assert sum(recorder.excess) <= DISCRETE_SHARE * DELTA
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (EPSILON, DELTA)


def test_a_search_among_all_candidates_hardly_ever_goes_astray():
    """Where all rows have norm 1, it ends there; a threshold of two standard deviations goes beyond too often."""
    share, generator = BudgetShare(EPSILON, DELTA, split.NORM_AFTER_RANGES_SHARE), np.random.default_rng(0)
    place = int(np.searchsorted(NORM_GRID, 1.0))
    counts = np.where(np.arange(NORM_GRID.size) < place, 100_000, 0)
    astray = {}
    for margin in (2, 4):
        most = math.floor(margin * share.count_sd(counts.size))
        found = [share.first_at_most(counts, most, generator) for _ in range(1500)]
        astray[margin] = np.mean(np.array(found) > place + 8)
    assert astray[4] < 0.004 < 0.03 < astray[2]


def test_averages_of_two_releases_are_exact_integers_of_one_share():
    whole = Gaussian(epsilon=EPSILON, delta=DELTA, n_features=2)
    mechanisms = [at_share(whole, Fraction(share)) for share in ("0.1", "0.88")]
    values = [
        {"matrix": np.array([[5, -1], [-1, 7]]), "trace": np.array(3)},
        {"matrix": np.array([[2, 4], [4, 0]]), "trace": np.array(1)},
    ]
    mechanism, integers, divisor = averaged(list(zip(mechanisms, values, strict=True)))
    assert divisor == 49  # 5 : 44
    assert integers["matrix"].tolist() == [[5 * 5 + 44 * 2, -5 + 44 * 4], [-5 + 44 * 4, 35]]
    assert int(integers["trace"]) == 15 + 44
    assert mechanism.share == 0.98


@given(
    st.fractions(Fraction(1, 40), Fraction(1, 4), max_denominator=10**4),
    st.fractions(Fraction(1, 2), Fraction(3, 4), max_denominator=10**4),
)
@example(Fraction(91, 1000), Fraction(839, 1000))  # the shares of a centred fit whose second bound was not looked for
def test_averages_have_room_for_as_many_rows_as_stages_take_and_tell_their_own_noise(first, second):
    whole = Gaussian(epsilon=EPSILON, delta=DELTA, n_features=1)
    mechanisms = [at_share(whole, share) for share in (first, second)]
    total = split._ROOM - 1  # of the rows of a fit, all as long as they may be
    mechanism, integers, divisor = averaged([(mechanism, {"trace": np.array(total)}) for mechanism in mechanisms])
    assert int(integers["trace"]) == divisor * total  # nothing is cut off
    weights = [
        int(
            averaged([(mechanism, {"trace": np.array(one)}) for mechanism, one in zip(mechanisms, ones, strict=True)])[
                1
            ]["trace"]
        )
        for ones in ((1, 0), (0, 1))
    ]
    assert sum(weights) == divisor
    variance = sum(
        (weight * mechanism.noise_scale() / divisor) ** 2 for weight, mechanism in zip(weights, mechanisms, strict=True)
    )
    assert mechanism.noise_scale() == pytest.approx(math.sqrt(variance), rel=1e-9)
    assert 0.997 * (first + second) <= exact(mechanism.share) <= first + second


@pytest.mark.parametrize("places", [2, 100, 128])
def test_a_bisection_without_noise_finds_the_first_count_that_is_low_enough(places, monkeypatch):
    monkeypatch.setattr(BudgetShare, "count_noises", lambda _, size, __: [0] * size)
    counts = np.arange(places)[::-1] * 10
    portion = BudgetShare(EPSILON, DELTA, Fraction(1, 25))
    for most in (-1, 0, 5, 10 * places // 2, 10 * places):
        expected = next((i for i, count in enumerate(counts) if count <= most), places - 1)
        assert portion.first_at_most(counts, most, GENERATOR) == expected
    assert bisections(places) == math.ceil(math.log2(places))


def test_every_question_of_a_bisection_has_a_noise_of_its_own(monkeypatch):
    """With equal counts the path tells the noises one by one: up where the sum passes the threshold, else down."""
    portion, counts = BudgetShare(EPSILON, DELTA, Fraction(1, 25)), np.full(8, 1000)
    for path in range(8):
        signs = [path >> 2 & 1, path >> 1 & 1, path & 1]
        monkeypatch.setattr(
            BudgetShare, "count_noises", lambda _, __, ___, s=signs: [3 * COUNT_GRID * (1 if up else -1) for up in s]
        )
        assert portion.first_at_most(counts, 1000, GENERATOR) == path


def test_what_cannot_be_drawn_is_refused_before_anything_is_spent():
    portion = BudgetShare(EPSILON, DELTA, Fraction(1, 20))
    with pytest.raises(CapacityError, match="coarse"):
        portion.check(10, 4, 0)
    with pytest.raises(CapacityError, match="int64"):
        portion.check(10, 4**16, 2**62)
    portion.check(10, 4**16, 2**50)
    with pytest.raises(CapacityError):
        portion.check_counts(128, 2**33)
