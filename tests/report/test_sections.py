"""What is shown is what the release reads of itself, whichever mechanism made it and whatever was asked for."""

import numpy as np
import pytest

import eigenveil
from eigenveil import Guarantee, Release, RowBound
from eigenveil.errors import InvalidDataError
from eigenveil.guarantee import Adjacency, Numerics
from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism
from eigenveil.releases.origin import ComponentsRequest, RegressionRequest, SparseRequest
from eigenveil.report import render_report
from eigenveil.report.estimates import SHOWN_FEATURES, Estimates, read_estimates
from eigenveil.report.html import fixed, number
from eigenveil.uncertainty import CORRELATION, LEGEND, NOT_ABOVE_NOISE, SIZE, for_readers, with_error
from helpers import refused
from made_releases import drawn, local_release, quietly, with_origin

CENTRED = RowBound(8.0, constant=8.0)


# What is shown, and the attribute of the release that it is.
SAME = {
    "variances": "explained_variance",
    "shares": "explained_variance_ratio",
    "running": "running_ratio",
}


def in_words(value: float, interval, **options) -> str:
    return for_readers(with_error(float(value), interval, **options))


def text_of(page: str) -> str:
    return page.replace("\N{NO-BREAK SPACE}", " ")


def assert_same_numbers(release: Release, shown: Estimates) -> None:
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
        np.testing.assert_equal(getattr(shown, name).values, getattr(release.spectrum, attribute))
        np.testing.assert_equal(getattr(shown, name).intervals, getattr(release.spectrum, f"{attribute}_interval"))
    np.testing.assert_equal(shown.above_noise, release.above_noise)
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


# Each relation and each kind of rows with every mechanism, and not both with both.
CASES = [
    (name, adjacency, bound)
    for name, mechanism in MECHANISMS.items()
    for adjacency, bound in ((Adjacency.REPLACE_ONE, CENTRED), (Adjacency.ADD_OR_REMOVE_ONE, RowBound(8.0)))
    if bound.constant is None or mechanism.releases != "subspace"
]


@pytest.mark.parametrize(("name", "adjacency", "bound"), CASES)
def test_every_mechanism_is_shown_by_what_its_release_tells(name, adjacency, bound, tmp_path):
    release = drawn(name, bound=bound, adjacency=adjacency, n_components=2)
    shown = read_estimates(release)
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


# Mechanisms that the report has never heard of.


@pytest.mark.parametrize("name", ["gaussian", "eigenvector_sampling"])
def test_an_unknown_distribution_still_gives_a_page(name):
    release = drawn(name, n_components=2)
    foreign = with_origin(release, mechanism="a mechanism of tomorrow")
    page, shown = text_of(render_report(foreign)), read_estimates(foreign)
    assert "a mechanism of tomorrow" in page
    assert "not known here" in shown.notes[0]
    assert (shown.edges, shown.angles) == (None, None)
    assert shown.variances is None or shown.variances.intervals is None
    # Integers have the same meaning whatever the mechanism.
    assert ("matrix" in release.integers) == (shown.variances is not None)
    assert shown.components.shape == (2, 6)
    assert str(foreign.guarantee) in page
    assert_same_numbers(foreign, shown)


@pytest.mark.parametrize("request_", [ComponentsRequest(0.5), SparseRequest(1)], ids=["share", "sparse"])
def test_a_release_whose_components_cannot_be_computed_is_refused(request_):
    sampled = drawn("eigenvector_sampling", bound=CENTRED, request=request_)
    with refused(InvalidDataError) as caught:
        render_report(with_origin(sampled, mechanism="a mechanism of tomorrow"))
    assert "does not know the mechanism 'a mechanism of tomorrow'" in str(caught.value)


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


def test_a_new_mechanism_is_shown_from_the_facts_that_it_declares(monkeypatch):
    monkeypatch.setitem(MECHANISMS, Uniform.name, Uniform)
    release = drawn(Uniform.name, n_components=2)
    shown = read_estimates(release)
    assert_same_numbers(release, shown)
    assert shown.variances.intervals is not None
    assert any("experiment, not by proof" in note for note in shown.notes)
    assert not any("experiment" in note for note in read_estimates(drawn("gaussian", n_components=2)).notes)
    assert Uniform.name in render_report(release)


# What was asked for.


def test_of_many_coefficients_those_that_move_the_prediction_are_shown():
    generator = np.random.default_rng(1)
    spread = np.where(np.arange(40) == 7, 0.05, 1.0)
    rows = generator.normal(size=(4000, 40)) * spread
    rows[:, 39] = rows[:, 3] + 5.0 * rows[:, 20]
    release = drawn("gaussian", rows, epsilon=8.0, bound=RowBound(9.0), names=None, request=RegressionRequest(39))
    shown = read_estimates(release)
    predictors = shown.predictors(release.regression)
    assert len(predictors) == SHOWN_FEATURES
    assert {3, 20} <= set(predictors)
    assert f"{SHOWN_FEATURES} of 39 coefficients shown" in render_report(release)


def test_a_regression_by_an_unknown_distribution_is_left_out():
    release = with_origin(drawn("gaussian", request=RegressionRequest(1)), mechanism="a mechanism of tomorrow")
    assert not read_estimates(release).regressions
    assert 'id="regression"' not in render_report(release)


# The local model.


def test_a_local_release_is_shown_as_released_with_a_gaussian_edge(monkeypatch):
    release = local_release(monkeypatch)
    shown, page = read_estimates(release), text_of(render_report(release))
    assert_same_numbers(release, shown)
    assert 2 < shown.edges[0] / (release.noise_sd * np.sqrt(6)) < 2.6
    assert shown.variances.intervals is None
    assert number(shown.edges[0]) in page
    assert "<dt>Reports</dt><dd>3,000</dd>" in page
    assert "local: rows were private before they were collected" in page
    assert "without bias correction" in page
    assert "the sum of many reports" in page
