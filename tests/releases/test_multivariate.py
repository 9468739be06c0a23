"""What a release can be used for, against plain NumPy and scikit-learn in the limit of no noise."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from eigenveil import PrivateCovariance, PrivatePCA, Schema, load_release
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.tables.schema import Column
from helpers import assert_one_sentence, invoked, refused, scales

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
NAMES = ["a", "b", "c", "d"]
IRIS = load_iris()
CLOSE = {"rtol": 1e-3, "atol": 1e-3}


@cache
def exact(**options):
    """Return a release of the iris without noise: what differs from NumPy is the integer grid."""
    frame = pd.DataFrame(IRIS.data, columns=NAMES)
    return PrivateCovariance(mechanism="none", bounds=(0, 8), **options).fit(frame).release_


@cache
def labelled(mechanism="none", epsilon=1.0):
    """Return a release of the iris with the species as a category of a schema."""
    columns = (
        *(Column(name, range=(0, 8)) for name in NAMES),
        Column("species", "category", categories=("0", "1", "2")),
    )
    frame = pd.DataFrame(IRIS.data, columns=NAMES).assign(species=IRIS.target.astype(str))
    return PrivateCovariance(mechanism=mechanism, epsilon=epsilon, schema=Schema(columns)).fit(frame).release_


def up_to_sign(rows, others, **close):
    signs = np.sign(np.sum(rows * others, axis=1))[:, None]
    np.testing.assert_allclose(rows, signs * others, **(close or CLOSE))


@pytest.mark.parametrize("correlation", [False, True])
def test_pca_of_a_release_is_that_of_scikit_learn(correlation):
    asked = exact().pca(2, correlation=correlation)
    rows = StandardScaler().fit_transform(IRIS.data) if correlation else IRIS.data
    truth = PCA(2).fit(rows)
    up_to_sign(asked.components, truth.components_)
    scores = asked.transform(IRIS.data)
    up_to_sign(scores.T, truth.transform(rows).T, rtol=5e-3, atol=5e-3)
    back = asked.inverse_transform(scores)
    expected = truth.inverse_transform(truth.transform(rows))
    expected = expected * IRIS.data.std(0) + IRIS.data.mean(0) if correlation else expected
    np.testing.assert_allclose(back, expected, rtol=5e-3, atol=5e-3)


def test_directions_that_were_drawn_keep_the_units_they_were_drawn_in():
    schema = scales(1.0, 2.0, 3.0, 4.0)
    options = {"mechanism": "eigenvector_sampling", "center": False, "schema": schema, "norm_bound": 9.0}
    release = PrivateCovariance(epsilon=50.0, **options).fit(IRIS.data).release_
    asked = release.pca(1)
    np.testing.assert_allclose(asked.scale, 1 / np.array(schema.sizes))
    np.testing.assert_allclose(asked.components, release.components[:1])


def test_what_was_asked_before_does_not_matter_and_the_promise_stays():
    release = PrivatePCA(3, epsilon=5.0, bounds=(0, 8)).fit(IRIS.data).release_
    asked = release.pca(1)
    assert asked.components.shape == (1, 4)
    assert asked.guarantee == release.guarantee
    assert asked.integers["matrix"] is not None
    np.testing.assert_array_equal(asked.integers["matrix"], release.integers["matrix"])
    np.testing.assert_allclose(release.pca(0.9).components, release.pca(len(release.pca(0.9).components)).components)
    assert len(release.pca("above_noise").components) >= 1
    assert len(release.pca().components) == 4
    np.testing.assert_allclose(asked.pca(3).components, release.components)


@pytest.mark.parametrize("asked", [0, 5, 1.5, "some", True])
def test_a_wrong_number_of_components_is_refused(asked):
    with refused(InvalidParameterError):
        exact().pca(asked)


def test_what_a_release_cannot_tell_is_refused():
    directions = PrivatePCA(2, mechanism="eigenvector_sampling", norm_bound=8.0, center=False).fit(IRIS.data).release_
    subspace = PrivatePCA(2, mechanism="random_projection", norm_bound=8.0, center=False).fit(IRIS.data).release_
    signs = PrivatePCA(2, statistic="kendall").fit(IRIS.data).release_
    origin = exact(center=False)
    assert len(directions.pca(1).components) == 1
    for call in (
        lambda: subspace.pca(0.5),
        lambda: directions.pca(2, correlation=True),
        lambda: signs.pca(2, correlation=False),
        lambda: origin.pca(2, correlation=True),
        lambda: subspace.whiten(IRIS.data),
        lambda: subspace.mahalanobis(IRIS.data),
        lambda: subspace.factor_analysis(1),
        lambda: subspace.cca([0], [1]),
        lambda: signs.mahalanobis(IRIS.data),
        lambda: signs.sample(3),
        lambda: signs.to_sklearn(),
        lambda: signs.to_onnx(),
        lambda: origin.sample(3),
        lambda: origin.lda([3]),
        lambda: exact().lda([3], [3]),
        lambda: exact().cca([0, 1], [1, 2]),
        lambda: exact().cca([0, 0], [1, 2]),
        lambda: exact().cca("nothing", "a"),
        lambda: exact().cca([7], [1]),
        lambda: exact().factor_analysis(0),
        lambda: exact().sample(0),
    ):
        with refused(EigenveilError):
            call()
    assert signs.pca(1).components.shape == (1, 4)


def test_whitening_is_that_of_scikit_learn():
    white = exact().pca(3).whiten(IRIS.data)
    n = len(IRIS.data)
    up_to_sign(white.T, PCA(3, whiten=True).fit_transform(IRIS.data).T * np.sqrt(n / (n - 1)), rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(3), atol=0.02)


def test_distances_are_those_of_scikit_learn():
    found = exact().mahalanobis(IRIS.data)
    np.testing.assert_allclose(found, EmpiricalCovariance().fit(IRIS.data).mahalanobis(IRIS.data), rtol=2e-2)


def test_distances_do_not_explode_where_the_noise_hides_directions():
    release = PrivateCovariance(epsilon=0.5, bounds=(0, 8)).fit(IRIS.data).release_
    squares = release.mahalanobis(IRIS.data)
    most = np.square(IRIS.data - release.mean).sum(axis=1) * release.scale.max() ** 2 / release.noise_sd
    assert np.all(squares <= most * (1 + 1e-9))


@pytest.mark.parametrize("labels", ["species", ["species=0", "species=1", "species=2"], [4, 5, 6]])
def test_discriminants_are_those_of_scikit_learn(labels):
    found = labelled().lda(labels)
    truth = LinearDiscriminantAnalysis(store_covariance=True).fit(IRIS.data, IRIS.target)
    assert found.classes == ("species=0", "species=1", "species=2")
    np.testing.assert_allclose(found.priors, truth.priors_, **CLOSE)
    np.testing.assert_allclose(found.means, truth.means_, rtol=5e-3, atol=5e-3)
    predicted = [int(name[-1]) for name in found.predict(IRIS.data)]
    assert np.mean(predicted == truth.predict(IRIS.data)) > 0.99
    scores, expected = found.transform(IRIS.data), truth.transform(IRIS.data)
    for ours, theirs in zip(scores.T, expected.T, strict=True):
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.999
    assert found.ratios[0] / found.ratios.sum() == pytest.approx(truth.explained_variance_ratio_[0], abs=1e-3)


def test_one_column_of_0_and_1_makes_two_classes():
    found = labelled().lda("species=0", features=NAMES)
    truth = LinearDiscriminantAnalysis().fit(IRIS.data, IRIS.target == 0)
    assert found.classes == ("not species=0", "species=0")
    assert np.mean((found.predict(IRIS.data) == "species=0") == truth.predict(IRIS.data)) > 0.99


def test_a_label_that_the_noise_hides_is_refused():
    release = labelled("laplace", 0.05)
    with refused(InvalidParameterError, 150):
        release.lda("species")


def test_canonical_correlations_are_those_of_numpy():
    found = exact().cca(["a", "b"], ["c", "d"])
    centred = IRIS.data - IRIS.data.mean(axis=0)
    bases = [np.linalg.qr(centred[:, block])[0] for block in ([0, 1], [2, 3])]
    np.testing.assert_allclose(found.correlations, np.linalg.svd(bases[0].T @ bases[1])[1], **CLOSE)
    for i, weights in enumerate(zip(found.first, found.second, strict=True)):
        scores = [centred[:, block] @ one for block, one in zip(([0, 1], [2, 3]), weights, strict=True)]
        assert np.corrcoef(*scores)[0, 1] == pytest.approx(found.correlations[i], abs=5e-3)
        assert np.var(scores[0]) == pytest.approx(1, rel=1e-2)


def test_factors_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 6)) * 0.5 + rng.normal(size=(3000, 6)) * [0.3] * 6 + 2.0
    release = PrivateCovariance(mechanism="none", bounds=(-8, 12)).fit(rows).release_
    found, truth = (
        release.factor_analysis(2, tol=1e-10),
        FactorAnalysis(2, svd_method="lapack", tol=1e-10, max_iter=5000),
    )
    truth.fit(rows)
    np.testing.assert_allclose(found.noise_variance, truth.noise_variance_, rtol=1e-2)
    np.testing.assert_allclose(
        found.loadings.T @ found.loadings, truth.components_.T @ truth.components_, rtol=1e-2, atol=1e-2
    )


# Synthetic rows.


def test_sampled_rows_have_the_released_mean_and_covariance():
    release = exact()
    rows = release.sample(60_000, random_state=1)
    np.testing.assert_allclose(rows.mean(axis=0), release.mean, atol=0.03)
    np.testing.assert_allclose(np.cov(rows.T), release.covariance, atol=0.05)
    assert not np.array_equal(release.sample(3), release.sample(3))
    np.testing.assert_array_equal(release.sample(3, random_state=5), release.sample(3, random_state=5))


def test_categories_and_ranges_of_the_schema_are_respected():
    rng = np.random.default_rng(7)
    n = 20_000
    group = rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1])
    age = rng.normal(50, 10, n) + 10 * (group == "y")
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, np.clip(age, 0, 100)),
            "group": group,
            "sick": rng.random(n) < np.where(group == "z", 0.6, 0.1),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 366, n), unit="D"),
        }
    )
    columns = (
        Column("age", range=(0, 100), missing="indicator"),
        Column("group", "category", categories=("x", "y", "z")),
        Column("sick", "boolean"),
        Column("seen", "date", range=("2024-01-01", "2024-12-31")),
    )
    release = PrivateCovariance(mechanism="none", schema=Schema(columns)).fit(frame).release_
    rows = release.sample(40_000, random_state=0)
    names = list(release.feature_names)
    ones = rows[:, [names.index(f"group={label}") for label in "xyz"]]
    assert set(np.unique(ones)) == {0.0, 1.0}
    assert set(ones.sum(axis=1)) <= {0.0, 1.0}
    np.testing.assert_allclose(ones.mean(axis=0), [0.6, 0.3, 0.1], atol=0.02)
    table = release.sample_table(40_000, random_state=0)
    assert list(table) == ["age", "group", "sick", "seen"]
    known = [value for value in table["age"] if value is not None]
    assert min(known) >= 0
    assert max(known) <= 100
    assert len(known) / 40_000 == pytest.approx(0.9, abs=0.02)
    assert set(table["group"]) <= {"x", "y", "z", None}
    sick = np.array(table["sick"])[np.array(table["group"]) == "z"].mean()
    assert sick == pytest.approx(0.6, abs=0.04)
    older = [a for a, g in zip(table["age"], table["group"], strict=True) if g == "y" and a is not None]
    assert np.mean(older) == pytest.approx(60, abs=1.0)
    assert "2024-01-01" <= min(table["seen"]) <= max(table["seen"]) <= "2024-12-31"


# Other forms.


@pytest.mark.parametrize("correlation", [False, True])
def test_a_fitted_pca_of_scikit_learn_projects_alike(correlation):
    release = PrivatePCA(2, epsilon=5.0, bounds=(0, 8), standardize=correlation).fit(IRIS.data).release_
    fitted = release.to_sklearn()
    np.testing.assert_allclose(fitted.transform(IRIS.data), release.transform(IRIS.data), atol=1e-9)
    scores = release.transform(IRIS.data)
    np.testing.assert_allclose(fitted.inverse_transform(scores), release.inverse_transform(scores), atol=1e-9)
    pca = fitted[-1] if correlation else fitted
    assert isinstance(pca, PCA)
    np.testing.assert_array_equal(pca.explained_variance_, release.explained_variance)
    assert pca.get_covariance().shape == (4, 4)


def test_json_holds_every_integer(tmp_path):
    release = exact()
    content = json.loads(release.to_json())
    for name, value in release.integers.items():
        told = np.array(content["integers"][name], dtype=object)
        assert [int(one) for one in told.ravel()] == value.ravel().tolist()
    assert content["guarantee"]["text"] == str(release.guarantee)
    np.testing.assert_allclose(content["says"]["covariance"], release.covariance)
    assert content["origin"]["mechanism"] == "none"


def test_integers_that_float64_would_round_are_text():
    from dataclasses import replace

    release = exact()
    large = release.integers["matrix"].copy()
    large[0, 0], large[1, 1] = 2**53 + 1, 2**53
    told = json.loads(replace(release, integers={**release.integers, "matrix": large}).to_json())["integers"]["matrix"]
    assert told[0][0] == str(2**53 + 1)
    assert told[1][1] == 2**53


@pytest.mark.parametrize("correlation", [False, True])
def test_an_onnx_model_projects_alike(correlation):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    import onnx
    from onnx.reference import ReferenceEvaluator

    release = exact().pca(2, correlation=correlation)
    model = onnx.load_from_string(release.to_onnx())
    scores = ReferenceEvaluator(model).run(None, {"X": IRIS.data})[0]
    np.testing.assert_allclose(scores, release.transform(IRIS.data), atol=1e-9)
    assert model.doc_string == str(release.guarantee)
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(release.to_onnx(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"X": IRIS.data})[0], release.transform(IRIS.data), atol=1e-9)


def test_without_the_package_onnx_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with refused(InvalidParameterError):
        exact().to_onnx()


def test_a_loaded_release_can_do_all_of_it_without_what_reads_rows(tmp_path):
    path = labelled().save(tmp_path / "iris.npz")
    code = f"""
from eigenveil import load_release
release = load_release({str(path)!r})
release.pca(1); release.lda("species"); release.cca(["a"], ["b"]); release.factor_analysis(1); release.sample(3)
release.to_json(); release.to_sklearn(); release.compare(release)
import sys
private = ("eigenveil.moments.bound", "eigenveil.moments.second_moments", "eigenveil.tables.open", "eigenveil.gate")
assert not [name for name in sys.modules if name.startswith(private)]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    assert load_release(path).lda("species").priors.shape == (3,)


GOLDEN = sorted((Path(__file__).parents[1] / "golden").rglob("*.npz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_whatever_a_file_holds_it_is_used_or_refused_in_one_sentence(path):
    release = load_release(path)
    rows = np.ones((3, release.n_features))
    named = rows if release.feature_names is None else pd.DataFrame(rows, columns=list(release.feature_names))
    for call in (
        lambda: release.to_json(),
        lambda: release.to_sklearn().transform(named),
        lambda: release.pca(1).transform(rows),
        lambda: release.pca(1, correlation=True).transform(rows),
        lambda: release.pca(0.5).transform(rows),
        lambda: release.whiten(rows),
        lambda: release.mahalanobis(rows),
        lambda: release.lda([0]).decision(rows[:, 1:]),
        lambda: release.cca([0], [1]).first,
        lambda: release.factor_analysis(1).loadings,
        lambda: release.sample(5, random_state=0),
        lambda: release.compare(release).affinity,
    ):
        try:
            found = call()
        except EigenveilError as error:
            assert_one_sentence(error)
        else:
            assert isinstance(found, str) or np.isfinite(found).all()


# Beside each other, and on the command line.


def turned(degrees, n=4000):
    """Return rows of two strong directions in a plane that is turned out of the first two axes."""
    angle = np.radians(degrees)
    rows = np.random.default_rng(2).normal(size=(n, 4)) * [1.0, 0.9, 0.1, 0.1]
    turn = np.eye(4)
    turn[[1, 1, 2, 2], [1, 2, 1, 2]] = np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle)
    return rows @ turn


@pytest.mark.parametrize("degrees", [0.0, 35.0])
def test_the_angle_between_subspaces_is_inside_of_its_interval(degrees):
    mechanism = {
        "epsilon": 2.0,
        "delta": 1e-6,
        "mechanism": "gaussian",
        "norm_bound": 4.0,
        "center": False,
        "stages": 1,
    }
    inside, quarter, width = 0, 0, []
    for _ in range(40):
        first, second = (PrivatePCA(2, **mechanism).fit(turned(by)).release_ for by in (0.0, degrees))
        found = first.compare(second)
        assert found.angle_interval[0] <= found.angle <= found.angle_interval[1]
        inside += found.angle_interval[0] <= degrees + 1e-9 and degrees <= found.angle_interval[1]
        off = sum(one.spectrum.loading_errors(0.975).subspace_bound for one in (first, second))
        quarter += abs(found.angle - degrees) <= off / 4
        width.append(np.ptp(found.angle_interval))
    assert inside >= 35  # of 40: the triangle inequality makes it 399 of 400
    assert np.mean(width) < 35
    assert quarter < 39  # control: a quarter of the bounds would not do
    if degrees:
        assert found.angle_interval[0] > 0


def test_nothing_is_known_of_an_angle_where_noise_is_all_there_is():
    first, second = (
        PrivatePCA(2, epsilon=0.01, norm_bound=8.0, statistic="clipped").fit(IRIS.data).release_ for _ in range(2)
    )
    np.testing.assert_array_equal(first.compare(second).angle_interval, [0, 90])
    drawn = PrivatePCA(2, mechanism="eigenvector_sampling", norm_bound=8.0, center=False).fit(IRIS.data).release_
    assert drawn.compare(drawn).angle_interval is None


def test_export_and_sample_write_files(tmp_path):
    path = labelled().save(tmp_path / "iris.npz")
    invoked("export", path)
    assert json.loads((tmp_path / "iris.json").read_text())["format"] == 1
    assert "already exists" in invoked("export", path, fails=InvalidParameterError)
    invoked("export", path, "--force", "--quiet")
    for name in ("rows.csv", "rows.parquet"):
        invoked("sample", path, "-n", 50, "-o", tmp_path / name)
    assert list(pd.read_csv(tmp_path / "rows.csv").columns) == [*NAMES, "species"]
    assert len(pd.read_parquet(tmp_path / "rows.parquet")) == 50
    invoked("sample", path, "-n", 50, "-o", tmp_path / "rows.txt", fails=InvalidParameterError)
    invoked("sample", path, "-n", 0, "-o", tmp_path / "none.csv", fails=InvalidParameterError)
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    invoked("export", path, "--to", "onnx")
    assert (tmp_path / "iris.onnx").stat().st_size > 100
