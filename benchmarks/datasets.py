"""The rows that benchmarks run on, prepared as Chaudhuri, Sarwate and Sinha (2013) prepare theirs.

`load(name)` returns rows of norm at most 1. A feature with q values becomes q indicators, every feature is divided by
its largest absolute value, and all rows by the largest row norm. **This reads the data without privacy**, as the paper
does: it makes mechanisms comparable, and is no way to choose a bound for a private fit.

The files are looked for in the folder that EIGENVEIL_DATA names, else in ../shared/datasets beside the checkout. The
prepared rows are kept in EIGENVEIL_CACHE, else in a folder of the system's temporary directory.
"""

import functools
import hashlib
import lzma
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

# Enough rows for the real sets to be themselves, few enough to prepare all of them in a minute.
MAX_ROWS = 50_000
SAMPLE_SEED = 20130901
SYNTHETIC_EIGENVALUES = (0.5, 0.30, 0.04, 0.03, 0.02, 0.01, 0.004, 0.003, 0.001, 0.001)  # JMLR 2013, equation (27)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of norm at most 1, the number of components to look for, and the labels where the file has them."""

    name: str
    X: np.ndarray
    k: int
    y: np.ndarray | None = None


@dataclass(frozen=True)
class _Table:
    """One file of the data folder; text columns are nominal, and `nominal` names those coded as numbers.

    Text labels become whole numbers in `Rows.y`. An .npz file has `X` and `y` and no names.
    """

    file: str
    k: int
    nominal: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    label: str = ""
    label_is_feature: bool = False


_CENSUS_CODES = (
    "detailed_industry_recode",
    "detailed_occupation_recode",
    "own_business_or_self_employed",
    "veterans_benefits",
    "year",
)
_INSURANCE_CODES = ("MOSTYPE", "MGEMLEEF", "MOSHOOFD", "MGODRK", "PWAPART")

# k of the first four is that of the paper's Table 1; of the others it is ours.
_TABLES = {
    # The two constant columns are not among the paper's 116.
    "kddcup99": _Table(
        "kddcup99/kddcup99_10pct.csv.xz", 4, dropped=("num_outbound_cmds", "is_host_login"), label="label"
    ),
    "census": _Table(
        "census/census_income_kdd_train.csv.xz", 8, nominal=_CENSUS_CODES, label="income", label_is_feature=True
    ),
    # Three of the five people have no time.
    "localization": _Table(
        "localization/localization.csv.xz", 10, dropped=("timestamp", "date"), label="activity", label_is_feature=True
    ),
    "insurance": _Table("insurance/insurance_coil2000.csv.xz", 11, nominal=_INSURANCE_CODES, label="CARAVAN"),
    "airfoil": _Table("airfoil/airfoil_self_noise.csv.xz", 2, label="scaled_sound_pressure_level_db"),
    "covertype": _Table("covertype/covertype.npz", 5),
}
# The sets of Wang and Xu (2019), for experiments/ only. Nobody has put the last four into the data folder: lung is that
# of 203 rows and 3,312 features, for which lung_gordon2002 stands in.
_WIDE = {
    name: _Table(file, 10)
    for name, file in {
        "isolet5": "isolet/isolet5.npz",
        "colon": "colon/colon_alon1999.npz",
        "leukemia": "leukemia/leukemia_golub1999.npz",
        # The collection that the paper cites, with features coded -2, 0 and 2.
        "colon_skfeature": "colon/colon_skfeature.npz",
        "leukemia_skfeature": "leukemia/leukemia_skfeature.npz",
        "lung_gordon2002": "lung_gordon2002/lung_gordon2002.npz",
        "lung": "lung/lung.npz",
        "cancer_rna_seq": "cancer_rna_seq/cancer_rna_seq.npz",
        "nips": "nips/nips.npz",
        "buzz": "buzz/buzz.npz",
    }.items()
}
_BUNDLED = {"synthetic": 2, "digits": 5, "breast_cancer": 2, "wine": 2}
NAMES = (*_BUNDLED, *_TABLES)
FILES = tuple(_TABLES)
"""The names that need the data folder."""


def data_folder() -> Path:
    """Return where the files of the real sets are looked for."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    return Path(os.environ.get("EIGENVEIL_DATA", beside))


def available(name: str) -> bool:
    """Return whether `load(name)` has what it needs."""
    tables = _TABLES | _WIDE
    return name in _BUNDLED or (name in tables and (data_folder() / tables[name].file).exists())


@functools.cache
def checksum(name: str) -> str:
    """Return the SHA-256 of what a data set says, the same however its file is compressed.

    data_checksums.json has those of the files that our numbers were made from.
    """
    if name == "synthetic":  # made here, so its last bits may depend on the machine
        return hashlib.sha256(np.round(_synthetic(), 9).tobytes()).hexdigest()
    if name in _BUNDLED:
        return _arrays_checksum(*_bundled(name))
    path = data_folder() / (_TABLES | _WIDE)[name].file
    if path.suffix == ".npz":
        with np.load(path) as stored:
            return _arrays_checksum(stored["X"], stored["y"])
    with lzma.open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _arrays_checksum(*arrays: np.ndarray) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def load(
    name: str,
    *,
    max_rows: int | None = MAX_ROWS,
    label_is_feature: bool | None = None,
    scale_features: bool = True,
) -> Rows:
    """Return a prepared data set.

    Parameters
    ----------
    name : str
        One of `NAMES`, or a wide set of Wang and Xu (2019).
    max_rows : int, optional
        Keep this many rows, drawn with a fixed seed after scales were computed from all of them; None keeps all.
    label_is_feature : bool, optional
        Whether the label is among the columns of `X` too; by default as Chaudhuri et al. have it.
    scale_features : bool
        Whether every feature is divided by its largest absolute value before the rows are by the largest norm.

    `label_is_feature` applies to the sets that have files, and to wine.
    """
    if name == "synthetic":
        return Rows(name, _synthetic(), _BUNDLED[name])
    if name in _BUNDLED:
        X, y = _bundled(name)
        if label_is_feature:
            X = np.column_stack([X, y])
        return Rows(name, _scaled(X, [], np.arange(len(X)), scale_features), _BUNDLED[name], y)
    tables = _TABLES | _WIDE
    if name not in tables:
        raise ValueError(f"There is no data set {name!r}; choose one of {', '.join((*NAMES, *_WIDE))}.")
    table = tables[name]
    path = data_folder() / table.file
    if not path.exists():
        raise FileNotFoundError(
            f"The data set {name} was not found: get it from its public archive (the UCI repository has it), save it "
            f"as {table.file} with a header line, and name the folder in EIGENVEIL_DATA."
        )
    if label_is_feature is not None:
        table = replace(table, label_is_feature=label_is_feature)
    cached = _cache_file(name, path, f"{max_rows}:{table.label_is_feature}:{scale_features}")
    if cached.exists():
        with np.load(cached) as kept:
            return Rows(name, kept["X"], table.k, kept["y"])
    X, y = _prepare(path, table, max_rows, scale_features)
    cached.parent.mkdir(parents=True, exist_ok=True)
    # Two runs may prepare the same set: each writes a file of its own, and the last rename wins.
    with tempfile.NamedTemporaryFile(dir=cached.parent, suffix=".part", delete=False) as part:
        np.savez_compressed(part, X=X, y=y)
    os.replace(part.name, cached)
    return Rows(name, X, table.k, y)


def _cache_file(name: str, path: Path, choices: str) -> Path:
    default = Path(tempfile.gettempdir()) / f"eigenveil-datasets-{os.getuid() if hasattr(os, 'getuid') else 0}"
    # The key changes with the file, the rules of this module and what was asked for.
    rules = Path(__file__).read_bytes()
    stamp = f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}:{choices}".encode()
    key = hashlib.sha256(rules + stamp).hexdigest()[:16]
    return Path(os.environ.get("EIGENVEIL_CACHE", default)) / f"{name}-{key}.npz"


def _bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the labels, counted from 1, of a set that ships with scikit-learn."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    loaded = {"digits": load_digits, "breast_cancer": load_breast_cancer, "wine": load_wine}[name]()
    return loaded.data, loaded.target + 1


def _synthetic() -> np.ndarray:
    """5,000 Gaussian rows of the paper's spectrum, in a random basis, the longer ones shortened to norm 1.

    The paper does not say how it bounds them. Their mean squared norm is 0.9; dividing all by the longest would make
    every signal nine times smaller for a few rows.
    """
    generator = np.random.default_rng(SAMPLE_SEED)
    d = len(SYNTHETIC_EIGENVALUES)
    basis = np.linalg.qr(generator.standard_normal((d, d)))[0]
    X = generator.standard_normal((5_000, d)) * np.sqrt(SYNTHETIC_EIGENVALUES) @ basis.T
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def _sizes(X: np.ndarray) -> np.ndarray:
    """Largest absolute values of the features; 1 for a feature that is always 0."""
    sizes = np.abs(X).max(axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def _kept(n_rows: int, max_rows: int | None) -> np.ndarray:
    if max_rows is None or n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(SAMPLE_SEED).choice(n_rows, max_rows, replace=False))


def _prepare(path: Path, table: _Table, max_rows: int | None, scale_features: bool) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as stored:
            X, y = stored["X"], stored["y"]
        kept = _kept(len(X), max_rows)
        return _scaled(X, [], kept, scale_features), y[kept]
    import pandas as pd

    # "NA" is a category of the census and no missing value.
    frame = pd.read_csv(path, keep_default_na=False).drop(columns=list(table.dropped))
    y = frame[table.label]
    y = y.to_numpy() if pd.api.types.is_numeric_dtype(y) else pd.factorize(y, sort=True)[0]
    if not table.label_is_feature:
        frame = frame.drop(columns=table.label)
    nominal = [
        column
        for column in frame.columns
        if column in table.nominal or not pd.api.types.is_numeric_dtype(frame[column])
    ]
    numbers = frame.drop(columns=nominal).to_numpy(dtype=np.float64)
    codes = [pd.factorize(frame[column], sort=True)[0] for column in nominal]
    kept = _kept(len(frame), max_rows)
    return _scaled(numbers, codes, kept, scale_features), y[kept]


def _scaled(numbers: np.ndarray, codes: list[Any], kept: np.ndarray, scale_features: bool = True) -> np.ndarray:
    """Scale by what all rows say, and make indicators only for the rows that are kept."""
    sizes = _sizes(numbers) if scale_features else np.ones(numbers.shape[1])
    # Each nominal feature has exactly one indicator set, so it adds exactly 1 to the squared norm of every row.
    squares = sum((numbers[:, j] / sizes[j]) ** 2 for j in range(numbers.shape[1])) + len(codes)
    X = np.hstack([numbers[kept] / sizes, *(np.eye(code.max() + 1)[code[kept]] for code in codes)])
    return X / np.sqrt(np.max(squares))
