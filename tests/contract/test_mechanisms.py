"""What holds for every mechanism of the table."""

import json
import math

import numpy as np
import pytest

from contract.catalogue import CASES, IDS, make, some_moments
from eigenveil import Guarantee, PrivacyLedger, Relation, RowBound, SecondMoments, load_release
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism
from eigenveil.randomness import secure_generator, seeded_generator

every_case = pytest.mark.parametrize(("name", "calibration", "relation"), CASES, ids=IDS)
every_name = pytest.mark.parametrize("name", MECHANISMS)


def one_sentence(error) -> bool:
    text = str(error.value)
    return text.endswith(".") and "\n" not in text and 10 < len(text) < 250


@every_case
@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (5, 2), (5, 5), (40, 3)])
def test_shapes_symmetry_and_orthonormality(name, calibration, relation, d, k):
    release = make(name, calibration, relation, d=d, k=k).release(some_moments(d), seeded_generator(0))
    assert release.components.shape == (k, d)
    assert np.allclose(release.components @ release.components.T, np.eye(k), atol=1e-10)
    if release.covariance is not None:
        assert release.covariance.shape == (d, d)
        assert np.array_equal(release.covariance, release.covariance.T)
    assert all(np.isfinite(value).all() for value in release.arrays.values())


@every_case
def test_a_seed_repeats_the_release_and_another_does_not(name, calibration, relation):
    mechanism, moments = make(name, calibration, relation), some_moments()
    first, again, other = (mechanism.release(moments, seeded_generator(seed)) for seed in (1, 1, 2))
    for key, value in first.arrays.items():
        assert np.array_equal(value, again.arrays[key])
    if name != "none":
        assert any(not np.array_equal(value, other.arrays[key]) for key, value in first.arrays.items())


@every_case
def test_the_guarantee_is_a_function_of_parameters(name, calibration, relation):
    mechanism = make(name, calibration, relation)
    before = mechanism.guarantee()
    assert isinstance(before, Guarantee)
    assert before.relation is relation
    for moments in (some_moments(seed=1), some_moments(n=7, seed=2, norm=50.0)):
        assert mechanism.release(moments, secure_generator()).guarantee == before
    assert mechanism.guarantee() == before
    # With the true constants the guarantee is never weaker than what was asked for, "none" and Wishart apart.
    if calibration == "tight" and name not in ("none", "random_projection"):
        assert before.epsilon == mechanism.epsilon
        assert before.delta <= mechanism.delta
        assert before.claimed is None
    if calibration == "paper" and name != "ppca":
        assert before.claimed == (mechanism.epsilon, mechanism.delta)


@every_case
def test_releases_survive_a_file_and_say_how_they_were_made(name, calibration, relation, tmp_path):
    mechanism = make(name, calibration, relation)
    moments = some_moments(names=("a", "b", "c", "d", "e"))
    release = load_release(mechanism.release(moments, secure_generator()).save(tmp_path / "r.npz"))
    assert release.guarantee == mechanism.guarantee()
    assert release.feature_names == ("a", "b", "c", "d", "e")
    assert release.provenance["mechanism"] == name
    assert release.provenance["parameters"] == json.loads(json.dumps(mechanism.parameters()))
    rebuilt = MECHANISMS[name](**release.provenance["parameters"])
    assert rebuilt.guarantee() == mechanism.guarantee()


@every_case
def test_the_number_of_rows_is_not_told_for_free(name, calibration, relation):
    if relation is Relation.REPLACE or name == "none":
        return
    mechanism, moments = make(name, calibration, relation, epsilon=0.01), some_moments(n=1000)
    counts = [mechanism.release(moments, secure_generator()).provenance["n_rows"] for _ in range(4)]
    assert counts != [1000] * 4  # noisy at scale 2,000, or absent: all equal with probability below 1e-13


@every_case
def test_the_spend_is_recorded_before_the_draw(name, calibration, relation, tmp_path, monkeypatch):
    mechanism = make(name, calibration, relation)
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation)
    if not mechanism.guarantee().is_private:
        with pytest.raises(BudgetError):
            mechanism.release(some_moments(), secure_generator(), ledger=ledger)
        return

    def die(*_):
        assert len(ledger.entries()) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(type(mechanism), "_draw", die)
    with pytest.raises(KeyboardInterrupt):
        mechanism.release(some_moments(), secure_generator(), ledger=ledger)
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
    mechanism = make(name, calibration, relation)
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation)
    with pytest.raises(InvalidDataError) as error:
        mechanism.release(some_moments(d=4), secure_generator(), ledger=ledger)
    assert one_sentence(error)
    empty = SecondMoments(RowBound(1.0), 5)
    if relation is Relation.REPLACE:
        with pytest.raises(InvalidDataError) as error:
            mechanism.release(empty, secure_generator(), ledger=ledger)
        assert one_sentence(error)
    elif name != "none":
        mechanism.release(empty, secure_generator())  # that there are no rows is private here, so no error
    assert ledger.entries() == []


@pytest.mark.parametrize("name", ["matrix_laplace", "laplace", "frobenius", "ppca", "eigenvector_sampling"])
def test_pure_mechanisms_refuse_a_delta_they_would_not_use(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=1e-6)
    assert one_sentence(error)


@pytest.mark.parametrize("name", ["gaussian", "mod_sulq", "wishart"])
def test_approximate_mechanisms_ask_for_a_delta(name):
    with pytest.raises(InvalidParameterError) as error:
        make(name, delta=0.0)
    assert one_sentence(error)


@every_case
def test_noise_that_does_not_fit_the_grid_is_refused_before_spending(name, calibration, relation, tmp_path):
    mechanism = make(name, calibration, relation, epsilon=1e-9)
    if not isinstance(mechanism, AdditiveMechanism):
        return
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=10.0, delta=0.5, relation=relation)
    with pytest.raises(EigenveilError) as error:
        mechanism.release(some_moments(bits=24), secure_generator(), ledger=ledger)
    assert one_sentence(error)
    assert ledger.entries() == []


@pytest.mark.parametrize("relation", Relation)
def test_more_budget_captures_more_variance(relation):
    """The baselines are ordered as they must be: random, private, not private."""
    from eigenveil.metrics import captured_variance

    moments = some_moments(d=8, n=20_000)
    truth = moments.gram * 1.0

    def mean_capture(name, epsilon):
        mechanism = make(name, None, relation, d=8, k=2, epsilon=epsilon)
        draws = [mechanism.release(moments, seeded_generator(seed)).components for seed in range(30)]
        return np.mean([captured_variance(truth, components) for components in draws])

    floor, ceiling = mean_capture("random_projection", 1.0), mean_capture("none", 1.0)
    for name in ("gaussian", "matrix_laplace", "laplace", "frobenius", "wishart", "ppca", "eigenvector_sampling"):
        assert floor < mean_capture(name, 0.02) < mean_capture(name, 2.0) <= ceiling * (1 + 1e-12)
