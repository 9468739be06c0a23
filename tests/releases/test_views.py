"""A release reads itself: the file gives what the estimator gave, in the user's units, from released values alone."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from eigenveil import (
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateSparsePCA,
    RowBound,
    Schema,
    SecondMoments,
    load_release,
    release,
)
from eigenveil.errors import InvalidParameterError, NoiseWarning
from eigenveil.mechanisms import MECHANISMS
from eigenveil.sampling.randomness import seeded_generator
from eigenveil.tables.schema import Column

GOLDEN = Path(__file__).parents[1] / "golden" / "format_2"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
NAMES = ("a", "b", "c", "d")


def table(n=20_000):
    rng = np.random.default_rng(5)
    return rng.normal(size=(n, 4)) * [3.0, 0.2, 1.0, 0.05] + [10.0, 0.0, -2.0, 0.5]


RANGES = ([-5.0, -1.0, -6.0, 0.0], [25.0, 1.0, 2.0, 1.0])
SIZES = Schema(tuple(Column(name, scale=size) for name, size in zip(NAMES, (3.0, 0.2, 1.0, 0.05), strict=True)))
MODELS = {
    "pca": PrivatePCA(2, epsilon=5.0, norm_bound=20.0),
    "centred pca, ranges": PrivatePCA(2, epsilon=5.0, bounds=RANGES, center=True),
    "scaled pairs": PrivatePCA(2, epsilon=5.0, statistic="spatial_sign", schema=SIZES),
    "sampled": PrivatePCA(2, epsilon=5.0, norm_bound=20.0, center=False, mechanism="eigenvector_sampling"),
    "subspace": PrivatePCA(2, epsilon=5.0, norm_bound=20.0, center=False, mechanism="random_projection"),
    "one direction": PrivatePCA(1, epsilon=5.0, norm_bound=20.0, center=False, mechanism="ppca"),
    "add or remove": PrivatePCA(2, epsilon=5.0, norm_bound=20.0, adjacency="add_or_remove_one"),
    "correlations, ranges": PrivatePCA(2, epsilon=5.0, bounds=RANGES, standardize=True),
    "correlations, mean first": PrivatePCA(
        2, epsilon=5.0, delta=1e-6, bounds=RANGES, standardize=True, mechanism="gaussian"
    ),
    "sparse correlations": PrivateSparsePCA(1, epsilon=5.0, bounds=RANGES, standardize=True, penalty=0.01),
    "sparse": PrivateSparsePCA(1, epsilon=5.0, bounds=RANGES, center=True, penalty=0.01, max_iter=300),
    "covariance": PrivateCovariance(epsilon=5.0, bounds=RANGES, center=True),
    "ridge": PrivateRidge(target=0, epsilon=5.0, bounds=RANGES, fit_intercept=True),
}
ALSO = {
    "components_": "components",
    "mean_": "mean",
    "location_": "mean",
    "scale_": "scale",
    "covariance_": "covariance",
    "correlation_": "correlation",
    "explained_variance_": "explained_variance",
    "explained_variance_ratio_": "explained_variance_ratio",
    "guarantee_": "guarantee",
}


def value(owner, path):
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def same(first, second):
    return first is second is None or np.array_equal(first, second)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # these features are not correlated
def test_the_file_has_everything_that_fit_knew(name, tmp_path):
    import pandas as pd
    from sklearn.base import clone

    model = clone(MODELS[name]).fit(pd.DataFrame(table(), columns=NAMES))
    loaded = load_release(model.release_.save(tmp_path / "release.npz"))
    told = dict(ALSO)
    if isinstance(model, PrivateRidge):
        told = {f"{part}_": f"regression.{part}" for part in ("coef", "intercept", "r2", "alpha")}
    if isinstance(model, PrivateSparsePCA):
        told |= {"support_": "spectrum.sparse.support", "n_iter_": "spectrum.sparse.n_iter"}
    for attribute, word in told.items():
        if hasattr(model, attribute):
            here = getattr(model, attribute)
            there = value(loaded, word)
            assert here == there if attribute == "guarantee_" else same(here, there), attribute
    assert loaded.origin.estimator == type(model).__name__
    assert loaded.origin.mechanism == model.mechanism_
    assert loaded.feature_names == NAMES
    if hasattr(model, "transform"):
        projected = model.transform(pd.DataFrame(table(10), columns=NAMES))
        # Frames lie in memory by columns, and BLAS sums them in another order.
        assert np.allclose(projected, loaded.transform(table(10)), rtol=1e-12)
        assert np.allclose(model.inverse_transform(projected), loaded.inverse_transform(projected), rtol=1e-12)


@pytest.mark.parametrize("mechanism", ["matrix_laplace", "gaussian", "laplace", "eigenvector_sampling", "none"])
def test_a_centred_release_is_about_the_mean_whatever_the_mechanism(mechanism):
    """Version 0.1 was wrong by the constant's share for sampled directions: 0.80 of the mean and of the variance."""
    X = np.random.default_rng(0).normal(size=(200_000, 4)) * [0.3, 0.1, 0.1, 0.05] + [1.0, 0.5, 0.0, 0.0]
    options = {"epsilon": 100.0, "delta": 0.0}
    if MECHANISMS[mechanism].needs_delta:
        options = {"epsilon": 8.0, "delta": 1e-6}
    model = PrivateCovariance(norm_bound=3.0, center=True, mechanism=mechanism, random_state=0, **options).fit(X)
    assert np.allclose(model.location_, X.mean(axis=0), atol=0.01)
    assert np.allclose(np.diag(model.covariance_), X.var(axis=0), atol=0.004)
    assert np.allclose(model.release_.mean, X.mean(axis=0), atol=0.01)


def test_a_regression_is_in_the_units_of_the_features():
    """Version 0.1 left out the scale: 0.67 and 0.33 for 2 and 0.01."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(0, 10, size=100_000), rng.uniform(0, 1000, size=100_000)
    rows = np.column_stack([x, z, 2 * x + 0.01 * z + rng.normal(size=100_000) * 0.1])
    ranges = ([0, 0, 0], [10, 1000, 30])
    model = PrivateCovariance(epsilon=1e4, bounds=ranges, center=True).fit(rows)
    fit = model.regress(2)
    assert np.allclose(fit.coef, [2.0, 0.01], rtol=0.02)
    assert fit.intercept == pytest.approx(0.0, abs=0.1)
    ridge = PrivateRidge(target=2, epsilon=1e4, bounds=ranges, fit_intercept=True).fit(rows)
    assert np.allclose(ridge.coef_, fit.coef, rtol=0.02)
    assert np.allclose(np.diag(model.covariance_), rows.var(axis=0), rtol=0.02)
    some = model.regress(2, [1])
    assert some.features == (1,)
    assert some.coef[0] == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("mechanism", ["eigenvector_sampling", "none"])
def test_a_regression_that_cannot_be_had_is_one_sentence_and_the_release_is_kept(mechanism):
    """Version 0.1 raised an empty AssertionError after the spend."""
    model = PrivateCovariance(epsilon=10.0, norm_bound=20.0, mechanism=mechanism).fit(table(500))
    with pytest.raises(InvalidParameterError, match="choose a mechanism that adds noise"):
        model.regress(2)
    assert model.covariance_.shape == (4, 4)


def test_pairs_keep_their_scale(tmp_path):
    model = PrivatePCA(4, epsilon=200.0, statistic="spatial_sign", schema=SIZES).fit(table(50_000))
    loaded = load_release(model.release_.save(tmp_path / "pairs.npz"))
    assert np.array_equal(loaded.scale, 1 / np.asarray(SIZES.sizes))
    assert np.array_equal(model.scale_, loaded.scale)
    # After scaling all features are alike, and the matrix in their own units has their sizes again.
    assert np.allclose(np.sqrt(np.diag(loaded.covariance)), np.asarray(SIZES.sizes) / 2, rtol=0.05)
    assert np.array_equal(loaded.transform(table(3)), model.transform(table(3)))


def test_moments_made_of_pairs_cannot_be_relabelled(tmp_path):
    model = PrivatePCA(1, statistic="spatial_sign", mechanism="matrix_laplace").partial_fit(table(1001))
    model.set_params(statistic="clipped", adjacency="add_or_remove_one", norm_bound=1.0)
    with pytest.raises(InvalidParameterError, match="spatial_sign"):
        model.fit_moments()
    model = PrivatePCA(1, statistic="spatial_sign", mechanism="matrix_laplace").partial_fit(table(1001))
    model.set_params(statistic="clipped", norm_bound=1.0).fit_moments()
    assert model.release_.origin.row_rule.statistic == "spatial_sign"
    assert model.n_samples_ == 1001


def test_swamped_components_warn_at_the_line_that_asked(tmp_path):
    mechanism = MECHANISMS["matrix_laplace"](epsilon=0.01, n_features=4)
    drawn = release(mechanism, SecondMoments(RowBound(20.0), 4).update(table(50)), generator=seeded_generator(0))
    for owner in (drawn, load_release(drawn.save(tmp_path / "r.npz"))):
        with pytest.warns(NoiseWarning, match="No component is distinguishable from noise") as caught:
            owner.components  # noqa: B018
        assert caught[0].filename == __file__


def test_an_unknown_distribution_still_shows_its_matrix(tmp_path):
    from dataclasses import replace

    from eigenveil import Release

    drawn = release(MECHANISMS["laplace"](epsilon=5.0, n_features=4), SecondMoments(RowBound(20.0), 4).update(table()))
    odd = Release(drawn.integers, drawn.unit, drawn.guarantee, replace(drawn.origin, mechanism="of_tomorrow"))
    loaded = load_release(odd.save(tmp_path / "r.npz"))
    assert loaded.mechanism is None
    assert not loaded.matrix.has_known_noise
    assert np.array_equal(loaded.matrix.scaled_matrix, drawn.matrix.scaled_matrix)
    assert loaded.components.shape == (4, 4)


# Golden files: what a version has written is read by every later one.


@pytest.mark.parametrize("name", EXPECTED)
def test_golden_files(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        loaded = load_release(GOLDEN / f"{name}.npz")
        read = {
            "n_rows": loaded.n_rows,
            "guarantee": str(loaded.guarantee),
            "components": np.abs(loaded.components),
            "covariance": loaded.covariance,
            "mean": loaded.mean,
            "explained_variance": loaded.explained_variance,
        }
    # A decomposition may differ in its last digits.
    for word, wanted in EXPECTED[name].items():
        if isinstance(wanted, list):
            assert np.allclose(read[word], wanted, rtol=1e-6, atol=2e-6), word
        else:
            assert read[word] == wanted, word
