"""The last bits of released integers tell nothing about the data: attacks on them fail, and find every planted flaw.

An attacker knows two neighbouring data sets that differ by an odd number of units in every sum. He subtracts the sums
of each from a release and asks which rest looks like noise of floating-point code (Mironov 2012): zeros at the end,
squares in a corner of a Wishart matrix, values that float64 Laplace noise reaches, norms of directions to the last bit.
The planted mechanisms leak through the representation alone; in real arithmetic they keep what they claim.
"""

import math

import numpy as np
import pytest
import scipy.stats

from eigenveil import Adjacency
from eigenveil.accounting.calibration import exact, float_above
from eigenveil.accounting.sensitivity import diagonal_l1
from eigenveil.errors import CapacityError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.gaussian import Gaussian
from eigenveil.mechanisms.laplace import Laplace
from eigenveil.mechanisms.sampling_directions import EigenvectorSampling, Ppca
from eigenveil.sampling.discrete import discrete_gaussian, discrete_laplace
from eigenveil.sampling.matrices import symmetric
from statistical.constants import ALPHA

# The attacks.


def zeros(rest):
    """Return how often two divides the integers of each release, at most 16 times each."""
    bits = np.asarray(rest, dtype=np.int64).view(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    return np.minimum(np.bitwise_count(lowest - np.uint64(1)), 16).astype(float).sum(axis=1)


def is_float_square(integers):
    """Return which integers are the square of a float64, with any last bits that a float64 does not have."""
    root = np.sqrt(np.maximum(integers, 0).astype(np.longdouble)).astype(np.float64)
    found = (integers >= 0) & (integers < 2**50)
    for ulps in range(-4, 5):
        factor = root + ulps * np.spacing(root)
        square = factor * factor
        miss = (integers.astype(np.longdouble) - square).astype(np.float64)
        half = np.maximum(1.0, np.spacing(square)) / 2
        # A tie at half a unit may have been rounded either way; last bits drawn at random end below half a spacing.
        found |= (integers >= 0) & (miss >= -half) & np.where(half > 0.5, miss < half, miss <= half)
    return found


def is_float_laplace(integers, centre, scale):
    """Return which integers are centre + L rounded, L a Laplace number that NumPy makes of a multiple of 2^-53."""
    noise = (integers - centre.astype(np.longdouble)).astype(np.float64)
    wanted = np.exp(-np.abs(noise) / scale) * 2.0**52
    # Where the steps of L are finer than the spacing of float64, everything is reached.
    found = np.asarray(wanted * np.maximum(1.0, np.spacing(np.abs(integers.astype(np.float64)))) > 3 * scale)
    nearest = np.rint(np.where(noise > 0, 2.0**53 - wanted, wanted))
    for offset in range(-3, 4):
        uniform = np.clip(nearest + offset, 1.0, 2.0**53 - 1) * 2.0**-53
        size = -scale * np.log(np.where(noise > 0, 2.0 - uniform - uniform, uniform + uniform))
        # The logarithm of NumPy's arrays may differ in the last place from that of its random numbers.
        for one in (size, np.nextafter(size, 0.0), np.nextafter(size, np.inf)):
            found |= np.rint(centre + np.where(noise > 0, one, -one)).astype(np.int64) == integers
    return found


def fingerprint(mechanism, directions, gram, grid):
    """Return the misses of norms and of products, if directions are z turned by float eigenvectors Q of the data.

    |u|^2 - 1 is z'(Q'Q - I)z for u = Qz, and Q'Q - I is a fingerprint of the data. The exponent may have been computed
    in several ways.
    """
    eye = np.eye(directions.shape[1], dtype=np.longdouble)
    excess = directions @ directions.swapaxes(1, 2) - eye
    norms, products = [], []
    strength = 1.0 if mechanism.strength is None else mechanism.strength
    for matrix in (gram.astype(np.float64), gram / grid, gram * (strength / grid)):
        basis = np.linalg.eigh((matrix + matrix.T) / 2)[1].astype(np.longdouble)
        inside = directions @ basis
        own = basis.T @ basis - np.eye(len(basis), dtype=np.longdouble)
        miss = np.abs(excess - (inside @ own) @ inside.swapaxes(1, 2))
        norms.append(np.einsum("nii->ni", miss).min(axis=1))
        products.append(miss.max(axis=(1, 2)))
    return [np.log(np.min(part, axis=0) + 1e-22).astype(np.float64) for part in (norms, products)]


def evidence(mechanism, released, gram, grid, n_rows):
    """Return numbers by name for every release, large where its last bits fit a data set."""
    found, shifts = {}, mechanism.shifts(grid)
    if "matrix" in released:
        s = shifts.get("matrix", 0)
        rest = released["matrix"] - ((gram + (1 << (s - 1))) >> s if s > 0 else gram)
        above = np.triu_indices(len(gram), 1)
        found["zeros"] = zeros(rest.diagonal(axis1=1, axis2=2))
        found["zeros beside"] = zeros(rest[:, above[0], above[1]])
        found["square"] = is_float_square(rest[:, 0, 0]).astype(float)
    for name, true in (("trace", np.trace(gram)), ("slack", n_rows * grid - np.trace(gram))):
        if name in released:
            found["zeros of the trace"] = zeros(released[name][:, None] - true)
    if "directions" in released:
        directions = released["directions"].astype(np.longdouble) * mechanism.units(grid, 1 / grid)["directions"]
        misses = fingerprint(mechanism, directions, gram, grid)
        found["norms"], found["products"] = (-miss for miss in misses)
    if "quotients" in released:
        unit, quotients = 2.0 ** shifts.get("quotients", 0), released["quotients"]
        wide = gram.astype(np.longdouble)
        forms = ((directions @ wide) * directions).sum(axis=2)
        forms = np.hstack([forms, np.trace(wide) - forms.sum(axis=1, keepdims=True)])[:, : quotients.shape[1]] / unit
        found["zeros of quotients"] = zeros(quotients - np.rint(forms).astype(np.int64))
        epsilon = mechanism.matrix_epsilon * exact(mechanism.eigenvalue_share)
        scale = float_above(diagonal_l1(mechanism.adjacency) / epsilon) * grid / unit
        reached = is_float_laplace(quotients, forms.astype(np.float64), scale)
        found["float Laplace noise"] = reached.sum(axis=1).astype(float)
    return found


def odd_pair(mechanism, bits):
    """Return Gram matrices of neighbours whose every entry differs by an odd number of units, and their sizes.

    A dense row is changed or added. A few public rows around it give the matrix eigenvectors of no simple form.
    """
    d, grid = mechanism.n_features, 4**bits
    others = np.trunc(np.random.default_rng(d).standard_normal((12, d)) * (2.0**bits / (8 * math.sqrt(d))))
    others = others[np.square(others).sum(axis=1) <= grid].astype(np.int64)
    limit, unit = math.isqrt(grid // d), 2 ** max(0, mechanism.shifts(grid).get("matrix", 0))
    if mechanism.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        # Of the square roots of odd numbers of units, one of middle size.
        rows = [None, min(limit, max(math.isqrt(2**bits), round(math.sqrt(unit))) | 1)]
    else:
        step = max(1, -(-unit // limit))
        units = step * (2 * limit - step) // unit
        low = round(((units - (units % 2 == 0)) * unit / step - step) / 2)
        rows = [low, low + step]
    tables = [others if entry is None else np.vstack([others, np.full((1, d), entry)]) for entry in rows]
    # Rows of zeros, so that a noisy number of rows is not cut off.
    return [table.T @ table for table in tables], [len(table) + round(120 / mechanism.epsilon) for table in tables]


def attacked(mechanism, n, seed=1):
    """Return the attacks that tell the two data sets apart, from n releases of each."""
    generator = np.random.default_rng(seed)
    for bits in (24, 20):
        try:
            mechanism.check_grid(4**bits)
            break
        except CapacityError:
            continue
    grid, (grams, sizes) = 4**bits, odd_pair(mechanism, bits)
    sides = []
    for gram, size in zip(grams, sizes, strict=True):
        drawn = [mechanism.draw(gram, grid, size, generator) for _ in range(n)]
        released = {name: np.array([one[name] for one in drawn]) for name in drawn[0]}
        whole = {name: stack for name, stack in released.items() if stack.dtype.kind == "i"}
        first, second = (
            evidence(mechanism, whole, other, grid, rows) for other, rows in zip(grams, sizes, strict=True)
        )
        sides.append({name: first[name] - second[name] for name in first})
    found = set()
    for name in sides[0]:
        one, two = sides[0][name], sides[1][name]
        spread = math.sqrt((one.var() + two.var()) / n)
        # So far apart are the means of two alike samples with probability 1e-10.
        if abs(one.mean() - two.mean()) > 6.5 * spread + 1e-6:
            found.add(name)
    return found


# The planted flaws.


class OnTheGrid:
    """What leaves is in units of the grid."""

    def shifts(self, grid):
        return {}


def float_wishart(degrees, scale, d, generator):
    """Bartlett's product in float64, as version 0.1.0 had it."""
    factor = np.tril(generator.standard_normal((d, d)), -1)
    np.fill_diagonal(factor, np.sqrt(generator.chisquare(degrees - np.arange(d))))
    factor *= math.sqrt(scale)
    product = factor @ factor.T
    return np.tril(product) + np.tril(product, -1).T


def with_last_bits(noise, generator):
    """Random bits below the spacing of float64, as version 0.1.0 drew them."""
    spacing = np.maximum(1.0, np.spacing(np.abs(noise))).astype(np.int64)
    upper = np.triu(np.rint(noise).astype(np.int64) + generator.integers(0, spacing) - spacing // 2)
    return upper + np.triu(upper, 1).T


class FloatDifference(OnTheGrid, Laplace):
    """A difference of float Wishart matrices, rounded to even: `matrix_laplace` of version 0.1.0."""

    random_last_bits = False

    def check_grid(self, grid):
        pass

    def draw(self, gram, grid, n_rows, generator):
        d, scale = self.n_features, grid / self.epsilon
        noise = float_wishart(d + 1, scale, d, generator) - float_wishart(d + 1, scale, d, generator)
        whole = with_last_bits(noise, generator) if self.random_last_bits else np.rint(noise).astype(np.int64)
        return {"matrix": gram + whole}


class FloatDifferenceWithLastBits(FloatDifference):
    random_last_bits = True


class FloatCorner(OnTheGrid, Gaussian):
    """Float Wishart noise with random last bits: the corrected `wishart` of version 0.1.0 at (1, 1e-6), d = 2."""

    def draw(self, gram, grid, n_rows, generator):
        noise = float_wishart(1291.16, 0.168389 * grid, self.n_features, generator)
        return {"matrix": gram + with_last_bits(noise, generator)}


class EvenNoise(Laplace):
    """Noise that is always even, in units of 2^`coarser`; twice as wide as needed."""

    coarser = 0

    def shifts(self, grid):
        return {"matrix": self.coarser}

    def draw(self, gram, grid, n_rows, generator):
        scale, d = self.noise_scale() * grid / 2**self.coarser, self.n_features
        noise = symmetric(d, lambda size, own: 2 * discrete_laplace(scale, size, own), generator)
        np.fill_diagonal(noise, 2 * discrete_laplace(scale, d, generator))
        return {"matrix": ((gram + (2**self.coarser >> 1)) >> self.coarser) + noise}


class EvenUnits(EvenNoise):
    coarser = 20


class EvenTrace(Gaussian):
    """An honest matrix, and the number more with noise that is always even, twice as wide as needed."""

    def draw(self, gram, grid, n_rows, generator):
        name = "trace" if self.adjacency is Adjacency.REPLACE_ONE else "slack"
        true = np.trace(gram) if name == "trace" else n_rows * grid - np.trace(gram)
        noise = 2 * discrete_gaussian(self.noise_scale() * grid, 1, generator)[0]
        return {**super().draw(gram, grid, n_rows, generator), name: np.array(true + noise)}


class ScaledFloat(OnTheGrid, Laplace):
    """A float64 times a scale, up to 2^53, where all integers are floats and not all are such products."""

    def draw(self, gram, grid, n_rows, generator):
        size = np.ldexp(generator.integers(2**52, 2**53, (self.n_features,) * 2).astype(np.float64), -53)
        signs = generator.choice([-1.0, 1.0], size.shape)
        noise = np.rint(size * (1.75 * 2.0**4 * grid) * signs).astype(np.int64)
        return {"matrix": gram + np.triu(noise) + np.triu(noise, 1).T}


class FloatQuotients(OnTheGrid, EigenvectorSampling):
    """Directions that know nothing of the data, and their quotients plus a float Laplace number."""

    def draw(self, gram, grid, n_rows, generator):
        gaussian = generator.standard_normal((self.n_features, self.n_components))
        directions = np.rint(np.linalg.qr(gaussian)[0].T * 2.0**24)
        C, V = gram / grid, directions * 2.0**-24
        quotients = np.einsum("ki,ij,kj->k", V, C, V)
        rest = np.trace(C) - quotients.sum()
        values = np.append(quotients, rest) + generator.laplace(0.0, 2 / (0.1 * self.epsilon), len(V) + 1)
        return {"directions": directions.astype(np.int64), "quotients": np.rint(values * grid).astype(np.int64)}


class TurnedDirections(Ppca):
    """Uniform directions, turned by the eigenvectors of the data in float64: perfectly private in real numbers."""

    finer = 28

    def shifts(self, grid):
        return {"directions": -self.finer}

    def draw(self, gram, grid, n_rows, generator):
        B = gram.astype(np.float64) * (self.strength / grid)
        basis = np.linalg.eigh((B + B.T) / 2)[1]
        z = np.linalg.qr(generator.standard_normal((self.n_features, self.n_components)))[0]
        return {"directions": np.rint((basis @ z).T * 2.0 ** (24 + self.finer)).astype(np.int64)}


class CoarseTurnedDirections(TurnedDirections):
    """The same on the grid of 2^-24, where nothing is left of the fingerprint."""

    finer = 0


ADDED = {"adjacency": "add_or_remove_one"}
ZEROS = {"zeros", "zeros beside"}
PLANTED = [
    (FloatDifference, {"n_features": 6}, ZEROS),
    (FloatDifference, {"n_features": 1}, ZEROS),
    (FloatDifferenceWithLastBits, {"n_features": 12}, ZEROS),
    pytest.param(FloatDifferenceWithLastBits, {"n_features": 300}, ZEROS, marks=pytest.mark.heavy),
    (FloatCorner, {"epsilon": 1.0, "delta": 1e-6, "n_features": 2}, {"square"}),
    (EvenNoise, {"n_features": 2}, ZEROS),
    (EvenNoise, {"n_features": 2, **ADDED}, ZEROS),
    (EvenUnits, {"n_features": 3}, ZEROS),
    (EvenTrace, {"delta": 1e-6, "n_features": 3}, {"zeros of the trace"}),
    (EvenTrace, {"delta": 1e-6, "n_features": 3, **ADDED}, {"zeros of the trace"}),
    (ScaledFloat, {"n_features": 4}, ZEROS),
    (FloatQuotients, {"n_features": 4, "n_components": 2}, {"float Laplace noise"}),
    (TurnedDirections, {"n_features": 30, "n_components": 3}, {"norms", "products"}),
]


@pytest.mark.parametrize(("kind", "parameters", "by"), PLANTED)
def test_a_planted_flaw_is_found(kind, parameters, by):
    wide = parameters["n_features"] > 100
    assert attacked(kind(**{"epsilon": 0.1, **parameters}), 50 if wide else 400) & by


# What is exact passes.


def exact_mechanisms():
    """Return every mechanism of the table whose numerics are exact, at settings where the planted flaws are found."""
    found = []
    for name, kind in MECHANISMS.items():
        for adjacency in Adjacency:
            for k in (1, 2):
                delta = 1e-6 if kind.needs_delta else 0.0
                mechanism = kind(epsilon=0.1, delta=delta, n_features=4, n_components=k, adjacency=adjacency)
                promise = mechanism.guarantee()
                is_exact = promise.numerics is Numerics.EXACT and promise.is_private
                if is_exact and (k == 1 or mechanism.releases != "matrix"):
                    found.append(pytest.param(mechanism, id=f"{name}-{adjacency.value}-{k}"))
    return found


@pytest.mark.parametrize("mechanism", exact_mechanisms())
def test_the_last_bits_of_exact_mechanisms_tell_nothing(mechanism):
    assert attacked(mechanism, 200) == set()


@pytest.mark.parametrize("name", ["matrix_laplace", "frobenius"])
def test_the_last_bits_of_wide_matrices_tell_nothing(name):
    assert attacked(MECHANISMS[name](epsilon=0.1, n_features=120), 40) == set()


def test_on_the_grid_of_directions_nothing_is_left_of_the_fingerprint():
    assert attacked(CoarseTurnedDirections(epsilon=0.1, n_features=30, n_components=3), 400) == set()


@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        (MECHANISMS["matrix_laplace"](epsilon=0.5, n_features=10), "matrix"),
        (MECHANISMS["frobenius"](epsilon=0.5, n_features=10), "matrix"),
        (MECHANISMS["wishart"](epsilon=1.0, delta=1e-6, n_features=4), "matrix"),
        (MECHANISMS["eigenvector_sampling"](epsilon=0.5, n_features=4, n_components=2), "quotients"),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_low_bits_are_uniform(mechanism, name):
    # The noise is wide, so remainders are uniform whatever the data are; float64 reaches some integers only.
    generator, grid = np.random.default_rng(4), 4**20
    grams, sizes = odd_pair(mechanism, 20)
    for gram, size in zip(grams, sizes, strict=True):
        drawn = np.array([mechanism.draw(gram, grid, size, generator)[name] for _ in range(250)])
        low = drawn[:, *np.triu_indices(len(gram))].ravel() if name == "matrix" else drawn.ravel()
        for modulus in (2, 8):
            assert scipy.stats.chisquare(np.bincount(low % modulus, minlength=modulus)).pvalue > ALPHA
        spaced = np.rint(low / 16).astype(np.int64) * 16  # a planted spacing is seen
        assert scipy.stats.chisquare(np.bincount(spaced % 8, minlength=8)).pvalue < ALPHA


# The parts, against numbers that are known to be reached or not.


def test_what_float_arithmetic_reaches_is_told_from_what_it_does_not():
    generator, n = np.random.default_rng(0), 2000
    centre = np.full(n, 12345.0)
    squares = np.square((1 + generator.random(n)) * 2.0**27)
    assert is_float_square(np.rint(squares).astype(np.int64)).all()
    assert 0.2 < is_float_square(generator.integers(2**56, 2**58, n)).mean() < 0.8
    laplace = generator.laplace(0.0, 2.0**52, n)
    assert is_float_laplace(np.rint(centre + laplace).astype(np.int64), centre, 2.0**52).mean() > 0.999
    assert 0.1 < is_float_laplace(generator.integers(2**52, 2**53, n), centre, 2.0**52).mean() < 0.8
    # On a coarser grid everything is reached, and these attacks rightly tell nothing.
    small = generator.integers(2**40, 2**42, n)
    assert is_float_square(small).all()
    assert is_float_laplace(small, centre, 2.0**40).all()


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("kind", [EvenNoise, EvenUnits])
@pytest.mark.parametrize("d", [1, 2, 30])
def test_the_pair_differs_by_an_odd_number_of_units_everywhere(d, kind, adjacency):
    grams, sizes = odd_pair(kind(epsilon=0.1, n_features=d, adjacency=adjacency), 24)
    change = grams[1] - grams[0]
    added = adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert sizes[1] - sizes[0] == added
    assert np.abs(change / (1 if added else 2**kind.coarser) % 2 - 1).max() < 0.1
    assert np.abs(change / 4.0**24).max() < 0.5 / d
