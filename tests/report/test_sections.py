"""What is shown is what the release reads of itself, whichever mechanism made it and whatever was asked for."""

import re

import numpy as np
import pytest

import eigenveil
from eigenveil import Guarantee, Release, RowBound
from eigenveil.display import LEGEND, NOT_ABOVE_NOISE, NOT_DETERMINED, for_readers, holds_zero, marked, with_error
from eigenveil.guarantee import Adjacency, Numerics
from eigenveil.limits import CORRELATION, SHARE, SIZE
from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism, SamplingMechanism
from eigenveil.mechanisms.base import integer_directions
from eigenveil.releases.origin import ComponentsRequest, RegressionRequest, Request, SparseRequest
from eigenveil.report import render_report
from eigenveil.report.facts import SHOWN_FEATURES, Shown, read
from eigenveil.report.html import fixed, number
from made_releases import NAMES, PlainReports, drawn, local_release, quietly, table, with_origin

CENTRED = RowBound(8.0, constant=8.0)


# What is shown, and the attribute of the release that it is.
SAME = {
    "variances": "explained_variance",
    "intervals": "explained_variance_interval",
    "shares": "explained_variance_ratio",
    "share_intervals": "explained_variance_ratio_interval",
    "running": "running_ratio",
    "running_intervals": "running_ratio_interval",
    "above_noise": "above_noise",
}


def in_words(value: float, interval, **options) -> str:
    return for_readers(with_error(float(value), interval, **options))


def text_of(page: str) -> str:
    return page.replace("\N{NO-BREAK SPACE}", " ")


def assert_same_numbers(release: Release, shown: Shown) -> None:
    """What is shown agrees with the attributes of the release, and the page prints it."""
    page = text_of(render_report(release))
    components = quietly(lambda: release.components)
    k = len(components)
    np.testing.assert_array_equal(shown.components, components)
    errors = release.spectrum.loading_errors()
    for j in shown.leading_features():
        for i in range(min(k, 6)):
            value, told = float(components[i, j]), errors is not None and not errors.undetermined[i]
            reach = 1.96 * errors.standard_errors[i, j] if told else 0.0
            interval = max(-1.0, value - reach), min(1.0, value + reach)
            assert (in_words(value, interval, limits=CORRELATION) if told else fixed(value)) in page
    assert (shown.variances is not None) == release.matrix.has_matrix
    if not release.matrix.has_matrix:
        assert release.explained_variance is None
        assert 'id="scree-title"' not in page
        return
    for name, attribute in SAME.items():
        np.testing.assert_equal(getattr(shown, name), getattr(release.spectrum, attribute))
    shares, share_ends = release.explained_variance_ratio, release.spectrum.explained_variance_ratio_interval
    ends = release.explained_variance_interval
    for i in range(k):
        assert in_words(release.explained_variance[i], None if ends is None else ends[i], limits=SIZE) in page
        assert in_words(shares[i], None if share_ends is None else share_ends[i], percent=True) in page
    assert (LEGEND in page) == (ends is not None)
    above = release.above_noise
    assert (f"({NOT_ABOVE_NOISE})" in page) == (above is not None and not above.all())
    test = release.spectrum.noise_test
    assert (shown.edges is None) == (test is None)
    if test is not None:
        assert tuple(shown.edges[: len(test.edges)]) == test.edges
        assert number(test.edges[0]) in page
        assert ((shown.released_eigenvalues > shown.edges[: shown.released_eigenvalues.size])[:k] == above).all()


CASES = [
    (name, adjacency, bound)
    for name, mechanism in MECHANISMS.items()
    for adjacency in Adjacency
    for bound in (RowBound(8.0), CENTRED)
    if bound.constant is None or mechanism.releases != "subspace"
]


@pytest.mark.parametrize(
    ("name", "adjacency", "bound"),
    [
        pytest.param(
            *case,
            id=f"{case[0]}-{case[1].value}-{case[2].constant and 'centred'}",
            # Each relation and each kind of rows with every mechanism, and not both with both.
            marks=() if (case[1] is Adjacency.REPLACE_ONE) == (case[2] is CENTRED) else pytest.mark.heavy,
        )
        for case in CASES
    ],
)
def test_every_mechanism_is_shown_by_what_its_release_tells(name, adjacency, bound, tmp_path):
    release = drawn(name, bound=bound, adjacency=adjacency, n_components=2)
    shown = read(release)
    assert_same_numbers(release, shown)
    page = render_report(release)
    from_file = eigenveil.load_release(release.save(tmp_path / "a.npz"))
    assert render_report(from_file) == page
    told = "count" in release.integers or "slack" in release.integers
    assert ("(noisy)" in page) == (told and name != "none")
    kinds = release.spectrum.explained_variance_interval_kind
    assert any("experiment, not by proof" in note for note in shown.notes) == ("approximate" in (kinds or ()))
    assert any("about the origin" in note for note in shown.notes) == (
        release.matrix.has_matrix and bound.constant is None
    )


@pytest.mark.parametrize("name", [name for name, mechanism in MECHANISMS.items() if "paper" in mechanism.calibrations])
def test_the_constants_of_papers_are_shown_too(name):
    options = {"allow_unsound": True} if name == "wishart" else {}
    release = drawn(name, calibration="paper", n_components=1, **options)
    assert_same_numbers(release, read(release))
    assert "<dt>Calibration</dt><dd>paper</dd>" in render_report(release)


# Mechanisms that the report has never heard of.


@pytest.mark.parametrize("name", MECHANISMS)
def test_an_unknown_distribution_still_gives_a_page(name):
    release = drawn(name, n_components=2)
    foreign = with_origin(release, mechanism="a mechanism of tomorrow")
    page, shown = text_of(render_report(foreign)), read(foreign)
    assert "a mechanism of tomorrow" in page
    assert "not known here" in shown.notes[0]
    assert (shown.edges, shown.angles, shown.intervals) == (None, None, None)
    # Integers have the same meaning whatever the mechanism.
    assert ("matrix" in release.integers) == (shown.variances is not None)
    assert shown.components.shape == (2, 6)
    assert str(foreign.guarantee) in page
    assert_same_numbers(foreign, shown)


@pytest.mark.parametrize("request_", [ComponentsRequest(0.5), SparseRequest(1)], ids=["share", "sparse"])
def test_where_an_unknown_distribution_leaves_no_components_the_rest_is_shown(request_):
    sampled = drawn("eigenvector_sampling", bound=CENTRED, request=request_)
    foreign = with_origin(sampled, mechanism="a mechanism of tomorrow")
    page, shown = render_report(foreign), read(foreign)
    assert shown.components.shape == (0, 6)
    assert "cannot compute components" in page
    assert "oadings</h2>" not in page
    assert str(foreign.guarantee) in text_of(page)


def test_sparse_components_need_the_noise_or_a_penalty():
    release = with_origin(drawn("gaussian", request=SparseRequest(1)), mechanism="a mechanism of tomorrow")
    assert read(release).components.shape == (0, 6)
    assert "scree-title" in render_report(release)
    release = with_origin(drawn("gaussian", request=SparseRequest(1, penalty=0.1)), mechanism="a mechanism of tomorrow")
    assert read(release).components.shape == (1, 6)


class Uniform(AdditiveMechanism):
    """A mechanism made up here: flat noise, private in no sense, which is not the report's to judge."""

    name = "made_up_noise"
    numerics = Numerics.IDEALIZED
    source = "this test"
    use_when = "never"

    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, 0.0, self.adjacency, self.numerics)

    def noise_scale(self) -> float:
        return 20 / self.epsilon

    def noise(self, generator, grid=1.0):
        noise = generator.uniform(-1, 1, (self.n_features, self.n_features)) * self.noise_scale() * grid
        return np.rint(np.triu(noise) + np.triu(noise, 1).T).astype(np.int64)

    @property
    def off_diagonal_sd(self) -> float:
        return self.noise_scale() / np.sqrt(3)

    @property
    def noise_reach(self) -> float:
        return self.noise_scale()

    @property
    def rotation_invariant(self) -> bool:
        return False


class Axes(SamplingMechanism):
    """A mechanism made up here that releases axes, as a subspace or in an order."""

    name = "made_up_axes"
    releases = "subspace"
    numerics = Numerics.EXACT
    source = "this test"
    use_when = "never"
    strength = 0.0

    def guarantee(self) -> Guarantee:
        return Guarantee(0.0, 0.0, self.adjacency, self.numerics)

    def draw(self, gram, grid, n_rows, generator):
        return {"directions": integer_directions(np.eye(self.n_components, self.n_features))}


def test_a_new_mechanism_is_shown_from_the_facts_that_it_declares(monkeypatch):
    for mechanism in (Uniform, Axes):
        monkeypatch.setitem(MECHANISMS, mechanism.name, mechanism)
    release = drawn(Uniform.name, n_components=2)
    shown = read(release)
    assert_same_numbers(release, shown)
    assert shown.intervals is not None
    assert any("experiment, not by proof" in note for note in shown.notes)
    assert not any("experiment" in note for note in read(drawn("gaussian", n_components=2)).notes)
    axes = drawn(Axes.name, n_components=2)
    shown = read(axes)
    assert_same_numbers(axes, shown)
    assert any("no order of importance" in note for note in shown.notes)
    monkeypatch.setattr(Axes, "ordered", True)
    assert not any("no order of importance" in note for note in read(axes).notes)
    assert all(mechanism.name in render_report(one) for mechanism, one in ((Uniform, release), (Axes, axes)))


# What was asked for.


@pytest.mark.parametrize("request_", [Request(), ComponentsRequest(2), SparseRequest(2), RegressionRequest(1)])
def test_correlations_are_shown_where_the_matrix_was_asked_for(request_):
    release = drawn("gaussian", bound=CENTRED, request=request_)
    shown = read(release)
    if isinstance(request_, ComponentsRequest | SparseRequest):
        assert shown.correlations is None
    else:
        np.testing.assert_array_equal(shown.correlations, release.correlation)
        ends = release.intervals.correlation()
        np.testing.assert_array_equal(shown.correlation_intervals, ends)
        assert in_words(release.correlation[0, 1], ends[0, 1], limits=CORRELATION) in render_report(release)


def test_the_tables_of_the_summary_are_on_the_page_but_for_wide_matrices(monkeypatch):
    release = drawn("gaussian", bound=CENTRED, request=Request(), seed=3)
    page = quietly(lambda: text_of(render_report(release)))
    for one in quietly(release.summary).tables:
        for line in one.lines()[1]:
            assert all(for_readers(cell).replace("<", "&lt;") in page for cell in line)
    monkeypatch.setattr("eigenveil.report.sections._SUMMARIZED", 5)
    assert "Summary tables" in page
    assert "Summary tables" not in quietly(lambda: render_report(release))


def test_sparse_components_are_the_loadings():
    release = drawn("gaussian", epsilon=4.0, request=SparseRequest(1, penalty=0.5))
    shown, page = read(release), text_of(render_report(release))
    np.testing.assert_array_equal(shown.components, release.spectrum.sparse.components)
    np.testing.assert_array_equal(shown.shares, release.explained_variance_ratio)
    np.testing.assert_array_equal(shown.intervals, release.explained_variance_interval)
    used = (release.spectrum.sparse.components != 0).sum(axis=1)
    assert used.tolist() == [3]  # the first group of the table; the noise is far below the penalty
    for line, share in enumerate(release.explained_variance_ratio):
        told = in_words(share, release.spectrum.explained_variance_ratio_interval[line], percent=True)
        assert f"Component {line + 1}: {told} of variance, {used[line]} of 6 features" in page
    assert "The components are sparse" in page
    assert "not part of the release" not in page


def test_the_coefficients_of_a_regression_are_shown():
    release = drawn("gaussian", epsilon=4.0, bound=CENTRED, request=RegressionRequest(1))
    fit, page = release.regression, text_of(render_report(release))
    section = page[page.index('id="regression"') : page.index('id="matrix"')]
    assert "Prediction of income from 5 features" in section
    assert f"R² = {with_error(fit.r2, fit.r2_interval, SHARE)}" in section
    for name, value, ends in zip([*NAMES[:1], *NAMES[2:]], fit.coef, fit.coef_interval, strict=True):
        told = marked(in_words(value, ends), holds_zero(ends))
        assert re.search(f">{name}</th><td[^>]*><span[^>]*>{re.escape(told)}</span>", section)
    assert (NOT_DETERMINED in page) == (not fit.determined)
    assert "the coefficients are computed from it" in page


def test_of_many_coefficients_those_that_move_the_prediction_are_shown():
    generator = np.random.default_rng(1)
    spread = np.where(np.arange(40) == 7, 0.05, 1.0)
    rows = generator.normal(size=(4000, 40)) * spread
    rows[:, 39] = rows[:, 3] + 5.0 * rows[:, 20]
    release = drawn("gaussian", rows, epsilon=8.0, bound=RowBound(9.0), names=None, request=RegressionRequest(39))
    shown = read(release)
    predictors = shown.predictors(release.regression)
    assert len(predictors) == SHOWN_FEATURES
    assert {3, 20} <= set(predictors)
    assert f"{SHOWN_FEATURES} of 39 coefficients shown" in render_report(release)


def test_a_regression_by_an_unknown_distribution_is_left_out():
    release = with_origin(drawn("gaussian", request=RegressionRequest(1)), mechanism="a mechanism of tomorrow")
    assert not read(release).regressions
    assert 'id="regression"' not in render_report(release)


# The local model.


def test_a_local_release_is_shown_as_released_with_a_gaussian_edge(monkeypatch):
    release = local_release(monkeypatch)
    shown, page = read(release), text_of(render_report(release))
    assert_same_numbers(release, shown)
    assert 2 < shown.edges[0] / (release.noise_sd * np.sqrt(6)) < 2.6
    assert shown.intervals is None
    assert number(shown.edges[0]) in page
    assert "<dt>Reports</dt><dd>3,000</dd>" in page
    assert "local: rows were private before they were collected" in page
    assert "without bias correction" in page
    assert "the sum of many reports" in page


def test_a_local_mechanism_that_does_not_tell_its_noise_has_no_edge(monkeypatch):
    monkeypatch.setattr(PlainReports, "noise_sd", lambda self, n_rows: None)
    shown = read(local_release(monkeypatch))
    assert shown.edges is None
    assert not any("many reports" in note for note in shown.notes)


# The estimators show the same.


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("mechanism", ["gaussian", "matrix_laplace"])
def test_the_numbers_are_those_of_the_estimator(mechanism):
    from eigenveil import PrivatePCA

    pca = PrivatePCA(
        3, epsilon=2.0, delta=1e-6 if MECHANISMS[mechanism].needs_delta else 0.0, norm_bound=8.0, mechanism=mechanism
    )
    release = quietly(lambda: pca.fit(table())).release_  # the third component of two is noise
    shown = read(release)
    assert_same_numbers(release, shown)
    np.testing.assert_allclose(shown.variances, pca.explained_variance_)
    np.testing.assert_allclose(shown.shares, pca.explained_variance_ratio_)
    np.testing.assert_allclose(shown.intervals, pca.explained_variance_interval_)
    np.testing.assert_allclose(shown.components, pca.components_)
    np.testing.assert_array_equal(shown.above_noise, pca.above_noise_)
    np.testing.assert_array_equal(shown.angles, pca.angle_)
    np.testing.assert_array_equal(shown.angle_bounds, pca.angle_bound_)


def test_a_local_estimator_has_a_report_with_an_edge():
    from eigenveil import LocalPCA

    release = quietly(lambda: LocalPCA(2, epsilon=4.0, norm_bound=8.0).fit(table())).release_
    shown = read(release)
    assert_same_numbers(release, shown)
    assert shown.edges is not None
    assert "holds against the server" in render_report(release)
