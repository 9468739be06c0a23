"""Which features are kept after a noisy diagonal."""

import math

import numpy as np

from eigenveil.postprocess.screening import kept_features, kept_signal, worth_screening

D, SCALE = 200, 3.0


def noise_sd(width: int) -> float:
    return 5 * math.sqrt(width)


def falling(values: np.ndarray) -> np.ndarray:
    return -np.sort(-values)


def test_kept_signal_is_free_of_the_excess_of_what_was_chosen() -> None:
    rng = np.random.default_rng(0)
    signal = np.where(np.arange(D) < 20, 12.0, 0.0)
    estimates, plain, truths = [], [], []
    for _ in range(2000):
        noisy = signal + rng.laplace(scale=SCALE, size=D)
        order = np.argsort(-noisy)
        truths.append(signal[order[:30]].sum())
        plain.append(noisy[order[:30]].sum())
        estimates.append(kept_signal(noisy[order], SCALE, 30))
    error = np.array(estimates) - truths
    assert abs(error.mean()) < 4 * error.std() / math.sqrt(error.size) + 0.1 * np.mean(np.subtract(plain, truths))
    assert np.mean(np.subtract(plain, truths)) > 20 * abs(error.mean())


def test_kept_signal_of_all_is_their_sum() -> None:
    values = falling(np.random.default_rng(0).normal(size=D))
    assert kept_signal(values, 1.0, D) == values.sum()


def test_features_that_stand_out_are_kept() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        support = np.sort(rng.choice(D, 8, replace=False))
        diagonal = 50 + rng.laplace(scale=SCALE, size=D)
        diagonal[support] += 400
        kept = kept_features(diagonal, SCALE, 1, noise_sd)
        assert set(support) <= set(kept.tolist())
        assert kept.size <= D // 2
        assert np.all(np.diff(kept) > 0)


def test_more_noise_of_the_matrix_keeps_fewer_features() -> None:
    rng = np.random.default_rng(0)
    diagonal = 3000 * 0.9 ** np.arange(D) + rng.laplace(scale=SCALE, size=D)
    sizes = [kept_features(diagonal, SCALE, 1, lambda width, sd=sd: sd * math.sqrt(width)).size for sd in (1, 30, 300)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]


def test_at_least_one_feature_for_every_component_is_kept() -> None:
    diagonal = np.zeros(D)
    diagonal[0] = 1e6
    assert kept_features(diagonal, SCALE, 7, noise_sd).size >= 7


def test_an_even_or_a_dense_diagonal_is_not_worth_screening() -> None:
    rng = np.random.default_rng(0)

    def worth(diagonal: np.ndarray, scale: float) -> bool:
        entries, mean = falling(diagonal), diagonal.mean()
        tenth, half = (entries[:count].sum() - count * mean for count in (D // 10, D // 2))
        return worth_screening(tenth, half, D, scale)

    even = 100 + rng.normal(size=D)
    dense = 1000 * np.square(rng.normal(size=(3, D))).sum(axis=0)
    sparse = even.copy()
    sparse[:10] += 100
    assert not worth(even, SCALE)
    assert not worth(dense, SCALE)
    assert worth(sparse, SCALE)
    assert not worth(sparse, 50 * SCALE)
