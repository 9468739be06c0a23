"""Where rows are added or removed their number is private: nothing is refused, warned of or kept because of it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse

from eigenveil import (
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateScaler,
    PrivateSparsePCA,
    RowBound,
    SecondMoments,
    release,
    score_map,
)
from eigenveil.errors import CapacityError, NoiseWarning
from eigenveil.federation.contributions import combine
from eigenveil.guarantee import Adjacency
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.choices import CountMechanism
from eigenveil.mechanisms.federated import FederatedMechanism
from eigenveil.sampling.certified import ExactMatrix
from helpers import refused
from made_rounds import D, contributions, drafted, joined, needs_cryptography, site_rows

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
ADD_OR_REMOVE = Adjacency.ADD_OR_REMOVE_ONE.value
ROWS = np.eye(3)[[0, 1]]
BITS, MOST = 24, 2**14 - 1
"""More rows than these may have a sum beyond int64's half at so many bits."""


def mechanism_of(name, d, k=None, adjacency=ADD_OR_REMOVE):
    delta = 1e-5 if MECHANISMS[name].needs_delta else 0.0
    options = {"epsilon": 1.0, "delta": delta, "n_features": d, "n_components": k, "adjacency": adjacency}
    return MECHANISMS[name](**options, accept_inexact=True)


@pytest.mark.parametrize("n", [0, MOST + 1, *(pytest.param(n, marks=pytest.mark.heavy) for n in (1, MOST, 5 * MOST))])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_releases_any_number_of_rows(name, n):
    rows = np.zeros((n, 3))
    rows[:, 1] = 1.0
    moments = SecondMoments(RowBound(1.0, bits=BITS), 3).update(rows)
    for k in (1, 2, None):
        drawn = release(mechanism_of(name, 3, k), moments)
        assert all(value.dtype == np.int64 for value in drawn.integers.values())
        if n > MOST:
            with refused(CapacityError, n):
                release(mechanism_of(name, 3, k, "replace_one"), moments)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "matrix_laplace", "wishart", "frobenius"])
def test_noise_is_the_same_below_and_beyond_int64(name):
    """A sum of Python's integers is released as int64 would be, had it room: what is added is the same noise."""
    mechanism, grid = mechanism_of(name, 4), 4**8
    rows = np.random.default_rng(0).integers(-100, 100, (50, 4))
    gram = rows.T @ rows
    whole, objects = (mechanism.draw(one, grid, 50, np.random.default_rng(5)) for one in (gram, gram.astype(object)))
    assert all(np.array_equal(whole[key], objects[key]) for key in whole)
    far = 2**90  # a multiple of the grid of what leaves
    moved = mechanism.draw(gram.astype(object) - far * np.eye(4, dtype=object), grid, 50, np.random.default_rng(5))
    beside = ~np.eye(4, dtype=bool)
    assert np.array_equal(moved["matrix"][beside], whole["matrix"][beside])
    assert (moved["matrix"].diagonal() == -(2**62)).all()  # cut off, after the noise was added


@pytest.mark.parametrize("name", ["ppca", "eigenvector_sampling"])
def test_directions_are_the_same_below_and_beyond_int64(name):
    mechanism, grid = mechanism_of(name, 4, 1 if name == "ppca" else 2), 4**8
    rows = np.random.default_rng(0).integers(-100, 100, (50, 4))
    gram = rows.T @ rows
    drawn = [mechanism.draw(one, grid, 50, np.random.default_rng(5)) for one in (gram, gram.astype(object))]
    assert all(np.array_equal(drawn[0][key], drawn[1][key]) for key in drawn[0])


def test_matrices_beyond_int64_are_reflected_and_multiplied_exactly():
    rng = np.random.default_rng(1)
    parts = [rng.integers(-(2**60), 2**60, (5, 5)).astype(object) for _ in range(2)]
    whole = parts[0] * 2**30 + parts[1]
    whole = whole + whole.T
    vector = rng.integers(-(2**30), 2**30, 5)
    assert ExactMatrix(whole).times_vector(vector) == [int(x) << 20 for x in whole.dot(vector.astype(object))]
    v = vector.astype(object)
    square = int(v @ v)
    turned = np.eye(5, dtype=object) * square - 2 * np.multiply.outer(v, v)
    exact = turned.dot(whole).dot(turned)  # times the square of `square`
    found = ExactMatrix(whole).reflected(vector)
    off = [abs(x * square**2 - (y << 20)) for x, y in zip(found.objects.ravel(), exact.ravel(), strict=True)]
    assert max(off) <= 1.01 * square**2
    assert found.floats == pytest.approx((exact / square**2).astype(float), rel=1e-15)


def test_a_sum_that_was_cut_off_is_told_from_what_was_released():
    rows = np.ones((2 * MOST, 1))
    moments = SecondMoments(RowBound(1.0, bits=BITS), 1).update(rows)
    with pytest.warns(NoiseWarning, match="cut off; use fewer bits"):
        release(mechanism_of("gaussian", 1), moments)


ESTIMATORS = {
    "pca": PrivatePCA(1, norm_bound=1.0),
    "pca, all components": PrivatePCA(norm_bound=1.0),
    "pca, above noise": PrivatePCA("above_noise", norm_bound=1.0),
    "pca, private bound": PrivatePCA(1),
    "pca, about the origin": PrivatePCA(1, center=False),
    "pca, delta": PrivatePCA(2, delta=1e-5),
    "pca, ranges": PrivatePCA(1, bounds=(0, 1), delta=1e-5),
    "pca, directions": PrivatePCA(1, norm_bound=1.0, center=False, mechanism="ppca"),
    "pca, correlations": PrivatePCA(1, norm_bound=1.0, standardize=True),
    "covariance": PrivateCovariance(norm_bound=1.0),
    "covariance, private bound": PrivateCovariance(delta=1e-5),
    "sparse": PrivateSparsePCA(1, norm_bound=1.0),
    "ridge": PrivateRidge(norm_bound=1.0, target=0),
    "ridge, ranges": PrivateRidge(bounds=(0, 1), target=0, delta=1e-5),
    "scaler": PrivateScaler(bounds=(0, 1)),
}


@pytest.mark.filterwarnings("ignore:Fantope selection stopped")  # noise alone takes long now and then
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_take_any_number_of_rows(name, n):
    model = type(ESTIMATORS[name])(**ESTIMATORS[name].get_params() | {"adjacency": ADD_OR_REMOVE})
    assert len(model.plan(3).routes) == 1  # whatever is done, it is not chosen by the number of rows
    model.fit(ROWS[:n])
    assert model.release_.origin.n_rows is None


def in_containers(rows, folder):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    pyarrow.feather.write_feather(pa.Table.from_pandas(frame), folder / "rows.feather")
    np.save(folder / "rows.npy", rows)
    named = [folder / f"rows.{suffix}" for suffix in ("csv", "parquet", "feather")]
    named += [frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)]
    return named, [folder / "rows.npy", rows, scipy.sparse.csr_array(rows), iter([rows])]


@pytest.mark.parametrize("n", [0, 1])
def test_tables_may_have_no_rows_in_every_container(tmp_path, n):
    named, others = in_containers(ROWS[:n], tmp_path)
    for unit, table in [*((unit, table) for unit in (None, "a") for table in named), *((None, one) for one in others)]:
        model = PrivatePCA(1, norm_bound=1.0, adjacency=ADD_OR_REMOVE, privacy_unit=unit)
        assert model.fit(table).n_samples_ >= 1
    model = PrivatePCA(1, norm_bound=1.0, adjacency=ADD_OR_REMOVE)
    assert model.fit(ROWS[:n], privacy_unit=list(range(n))).n_samples_ >= 1
    model = PrivatePCA(1, norm_bound=1.0, adjacency=ADD_OR_REMOVE)
    assert model.partial_fit(ROWS[:n]).fit_moments().n_samples_ >= 1


def test_a_site_of_a_round_refuses_no_number_of_rows(tmp_path, monkeypatch):
    needs_cryptography()
    agreed, keys = joined(drafted(adjacency=ADD_OR_REMOVE), tmp_path)
    monkeypatch.setattr(FederatedMechanism, "site_capacity", lambda *_: 20)
    files = contributions(agreed, keys, tmp_path, [np.zeros((0, D)), *site_rows()[1:]])
    monkeypatch.undo()
    assert combine(agreed, files.values()).integers["matrix"].shape == (D + 1, D + 1)


@pytest.mark.parametrize("mechanism", ["gaussian", "matrix_laplace"])
def test_sums_of_a_site_beyond_int64_are_taken_modulo_its_range(tmp_path, mechanism):
    needs_cryptography()
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    agreed, _ = joined(drafted(adjacency=ADD_OR_REMOVE, mechanism=mechanism, delta=delta), tmp_path)
    gram, grid = np.full((D + 1, D + 1), 7), agreed.terms.row_rule.limit_squared
    drawn = [
        agreed.mechanism.site_draw(one, grid, 3, 0, np.random.default_rng(2))
        for one in (gram, gram.astype(object) - 3 * 2**64)
    ]
    assert np.array_equal(drawn[0]["matrix"], drawn[1]["matrix"])


def test_a_score_map_refuses_no_number_of_rows():
    made = PrivatePCA(2, epsilon=50.0, norm_bound=1.0, center=False).fit(np.eye(3)[[0, 0, 1, 2] * 50]).release_
    frame = ((-1, 1), (-1, 1))
    assert score_map(ROWS[:0], made, epsilon=1.0, adjacency=ADD_OR_REMOVE, frame=frame).n_units is None
    counts = np.array([2**40, 2**33, 5])
    for adjacency in Adjacency:
        mechanism = CountMechanism(1.0, 0.5, adjacency, "gaussian")
        mechanism.check(3, 0)
        drawn = mechanism.draw(counts, np.random.default_rng(0)) * mechanism.unit
        assert drawn == pytest.approx([2**32, 2**32, 5], abs=50)  # no cell passes what it can hold
