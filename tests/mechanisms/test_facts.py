"""What mechanisms answer to audits and plans: likelihoods, curves and first-order losses agree with what they draw."""

import math

import numpy as np
import pytest
import scipy.stats

from eigenveil import Adjacency
from eigenveil.accounting.calibration import guaranteed_epsilon
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.base import COUNT_SHARE
from eigenveil.mechanisms.local import LOCAL_MECHANISMS
from eigenveil.sampling.randomness import seeded_generator
from helpers import drawn_directions

GRID = 4**16
CASES = [
    (name, calibration, adjacency) for name, kind in MECHANISMS.items() for calibration in kind.calibrations
    for adjacency in Adjacency
]  # fmt: skip
IDS = ["-".join(case) for case in CASES]
ADDITIVE = [name for name, kind in MECHANISMS.items() if kind.adds_noise]
LONG = ("wishart", "mod_sulq", "frobenius", "eigenvector_sampling")  # in the long run


def made(name, calibration=None, adjacency=Adjacency.REPLACE_ONE, *, d=3, k=1, epsilon=1.0):
    """Return a mechanism made from nothing but what its class declares."""
    kind = MECHANISMS[name]
    calibration = calibration or kind.calibrations[0]
    options = {"allow_unsound": True} if calibration in kind.unsound_calibrations else {}
    return kind(
        epsilon=epsilon, delta=0.01 if kind.uses_delta(calibration) else 0.0, n_features=d, n_components=k,
        adjacency=adjacency, calibration=calibration, **options,
    )  # fmt: skip


def gram_of(rows):
    integers = np.trunc(np.asarray(rows) * 2**16).astype(np.int64)
    return integers.T @ integers


def drawn_values(mechanism, gram, n_rows, size, seed=1):
    """Return releases of a Gram matrix as stacked numbers, in the units that `log_likelihood` takes."""
    generator = seeded_generator(seed)
    drawn = [mechanism.draw(gram, GRID, n_rows, generator) for _ in range(size)]
    units = mechanism.units(GRID, 1 / GRID)
    return {name: np.array([one[name] for one in drawn]) * units[name] for name in drawn[0]}


@pytest.mark.parametrize(("name", "calibration", "adjacency"), CASES, ids=IDS)
def test_every_mechanism_answers(name, calibration, adjacency):
    mechanism = made(name, calibration, adjacency)
    rows = np.vstack([np.eye(3), np.eye(3)[:2]])
    gram = gram_of(rows)
    mechanism.check_grid(GRID)
    values = drawn_values(mechanism, gram, len(rows), 4)
    densities = mechanism.log_likelihood(values, gram / GRID, len(rows))
    if densities is not None:
        assert densities.shape == (4,)
        assert not np.isnan(densities).any()
        assert not np.isposinf(densities).any()
    elif mechanism.adds_noise:
        pytest.fail("every additive mechanism of the table knows the density of its noise")
    curve = [mechanism.epsilon_at(delta) for delta in (0.0, 1e-6, 0.01, 0.1, 0.5)]
    assert curve == sorted(curve, reverse=True)
    guarantee = mechanism.guarantee()
    assert mechanism.epsilon_at(guarantee.delta) <= guaranteed_epsilon(guarantee, guarantee.delta) * (1 + 1e-9)
    assert (mechanism.strength is None) == (mechanism.adds_noise or mechanism.baseline)
    first_order = mechanism.first_order_loss(np.array([0.5, 0.2, 0.1]), 1000)
    if mechanism.baseline or (name, calibration) == ("eigenvector_sampling", "paper"):
        assert first_order is None
    else:
        assert min(first_order) > 0
        more = mechanism.first_order_loss(np.array([0.5, 0.2, 0.1]), 2000)
        assert more[1] == pytest.approx(first_order[1] / 2)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_delta_is_refused_in_the_words_of_the_mechanism(name):
    kind = MECHANISMS[name]
    for calibration in kind.calibrations:
        fits, misfit = (0.01, 0.0) if kind.uses_delta(calibration) else (0.0, 0.01)
        assert kind.refusal(fits, calibration) is None
        reason = kind.refusal(misfit, calibration)
        with pytest.raises(ValueError, match="delta") as info:
            kind(epsilon=1.0, delta=misfit, n_features=2, calibration=calibration)
        assert str(info.value) == reason


# Likelihoods.


def laplace_density(mechanism, noise):
    return scipy.stats.laplace(scale=mechanism.noise_scale()).logpdf(noise[np.triu_indices(3)]).sum()


def gaussian_density(mechanism, noise):
    beside = scipy.stats.norm(scale=mechanism.off_diagonal_sd).logpdf(noise[np.triu_indices(3, 1)]).sum()
    return beside + scipy.stats.norm(scale=mechanism.noise_scale()).logpdf(np.diag(noise)).sum()


def frobenius_density(mechanism, noise):
    return -math.sqrt((noise**2).sum()) / mechanism.noise_scale()


def wishart_density(mechanism, noise):
    degrees, scale = mechanism.degrees_and_scale
    return scipy.stats.wishart(degrees, scale * np.eye(3)).logpdf(noise)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("name", "direct"),
    [
        ("laplace", laplace_density),
        ("gaussian", gaussian_density),
        ("mod_sulq", gaussian_density),
        ("frobenius", frobenius_density),
        ("wishart", wishart_density),
    ],
)
def test_additive_likelihoods_are_those_of_a_direct_formula(name, direct, adjacency):
    mechanism = made(name, adjacency=adjacency)
    tables = np.eye(3), np.vstack([np.eye(3)[:2], [[0.0, 0.6, 0.8]]])
    moments = [gram_of(rows) / GRID for rows in tables]
    values = drawn_values(mechanism, gram_of(tables[0]), 3, 30)

    def log_ratio(mechanism):
        return np.subtract(*(mechanism.log_likelihood(values, C, n) for C, n in zip(moments, (3, 4), strict=True)))

    noises = [values["matrix"] - C for C in moments]
    expected = np.array(
        [direct(mechanism, first) - direct(mechanism, second) for first, second in zip(*noises, strict=True)]
    )
    if name == "gaussian":  # d = 3: no count is paid for, and one number more is about the trace
        assert set(values) == {"matrix", "trace" if adjacency is Adjacency.REPLACE_ONE else "slack"}
        more = [np.trace(C) if "trace" in values else n - np.trace(C) for C, n in zip(moments, (3, 4), strict=True)]
        misses = [values["trace" if "trace" in values else "slack"] - true for true in more]
        expected += (misses[1] ** 2 - misses[0] ** 2) / (2 * mechanism.noise_scale() ** 2)
    elif adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        misses = [np.abs(values["count"] - n) for n in (3, 4)]
        if mechanism.needs_delta and name != "wishart":
            expected += mechanism.total_mu() ** 2 * float(COUNT_SHARE) / 2 * (misses[1] ** 2 - misses[0] ** 2)
        else:
            expected += mechanism.epsilon * float(COUNT_SHARE) * (misses[1] - misses[0])
    np.testing.assert_allclose(log_ratio(mechanism), expected, rtol=1e-6, atol=1e-6)
    # The controls: another epsilon has another likelihood, and so has noise a factor 1.2 larger. The degrees of freedom
    # of wishart are the same for both epsilons, and its ratio depends on little else.
    if name != "wishart":
        other = made(name, adjacency=adjacency, epsilon=1 / 1.2)
        assert not np.allclose(log_ratio(other), expected, rtol=0.05, atol=1e-6)
    values["matrix"] = moments[0] + 1.2 * (values["matrix"] - moments[0])
    assert not np.allclose(log_ratio(mechanism), expected, rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("name", ["ppca", "eigenvector_sampling"])
@pytest.mark.heavy
def test_sampled_likelihoods_have_mean_one_ratios(name):
    """E under D of p(x | D')/p(x | D) is 1, up to the normalizers, which a turn of the data leaves as they are."""
    mechanism = made(name, d=3, k=1, epsilon=4.0)
    rows = np.vstack([np.tile(np.eye(3)[0], (3, 1)), np.eye(3)[1:2]])
    turned = rows[:, [1, 0, 2]]
    values = drawn_values(mechanism, gram_of(rows), 4, 4500)
    log_ratio = np.subtract(*(mechanism.log_likelihood(values, gram_of(data) / GRID, 4) for data in (turned, rows)))
    for factor, holds in ((1.0, True), (1.5, False)):  # the control: a strength that is half off
        ratios = np.exp(np.clip(factor * log_ratio, -50, 50))
        z = abs(ratios.mean() - 1) / (ratios.std() / math.sqrt(ratios.size))
        assert bool(z < 6) is holds, (factor, z)


@pytest.mark.parametrize("row_norms", [pytest.param("any", marks=pytest.mark.heavy), "unit"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.heavy) if name == "gaussian_paper" else name for name in LOCAL_MECHANISMS],
)
def test_local_likelihoods_have_mean_one_ratios(name, row_norms):
    """E under one row of p(report | other row)/p(report | row) is 1."""
    kind, generator, n = LOCAL_MECHANISMS[name], seeded_generator(2), 10_000
    mechanism = kind(n_features=2, epsilon=1.0, delta=1e-2 if kind.needs_delta else 0.0, row_norms=row_norms)
    row, other = np.array([[1.0, 0.0], [0.6, 0.8]]) * 2.0**mechanism.row_bits // 1
    ids = np.frombuffer(generator.bytes(16 * n), dtype=np.uint8).reshape(n, 16)
    payloads = mechanism.perturb(np.tile(row, (n, 1)), ids, generator)
    log_ratio = mechanism.log_likelihood(payloads, ids, other) - mechanism.log_likelihood(payloads, ids, row)
    for factor, holds in ((1.0, True), (1.5, False)):  # the control: an epsilon that is half off
        ratios = np.exp(factor * log_ratio)
        z = abs(ratios.mean() - 1) / (ratios.std() / math.sqrt(n))
        assert bool(z < 6) is holds, (factor, z)


# First-order losses.


def simulated(name, *, runs, n_rows):
    """Return the mean loss on rows of a spectrum whose axes are turned, its error, and the loss to first order."""
    generator, spectrum = seeded_generator(3), np.array([0.4, 0.25, 0.05, 0.04, 0.03])
    mechanism = MECHANISMS[name](
        epsilon=1.0,
        delta=1e-6 if MECHANISMS[name].needs_delta else 0.0,
        n_features=5,
        n_components=2 if name != "ppca" else 1,
    )
    k, basis = mechanism.n_components, np.linalg.qr(generator.standard_normal((5, 5)))[0]
    A = (basis * spectrum) @ basis.T
    V = drawn_directions(mechanism, n_rows * A, generator, runs)
    losses = 1 - np.einsum("nki,ij,nkj->n", V, A, V) / spectrum[:k].sum()
    first_order, _ = mechanism.first_order_loss(spectrum, n_rows)
    return losses.mean(), losses.std(ddof=1) / math.sqrt(runs), first_order / spectrum[:k].sum()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.heavy) if name in LONG else name
        for name in (*ADDITIVE, "ppca", "eigenvector_sampling")
    ],
)
def test_first_order_losses_agree_with_a_simulation(name):
    mean, error, first_order = simulated(name, runs=500 if MECHANISMS[name].adds_noise else 1500, n_rows=10**5)
    room = 6 * error + 0.01 * first_order
    if MECHANISMS[name].adds_noise and not made(name).rotation_invariant:
        assert 0.5 * first_order < mean < first_order + room  # an upper bound, in other bases than that of the entries
        return
    assert abs(mean - first_order) < room
    # The control: noise a factor 1.2 larger is 1.44 times the loss, and would be caught.
    factor = 1.44 if MECHANISMS[name].adds_noise else 1.2
    assert abs(mean - factor * first_order) > room
