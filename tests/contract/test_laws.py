"""What holds for every law of the table."""

import json
import math

import numpy as np
import pytest

from contract.catalogue import CASES, IDS, make, some_moments
from eigenveil import Guarantee, PrivacyLedger, Relation, RowBound, SecondMoments, load_release, release
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.mechanisms import LAWS, law_from
from eigenveil.sampling.randomness import secure_generator, seeded_generator

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")  # small tables, on purpose
every_case = pytest.mark.parametrize(("name", "calibration", "relation"), CASES, ids=IDS)
every_name = pytest.mark.parametrize("name", LAWS)


def one_sentence(error) -> bool:
    text = str(error.value)
    return text.endswith(".") and "\n" not in text and 10 < len(text) < 250


def first(name, calibration, _):
    return calibration == LAWS[name].calibrations[0]


def quick(case, constant):
    """Return whether a case belongs to the default run: other calibrations only rescale what the first one draws."""
    name = case[0]
    if LAWS[name].releases == "subspace":
        return constant is None
    taken_by_default = name in ("gaussian", "matrix_laplace")
    return first(*case) and (constant is not None or taken_by_default)


with_and_without_constant = pytest.mark.parametrize(
    ("name", "calibration", "relation", "constant"),
    [
        pytest.param(*case, constant, id=f"{mean}-{case_id}", marks=() if quick(case, constant) else pytest.mark.heavy)
        for constant, mean in ((None, "plain"), (1.0, "constant"))
        for case, case_id in zip(CASES, IDS, strict=True)
    ],
)


def moments_for(law, constant, **options):
    """Return moments as wide as the law; skip where a law cannot tell a mean."""
    if constant is not None and (law.releases == "subspace" or law.n_features == 1):
        pytest.skip("a subspace tells no mean, and one column is the constant alone")
    return some_moments(law.n_features, constant=constant, **options)


@every_name
def test_facts_are_declared(name):
    law = LAWS[name]
    assert law.name == name
    assert law.releases in ("matrix", "directions", "subspace")
    assert isinstance(law.numerics, Numerics)
    assert isinstance(law.needs_delta, bool)
    for sentence in (law.source, law.use_when):
        assert sentence
        assert len(sentence) < 100
    assert law.__doc__.count("Formal guarantee") == 1 or law.baseline
    assert law.adds_noise == hasattr(law, "off_diagonal_sd")


@every_case
def test_no_release_is_of_worse_numerics_than_declared(name, calibration, relation):
    for k in (1, 2, 5):
        promise = make(name, calibration, relation, k=k).guarantee()
        assert promise.numerics.gap <= LAWS[name].numerics.gap


SHAPES = [(d, k, constant) for d, k in ((1, 1), (2, 1), (5, 2), (5, 5), (40, 3)) for constant in (None, 1.0)]
QUICK_SHAPES = [(1, 1, None), (5, 2, 1.0)]


@pytest.mark.parametrize(
    ("name", "calibration", "relation", "d", "k", "constant"),
    [
        # Of other calibrations than the first, the smallest shape alone.
        pytest.param(*case, *shape, marks=() if shape in QUICK_SHAPES[: 1 + first(*case)] else pytest.mark.heavy)
        for case in CASES
        for shape in SHAPES
    ],
)
def test_shapes_symmetry_and_orthonormality(name, calibration, relation, d, k, constant):
    law = make(name, calibration, relation, d=d, k=k)
    moments = moments_for(law, constant)
    drawn = release(law, moments, generator=seeded_generator(0))
    features = moments.n_features
    k = min(k, features)
    assert drawn.components.shape == (k, features)
    assert np.allclose(drawn.components @ drawn.components.T, np.eye(k), atol=1e-10)
    assert drawn.mean.shape == drawn.scale.shape == (features,)
    if law.releases != "subspace":
        for matrix in (drawn.covariance, drawn.correlation, drawn.scaled_matrix):
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
def test_with_a_large_budget_the_truth_comes_out(name, calibration, relation, constant):
    """In the user's units, about the mean where a constant was appended: units are converted once, and rightly."""
    if name in ("random_projection", "mod_sulq") or LAWS[name].releases == "subspace" or calibration == "paper":
        return
    # A direction misses by 1/sqrt(n epsilon), and the mean takes all of that where the constant is small.
    epsilon = 2500.0 if LAWS[name].releases == "directions" else 25.0
    law = make(
        name, calibration, relation, d=4, k=4, epsilon=epsilon, **({"delta": 0.01} if LAWS[name].needs_delta else {})
    )
    moments = moments_for(law, constant, n=200_000, norm=8.0)
    drawn = release(law, moments, generator=seeded_generator(0))
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
def test_a_seed_repeats_the_release_and_another_does_not(name, calibration, relation, constant):
    law = make(name, calibration, relation)
    moments = moments_for(law, constant)
    first, again, other = (release(law, moments, generator=seeded_generator(seed)) for seed in (1, 1, 2))
    for key, value in first.integers.items():
        assert np.array_equal(value, again.integers[key])
    if name != "none":
        assert any(not np.array_equal(value, other.integers[key]) for key, value in first.integers.items())


@every_case
def test_the_guarantee_is_a_function_of_parameters(name, calibration, relation):
    law = make(name, calibration, relation)
    before = law.guarantee()
    assert isinstance(before, Guarantee)
    assert before.relation is relation
    for moments in (some_moments(seed=1), some_moments(n=7, seed=2, norm=50.0)):
        assert release(law, moments, generator=secure_generator()).guarantee == before
    assert law.guarantee() == before
    # With the true constants the guarantee is never weaker than what was asked for, "none" and Wishart apart.
    if calibration == "tight" and not law.baseline:
        assert before.epsilon == law.epsilon
        assert before.delta <= law.delta
        assert before.claimed is None
    if calibration == "paper" and name != "ppca":
        assert before.claimed == (law.epsilon, law.delta)
    assert law.epsilon_at(before.delta) <= before.epsilon


@with_and_without_constant
def test_releases_survive_a_file_and_say_how_they_were_made(name, calibration, relation, constant, tmp_path):
    law = make(name, calibration, relation)
    names = ("a", "b", "c", "d", "e")[: 5 - (constant is not None)]
    moments = moments_for(law, constant, names=names)
    drawn = release(law, moments, generator=secure_generator())
    loaded = load_release(drawn.save(tmp_path / "r.npz"))
    assert loaded.guarantee == law.guarantee()
    assert loaded.feature_names == names
    assert loaded.origin == drawn.origin
    assert loaded.origin.law == name
    assert loaded.origin.rows == moments.bound.rule
    assert dict(loaded.origin.parameters) == json.loads(json.dumps(law.parameters()))
    assert law_from(name, loaded.origin.parameters).guarantee() == law.guarantee()
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
def test_the_number_of_rows_is_not_told_for_free(name, calibration, relation):
    if relation is Relation.REPLACE or name == "none":
        return
    law, moments = make(name, calibration, relation, epsilon=0.01), some_moments(n=1000)
    drawn = [release(law, moments, generator=secure_generator()) for _ in range(4)]
    assert [one.n_rows for one in drawn] != [1000] * 4  # noisy at scale 2,000, or absent: equal with chance 1e-13
    assert all(one.origin.n_rows is None for one in drawn)


@every_case
def test_the_spend_is_recorded_before_the_draw(name, calibration, relation, tmp_path, monkeypatch):
    law = make(name, calibration, relation)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation, data_set="study")
    if not law.guarantee().is_private:
        with pytest.raises(BudgetError):
            release(law, some_moments(), ledger=ledger)
        return

    def die(*_):
        assert len(ledger.entries()) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(type(law), "draw", die)
    with pytest.raises(KeyboardInterrupt):
        release(law, some_moments(), ledger=ledger)
    assert ledger.entries()[0].guarantee == law.guarantee()


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
        {"relation": "sideways"},
        {"calibration": "guess"},
    ],
    ids=lambda bad: f"{next(iter(bad))}={next(iter(bad.values()))}",
)
def test_bad_parameters_are_one_sentence(name, bad):
    with pytest.raises(InvalidParameterError) as error:
        make(name, **bad)
    assert one_sentence(error)


@every_case
def test_no_rows_and_wrong_width_are_refused_before_spending(name, calibration, relation, tmp_path):
    law = make(name, calibration, relation)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation, data_set="study")
    with pytest.raises(InvalidDataError) as error:
        release(law, some_moments(d=4), ledger=ledger)
    assert one_sentence(error)
    empty = SecondMoments(RowBound(1.0), 5)
    if relation is Relation.REPLACE:
        with pytest.raises(InvalidDataError) as error:
            release(law, empty, ledger=ledger)
        assert one_sentence(error)
    elif name != "none":
        release(law, empty)  # that there are no rows is private here, so no error
    assert ledger.entries() == []


@every_case
def test_what_a_law_cannot_be_about_is_refused_before_spending(name, calibration, relation, tmp_path):
    """Pairs under add/remove, and a mean from a subspace: facts about the moments, whatever a caller says."""
    law = make(name, calibration, relation)
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation, data_set="study")
    refused = []
    if relation is Relation.ADD_REMOVE:
        refused.append(SecondMoments(RowBound(1.0, rows="pairs", comparisons=8), 5).update(np.eye(5)))
    if law.releases == "subspace":
        refused.append(some_moments(5, constant=1.0))
    for moments in refused:
        with pytest.raises(InvalidParameterError) as error:
            release(law, moments, ledger=ledger)
        assert one_sentence(error)
    assert ledger.entries() == []


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if not law.needs_delta])
def test_pure_laws_refuse_a_delta_they_would_not_use(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=1e-6)
    assert one_sentence(error)


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.needs_delta])
def test_approximate_laws_ask_for_a_delta(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=0.0)
    assert one_sentence(error)


@every_case
def test_noise_that_does_not_fit_the_grid_is_refused_before_spending(name, calibration, relation, tmp_path):
    law = make(name, calibration, relation, epsilon=1e-9)
    if not law.adds_noise:
        return
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation, data_set="study")
    with pytest.raises(EigenveilError) as error:
        release(law, some_moments(bits=24), ledger=ledger)
    assert one_sentence(error)
    assert ledger.entries() == []


@pytest.mark.parametrize("relation", [Relation.REPLACE, pytest.param(Relation.ADD_REMOVE, marks=pytest.mark.heavy)])
def test_more_budget_captures_more_variance(relation):
    """The baselines are ordered as they must be: random, private, not private."""
    from eigenveil.metrics import captured_variance

    moments = some_moments(d=8, n=20_000)
    truth = moments.gram * 1.0

    def mean_capture(name, epsilon):
        law = make(name, None, relation, d=8, k=2, epsilon=epsilon)
        draws = [release(law, moments, generator=seeded_generator(seed)).components for seed in range(12)]
        return np.mean([captured_variance(truth, components) for components in draws])

    floor, ceiling = mean_capture("random_projection", 1.0), mean_capture("none", 1.0)
    for name in ("gaussian", "matrix_laplace", "laplace", "frobenius", "wishart", "ppca", "eigenvector_sampling"):
        assert floor < mean_capture(name, 0.02) < mean_capture(name, 2.0) <= ceiling * (1 + 1e-12)
