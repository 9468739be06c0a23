"""The distribution of the matrix Bingham samplers, and controls that the same checks must reject."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eigenveil.errors import InvalidParameterError
from eigenveil.sampling import matrix_bingham as module
from eigenveil.sampling.bingham import bingham
from eigenveil.sampling.matrix_bingham import (
    BlockKernel,
    ColumnKernel,
    HoffKernel,
    PlaneKernel,
    haar_orthogonal,
    matrix_bingham,
)
from statistical.constants import ALPHA, PERTURB, N

CHAINS = 1000
BURN_IN, KEPT = 20, 20
# Each half of a block update leaves the distribution unchanged, and would do alone.
KERNELS: dict[str, Callable[[np.ndarray, int], Any]] = {
    "block": BlockKernel,
    "column": ColumnKernel,
    "planes": lambda gaps, k: PlaneKernel(gaps),
    "hoff": HoffKernel,
}


@cache
def target(d: int) -> np.ndarray:
    """Return a B with a repeated and a negative eigenvalue, in a rotated basis."""
    basis = stats.ortho_group.rvs(d, random_state=np.random.default_rng(d))
    return (basis * np.r_[4.0, 2.5, 2.5, np.linspace(1.0, -2.0, d - 3)]) @ basis.T


def scores(V: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("nik,ij,njk->n", V, B, V)


@cache
def reference(d: int, k: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments by importance sampling from the uniform distribution, with their standard errors.

    The moments are the mean and the mean square of tr VᵀBV (centred) and the upper triangle of E[VVᵀ].
    """
    V = haar_orthogonal(2 * N, d, k, np.random.default_rng(seed))
    score = scores(V, target(d))
    weights = np.exp(score - score.max())
    weights /= weights.sum()
    values = statistics_of(V, score, d)
    means = weights @ values
    return means, np.sqrt(np.square(weights) @ np.square(values - means))


def statistics_of(V: np.ndarray, score: np.ndarray, d: int) -> np.ndarray:
    centred = score - score_centre(d)
    projections = (V @ V.mT)[:, *np.triu_indices(d)]
    return np.column_stack([centred, np.square(centred), projections])


def score_centre(d: int) -> float:
    """Return a fixed number near the mean of tr VᵀBV, so that its square is not all offset."""
    return float(np.linalg.eigvalsh(target(d))[-2:].sum())


def has_the_distribution(kernel: str, d: int, k: int, scale: float = 1.0, seed: int = 2) -> bool:
    """Compare independent chains with the reference: tr VᵀBV over the kept updates, VVᵀ at the last state."""
    eigenvalues, basis = np.linalg.eigh(target(d))
    gaps, basis = (eigenvalues.max() - eigenvalues)[::-1], basis[:, ::-1]
    generator = np.random.default_rng(seed)
    chain, states = KERNELS[kernel](scale * gaps, k), haar_orthogonal(CHAINS, d, k, generator)
    kept = []
    for update in range(BURN_IN + KEPT):
        states = chain.update(states, generator)
        if update >= BURN_IN:
            kept.append(k * eigenvalues.max() - np.square(states).sum(axis=2) @ gaps - score_centre(d))
    states = basis @ states
    values = statistics_of(states, scores(states, target(d)), d)
    # Chains are independent of each other, their updates are not: so each chain counts once, by its mean.
    values[:, 0], values[:, 1] = np.mean(kept, axis=0), np.square(kept).mean(axis=0)
    means, errors = reference(d, k)
    both = np.hypot(errors, values.std(axis=0, ddof=1) / np.sqrt(CHAINS))
    z = np.abs(values.mean(axis=0) - means) / both
    return bool(z.max() < stats.norm.isf(ALPHA / (2 * z.size)))


@pytest.mark.parametrize(("d", "k"), [(4, 2), pytest.param(6, 3, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_mechanism(kernel: str, d: int, k: int) -> None:
    assert has_the_distribution(kernel, d, k)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_scale_wrong_by_a_fifth_is_caught(kernel: str) -> None:
    assert not has_the_distribution(kernel, 4, 2, scale=1.2)


def test_a_draw_is_the_state_of_the_block_kernel_in_the_basis_of_the_matrix() -> None:
    draws = matrix_bingham(target(4), 2, np.random.default_rng(2), CHAINS, updates=BURN_IN)
    means, errors = reference(4, 2)
    values = statistics_of(draws, scores(draws, target(4)), 4)
    z = np.abs(values.mean(axis=0) - means) / np.hypot(errors, values.std(axis=0, ddof=1) / np.sqrt(CHAINS))
    assert z.max() < stats.norm.isf(ALPHA / (2 * z.size))


def test_accepting_every_proposal_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "log_acceptance", lambda quotient, dimension: np.zeros_like(quotient))
    assert not has_the_distribution("column", 4, 2)


def test_a_plane_turned_by_the_wrong_angle_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slip here would be θ for 2θ; in the whole update the exact column must not hide it."""

    class Doubled:
        def __init__(self, generator: np.random.Generator) -> None:
            self.permutation, self.honest = generator.permutation, generator.vonmises

        def vonmises(self, mode: float, concentration: np.ndarray) -> np.ndarray:
            return 2 * self.honest(mode, concentration)

    update = PlaneKernel.update
    monkeypatch.setattr(PlaneKernel, "update", lambda self, states, generator: update(self, states, Doubled(generator)))
    assert not has_the_distribution("block", 4, 2)


def column_has_its_conditional_distribution(
    concentration: float, *, factor: float = 1.0, typical: bool = True, seed: int = 3
) -> bool:
    """Redraw a column many times given the same others, against a Bingham distribution on their complement.

    The others are columns of a typical state (or of a uniform one). The reference writes B in a basis of the
    complement, which takes a decomposition but no argument about conditioned Gaussians.
    """
    d, k, count = 6, 3, 20_000
    generator = np.random.default_rng(seed)
    gaps = concentration * np.array([0.0, 0.3, 0.55, 0.6, 0.9, 1.0])
    state = matrix_bingham(-gaps, k, generator) if typical else haar_orthogonal(1, d, k, generator)[0]
    state = state @ haar_orthogonal(1, k, k, generator)[0]
    others = np.broadcast_to(state[:, 1:], (count, d, k - 1))
    columns = np.broadcast_to(state[:, 0], (count, d))
    drawn = ColumnKernel(factor * gaps, k).redraw(columns, others, generator)
    complement = np.linalg.qr(state[:, 1:], mode="complete")[0][:, k - 1 :]
    energies, rotation = np.linalg.eigh(complement.T @ (gaps[:, np.newaxis] * complement))
    axes = complement @ rotation
    assert np.abs(drawn @ state[:, 1:]).max() < 1e-12
    expected = np.square(bingham(-energies, generator, count))
    found = np.square(drawn @ axes)
    statistics = [(found[:, j], expected[:, j]) for j in range(d - k + 1)]
    statistics.append((found @ (energies - energies[0]), expected @ (energies - energies[0])))
    return min(stats.ks_2samp(*pair).pvalue for pair in statistics) > ALPHA / len(statistics)


@pytest.mark.parametrize("typical", [True, False])
@pytest.mark.parametrize(
    "concentration",
    [0.0, *(pytest.param(value, marks=pytest.mark.heavy) for value in (1e-300, 1.0, 1e6, 1e12)), 30.0],
)
def test_conditional_distribution_of_a_column(concentration: float, typical: bool) -> None:
    assert column_has_its_conditional_distribution(concentration, typical=typical)


@pytest.mark.parametrize("concentration", [30.0, 1e6])
def test_a_wrong_conditional_distribution_is_caught(concentration: float, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not column_has_its_conditional_distribution(concentration, factor=1 + 4 * PERTURB)
    # The complement has d − k + 1 dimensions: the envelope of the whole space would be wrong there.
    honest = module.log_acceptance
    monkeypatch.setattr(module, "log_acceptance", lambda quotient, dimension: honest(quotient, dimension + 2))
    assert not column_has_its_conditional_distribution(concentration)


@pytest.mark.parametrize("method", ["block", "hoff"])
@pytest.mark.parametrize("concentration", [0.0, 1.0, 1e12])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (5, 5), (50, 3)])
def test_orthonormal_at_every_concentration(d: int, k: int, concentration: float, method: str) -> None:
    steps = np.arange(d) / (d - 1)
    for shape in (np.exp(-5 * steps), np.ones(d), (np.arange(d) < k + 1) - 2.0):
        draws = matrix_bingham(concentration * shape, k, np.random.default_rng(4), 2, method=method, updates=8)
        assert draws.shape == (2, d, k)
        assert np.abs(draws.mT @ draws - np.eye(k)).max() < 1e-12


@pytest.mark.parametrize("spectrum", ["decaying", pytest.param("spike", marks=pytest.mark.heavy)])
def test_high_concentration_has_a_chi_square_score(spectrum: str) -> None:
    """Far above every entropy the k(d − k) small angles are Gaussian: twice the lost trace is chi-square."""
    d, k, chains = 12, 3, 400
    shapes = {"decaying": 0.6 ** np.arange(d), "spike": np.r_[1.0, np.full(k - 1, 0.01), np.zeros(d - k)]}
    B = 1e8 * shapes[spectrum]
    V = matrix_bingham(B, k, np.random.default_rng(5), chains)
    lost = np.square(V[:, k:]).sum(axis=2) @ (B[0] - B[k:]) - (1 - np.square(V[:, :k]).sum(axis=2)) @ (B[0] - B[:k])
    mechanism = stats.chi2(k * (d - k))
    assert stats.kstest(2 * lost, mechanism.cdf).pvalue > ALPHA
    assert stats.kstest(2.6 * lost, mechanism.cdf).pvalue < ALPHA


def test_square_draw_is_uniform() -> None:
    draws = matrix_bingham([9.0, 1.0, 0.0], 3, np.random.default_rng(6), 4000)
    mechanism = stats.beta(0.5, 1.0)
    assert (
        min(stats.kstest(np.square(draws[:, i, j]), mechanism.cdf).pvalue for i in range(3) for j in range(3)) > ALPHA
    )
    assert abs(np.linalg.det(draws).mean()) < 0.2


def test_seed_and_order_of_eigenvalues() -> None:
    first, second = (matrix_bingham(target(6), 3, np.random.default_rng(10)) for _ in range(2))
    assert (first == second).all()
    shuffled = np.array([0.0, 1e9, -5.0, 1e9, 3.0])
    span = matrix_bingham(shuffled, 2, np.random.default_rng(11))
    assert np.abs(np.linalg.norm(span[[1, 3]]) ** 2 - 2) < 1e-6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k must"),
        ({"k": 4}, "k must"),
        ({"method": "slice"}, "method"),
        ({"size": 0}, "size"),
        ({"updates": 0}, "updates"),
    ],
)
def test_refusals(options: dict[str, object], words: str) -> None:
    arguments = {"k": 2, **options}
    with pytest.raises(InvalidParameterError, match=words):
        matrix_bingham([2.0, 1.0, 0.0], generator=np.random.default_rng(0), **arguments)
