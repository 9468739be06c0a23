"""The parts of an audit: bounds, claims, neighbours, workers, the command."""

import json
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import typer
from typer.testing import CliRunner

from eigenveil import Adjacency, Guarantee
from eigenveil.accounting.calibration import gaussian_epsilon, implied_epsilon
from eigenveil.audit import AuditReport, EstimatorSubject, MechanismSubject, Neighbours, audit, epsilon_lower_bound
from eigenveil.audit.lower_bound import Event, evaluate
from eigenveil.audit.neighbours import (
    added_row_neighbours,
    one_row_neighbours,
    random_neighbours,
    tied_neighbours,
)
from eigenveil.audit.subjects import guarantee_claims, mechanism_claims, names, subject_for
from eigenveil.cli.mechanisms import VIOLATION_EXIT_CODE
from eigenveil.cli.mechanisms import audit as audit_command
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism
from eigenveil.mechanisms.local.double_cap import DoubleCap
from helpers import refused

# The core.


def test_clopper_pearson_agrees_with_the_binomial_distribution():
    event = Event(0.5, True, 0)
    first, second = np.repeat([1.0, 0.0], [30, 70]), np.repeat([1.0, 0.0], [4, 96])
    bound = evaluate(event, first, second, delta=0.01, confidence=0.9)
    assert bound.counts == (30, 4)
    assert scipy.stats.binom.sf(29, 100, bound.p_low) == pytest.approx(0.05)
    assert scipy.stats.binom.cdf(4, 100, bound.q_high) == pytest.approx(0.05)
    assert bound.epsilon == pytest.approx(math.log((bound.p_low - 0.01) / bound.q_high))


def test_the_bound_holds_as_often_as_it_says():
    # Randomized response is tight, so the bound errs as often as it is allowed to, and not more.
    generator, epsilon, trials, confidence = np.random.default_rng(0), 1.0, 2000, 0.8
    truth = 1 / (1 + math.exp(-epsilon))
    wrong = beyond = 0
    for _ in range(trials):
        first, second = generator.random(400) < truth, generator.random(400) < 1 - truth
        bound = epsilon_lower_bound(first, second, confidence=confidence).epsilon
        wrong += bound > epsilon
        beyond += bound > 0.6
    assert scipy.stats.binom.sf(wrong - 1, trials, 1 - confidence) > 1e-9
    # The control: were epsilon 0.6, the same bounds would err far too often.
    assert scipy.stats.binom.sf(beyond - 1, trials, 1 - confidence) < 1e-9


def test_choosing_and_evaluating_on_the_same_draws_would_be_wrong():
    generator, wrong, trials = np.random.default_rng(0), [0, 0], 300
    for _ in range(trials):
        first, second = generator.random((2, 60))
        wrong[0] += epsilon_lower_bound(first, second, confidence=0.5).epsilon > 0
        honest = np.concatenate([first, first]), np.concatenate([second, second])  # both halves the same
        wrong[1] += epsilon_lower_bound(*honest, confidence=0.5).epsilon > 0
    assert scipy.stats.binom.sf(wrong[0] - 1, trials, 0.5) > 1e-9
    assert wrong[1] > 1.5 * wrong[0]


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_it_is_tight_on_the_laplace_distribution(epsilon):
    generator = np.random.default_rng(1)
    first = generator.laplace(0, 1 / epsilon, 100_000)
    second = generator.laplace(1, 1 / epsilon, 100_000)
    bound = epsilon_lower_bound(first, second, confidence=1 - 1e-9)
    assert 0.8 * epsilon < bound.epsilon <= epsilon
    more = epsilon_lower_bound(first, second, confidence=1 - 1e-9, n_tests=100)
    assert more.epsilon < bound.epsilon


def test_infinite_scores_and_delta():
    generator = np.random.default_rng(2)
    first = np.where(generator.random(4000) < 0.3, np.inf, 0.0)
    bound = epsilon_lower_bound(first, np.zeros(4000), delta=1e-3)
    assert bound.event.threshold == np.inf
    assert bound.epsilon > 4
    assert epsilon_lower_bound(first, np.zeros(4000), delta=0.5).epsilon == 0


@pytest.mark.parametrize(
    ("scores", "options", "error"),
    [
        ([1.0], {}, InvalidDataError),
        ([1.0, np.nan, 2.0], {}, InvalidDataError),
        ([[1.0, 2.0]], {}, InvalidDataError),
        ([1.0, 2.0, 3.0, 4.0], {"confidence": 1.0}, InvalidParameterError),
        ([1.0, 2.0, 3.0, 4.0], {"delta": 1.0}, InvalidParameterError),
        ([1.0, 2.0, 3.0, 4.0], {"n_tests": 0}, InvalidParameterError),
    ],
)
def test_bad_input_is_refused(scores, options, error):
    with refused(error):
        epsilon_lower_bound(scores, [1.0, 2.0, 3.0, 4.0], **options)


# Claims at another delta.


def test_a_claim_at_another_delta_is_that_of_randomized_response():
    epsilon, delta = 1.5, 0.01
    for at in (0.01, 0.05, 0.2):
        implied = implied_epsilon(epsilon, delta, at)
        truth = 1 / (1 + math.exp(-epsilon))
        reached = delta + (1 - delta) * (truth - math.exp(implied) * (1 - truth))
        assert reached == pytest.approx(at)
    assert implied_epsilon(epsilon, delta, 0.9) == 0
    assert implied_epsilon(epsilon, delta, 0.001) == math.inf
    assert implied_epsilon(800.0, 0.0, 0.5) < 800


def test_the_gaussian_is_compared_with_its_own_curve():
    mechanism = MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=3)
    claimed = mechanism_claims(mechanism, 0.01)["guarantee"]
    assert claimed == pytest.approx(gaussian_epsilon(mechanism.total_mu(), 0.01), rel=0.02)
    assert claimed < implied_epsilon(1.0, 1e-6, 0.01)


def test_a_published_claim_is_told_apart():
    guarantee = Guarantee(2.3, 1e-4, claimed=(2.0, 1e-4))
    assert guarantee_claims(guarantee, 1e-4) == {"guarantee": 2.3, "published": 2.0}


def test_wishart_claims_fall_with_delta():
    mechanism = MECHANISMS["wishart"](epsilon=1.0, delta=1e-6, n_features=2)
    at = [mechanism_claims(mechanism, delta)["guarantee"] for delta in (1e-6, 1e-4, 1e-2)]
    assert at[0] <= 1.0
    assert at == sorted(at, reverse=True)
    assert at[2] < 0.5


# Neighbours.


def all_neighbours(d, adjacency):
    known = one_row_neighbours(d) if adjacency is Adjacency.REPLACE_ONE else added_row_neighbours(d, 3)
    sampled = tied_neighbours(d, 0.5, adjacency) if d > 1 else []
    return known + sampled + random_neighbours(d, adjacency, 20, np.random.default_rng(0))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_neighbours_differ_in_one_row(d, adjacency):
    for data in all_neighbours(d, adjacency):
        assert max(np.linalg.norm(rows, axis=1).max(initial=0) for rows in (data.first, data.second)) <= 1 + 1e-12
        left = list(map(tuple, data.first))
        added = [row for row in map(tuple, data.second) if not (row in left and (left.remove(row) or True))]
        assert len(added) <= 1, data.name
        assert len(left) == (len(added) if adjacency is Adjacency.REPLACE_ONE else 0), data.name


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_made_up_rows_keep_the_bound_in_integers(d, adjacency):
    for data in all_neighbours(d, adjacency):
        for side in (0, 1):
            integers = data.integer_rows(side, 16)
            assert np.array_equal(integers, np.rint(integers))
            assert max((sum(int(entry) ** 2 for entry in row) for row in integers), default=0) <= 4**16
            assert np.abs(integers / 2**16 - data.rows(side)).max(initial=0) < 2**-16


@pytest.mark.parametrize("row", [[1.001, 0.0], [0.8, 0.8], [np.nan, 0.0], [np.inf, 0.0]])
def test_rows_beyond_the_bound_are_refused(row):
    long = Neighbours("too long", [row], [[0.0, 0.0]])
    with refused(InvalidParameterError):
        audit("laplace", parameters={"epsilon": 1.0, "n_features": 2}, neighbours=[long], draws=100)


def test_the_tied_neighbours_are_those_of_the_design():
    data = tied_neighbours(3, 0.5, Adjacency.REPLACE_ONE)[1]
    C, other = (rows.T @ rows for rows in (data.first, data.second))
    T = C[1, 1]
    assert np.array_equal(C, np.diag([T + 1, T, 0]))
    assert np.array_equal(other, np.diag([T + 2, T - 1, 0]))


# Blocks and workers.


class Coin:
    """Randomized response."""

    name = "coin"

    def __repr__(self):
        return "Coin()"  # the same name of a test in every process

    def parameters(self):
        return {"epsilon": 1.0}

    def claims(self, delta):
        return {"guarantee": implied_epsilon(1.0, 0.0, delta)}

    def neighbours(self):
        return [Neighbours("a bit", np.zeros((1, 1)), np.ones((1, 1)))]

    def scores(self, data, side, n, generator):
        truth = 1 / (1 + math.exp(-1.0))
        return (generator.random(n) < (1 - truth if side else truth)).astype(float)


@pytest.mark.heavy
def test_two_workers_find_what_one_finds():
    mechanism = MECHANISMS["frobenius"](epsilon=1.0, n_features=2)
    subject, options = MechanismSubject(mechanism, n_random=0), {"draws": 60, "block": 20, "seed": 5}
    assert audit(subject, workers=2, **options) == audit(subject, **options)


def test_progress_counts_every_draw():
    seen = []
    audit(Coin(), draws=100, block=7, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (200, 200)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "arguments",
    [
        {"subject": 3},
        {"subject": "no_such"},
        {"subject": "local:no_such"},
        {"subject": "diffprivlib"},
        {"subject": Coin(), "draws": 3},
        {"subject": Coin(), "delta": 1.0},
        {"subject": Coin(), "workers": 0},
        {"subject": Coin(), "neighbours": []},
        {"subject": Coin(), "confidence": 0.0},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments):
    with refused(InvalidParameterError):
        audit(**{"draws": 100, **arguments})


def test_a_report_without_a_likelihood_is_audited_by_what_a_server_reads_off_it(monkeypatch):
    monkeypatch.setattr(DoubleCap, "log_likelihood", lambda *_: None)
    report = audit("local:double_cap", parameters={"epsilon": 4.0, "n_features": 2}, draws=2000, seed=1)
    assert report.verdict == "consistent"
    assert report.epsilon_lower > 0.5


# Mechanisms of one's own, and estimators that this package has never heard of.


class Uniform(AdditiveMechanism):
    """Uniform noise on every entry of the upper triangle: a mechanism that is in no table."""

    name = "uniform_of_a_test"
    needs_delta = True
    numerics = Numerics.IDEALIZED
    source = "this test"
    use_when = "never"
    honest = True

    def noise_scale(self):
        # Wide enough for delta: a change of at most 1 in each of d(d + 1)/2 entries betrays itself at the edges.
        entries = self.n_features * (self.n_features + 1) / 2
        return entries / self.delta if self.honest else 0.1 * entries / self.delta

    @property
    def off_diagonal_sd(self):
        return self.noise_scale() / math.sqrt(12)

    @property
    def noise_reach(self):
        return self.noise_scale()

    def guarantee(self):
        return Guarantee(0.0, self.delta, self.adjacency, Numerics.IDEALIZED)

    def noise(self, generator, grid=1.0):
        drawn = np.triu(generator.random((self.n_features, self.n_features)) - 0.5) * self.noise_scale() * grid
        return np.rint(drawn + np.triu(drawn, 1).T).astype(np.int64)


class UniformWithDensity(Uniform):
    def log_density(self, noise):
        inside = np.abs(noise).max(axis=(1, 2)) <= self.noise_scale() / 2 * (1 + 1e-9)
        return np.where(inside, 0.0, -np.inf)


class Leaking(UniformWithDensity):
    honest = False


@pytest.mark.parametrize("kind", [Uniform, UniformWithDensity])
def test_a_mechanism_of_ones_own_is_audited_from_the_object_alone(kind):
    assert kind.name not in names()
    mechanism = kind(epsilon=1.0, delta=0.2, n_features=2)
    report = audit(mechanism, delta=0.2, draws=800, confidence=1 - 1e-9, seed=1)
    assert (report.name, report.claimed, report.verdict) == (mechanism.name, 0.0, "consistent")
    assert report.parameters["class"].endswith(kind.__name__)


def test_a_mechanism_of_ones_own_that_leaks_is_caught():
    report = audit(Leaking(epsilon=1.0, delta=0.02, n_features=2), delta=0.02, draws=2000, seed=1)
    assert report.verdict == "violation"
    assert report.impossible > 0.02


class FakePlan:
    def __init__(self, epsilon):
        self.guarantee = Guarantee(epsilon)


class FakeEstimator:
    """What an audit asks of an estimator, and no more: its release is one number with Laplace noise."""

    def __init__(self, epsilon=1.0, factor=1.0, random_state=None):
        self.epsilon, self.factor, self.random_state = epsilon, factor, random_state

    def get_params(self, deep=True):
        return {"epsilon": self.epsilon, "factor": self.factor, "random_state": self.random_state}

    def set_params(self, **parameters):
        self.__dict__.update(parameters)
        return self

    def plan(self, n_features, n_rows=None):
        assert (n_features, n_rows) in ((2, 20), (1, 3))
        return FakePlan(self.epsilon)

    def fit(self, X, y=None):
        noisy = float(np.clip(X[:, 0], 0, 1).sum() + self.random_state.laplace(0, self.factor / self.epsilon))
        self.release_ = SimpleNamespace(integers={"matrix": np.array([[round(noisy * 2**16)]])})
        self.norm_bound_ = 1.0
        return self


def test_an_estimator_is_known_by_what_it_can_do():
    subject = subject_for(FakeEstimator())
    assert isinstance(subject, EstimatorSubject)
    assert subject.claims(0.0) == {"guarantee": 1.0}
    added = [Neighbours("a row of 1 for one of 0", [[1.0], [0.0], [0.0]], [[0.0], [0.0], [0.0]])]
    honest, flawed = (EstimatorSubject(FakeEstimator(1.0, factor), added) for factor in (1.0, 0.2))
    assert audit(honest, draws=1000, confidence=1 - 1e-9, seed=1).verdict == "consistent"
    assert audit(flawed, draws=1000, seed=1).verdict == "violation"


def test_a_report_can_be_written_as_json():
    fields = {"parameters": {}, "confidence": 0.99, "claimed_by": "guarantee", "neighbours": "p", "event": "e"}
    numbers = {"counts": (1, 2), "draws": (3, 4), "n_searched": 1, "impossible": 0.0}
    report = AuditReport("x", epsilon_lower=0.5, delta=0.0, claimed=math.inf, **fields, **numbers)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["claimed"] is None
    assert report.verdict == "consistent"
    assert math.isnan(report.tightness)
    assert "claimed nothing" in str(report)


# The command.


def command(*arguments):
    app = typer.Typer()
    app.command()(audit_command)
    return CliRunner().invoke(app, [*arguments, "--workers", "1"])


def test_the_command_tells_honest_from_refuted_by_its_exit_code(monkeypatch):
    honest = command("frobenius", "--draws", "200", "--confidence", "0.999999999")
    assert honest.exit_code == 0
    assert "consistent" in honest.output
    arguments = ("wishart", "--calibration", "paper", "--at-delta", "0.001", "--draws", "2000", "--json")
    # Which of two equally good events an audit judges is a matter of chance, so this one repeats its draws.
    monkeypatch.setattr("eigenveil.audit.audit", partial(audit, seed=1))
    refuted = command(*arguments)
    assert refuted.exit_code == VIOLATION_EXIT_CODE == 3
    report = json.loads(refuted.stdout)
    assert report["verdict"] == "violation"
    assert report["impossible"] > 0.1


def test_the_command_audits_reports_and_refuses_what_they_lack():
    assert command("local:double_cap", "--draws", "500", "--confidence", "0.999999999").exit_code == 0
    assert isinstance(command("local:double_cap", "--components", "1").exception, InvalidParameterError)
    assert isinstance(command("nothing_of_the_kind").exception, InvalidParameterError)
    assert isinstance(command("diffprivlib").exception, InvalidParameterError)
