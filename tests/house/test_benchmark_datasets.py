"""The loader of the benchmarks: shapes of the papers, rows inside the unit ball, help where a file is missing."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers import refused

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "datasets.py"
MAX_ROWS = 2_000  # fewer than a benchmark takes, to be quick
# d and k of Chaudhuri et al. (2013, Table 1) for the first four; localization lacks the time, so 43 in place of 44.
SHAPES = {
    "kddcup99": (MAX_ROWS, 116, 4),
    "census": (MAX_ROWS, 513, 8),
    "localization": (MAX_ROWS, 43, 10),
    "insurance": (MAX_ROWS, 150, 11),
    "wine": (178, 13, 2),
    "airfoil": (1_503, 5, 2),
    "covertype": (MAX_ROWS, 54, 5),
    "synthetic": (5_000, 10, 2),
    "digits": (1_797, 64, 5),
    "breast_cancer": (569, 30, 2),
}
# Reading the large tables takes seconds each; they are for the longer run.
LARGE = ("kddcup99", "census")


@pytest.fixture(scope="module")
def datasets():
    if not PATH.exists():
        pytest.skip("the benchmarks are not part of this installation")
    spec = importlib.util.spec_from_file_location("benchmark_datasets", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.heavy) if name in LARGE else name for name in SHAPES]
)
def test_rows_have_the_stated_shape_and_norm(datasets, name, tmp_path, monkeypatch):
    if not datasets.available(name):
        pytest.skip(f"the file of {name} is not in {datasets.data_folder().name}; set EIGENVEIL_DATA")
    monkeypatch.setenv("EIGENVEIL_CACHE", str(tmp_path))
    rows = datasets.load(name, max_rows=MAX_ROWS)
    n, d, k = SHAPES[name]
    assert rows.X.shape == (n, d)
    assert (rows.name, rows.k) == (name, k)
    norms = np.linalg.norm(rows.X, axis=1)
    assert 0.8 < norms.max() <= 1 + 1e-12
    np.testing.assert_array_equal(datasets.load(name, max_rows=MAX_ROWS).X, rows.X)


def test_a_label_is_kept_apart_or_among_the_features(datasets, tmp_path, monkeypatch):
    if not datasets.available("airfoil"):
        pytest.skip("the file of airfoil is not in the data folder; set EIGENVEIL_DATA")
    monkeypatch.setenv("EIGENVEIL_CACHE", str(tmp_path))
    apart = datasets.load("airfoil")
    among = datasets.load("airfoil", label_is_feature=True)
    assert (apart.X.shape[1], among.X.shape[1]) == (5, 6)
    np.testing.assert_array_equal(apart.y, among.y)
    assert np.corrcoef(among.X[:, -1], among.y)[0, 1] > 1 - 1e-12
    np.testing.assert_array_equal(datasets.load("airfoil", label_is_feature=True).y, among.y)  # from the cache


def test_rows_alone_may_be_scaled(datasets, tmp_path, monkeypatch):
    monkeypatch.setenv("EIGENVEIL_CACHE", str(tmp_path))
    X, raw = (datasets.load("wine", scale_features=scaled).X for scaled in (True, False))
    assert np.linalg.norm(raw, axis=1).max() == pytest.approx(1.0)
    # Proline is hundreds of times the others, and dominates where features keep their units.
    assert (raw[:, -1] ** 2).sum() / (raw**2).sum() > 0.9 > (X[:, -1] ** 2).sum() / (X**2).sum()


def test_names_are_covered(datasets):
    assert set(SHAPES) == set(datasets.NAMES)


def test_scaling_is_that_of_all_rows_at_once(datasets):
    generator = np.random.default_rng(0)
    numbers = generator.normal(size=(40, 3)) * [1.0, 100.0, 0.0]
    codes = generator.integers(0, 4, size=40)
    kept = np.array([3, 5, 39])
    whole = np.hstack([numbers, np.eye(4)[codes]])
    sizes = np.abs(whole).max(axis=0)
    whole = whole / np.where(sizes > 0, sizes, 1)
    whole /= np.linalg.norm(whole, axis=1).max()
    np.testing.assert_allclose(datasets._scaled(numbers, [codes], kept), whole[kept], rtol=1e-13)


def test_a_missing_file_says_how_to_get_it(datasets, tmp_path, monkeypatch):
    monkeypatch.setenv("EIGENVEIL_DATA", str(tmp_path))
    with refused(FileNotFoundError) as info:
        datasets.load("airfoil")
    assert "EIGENVEIL_DATA" in str(info.value)
    assert not datasets.available("airfoil")
    assert datasets.available("digits")
    assert datasets.load("wine", label_is_feature=True).X.shape == (178, 14)  # ships with scikit-learn


@pytest.mark.parametrize("name", ["synthetic", "digits", "wine", "airfoil", "insurance", "colon_skfeature"])
def test_the_data_are_those_of_the_kept_checksums(datasets, name):
    if not datasets.available(name):
        pytest.skip(f"the file of {name} is not in the data folder; set EIGENVEIL_DATA")
    kept = json.loads(PATH.with_name("data_checksums.json").read_text())
    assert datasets.checksum(name) == kept[name]
    assert len(set(kept.values())) == len(kept)
    assert set(kept) >= set(datasets.NAMES)


def test_an_unknown_name_lists_the_known(datasets):
    with refused(ValueError):
        datasets.load("nope")
