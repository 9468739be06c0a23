"""`PrivateSparsePCA` keeps the features that a noisy diagonal promises most of, at delta = 0."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA, PrivateSparsePCA, RowBound, load_release, score_map
from eigenveil.errors import InvalidDataError
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.releases.origin import Origin, Screening
from eigenveil.report.page import render_report

N, D = 4000, 150
SUPPORT = np.array([3, 40, 77, 149])


def table(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D))
    rows[:, SUPPORT] += 6 * rng.normal(size=(N, 1))
    return rows


def fitted(**options: object) -> PrivateSparsePCA:
    return PrivateSparsePCA(1, epsilon=4.0, **options).fit(table())


@pytest.mark.parametrize(
    "options",
    [
        {"norm_bound": 20.0},
        {"norm_bound": 20.0, "center": False},
        {"norm_bound": 20.0, "adjacency": "add_or_remove_one"},
        {},
    ],
    ids=["centred", "about the origin", "add or remove", "raw"],
)
def test_the_support_is_kept_and_components_are_zero_elsewhere(options: dict) -> None:
    model = fitted(**options)
    screening = model.release_.origin.screening
    assert screening is not None
    assert set(SUPPORT) <= set(model.kept_)
    assert model.kept_.size == model.release_.n_features <= D // 2
    assert model.components_.shape == (1, D)
    assert not np.delete(model.components_, model.kept_, axis=1).any()
    assert set(SUPPORT) <= set(model.support_)
    assert np.array_equal(model.support_, np.flatnonzero(model.components_[0]))
    assert model.n_features_in_ == model.mean_.size == model.scale_.size == D
    assert model.release_.feature_names == tuple(f"x{position}" for position in model.kept_)
    assert model.release_.origin.chosen_privately == ("features",)


def test_less_noise_than_with_all_features() -> None:
    screened, whole = fitted(norm_bound=20.0), fitted(norm_bound=20.0, mechanism="matrix_laplace")
    assert whole.release_.origin.screening is None
    assert whole.kept_.size == D
    assert screened.release_.noise_sd < whole.release_.noise_sd


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 1e-6},
        {"standardize": True},
        {"mechanism": "matrix_laplace"},
        {"statistic": "kendall"},
    ],
)
def test_what_is_not_screened(options: dict) -> None:
    plan = PrivateSparsePCA(1, epsilon=1.0, **options).plan(500)
    assert all(route.screening is None for _, route in plan.routes)


def test_neither_narrow_tables_nor_other_estimators_are_screened() -> None:
    assert PrivateSparsePCA(1, norm_bound=1.0).plan(99).most_rows.screening is None
    assert PrivateSparsePCA(1, norm_bound=1.0).plan(100).most_rows.screening is not None
    widths = np.where(np.arange(500) == 7, 2.0, 1.0)
    assert PrivateSparsePCA(1, bounds=(-1, 1)).plan(500).most_rows.screening is not None
    assert PrivateSparsePCA(1, bounds=(-widths, widths)).plan(500).most_rows.screening is None
    assert PrivatePCA(1, norm_bound=1.0).plan(500).most_rows.screening is None


def test_a_plan_shows_the_parts() -> None:
    text = str(PrivateSparsePCA(1, epsilon=1.0, norm_bound=1.0).plan(500))
    assert "epsilon 0.71 for the release" in text
    assert "epsilon 0.04 to test" in text
    assert "epsilon 0.25 to choose them" in text


def test_dense_features_are_all_kept_with_what_is_left() -> None:
    rows = np.random.default_rng(0).normal(size=(N, D)) * np.sqrt(np.linspace(0.1, 2, D))
    model = PrivateSparsePCA(1, epsilon=8.0, norm_bound=20.0, tol=1e6).fit(rows)
    assert model.kept_.size == D
    assert model.release_.mechanism.epsilon == 7.68
    assert model.release_.feature_names is None


def test_rows_of_all_features_are_projected_whatever_they_come_in(tmp_path) -> None:
    frame = pd.DataFrame(table(), columns=[f"gene {position}" for position in range(D)])
    model = PrivateSparsePCA(1, epsilon=4.0, norm_bound=20.0).fit(frame)
    release = load_release(model.release_.save(tmp_path / "screened.npz"))
    by_hand = (frame.to_numpy() - model.mean_) @ model.components_.T
    again = PrivatePCA.from_release(release)
    assert tuple(again.feature_names_in_) == tuple(frame.columns)
    for projected in (
        model.transform(frame),
        again.transform(frame),
        release.transform(frame),
        release.transform(frame.to_numpy()),
        release.transform(frame[frame.columns[::-1]]),
        release.to_sklearn().transform(frame),
    ):
        assert np.allclose(projected, by_hand)
    back = again.inverse_transform(by_hand)
    assert back.shape == (N, D)
    assert np.allclose(again.transform(pd.DataFrame(back, columns=frame.columns)), by_hand)
    with pytest.raises(InvalidDataError, match="150 column"):
        release.transform(frame.to_numpy()[:, model.kept_])
    assert set(release.feature_names) <= set(frame.columns)


def test_collected_moments_are_screened_too() -> None:
    moments = SecondMoments(RowBound(20.0), D).update(table())
    model = PrivateSparsePCA(1, epsilon=4.0, center=False).fit_moments(moments)
    assert set(SUPPORT) <= set(model.kept_)
    assert model.kept_.size < D


def test_moments_of_features_are_a_part_of_those_of_all() -> None:
    bound = RowBound(20.0, constant=10.0, shift=np.arange(D) / D, scale=np.ones(D))
    whole = SecondMoments(bound, D, [f"f{position}" for position in range(D)]).update(table())
    part = whole.of_features((2, 149))
    assert np.array_equal(part.gram, whole.gram[np.ix_([2, 149, D], [2, 149, D])])
    assert part.feature_names == ("f2", "f149")
    assert part.bound.shift == (2 / D, 149 / D)
    assert (part.n_samples, part.bound.limit_squared) == (whole.n_samples, bound.limit_squared)


def test_an_origin_names_the_features_that_were_kept() -> None:
    origin = fitted(norm_bound=20.0).release_.origin
    assert Origin.from_dict(origin.to_dict()).screening == origin.screening
    screening = Screening(5, (1, 3), ("a", "b", "c", "d", "e"))
    screening.check(2, ("b", "d"))
    for wrong, names in (
        (Screening(5, (3, 1)), ("x3", "x1")),
        (Screening(5, (1, 5)), ("x1", "x5")),
        (Screening(5, (1, 1)), ("x1", "x1")),
        (Screening(5, (1,)), ("x1",)),
        (Screening(5, (1, 3)), ("b", "d")),
        (Screening(5, (1, 3), ("a", "b")), ("b", "d")),
        (screening, None),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            wrong.check(2, names)


def test_a_score_map_takes_rows_of_all_features() -> None:
    rows = table()
    rows[:, [20, 21, 22]] += 4 * np.random.default_rng(1).normal(size=(N, 1))
    release = PrivateSparsePCA(2, epsilon=8.0, norm_bound=20.0).fit(rows).release_
    assert release.origin.screening is not None
    cloud = score_map(rows, release, epsilon=1.0)
    assert np.array(cloud.grid.weights).shape == (2, D)
    assert "chosen privately" in render_report(release, scores=cloud)
