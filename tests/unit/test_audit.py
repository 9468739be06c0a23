"""The parts of an audit: bounds, claims, pairs, checkpoints, workers, the command."""

import json
import math
import time

import numpy as np
import pytest
import scipy.stats
import typer
from typer.testing import CliRunner

from eigenveil import Guarantee, Relation
from eigenveil.accounting.calibration import gaussian_epsilon
from eigenveil.audit import AuditReport, MechanismTarget, Pair, audit, epsilon_lower_bound
from eigenveil.audit.checkpoint import Checkpoint
from eigenveil.audit.claims import claims_of, epsilon_at, mechanism_claims
from eigenveil.audit.lower_bound import Event, evaluate
from eigenveil.audit.pairs import added_row_pairs, one_row_pairs, random_pairs, tied_pairs
from eigenveil.audit.targets import target_for
from eigenveil.cli.audit import VIOLATION_EXIT_CODE
from eigenveil.cli.audit import audit as audit_command
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from helpers import refused, start_child

# The core.


def test_clopper_pearson_agrees_with_the_binomial_law():
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
def test_it_is_tight_on_the_laplace_law(epsilon):
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
    assert bound.threshold == np.inf
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
        implied = epsilon_at(epsilon, delta, at)
        truth = 1 / (1 + math.exp(-epsilon))
        reached = delta + (1 - delta) * (truth - math.exp(implied) * (1 - truth))
        assert reached == pytest.approx(at)
    assert epsilon_at(epsilon, delta, 0.9) == 0
    assert epsilon_at(epsilon, delta, 0.001) == math.inf
    assert epsilon_at(800.0, 0.0, 0.5) < 800


def test_the_gaussian_is_compared_with_its_own_curve():
    mechanism = MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=3)
    claimed = mechanism_claims(mechanism, 0.01)["guarantee"]
    assert claimed == pytest.approx(gaussian_epsilon(mechanism.total_mu(), 0.01), rel=0.02)
    assert claimed < epsilon_at(1.0, 1e-6, 0.01)


def test_a_published_claim_is_told_apart():
    guarantee = Guarantee(2.3, 1e-4, claimed=(2.0, 1e-4))
    assert claims_of(guarantee, 1e-4) == {"guarantee": 2.3, "published": 2.0}


def test_wishart_claims_fall_with_delta():
    mechanism = MECHANISMS["wishart"](epsilon=1.0, delta=1e-6, n_features=2)
    at = [mechanism_claims(mechanism, delta)["guarantee"] for delta in (1e-6, 1e-4, 1e-2)]
    assert at[0] <= 1.0
    assert at == sorted(at, reverse=True)
    assert at[2] < 0.5


# Pairs.


def all_pairs(d, relation):
    known = one_row_pairs(d) if relation is Relation.REPLACE else added_row_pairs(d, 3)
    sampled = tied_pairs(d, 0.5, relation) if d > 1 else []
    return known + sampled + random_pairs(d, relation, 20, np.random.default_rng(0))


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_every_pair_is_a_pair_of_neighbours(d, relation):
    for pair in all_pairs(d, relation):
        assert max(np.linalg.norm(rows, axis=1).max(initial=0) for rows in (pair.first, pair.second)) <= 1 + 1e-12
        left = list(map(tuple, pair.first))
        added = [row for row in map(tuple, pair.second) if not (row in left and (left.remove(row) or True))]
        assert len(added) <= 1, pair.name
        assert len(left) == (len(added) if relation is Relation.REPLACE else 0), pair.name


def test_the_tied_pair_is_the_one_of_the_design():
    pair = tied_pairs(3, 0.5, Relation.REPLACE)[1]
    C, other = (rows.T @ rows for rows in (pair.first, pair.second))
    T = C[1, 1]
    assert np.array_equal(C, np.diag([T + 1, T, 0]))
    assert np.array_equal(other, np.diag([T + 2, T - 1, 0]))


# Blocks, checkpoints, workers.


class Coin:
    """Randomized response, and a count of how often it was asked."""

    name = "coin"

    def __init__(self, log=None, pause=0.0):
        self.log, self.pause = log, pause

    def parameters(self):
        return {"epsilon": 1.0}

    def claims(self, delta):
        return {"guarantee": epsilon_at(1.0, 0.0, delta)}

    def pairs(self):
        return [Pair("a bit", np.zeros((1, 1)), np.ones((1, 1)))]

    def scores(self, pair, side, n, generator):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write("x")
        time.sleep(self.pause)
        truth = 1 / (1 + math.exp(-1.0))
        return (generator.random(n) < (1 - truth if side else truth)).astype(float)


def calls(path):
    return len(path.read_text()) if path.exists() else 0


def test_an_audit_that_was_killed_goes_on_and_counts_nothing_twice(tmp_path):
    log, file = tmp_path / "log", tmp_path / "audit.db"
    options = {"draws": 800, "block": 50, "seed": 3}
    child = start_child(lambda: audit(Coin(log, pause=0.02), checkpoint=file, **options))
    while calls(log) < 8:
        time.sleep(0.01)
    assert child.kill()
    report = audit(Coin(log), checkpoint=file, **options)
    blocks = 2 * 800 // 50
    assert blocks <= calls(log) <= blocks + 1  # at most the block that was under way is made again
    assert report == audit(Coin(), **options)
    assert report.draws == (400, 400)
    before = calls(log)
    assert audit(Coin(log), checkpoint=file, **options) == report
    assert calls(log) == before


def test_a_checkpoint_of_another_audit_is_refused(tmp_path):
    file = tmp_path / "audit.db"
    audit(Coin(), checkpoint=file, draws=100, seed=1)
    with refused(InvalidDataError):
        audit(Coin(), checkpoint=file, draws=100, seed=2)
    other = tmp_path / "text"
    other.write_text("not a database, but long enough to be looked at" * 100)
    with refused(InvalidDataError):
        audit(Coin(), checkpoint=other, draws=100, seed=2)
    with refused(InvalidDataError):
        Checkpoint(tmp_path, {})


def test_two_workers_find_what_one_finds():
    mechanism = MECHANISMS["frobenius"](epsilon=1.0, n_features=2)
    target, options = MechanismTarget(mechanism, n_random=0), {"draws": 60, "block": 20, "seed": 5}
    assert audit(target, workers=2, **options) == audit(target, **options)


def test_progress_counts_every_draw():
    seen = []
    audit(Coin(), draws=100, block=7, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (200, 200)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "arguments",
    [
        {"mechanism": 3},
        {"mechanism": "no_such"},
        {"mechanism": "local:no_such"},
        {"mechanism": Coin(), "draws": 3},
        {"mechanism": Coin(), "delta": 1.0},
        {"mechanism": Coin(), "workers": 0},
        {"mechanism": Coin(), "pairs": []},
        {"mechanism": Coin(), "confidence": 0.0},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments):
    with refused(InvalidParameterError):
        audit(**{"draws": 100, **arguments})


def test_names_become_targets():
    parameters = {"epsilon": 1.0, "n_features": 2}
    assert target_for("laplace", parameters).name == "laplace"
    assert target_for("local:one_bit", parameters).name == "local:one_bit"


def test_a_report_can_be_written_as_json():
    fields = {"parameters": {}, "confidence": 0.99, "claimed_by": "guarantee", "pair": "p", "event": "e"}
    numbers = {"counts": (1, 2), "draws": (3, 4), "n_pairs": 1, "impossible": 0.0}
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


def test_the_command_tells_honest_from_refuted_by_its_exit_code(tmp_path):
    honest = command("frobenius", "--draws", "200", "--confidence", "0.999999999")
    assert honest.exit_code == 0
    assert "consistent" in honest.output
    arguments = ("wishart", "--calibration", "paper", "--at-delta", "0.001", "--draws", "2000", "--json")
    refuted = command(*arguments, "--checkpoint", str(tmp_path / "audit.db"))
    assert refuted.exit_code == VIOLATION_EXIT_CODE == 3
    report = json.loads(refuted.stdout)
    assert report["verdict"] == "violation"
    assert report["impossible"] > 0.1
    assert (tmp_path / "audit.db").exists()


def test_the_command_audits_reports_and_refuses_what_they_lack():
    assert command("local:double_cap", "--draws", "500", "--confidence", "0.999999999").exit_code == 0
    assert isinstance(command("local:double_cap", "--components", "1").exception, InvalidParameterError)
    assert isinstance(command("nothing_of_the_kind").exception, InvalidParameterError)
