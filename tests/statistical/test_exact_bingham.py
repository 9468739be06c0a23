"""Exact Bingham directions: their distribution, slow paths, error bounds, and certificates at every concentration."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.special
import scipy.stats

from eigenveil.sampling import bingham as envelope
from eigenveil.sampling import certified
from eigenveil.sampling.bingham import (
    Complement,
    ExactBingham,
    bingham,
    certifiable,
    certified_envelope,
    float_residual_error,
    sharp_residual,
)
from eigenveil.sampling.certified import ExactMatrix
from statistical.constants import ALPHA

UNIT = 2.0**-24
SCALE = 2**44
Z_LIMIT = scipy.stats.norm.isf(ALPHA / 2)


def turned(spectrum, seed=4):
    """Return an integer matrix with this spectrum, times 2^44, in a random basis."""
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(spectrum),) * 2))[0]
    matrix = np.rint((basis * np.asarray(spectrum, dtype=float)) @ basis.T * SCALE).astype(np.int64)
    return (matrix + matrix.T) // 2


def made(spectrum, concentration):
    return ExactBingham(ExactMatrix(turned(spectrum)), Fraction(concentration) / SCALE)


@pytest.fixture
def unsure(monkeypatch):
    """Return a function after which the floats of samplers that were made before decide nothing."""
    return lambda: monkeypatch.setattr(envelope, "_WIDENED", 2.0**60)


def many(sampler, size, generator):
    """Return all that is kept of large batches: the same draws as `draw` makes, only faster."""
    found = []
    while len(found) < size:
        proposals = sampler.propose(512, generator)
        kept, doubtful = proposals.uniform < proposals.chance, proposals.in_doubt
        for place in range(512):
            if sampler.keeps_exactly(proposals, place, generator) if doubtful[place] else kept[place]:
                found.append(sampler.rounded(proposals, place))
    return np.array(found[:size]) * UNIT


def angles(drawn, matrix):
    """Return angles to the leading eigenvector, from -pi/2 to pi/2."""
    _, basis = np.linalg.eigh(matrix)
    along = drawn @ basis[:, ::-1]
    return np.arctan(along[:, 1] / along[:, 0])


def circle_distribution(gap):
    reach = min(np.pi / 2, 9 / np.sqrt(gap + 1e-9))
    grid = np.linspace(-reach, reach, 40_001)
    density = np.exp(-gap * np.sin(grid) ** 2)
    total = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    moments = [float((density * (gap * np.sin(grid) ** 2) ** power).sum() / density.sum()) for power in (1, 2)]
    return (lambda t: np.interp(t, grid, total / total[-1])), moments


def circle_ok(drawn, matrix, gap):
    """Accept the mechanism on the circle by its distribution function, and by the mean of its exponent."""
    found = angles(drawn, matrix)
    cdf, (mean, square) = circle_distribution(gap)
    z = ((gap * np.sin(found) ** 2).mean() - mean) / np.sqrt((square - mean**2) / len(found) + 1e-300)
    return scipy.stats.kstest(found, cdf).pvalue > ALPHA and abs(z) < Z_LIMIT


@pytest.mark.parametrize("concentration", [1, 30, 10**8])
def test_the_distribution_on_the_circle(concentration):
    sampler, generator = made([1.0, 0.2], concentration), np.random.default_rng(concentration)
    gap, matrix = 0.8 * concentration, turned([1.0, 0.2])
    drawn = many(sampler, 5000, generator)
    assert circle_ok(drawn, matrix, gap)
    # Controls: another strength, and a sampler that keeps every proposal.
    assert not circle_ok(drawn, matrix, 1.2 * gap if concentration > 1 else 1.5 * gap)
    if sampler.envelope.matrix is not None:
        proposals = sampler.propose(5000, generator)
        assert not circle_ok(proposals.y, matrix, gap)


def sphere_distribution(gaps):
    """Return the distribution of s = 1 - (u.v1)^2 on the sphere: exp(-s m) I0(s k)/sqrt(1 - s)."""
    middle, half = sum(gaps) / 2, abs(gaps[0] - gaps[1]) / 2
    top = min(1.0, 60 / max(middle - half, 1e-9))
    x = np.linspace(0, 1, 100_001)
    if top < 1:
        s = top * x * x
        density = np.exp(-s * (middle - half)) * scipy.special.ive(0, s * half) / np.sqrt(1 - s) * x
    else:
        s = 1 - (1 - x) ** 2
        density = np.exp(-s * (middle - half)) * scipy.special.ive(0, s * half)
    total = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return lambda t: np.interp(t, s, total / total[-1])


@pytest.mark.parametrize("concentration", [2, 10**6])
def test_the_distribution_on_the_sphere(concentration):
    spectrum = [1.0, 0.6, 0.1]
    drawn = many(made(spectrum, concentration), 5000, np.random.default_rng(concentration))
    along = drawn @ np.linalg.eigh(turned(spectrum))[1]
    s = along[:, 0] ** 2 + along[:, 1] ** 2
    gaps = 0.4 * concentration, 0.9 * concentration
    assert scipy.stats.kstest(s, sphere_distribution(gaps)).pvalue > ALPHA
    assert scipy.stats.kstest(s, sphere_distribution([1.5 * gap + 1 for gap in gaps])).pvalue < ALPHA
    # Given s, the angle in the plane of the other two has density exp(s k cos 2a).
    order = s * (gaps[1] - gaps[0]) / 2
    mean = scipy.special.ive(1, order) / scipy.special.ive(0, order)
    miss = (along[:, 1] ** 2 - along[:, 0] ** 2) / s - mean
    assert abs(miss.sum()) < Z_LIMIT * np.sqrt((miss**2).sum())


@pytest.mark.parametrize(("d", "concentration", "control"), [(40, 3, 5), (40, 500, 1.5)])
def test_quadratic_forms_follow_the_float_sampler(d, concentration, control):
    spectrum = 1 / np.arange(1.0, d + 1)
    matrix = turned(spectrum) / SCALE
    generator = np.random.default_rng(d)
    forms = [
        np.einsum("ni,ij,nj->n", drawn, matrix, drawn)
        for drawn in (
            many(made(spectrum, concentration), 2000, generator),
            bingham(concentration * matrix, generator, 20_000),
            bingham(control * concentration * matrix, generator, 20_000),
        )
    ]
    assert scipy.stats.ks_2samp(forms[0], forms[1]).pvalue > ALPHA
    assert scipy.stats.ks_2samp(forms[0], forms[2]).pvalue < ALPHA


# Slow paths.


@pytest.mark.parametrize("concentration", [1, 10**5])
def test_the_distribution_when_every_decision_is_exact(concentration, unsure):
    sampler, generator = made([1.0, 0.2], concentration), np.random.default_rng(6)
    unsure()
    drawn = np.array([sampler.draw(generator) for _ in range(300)]) * UNIT
    assert sampler.exact_coins == sampler.tried
    assert sampler.exact_roundings == 2 * len(drawn)
    gap = 0.8 * concentration
    assert circle_ok(drawn, turned([1.0, 0.2]), gap)
    assert not circle_ok(drawn, turned([1.0, 0.2]), 2 * gap + 2)


def chain(d, count, generator):
    """Return the complement of a few random directions."""
    complement = Complement(d)
    rows = np.linalg.qr(generator.standard_normal((d, count)))[0].T
    for row in rows:
        complement.leave_out(np.rint(row / UNIT).astype(np.int64))
    return complement


@pytest.mark.parametrize("released", [0, 2])
@pytest.mark.parametrize(("d", "concentration"), [(3, 2), (20, 50), (30, 10**12)])
def test_floats_and_integers_decide_alike_on_the_same_words(d, concentration, released):
    generator = np.random.default_rng(d)
    sampler = made(np.linspace(1, 0.1, d), concentration)
    sampler.complement = chain(d + released, released, generator)
    proposals = sampler.propose(12, generator)
    alike = 0
    for place in range(12):
        if not proposals.in_doubt[place]:
            kept = bool(proposals.uniform[place] < proposals.chance[place])
            assert sampler.keeps_exactly(proposals, place, generator) is kept
            alike += 1
        rounded = sampler.rounded(proposals, place)
        exactly = [sampler.rounds_exactly(proposals, place, i) for i in range(rounded.size)]
        assert rounded.tolist() == exactly
    assert alike >= 8


@pytest.mark.parametrize("released", [0, 2])
@pytest.mark.parametrize(("d", "concentration"), [(3, 2), (4, 50), (60, 10**8)])
def test_errors_of_floats_stay_below_their_bounds(d, concentration, released):
    generator = np.random.default_rng(1)
    sampler = made(np.linspace(1, 0.1, d), concentration)
    sampler.complement = chain(d + released, released, generator)
    proposals = sampler.propose(12, generator)
    x, A = proposals.normals.value.reshape(12, d), sampler.envelope.matrix
    y = x if A is None else proposals.y
    norms = [np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)]
    method = sampler._near_uniform if A is None else sampler._by_quotient
    found, bound = method(
        x, norms[0] ** 2, norms[1] ** 2, proposals.norm_error / proposals.norm, proposals.missed / norms[0]
    )
    shares, turned_shares = [], []
    for place in range(12):
        interval = sampler.log_chance_exactly(proposals, place, 128)
        assert interval.high <= Fraction(1, 2**60)  # a probability
        shares.append(abs(float((interval.low + interval.high) / 2 - Fraction(found[place]))) / bound[place])
        exact = sampler._exactly(proposals, place, 128)
        numbers, scale = sampler.complement.exactly(exact.y)
        truth = np.array([float(Fraction(n, scale * 2**exact.unit)) for n in numbers])
        floats = sampler.complement.floats(proposals.y[place])
        allowed = proposals.norm_error[place] + proposals.norm[place] * sampler.complement.float_error
        turned_shares.append(np.linalg.norm(floats - truth) / allowed)
    assert max(shares) <= 1
    assert max(turned_shares) <= 1
    assert max(turned_shares) > 1e-3
    if concentration <= 50:
        assert max(shares) > 1e-3


# Certificates.


def fractions(matrix):
    return [[Fraction(x) for x in row] for row in matrix.tolist()]


def exact_residual(found, C, factor):
    d = len(C)
    A = fractions(found.matrix)
    D = [[(found.shift if i == j else 0) - 2 * factor * int(C[i, j]) for j in range(d)] for i in range(d)]
    W = [[sum(D[i][k] * A[k][j] for k in range(d)) for j in range(d)] for i in range(d)]
    return [[sum(A[k][i] * W[k][j] for k in range(d)) - (i == j) for j in range(d)] for i in range(d)]


def distance(exact, floats):
    """Return the Frobenius norm of a difference, which floats could not take."""
    return np.linalg.norm((np.array(exact) - np.array(fractions(floats))).astype(float))


@pytest.mark.parametrize("concentration", [10**2, 10**10, 10**17])
def test_the_certificate_holds_in_exact_arithmetic(concentration):
    d, C = 6, turned([1.0, 0.9, 0.5, 0.3, 0.1, 0.0])
    factor, matrix = Fraction(concentration) / SCALE, ExactMatrix(C)
    found = certified_envelope(matrix, factor)
    truth = exact_residual(found, C, factor)
    norm = np.sqrt(float(sum(x * x for row in truth for x in row)))
    assert norm <= found.eta < 0.1
    B = C * float(factor)
    size = envelope._norm(B)
    residual, bound = sharp_residual(matrix, factor, size, found.shift, found.integers, found.exponents)
    error = distance(truth, residual)
    assert 1e-3 * bound < error <= bound
    if Fraction(float(found.shift)) == found.shift:  # the path of floats
        D = float(found.shift) * np.eye(d) - 2 * B
        floats = found.matrix.T @ (D @ found.matrix) - np.eye(d)
        error = distance(truth, floats)
        assert 1e-3 * float_residual_error(found.matrix, D, size) < error <= float_residual_error(found.matrix, D, size)


def test_the_distribution_with_limbs_forced(monkeypatch):
    monkeypatch.setattr(envelope, "_WANTED", 1e-13)
    sampler = made([1.0, 0.2], 10**6)
    assert Fraction(float(sampler.envelope.shift)) != sampler.envelope.shift  # a pair of floats: limbs were used
    drawn = many(sampler, 4000, np.random.default_rng(3))
    assert circle_ok(drawn, turned([1.0, 0.2]), 0.8 * 10**6)
    assert not circle_ok(drawn, turned([1.0, 0.2]), 1.2 * 0.8 * 10**6)


def hard_matrices(d):
    generator = np.random.default_rng(d)
    x = generator.standard_normal((4 * d, d))
    yield "rows", x.T @ x
    yield "one row", np.outer(x[0], x[0])
    yield "a tie", x[:2].T @ np.linalg.inv(x[:2] @ x[:2].T) @ x[:2]
    yield "an axis", np.diag(np.eye(d)[0])
    yield "a line of eigenvalues", np.diag(np.arange(1.0, d + 1))


def extremes(d, concentrations):
    for name, matrix in hard_matrices(d):
        C = np.rint(matrix / np.trace(matrix) * 2.0**60).astype(np.int64)
        C = (C + C.T) // 2
        for concentration in concentrations:
            factor = Fraction(concentration * d) / 2**60
            assert certifiable(factor / 4, d)  # as of a trace of 2^62
            sampler = ExactBingham(ExactMatrix(C), factor)
            generator = np.random.default_rng(0)
            drawn = np.array([sampler.draw(generator) for _ in range(3)]) * UNIT
            assert np.abs(np.linalg.norm(drawn, axis=1) - 1).max() < UNIT * np.sqrt(d)
            values, vectors = np.linalg.eigh(C * float(factor))
            gaps = values[-1] - values
            flat = gaps.max() < 4
            assert (sampler.envelope.matrix is None) <= flat or d == 2, name
            assert sampler.envelope.eta < 0.5
            assert sampler.tried < 3 * 60 * np.sqrt(d), (name, concentration)
            # 2 a_i u_i^2 are at most chi-square, in all d of them at most.
            spread = 2 * gaps * ((drawn @ vectors) ** 2 - UNIT**2).clip(0)
            if concentration <= 1e6:  # beyond, floats do not know the eigenvectors as well as the sampler does
                assert spread.sum(axis=1).max() < d + 12 * np.sqrt(2 * d) + 30


@pytest.mark.parametrize("d", [2, 30])
def test_every_concentration_has_its_certificate(d):
    extremes(d, (1, 10**6, 10**12))


@pytest.mark.heavy
@pytest.mark.parametrize("d", [100, 500])
def test_every_concentration_has_its_certificate_wide(d):
    extremes(d, (1, 10**6, 10**9, 10**12))


def test_no_data_at_all_are_uniform_and_one_feature_is_a_coin():
    generator = np.random.default_rng(2)
    zero = ExactBingham(ExactMatrix(np.zeros((3, 3), np.int64)), Fraction(1))
    drawn = many(zero, 4000, generator)
    assert zero.exact_coins == 0
    assert scipy.stats.kstest(drawn[:, 2], "uniform", args=(-1, 2)).pvalue > ALPHA
    coin = ExactBingham(ExactMatrix(np.array([[2**60]])), Fraction(10**9))
    faces = [int(coin.draw(generator)[0]) for _ in range(400)]
    assert set(faces) == {2**24, -(2**24)}
    assert scipy.stats.binomtest(faces.count(2**24), 400).pvalue > ALPHA


def test_a_lapack_that_fails_costs_time_and_no_error(monkeypatch):
    def failing(*_):
        raise np.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(np.linalg, "eigvalsh", failing)
    sampler = made([1.0, 0.2], 6)
    assert sampler.envelope.matrix is None
    assert circle_ok(many(sampler, 2000, np.random.default_rng(1)), turned([1.0, 0.2]), 0.8 * 6)


def test_products_and_reflections_of_exact_matrices():
    generator = np.random.default_rng(0)
    shares = []
    for d, reach in ((2, 2**10), (5, 2**29), (7, 2**29)):
        rows = generator.integers(-reach, reach, (4, d))
        matrix = ExactMatrix(rows.T @ rows)
        for _ in range(2):
            v = generator.integers(1 - 2**31, 2**31, matrix.width)
            truth = np.array(fractions(matrix.objects)) / 2**20
            square = sum(int(x) ** 2 for x in v)
            H = np.array([[Fraction(int(i == j)) - Fraction(2 * int(a) * int(b), square) for j, b in enumerate(v)]
                          for i, a in enumerate(v)])  # fmt: skip
            matrix = matrix.reflected(v)
            miss = H @ truth @ H - np.array(fractions(matrix.objects)) / 2**20
            assert np.abs(miss).max() <= certified.REFLECTION_ERROR
            assert np.abs(miss).max() > 0.1 * certified.REFLECTION_ERROR
            A = generator.integers(-(2**53), 2**53, (d, 3))
            high, low = matrix.times(A)
            exact = matrix.objects @ A.astype(object)
            sizes = np.abs(matrix.objects) @ np.abs(A).astype(object)
            for index in np.ndindex(high.shape):
                got = Fraction(high[index]) + Fraction(low[index]) - Fraction(int(exact[index]), 2**20)
                shares.append(abs(float(got / Fraction(int(sizes[index]), 2**20))))
    assert 1e-3 * certified.PAIR_ERROR < max(shares) <= certified.PAIR_ERROR


@pytest.mark.parametrize(("d", "factor", "rows"), [(2, 125, 2**61), (2, 500, 2**61), (6, 500, 2**59)])
def test_a_multiple_of_the_identity_has_an_envelope_that_accepts(d, factor, rows):
    """Nothing but rounding is left of it in floats; an envelope taken from that would accept nothing, for ever."""
    sampler = ExactBingham(ExactMatrix(np.eye(d, dtype=np.int64) * rows), Fraction(factor))
    proposals = sampler.propose(200, np.random.default_rng(0))
    assert proposals.chance.mean() > 0.3
