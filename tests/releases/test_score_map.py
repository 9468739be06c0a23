"""The private score map: cells by exact integers, a spend before the draw, a file, a picture."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, Schema, load_release, load_score_map, score_map
from eigenveil.errors import BudgetError, EigenveilError, InvalidDataError, ReleaseFileError
from eigenveil.estimators.score_map import plan_scores
from eigenveil.guarantee import Adjacency, Unit
from eigenveil.mechanisms.choices import CountMechanism, count_mechanism
from eigenveil.moments.counts import ScoreCounts
from eigenveil.moments.units import Blocks
from eigenveil.releases.file import archive_bytes, header_of, members_of
from eigenveil.releases.score_map import ScoreGrid, projected_counts
from eigenveil.tables.schema import Column
from helpers import invoked, refused

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
EXACT = 1e5  # an epsilon without noise: the chance of any is e^-50000


def rows_of(n=3000, seed=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) * [3.0, 1.5, 0.3] + [2.0, -1.0, 0.5]


@pytest.fixture(scope="module")
def release():
    return PrivatePCA(2, epsilon=50.0, bounds=(-15, 15)).fit(rows_of()).release_


def by_numpy(rows, release, cloud, axes=(0, 1)):
    """Return the histogram that NumPy makes, with what is outside at the border."""
    scores = release.transform(rows)[:, list(axes)]
    edges = [ends.copy() for ends in cloud.edges]
    for column, ends in zip(scores.T, edges, strict=True):
        np.clip(column, ends[0], ends[-1], out=column)
    return np.histogram2d(*scores.T, bins=edges)[0]


@pytest.mark.parametrize("bins", [None, 7, (4, 9)])
def test_without_noise_it_is_numpys_histogram(release, bins):
    rows = rows_of()
    cloud = score_map(rows, release, epsilon=EXACT, bins=bins)
    expected = by_numpy(rows, release, cloud)
    assert cloud.counts.shape == (1, *expected.shape)
    assert np.abs(cloud.counts[0] - expected).sum() <= 0.005 * len(rows)  # rows at an edge, by rounding
    assert cloud.integers.sum() == len(rows)
    wide = score_map(rows, release, epsilon=EXACT, frame=((-1, 1), (-1, 1)), bins=3)
    assert wide.integers.sum() == len(rows)  # what is outside counts at the border


def test_cells_do_not_depend_on_batches_order_or_layout(release):
    rows = rows_of()
    grid = plan_scores(release, epsilon=1.0, bins=50).grid
    whole = ScoreCounts(grid).update(rows).in_cells
    shuffled = np.random.default_rng(0).permutation(rows)
    parts = ScoreCounts(grid).update_from(np.array_split(shuffled, 700)).in_cells
    one_by_one = sum((ScoreCounts(grid).update(rows[i : i + 1]) for i in range(300)), ScoreCounts(grid))
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(one_by_one.in_cells, ScoreCounts(grid).update(rows[:300]).in_cells)
    np.testing.assert_array_equal(ScoreCounts(grid).update(np.asfortranarray(rows)).in_cells, whole)
    np.testing.assert_array_equal(ScoreCounts(grid).update(scipy.sparse.csr_matrix(rows)).in_cells, whole)


@pytest.mark.parametrize("d", [1, 2, 3, 784, 5000])
def test_scores_are_exact_integers_at_any_width(d):
    rng = np.random.default_rng(d)
    directions = np.linalg.qr(rng.normal(size=(d, min(d, 2))))[0].T
    directions = np.vstack([directions, directions])[:2]
    frame = np.array([[-3.0, 3.0], [-2.0, 2.0]])
    grid = ScoreGrid.of(rng.normal(size=d), np.ones(d), directions, frame, (8, 8), (0, 1))
    counts = ScoreCounts(grid)
    rows = rng.normal(size=(20, d)) * 10.0 ** rng.integers(-2, 300, size=(20, 1))
    integers = counts._integers(rows)
    whole = [[sum(int(w) * int(q) for w, q in zip(ws, qs, strict=True)) for ws in grid.weights] for qs in integers]
    product = integers @ np.array(grid.weights, dtype=float).T
    assert np.abs(product).max() < 2**53
    assert [[int(one) for one in line] for line in product] == whole
    assert counts.update(rows).in_cells.sum() == 20


def test_one_row_moves_one_count_and_a_replaced_one_two():
    rows = rows_of(400)
    release = PrivatePCA(2, epsilon=50.0, bounds=(-15, 15)).fit(rows).release_
    grid = plan_scores(release, epsilon=1.0).grid
    rng = np.random.default_rng(3)
    base = ScoreCounts(grid).update(rows).in_cells
    for i in range(60):
        other = rows.copy()
        other[i] = rng.normal(size=3) * 10.0 ** rng.integers(-3, 200)
        assert np.abs(ScoreCounts(grid).update(other).in_cells - base).sum() in (0, 2)
        assert np.abs(ScoreCounts(grid).update(np.delete(rows, i, axis=0)).in_cells - base).sum() == 1


def people(n=4000):
    rng = np.random.default_rng(9)
    sex = rng.choice(["F", "M", "?"], n, p=[0.5, 0.45, 0.05])
    age = np.clip(rng.normal(50, 15, n) + 10 * (sex == "F"), 0, 100)
    mass = np.clip(rng.normal(70, 10, n) + 12 * (sex == "M"), 0, 200)
    return pd.DataFrame({"age": age, "mass": mass, "sex": sex, "member": rng.random(n) < 0.3})


SCHEMA = Schema(
    (
        Column("age", range=(0, 100)),
        Column("mass", range=(0, 200)),
        Column("sex", "category", categories=("F", "M")),
        Column("member", "boolean"),
    )
)


def test_groups_are_the_declared_categories():
    frame = people()
    release = PrivatePCA(2, epsilon=50.0, schema=SCHEMA).fit(frame).release_
    cloud = score_map(frame, release, epsilon=EXACT, groups="sex")
    assert cloud.groups == ("sex=F", "sex=M")
    counted = frame["sex"].value_counts()
    assert [int(group.sum()) for group in cloud.integers] == [counted["F"], counted["M"]]  # the others are in none
    two = score_map(frame, release, epsilon=EXACT, groups="member")
    assert two.groups == ("not member", "member")
    assert two.integers[1].sum() == frame["member"].sum()
    together = score_map(frame, release, epsilon=EXACT, bins=cloud.grid.bins)
    assert np.all(cloud.integers.sum(axis=0) <= together.integers[0])


def test_a_person_counts_once_by_the_average_row():
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(300), 5)
    middle = rng.normal(size=(300, 2)) * [3, 1]
    rows = middle[ids] + 0.1 * rng.normal(size=(1500, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(who=ids).sample(frac=1, random_state=0)
    release = PrivatePCA(2, epsilon=50.0, bounds=(-12, 12), privacy_unit="who").fit(frame).release_
    cloud = score_map(frame, release, epsilon=EXACT, privacy_unit="who", bins=6)
    assert cloud.integers.sum() == 300 == cloud.n_units
    assert cloud.guarantee.unit is Unit.PERSON
    averages = frame.groupby("who")[["a", "b"]].mean().to_numpy()
    np.testing.assert_allclose(cloud.integers[0], by_numpy(averages, release, cloud), atol=2)
    with refused(EigenveilError):
        score_map(frame[["a", "b"]], release, epsilon=1.0)
    with refused(InvalidDataError):  # a person in two batches would count twice
        block = Blocks(np.zeros((1, 2)), np.array([0]), np.array([[1, 2]], dtype=np.uint64))
        ScoreCounts(cloud.grid, by_unit=True).update(block).update(block)
    with refused(InvalidDataError):
        ScoreCounts(cloud.grid, by_unit=True).update(np.zeros((1, 2)))
    with refused(InvalidDataError):
        ScoreCounts(cloud.grid).update(block)


def test_the_ledger_is_charged_before_anything_is_drawn(release, tmp_path, monkeypatch):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=1.5, data_set="rows")
    cloud = score_map(rows_of(), release, epsilon=1.0, ledger=ledger)
    assert cloud.ledger_entry == ledger.entries()[-1].entry
    assert ledger.spent == (1.0, 0.0)
    monkeypatch.setattr(CountMechanism, "draw", lambda *_: pytest.fail("drawn although refused"))
    with refused(BudgetError):
        score_map(rows_of(), release, epsilon=1.0, ledger=ledger)

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(CountMechanism, "draw", dies)
    with pytest.raises(KeyboardInterrupt):
        score_map(rows_of(), release, epsilon=0.25, ledger=ledger)
    assert ledger.spent == (1.25, 0.0)


def test_guarantees(release):
    rows = rows_of()
    assert score_map(rows, release, epsilon=0.7).guarantee.epsilon == 0.7
    assert score_map(rows, release, epsilon=1.0, delta=1e-6).guarantee.delta == 0  # Laplace noise is smaller
    gaussian = score_map(rows, release, epsilon=1.0, delta=1e-6, mechanism="gaussian")
    assert gaussian.guarantee.delta == 1e-6
    assert gaussian.guarantee.rho > 0
    assert gaussian.n_units == 3000
    added = score_map(rows, release, epsilon=1.0, adjacency="add_or_remove_one")
    assert added.guarantee.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert added.n_units is None
    assert added.noise_sd < score_map(rows, release, epsilon=1.0).noise_sd
    assert not score_map(rows, release, epsilon=1.0, random_state=3).guarantee.is_private


def test_what_cannot_be_drawn_is_refused_before_a_row_is_read(release):
    class Unread:
        n_features, feature_names, n_rows_hint, by_unit = 3, None, None, False

        def batches(self, **_):
            pytest.fail("a row was read")

    for wrong in (
        {"epsilon": 0.0},
        {"epsilon": 1.0, "axes": (0, 0)},
        {"epsilon": 1.0, "axes": (0, 5)},
        {"epsilon": 1.0, "bins": 0},
        {"epsilon": 1.0, "bins": (1, 2, 3)},
        {"epsilon": 1.0, "bins": 100_000},
        {"epsilon": 1.0, "frame": (1, 2)},
        {"epsilon": 1.0, "frame": ((1, 0), (0, 1))},
        {"epsilon": 1.0, "frame": ((0, np.inf), (0, 1))},
        {"epsilon": 1.0, "mechanism": "gaussian"},
        {"epsilon": 1.0, "mechanism": "normal"},
        {"epsilon": 1.0, "groups": "nothing"},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1e-300},
        {"epsilon": 1.0, "random_state": "x"},
    ):
        with refused(EigenveilError):
            score_map(Unread(), release, **wrong)
    with refused(EigenveilError):
        score_map(np.zeros((5, 4)), release, epsilon=1.0)
    with refused(EigenveilError):
        score_map(np.zeros((0, 3)), release, epsilon=1.0)
    with refused(InvalidDataError, "nan"):
        score_map(np.full((5, 3), np.nan), release, epsilon=1.0)
    signs = PrivatePCA(2, statistic="kendall").fit(rows_of()).release_
    pairs = PrivatePCA(2, statistic="spatial_sign").fit(rows_of()).release_
    subspace = PrivatePCA(2, mechanism="random_projection", norm_bound=9.0, center=False).fit(rows_of()).release_
    for other in (signs, pairs, subspace):
        with refused(EigenveilError):
            score_map(rows_of(), other, epsilon=1.0)
    assert score_map(rows_of(), pairs, epsilon=1.0, frame=((-9, 9), (-9, 9))).n_units == 3000


def test_a_covariance_release_draws_its_own_components():
    release = PrivateCovariance(epsilon=50.0, bounds=(-15, 15)).fit(rows_of()).release_.pca(2)
    cloud = score_map(rows_of(), release, epsilon=1.0)
    assert cloud.counts.sum() == pytest.approx(3000)
    assert cloud.counts.min() >= 0


def test_the_file_tells_everything_and_a_changed_bit_is_found(release, tmp_path):
    cloud = score_map(rows_of(), release, epsilon=1.0, delta=1e-6, mechanism="gaussian", bins=5)
    path = cloud.save(tmp_path / "scores.npz")
    again = load_score_map(path)
    np.testing.assert_array_equal(again.integers, cloud.integers)
    assert (again.grid, again.mechanism, again.guarantee) == (cloud.grid, cloud.mechanism, cloud.guarantee)
    assert again.n_units == cloud.n_units
    with refused(ReleaseFileError):
        load_release(path)
    with refused(ReleaseFileError):
        load_score_map(release.save(tmp_path / "release.npz"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with refused(ReleaseFileError):
        load_score_map(path)


def test_counts_are_projected_and_nearer_than_the_noisy_ones():
    rng = np.random.default_rng(0)
    truth = rng.poisson(2.0, size=(20, 20)) * (rng.random((20, 20)) < 0.3)
    noisy = truth + rng.laplace(scale=3.0, size=truth.shape)
    found = projected_counts(noisy, truth.sum())
    assert found.sum() == pytest.approx(truth.sum())
    assert found.min() == 0
    assert np.square(found - truth).sum() <= np.square(noisy - truth).sum()
    assert projected_counts(noisy, 0.0).sum() == 0


def test_more_rows_and_more_budget_give_more_cells(release):
    cells = [plan_scores(release, epsilon=epsilon).grid.bins[0] for epsilon in (0.05, 0.5, 5.0)]
    assert cells == sorted(cells)
    assert cells[0] < cells[-1]
    assert count_mechanism(1.0, 1e-6, Adjacency.REPLACE_ONE).kind == "laplace"


def test_the_command_line(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="plots are an extra")
    monkeypatch.chdir(tmp_path)
    frame = people()
    frame.to_csv("people.csv", index=False)
    PrivatePCA(2, epsilon=50.0, schema=SCHEMA).fit(frame).release_.save("people.npz")
    PrivacyLedger.create("study.ledger", epsilon=3.0, data_set="people")
    asked = ("scores", "people.npz", "people.csv", "--epsilon", 1, "--ledger", "study.ledger")
    planned = json.loads(invoked(*asked, "--groups", "sex", "--dry-run", "--json").stdout)
    assert planned["ledger"]["spent_after"] == [1.0, 0.0]
    told = json.loads(invoked(*asked, "--groups", "sex", "--json", "--plot", "cloud.png").stdout)
    assert np.array(told["counts"]).shape == (2, *told["bins"])
    assert (tmp_path / "cloud.png").stat().st_size > 1000
    assert PrivacyLedger("study.ledger").spent == (1.0, 0.0)
    assert load_score_map("scores.npz").ledger_entry == told["ledger_entry"]
    assert "standard deviation" in invoked(*asked, "--axes", "2,1", "--force").stdout
    invoked(*asked, "--axes", "1,9", "-o", "b.npz", fails=EigenveilError)
    invoked(*asked, "--plot", "cloud.docx", "-o", "b.npz", fails=EigenveilError)
    invoked(*asked, fails=EigenveilError)
    assert PrivacyLedger("study.ledger").spent == (2.0, 0.0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda header: header["grid"].update(bins=[10**9, 10**9]),
        lambda header: header["grid"].update(bins=[5, 4]),
        lambda header: header["grid"].update(frame=[[1, 1], [0, 1]]),
        lambda header: header["grid"].update(unit=-1.0),
        lambda header: header["grid"].update(weights=[[1], [1]]),
        lambda header: header["grid"].pop("axes"),
        lambda header: header["mechanism"].update(epsilon=-1.0),
        lambda header: header["mechanism"].update(kind="none"),
        lambda header: header.update(format=2),
        lambda header: header.update(guarantee={}),
    ],
)
def test_a_sealed_file_that_says_nonsense_is_refused(release, tmp_path, spoil):
    cloud = score_map(rows_of(), release, epsilon=1.0, bins=5)
    members = members_of(cloud.save(tmp_path / "good.npz").read_bytes())
    header = json.loads(header_of(members))
    assert load_score_map(tmp_path / "good.npz").n_units == 3000
    spoil(header)
    (tmp_path / "bad.npz").write_bytes(archive_bytes(header, {"counts": cloud.integers}))
    with refused(ReleaseFileError):
        load_score_map(tmp_path / "bad.npz")
