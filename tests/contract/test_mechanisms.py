"""What holds for every mechanism of the table."""

import json
import math

import numpy as np
import pytest

from contract.catalogue import CASES, IDS, make, some_moments
from eigenveil import Adjacency, Guarantee, PrivacyLedger, RowBound, SecondMoments, load_release, release
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import MECHANISMS, mechanism_from
from eigenveil.sampling.randomness import secure_generator, seeded_generator

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose
every_case = pytest.mark.parametrize(("name", "calibration", "adjacency"), CASES, ids=IDS)
every_name = pytest.mark.parametrize("name", MECHANISMS)


def one_sentence(error) -> bool:
    text = str(error.value)
    return text.endswith(".") and "\n" not in text and 10 < len(text) < 250


def first(name, calibration, _):
    return calibration == MECHANISMS[name].calibrations[0]


def quick(case, constant):
    """Return whether a case belongs to the default run: other calibrations only rescale what the first one draws."""
    name = case[0]
    if MECHANISMS[name].releases == "subspace":
        return constant is None
    taken_by_default = name in ("gaussian", "matrix_laplace")
    return first(*case) and (constant is not None or taken_by_default)


with_and_without_constant = pytest.mark.parametrize(
    ("name", "calibration", "adjacency", "constant"),
    [
        pytest.param(*case, constant, id=f"{mean}-{case_id}", marks=() if quick(case, constant) else pytest.mark.heavy)
        for constant, mean in ((None, "plain"), (1.0, "constant"))
        for case, case_id in zip(CASES, IDS, strict=True)
    ],
)


def moments_for(mechanism, constant, **options):
    """Return moments as wide as the mechanism; skip where a mechanism cannot tell a mean."""
    if constant is not None and (mechanism.releases == "subspace" or mechanism.n_features == 1):
        pytest.skip("a subspace tells no mean, and one column is the constant alone")
    return some_moments(mechanism.n_features, constant=constant, **options)


@every_name
def test_facts_are_declared(name):
    mechanism = MECHANISMS[name]
    assert mechanism.name == name
    assert mechanism.releases in ("matrix", "directions", "subspace")
    assert isinstance(mechanism.numerics, Numerics)
    assert isinstance(mechanism.needs_delta, bool)
    for sentence in (mechanism.source, mechanism.use_when):
        assert sentence
        assert len(sentence) < 100
    assert mechanism.__doc__.count("Formal guarantee") == 1 or mechanism.baseline
    assert mechanism.adds_noise == hasattr(mechanism, "off_diagonal_sd")


@every_case
def test_no_release_is_of_worse_numerics_than_declared(name, calibration, adjacency):
    for k in (1, 2, 5):
        promise = make(name, calibration, adjacency, k=k).guarantee()
        assert promise.numerics.gap <= MECHANISMS[name].numerics.gap


SHAPES = [(d, k, constant) for d, k in ((1, 1), (2, 1), (5, 2), (5, 5), (40, 3)) for constant in (None, 1.0)]
QUICK_SHAPES = [(1, 1, None), (5, 2, 1.0)]


@pytest.mark.parametrize(
    ("name", "calibration", "adjacency", "d", "k", "constant"),
    [
        # Of other calibrations than the first, the smallest shape alone.
        pytest.param(*case, *shape, marks=() if shape in QUICK_SHAPES[: 1 + first(*case)] else pytest.mark.heavy)
        for case in CASES
        for shape in SHAPES
    ],
)
def test_shapes_symmetry_and_orthonormality(name, calibration, adjacency, d, k, constant):
    mechanism = make(name, calibration, adjacency, d=d, k=k)
    moments = moments_for(mechanism, constant)
    drawn = release(mechanism, moments, generator=seeded_generator(0))
    features = moments.n_features
    k = min(k, features)
    assert drawn.components.shape == (k, features)
    assert np.allclose(drawn.components @ drawn.components.T, np.eye(k), atol=1e-10)
    assert drawn.mean.shape == drawn.scale.shape == (features,)
    if mechanism.releases != "subspace":
        for matrix in (drawn.covariance, drawn.correlation, drawn.matrix.scaled_matrix):
            assert matrix.shape == (features, features)
            assert np.array_equal(matrix, matrix.T)
            assert np.isfinite(matrix).all()
        assert np.linalg.eigvalsh(drawn.covariance).min() > -1e-9 * np.abs(drawn.covariance).max()
        assert drawn.explained_variance.shape == drawn.explained_variance_ratio.shape == (k,)
    else:
        assert drawn.covariance is None
        assert drawn.explained_variance is None
    assert all(value.dtype == np.int64 for value in drawn.integers.values())
    assert set(drawn.integers) == set(drawn.unit)


@with_and_without_constant
def test_with_a_large_budget_the_truth_comes_out(name, calibration, adjacency, constant):
    """In the user's units, about the mean where a constant was appended: units are converted once, and rightly."""
    if name in ("random_projection", "mod_sulq") or MECHANISMS[name].releases == "subspace" or calibration == "paper":
        return
    # A direction misses by 1/sqrt(n epsilon), and the mean takes all of that where the constant is small.
    epsilon = 2500.0 if MECHANISMS[name].releases == "directions" else 25.0
    mechanism = make(
        name,
        calibration,
        adjacency,
        d=4,
        k=4,
        epsilon=epsilon,
        **({"delta": 0.01} if MECHANISMS[name].needs_delta else {}),
    )
    moments = moments_for(mechanism, constant, n=200_000, norm=8.0)
    drawn = release(mechanism, moments, generator=seeded_generator(0))
    features = moments.n_features
    spread = np.diag(1 / np.arange(1.0, features + 1) ** 2)
    mean = np.zeros(features)
    if constant is not None:
        mean[0] = 8.0 / 5
    truth = spread if constant is not None else spread + np.outer(mean, mean)
    # The largest is sampled within 0.01 of its place; noise and sampling of the rows leave less than 2 %.
    assert np.abs(drawn.covariance - truth).max() < 0.02
    assert np.abs(drawn.mean - mean).max() < 0.02
    assert np.abs(drawn.explained_variance - np.diag(spread)).max() < 0.02


@with_and_without_constant
def test_a_seed_repeats_the_release_and_another_does_not(name, calibration, adjacency, constant):
    mechanism = make(name, calibration, adjacency)
    moments = moments_for(mechanism, constant)
    first, again, other = (release(mechanism, moments, generator=seeded_generator(seed)) for seed in (1, 1, 2))
    for key, value in first.integers.items():
        assert np.array_equal(value, again.integers[key])
    if name != "none":
        assert any(not np.array_equal(value, other.integers[key]) for key, value in first.integers.items())


@every_case
def test_the_guarantee_is_a_function_of_parameters(name, calibration, adjacency):
    mechanism = make(name, calibration, adjacency)
    before = mechanism.guarantee()
    assert isinstance(before, Guarantee)
    assert before.adjacency is adjacency
    for moments in (some_moments(seed=1), some_moments(n=7, seed=2, norm=50.0)):
        assert release(mechanism, moments, generator=secure_generator()).guarantee == before
    assert mechanism.guarantee() == before
    # With the true constants the guarantee is never weaker than what was asked for, "none" and Wishart apart.
    if calibration == "tight" and not mechanism.baseline:
        assert before.epsilon == mechanism.epsilon
        assert before.delta <= mechanism.delta
        assert before.claimed is None
    if calibration == "paper" and name != "ppca":
        assert before.claimed == (mechanism.epsilon, mechanism.delta)
    assert mechanism.epsilon_at(before.delta) <= before.epsilon


@with_and_without_constant
def test_releases_survive_a_file_and_say_how_they_were_made(name, calibration, adjacency, constant, tmp_path):
    mechanism = make(name, calibration, adjacency)
    names = ("a", "b", "c", "d", "e")[: 5 - (constant is not None)]
    moments = moments_for(mechanism, constant, names=names)
    drawn = release(mechanism, moments, generator=secure_generator())
    loaded = load_release(drawn.save(tmp_path / "r.npz"))
    assert loaded.guarantee == mechanism.guarantee()
    assert loaded.feature_names == names
    assert loaded.origin == drawn.origin
    assert loaded.origin.mechanism == name
    assert loaded.origin.row_rule == moments.bound.rule
    assert dict(loaded.origin.parameters) == json.loads(json.dumps(mechanism.parameters()))
    assert mechanism_from(name, loaded.origin.parameters).guarantee() == mechanism.guarantee()
    for key, value in drawn.integers.items():
        assert np.array_equal(loaded.integers[key], value)
        assert loaded.unit[key] == drawn.unit[key]
    assert np.array_equal(loaded.components, drawn.components)
    assert np.array_equal(loaded.mean, drawn.mean)
    if loaded.covariance is not None:
        assert np.array_equal(loaded.covariance, drawn.covariance)
        assert np.array_equal(loaded.explained_variance, drawn.explained_variance)
    rows = np.random.default_rng(0).normal(size=(3, len(names)))
    assert np.array_equal(loaded.transform(rows), drawn.transform(rows))


@every_case
def test_the_number_of_rows_is_not_told_for_free(name, calibration, adjacency):
    if adjacency is Adjacency.REPLACE_ONE or name == "none":
        return
    mechanism, moments = make(name, calibration, adjacency, epsilon=0.01), some_moments(n=1000)
    drawn = [release(mechanism, moments, generator=secure_generator()) for _ in range(4)]
    assert [one.n_rows for one in drawn] != [1000] * 4  # noisy at scale 2,000, or absent: equal with chance 1e-13
    assert all(one.origin.n_rows is None for one in drawn)


@every_case
def test_the_spend_is_recorded_before_the_draw(name, calibration, adjacency, tmp_path, monkeypatch):
    mechanism = make(name, calibration, adjacency)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, adjacency=adjacency, data_set="study")
    if not mechanism.guarantee().is_private:
        with pytest.raises(BudgetError):
            release(mechanism, some_moments(), ledger=ledger)
        return

    def die(*_):
        assert len(ledger.entries()) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(type(mechanism), "draw", die)
    with pytest.raises(KeyboardInterrupt):
        release(mechanism, some_moments(), ledger=ledger)
    assert ledger.entries()[0].guarantee == mechanism.guarantee()


@every_name
@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"delta": -0.1},
        {"delta": 1.0},
        {"delta": math.nan},
        {"k": 0},
        {"k": 6},
        {"k": 1.5},
        {"d": 0},
        {"adjacency": "sideways"},
        {"calibration": "guess"},
    ],
    ids=lambda bad: f"{next(iter(bad))}={next(iter(bad.values()))}",
)
def test_bad_parameters_are_one_sentence(name, bad):
    with pytest.raises(InvalidParameterError) as error:
        make(name, **bad)
    assert one_sentence(error)


@every_case
def test_no_rows_and_wrong_width_are_refused_before_spending(name, calibration, adjacency, tmp_path):
    mechanism = make(name, calibration, adjacency)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, adjacency=adjacency, data_set="study")
    with pytest.raises(InvalidDataError) as error:
        release(mechanism, some_moments(d=4), ledger=ledger)
    assert one_sentence(error)
    empty = SecondMoments(RowBound(1.0), 5)
    if adjacency is Adjacency.REPLACE_ONE:
        with pytest.raises(InvalidDataError) as error:
            release(mechanism, empty, ledger=ledger)
        assert one_sentence(error)
    elif name != "none":
        release(mechanism, empty)  # that there are no rows is private here, so no error
    assert ledger.entries() == []


@every_case
def test_what_a_mechanism_cannot_be_about_is_refused_before_spending(name, calibration, adjacency, tmp_path):
    """Pairs under add/remove, and a mean from a subspace: facts about the moments, whatever a caller says."""
    mechanism = make(name, calibration, adjacency)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, adjacency=adjacency, data_set="study")
    refused = []
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        refused.append(SecondMoments(RowBound(1.0, statistic="spatial_sign", comparisons=8), 5).update(np.eye(5)))
    if mechanism.releases == "subspace":
        refused.append(some_moments(5, constant=1.0))
    for moments in refused:
        with pytest.raises(InvalidParameterError) as error:
            release(mechanism, moments, ledger=ledger)
        assert one_sentence(error)
    assert ledger.entries() == []


@pytest.mark.parametrize("name", [name for name, mechanism in MECHANISMS.items() if not mechanism.needs_delta])
def test_pure_mechanisms_refuse_a_delta_they_would_not_use(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=1e-6)
    assert one_sentence(error)


@pytest.mark.parametrize("name", [name for name, mechanism in MECHANISMS.items() if mechanism.needs_delta])
def test_approximate_mechanisms_ask_for_a_delta(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=0.0)
    assert one_sentence(error)


@every_case
def test_noise_that_does_not_fit_the_grid_is_refused_before_spending(name, calibration, adjacency, tmp_path):
    mechanism = make(name, calibration, adjacency, epsilon=1e-9)
    if not mechanism.adds_noise:
        return
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, adjacency=adjacency, data_set="study")
    with pytest.raises(EigenveilError) as error:
        release(mechanism, some_moments(bits=24), ledger=ledger)
    assert one_sentence(error)
    assert ledger.entries() == []


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.heavy
def test_more_budget_captures_more_variance(adjacency):
    """The baselines are ordered as they must be: random, private, not private."""
    from eigenveil.metrics import captured_variance

    moments = some_moments(d=8, n=20_000)
    truth = moments.gram * 1.0

    def mean_capture(name, epsilon):
        mechanism = make(name, None, adjacency, d=8, k=2, epsilon=epsilon)
        draws = [release(mechanism, moments, generator=seeded_generator(seed)).components for seed in range(12)]
        return np.mean([captured_variance(truth, components) for components in draws])

    floor, ceiling = mean_capture("random_projection", 1.0), mean_capture("none", 1.0)
    for name in ("gaussian", "matrix_laplace", "laplace", "frobenius", "wishart", "ppca", "eigenvector_sampling"):
        assert floor < mean_capture(name, 0.02) < mean_capture(name, 2.0) <= ceiling * (1 + 1e-12)
