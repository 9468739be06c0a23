"""What scikit-learn's PCA, covariances and Ridge offer beside fit and transform, from the release alone."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, load_release
from eigenveil.errors import InvalidDataError, InvalidParameterError, PrivacyWarning

MIXING = np.array([[2.0, 0.6, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 0.5]])
ROWS = np.clip(np.random.default_rng(0).normal(size=(4000, 3)) @ MIXING + [1.0, -1.0, 0.5], -9, 9)
PUBLIC = {"epsilon": 1e5, "bounds": (-9, 9)}  # so that what is left is what scikit-learn has


def fitted(k=2, **more):
    return PrivatePCA(k, **PUBLIC, **more).fit(ROWS)


def test_pca_has_the_methods_of_scikit_learn():
    whole, theirs = fitted(3), PCA(3).fit(ROWS)
    for model in (whole, fitted(3, standardize=True)):
        np.testing.assert_allclose(model.get_precision(), theirs.get_precision(), rtol=0.01, atol=0.01)
        np.testing.assert_allclose(model.score_samples(ROWS), theirs.score_samples(ROWS), rtol=0.01, atol=0.01)
    assert whole.score(ROWS) == pytest.approx(theirs.score(ROWS), rel=1e-3)
    assert whole.noise_variance_ == 0
    one, theirs = fitted(1), PCA(1).fit(ROWS)
    np.testing.assert_allclose(one.singular_values_, theirs.singular_values_, rtol=1e-3)
    assert one.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-2)
    # With the model of one component, which scikit-learn's likelihood is of:
    assert one.release_.to_sklearn().score(ROWS) == pytest.approx(theirs.score(ROWS), rel=1e-3)


def test_a_likelihood_is_there_where_mean_and_matrix_were_released():
    assert hasattr(PrivatePCA(), "score")
    for options in ({"center": False, **PUBLIC}, {"statistic": "spatial_sign"}, {"mechanism": "ppca", "center": False}):
        model = PrivatePCA(1, **{"epsilon": 10.0, "norm_bound": None, **options}).fit(ROWS)
        assert not hasattr(model, "score_samples")
        with pytest.raises(AttributeError, match="needs a released mean and matrix"):
            model.score(ROWS)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_nothing_is_divided_by_noise():
    noisy = PrivateCovariance(epsilon=0.5, bounds=(-9, 9)).fit(ROWS[:500])
    largest = np.linalg.eigvalsh(noisy.precision_ / np.outer(noisy.scale_, noisy.scale_))[-1]
    assert largest <= 1.001 / noisy.release_.noise_sd


@pytest.mark.parametrize("standardize", [False, True])
def test_whitening_is_the_same_everywhere(standardize, tmp_path):
    pca = fitted(2, whiten=True, standardize=standardize)
    projected = pca.transform(ROWS)
    np.testing.assert_allclose(projected.std(axis=0), 1.0, rtol=0.01)
    plain = PrivatePCA.from_release(pca.release_.pca(3))
    np.testing.assert_allclose(plain.inverse_transform(plain.transform(ROWS)), ROWS, atol=1e-8)
    again = pca.inverse_transform(projected)
    np.testing.assert_allclose(pca.transform(again), projected, atol=1e-8)
    np.testing.assert_allclose(pca.release_.to_sklearn().transform(ROWS), projected, atol=1e-8)
    np.testing.assert_allclose(pca.release_.to_sklearn().inverse_transform(projected), again, atol=1e-8)
    np.testing.assert_allclose(pca.release_.whiten(ROWS), projected, atol=1e-8)
    loaded = load_release(pca.release_.save(tmp_path / "white.npz"))
    np.testing.assert_allclose(PrivatePCA.from_release(loaded).transform(ROWS), projected)
    np.testing.assert_allclose(fitted(2, standardize=standardize).release_.whiten(ROWS), projected, atol=0.05)
    reference = pytest.importorskip("onnx.reference")
    import onnx

    model = onnx.load_from_string(pca.release_.to_onnx())
    np.testing.assert_allclose(reference.ReferenceEvaluator(model).run(None, {"X": ROWS})[0], projected, atol=1e-8)


def test_whitening_needs_variances_and_says_so_before_the_spend(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, data_set="rows")
    with pytest.raises(InvalidParameterError, match="whiten must be True or False"):
        PrivatePCA(1, whiten="yes", ledger=ledger).fit(ROWS)
    with pytest.raises(InvalidParameterError, match="releases no matrix"):
        PrivatePCA(1, whiten=True, mechanism="ppca", norm_bound=9.0, center=False, ledger=ledger).fit(ROWS)
    assert ledger.spent == (0, 0)
    assert "whiten" not in fitted().release_.origin.to_dict()["request"]
    assert "whiten" not in PrivateSparsePCA().get_params()


def test_a_covariance_has_the_methods_of_scikit_learn():
    ours, theirs = PrivateCovariance(**PUBLIC).fit(ROWS), EmpiricalCovariance().fit(ROWS)
    np.testing.assert_allclose(ours.precision_, theirs.precision_, rtol=0.01, atol=0.01)
    np.testing.assert_array_equal(ours.get_precision(), ours.precision_)
    np.testing.assert_allclose(ours.location_, theirs.location_, atol=0.01)
    np.testing.assert_allclose(ours.mahalanobis(ROWS), theirs.mahalanobis(ROWS), rtol=0.02, atol=0.02)
    theirs.covariance_ = ours.covariance_
    for norm in ("frobenius", "spectral"):
        for options in ({}, {"scaling": False}, {"squared": False}):
            found = ours.error_norm(np.eye(3), norm=norm, **options)
            assert found == pytest.approx(theirs.error_norm(np.eye(3), norm=norm, **options))
    with pytest.raises(InvalidDataError, match="shape"):
        ours.error_norm(np.eye(2))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_fits_an_intercept_as_scikit_learn_does(fit_intercept):
    y = np.clip(ROWS @ [0.5, -1.0, 0.3] + 2, -9, 9)
    ours = clone(PrivateRidge(0, fit_intercept=fit_intercept, **PUBLIC)).fit(ROWS, y)
    theirs = Ridge(0, fit_intercept=fit_intercept).fit(ROWS, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.02)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=0.02)
    with pytest.raises(InvalidParameterError, match="fit_intercept must be True or False"):
        PrivateRidge(fit_intercept="no").plan(4)


def test_privacy_units_are_routed(tmp_path):
    persons = np.repeat(np.arange(1000), 4)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1e6, data_set="rows", unit="person")
    with sklearn.config_context(enable_metadata_routing=True):
        step = PrivatePCA(1, **PUBLIC, ledger=ledger).set_fit_request(privacy_unit=True)
        ridge = PrivateRidge(epsilon=1e4, norm_bound=20.0, ledger=ledger).set_fit_request(privacy_unit=True)
        last = make_pipeline(step).fit(ROWS, privacy_unit=persons)[-1]
        first = make_pipeline(step, Ridge()).fit(ROWS, ROWS[:, 0], privacy_unit=persons)[0]
        options = {"cv": 2, "return_estimator": True, "params": {"privacy_unit": persons}}
        with pytest.warns(PrivacyWarning, match="hardly any protection"):
            folds = cross_validate(ridge, ROWS, ROWS[:, 0], **options)["estimator"]
        search = GridSearchCV(ridge, {"alpha": [0.0, 0.1]}, cv=GroupKFold(2))
        with pytest.warns(PrivacyWarning, match="hardly any protection"):
            best = search.fit(ROWS, ROWS[:, 0], privacy_unit=persons, groups=persons).best_estimator_
        # A search that nobody told what to do with identifiers refuses them, and spends nothing.
        spent = ledger.spent
        with pytest.raises(UnsetMetadataPassedError, match="privacy_unit"):
            cross_validate(clone(ridge).set_fit_request(privacy_unit=None), ROWS, ROWS[:, 0], **options)
        assert ledger.spent == spent
    for model, n in ((last, 1000), (first, 1000), (best, 1000), *((fold, 500) for fold in folds)):
        assert model.guarantee_.unit.name == "PERSON"
        assert model.n_samples_ == n
