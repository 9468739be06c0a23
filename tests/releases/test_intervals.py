"""Errors of released numbers: their formulas against brute force, and what is said where nothing is known."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, Release, RowBound
from eigenveil.errors import InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.postprocess.components import Rest, loading_errors
from eigenveil.postprocess.entries import correlation_intervals, covariance_intervals, plain_error, sampling_variances
from eigenveil.uncertainty import LEGEND
from helpers import residual_covariance
from made_releases import drawn, with_origin

SMALL = 1e-6
MIXED = np.array([[1.0, 0.5, 0, 0], [0, 1, 0.3, 0.5], [0, 0, 2, -0.4], [0, 0, 0, 1]])
ROWS = np.random.default_rng(5).normal(size=(4000, 4)) @ MIXED + [2.0, -1.0, 0.0, 0.5]
SCALE = np.array([1.0, 2.0, 0.5, 1.5])


def linear_covariance(mechanism, answer, at):
    """Return the covariance of the linear part of `answer`, a vector, by one step along every independent source.

    The noise of a mechanism has independent entries beside the diagonal, and on it those of one covariance matrix.
    """
    d, facts = mechanism.n_features, mechanism.noise_facts()
    centre, total = answer(np.zeros((d, d))), 0.0
    diagonal = []
    for i in range(d):
        for j in range(i, d):
            step = np.zeros((d, d))
            step[i, j] = step[j, i] = at
            change = (answer(step) - centre) / at
            if i == j:
                diagonal.append(change)
            else:
                total = total + facts.off_variance * np.outer(change, change)
    spread = np.full((d, d), facts.shared_variance)
    np.fill_diagonal(spread, facts.diagonal_variance)
    return total + np.array(diagonal).T @ spread @ np.array(diagonal)


def released(mechanism, *, center=True, scale=SCALE, mapped=False, **parameters):
    """Return a release of four features, and a function that returns it with more noise in C."""
    constant = 4.0 if center else None
    release = drawn(
        mechanism, ROWS, bound=RowBound(9.0, bits=20, scale=scale, constant=constant), names=None, seed=1, **parameters
    )
    integers, unit = dict(release.integers), dict(release.unit)
    if mapped:
        P = np.eye(4) + 0.2 * np.ones((4, 4)) * np.arange(4)
        integers["map"], unit["map"] = np.rint((P + P.T) / 4 * 2**24).astype(np.int64), 2.0**-24
        release = Release(integers, unit, release.guarantee, release.origin)

    def moved(noise):
        other = Release(integers, unit, release.guarantee, release.origin)
        # What is left in `second_moment` is asked about: the number more is as it was.
        vars(other.matrix)["_bordered"] = release.matrix._bordered + release.matrix._mapped_back(
            noise * release.origin.row_rule.reach_squared / release.n_rows
        )
        return other

    return release, moved


CASES = [
    ("gaussian", {}),
    ("gaussian", {"calibration": "paper"}),
    ("matrix_laplace", {}),
    ("laplace", {"center": False}),
    ("gaussian", {"mapped": True, "center": False, "scale": None}),
]


@pytest.mark.parametrize(("mechanism", "options"), CASES)
def test_variances_are_those_of_every_source_of_noise(mechanism, options):
    """Centring by a constant, maps of rows, entrywise noise and a shared diagonal: entries, residuals, correlations."""
    release, moved = released(mechanism, epsilon=5.0, **options)
    error = release.intervals.row_matrix_error(0.05)  # so short that no correlation comes near to 1
    weights = np.array([0.5, -1.0, 2.0, 1.0])

    def answer(noise):
        matrix = moved(noise).matrix.row_matrix
        sizes = np.sqrt(np.diag(matrix))
        return np.concatenate([matrix.ravel(), matrix @ weights, (matrix / np.outer(sizes, sizes)).ravel()])

    covariance = linear_covariance(release.mechanism, answer, SMALL)
    squared = np.outer(error.mean_bias, error.mean_bias) * (1 + np.eye(4))  # of the noise of the mean, not linear
    assert np.diag(covariance)[:16] == pytest.approx((error.entry_variances() - squared).ravel(), rel=1e-4)
    assert covariance[16:20, 16:20] == pytest.approx(residual_covariance(error, weights), rel=1e-3)
    chosen = np.outer(weights, weights)
    assert chosen.ravel() @ covariance[:16, :16] @ chosen.ravel() == pytest.approx(error.variance(chosen), rel=1e-3)
    ends = correlation_intervals(release.matrix.row_matrix + np.diag(error.mean_bias), error, error)
    widths = (ends[..., 1] - ends[..., 0]) / 2 / error.quantiles[0]
    assert widths[~np.eye(4, dtype=bool)] ** 2 == pytest.approx(
        np.diag(covariance)[20:].reshape(4, 4)[~np.eye(4, dtype=bool)], rel=1e-3
    )


@pytest.mark.parametrize(("mechanism", "epsilon"), [("gaussian", 20.0), ("matrix_laplace", 500.0)])
def test_a_regression_has_the_error_of_every_source_of_noise(mechanism, epsilon):
    release, moved = released(mechanism, epsilon=epsilon)
    error = release.intervals.row_matrix_error(0.95)

    def answer(noise):
        other = moved(noise)
        matrix, mean = other.matrix.row_matrix - np.diag(error.mean_bias), other.mean * SCALE
        coef = np.linalg.solve(matrix[:3, :3], matrix[:3, 3])
        return np.array([*coef, mean[3] - coef @ mean[:3], coef @ matrix[:3, 3] / matrix[3, 3]])

    deviations = np.sqrt(np.diag(linear_covariance(release.mechanism, answer, SMALL)))
    found = release.regress(3, alpha=0)
    assert found.determined
    assert found.noise_error == pytest.approx(deviations[:3] * SCALE[:3] / SCALE[3], rel=1e-3)
    halves = np.diff(found.coef_interval).ravel() / 2 / max(error.quantiles)
    assert halves == pytest.approx(found.noise_error, rel=3e-3)
    assert found.intercept_error == pytest.approx(deviations[3] / SCALE[3], rel=1e-3)
    assert np.diff(found.fitted_mean(np.zeros(3)).interval)[0] / 2 / max(error.quantiles) == pytest.approx(
        found.intercept_error, rel=3e-3
    )
    # The second order is small here, and only widens.
    half = np.diff(found.r2_interval)[0] / 2 / max(error.quantiles)
    assert deviations[4] <= half * 1.001 <= (1.1 if epsilon > 100 else 2) * deviations[4]


@pytest.mark.parametrize("d", [3, 40])
def test_one_number_more_changes_the_noise_of_the_trace_and_of_the_count(d):
    """The mechanism reads errors as it reads releases, linearly: so one step along each source tells all."""
    for adjacency in ("replace_one", "add_or_remove_one"):
        mechanism = MECHANISMS["gaussian"](epsilon=1.0, delta=1e-6, n_features=d, adjacency=adjacency)
        more = "trace" if adjacency == "replace_one" else "slack"
        sources = {f"x{i}": mechanism.noise_scale() for i in range(d)} | {more: mechanism.noise_scale()}
        if mechanism.count_share > 0:
            sources["count"] = mechanism.count_sd
        changes = []
        for source, sd in sources.items():
            values = {"matrix": np.zeros((d, d)), more: np.array(0.0)}
            values |= {"count": np.array(0.0)} if mechanism.count_share > 0 else {}
            if source in values:
                values[source] = np.array(sd)
            else:
                values["matrix"][int(source[1:]), int(source[1:])] = sd
            diagonal = np.diag(mechanism.second_moment(values, 1))
            changes.append(np.append(diagonal, mechanism.estimated_rows(values) or 0.0))
        covariance, facts = np.array(changes).T @ np.array(changes), mechanism.noise_facts()
        told = [covariance[0, 0], covariance[0, 1], covariance[-1, -1], covariance[0, -1]]
        assert told == pytest.approx(
            [facts.diagonal_variance, facts.shared_variance, facts.count_variance, facts.trace_with_count / d], abs=1e-9
        )


def test_an_error_of_the_number_of_rows_is_part_of_the_intervals():
    release = drawn(
        "gaussian", ROWS, bound=RowBound(9.0), names=None, seed=1, adjacency="add_or_remove_one", epsilon=0.1
    )
    generator = np.random.default_rng(0)
    errors = np.stack([release.matrix.row_error_draw(generator) for _ in range(600)])
    expected = release.intervals.row_matrix_error(0.95).entry_variances()
    assert np.square(errors).mean(axis=0) == pytest.approx(expected, rel=0.35)  # six deviations
    assert release.intervals.row_matrix_error(0.95).count > 0


def test_intervals_are_in_the_units_of_the_features():
    """The same integers in other units have the same intervals in those."""
    release, _ = released("gaussian")
    rows = release.origin.row_rule
    plain = with_origin(release, row_rule=type(rows)(**(rows.to_dict() | {"scale": None})))
    for of in ("data", "population"):
        ratio = np.outer(SCALE, SCALE)[..., None]
        assert release.intervals.covariance(of=of) * ratio == pytest.approx(plain.intervals.covariance(of=of))
        assert release.intervals.mean(of=of) * SCALE[:, None] == pytest.approx(plain.intervals.mean(of=of))
        assert release.intervals.correlation(of=of) == pytest.approx(plain.intervals.correlation(of=of))
    assert np.all(np.diff(release.intervals.covariance(of="population")) > np.diff(release.intervals.covariance()))


def test_what_cannot_be_told_is_said():
    sampled = drawn("eigenvector_sampling", ROWS, bound=RowBound(9.0), names=None)
    for release in (drawn("none", ROWS, bound=RowBound(9.0), names=None), sampled):
        assert release.intervals.unavailable.endswith(".")
        assert release.intervals.covariance() is release.intervals.correlation() is release.intervals.mean() is None
        assert release.spectrum.loading_errors() is None
    released_, _ = released("gaussian")
    assert released_.intervals.unavailable is None
    assert "clipped" in released_.intervals.about
    with pytest.raises(InvalidParameterError, match="level"):
        released_.intervals.covariance(level=1.0)
    with pytest.raises(InvalidParameterError, match="of"):
        released_.intervals.covariance(of="sample")
    without = with_origin(released_, without_range=(1,))
    assert np.isinf(without.intervals.covariance()[1, [0, 2, 3]]).all()
    assert without.intervals.covariance()[1, 1].tolist() == [0, np.inf]
    assert np.isfinite(without.intervals.covariance()[0, [0, 2, 3]]).all()
    assert without.intervals.correlation()[1, 0].tolist() == [-1, 1]
    found = without.regress(3, alpha=0)
    assert np.isinf(found.coef_interval[1]).all()
    assert np.isfinite(found.coef_interval).all(axis=1).tolist() == [True, False, True]
    assert found.dropped == (1,)
    assert found.reduced.features == (0, 2)
    assert np.isinf(without.regress(1, [0, 2]).coef_interval).all()


def test_a_variance_that_drowns_leaves_its_correlations_open():
    matrix = np.array([[4.0, 1.0, 0.1], [1.0, 1.0, 0.1], [0.1, 0.1, 0.02]])
    error = plain_error(3, 0.01, level=0.95)
    ends = correlation_intervals(matrix, error, plain_error(3, 0.01, level=1 - 0.05 / 3))
    assert ends[0, 2].tolist() == ends[2, 1].tolist() == [-1, 1]
    assert -1 < ends[0, 1, 0] < ends[0, 1, 1] < 1


def test_angles_follow_from_the_bulk_as_from_all_eigenvalues():
    generator, d, sd = np.random.default_rng(1), 150, 0.02
    noise = generator.standard_normal((d, d)) * sd / np.sqrt(2)
    matrix = np.diag([3.0, 2, 1.5, 1, 0.8] + [0.1] * (d - 5)) + noise + noise.T
    values, vectors = np.linalg.eigh(matrix)
    values, rows = values[::-1], vectors.T[::-1]
    error = plain_error(d, sd**2, level=0.95)
    whole = loading_errors(values, rows, 3, error, level=0.95)
    few = loading_errors(values[:8], rows[:8], 3, error, level=0.95, rest=Rest.of(matrix, values[:8]))
    assert few.angle == pytest.approx(whole.angle, rel=0.01)
    assert few.angle_bound == pytest.approx(whole.angle_bound, rel=0.01)
    assert few.standard_errors == pytest.approx(whole.standard_errors, abs=0.001)
    true = np.degrees(np.arccos(np.abs(np.diag(rows)[:3])))
    assert whole.angle == pytest.approx(true, rel=0.15)
    assert not whole.undetermined.any()
    lost = loading_errors(values, rows, d, plain_error(d, 0.5, level=0.95), level=0.95)
    assert lost.undetermined[1:].all()
    assert np.all(lost.angle_bound[1:] == 90)


def test_rows_compared_on_a_ring_have_the_sampling_variance_of_such_comparisons():
    generator, n, reps, r = np.random.default_rng(4), 60, 3000, 0.6
    rows = generator.standard_normal((reps, n, 2))
    rows[..., 1] = r * rows[..., 0] + np.sqrt(1 - r**2) * rows[..., 1]
    signs = [np.sign(rows - np.roll(rows, step, axis=1)).prod(axis=2) for step in range(1, 5)]
    tau = np.mean(signs, axis=(0, 2))
    expected = sampling_variances(np.array(2 / np.pi * np.arcsin(r)), 8, n)
    assert tau.var() == pytest.approx(float(expected), rel=0.15)  # five deviations and what n = 60 takes
    assert float(sampling_variances(np.array(0.3), 1, 50)) == pytest.approx((1 - 0.09) / 50)
    assert np.all(sampling_variances(np.linspace(-1, 1, 9), 8, 1) <= 2 * (1 - np.linspace(-1, 1, 9) ** 2) + 1e-12)


def test_signs_and_pairs_say_what_their_intervals_are_about():
    signs = RowBound(2.0, statistic="kendall", comparisons=8)
    rng = np.random.default_rng(0)
    comparisons = np.sign(rng.standard_normal((4000, 1)) + rng.standard_normal((4000, 4)))
    release = drawn("matrix_laplace", comparisons, bound=signs, names=None, seed=1)
    data, population = release.intervals.correlation(), release.intervals.correlation(of="population")
    assert np.array_equal(release.intervals.covariance(), data)
    assert "Kendall" in release.intervals.about
    assert np.all(np.diff(population)[~np.eye(4, dtype=bool)] > np.diff(data)[~np.eye(4, dtype=bool)])
    assert release.intervals.mean() is None
    pairs = drawn(
        "gaussian", comparisons, bound=RowBound(1.0, statistic="spatial_sign", comparisons=8), names=None, seed=1
    )
    assert "spatial-sign" in pairs.intervals.about
    directions = drawn("gaussian", comparisons, bound=RowBound(1.0, statistic="normalized"), names=None, seed=1)
    assert "directions of the rows" in directions.intervals.about
    assert pairs.intervals.covariance().shape == (4, 4, 2)
    names = [one.intervals.name for one in (release, pairs, directions)]
    assert names == [f"95 % interval of {of}" for of in ("Kendall's tau", "directions", "directions")]
    assert release.intervals.legend == f"{LEGEND} They are for {release.intervals.about}."


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize(
    ("options", "clips"),
    [
        ({"bounds": (-20, 20)}, False),
        ({"bounds": (-20, 20), "norm_bound": 1.0}, True),
        (
            {"bounds": (-20, 20), "delta": 1e-6, "mechanism": "gaussian"},
            True,
        ),  # the mean is measured first, and a lower bound is found
        ({"norm_bound": 30.0}, True),
        ({"statistic": "clipped"}, True),  # the bound is found privately
        ({}, True),  # and the ranges
    ],
)
def test_intervals_are_of_the_clipped_rows_unless_public_ranges_bound_them(options, clips):
    release = PrivateCovariance(epsilon=2.0, random_state=0, **options).fit(ROWS).release_
    assert release.origin.may_clip == clips
    assert release.intervals.name == ("95 % interval of the clipped rows" if clips else "95 % interval")
    assert ("clipped" in release.intervals.about) == clips
    assert (release.intervals.legend == LEGEND) == (not clips)


def test_intervals_of_preconditioned_rows_are_of_the_clipped_rows():
    release, _ = released("gaussian")
    rule = replace(release.origin.row_rule, shift=(0.0,) * 4)
    declared = with_origin(release, row_rule=rule)
    assert not declared.origin.may_clip
    assert with_origin(release, row_rule=replace(rule, mapped_from=rule.norm)).origin.may_clip


def test_an_interval_of_one_entry_is_what_it_says():
    error = plain_error(2, 0.01, level=0.95)
    ends = covariance_intervals(np.array([[2.0, 0.5], [0.5, 1.0]]), error, sampled=1 / 100)
    reach = np.diff(ends)[..., 0] / 2
    assert reach[0, 1] == pytest.approx(1.95996 * np.sqrt(0.01 + (2 * 1 + 0.25) / 100), rel=1e-4)
    assert reach[0, 0] == pytest.approx(1.95996 * np.sqrt(0.02 + 2 * 4 / 100), rel=1e-4)
