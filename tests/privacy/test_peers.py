"""The eigenvector samplers of diffprivlib and OpenDP: what they draw from, its true loss, audits of the real code.

The default run needs neither package: it restates what they do. The heavy one runs them where they can be imported.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from eigenveil.audit import audit, epsilon_lower_bound
from eigenveil.errors import EigenveilError
from eigenveil.sampling.bingham import bingham
from statistical.mechanisms import follows

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = ("diffprivlib", "opendp")

if not BENCHMARKS.exists():
    pytest.skip("the benchmarks are not part of this installation", allow_module_level=True)


def load(name):
    """Import a script of the benchmarks, under the name by which the others import it."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


peers_audit = load("peers_audit")
PEERS, DrawnMechanism = peers_audit.PEERS, peers_audit.DrawnMechanism


@pytest.fixture(scope="module")
def quadrature():
    return load("peers_quadrature")


@pytest.fixture(params=NAMES)
def installed(request):
    try:
        PEERS[request.param](n_features=2)
    except EigenveilError as error:
        pytest.skip(str(error))
    return request.param


def one_leading(d: int, size: float) -> np.ndarray:
    return np.diag([size] + [0.0] * (d - 1))


def form_cdf(mechanism: DrawnMechanism, power: int):
    """The distribution of s = u'Au for C with one leading eigenvalue: s = a t, t a weighted Beta variable."""
    d, a = len(mechanism.gaps), mechanism.gaps.max()
    t = np.linspace(0, 1, 20_001)[1:-1]
    weights = np.exp(mechanism.log_density(a * t, power=power)) * scipy.stats.beta((d - 1) / 2, 0.5).pdf(t)
    cumulated = np.cumsum(weights) / weights.sum()
    return lambda s: np.interp(s / a, t, cumulated)


def forms(mechanism: DrawnMechanism, directions) -> np.ndarray:
    return np.einsum("ni,ij,nj->n", directions, mechanism.form, directions)


def test_a_pair_that_does_not_commute_agrees_with_a_search_over_directions(quadrature):
    generator = np.random.default_rng(0)
    x, y = (v / np.linalg.norm(v) for v in generator.standard_normal((2, 3)))
    base = np.diag([6.0, 5.0, 0.0])
    C, other = base + np.outer(x, x), base + np.outer(y, y)
    u = generator.standard_normal((400_000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    densities = []
    for matrix in (C, other):
        mechanism = DrawnMechanism(matrix, 1.0)
        logs = mechanism.log_density_of(u)
        assert np.log(np.exp(logs).mean()) == pytest.approx(quadrature.log_normalizer(mechanism, 3), abs=0.01)
        densities.append(logs - quadrature.log_normalizer(mechanism, 3))
    assert np.abs(densities[0] - densities[1]).max() == pytest.approx(quadrature.loss(C, other, 1.0), abs=0.01)


@pytest.mark.parametrize(("d", "true"), [(2, 0.894), (3, 1.219), (4, 1.554), (10, 3.651)])
def test_true_loss_at_a_claim_of_one(quadrature, d, true):
    value, _ = quadrature.worst(d)
    assert value == pytest.approx(true, abs=0.002)


def test_the_worst_pair_is_not_beaten_by_random_neighbours(quadrature):
    generator = np.random.default_rng(1)
    d, limit = 4, quadrature.worst(4)[0]
    for _ in range(60):
        base = np.diag(10 ** generator.uniform(-1, 3, d))
        x, y = (v / np.linalg.norm(v) for v in generator.standard_normal((2, d)))
        C, other = base + np.outer(x, x), base + np.outer(y, y)
        assert quadrature.loss(C, other, 1.0) < limit
        # Multiplied, half of the claim suffices: u'(C - C')u is at most 1, and moves log Z by no more than that.
        assert quadrature.loss(C, other, 1.0, power=0) <= 0.5


@pytest.mark.parametrize("d", [3, 6])
def test_what_is_drawn_as_coded_is_not_the_bingham_distribution(quadrature, d):
    C, n = one_leading(d, 12.0), 20_000
    mechanism, generator = DrawnMechanism(C, 1.0), np.random.default_rng(2)
    divided = forms(mechanism, quadrature.draw_as_coded(C, 1.0, n, generator))
    multiplied = forms(mechanism, quadrature.draw_as_coded(C, 1.0, n, generator, sign=1))
    assert follows(divided, form_cdf(mechanism, d))
    assert not follows(divided, form_cdf(mechanism, 0))
    assert follows(multiplied, form_cdf(mechanism, 0))
    assert not follows(multiplied, form_cdf(mechanism, d))
    assert follows(forms(mechanism, bingham(C / 4, generator, n)), form_cdf(mechanism, 0))


def test_an_audit_tells_division_from_multiplication(quadrature):
    C, other = quadrature.neighbours(5, 1.0, far=40.0)
    mechanisms, bounds = (DrawnMechanism(C, 1.0), DrawnMechanism(other, 1.0)), []
    for sign in (-1, 1):
        generator = np.random.default_rng(3)
        drawn = [quadrature.draw_as_coded(matrix, 1.0, 60_000, generator, sign) for matrix in (C, other)]
        scores = [mechanisms[0].log_density_of(u) - mechanisms[1].log_density_of(u) for u in drawn]
        bounds.append(epsilon_lower_bound(*scores, confidence=1 - 1e-6).epsilon)
    divided, multiplied = bounds
    assert 1.0 < divided < quadrature.loss(C, other, 1.0)
    assert multiplied < 0.5


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_real_samplers_draw_from_the_stated_distribution(installed):
    d, n = 4, 4_000
    subject = PEERS[installed](epsilon=1.0, n_features=d)
    C = one_leading(d, 12.0)
    mechanism, draw = DrawnMechanism(C, 1.0), subject._sampler(12, np.random.default_rng(4))
    drawn = forms(mechanism, np.array([draw(C) for _ in range(n)]))
    assert follows(drawn, form_cdf(mechanism, d))
    assert not follows(drawn, form_cdf(mechanism, 0))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_the_real_samplers_lose_more_than_the_right_distribution_could(installed):
    # With the right acceptance no pair of this family loses more than 0.372 (quadrature). Their loss is 1.66 there; so
    # few draws cannot always show that it is above the claim of 1, which the command of `benchmarks/peers_audit.py`
    # is for.
    report = audit(PEERS[installed](epsilon=1.0, n_features=5), draws=8_000, seed=5)
    assert report.epsilon_lower > 0.5, str(report)
