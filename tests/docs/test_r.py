"""The R script of the page on R, run where R and reticulate are installed."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RSCRIPT = shutil.which("Rscript")


def run(*arguments):
    return subprocess.run(
        [RSCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "EIGENVEIL_PYTHON": sys.executable},
    )


@pytest.fixture(scope="module", autouse=True)
def _reticulate():
    if RSCRIPT is None:
        pytest.skip("R is not installed")
    if run("-e", "library(reticulate)").returncode:
        pytest.skip("the R package reticulate is not installed")


@pytest.mark.heavy  # ten seconds of start-up
def test_the_script_reads_estimates_and_intervals_into_data_frames(tmp_path):
    done = run(ROOT / "examples" / "pca.R", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2-DP (pure)" in done.stdout
    with open(tmp_path / "variance.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["component"] for row in rows] == ["PC1", "PC2"]
    for row in rows:
        assert float(row["low"]) <= float(row["variance"]) <= float(row["high"])
    with open(tmp_path / "loadings.csv") as file:
        loadings = list(csv.DictReader(file))
    assert sum(float(row["PC1"]) ** 2 for row in loadings) == pytest.approx(1, abs=1e-6)
    assert (tmp_path / "pca.pdf").stat().st_size > 1000
