"""The number of rows that a table in memory has: the plan uses it where it is public, and changes no bit by it."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from eigenveil import PrivatePCA, RowBound, SecondMoments
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.tables.open import open_table
from helpers import refused

RNG = np.random.default_rng(11)
FEW, MANY = RNG.normal(size=(300, 3)) + 5.0, RNG.normal(size=(7001, 3)) @ np.diag([1.0, 30.0, 0.2])
GAUSSIAN = {"norm_bound": 99.0, "mechanism": "gaussian", "delta": 1e-6}
WIDE = {"bounds": ([-1000.0] * 3, [1000.0] * 3)}


class Table:
    """A source around another one, which may hide how many rows it has, and counts how often it is read."""

    def __init__(self, data, known=True, **options):
        self.inner, self.known, self.readings = open_table(data, **options), known, 0

    def __getattr__(self, name):
        if name in ("n_rows", "n_privacy_units") and not self.known:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def batches(self):
        self.readings += 1
        return self.inner.batches()


MODELS = {
    "few compared": (lambda: PrivatePCA(2, random_state=3), FEW, 1, 2),
    "few correlations": (lambda: PrivatePCA(2, standardize=True, random_state=3), FEW, 1, 2),
    "ranges": (lambda: PrivatePCA(2, random_state=3), MANY, 4, 4),
    "gaussian ranges": (lambda: PrivatePCA(2, delta=1e-6, random_state=3), MANY, 4, 4),
    "gaussian, few": (lambda: PrivatePCA(2, delta=1e-4, random_state=3), FEW, 1, 2),
    "unit rows": (lambda: PrivatePCA(1, center=False, statistic="clipped", random_state=3), FEW[:100], 1, 2),
    "norm": (lambda: PrivatePCA(1, center=False, statistic="clipped", random_state=3), MANY, 2, 2),
    "medians, too few": (lambda: PrivatePCA(2, **WIDE, random_state=3), FEW, 1, 2),
    "medians": (lambda: PrivatePCA(2, **WIDE, random_state=3), MANY, 3, 3),
    "mean first": (lambda: PrivatePCA(2, **GAUSSIAN, random_state=3), MANY, 4, 4),
    "too few for a mean": (lambda: PrivatePCA(2, **GAUSSIAN, random_state=3), FEW[:100], 1, 2),
}


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_the_bits_are_those_of_a_table_that_does_not_know_its_rows(case):
    make, rows, readings, unknown_readings = MODELS[case]
    known, unknown = Table(rows), Table(rows, known=False)
    model, without = make().fit(known), make().fit(unknown)
    for name, integers in without.release_.integers.items():
        assert np.array_equal(model.release_.integers[name], integers)
    assert model.release_.unit == without.release_.unit
    assert model.guarantee_ == without.guarantee_
    ours, its = (one.release_.origin.to_dict() | {"created": None} for one in (model, without))
    assert ours == its
    assert (known.readings, unknown.readings) == (readings, unknown_readings)


@pytest.mark.parametrize("case", ["medians, too few", "medians", "few compared", "few correlations", "norm"])
@pytest.mark.filterwarnings("ignore")
def test_so_are_those_of_a_table_that_does_not_know_its_privacy_units(case):
    make, rows, readings, unknown_readings = MODELS[case]
    ids = RNG.permutation(np.arange(2 * len(rows)) // 2)
    twice = np.vstack([rows, rows[::-1]])
    known, unknown = (Table(twice, one, privacy_unit=ids) for one in (True, False))
    model, without = make().fit(known), make().fit(unknown)
    assert model.n_samples_ == len(rows)
    for name, integers in without.release_.integers.items():
        assert np.array_equal(model.release_.integers[name], integers)
    assert model.guarantee_ == without.guarantee_
    ours, its = (one.release_.origin.to_dict() | {"created": None} for one in (model, without))
    assert ours == its
    assert (known.readings, unknown.readings) == (readings, unknown_readings)


@pytest.mark.filterwarnings("ignore")
def test_a_private_number_of_privacy_units_is_not_asked_for():
    class Closed(Table):
        @property
        def n_privacy_units(self):
            raise AskedError

    for adjacency in ("add_or_remove_one", "replace_one"):
        model = PrivatePCA(2, bounds=(-100.0, 100.0), adjacency=adjacency)
        table = Closed(MANY, privacy_unit=np.arange(len(MANY)) // 2)
        if adjacency == "add_or_remove_one":
            model.fit(table)
        else:  # a control
            with pytest.raises(InvalidDataError):
                model.fit(table)


def test_a_plan_of_a_table_in_memory_has_the_one_route_that_runs(tmp_path):
    for data in (MANY, pd.DataFrame(MANY), sp.csr_array(MANY)):
        plan = PrivatePCA(2).plan(open_table(data))
        assert plan.n_rows == len(MANY)
        assert [rows for rows, _ in plan.routes] == [0]
        assert str(plan).splitlines()[1].startswith("7,001 rows")
    np.savetxt(tmp_path / "rows.csv", MANY, delimiter=",", header="a,b,c", comments="")
    of_file = PrivatePCA(2).plan(open_table(tmp_path / "rows.csv"))
    assert of_file.n_rows is None
    assert len(of_file.routes) > 2
    assert plan.route(7001).to_dict() == of_file.route(7001).to_dict()
    assert PrivatePCA(2).plan(open_table(MANY), n_rows=300).n_rows == 300  # what is declared counts


def test_too_few_rows_to_transform_are_refused_with_the_number_that_it_takes():
    for known in (True, False):
        with pytest.raises(InvalidParameterError, match="or at least 1,500 rows"):
            PrivatePCA(2, standardize=True).fit_transform(Table(FEW, known) if not known else FEW)


class AskedError(Exception):
    """Somebody asked for the number of rows."""


class Secretive(Table):
    """A table whose number of rows nobody may ask for before they are read."""

    @property
    def n_rows(self):
        raise AskedError


PRIVATE_N = [
    {"norm_bound": 50.0},
    {"bounds": (-100.0, 100.0), "delta": 1e-6},
    {"statistic": "clipped"},
    {"statistic": "clipped", "center": False},
]


@pytest.mark.parametrize("options", PRIVATE_N)
@pytest.mark.filterwarnings("ignore")
def test_a_private_number_of_rows_is_not_asked_for(options):
    model = PrivatePCA(2, adjacency="add_or_remove_one", **options)
    model.fit(Secretive(MANY))
    model.plan(Secretive(MANY))
    with pytest.raises(AskedError):  # a control
        PrivatePCA(2, norm_bound=50.0).fit(Secretive(MANY))
    ids = np.arange(len(MANY)) // 3
    PrivatePCA(2, epsilon=3.0).fit(Secretive(MANY, privacy_unit=ids))


@pytest.mark.parametrize("options", PRIVATE_N)
def test_a_plan_is_the_same_for_every_private_number_of_rows(options):
    def plans(adjacency):
        model = PrivatePCA(2, **options, adjacency=adjacency)
        return [model.plan(open_table(MANY[:n])).to_dict() for n in (2, 300, 7000, 7001)]

    first, *others = plans("add_or_remove_one")
    assert first["n_rows"] is None
    assert all(one == first for one in others)
    if options != PRIVATE_N[2]:  # about the mean, too few rows are refused
        assert len({one["n_rows"] for one in plans("replace_one")}) == 4  # a control


# No stop at 2^30 rows.

MOST_AT_16 = (2**62 - 1) // (4**16 + 4**15)


@pytest.mark.parametrize(
    ("n_rows", "bits"), [(1000, 16), (MOST_AT_16, 16), (MOST_AT_16 + 1, 15), (4 * MOST_AT_16, 15), (10**12, 10)]
)
def test_the_grid_is_as_fine_as_the_public_number_of_rows_allows(n_rows, bits):
    for options in ({"norm_bound": 1.0}, {"bounds": (-1, 1)}, {"bounds": (-1, 1), "delta": 1e-9}, {}):
        plan = PrivatePCA(2, **options).plan(4, n_rows=n_rows)
        if plan.most_rows.rule.constant is not None:
            assert {route.rule.bits for _, route in plan.routes} == {bits}
    compared = PrivatePCA(2, statistic="spatial_sign").plan(4, n_rows=n_rows).most_rows.rule
    assert compared.fits(n_rows)
    assert compared.bits == 16 or not compared.__class__(1.0, compared.bits + 1).fits(4 * n_rows)
    private = PrivatePCA(2, norm_bound=1.0, adjacency="add_or_remove_one").plan(4, n_rows=n_rows)
    assert private.most_rows.rule.bits == 16


def test_what_no_grid_holds_is_refused_by_the_plan():
    assert PrivatePCA(2, norm_bound=1.0).plan(3, n_rows=5 * 10**13).most_rows.rule.bits == 8
    with refused(CapacityError) as info:
        PrivatePCA(2, norm_bound=1.0).plan(3, n_rows=6 * 10**13)
    assert "not even on a grid of 8 bits" in str(info.value)


def test_the_number_of_rows_that_a_file_or_an_engine_says_is_planned_for(tmp_path):
    """Before a row is read: these files have none, and say that they do."""
    dask_array = pytest.importorskip("dask.array", reason="Dask is an extra")

    def of_file(n_rows):
        with open(tmp_path / "rows.npy", "wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (n_rows, 3)}
            np.lib.format.write_array_header_1_0(file, header)
        return tmp_path / "rows.npy"

    def of_dask(n_rows):
        return dask_array.zeros((n_rows, 3), chunks=(n_rows // 10, 3))

    model = PrivatePCA(2, norm_bound=1.0)
    for made in (of_file, of_dask):
        for n_rows, bits in ((MOST_AT_16, 16), (10**12, 10)):
            assert model.plan(open_table(made(n_rows))).most_rows.rule.bits == bits
        for asked in (model, PrivatePCA(2), PrivatePCA(2, bounds=(-1, 1), delta=1e-6)):
            with refused(CapacityError) as info:
                asked.fit(made(6 * 10**13))
            assert "not even on a grid of 8 bits" in str(info.value)
        private = PrivatePCA(2, norm_bound=1.0, adjacency="add_or_remove_one")
        assert private.plan(open_table(made(6 * 10**13))).n_rows is None
    pd.DataFrame(MANY, columns=list("abc")).to_parquet(tmp_path / "rows.parquet")
    assert model.plan(open_table(tmp_path / "rows.parquet")).n_rows == len(MANY)
    unknown = dask_array.from_array(MANY, chunks=(3000, 3))
    assert model.plan(open_table(unknown[unknown[:, 0] > 0])).n_rows is None


def doubled(moments, times):
    for _ in range(times):
        moments = moments + moments
    return moments


def test_a_merge_of_a_trillion_rows():
    """2^30 times a thousand rows, on the grid of a plan for so many; 16 bits say how to declare them."""
    rows, n = MANY[:1000] / 200, 1000 * 2**30
    model = PrivatePCA(2, norm_bound=1.0, random_state=0)
    preparation = model.plan(3, n_rows=n).most_rows.preparation
    part = SecondMoments(preparation.bound, 3).update(rows)
    whole = doubled(part, 30)
    assert whole.gram.dtype == np.int64
    assert (whole.gram.astype(object) == part.gram.astype(object) * 2**30).all()
    model.fit_moments(whole)
    assert model.n_samples_ == n
    exact = np.cov(rows.T, bias=True)
    assert np.allclose(model.release_.covariance, exact, atol=np.trace(exact) / 100)  # what the grid leaves
    assert not np.allclose(model.release_.covariance, 1.05 * exact, atol=np.trace(exact) / 100)  # a control
    fine = doubled(SecondMoments(RowBound(1.0, constant=0.5), 3).update(rows), 30)
    with refused(CapacityError) as info:
        model.fit_moments(fine)
    assert "plan=estimator.plan(n_features, n_rows=...)" in str(info.value)
    private = PrivatePCA(2, norm_bound=1.0, adjacency="add_or_remove_one", random_state=0)
    assert private.fit_moments(fine).n_samples_ != n  # which is private, and was released with noise


@pytest.mark.filterwarnings("ignore")
def test_a_declared_number_of_rows_is_for_every_kind_of_table():
    dask_array = pytest.importorskip("dask.array", reason="Dask is an extra")
    model = PrivatePCA(2, norm_bound=99.0, random_state=1)
    plan = model.plan(3, n_rows=10**12)
    for data in (MANY, pd.DataFrame(MANY), dask_array.from_array(MANY, chunks=(3000, 3))):
        assert model.fit(data, plan=plan).release_.origin.row_rule.bits == 10
    other = PrivatePCA(2, random_state=1)
    assert other.fit(MANY, plan=other.plan(3, n_rows=10**12)).release_.origin.row_rule.bits == 10
