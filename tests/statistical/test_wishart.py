"""The distribution of the Wishart sampler, and controls that the same checks must reject."""

import numpy as np
import pytest
from scipy import stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling.wishart import wishart
from statistical.constants import ALPHA, PERTURB

D, DEGREES, SCALE = 4, 5.5, 0.7
DRAWS = 40_000


def trace_is_chi_square(W: np.ndarray) -> bool:
    traces = np.trace(W, axis1=1, axis2=2) / SCALE
    return bool(stats.kstest(traces, stats.chi2(DEGREES * D).cdf).pvalue > ALPHA)


def inverse_form_is_chi_square(W: np.ndarray) -> bool:
    """Whether 1/(scale·(W⁻¹)_ii) is chi-square with degrees − d + 1, for every i: it sees the whole matrix."""
    diagonals = np.diagonal(np.linalg.inv(W), axis1=1, axis2=2)
    mechanism = stats.chi2(DEGREES - D + 1)
    return all(stats.kstest(1 / (SCALE * diagonals[:, i]), mechanism.cdf).pvalue > ALPHA / D for i in range(D))


def entries_have_their_moments(W: np.ndarray) -> bool:
    """Whether each entry has its mean and variance: m·c² off the diagonal, 2m·c² on it."""
    means, variances = DEGREES * SCALE * np.eye(D), DEGREES * SCALE**2 * (1 + np.eye(D))
    limit = stats.norm.isf(ALPHA / (4 * D * D))
    z = (W.mean(axis=0) - means) / np.sqrt(variances / DRAWS)
    squares = np.square(W - means)
    z_squares = (squares.mean(axis=0) - variances) / (squares.std(axis=0) / np.sqrt(DRAWS))
    return bool(np.abs(z).max() < limit and np.abs(z_squares).max() < limit)


def test_draws_have_the_distribution_and_a_scale_wrong_by_five_percent_is_caught() -> None:
    honest, rescaled = (
        wishart(DEGREES, factor * SCALE, D, np.random.default_rng(1), DRAWS) for factor in (1.0, 1 + PERTURB)
    )
    assert inverse_form_is_chi_square(honest)
    for check in (trace_is_chi_square, entries_have_their_moments):
        assert check(honest)
        assert not check(rescaled)


def test_equal_diagonal_degrees_are_caught() -> None:
    """The slip of Bartlett's decomposition: the same degrees of freedom in every place of the diagonal."""
    generator = np.random.default_rng(2)
    factors = np.tril(generator.standard_normal((DRAWS, D, D)), -1)
    factors += np.sqrt(generator.chisquare(DEGREES, (DRAWS, D)))[:, :, np.newaxis] * np.eye(D)
    assert not inverse_form_is_chi_square(SCALE * factors @ factors.mT)


@pytest.mark.parametrize(("d", "excess"), [(1, 1e-3), (30, 1.0), (300, 1e6)])
def test_exactly_symmetric_and_positive(d: int, excess: float) -> None:
    W = wishart(d - 1 + excess, 2.5, d, np.random.default_rng(3))
    assert (W == W.T).all()
    assert np.linalg.eigvalsh(W)[0] >= -1e-12 * np.trace(W)


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
