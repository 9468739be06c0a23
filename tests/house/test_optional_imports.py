"""No optional engine, and nothing slow, is imported uninvited."""

import subprocess
import sys
from functools import cache

import pytest

UNINVITED = {"cryptography", "dask", "distributed", "ibis", "pyspark", "pandas", "polars", "matplotlib", "onnx"}
RELEASE = """
import numpy as np
from eigenveil import RowBound, release
from eigenveil.mechanisms import MECHANISMS
from eigenveil.tables.open import second_moments
release(MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=3), second_moments(np.eye(3), RowBound(1.0)))
"""
FIT = """
import numpy as np
from eigenveil import PrivatePCA
PrivatePCA(1, norm_bound=1.0).fit(np.eye(3))
"""
PLAN = """
import sys
from eigenveil.cli import main
sys.argv = "eigenveil plan --rows 50 --features 2 -k 1 --epsilon 1 --repeats 2 --quiet".split()
try:
    main()
except SystemExit as done:
    assert not done.code
"""


@cache
def loaded_after(code: str) -> set[str]:
    code += "\nimport sys; print(*{one for name in sys.modules for one in (name, name.split('.')[0])})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import eigenveil", RELEASE, PLAN], ids=["import", "release", "plan"])
def test_engines_stay_out(code):
    loaded = loaded_after(code)
    assert not loaded & UNINVITED
    # Tenths of seconds of import time for nothing, or seconds.
    assert not loaded & {"dp_accounting", "opendp", "sklearn", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats"}


@pytest.mark.parametrize("code", ["import eigenveil.cli", FIT], ids=["cli", "fit"])
def test_estimators_load_no_engine_that_scikit_learn_does_not_load_itself(code):
    ours = loaded_after(code) - loaded_after("import sklearn.base, sklearn.utils.validation")
    assert not ours & UNINVITED
    assert not ours & {"dp_accounting", "opendp"}


def test_control_an_import_is_seen():
    assert "polars" in loaded_after("import eigenveil, polars")
