"""The mechanisms of `double_cap` and `one_bit`: density, unbiasedness, variance; and flaws that must be caught."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from eigenveil.local import LocalProtocol, encode_many, mechanism_of
from eigenveil.local.client import new_ids, on_grid
from eigenveil.local.protocol import unpack
from eigenveil.mechanisms.local.directions import DIRECTION_SCALE, public_bases
from eigenveil.mechanisms.local.double_cap import CapMechanism
from eigenveil.mechanisms.local.one_bit import BitMechanism
from eigenveil.sampling import caps
from eigenveil.sampling.caps import LazySines, RoundedDirections, mass_below
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import follows

GRID = [(2, 0.1), (2, 8.0), (20, 1.0), (500, 0.1), (500, 8.0)]
Z = float(stats.norm.isf(ALPHA / 2))


def uniform_directions(n: int, d: int, generator: np.random.Generator) -> np.ndarray:
    normals = generator.standard_normal((n, d))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def drawn(mechanism: CapMechanism, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Reports of integer rows that all keep their direction, divided by their length."""
    integers = mechanism.draw(rows, np.ones(len(rows), dtype=bool), generator)
    assert np.abs(np.linalg.norm(integers, axis=1) - DIRECTION_SCALE).max() <= np.sqrt(rows.shape[1]) / 2
    return integers / np.linalg.norm(integers, axis=1, keepdims=True)


def flawed(mechanism: CapMechanism) -> CapMechanism:
    """The mechanism at an epsilon 5 % too large; at half of it where 5 % moves the caps' probability by under 1.5 %.

    Small epsilons hardly move it, and a large one on the circle has it near 1 already: no test could tell.
    """
    close = CapMechanism.at(mechanism.n_features, mechanism.epsilon * (1 + PERTURB), mechanism.threshold)
    return (
        close
        if close.hit - mechanism.hit > 0.015
        else CapMechanism.at(mechanism.n_features, mechanism.epsilon / 2, mechanism.threshold)
    )


def squared_cosine_cdf(mechanism: CapMechanism):
    """The distribution function of t: the uniform distribution's, re-weighted on both sides of the threshold."""

    def cdf(t):
        below = special.betainc(0.5, (mechanism.n_features - 1) / 2, t)
        inside = 1 - mechanism.hit + mechanism.hit * (below - (1 - mechanism.mass)) / mechanism.mass
        return np.where(t <= mechanism.threshold, (1 - mechanism.hit) * below / (1 - mechanism.mass), inside)

    return cdf


@pytest.mark.parametrize("by_intervals", [False, pytest.param(True, marks=pytest.mark.heavy)])
@pytest.mark.parametrize(("d", "epsilon"), GRID)
def test_distribution_of_the_sine(d, epsilon, by_intervals, monkeypatch):
    """Within a cap, by floats and by intervals: v = 1 - t is a Beta((d - 1)/2, 1/2) number below 1 - threshold."""
    mechanism = CapMechanism.best(d, epsilon)
    if by_intervals:
        monkeypatch.setattr(caps, "UNIT_ROUNDOFF", 1.0)  # floats are sure of nothing
    sines = LazySines(2_000 if by_intervals else N, d, mechanism.threshold, np.random.default_rng(1))

    def cdf(shape):
        return lambda v: special.betainc(shape, 0.5, v) / special.betainc(shape, 0.5, 1 - mechanism.threshold)

    squares = np.square(sines.value)
    assert squares.max() <= 1 - mechanism.threshold + 1e-12
    assert follows(squares, cdf((d - 1) / 2))
    assert not follows(squares, cdf((d - 1) / 2 * (1.5 if by_intervals else 1 + PERTURB)))


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("epsilon", [0.5, 30.0])
def test_floats_and_exact_intervals_tell_the_same_direction(d, epsilon):
    """The integers that floats are sure of are those of intervals around the same real numbers; so are the sines."""
    mechanism, generator, n = CapMechanism.best(d, epsilon), np.random.default_rng(d), 300
    rows = np.trunc(uniform_directions(n, d, generator) * generator.choice([1.5, 300.0, 65536.0], (n, 1)))
    aimed = (rows != 0).any(axis=1) & (generator.random(n) < 0.7)
    found = RoundedDirections(rows, aimed, mechanism.threshold, DIRECTION_SCALE, generator)
    assert found.exactly == 0
    for index in range(n):
        assert found._rounded(index) == found.integers[index].tolist()
    sines = found._sines
    for place in range(len(sines.value)):
        low, high = (np.sqrt(float(end)) for end in sines.square(place, 128))
        assert low - sines.error[place] <= sines.value[place] <= high + sines.error[place]
    # The control: a real direction that is a little different is told apart.
    found._normals._word[: 64 * d] ^= np.uint64(1) << np.uint64(44)
    assert any(found._rounded(index) != found.integers[index].tolist() for index in range(64))


def test_few_bits_and_doubts_are_left_to_exact_intervals(monkeypatch):
    sines = LazySines(1, 3, 0.5, np.random.default_rng(0))
    for word in (0, 1, 2**20 - 1):
        assert sines._floats(np.array([word], dtype=np.uint64))[1] == np.inf
    assert sines._floats(np.array([2**20], dtype=np.uint64))[1] < 1e-9
    monkeypatch.setattr(caps, "UNIT_ROUNDOFF", 1.0)
    found = RoundedDirections(np.full((200, 3), 7.0), np.arange(200) < 100, 0.5, 100, np.random.default_rng(0))
    assert found.exactly == 200


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("d", [2, 9, 2001])
def test_the_mass_of_the_caps_is_bounded_from_below(d, epsilon):
    mechanism = CapMechanism.best(d, epsilon)
    assert 1 - 1e-7 < mass_below(d, mechanism.threshold) / mechanism.mass < 1 - 1e-8
    # So the density within the caps is at most e^epsilon times that outside, and hardly less.
    aim = int(mechanism.aim.sure) / 2**64
    ratio = 1 + aim / (1 - aim) / mechanism.mass
    assert np.exp(epsilon) * (1 - 1e-7) < ratio <= np.exp(epsilon) * (1 - 1e-10)


@pytest.mark.parametrize(
    ("d", "n"), [(2, N), pytest.param(3, 50_000, marks=pytest.mark.heavy), (20, 50_000), (500, 4_000)]
)
def test_distribution_of_the_direction(d, n):
    """Given t, the rest of u is uniform in the complement of x; both signs are fair; every row has its own x."""
    mechanism, generator = CapMechanism.best(d, 2.0), np.random.default_rng(2)
    rows = np.trunc(uniform_directions(n, d, generator) * 2**16)
    x = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    u = drawn(mechanism, rows, generator)
    cosine = np.einsum("ij,ij->i", u, x)
    assert follows(np.square(cosine), squared_cosine_cdf(mechanism))
    if n > 10_000:
        assert not follows(np.square(cosine), squared_cosine_cdf(flawed(mechanism)))
    assert stats.binomtest(int((cosine > 0).sum()), n).pvalue > ALPHA
    assert stats.binomtest(int((np.abs(cosine) > 0).sum()), n).pvalue < ALPHA  # control: always the same sign
    if d == 2:
        return
    # A direction of x's complement, chosen without looking at u.
    y = uniform_directions(n, d, generator)
    y -= np.einsum("ij,ij->i", x, y)[:, None] * x
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    share = np.square(np.einsum("ij,ij->i", u, y)) / (1 - np.square(cosine))
    assert follows(share, stats.beta(0.5, (d - 2) / 2).cdf)
    if n > 10_000:
        assert not follows(share * (1 + 3 * PERTURB), stats.beta(0.5, (d - 2) / 2).cdf)


def cap_counts(mechanism: CapMechanism, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Counts of reports in (cap of e1 only, cap of e2 only, neither or both)."""
    u = drawn(mechanism, rows, generator)
    first, second = np.square(u[:, 0]) > mechanism.threshold, np.square(u[:, 1]) > mechanism.threshold
    return np.array([(first & ~second).sum(), (second & ~first).sum(), (first == second).sum()])


def loss_is(epsilon: float, ours: int, theirs: int, n: int = N) -> bool:
    """Whether the log ratio of two binomial counts out of n is epsilon."""
    spread = np.sqrt(1 / ours + 1 / theirs - 2 / n)
    return bool(abs(np.log(ours / theirs) - epsilon) < Z * spread)


@pytest.mark.parametrize("d", [2, 10])
def test_density_ratio_on_both_sides_of_the_cap(d):
    """Between two orthogonal rows the density changes by e^eps, by e^-eps, and not at all where the caps agree."""
    epsilon, generator = 2.0, np.random.default_rng(3)
    mechanism = CapMechanism.best(d, epsilon)
    e1, e2 = (np.tile(2.0**16 * np.eye(d)[axis], (N, 1)) for axis in (0, 1))
    ours, theirs = cap_counts(mechanism, e1, generator), cap_counts(mechanism, e2, generator)
    assert loss_is(epsilon, ours[0], theirs[0])
    assert loss_is(-epsilon, ours[1], theirs[1])
    assert loss_is(0.0, ours[2], theirs[2])
    wrong = CapMechanism.at(d, epsilon * (1 + PERTURB), mechanism.threshold)
    assert not loss_is(epsilon, cap_counts(wrong, e1, generator)[0], cap_counts(wrong, e2, generator)[0])


def test_short_rows_lose_no_privacy():
    """A row of norm r is a mixture with the uniform distribution, whose density 1 is between the values of the cap."""
    for d in (2, 20, 500):
        for epsilon in (0.1, 1.0, 8.0):
            mechanism = CapMechanism.best(d, epsilon)
            low, high = (1 - mechanism.hit) / (1 - mechanism.mass), mechanism.hit / mechanism.mass
            assert low < 1 < high
            assert high / low == pytest.approx(np.exp(epsilon), rel=1e-9)
            mixtures = [r2 * value + 1 - r2 for r2 in np.linspace(0, 1, 11) for value in (low, high)]
            assert max(mixtures) / min(mixtures) <= np.exp(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize(("d", "epsilon"), [(d, e) for d in (2, 20, 500) for e in (0.1, 1, 8)])
def test_alpha_by_quadrature_and_the_best_threshold(d, epsilon):
    """alpha from the integral of t against the two-valued density; no other threshold has a larger one."""
    mechanism = CapMechanism.best(d, epsilon)
    low, high = (1 - mechanism.hit) / (1 - mechanism.mass), mechanism.hit / mechanism.mass

    def part(a, b):  # with t = sin^2(angle) the Beta(1/2, (d-1)/2) density has no pole
        log_constant = np.log(2) - special.betaln(0.5, (d - 1) / 2)
        ends = np.arcsin(np.sqrt([a, b]))
        split = [s for s in (3 / np.sqrt(d),) if ends[0] < s < ends[1]]
        return integrate.quad(
            lambda s: np.sin(s) ** 2 * np.exp(log_constant + (d - 2) * np.log(max(np.cos(s), 1e-300))),
            *ends,
            points=split or None,
            epsabs=1e-13,
            epsrel=1e-11,
        )[0]

    mean = low * part(0, mechanism.threshold) + high * part(mechanism.threshold, 1)
    assert mechanism.alpha == pytest.approx((d * mean - 1) / (d - 1), rel=1e-6)
    assert mechanism.threshold == pytest.approx(mean, rel=1e-9)  # at the optimum the threshold is E[t]
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5):
        other = 1 - (1 - mechanism.threshold) * factor if mechanism.threshold > 0.5 else mechanism.threshold * factor
        assert CapMechanism.at(d, epsilon, other).alpha <= mechanism.alpha
    assert mechanism.variance() == pytest.approx((1 - 1 / d) * (1 - mechanism.alpha**2) / mechanism.alpha**2)


ROWS = {"unit": 1.0, "short": 0.8}
# Hashing an identifier costs microseconds: the one-bit tests draw fewer, and use an epsilon that makes up for it.
DRAWS = {"double_cap": N, "one_bit": N // 4}
# So the flaw that they must see is larger, by more than their wider spread.
FLAW = {"double_cap": PERTURB, "one_bit": 4 * PERTURB}


def per_report(protocol: LocalProtocol, row: np.ndarray, probes: np.ndarray, seed: int) -> np.ndarray:
    """The estimate of every single report, seen through the matrices `probes`: n x len(probes)."""
    generator, mechanism = np.random.default_rng(seed), mechanism_of(protocol)
    n = DRAWS[protocol.mechanism]
    grid = on_grid(protocol, np.tile(row, (n, 1)))
    ids = new_ids(n, generator)
    payloads = mechanism.perturb(grid, ids, generator)
    d, trace_bit = protocol.n_features, payloads[:, -1]
    if protocol.mechanism == "double_cap":
        vectors, weight = mechanism._integers(payloads)[:, None], np.full(n, 1 / mechanism.caps.alpha)
    else:
        vectors = public_bases(ids, d, mechanism.rank)
        bit = payloads[:, 0] & 1
        weight = (
            (bit - 0.5) / np.tanh(mechanism.direction_epsilon / 2) + 0.5 - mechanism.bit.mass
        ) / mechanism.bit.slope
        trace_bit = payloads[:, 0] >> 1
    vectors = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    forms = np.einsum("nki,pij,nkj->np", vectors, probes, vectors, optimize=True)
    traces = np.trace(probes, axis1=1, axis2=2)
    r2 = 1.0
    if protocol.row_norms == "any":
        r2 = (0.5 + (trace_bit - 0.5) / np.tanh(mechanism.trace_epsilon / 2))[:, None]
    values = weight[:, None] * (forms - mechanism.rank * traces / d) + r2 * traces / d
    # The same numbers must come out of the sums that the server keeps.
    totals = mechanism.totals_of(payloads, ids)
    estimated = np.einsum("pij,ij->p", probes, mechanism.estimate(totals))
    assert np.allclose(values.mean(axis=0), estimated, atol=2e-3 * (1 + np.abs(estimated)))
    return values


@pytest.mark.parametrize(("mechanism", "d", "rank"), [("double_cap", 4, 1), ("one_bit", 4, 1), ("one_bit", 5, 2)])
@pytest.mark.parametrize("rows", ROWS)
def test_unbiased_with_the_stated_variance(mechanism, d, rank, rows):
    norm, n = ROWS[rows], DRAWS[mechanism]
    row_norms = "unit" if rows == "unit" else "any"
    protocol = LocalProtocol(d, 6.0, mechanism=mechanism, row_norms=row_norms, trace_share=0.3, rank=rank)
    generator = np.random.default_rng(4)
    row = norm * uniform_directions(1, d, generator)[0]
    row = on_grid(protocol, row[None])[0] / 2.0**16
    truth = np.outer(row, row)
    # An orthonormal basis of the symmetric matrices: the summed variance of its coefficients is E|S - xx'|^2.
    basis = [np.diag(np.eye(d)[i]) for i in range(d)]
    for i in range(d):
        for j in range(i):
            mixed = np.outer(np.eye(d)[i], np.eye(d)[j])
            basis.append((mixed + mixed.T) / np.sqrt(2))
    probes = np.array([*basis, truth / np.sum(truth**2)])
    values = per_report(protocol, row, probes, seed=5)
    expected = np.einsum("pij,ij->p", probes, truth)
    spreads = values.std(axis=0) / np.sqrt(n) * stats.norm.isf(ALPHA / (2 * len(probes)))
    assert (np.abs(values.mean(axis=0) - expected) < spreads).all()
    assert abs(values.mean(axis=0)[-1] * (1 + FLAW[mechanism]) - expected[-1]) > spreads[-1]
    errors = np.square(values[:, :-1] - expected[:-1]).sum(axis=1)
    stated = mechanism_of(protocol).variance(float(row @ row))
    spread = errors.std() / np.sqrt(n)
    # Quantized directions have length 1 to 1e-4 only; that is far below PERTURB and is allowed for.
    assert abs(errors.mean() - stated) < Z * spread + 1e-3 * stated
    assert abs(errors.mean() * (1 + FLAW[mechanism]) - stated) > Z * spread + 1e-3 * stated


@pytest.mark.parametrize(("d", "rank", "n"), [(2, 1, 20_000), (7, 3, 20_000), (50, 25, 2000)])
def test_public_subspaces_are_uniform(d, rank, n):
    """|Px|^2 along an axis, along all axes alike and anywhere: it knows no direction."""
    bases = public_bases(new_ids(n, np.random.default_rng(6)), d, rank) / DIRECTION_SCALE
    mechanism = stats.beta(rank / 2, (d - rank) / 2).cdf
    for y in (np.eye(d)[0], np.full(d, d**-0.5), uniform_directions(1, d, np.random.default_rng(7))[0]):
        inside = np.square(bases @ y).sum(axis=1)
        assert follows(inside, mechanism)
        assert not follows(inside * (1 + 4 * PERTURB), mechanism)


@pytest.mark.parametrize(("d", "rank"), [(2, 1), (20, 7), (100, 50)])
@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_one_bit_has_the_least_variance_of_its_kind(d, rank, epsilon):
    mechanism = BitMechanism.best(d, epsilon, rank)
    for factor in (0.7, 0.95, 1.05):
        assert BitMechanism.at(d, epsilon, min(0.95, mechanism.mass * factor), rank).variance() >= mechanism.variance()
    if rank == 1:
        assert mechanism.variance() >= CapMechanism.best(d, epsilon).variance() * (1 - 1e-9)


@pytest.mark.parametrize(("d", "rank"), [(2, 1), (5, 2), (100, 50)])
def test_mass_and_slope_of_a_bit_by_quadrature(d, rank):
    """With t = sin^2(angle) the Beta density has no pole: E[B] and E[B (t - rank/d)] = slope (1 - 1/d)."""
    mechanism = BitMechanism.best(d, 1.0, rank)
    log_constant = np.log(2) - special.betaln(rank / 2, (d - rank) / 2)

    def expected(function):
        def integrand(s):
            powers = (rank - 1) * np.log(np.sin(s)) + (d - rank - 1) * np.log(np.cos(s))
            return function(np.sin(s) ** 2) * np.exp(log_constant + powers)

        ends = np.arcsin(np.sqrt(mechanism.threshold)), np.pi / 2 - 1e-12
        return integrate.quad(integrand, *ends, epsabs=1e-13, epsrel=1e-11, limit=200)[0]

    assert mechanism.mass == pytest.approx(expected(lambda t: 1.0), rel=1e-6)
    assert mechanism.slope == pytest.approx(expected(lambda t: t - rank / d) * d / (d - 1), rel=1e-6)
    assert mechanism.spread * (1 - 1 / d) == pytest.approx(rank - rank**2 / d)  # |P - rank/d I|^2


def test_one_bit_is_randomized_response():
    """With the subspace fixed, the bit flips its odds by e^eps when the row crosses the threshold."""
    protocol = LocalProtocol(6, 2.0, mechanism="one_bit", row_norms="unit")
    generator = np.random.default_rng(8)
    n = N // 4
    ids = np.tile(new_ids(1, generator), (n, 1))
    basis = public_bases(ids[:1], 6, protocol.rank)[0]
    across = np.linalg.svd(basis)[2][-1]
    counts = [
        int((mechanism_of(protocol).perturb(on_grid(protocol, np.tile(row, (n, 1))), ids, generator) & 1).sum())
        for row in (basis[0], across)
    ]
    assert loss_is(2.0, counts[0], counts[1], n)
    assert loss_is(-2.0, n - counts[0], n - counts[1], n)
    assert not loss_is(2.0 * (1 + 3 * PERTURB), counts[0], counts[1], n)


def test_trace_bit_settles_the_trace():
    protocol = LocalProtocol(4, 4.0, trace_share=0.5)
    generator, norm = np.random.default_rng(9), 0.7
    rows = norm * uniform_directions(N, 4, generator)
    grid = on_grid(protocol, rows)
    squared = float(np.square(grid).sum() / N / 4.0**16)
    ids = new_ids(N, generator)
    totals = mechanism_of(protocol).totals_of(mechanism_of(protocol).perturb(grid, ids, generator), ids)
    spread = Z * np.sqrt(mechanism_of(protocol).trace_variance(norm**2) / N)
    assert abs(mechanism_of(protocol).trace(totals.ones / N) - squared) < spread
    assert abs(mechanism_of(protocol).trace(totals.ones * (1 + PERTURB) / N) - squared) > spread


def test_zero_row_is_uniform():
    for mechanism in ("double_cap", "one_bit"):
        protocol = LocalProtocol(3, 8.0, mechanism=mechanism, row_norms="unit")
        generator, n = np.random.default_rng(10), DRAWS[mechanism]
        ids = new_ids(n, generator)
        totals = mechanism_of(protocol).totals_of(mechanism_of(protocol).perturb(np.zeros((n, 3)), ids, generator), ids)
        bound = Z * np.sqrt(mechanism_of(protocol).variance(0.0) / n)
        assert np.abs(mechanism_of(protocol).estimate(totals) - np.eye(3) / 3).max() < bound


def test_reports_of_invalid_rows_are_those_of_the_zero_row():
    """A uniform direction, and a trace bit that says "dropped" as often as it tells the truth; not so for others."""
    protocol, n = LocalProtocol(2, 4.0, trace_share=0.5), 50_000
    mechanism = mechanism_of(protocol)
    truth = 1 / (1 + np.exp(mechanism.trace_epsilon))

    def like_zero(row):
        rows = np.empty((n, 2), dtype=object)
        rows[:] = row
        reports = encode_many(protocol, rows, np.random.default_rng(11))
        payloads = unpack(reports, protocol.tag, mechanism.payload_bytes).payloads
        directions = mechanism._integers(payloads)
        angles = np.arctan2(directions[:, 1], directions[:, 0]) / (2 * np.pi) + 0.5
        fair = stats.binomtest(int(payloads[:, -1].sum()), n, truth).pvalue > ALPHA
        return follows(angles, stats.uniform.cdf), fair

    for row in ((np.nan, 0.5), (0.5, "text"), (0.0, 0.0)):
        assert like_zero(row) == (True, True)
    assert like_zero((0.8, 0.5)) == (False, False)
