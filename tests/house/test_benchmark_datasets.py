"""The loader of the benchmarks: shapes of the papers, rows inside the unit ball, help where a file is missing."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize("name", ["synthetic", "digits", "wine", "airfoil", "insurance", "colon_skfeature"])
def test_the_data_are_those_of_the_kept_checksums(datasets, name):
    if not datasets.available(name):
        pytest.skip(f"the file of {name} is not in the data folder; set EIGENVEIL_DATA")
    kept = json.loads(PATH.with_name("data_checksums.json").read_text())
    assert datasets.checksum(name) == kept[name]
    assert len(set(kept.values())) == len(kept)
    assert set(kept) >= set(datasets.NAMES)
