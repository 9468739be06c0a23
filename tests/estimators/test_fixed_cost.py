"""Short ways of a fit: quick checks of the spectrum give what a whole decomposition gives; threads of BLAS."""

from collections import Counter

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info

from eigenveil import PrivatePCA, load_release
from eigenveil.numerics import one_blas_thread
from eigenveil.postprocess.preconditioning import (
    MOST_RELATIVE_LOSS,
    best_preconditioner,
    pilot_spectrum,
    preconditioner_after,
)
from eigenveil.postprocess.spectrum import surely_below

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
BUDGETS = {"pure": {"center": False}, "gaussian": {"delta": 1e-6}}


def rows(n, d):
    return np.random.default_rng(5).standard_normal((n, d))


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_components_of_a_wide_fit_are_those_of_a_whole_decomposition(budget, tmp_path):
    pca = PrivatePCA(10, norm_bound=35.0, **BUDGETS[budget]).fit(rows(3000, 300))
    loaded = load_release(pca.release_.save(tmp_path / "wide.npz"))
    assert np.array_equal(loaded.components, pca.components_)  # one release has one reading
    whole = scipy.linalg.eigh(pca.release_.matrix.scaled_matrix)[1].T[::-1][:10]
    assert np.allclose(np.abs(np.sum(whole * pca.components_, axis=1)), 1, atol=1e-12)


def symmetric_noise(generator, d, sd):
    noise = generator.standard_normal((d, d)) * sd
    return (noise + noise.T) / np.sqrt(2)


def test_a_map_is_the_same_whether_the_spectrum_was_looked_at_or_not():
    generator = np.random.default_rng(7)
    decided = Counter()
    for _ in range(400):
        d, sd, ratio = int(generator.integers(3, 40)), 10 ** generator.uniform(-3, 1), generator.uniform(0.8, 1.3)
        edge = 2 * sd * np.sqrt(d)
        truth = generator.uniform(0.3, 6) * edge * np.arange(1, d + 1) ** -generator.uniform(0, 2)
        matrix = np.diag(truth * generator.choice([0.0, 0.2, 1.0])) + symmetric_noise(generator, d, sd)
        k = [None, 1, 2, d][generator.integers(4)]
        slow = best_preconditioner(pilot_spectrum(matrix, sd), k, sd / 3, sd / 3 * ratio)
        quick = preconditioner_after(matrix, sd, k, sd / 3, sd / 3 * ratio)
        assert (quick is None) == (slow is None)
        assert quick is None or (quick.power == slow.power and np.array_equal(quick.matrix, slow.matrix))
        decided[quick is not None] += 1
    assert decided[False] > 70
    assert decided[True] > 20


def test_a_spike_at_the_level_of_the_proof_is_read_as_the_proof_takes_it():
    d, sd, ratio = 200, 1.0, 1.07
    least = ratio / np.sqrt(MOST_RELATIVE_LOSS)
    edge = 2 * sd * np.sqrt(d)
    truth = np.zeros(d)
    for above, seen in ((0.999, True), (1.001, False)):
        truth[0] = edge * (least + 1 / (4 * least)) * above
        assert surely_below(np.diag(truth), edge * (least + 1 / (4 * least))) == seen
        pilot = pilot_spectrum(np.diag(truth), sd)
        assert pilot.variances[0] == pytest.approx(edge * least, rel=0.01)
        assert best_preconditioner(pilot, 1, sd, ratio * sd) is None  # the bound is not sharp


@pytest.mark.parametrize("d", [1, 3, 80, 300])
def test_surely_below_never_says_so_of_what_is_above(d):
    generator = np.random.default_rng(d)
    for size in (1e-9, 1.0, 1e9):
        matrix = symmetric_noise(generator, d, size)
        top = np.linalg.eigvalsh(matrix)[-1]
        gap = abs(top)
        assert surely_below(matrix, top + 1e-6 * gap)
        assert not any(surely_below(matrix, level) for level in (top, top - 1e-12 * gap, top - 1e-3 * gap, top - gap))
        assert not surely_below(matrix, top + 1e-10 * gap)  # too near to tell, so it is looked at


def test_ties_and_nothing_at_all_are_below_what_is_above_them():
    assert surely_below(np.eye(100), 1.001)
    assert not surely_below(np.eye(100), 1.0)
    assert not surely_below(np.zeros((5, 5)), 0.0)
    assert surely_below(np.zeros((5, 5)), 1e-300)
    assert not surely_below(np.array([[0.0, 2.0], [2.0, 0.0]]), 1.0)


# Threads.


def cores():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_what_it_had_outside():
    before = cores()
    with one_blas_thread(), one_blas_thread():
        assert set(cores()) <= {1}
    assert cores() == before
