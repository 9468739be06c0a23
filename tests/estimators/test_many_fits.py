"""Many fits in one process: neither memory nor open files grow."""

import gc
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivatePCA, load_release

OPEN_FILES = Path("/proc/self/fd")
ROWS = np.random.default_rng(0).uniform(-1, 1, size=(200, 4))


def allowed(fits):
    """Return how many bytes a fit may leave on average: caches fill up, and then no more."""
    return 200 + 60_000 / fits


def fit_and_save(folder, ledger, kept=None):
    fit = PrivatePCA(2, epsilon=0.001, bounds=(-1, 1), ledger=ledger).fit(ROWS)
    path = folder / "release.npz"
    path.unlink(missing_ok=True)
    fit.release_.save(path)
    load_release(path).transform(ROWS)
    if kept is not None:
        kept.append((fit, path.open("rb")))


def growth(folder, fits, kept=None):
    """Return how many bytes and open files a fit leaves, once caches are warm."""
    ledger = PrivacyLedger.create(folder / "many.ledger", epsilon=10.0, data_set="made up")
    for _ in range(5):
        fit_and_save(folder, ledger)
    gc.collect()
    files = len(os.listdir(OPEN_FILES))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(fits):
        fit_and_save(folder, ledger, kept)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / fits, len(os.listdir(OPEN_FILES)) - files


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are counted in /proc")
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.heavy
@pytest.mark.parametrize("fits", [20, 1000])
def test_fits_leave_neither_memory_nor_open_files(fits, tmp_path):
    memory, files = growth(tmp_path, fits)
    assert memory < allowed(fits)
    assert files == 0


@pytest.mark.skipif(not OPEN_FILES.exists(), reason="open files are counted in /proc")
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.heavy
def test_fits_that_are_kept_are_noticed(tmp_path):
    kept = []
    memory, files = growth(tmp_path, 10, kept)
    assert memory > allowed(10)
    assert files == 10
    for _, file in kept:
        file.close()
