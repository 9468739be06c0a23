"""Tables as a user has them: columns of numbers in their own units, in the order of the file, and nothing said of them.

`load(name)` returns one of `NAMES`: tables that ship with scikit-learn, files of the data folder (`datasets.py`), and
made ones, each with a feature of real tables that a method may fall over. Made tables are the same on every call.
"""

import functools
import zlib
from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn import datasets as bundled

from datasets import data_folder

FILES = {
    "airfoil": "airfoil/airfoil_self_noise.csv.xz",
    "census": "census/census_income_kdd_train.csv.xz",
    "insurance": "insurance/insurance_coil2000.csv.xz",
    "kddcup99": "kddcup99/kddcup99_10pct.csv.xz",
    "localization": "localization/localization.csv.xz",
    "covertype": "covertype/covertype.npz",
}
BUNDLED = ("wine", "breast_cancer", "diabetes", "digits")


def factors(rng: np.random.Generator, n: int, d: int, rank: int, noise: float = 1.0) -> np.ndarray:
    """Return normal rows: a few common factors, and noise of each column."""
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))


def small(rng: np.random.Generator) -> np.ndarray:
    """Return few normal rows of few columns, far from zero."""
    return factors(rng, 200, 3, 1) * [1.0, 10.0, 0.1] + [50.0, 1000.0, 3.0]


def normal(rng: np.random.Generator) -> np.ndarray:
    """Return normal rows in units that differ by a thousand."""
    return factors(rng, 3_000, 10, 2) * 10.0 ** rng.uniform(-1.5, 1.5, 10)


def binary(rng: np.random.Generator) -> np.ndarray:
    """Return answers yes or no, some of them rare."""
    rows = factors(rng, 20_000, 40, 3, 1.5)
    return (rows > np.quantile(rows, 1 - rng.uniform(0.02, 0.5, 40), axis=0).diagonal()).astype(float)


def one_hot(rng: np.random.Generator) -> np.ndarray:
    """Return six choices among eight, as indicators."""
    common = rng.standard_normal((10_000, 2))
    choices = [(common @ rng.standard_normal((2, 8)) + rng.gumbel(size=(10_000, 8))).argmax(axis=1) for _ in range(6)]
    return np.hstack([np.eye(8)[choice] for choice in choices])


def zero_inflated(rng: np.random.Generator) -> np.ndarray:
    """Return amounts of which nine in ten are 0."""
    amounts = np.exp(factors(rng, 10_000, 30, 2, 0.5))
    return np.where(rng.random(amounts.shape) < 0.1, amounts, 0.0)


def likert(rng: np.random.Generator) -> np.ndarray:
    """Return answers from 1 to 5."""
    return np.clip(np.round(factors(rng, 2_000, 25, 3) + 3), 1, 5)


def clinical(rng: np.random.Generator) -> np.ndarray:
    """Return measurements, diagnoses, scores and skewed laboratory values beside one another."""
    rows = factors(rng, 2_000, 24, 3)
    rows[:, 8:16] = rows[:, 8:16] > 1.2
    rows[:, 16:20] = np.round(rows[:, 16:20])
    rows[:, 20:] = np.exp(rows[:, 20:])
    return rows


def heavy_tails(rng: np.random.Generator) -> np.ndarray:
    """Return rows of a t distribution with three degrees of freedom, in units that differ by a million."""
    rows = factors(rng, 5_000, 20, 3) / np.sqrt(rng.chisquare(3, (5_000, 1)) / 3)
    return rows * 10.0 ** rng.uniform(-3, 3, 20)


def lognormal(rng: np.random.Generator) -> np.ndarray:
    """Return incomes and the like: exponentials of normal rows."""
    return np.exp(factors(rng, 3_000, 12, 2, 0.7) / 1.5)


def duplicated(rng: np.random.Generator) -> np.ndarray:
    """Return six columns, each of them three times."""
    return np.tile(factors(rng, 3_000, 6, 2), 3)


def constants(rng: np.random.Generator) -> np.ndarray:
    """Return ten columns beside six that are constant."""
    return np.hstack([factors(rng, 3_000, 10, 2), np.tile(np.arange(6.0), (3_000, 1))])


def long(rng: np.random.Generator) -> np.ndarray:
    """Return many rows of six columns, two of them skewed."""
    rows = factors(rng, 300_000, 6, 2)
    rows[:, 4:] = np.exp(rows[:, 4:])
    return rows


def wide(rng: np.random.Generator) -> np.ndarray:
    """Return 200 columns, each with an offset and a unit of its own."""
    return factors(rng, 20_000, 200, 5, 2.0) * 10.0 ** rng.uniform(-1, 1, 200) + rng.uniform(-10, 10, 200)


MADE: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    make.__name__: make
    for make in (
        small,
        normal,
        binary,
        one_hot,
        zero_inflated,
        likert,
        clinical,
        heavy_tails,
        lognormal,
        duplicated,
        constants,
        long,
        wide,
    )
}
NAMES = (*BUNDLED, *FILES, *MADE)


def available(name: str) -> bool:
    """Return whether a table can be loaded here."""
    return name not in FILES or (data_folder() / FILES[name]).exists()


@functools.cache
def load(name: str, max_rows: int = 300_000) -> np.ndarray:
    """Return the rows of a table, spread over the file where it has more than `max_rows`.

    Columns that are constant in the file are left out; made tables keep theirs.
    """
    if name in MADE:
        X = MADE[name](np.random.default_rng(zlib.crc32(name.encode())))
    elif name in BUNDLED:
        options = {"scaled": False} if name == "diabetes" else {}
        X = getattr(bundled, f"load_{name}")(**options).data
    elif name == "covertype":
        X = np.load(data_folder() / FILES[name])["X"][:, :10]
    else:
        table = pd.read_csv(data_folder() / FILES[name], keep_default_na=name != "census", low_memory=False)
        X = table.select_dtypes("number").dropna(axis=1).to_numpy()
    # A file may be sorted, so its first rows are no sample of it.
    X = np.asarray(X, dtype=np.float64)[:: max(1, -(-len(X) // max_rows))]
    return X if name in MADE else X[:, X.std(axis=0) > 0]
