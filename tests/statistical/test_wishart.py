"""The distribution of the Wishart sampler, and controls that the same checks must reject."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling.wishart import wishart
from statistical.constants import ALPHA, PERTURB

D, DEGREES, SCALE = 4, 5.5, 0.7
DRAWS = 40_000

Mechanism = Callable[[np.ndarray], bool]


def draws(scale: float = SCALE, degrees: float = DEGREES, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.array([wishart(degrees, scale, D, generator) for _ in range(DRAWS)])


def trace_is_chi_square(W: np.ndarray) -> bool:
    traces = np.trace(W, axis1=1, axis2=2) / SCALE
    return bool(stats.kstest(traces, stats.chi2(DEGREES * D).cdf).pvalue > ALPHA)


def quadratic_form_is_chi_square(W: np.ndarray) -> bool:
    """Whether xᵀWx/scale is chi-square for a unit x that no axis singles out."""
    x = np.array([0.1, -0.7, 0.5, 0.5])
    form = np.einsum("i,nij,j->n", x, W, x) / SCALE
    return bool(stats.kstest(form, stats.chi2(DEGREES).cdf).pvalue > ALPHA)


def inverse_form_is_chi_square(W: np.ndarray) -> bool:
    """Whether 1/(scale·(W⁻¹)_ii) is chi-square with degrees − d + 1, for every i: it sees the whole matrix."""
    diagonals = np.diagonal(np.linalg.inv(W), axis1=1, axis2=2)
    mechanism = stats.chi2(DEGREES - D + 1)
    return all(stats.kstest(1 / (SCALE * diagonals[:, i]), mechanism.cdf).pvalue > ALPHA / D for i in range(D))


def log_determinant_has_its_mean(W: np.ndarray) -> bool:
    """Whether ln det W has the mean of a sum of logs of independent chi-squares."""
    halves = (DEGREES - np.arange(D)) / 2
    logs = np.linalg.slogdet(W / SCALE)[1]
    mean = special.digamma(halves).sum() + D * np.log(2)
    sd = np.sqrt(special.polygamma(1, halves).sum())
    return bool(abs(logs.mean() - mean) < stats.norm.isf(ALPHA / 2) * sd / np.sqrt(DRAWS))


def entries_have_their_moments(W: np.ndarray) -> bool:
    """Whether each entry has its mean and variance: m·c² off the diagonal, 2m·c² on it."""
    means, variances = DEGREES * SCALE * np.eye(D), DEGREES * SCALE**2 * (1 + np.eye(D))
    limit = stats.norm.isf(ALPHA / (4 * D * D))
    z = (W.mean(axis=0) - means) / np.sqrt(variances / DRAWS)
    squares = np.square(W - means)
    z_squares = (squares.mean(axis=0) - variances) / (squares.std(axis=0) / np.sqrt(DRAWS))
    return bool(np.abs(z).max() < limit and np.abs(z_squares).max() < limit)


MECHANISMS: list[Mechanism] = [
    trace_is_chi_square,
    quadratic_form_is_chi_square,
    log_determinant_has_its_mean,
    entries_have_their_moments,
]


@pytest.fixture(scope="module")
def honest() -> np.ndarray:
    return draws()


@pytest.fixture(scope="module")
def rescaled() -> np.ndarray:
    return draws(scale=(1 + PERTURB) * SCALE)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, inverse_form_is_chi_square])
def test_mechanism(mechanism: Mechanism, honest: np.ndarray) -> None:
    assert mechanism(honest)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_scale_wrong_by_five_percent_is_caught(mechanism: Mechanism, rescaled: np.ndarray) -> None:
    assert not mechanism(rescaled)


def test_equal_diagonal_degrees_are_caught() -> None:
    """The slip of Bartlett's decomposition: the same degrees of freedom in every place of the diagonal."""
    generator = np.random.default_rng(2)
    factors = np.tril(generator.standard_normal((DRAWS, D, D)), -1)
    factors += np.sqrt(generator.chisquare(DEGREES, (DRAWS, D)))[:, :, np.newaxis] * np.eye(D)
    W = SCALE * factors @ factors.mT
    assert not inverse_form_is_chi_square(W)
    assert not log_determinant_has_its_mean(W)


@pytest.mark.parametrize("d", [1, 2, 30, 300])
@pytest.mark.parametrize("excess", [1e-3, 1.0, 1e6])
def test_exactly_symmetric_and_positive(d: int, excess: float) -> None:
    W = wishart(d - 1 + excess, 2.5, d, np.random.default_rng(3))
    assert (W == W.T).all()
    assert np.linalg.eigvalsh(W)[0] >= -1e-12 * np.trace(W)


def test_seed() -> None:
    first, second = (wishart(7, 1.0, 3, np.random.default_rng(4)) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((2.0, 1.0, 3), "degrees"),
        ((4.0, 0.0, 3), "scale"),
        ((4.0, np.inf, 3), "scale"),
        ((4.0, 1.0, 0), "n_features"),
    ],
)
def test_refusals(arguments: tuple[float, float, int], words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        wishart(*arguments, np.random.default_rng(0))
