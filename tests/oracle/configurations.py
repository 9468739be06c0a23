"""The configurations of the oracle: calls of the public API with fixed seeds, written as plain keyword dictionaries.

A configuration is a dictionary: "call" says which function below makes its release, the rest is what that function is
given. Names of configurations and of their settings are not those of parameters, so that they outlast a renaming of
these; a renaming changes what stands on the right-hand side, and nothing that is released. `tools/oracle.py` runs,
records and compares.
"""

import importlib
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import eigenveil
from eigenveil import RowBound, Schema, SecondMoments
from eigenveil.mechanisms import MECHANISMS as TABLE
from eigenveil.tables.open import open_table

NAMES = ["age", "rent", "mass", "pulse", "visits", "score", "height", "debt", "hours", "steps", "calls", "sleep"]

# Tables. All of them are small: together all configurations take about a minute.

RAW_SCHEMA = {
    "version": 1,
    "table": "visits",
    "declared_by": "the oracle",
    "declared_on": "2026-01-31",
    "columns": {
        "name": {"kind": "ignored"},
        "age": {"range": [0, 120]},
        "mass": {"range": [0, 200], "missing": "indicator"},
        "sex": {"categories": ["F", "M"], "missing": "indicator"},
        "city": {"categories": ["Rome", "Lima"], "missing": "Lima"},
        "smoker": {"kind": "boolean", "missing": "middle"},
        "visit": {"kind": "date", "unit": "week", "range": ["2020-01-02", "2021-01-07"], "missing": "2020-01-09"},
    },
}
SCALED_SCHEMA = {"version": 1, "columns": {name: {"scale": 1.0 + place} for place, name in enumerate(NAMES[:5])}}
PERSON_SCHEMA = {
    "version": 1,
    "columns": {"who": {"kind": "privacy_unit"}, **{name: {"range": [-8, 8]} for name in NAMES[:3]}},
}
SITE_SCHEMA = {"version": 1, "columns": {str(place): {"range": [-4, 4]} for place in range(4)}}


@cache
def table(name: str) -> Any:
    """Return the rows of a table, by a seed of its own."""
    if name == "raw":
        return _raw()
    if name == "visits":
        return _visits()
    n, d, seed, kind = {
        "small": (60, 3, 1, "falling"),
        "plain": (400, 5, 2, "moved"),
        "tall": (3000, 2, 3, "moved"),
        "many": (2500, 4, 4, "moved"),
        "wide": (200, 12, 5, "falling"),
        "steep": (3000, 10, 6, "steep"),
        "tied": (600, 6, 7, "tied"),
        "local": (1500, 4, 8, "falling"),
        "flat": (3000, 2, 10, "flat"),
    }[name]
    rows = np.random.default_rng(seed).normal(size=(n, d))
    if kind == "steep":
        return rows * np.arange(1, d + 1) ** -1.5
    if kind == "flat":
        return rows * [1.0, 0.0] + 2.0
    if kind == "tied":
        return np.floor(np.abs(rows) + rows[:, :1] ** 2 / 4)
    rows = rows / np.arange(1, d + 1)
    rows[:, -1] += rows[:, 0] / 2
    return rows + 1.5 if kind == "moved" else rows


def _raw() -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "visit": ["2020-01-16", None, "2020-01-30"] * 20,
            "smoker": ["yes", "No", None, "perhaps"] * 15,
            "city": ["Rome", "Lima", None, "Oslo", "Rome"] * 12,
            "sex": ["F", None, "M", "X"] * 15,
            "mass": [70.0, np.nan, 90.0] * 20,
            "age": np.linspace(20, 60, 60),
            "name": [f"person {number}" for number in range(60)],
            "extra": ["not declared"] * 60,
        }
    )


def _visits() -> Any:
    """Return a frame of 300 persons with one to nine rows each, in no order."""
    import pandas as pd

    generator = np.random.default_rng(9)
    who = np.repeat(np.arange(300), generator.integers(1, 10, 300))
    of_person = generator.normal(size=(300, 3)) * [2.0, 1.0, 0.5] + 1
    rows = of_person[who] + 0.3 * generator.normal(size=(len(who), 3))
    order = generator.permutation(len(who))
    return pd.DataFrame(rows[order], columns=NAMES[:3]).assign(who=[f"p{one}" for one in who[order]])


def source(rows: Any, kind: str, folder: Path) -> Any:
    """Return the rows as a user may have them."""
    if kind == "array":
        return rows
    if kind in ("float32", "int64"):
        return rows.astype(kind)
    if kind == "column_major":
        return np.asfortranarray(rows)
    if kind == "list":
        return rows.tolist()
    if kind in ("csr", "csc"):
        return scipy.sparse.csr_array(np.where(np.abs(rows) > 0.5, rows, 0)).asformat(kind)
    if kind == "npy":
        np.save(folder / "rows.npy", rows)
        return folder / "rows.npy"
    return _frame_source(rows, kind, folder)


def _frame_source(rows: Any, kind: str, folder: Path) -> Any:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=NAMES[: rows.shape[1]]) if isinstance(rows, np.ndarray) else rows
    if kind == "pandas":
        return frame
    if kind in ("polars", "polars_lazy", "arrow"):
        import polars as pl

        made = pl.from_pandas(frame)
        return made if kind == "polars" else made.lazy() if kind == "polars_lazy" else made.to_arrow()
    if kind in ("dask_array", "dask_frame"):
        return _on_dask(rows, frame, kind)
    if kind == "parts":
        half = len(frame) // 2
        paths = [folder / "1.csv", folder / "2.csv.gz"]
        for path, part in zip(paths, (frame.iloc[:half], frame.iloc[half:]), strict=True):
            part.to_csv(path, index=False)
        return paths
    path = folder / f"rows.{kind}"
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "feather":
        frame.to_feather(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        raise ValueError(kind)
    return path


def _on_dask(rows: Any, frame: Any, kind: str) -> Any:
    if kind == "dask_array":
        return importlib.import_module("dask.array").from_array(rows, chunks=(97, rows.shape[1]))
    return importlib.import_module("dask.dataframe").from_pandas(frame, npartitions=3, sort=False)


# Calls. Each returns what was made: an estimator, a release or a score map.


def fit(folder: Path, *, estimator: str, on: str, parameters: dict, source_kind: str = "array", **given: Any) -> Any:
    """Return an estimator that is fitted."""
    model = _made(estimator, parameters)
    rows = source(table(on), source_kind, folder)
    options = dict(given)
    if "schema" in options:
        options["schema"] = Schema.from_dict(options["schema"])
    if source_kind == "jsonl" and "schema" not in parameters:
        rows = open_table(rows, NAMES[: table(on).shape[1]])  # whose columns are declared
    return model.fit(rows, **options)


def fit_beside(folder: Path, *, estimator: str, parameters: dict, beside: str) -> Any:
    """Return an estimator that is fitted to the visits, with what tells persons apart beside the table."""
    frame = table("visits")
    return _made(estimator, parameters).fit(frame[NAMES[:3]].to_numpy(), **{beside: frame["who"].to_numpy()})


def fit_weighted(folder: Path, *, estimator: str, on: str, parameters: dict) -> Any:
    """Return an estimator that is fitted to rows with public weights."""
    rows = table(on)
    weights = np.random.default_rng(11).integers(0, 5, len(rows)) / 2
    return _made(estimator, parameters).fit(rows, sample_weight=weights)


def in_parts(folder: Path, *, estimator: str, on: str, parameters: dict, source_kind: str = "array") -> Any:
    """Return an estimator that is fitted in three parts."""
    model, rows = _made(estimator, parameters), table(on)
    for part in np.array_split(rows, [100, 101]):
        model.partial_fit(source(part, source_kind, folder))
    return model.fit_moments()


def from_moments(folder: Path, *, estimator: str, on: str, bound: dict, parameters: dict) -> Any:
    """Return an estimator that is fitted to moments that were collected elsewhere."""
    return _made(estimator, parameters).fit_moments(_moments(on, bound))


def gate(folder: Path, *, mechanism: str, on: str, bound: dict, parameters: dict, seed: int) -> Any:
    """Return a release by a mechanism that was made by hand."""
    moments = _moments(on, bound)
    made = TABLE[mechanism](n_features=moments.width, **parameters)
    return eigenveil.release(made, moments, generator=np.random.default_rng(seed))


def local_reports(folder: Path, *, on: str, protocol: dict, n_components: int, seed: int) -> Any:
    """Return the release of reports that clients encoded one by one and a server added up."""
    from eigenveil.local import LocalProtocol, aggregate, encode_many

    rows = table(on)[:300]
    agreed = LocalProtocol(rows.shape[1], **protocol)
    reports = encode_many(agreed, rows, np.random.default_rng(seed))
    return aggregate(agreed, [*reports, reports[0], b"noise"]).release(n_components)


def local_simulation(folder: Path, *, on: str, protocol: dict, n_components: int, seed: int) -> Any:
    """Return the release of a collection that is played in one process."""
    from eigenveil.local import LocalProtocol, simulate

    rows = table(on)
    agreed = LocalProtocol(rows.shape[1], **protocol)
    return simulate(agreed, rows, np.random.default_rng(seed), n_components=n_components)


def federated_round(folder: Path, *, estimator: str, parameters: dict, n_sites: int, n_colluding: int) -> Any:
    """Return the release of a round; keys and masks are random, and cancel."""
    from eigenveil.federation import SiteKeys, combine, contribute, invite

    names = [f"site {number}" for number in range(n_sites)]
    draft = invite(_made(estimator, parameters), names, n_colluding=n_colluding)
    copies, keys = [], {}
    for name in names:
        own = SiteKeys.create(name, draft.terms)
        keys[name] = own.save(folder / f"{name}.key")
        copies.append(own.join(draft))
    agreed = copies[0].close(copies[1:])
    sent = []
    for place, name in enumerate(agreed.sites):
        rows = np.random.default_rng(20 + place).normal(size=(50 + 7 * place, 4)) / np.arange(1, 5)
        generator = np.random.default_rng(30 + place)
        sent.append(contribute(agreed, keys[name], rows, folder / f"{name}.out", generator=generator))
    return combine(agreed, sent)


def cloud(folder: Path, *, on: str, parameters: dict, source_kind: str = "array", **given: Any) -> Any:
    """Return the score map of a release of the same rows."""
    rows = source(table(on), source_kind, folder)
    made = _made("PrivatePCA", parameters).fit(rows).release_
    return eigenveil.score_map(rows, made, **given)


CALLS = {
    function.__name__: function
    for function in (
        fit,
        fit_beside,
        fit_weighted,
        in_parts,
        from_moments,
        gate,
        local_reports,
        local_simulation,
        federated_round,
        cloud,
    )
}


def made(configuration: dict, folder: Path) -> Any:
    """Run a configuration and return what it makes."""
    given = dict(configuration)
    return CALLS[given.pop("call")](folder, **given)


def _made(estimator: str, parameters: dict) -> Any:
    given = dict(parameters)
    if given.get("schema") is not None:
        given["schema"] = Schema.from_dict(given["schema"])
    return getattr(eigenveil, estimator)(**given)


def _moments(on: str, bound: dict) -> SecondMoments:
    rows = table(on)
    return SecondMoments(RowBound(**bound), rows.shape[1], tuple(NAMES[: rows.shape[1]])).update(rows)


# Settings, by names that last.

ADJACENCIES = {"replace_one": {"adjacency": "replace_one"}, "add_or_remove_one": {"adjacency": "add_or_remove_one"}}
DELTAS = {"pure": {}, "delta": {"delta": 1e-5}}
CENTRINGS = {"centred": {}, "origin": {"center": False}}
STATISTICS = {
    "auto": {},
    "bounds": {"bounds": (-4, 6)},
    "norm": {"norm_bound": 5.0},
    "norm_found": {"statistic": "clipped"},
    "normalized": {"statistic": "normalized"},
    "spatial_sign": {"statistic": "spatial_sign"},
    "kendall": {"statistic": "kendall"},
}
UNIT_WEIGHTS = {"equal": {"unit_weight": "equal"}, "by_rows": {"unit_weight": "by_rows"}}
UNIT_COLUMN = {"privacy_unit": "who"}
MECHANISMS: dict[str, tuple[str | None, ...]] = {
    "gaussian": ("traced", "tight", "paper"),
    "matrix_laplace": ("balanced", "tight"),
    "laplace": ("tight", "paper"),
    "frobenius": ("tight", "paper"),
    "mod_sulq": ("paper",),
    "wishart": ("tight", "paper"),
    "ppca": ("tight", "paper"),
    "eigenvector_sampling": ("tight", "paper"),
    "random_projection": (None,),
    "none": (None,),
}
SOURCES = (
    "array", "float32", "column_major", "list", "csr", "csc", "npy", "pandas", "polars", "polars_lazy", "arrow",
    "csv", "csv.gz", "parts", "parquet", "feather", "jsonl", "dask_array", "dask_frame",
)  # fmt: skip
LOCAL = {
    "double_cap": {"mechanism": "double_cap"},
    "one_bit": {"mechanism": "one_bit"},
    "one_bit_rank_1": {"mechanism": "one_bit", "rank": 1},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-5},
    "gaussian_paper": {"mechanism": "gaussian_paper", "delta": 1e-5},
    "auto": {"mechanism": "auto"},
    "auto_delta": {"mechanism": "auto", "delta": 1e-5},
}


def _budget(mechanism: str, calibration: str | None) -> dict:
    """Return a budget that the mechanism takes."""
    pure = mechanism not in ("gaussian", "mod_sulq", "wishart") or (mechanism, calibration) == ("wishart", "paper")
    return {"epsilon": 2.0} if pure else {"epsilon": 2.0, "delta": 1e-5}


def _options(mechanism: str, calibration: str | None, k: int) -> dict:
    options: dict[str, Any] = {} if calibration is None else {"calibration": calibration}
    if (mechanism, calibration) == ("wishart", "paper"):
        options["allow_unsound"] = True
    if (mechanism, calibration) == ("ppca", "paper"):
        options["updates"] = 50
    inexact = (mechanism == "ppca" and k > 1) or (
        mechanism in ("ppca", "eigenvector_sampling") and calibration == "paper"
    )
    if inexact:
        options["accept_inexact"] = True
    return options


def _pca(on: str = "plain", n_components: Any = 2, **parameters: Any) -> dict:
    return {
        "call": "fit",
        "estimator": "PrivatePCA",
        "on": on,
        "parameters": {"n_components": n_components, "epsilon": 2.0, "random_state": 5, **parameters},
    }


def _other(estimator: str, on: str = "plain", **parameters: Any) -> dict:
    return {
        "call": "fit",
        "estimator": estimator,
        "on": on,
        "parameters": {"epsilon": 2.0, "random_state": 6, **parameters},
    }


def _by_mechanism() -> dict[str, dict]:
    found = {}
    cases = [(mechanism, one) for mechanism, calibrations in MECHANISMS.items() for one in calibrations]
    for (mechanism, calibration), (adjacency, parameter) in product(cases, ADJACENCIES.items()):
        for k in (1, 2) if mechanism in ("ppca", "eigenvector_sampling") else (2,):
            found[f"gate/{mechanism}/{calibration}/{adjacency}/{k}"] = {
                "call": "gate",
                "mechanism": mechanism,
                "on": "plain",
                "bound": {"norm": 5.0},
                "parameters": {
                    **_budget(mechanism, calibration),
                    **_options(mechanism, calibration, k),
                    **parameter,
                    "n_components": k,
                },
                "seed": 4,
            }
    for mechanism, bound in product(
        ("gaussian", "matrix_laplace"),
        (
            {"norm": 3.0, "constant": 1.0},
            {"norm": 3.0, "bits": 12},
            {"norm": 3.0, "shift": [1.5] * 12, "scale": [2.0] * 12},
        ),
    ):
        found[f"gate/{mechanism}/wide/{'-'.join(bound)}"] = {
            "call": "gate",
            "mechanism": mechanism,
            "on": "wide",
            "bound": bound,
            "parameters": _budget(mechanism, None),
            "seed": 8,
        }
    for (mechanism, calibration), (adjacency, parameter) in product(cases, ADJACENCIES.items()):
        if calibration in (None, "paper") or calibration == MECHANISMS[mechanism][0]:
            found[f"pca/{mechanism}/{calibration}/{adjacency}"] = _pca(
                "small",
                mechanism=mechanism,
                mechanism_options=_options(mechanism, calibration, 2) or None,
                norm_bound=2.0,
                center=False,
                **_budget(mechanism, calibration),
                **parameter,
            )
    return found


def _by_statistic() -> dict[str, dict]:
    found = {}
    for one in product(STATISTICS, ADJACENCIES, DELTAS, CENTRINGS):
        statistic, adjacency, delta, centring = one
        found[f"pca/{'/'.join(one)}"] = _pca(
            **STATISTICS[statistic], **ADJACENCIES[adjacency], **DELTAS[delta], **CENTRINGS[centring]
        )
    for statistic, delta in product(STATISTICS, DELTAS):
        found[f"pca/standardized/{statistic}/{delta}"] = _pca(
            standardize=True, **STATISTICS[statistic], **DELTAS[delta]
        )
    for statistic in ("auto", "spatial_sign", "kendall", "bounds"):
        setting = {"bounds": (0, 12)} if statistic == "bounds" else STATISTICS[statistic]
        found[f"pca/tied/{statistic}"] = _pca("tied", standardize=statistic == "kendall", **setting)
    # Enough rows that ranges are found privately.
    for adjacency, delta in product(ADJACENCIES, DELTAS):
        given = {**ADJACENCIES[adjacency], **DELTAS[delta], "epsilon": 12.0}
        found[f"pca/ranges/{adjacency}/{delta}"] = _pca("tall", 1, **given)
        found[f"pca/ranges/standardized/{adjacency}/{delta}"] = _pca("tall", 1, standardize=True, **given)
        found[f"covariance/ranges/{adjacency}/{delta}"] = _other(
            "PrivateCovariance", "many", **{**given, "epsilon": 20.0}
        )
    found["pca/ranges/flat"] = _pca("flat", 1, epsilon=12.0, standardize=True)
    for label, n_components in {"share": 0.9, "above_noise": "above_noise", "all": None, "one": 1}.items():
        found[f"pca/components/{label}"] = _pca("many", n_components, bounds=(-4, 6))
        found[f"pca/components/{label}/delta"] = _pca("many", n_components, bounds=(-4, 6), delta=1e-5)
    found["pca/bounds_by_feature"] = _pca("small", bounds=([-3, -2, -1], [3, 2, 1]))
    found["pca/bounds_and_norm"] = _pca("small", bounds=(-3, 3), norm_bound=1.0)
    found["pca/bounds_by_name"] = {
        **_pca("small", bounds={"age": (-3, 3), "rent": (-2, 2), "mass": (-1, 1)}),
        "source_kind": "pandas",
    }
    return found


def _by_source() -> dict[str, dict]:
    found = {}
    for kind, statistic in product(SOURCES, ("bounds", "auto", "norm_found")):
        if statistic == "norm_found" and kind not in ("csr", "csv", "dask_array", "pandas"):
            continue
        found[f"source/{kind}/{statistic}"] = {**_pca(**STATISTICS[statistic]), "source_kind": kind}
    for kind, statistic, delta in product(("array", "pandas", "csr"), ("bounds", "spatial_sign", "kendall"), DELTAS):
        if statistic == "bounds" or (kind != "csr" and delta == "pure"):
            found[f"source/in_parts/{kind}/{statistic}/{delta}"] = {
                **_pca(**STATISTICS[statistic], **DELTAS[delta]),
                "call": "in_parts",
                "source_kind": kind,
            }
    for estimator in ("PrivatePCA", "PrivateCovariance"):
        found[f"source/moments/{estimator}"] = {
            "call": "from_moments",
            "estimator": estimator,
            "on": "plain",
            "bound": {"norm": 5.0, "constant": 3.0},
            "parameters": {"epsilon": 2.0, "random_state": 3},
        }
    found["source/int64"] = {**_pca("tied", bounds=(0, 12)), "source_kind": "int64"}
    for kind in (
        "pandas",
        "polars",
        "polars_lazy",
        "arrow",
        "csv",
        "csv.gz",
        "parquet",
        "jsonl",
        "parts",
        "dask_frame",
    ):
        found[f"schema/pca/{kind}"] = {**_pca("raw", schema=RAW_SCHEMA), "source_kind": kind}
    for estimator, given in {
        "PrivateCovariance": {},
        "PrivateRidge": {"target": "age", "epsilon": 40.0},
        "PrivateScaler": {},
        "PrivateSparsePCA": {},
    }.items():
        parameters = {"schema": RAW_SCHEMA, **given}
        found[f"schema/{estimator}"] = {**_other(estimator, "raw", **parameters), "source_kind": "pandas"}
    found["schema/standardized"] = {**_pca("raw", schema=RAW_SCHEMA, standardize=True), "source_kind": "csv"}
    found["schema/delta"] = {**_pca("raw", schema=RAW_SCHEMA, delta=1e-4), "source_kind": "parquet"}
    found["schema/given_to_fit"] = {**_pca("raw"), "source_kind": "pandas", "schema": RAW_SCHEMA}
    found["schema/scales"] = {**_pca(schema=SCALED_SCHEMA), "source_kind": "pandas"}
    found["schema/scales/norm"] = {**_pca(schema=SCALED_SCHEMA, norm_bound=3.0), "source_kind": "csv"}
    return found


def _by_unit() -> dict[str, dict]:
    found = {}
    for weight, adjacency, delta, statistic in product(
        UNIT_WEIGHTS, ADJACENCIES, DELTAS, ("bounds", "norm_found", "auto")
    ):
        setting = {"bounds": (-8, 8)} if statistic == "bounds" else STATISTICS[statistic]
        parameters = {
            **UNIT_COLUMN,
            **setting,
            **UNIT_WEIGHTS[weight],
            **ADJACENCIES[adjacency],
            **({"delta": 1e-5, "mechanism": "gaussian"} if delta == "delta" else {}),
        }
        found[f"unit/{weight}/{adjacency}/{delta}/{statistic}"] = {
            **_pca("visits", **parameters),
            "source_kind": "pandas",
        }
    for kind in ("polars", "csv", "parquet", "parts", "dask_frame"):
        found[f"unit/source/{kind}"] = {**_pca("visits", bounds=(-8, 8), **UNIT_COLUMN), "source_kind": kind}
    for statistic in ("normalized", "spatial_sign", "kendall"):
        parameters = {**STATISTICS[statistic], **UNIT_COLUMN}
        found[f"unit/{statistic}"] = {**_pca("visits", **parameters), "source_kind": "pandas"}
    found["unit/schema"] = {**_pca("visits", schema=PERSON_SCHEMA), "source_kind": "csv"}
    found["unit/origin"] = {**_pca("visits", norm_bound=5.0, center=False, **UNIT_COLUMN), "source_kind": "pandas"}
    found["unit/standardized"] = {
        **_pca("visits", bounds=(-8, 8), standardize=True, **UNIT_COLUMN),
        "source_kind": "pandas",
    }
    found["unit/wishart"] = {
        **_pca("visits", mechanism="wishart", delta=1e-5, bounds=(-8, 8), **UNIT_COLUMN),
        "source_kind": "pandas",
    }
    for estimator, given in {"PrivateCovariance": {}, "PrivateRidge": {"target": "rent"}, "PrivateScaler": {}}.items():
        parameters = {"bounds": (-8, 8), **given, **UNIT_COLUMN}
        found[f"unit/{estimator}"] = {**_other(estimator, "visits", **parameters), "source_kind": "pandas"}
    found["unit/beside"] = {
        "call": "fit_beside",
        "estimator": "PrivatePCA",
        "parameters": {"n_components": 2, "epsilon": 2.0, "random_state": 1, "bounds": (-8, 8)},
        "beside": "privacy_unit",
    }
    return found


def _by_estimator() -> dict[str, dict]:
    found = {}
    estimators: dict[str, dict] = {
        "PrivateCovariance": {},
        "PrivateSparsePCA": {"n_components": 1},
        "PrivateRidge": {"target": 3},
        "PrivateScaler": {},
    }
    for (estimator, given), adjacency, delta in product(estimators.items(), ADJACENCIES, DELTAS):
        parameters = {**given, "bounds": (-4, 6), **ADJACENCIES[adjacency], **DELTAS[delta]}
        found[f"{estimator}/bounds/{adjacency}/{delta}"] = _other(estimator, "many", **parameters)
    for estimator, statistic in product(("PrivateCovariance", "PrivateSparsePCA"), STATISTICS):
        if statistic != "bounds":
            found[f"{estimator}/{statistic}"] = _other(estimator, **estimators[estimator], **STATISTICS[statistic])
    found["PrivateCovariance/kendall/standardized"] = _other("PrivateCovariance", standardize=True)
    found["PrivateCovariance/normalized/origin"] = _other("PrivateCovariance", center=False, **STATISTICS["normalized"])
    found["unit/normalized/origin"] = {
        **_pca("visits", center=False, **STATISTICS["normalized"], **UNIT_COLUMN),
        "source_kind": "pandas",
    }
    found["PrivateCovariance/origin"] = _other("PrivateCovariance", center=False, norm_bound=5.0)
    found["PrivateRidge/alpha"] = _other("PrivateRidge", alpha=0.1, target=0, norm_bound=5.0)
    found["PrivateRidge/origin"] = _other("PrivateRidge", target=1, norm_bound=5.0, fit_intercept=False)
    found["PrivateRidge/norm_found"] = _other("PrivateRidge", target=1)
    found["PrivateSparsePCA/penalty"] = _other("PrivateSparsePCA", penalty=0.05, n_components=2, bounds=(-4, 6))
    found["PrivateSparsePCA/wide"] = _other("PrivateSparsePCA", "wide", delta=1e-5, norm_bound=3.0)
    for stages, centring, estimator in product((1, 2, "auto"), CENTRINGS, ("PrivatePCA", "PrivateCovariance")):
        given = {"n_components": 2} if estimator == "PrivatePCA" else {}
        parameters = {**given, "stages": stages, "delta": 1e-5, "norm_bound": 3.0, **CENTRINGS[centring]}
        found[f"stages/{stages}/{centring}/{estimator}"] = _other(estimator, "steep", **parameters)
    found["stages/2/ridge"] = _other("PrivateRidge", "steep", target=3, delta=1e-5, stages=2, norm_bound=3.0)
    found["stages/2/norm_found"] = _pca("steep", delta=1e-5, stages=2, statistic="clipped")
    found["stages/2/pure"] = _pca("steep", stages=2, norm_bound=3.0)
    for statistic, delta in product(("bounds", "norm", "norm_found", "normalized", "kendall"), DELTAS):
        found[f"weighted/{statistic}/{delta}"] = {
            **_pca(**STATISTICS[statistic], **DELTAS[delta]),
            "call": "fit_weighted",
        }
    found["weighted/covariance"] = {**_other("PrivateCovariance", bounds=(-4, 6)), "call": "fit_weighted"}
    found["weighted/add_or_remove_one"] = {
        **_pca(bounds=(-4, 6), **ADJACENCIES["add_or_remove_one"]),
        "call": "fit_weighted",
    }
    return found


def _elsewhere() -> dict[str, dict]:
    """Return what is not the central model, and score maps."""
    found: dict[str, dict] = {}
    for (label, given), norms in product(LOCAL.items(), ("any", "unit")):
        parameters = {"n_components": 2, "epsilon": 2.0, "norm_bound": 2.0, "row_norms": norms, **given}
        found[f"local/pca/{label}/{norms}"] = {
            "call": "fit",
            "estimator": "LocalPCA",
            "on": "local",
            "parameters": {**parameters, "random_state": 12},
        }
        if label in ("double_cap", "one_bit", "gaussian", "gaussian_paper"):
            protocol = {"epsilon": 2.0, "norm_bound": 2.0, "row_norms": norms, **given}
            found[f"local/reports/{label}/{norms}"] = {
                "call": "local_reports",
                "on": "local",
                "protocol": protocol,
                "n_components": 2,
                "seed": 13,
            }
    for label in ("double_cap", "one_bit"):
        found[f"local/simulation/{label}"] = {
            "call": "local_simulation",
            "on": "local",
            "protocol": {"epsilon": 0.5, "norm_bound": 2.0, "scale": [1, 2, 3, 4], "shift": [0.1] * 4, **LOCAL[label]},
            "n_components": 1,
            "seed": 14,
        }
        found[f"local/sparse/{label}"] = {
            "call": "fit",
            "estimator": "LocalSparsePCA",
            "on": "local",
            "parameters": {"epsilon": 4.0, "norm_bound": 2.0, "random_state": 15, **LOCAL[label]},
        }
    budgets = {
        "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
        "matrix_laplace": {"mechanism": "matrix_laplace"},
        "auto": {},
    }
    for (label, budget), adjacency, n_colluding in product(budgets.items(), ADJACENCIES, (0, 1)):
        found[f"federation/{label}/{adjacency}/{n_colluding}"] = {
            "call": "federated_round",
            "estimator": "PrivatePCA",
            "parameters": {"epsilon": 2.0, "schema": SITE_SCHEMA, **budget, **ADJACENCIES[adjacency]},
            "n_sites": 3,
            "n_colluding": n_colluding,
        }
    found["federation/origin"] = {
        "call": "federated_round",
        "estimator": "PrivateCovariance",
        "parameters": {"epsilon": 2.0, "schema": SITE_SCHEMA, "center": False},
        "n_sites": 2,
        "n_colluding": 1,
    }
    map_of = {"epsilon": 1.0, "random_state": 17}
    pca = {"n_components": 2, "epsilon": 20.0, "random_state": 16, "bounds": (-4, 6)}
    for adjacency, delta in product(ADJACENCIES, DELTAS):
        found[f"score_map/{adjacency}/{delta}"] = {
            "call": "cloud",
            "on": "many",
            "parameters": {**pca, **ADJACENCIES[adjacency]},
            **map_of,
            **DELTAS[delta],
        }
    for label, given in {
        "bins": {"bins": (4, 9)},
        "axes": {"axes": (1, 0), "frame": ((-3, 3), (-2, 2))},
        "gaussian": {"mechanism": "gaussian", "delta": 1e-5},
    }.items():
        found[f"score_map/{label}"] = {"call": "cloud", "on": "many", "parameters": pca, **map_of, **given}
    found["score_map/groups"] = {
        "call": "cloud",
        "on": "raw",
        "parameters": {"n_components": 2, "epsilon": 50.0, "random_state": 2, "schema": RAW_SCHEMA},
        "source_kind": "pandas",
        "groups": "sex",
        **map_of,
    }
    return found


def _refused() -> dict[str, dict]:
    """Return what is refused; much else above is, too."""
    return {
        "refused/epsilon": _pca(epsilon=0.0, bounds=(-4, 6)),
        "refused/delta": _pca(delta=1.0, bounds=(-4, 6)),
        "pca/delta_large": _pca(delta=0.5, bounds=(-4, 6)),
        "refused/components": _pca(n_components=7, bounds=(-4, 6)),
        "refused/components_share": _pca(n_components=1.5, bounds=(-4, 6)),
        "refused/mechanism": _pca(mechanism="nobody", bounds=(-4, 6)),
        "refused/mechanism_option": _pca(mechanism="laplace", mechanism_options={"scale": 1.0}, bounds=(-4, 6)),
        "refused/unsound": _pca(mechanism="wishart", mechanism_options={"calibration": "paper"}, bounds=(-4, 6)),
        "refused/inexact": _pca(mechanism="ppca", norm_bound=5.0, center=False),
        "refused/statistic": _pca(statistic="ranks"),
        "refused/adjacency": _pca(adjacency="nearby"),
        "refused/bounds": _pca(bounds=(6, -4)),
        "refused/norm": _pca(norm_bound=-1.0),
        "refused/gaussian_pure": _pca(mechanism="gaussian", bounds=(-4, 6)),
        "refused/seed": _pca(bounds=(-4, 6), random_state=-1),
        "refused/scaler_without_bounds": _other("PrivateScaler"),
        "refused/ridge_without_target": _other("PrivateRidge", bounds=(-4, 6)),
        "refused/unit_column": {**_pca("visits", bounds=(-8, 8), privacy_unit="nobody"), "source_kind": "pandas"},
        "refused/unit_weight": {
            **_pca("visits", bounds=(-8, 8), privacy_unit="who", unit_weight="none"),
            "source_kind": "pandas",
        },
        "refused/text": {**_pca("raw", bounds=(-8, 8)), "source_kind": "pandas"},
        "refused/stages": _pca(stages=3, bounds=(-4, 6)),
        "refused/local_norm": {**_other("LocalPCA", "local")},
        "refused/local_mechanism": {**_other("LocalPCA", "local", norm_bound=2.0, mechanism="laplace")},
        "refused/ledger_seeded": _pca(bounds=(-4, 6), ledger=3),
    }


def packages(configuration: dict) -> list[str]:
    """Return the extras that a configuration needs."""
    kind = configuration.get("source_kind", "")
    found = ["dask"] if kind.startswith("dask") else ["pyarrow"] if kind in ("parquet", "feather", "arrow") else []
    return [*found, *(["cryptography"] if configuration["call"] == "federated_round" else [])]


CONFIGURATIONS: dict[str, dict] = {
    **_by_mechanism(),
    **_by_statistic(),
    **_by_source(),
    **_by_unit(),
    **_by_estimator(),
    **_elsewhere(),
    **_refused(),
}
