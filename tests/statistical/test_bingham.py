"""The distribution of the Bingham sampler, and controls that the same checks must reject."""

import importlib
import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling.bingham import bingham
from statistical.constants import ALPHA, PERTURB, N
from statistical.mechanisms import follows

# The package exports a function of the same name, so the module is asked for by its path.
module = importlib.import_module("eigenveil.sampling.bingham")

Sampler = Callable[[np.ndarray, np.random.Generator, int], np.ndarray]


def rotated(eigenvalues: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return a symmetric matrix with these eigenvalues, and its eigenvectors."""
    basis = stats.ortho_group.rvs(len(eigenvalues), random_state=np.random.default_rng(11))
    return (basis * eigenvalues) @ basis.T, basis


def follows_von_mises(sampler: Sampler, seed: int = 1) -> bool:
    """On the circle exp(uᵀBu) is the von Mises mechanism of the doubled angle, κ = (λ_1 − λ_2)/2."""
    B, basis = rotated([1.5, -0.5])
    u = sampler(B, np.random.default_rng(seed), N) @ basis
    doubled = 2 * np.arctan2(u[:, 1], u[:, 0])
    wrapped = (doubled + np.pi) % (2 * np.pi) - np.pi
    return follows(wrapped, stats.vonmises(1.0).cdf)


def integrated_moments(eigenvalues: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means and the variances of u_i² by quadrature.

    Under the uniform distribution the u_i² are Dirichlet: breaking a stick into Beta(1/2, (d−i)/2) pieces makes them a
    product of one-dimensional mechanisms, for each of which Gauss-Jacobi nodes are exact to rounding.
    """
    d = eigenvalues.size
    rules = []
    for i in range(1, d):
        x, w = special.roots_jacobi(24, (d - i) / 2 - 1, -0.5)
        rules.append(((1 + x) / 2, w / w.sum()))
    pieces = np.array(list(itertools.product(*(nodes for nodes, _ in rules))))
    weights = np.array(list(itertools.product(*(w for _, w in rules)))).prod(axis=1)
    left = np.cumprod(np.column_stack([np.ones(len(pieces)), 1 - pieces]), axis=1)
    masses = left * np.column_stack([pieces, np.ones(len(pieces))])
    weights = weights * np.exp(masses @ (eigenvalues - eigenvalues.max()))
    weights /= weights.sum()
    means = weights @ masses
    return means, weights @ np.square(masses) - np.square(means)


def has_moments(sampler: Sampler, eigenvalues: list[float], seed: int = 2) -> bool:
    """Whether the means of u_i² are those found by quadrature."""
    B, basis = rotated(eigenvalues)
    masses = np.square(sampler(B, np.random.default_rng(seed), N) @ basis)
    means, variances = integrated_moments(np.array(eigenvalues))
    z = np.abs(masses.mean(axis=0) - means) / np.sqrt(variances / N)
    return bool(z.max() < stats.norm.isf(ALPHA / (2 * len(eigenvalues))))


def naive(B: np.ndarray, generator: np.random.Generator, size: int) -> np.ndarray:
    """Draw by rejection from the uniform distribution: slow and obvious."""
    top = np.linalg.eigvalsh(B)[-1]
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < size:
        u = generator.standard_normal((size, len(B)))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        kept.append(u[np.log(generator.random(size)) <= np.einsum("ij,jk,ik->i", u, B, u) - top])
    return np.concatenate(kept)[:size]


def agrees_with_naive(sampler: Sampler, seed: int = 3) -> bool:
    """Whether uᵀBu has the mechanism that the naive sampler gives it (two samples, Kolmogorov-Smirnov)."""
    B, _ = rotated([3.0, 1.0, 0.0, -2.0])
    generator = np.random.default_rng(seed)
    ours, reference = sampler(B, generator, N), naive(B, generator, N)
    scores = [np.einsum("ij,jk,ik->i", u, B, u) for u in (ours, reference)]
    return bool(stats.ks_2samp(*scores).pvalue > ALPHA)


CHECKS = {
    "von Mises": follows_von_mises,
    "moments": lambda sampler: has_moments(sampler, [6.0, 3.0, 3.0, -2.0]),
    "naive rejection": agrees_with_naive,
}


@pytest.mark.parametrize("name", CHECKS)
def test_mechanism(name: str) -> None:
    assert CHECKS[name](bingham)


@pytest.mark.parametrize("name", CHECKS)
def test_accepting_every_proposal_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "log_acceptance", lambda quotient, dimension: np.zeros_like(quotient))
    assert not CHECKS[name](bingham)


@pytest.mark.parametrize("name", CHECKS)
def test_dividing_by_the_envelope_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published slip: e^{−s}/(M (uᵀΩu)^{d/2}), with uᵀΩu = q/b, where e^{−s}·(uᵀΩu)^{d/2}/M is right."""
    width = module.envelope_width
    seen = []

    def remember(gaps: np.ndarray) -> float:
        seen.append(width(gaps))
        return seen[-1]

    def divided(quotient: np.ndarray, dimension: int) -> np.ndarray:
        b = seen[-1]
        log_bound = (b - dimension) / 2 + dimension / 2 * np.log(dimension / b)
        return (b - quotient) / 2 - dimension / 2 * np.log(quotient / b) - log_bound

    monkeypatch.setattr(module, "envelope_width", remember)
    monkeypatch.setattr(module, "log_acceptance", divided)
    assert not CHECKS[name](bingham)


def test_a_wrong_concentration_is_caught() -> None:
    assert not CHECKS["moments"](lambda B, generator, size: bingham((1 + PERTURB) * B, generator, size))


def test_acceptance_is_a_probability_that_reaches_one() -> None:
    for dimension in (1, 2000):
        quotients = np.geomspace(1e-3, 1e15, 4001)
        assert module.log_acceptance(quotients, dimension).max() <= 1e-12
        assert module.log_acceptance(np.array([float(dimension)]), dimension)[0] == 0


def test_high_concentration_is_gaussian() -> None:
    """At 1e12 the small coordinates are N(0, 1/(2a_i)) to within 1e-12: their squares sum to a chi-square."""
    gaps = 1e12 * np.array([0.0, 1.0, 1.0, 2.0, 5.0, 9.0])
    u = bingham(-gaps, np.random.default_rng(4), N)
    assert follows(2 * np.square(u) @ gaps, stats.chi2(5).cdf)
    assert not follows(2 * (1 + PERTURB) * np.square(u) @ gaps, stats.chi2(5).cdf)


def spectra(d: int, concentration: float) -> dict[str, np.ndarray]:
    steps = np.arange(d) / max(d - 1, 1)
    return {
        "one spike": concentration * (np.arange(d) == 0),
        "repeated": concentration * (np.arange(d) < (d + 1) // 2),
        "all equal": np.full(d, concentration),
        "negative definite": -concentration * (1 + steps),
        "spread": concentration * np.exp(-20 * steps),
    }


@pytest.mark.parametrize("concentration", [0.0, 1.0, 1e12])
@pytest.mark.parametrize("d", [1, 2, 2000])
def test_unit_vectors_at_every_concentration(d: int, concentration: float) -> None:
    for eigenvalues in spectra(d, concentration).values():
        width = module.envelope_width(eigenvalues.max() - eigenvalues)
        assert np.sum(1 / (width + 2 * (eigenvalues.max() - eigenvalues))) == pytest.approx(1, rel=1e-9)
        u = bingham(eigenvalues, np.random.default_rng(5), 3)
        assert u.shape == (3, d)
        assert np.abs(np.linalg.norm(u, axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize("concentration", [1.0, 1e12])
def test_matrix_and_diagonal_are_one_mechanism(concentration: float) -> None:
    B, basis = rotated([concentration, concentration / 2, 0.0])
    u = bingham(B, np.random.default_rng(6), 20_000)
    v = bingham([concentration, concentration / 2, 0.0], np.random.default_rng(7), 20_000)
    assert np.abs(np.linalg.norm(u, axis=1) - 1).max() < 1e-12
    assert stats.ks_2samp(np.square(u @ basis[:, 2]), np.square(v[:, 2])).pvalue > ALPHA


def test_one_dimension_is_a_fair_sign() -> None:
    signs = bingham([[7.0]], np.random.default_rng(8), N)[:, 0]
    assert set(signs) == {-1.0, 1.0}
    assert stats.binomtest(int((signs > 0).sum()), N).pvalue > ALPHA


def test_seed_and_shapes() -> None:
    B, _ = rotated([3.0, 1.0, 0.0])
    first, second = (bingham(B, np.random.default_rng(9)) for _ in range(2))
    assert first.shape == (3,)
    assert (first == second).all()
    assert bingham(B, np.random.default_rng(9), 0).shape == (0, 3)


@pytest.mark.parametrize(
    ("B", "words"),
    [
        (np.ones((2, 3)), "square"),
        (np.zeros((0, 0)), "square"),
        ([[0.0, 1.0], [2.0, 0.0]], "symmetric"),
        ([[0.0, np.nan], [np.nan, 0.0]], "finite"),
        ([1e200, 0.0], "too large"),
        ([1j, 0.0], "real numbers"),
        ([[1.0], [1.0, 2.0]], "real numbers"),
    ],
)
def test_refusals(B: object, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        bingham(B, np.random.default_rng(0))


def test_other_refusals() -> None:
    with pytest.raises(InvalidParameterError, match="generator"):
        bingham([1.0, 0.0], 7)
    with pytest.raises(InvalidParameterError, match="size"):
        bingham([1.0, 0.0], np.random.default_rng(0), -1)


def test_nearly_uniform_single_draws_follow_the_mechanism() -> None:
    """Small concentrations take a path of their own: against the general sampler, and a control of 30 %."""
    B, _ = rotated([1.5, 0.5, 0.0, -0.5])
    generator = np.random.default_rng(20261116)
    assert np.linalg.norm(B) - np.trace(B) / 4 <= 4.0
    single = np.array([bingham(B, generator) for _ in range(15_000)])
    assert np.allclose(np.linalg.norm(single, axis=1), 1.0, atol=1e-12)
    forms = np.einsum("ij,jk,ik->i", single, B, single)
    many, stronger = (
        np.einsum("ij,jk,ik->i", u, B, u) for u in (bingham(c * B, generator, 200_000) for c in (1.0, 1.3))
    )
    assert stats.ks_2samp(forms, many).pvalue > ALPHA
    assert stats.ks_2samp(forms, stronger).pvalue < ALPHA
