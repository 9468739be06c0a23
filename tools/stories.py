"""Who needs what: one story for each thing that a user does, a few lines that really run.

python tools/stories.py                run all stories; a failure ends with 1
python tools/stories.py --only TEXT    run the stories whose name or sentence has the text
python tools/stories.py --unreached    list the functions that no story and no test of `TESTS` reaches, with the reasons
python tools/stories.py --size         statements, functions, modules, lines, records and riddles of each package
python tools/stories.py --walk         modules and functions of one fit

Code that no story, no refusal and no test of a distribution needs goes. `UNREACHED` says why a function stays though
nothing here reaches it.
"""

import argparse
import contextlib
import copy
import functools
import importlib
import inspect
import json
import os
import pickle
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import reach
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

import eigenveil as ev
from eigenveil import metrics, theory
from eigenveil.audit import audit
from eigenveil.cli import app
from eigenveil.errors import BudgetError
from eigenveil.mechanisms import MECHANISMS
from eigenveil.tables import draft_schema, open_table, open_with_engine, second_moments
from eigenveil.tables.schema import Column

ROOT = reach.ROOT

# Tests of refusals and of distributions, whose reach counts beside that of the stories.
TESTS = ("tests/statistical", "tests/privacy", "tests/contract", "tests/cli/test_mistakes.py")

# Functions that nothing above reaches, and why they stay: a pattern of their dotted names.
IMPORTED = "runs while its module is imported: a decorator, a table or a lazy name"
NUMPY = "the NumPy reference, which machines without a compiler run and tests compare with C"
OTHERS = "what a mechanism of somebody else has, who does not override it"
REFUSAL = "a refusal or error that only its own test brings about"
ODD_TABLE = "a kind of table or column beside those of the stories, with tests of its own"
UNREACHED: dict[str, str] = {
    ".lazily*": IMPORTED,
    "cli.commands._group": IMPORTED,
    "cli.options.with_options*": IMPORTED,
    "errors.own_words": IMPORTED,
    "estimators.base.one_thread": IMPORTED,
    "estimators.base.names_unknown_parameters": IMPORTED,
    "estimators.base.available_where.*": IMPORTED,
    "estimators.base.ReleaseAttribute.__init__": IMPORTED,
    "estimators.pca._with_known_noise": IMPORTED,
    "estimators.ridge._of_each_target": IMPORTED,
    "numerics.OneBlasThread.__init__": IMPORTED,
    "sampling.lazy._tables": IMPORTED,
    "moments.numpy_kernels.*": NUMPY,
    "mechanisms.additive.AdditiveMechanism.log_density": OTHERS,
    "mechanisms.base.*": OTHERS,
    "accounting.ledger.LedgerFile._unreadable": REFUSAL,
    "cli.tables._position": REFUSAL,
    "estimators.base._check_rows_in_order": REFUSAL,
    "estimators.base.ReleaseAttribute.__set__": REFUSAL,
    "federation.contributions.ContributionError.__init__": REFUSAL,
    "sampling.randomness.SecureGenerator._refuse_copy": REFUSAL,
    "tables.base.raise_failure": REFUSAL,
    "tables.frames._same_name": REFUSAL,
    "tables.sql.SqlSource.mapped": REFUSAL,
    "tables.base.EngineSource.batches": REFUSAL,
    "moments.comparisons.ChosenRows.*": "sums of comparisons that engines made in parts",
    "moments.counts.*.__add__": "sums of counts that engines made in parts",
    "moments.bound.MappedBound.__eq__": "two parts of mapped rows are added if their bounds are equal",
    "moments.kernels.RowsByColumn.*": "columns that lie apart, sent to another process",
    "moments.units.*": "persons with more rows than a block holds",
    "tables.arrays.*.column": ODD_TABLE,
    "tables.frames.ColumnsReader.*": ODD_TABLE,
    "tables.identifiers.*": ODD_TABLE,
    "tables.spark.*": ODD_TABLE,
    "tables.schema.Schema.without": ODD_TABLE,
    "tables.text.TextFile.__getstate__": "a table that is sent to another process keeps none of its parsed rows",
    "tables.text.CsvFile._numbers": "the CSV reader without PyArrow, which `eigenveil demo` needs in a small install",
    "cli.ledger.ask": "the question before a spend, which needs a terminal",
    "cli.tables._fields": "the JSON of `eigenveil schema`",
    "report.plots.new_figure.NotebookFigure._repr_png_": "asked for by a notebook",
    "interop.flower.*": "the story inside Flower, which is skipped where flwr is missing",
    "postprocess.*": "matrices of other widths than those of the stories, with tests of their accuracy",
    "mechanisms.federated.*": "facts of a federated mechanism that its tests compare with simulation",
    "mechanisms.local.*": "facts of local mechanisms that tests and audits compare with simulation",
    "mechanisms.wishart.Wishart.noise_scale": "a fact of the table of mechanisms",
    "estimators.forecast._epsilon_factor": "a target that no epsilon of the grid meets",
    "estimators.fit.FitCount.__copy__": "copies of an estimator share its count",
    "guarantee.chance": "how a small delta is said in words",
}


class Skip(Exception):  # noqa: N818
    """A story cannot run on this machine; the message says why."""


@dataclass(frozen=True)
class Story:
    """What a user does, as a sentence and as code, and the tests that own it."""

    who: str
    run: Callable[[], object]
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.run.__name__


STORIES: list[Story] = []


def story(who: str, does: str, *tests: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Add a function to the stories; `tests` are paths below `tests/`."""

    def added(run: Callable[[], object]) -> Callable[[], object]:
        STORIES.append(Story(f"{who} {does}", run, tests))
        return run

    return added


def needs(*modules: str) -> None:
    """Skip a story where an optional package is missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as missing:
            raise Skip(f"{module} is not installed ({missing})") from None


NAMES = ["age", "pulse", "mass", "height"]
RANGES = {"age": (0, 120), "pulse": (30, 200), "mass": (0, 200), "height": (50, 230)}


@functools.cache
def numbers(n: int = 4_000) -> Any:
    """Return rows of four measurements, in the order of `NAMES`."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(n, 1)) * [12, 6, 9, 8]
    return np.clip(common + rng.normal(size=(n, 4)) * [5, 4, 4, 2] + [50, 75, 72, 170], 1, 199)


def frame() -> Any:
    return pd.DataFrame(numbers(), columns=NAMES)


def people() -> Any:
    """Return a frame with text, dates, missing values and several rows per person."""
    rng = np.random.default_rng(1)
    table = frame()
    table["smoker"] = rng.choice(["yes", "no"], len(table))
    table["ward"] = rng.choice(["A", "B", "C"], len(table))
    table["visit"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, len(table)), unit="D")
    table["patient"] = [f"p{number}" for number in rng.integers(0, 800, len(table))]
    table.loc[::10, "mass"] = np.nan
    return table


def schema(**mass: Any) -> Any:
    columns = [Column(name, range=ends, **(mass if name == "mass" else {})) for name, ends in RANGES.items()]
    columns += [Column("smoker", "boolean"), Column("ward", "category", categories=("A", "B", "C"))]
    columns += [Column("visit", "date", range=("2023-01-01", "2026-12-31")), Column("patient", "ignored")]
    return ev.Schema(tuple(columns), declared_by="Registry office")


@functools.cache
def covariance_release() -> Any:
    return ev.PrivateCovariance(epsilon=5.0, bounds=RANGES).fit(frame()).release_


@functools.cache
def pca_release() -> Any:
    return ev.PrivatePCA(2, epsilon=5.0, bounds=RANGES, standardize=True).fit(frame()).release_


def command(*words: object, code: int = 0) -> str:
    """Run a command in this process, and return its standard output."""
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exit_code != code:
        raise AssertionError(f"exit code {result.exit_code}: {result.output}") from result.exception
    return result.stdout


def same_bits(first: Any, second: Any) -> None:
    assert all(np.array_equal(values, second.integers[name]) for name, values in first.integers.items())


SCIENTIST = "As a data scientist, I"


@story(SCIENTIST, "fit PCA on a raw array and read variances and angles.", "estimators/test_raw_tables.py")
def pca_raw_array() -> None:
    model = ev.PrivatePCA(2, epsilon=1.0).fit(numbers())
    assert model.components_.shape == (2, 4)
    assert model.explained_variance_interval_.shape == (2, 2)
    assert "1-DP" in str(model.guarantee_)
    print(model.above_noise_, model.angle_bound_, model.mean_, model.plan(4, 4_000), model.summary())


@story(SCIENTIST, "standardize a table of different units, with bounds and without.", "estimators/test_estimators.py")
def standardize() -> None:
    bounded = ev.PrivatePCA(2, epsilon=2.0, bounds=RANGES, standardize=True).fit(frame())
    raw = ev.PrivatePCA(2, epsilon=2.0, standardize=True).fit(np.tile(numbers(), (10, 1)))
    assert bounded.scale_.shape == raw.scale_.shape == (4,)


@story(SCIENTIST, "map rows to components and back.", "estimators/test_transform.py")
def transform_and_back() -> None:
    model = ev.PrivatePCA(4, epsilon=10.0, bounds=RANGES)
    scores = model.fit_transform(frame())
    assert np.allclose(model.inverse_transform(scores), numbers())
    again = pickle.loads(pickle.dumps(copy.copy(model)))
    assert np.array_equal(again.transform(frame()), scores)
    print(model.score(frame()), model.get_covariance(), model.get_precision(), model.get_feature_names_out())


@story(SCIENTIST, "ask for a share of the variance, or for what is above the noise.", "estimators/test_estimators.py")
def number_of_components() -> None:
    assert 1 <= ev.PrivatePCA(0.8, epsilon=5.0, bounds=RANGES).fit(frame()).n_components_ <= 4
    assert ev.PrivatePCA("above_noise", epsilon=5.0, bounds=RANGES).fit(frame()).above_noise_.all()


@story(SCIENTIST, "fit a pandas frame with text, dates and missing values by a schema.", "estimators/test_schema.py")
def pandas_with_schema() -> None:
    for rule in ("middle", "indicator", "75"):
        model = ev.PrivatePCA(2, epsilon=1.0, schema=schema(missing=rule)).fit(people())
        assert model.transform(people()).shape == (4_000, 2)
    assert "ward=B" in model.feature_names_in_


@story(SCIENTIST, "choose columns and categories of a frame without a schema.", "tables/test_encoder.py")
def columns_and_categories() -> None:
    rows = open_table(people(), columns=["age", "smoker"], categories={"smoker": ["yes", "no"]})
    model = ev.PrivateCovariance(epsilon=1.0, bounds=([0, 0, 0], [120, 1, 1])).fit(rows)
    assert list(model.feature_names_in_) == ["age", "smoker=yes", "smoker=no"]
    filled = open_table(people(), columns=["age", "mass"], missing=75)
    assert ev.PrivateCovariance(epsilon=1.0, norm_bound=250).fit(filled).n_samples_ == 4_000


@story(SCIENTIST, "fit Polars, Arrow and CSR tables and get the bits of the array.", "tables/test_arrays.py")
def containers() -> None:
    model = ev.PrivatePCA(1, epsilon=1.0, norm_bound=300.0, random_state=0)
    expected = model.fit(numbers()).release_
    table = pl.DataFrame(dict(zip(NAMES, numbers().T, strict=True)))
    for rows in (table, table.lazy(), table.to_arrow(), scipy.sparse.csr_array(numbers()), iter([table])):
        same_bits(model.fit(rows).release_, expected)


@story(SCIENTIST, "fit CSV, Parquet, Feather, JSON lines and npy files.", "tables/test_files.py")
def files() -> None:
    table = frame()
    table.to_csv("rows.csv", index=False)
    table.to_csv("more.csv.gz", sep=";", decimal=",", index=False)
    table.to_parquet("rows.parquet")
    table.to_feather("rows.feather")
    table.to_json("rows.jsonl", orient="records", lines=True, double_precision=15)
    np.save("rows.npy", numbers())
    model = ev.PrivatePCA(1, epsilon=1.0, norm_bound=300.0, random_state=0)
    expected = model.fit(numbers()).release_
    for rows in ("rows.csv", "rows.parquet", "rows.feather", "rows.npy", open_table("rows.jsonl", NAMES)):
        same_bits(model.fit(rows).release_, expected)
    same_bits(model.fit(open_table("more.csv.gz", delimiter=";", decimal=",")).release_, expected)
    assert model.fit(["rows.csv", "rows.parquet"]).n_samples_ == 8_000
    compressed = pyarrow.CompressedOutputStream("rows.csv.zst", "zstd")
    with compressed:
        compressed.write(Path("rows.csv").read_bytes())
    same_bits(model.fit("rows.csv.zst").release_, expected)


@story(SCIENTIST, "put a private step into a pipeline; fits of clones are counted.", "estimators/test_pipelines.py")
def pipelines() -> None:
    scaled = make_pipeline(ev.PrivateScaler(bounds=([0] * 4, [230] * 4)), ev.PrivatePCA(1, norm_bound=4.0))
    assert scaled.fit_transform(numbers()).shape == (4_000, 1)
    model = make_pipeline(FunctionTransformer(np.log1p), ev.PrivatePCA(1, epsilon=1.0, bounds=(0, 6))).fit(numbers())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(model).fit(numbers())
    assert any("fit" in str(one.message) for one in caught)


@story(SCIENTIST, "fit in batches, and merge moments that were made apart.", "moments/test_second_moments.py")
def batches_and_moments() -> None:
    model = ev.PrivatePCA(1, epsilon=1.0, norm_bound=300.0, center=False)
    for batch in np.array_split(numbers(), 3):
        model.partial_fit(batch)
    model.fit_moments()
    bound = ev.RowBound(300.0)
    merged = ev.SecondMoments(bound, 4).update(numbers()[:100]) + ev.SecondMoments(bound, 4).update(numbers()[100:])
    assert merged == second_moments(numbers(), bound)
    print(merged)
    ev.release(MECHANISMS["matrix_laplace"](epsilon=1.0, n_features=4), merged)


@story(SCIENTIST, "give rows public weights, as of a survey.", "estimators/test_estimators.py")
def public_weights() -> None:
    weights = np.linspace(0.5, 1, 4_000)
    for model in (ev.PrivatePCA(1, bounds=RANGES), ev.PrivateCovariance(bounds=RANGES, delta=1e-6)):
        assert model.fit(frame(), sample_weight=weights).n_samples_ == 4_000


@story(SCIENTIST, "see a fit in a notebook, and plot it.", "releases/test_notebook.py", "report/test_plots.py")
def notebook_and_plots() -> None:
    needs("matplotlib")
    from eigenveil.report import plots

    model = ev.PrivatePCA(2, epsilon=5.0, bounds=RANGES).fit(frame())
    assert "<" in model._repr_html_()
    assert "<" in ev.PrivatePCA(2)._repr_html_()
    assert "<" in ev.PrivateRidge(target="age", epsilon=5.0, bounds=RANGES).fit(frame())._repr_html_()
    for draw in (plots.scree, plots.explained_variance, plots.loadings, plots.loading_errors):
        draw(model.release_).savefig("figure.png")
    plots.correlations(covariance_release(), fdr=0.05).savefig("correlations.png")
    plots.score_map(ev.score_map(frame(), pca_release(), epsilon=1.0)).savefig("scores.png")
    assert "<" in model.plan(4)._repr_html_()
    assert "<" in model.release_.compare(model.release_)._repr_html_()
    assert "<" in ev.score_map(frame(), pca_release(), epsilon=1.0)._repr_html_()
    print(repr(model), repr(model.release_), covariance_release().summary().to_html())


@story(SCIENTIST, "choose the kind of rows: clipped, normalized, signs, Kendall.", "estimators/test_raw_tables.py")
def kinds_of_rows() -> None:
    for statistic in ("clipped", "normalized", "spatial_sign", "kendall"):
        asked = {"center": statistic != "normalized", "standardize": statistic == "kendall"}
        model = ev.PrivatePCA(1, epsilon=5.0, statistic=statistic, **asked)
        print(model.fit(np.tile(numbers(), (5, 1))).summary())
    ranks = ev.PrivateCovariance(epsilon=5.0, statistic="kendall", standardize=True).fit(np.round(numbers() / 20))
    assert ranks.release_.intervals.correlation_tests(fdr=0.05, of="population").rejected.shape == (4, 4)


@story(SCIENTIST, "spend a delta: two passes, a pilot estimate, less noise.", "estimators/test_stages.py")
def delta() -> None:
    rng = np.random.default_rng(2)
    steep = rng.normal(size=(20_000, 20)) * 0.7 ** np.arange(20) + 3
    for stages in ("auto", 1, 2):
        ev.PrivatePCA(3, epsilon=1.0, delta=1e-6, norm_bound=14.0, stages=stages).fit(steep)
    raw = ev.PrivatePCA(3, epsilon=3.0, delta=1e-6).fit(steep)
    assert raw.guarantee_.delta == 1e-6
    ev.PrivateCovariance(epsilon=1.0, delta=1e-6, bounds=(-10, 10)).fit(steep)


@story(SCIENTIST, "fit a table that is wider than long, and one with few used columns.", "estimators/test_screening.py")
def wide_tables() -> None:
    rng = np.random.default_rng(3)
    ev.PrivatePCA(1, epsilon=5.0, norm_bound=20.0).fit(rng.normal(size=(150, 200)))
    print(ev.PrivatePCA(2, epsilon=5.0, norm_bound=40.0).fit(rng.normal(size=(2_000, 600))).summary())
    sparse = rng.normal(size=(3_000, 120)) * (np.arange(120) < 5)
    ev.PrivatePCA(2, epsilon=1.0, norm_bound=4.0, center=False).fit(sparse)


@story(SCIENTIST, "hide whether a person took part: add-or-remove neighbours.", "estimators/test_known_rows.py")
def add_or_remove() -> None:
    asked = {"epsilon": 2.0, "adjacency": "add_or_remove_one"}
    for spend in ({}, {"delta": 1e-6}):
        model = ev.PrivatePCA(1, bounds=RANGES, **asked, **spend).fit(frame())
        assert abs(model.n_samples_ - 4_000) < 400
    ev.PrivatePCA(1, **asked).fit(np.tile(numbers(), (10, 1)))
    ev.PrivateCovariance(privacy_unit="patient", bounds=RANGES, **asked).fit(people()[[*NAMES, "patient"]].fillna(70))


# Persons as units


@story(SCIENTIST, "protect a person with several rows, by averages or pooled.", "estimators/test_privacy_units.py")
def persons() -> None:
    table = people()[["age", "pulse", "patient"]]
    for weight in ("equal", "by_rows"):
        asked = {"epsilon": 1.0, "privacy_unit": "patient", "unit_weight": weight}
        model = ev.PrivatePCA(1, bounds={"age": (0, 120), "pulse": (30, 200)}, **asked).fit(table)
        assert model.n_samples_ == table["patient"].nunique()
        ev.PrivatePCA(1, delta=1e-6, norm_bound=250.0, **asked).fit(table)
    ev.PrivatePCA(1, epsilon=1.0).fit(numbers(), privacy_unit=np.arange(4_000) // 3)


@story(SCIENTIST, "name the person's column of frames, files and streams.", "tables/test_privacy_units.py")
def persons_in_files() -> None:
    table = people()[["age", "pulse", "patient"]]
    table.to_csv("visits.csv", index=False)
    table.to_parquet("visits.parquet")
    asked = {"bounds": {"age": (0, 120), "pulse": (30, 200)}, "privacy_unit": "patient"}
    model = ev.PrivateCovariance(epsilon=1.0, random_state=0, **asked)
    expected = model.fit(table).release_
    for rows in ("visits.csv", "visits.parquet", pl.from_pandas(table), iter([table[:900], table[900:]])):
        same_bits(model.fit(rows).release_, expected)
    small = open_table("visits.csv", privacy_unit="patient", memory=100_000)
    same_bits(model.fit(small).release_, expected)


ANALYST = "As an analyst, I"


@story(ANALYST, "publish covariances and correlations with intervals.", "releases/test_summary.py")
def correlation_table() -> None:
    release = covariance_release()
    summary = release.summary()
    assert "\\begin" in summary.to_latex()
    print(summary, summary.to_json(), summary.to_frame())
    low, high = release.intervals.correlation()[0, 1]
    assert low <= release.correlation[0, 1] <= high
    release.intervals.correlation(of="population")
    print(release.intervals.correlation_tests(fdr=0.05).rejected)


@story(ANALYST, "regress any column on others from one release, at no further cost.", "releases/test_regression.py")
def regression() -> None:
    release = covariance_release()
    fit = release.regress("mass", features=["age", "height"])
    assert fit.coef_interval.shape == (2, 2)
    print(fit.contrast({"age": 1.0, "height": -1.0}), fit.distinguishable, fit.resolved_share, fit.dropped)
    model = ev.PrivateCovariance(epsilon=5.0, bounds=RANGES).fit(frame())
    print(model.regress("mass"), model.summary(), model.error_norm(np.cov(numbers().T)))
    assert model.get_precision().shape == (4, 4)
    assert model.mahalanobis(frame()).shape == (4_000,)
    table = release.summary("mass", ["age", "height"])
    print(fit, table, table.to_latex(), release.regress("mass", features=["age"], alpha=1.0).r2_interval)
    print(release.summary(["mass", "pulse"], ["age"]))


@story(ANALYST, "compare levels of a category with a base level of my choice.", "releases/test_summary.py")
def regression_on_categories() -> None:
    declared = schema(missing="middle")
    release = ev.PrivateCovariance(epsilon=8.0, delta=1e-6, schema=declared).fit(people()).release_
    print(release.summary("pulse", ["age", "ward", "smoker"], base={"ward": "B"}))


@story(ANALYST, "predict one column or several by private ridge regression.", "estimators/test_ridge.py")
def ridge() -> None:
    one = ev.PrivateRidge(target="pulse", epsilon=5.0, bounds=RANGES).fit(frame())
    assert one.predict(frame()[["age", "mass", "height"]]).shape == (4_000,)
    several = ev.PrivateRidge(target=["pulse", "mass"], epsilon=5.0, bounds=RANGES).fit(frame())
    assert several.coef_.shape == (2, 2)
    print(one.summary(), several.summary(), one.score(frame()[["age", "mass", "height"]], frame()["pulse"]))
    ev.PrivateRidge(0.1, epsilon=1.0, fit_intercept=False, norm_bound=400.0).fit(numbers()[:, 1:], numbers()[:, 0])
    ev.PrivateRidge(epsilon=1.0, bounds=RANGES).fit(frame()[["age", "mass", "height"]], frame()["pulse"])


@story(ANALYST, "find components that use few columns.", "postprocess/test_fantope.py")
def sparse_pca() -> None:
    rng = np.random.default_rng(4)
    rows = np.outer(rng.normal(size=4_000), np.arange(30) < 4) + 0.1 * rng.normal(size=(4_000, 30))
    model = ev.PrivateSparsePCA(1, epsilon=2.0, norm_bound=5.0).fit(rows)
    assert model.support_.size <= 30


@story(ANALYST, "get discriminants, canonical correlations and factors.", "releases/test_multivariate.py")
def multivariate() -> None:
    release = ev.PrivateCovariance(epsilon=10.0, delta=1e-6, schema=schema(missing="middle")).fit(people()).release_
    print(release.lda(["ward=A", "ward=B", "ward=C"], NAMES))
    discriminant = release.lda("smoker", NAMES)
    print(discriminant, discriminant.predict(numbers()), discriminant.transform(numbers()))
    print(release.cca(["age", "pulse"], ["mass", "height"]), covariance_release().factor_analysis(1))
    print(covariance_release().mahalanobis(frame())[:3], pca_release().whiten(frame())[:3])


@story(ANALYST, "scale columns by private means and variances.", "estimators/test_scikit_learn_methods.py")
def scaler() -> None:
    model = ev.PrivateScaler(epsilon=5.0, bounds=RANGES).fit(frame())
    assert np.allclose(model.inverse_transform(model.transform(frame())), numbers())


@story(ANALYST, "release a histogram of scores, also by groups and by persons.", "releases/test_score_map.py")
def score_maps() -> None:
    one = ev.score_map(frame(), pca_release(), epsilon=1.0)
    one.save("scores.npz")
    assert np.array_equal(ev.load_score_map("scores.npz").counts, one.counts)
    release = ev.PrivatePCA(2, epsilon=5.0, schema=schema(missing="middle")).fit(people()).release_
    groups = ev.score_map(people(), release, epsilon=1.0, delta=1e-6, groups="ward", bins=10)
    assert groups.counts.shape[0] >= 3


@story(ANALYST, "draw synthetic rows from a release.", "releases/test_multivariate.py")
def synthetic_rows() -> None:
    assert covariance_release().sample(10).shape == (10, 4)
    release = ev.PrivateCovariance(epsilon=5.0, schema=schema(missing="middle")).fit(people()).release_
    assert "ward" in release.sample_table(10)


@story(ANALYST, "compare the releases of two years.", "releases/test_views.py")
def compare() -> None:
    other = ev.PrivatePCA(2, epsilon=5.0, bounds=RANGES, standardize=True).fit(frame().iloc[::2]).release_
    assert 0 <= pca_release().compare(other).angle <= 90


@story(ANALYST, "plan a fit, its accuracy and the number of rows.", "estimators/test_forecast.py")
def plan_and_forecast() -> None:
    print(ev.PrivatePCA(2, epsilon=1.0).plan(4, 4_000), ev.PrivateCovariance(bounds=RANGES).plan(4, 4_000))
    found = ev.forecast(ev.PrivatePCA(1, epsilon=1.0), n_features=5, n_rows=2_000, repeats=3)
    print(found, found.rows_for(0.2), found.epsilon_for(0.2), found.against_rows(), found.against_epsilon())
    print(found.to_dict(), found._repr_html_())
    print(ev.forecast(ev.PrivatePCA(1, norm_bound=1.0), n_features=784, n_rows=60_000, repeats=2))  # to first order


CUSTODIAN = "As a custodian, I"


@story(CUSTODIAN, "draft a schema, confirm it, release, save and load.", "tables/test_schema.py")
def schema_to_release() -> None:
    draft = draft_schema(people())
    assert draft.draft
    draft.save("draft.yaml")
    schema(missing="middle").save("schema.yaml")
    declared = ev.Schema.load("schema.yaml").confirmed()
    model = ev.PrivateCovariance(epsilon=1.0, schema=declared).fit(people())
    model.release_.save("table.npz")
    same_bits(ev.load_release("table.npz"), model.release_)


@story(CUSTODIAN, "take other results from a release file.", "releases/test_views.py")
def results_of_a_release() -> None:
    covariance_release().save("all.npz")
    release = ev.load_release("all.npz")
    for asked in (2, 0.9, "above_noise"):
        print(release.pca(asked).summary())
    assert release.pca(2, correlation=True).transform(frame()).shape == (4_000, 2)
    assert ev.PrivatePCA.from_release(pca_release()).components_.shape == (2, 4)
    print(release, release.mechanism, release.noise_sd, release.mean, release.n_rows)


@story(CUSTODIAN, "hand a release to scikit-learn, to JSON and to ONNX.", "releases/test_views.py")
def exports() -> None:
    assert np.allclose(pca_release().to_sklearn().transform(numbers()), pca_release().transform(numbers()))
    assert '"integers"' in pca_release().to_json()
    needs("onnx")
    assert pca_release().to_onnx()


OFFICER = "As an officer, I"


@story(OFFICER, "read a report, its record and that for a registry.", "report/test_page.py", "report/test_registry.py")
def report_page() -> None:
    from eigenveil.report import Statement, registry_record, report_record, write_registry, write_report

    statement = Statement(purpose="Planning", responsible="Registry office")
    both = ev.PrivatePCA(1, epsilon=1.0, delta=1e-6, bounds=RANGES).fit(frame()).release_
    write_report(both, "delta.html")
    for release in (pca_release(), covariance_release()):
        write_report(release, f"{release.origin.estimator}.html", statement=statement)
    assert report_record(pca_release())
    assert registry_record(pca_release())
    write_registry(pca_release(), "registry.yaml")


@story(OFFICER, "see every spend in a ledger, and it refuses the one beyond the budget.", "accounting/test_ledger.py")
def ledger() -> None:
    book = ev.PrivacyLedger.create("study.ledger", epsilon=2.0, data_set="visits")
    model = ev.PrivatePCA(1, epsilon=1.5, bounds=RANGES, ledger=book).fit(frame())
    assert ev.PrivacyLedger("study.ledger").remaining[0] == 0.5
    try:
        model.fit(frame())
    except BudgetError as refusal:
        print(refusal)
    else:
        raise AssertionError("spent beyond the budget")
    assert len(ev.PrivacyLedger("study.ledger").entries()) == 1


@story(OFFICER, "count Gaussian releases of persons as zCDP.", "accounting/test_ledger.py")
def ledger_zcdp() -> None:
    asked = {"epsilon": 5.0, "delta": 1e-5, "composition": "zcdp", "unit": "person", "data_set": "visits"}
    book = ev.PrivacyLedger.create("persons.ledger", **asked)
    table = people()[["age", "pulse", "patient"]]
    model = ev.PrivateCovariance(epsilon=0.5, delta=1e-6, norm_bound=250.0, privacy_unit="patient", ledger=book)
    model.fit(table).fit(table)
    print(book, book.spent, book.remaining_rho, book.seal)


SITE = "As one of several custodians, I"


@story(SITE, "release together with others by files.", "federation/test_rounds.py")
def federation_by_files() -> None:
    needs("cryptography")
    from eigenveil.federation import SiteKeys, combine, contribute, invite

    declared = schema(missing="middle")
    for spend in ({"delta": 1e-6}, {}):
        draft = invite(ev.PrivatePCA(1, epsilon=1.0, schema=declared, **spend), ["north", "south", "east"], quorum=2)
        keys = {site: SiteKeys.create(site, draft.terms) for site in draft.terms.invited}
        first, *others = (own.join(draft) for own in keys.values())
        agreed = first.close(others)
        folder = Path(f"round{len(spend)}")
        folder.mkdir()
        for number, (site, own) in enumerate(keys.items()):
            own.save(folder / f"{site}.key")
            contribute(agreed, folder / f"{site}.key", people()[number::3], folder / site)
        together = combine(agreed, [folder / site for site in keys])
        assert together.n_rows == 4_000
        print(together.summary())
        assert len(agreed.again(without=["south"]).terms.invited) == 2


@story(SITE, "take part inside Flower.", "federation/test_flower.py")
def federation_in_flower() -> None:
    needs("cryptography", "flwr")
    from eigenveil.federation import invite
    from eigenveil.interop.flower import client_app, server_app

    draft = invite(ev.PrivatePCA(1, epsilon=1.0, delta=1e-6, schema=schema(missing="middle")), ["north", "south"])
    server_app(draft, "flower.npz")
    client_app(lambda context: "north", lambda context: people(), folder="keys", confirm=lambda agreed: False)


ENGINEER = "As a platform engineer, I"


@story(ENGINEER, "fit Dask arrays and frames where they are, with the same bits.", "tables/test_dask.py")
def dask() -> None:
    needs("dask", "pyarrow")
    import dask.array
    import dask.dataframe

    model = ev.PrivatePCA(1, epsilon=1.0, norm_bound=300.0, random_state=0)
    expected = model.fit(numbers()).release_
    frame().to_parquet("people.parquet")
    tables = (dask.array.from_array(numbers(), (700, 3)), dask.dataframe.from_pandas(frame(), npartitions=3))
    for rows in (*tables, open_with_engine(["people.parquet"], "dask")):
        same_bits(model.fit(rows).release_, expected)
    model.transform(tables[1]).compute()
    frame().to_csv("people.csv", index=False)
    same_bits(model.fit(open_with_engine(["people.csv"], "dask")).release_, expected)
    persons = dask.dataframe.from_pandas(people()[["age", "pulse", "patient"]], npartitions=3)
    ev.PrivatePCA(1, epsilon=1.0, bounds=(0, 200), privacy_unit="patient").fit(persons)


@story(ENGINEER, "fit Spark frames where they are, with the same bits.", "tables/test_spark.py")
def spark() -> None:
    needs("pyspark", "pyarrow")
    if shutil.which("java") is None:
        raise Skip("Spark needs Java")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": 2, "spark.log.level": "OFF"}
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        rows = numbers()[:500]
        model = ev.PrivatePCA(1, epsilon=1.0, norm_bound=300.0, random_state=0)
        table = session.createDataFrame(rows.tolist(), NAMES).repartition(3)
        same_bits(model.fit(table).release_, model.fit(rows).release_)
        model.transform(table).count()
        pd.DataFrame(rows, columns=NAMES).to_parquet("people.parquet")
        pd.DataFrame(rows, columns=NAMES).to_csv("people.csv", index=False)
        for path in ("people.parquet", "people.csv"):
            same_bits(model.fit(open_with_engine([path], "spark")).release_, model.fit(rows).release_)
        whose = [(f"p{number % 90}", *row) for number, row in enumerate(rows.tolist())]
        persons = session.createDataFrame(whose, ["who", *NAMES])
        ev.PrivatePCA(1, epsilon=1.0, bounds=RANGES, privacy_unit="who").fit(persons)
    finally:
        session.stop()


@story(ENGINEER, "fit the rows of a query, and streams of chunks.", "tables/test_streams.py")
def queries() -> None:
    model = ev.PrivateCovariance(epsilon=1.0, bounds=RANGES, random_state=0)
    expected = model.fit(frame()).release_
    connection = duckdb.connect()
    connection.register("people", frame())
    same_bits(model.fit(connection.sql("select * from people")).release_, expected)
    with contextlib.closing(sqlite3.connect("people.db")) as database:
        frame().to_sql("people", database, index=False)
        same_bits(model.fit(pd.read_sql("select * from people", database, chunksize=700)).release_, expected)


def visits() -> Any:
    return frame().assign(who=np.arange(4_000) // 3)


def fit_inside(backend: Any) -> None:
    """Fit rows and persons inside a database, which holds the table `visits`."""
    rows, inside = visits(), backend.table("visits")
    model = ev.PrivatePCA(1, epsilon=1.0, bounds=RANGES, random_state=0, stages=1)
    same_bits(model.fit(inside[NAMES]).release_, model.fit(rows[NAMES]).release_)
    model.set_params(privacy_unit="who")
    same_bits(model.fit(inside).release_, model.fit(rows).release_)


@story(ENGINEER, "let DuckDB compute the sums of rows that may not leave.", "tables/test_sql.py")
def sums_in_duckdb() -> None:
    needs("ibis", "duckdb")
    import ibis

    backend = ibis.duckdb.connect()
    backend.con.register("rows", visits())
    backend.con.execute("create table visits as select * from rows")
    fit_inside(backend)


@story(ENGINEER, "let SQLite compute the sums.", "tables/test_sql.py")
def sums_in_sqlite() -> None:
    needs("ibis")
    import ibis

    backend = ibis.sqlite.connect()
    visits().to_sql("visits", backend.con, index=False)
    fit_inside(backend)


@story(ENGINEER, "let PostgreSQL compute the sums.", "tables/test_sql.py")
def sums_in_postgresql() -> None:
    needs("ibis", "psycopg")
    import ibis

    sys.path.append(str(ROOT / "tests"))
    from tables.postgres_server import binaries, server

    if binaries() is None:
        raise Skip("no PostgreSQL server is installed")
    with server() as socket:
        backend = ibis.postgres.connect(host=str(socket), user="tester", database="postgres")
        backend.create_table("visits", visits())
        fit_inside(backend)
        backend.disconnect()


TELEMETRY = "As a telemetry team, we"


@story(TELEMETRY, "collect noisy reports and release directions without raw rows.", "local/test_server.py")
def local_collection() -> None:
    from eigenveil.local import Aggregate, LocalProtocol, aggregate, encode, encode_many, shuffled_guarantee

    rng = np.random.default_rng(5)
    for name in ("double_cap", "one_bit", "gaussian"):
        budget = {"epsilon": 4.0, "delta": 1e-6 if name == "gaussian" else 0.0}
        protocol = LocalProtocol(n_features=5, norm_bound=3.0, mechanism=name, **budget)
        protocol.save("protocol.json")
        assert LocalProtocol.load("protocol.json") == protocol
        reports = [encode(protocol, np.ones(5)), *encode_many(protocol, rng.normal(size=(500, 5)))]
        aggregate(protocol, reports[:200]).save("morning.npz")
        total = Aggregate.load("morning.npz") + aggregate(protocol, pd.DataFrame({"report": reports[200:]}))
        assert total.release(n_components=1).n_rows == 501
        print(protocol, total)
    print(shuffled_guarantee(LocalProtocol(5, epsilon=1.0), 100_000))


@story(TELEMETRY, "simulate a collection before I start one.", "estimators/test_local_pca.py")
def local_simulation() -> None:
    from eigenveil.local import LocalProtocol, simulate

    rows = np.random.default_rng(6).normal(size=(3_000, 6)) * [2, 1, 0.3, 0.3, 0.3, 0.3]
    protocol = LocalProtocol(6, epsilon=4.0, norm_bound=3.0)
    print(protocol.mechanism, simulate(protocol, rows).components)
    for model in (ev.LocalPCA(1, epsilon=4.0, norm_bound=3.0), ev.LocalSparsePCA(1, epsilon=4.0, norm_bound=3.0)):
        assert model.fit(rows).transform(rows).shape == (3_000, 1)


RESEARCHER = "As a researcher, I"
AUDITOR = "As an auditor, I"
R_USER = "As a user of R, I"


def unit_rows() -> Any:
    rows = np.random.default_rng(7).normal(size=(3_000, 4)) * [1, 0.7, 0.4, 0.2]
    return rows / np.linalg.norm(rows, axis=1).max()


def paper(mechanism: str, k: int = 1, options: Any = None, **budget: float) -> Any:
    """Fit a mechanism of a paper as published, and score it by the utilities of the papers."""
    asked = {"calibration": "paper", "accept_inexact": True} if options is None else options
    model = ev.PrivatePCA(k, center=False, norm_bound=1.0, mechanism=mechanism, mechanism_options=asked, **budget)
    model.fit(unit_rows())
    second = unit_rows().T @ unit_rows() / 3_000
    print(model.guarantee_, model.guarantee_.claimed, metrics.captured_variance(second, model.components_))
    return model


@story(RESEARCHER, "repeat MOD-SULQ and PPCA of Chaudhuri, Sarwate and Sinha.", "statistical/test_bingham.py")
def chaudhuri() -> None:
    paper("mod_sulq", epsilon=1.0, delta=1e-6, options={})
    paper("mod_sulq", epsilon=1.0, delta=1e-6, options={"beta": "root"})
    paper("ppca", epsilon=1.0)
    paper("ppca", epsilon=1.0, options={})
    paper("ppca", 2, epsilon=1.0)


@story(RESEARCHER, "repeat the Wishart and Laplace mechanisms of Jiang, Xie and Zhang.", "statistical/test_wishart.py")
def jiang() -> None:
    paper("wishart", epsilon=1.0, delta=1e-6, options={})
    paper("wishart", epsilon=1.0, options={"calibration": "paper", "allow_unsound": True})
    paper("laplace", epsilon=1.0)


@story(RESEARCHER, "repeat eigenvector sampling of Amin et al.", "statistical/test_eigenvector_sampling.py")
def amin() -> None:
    paper("eigenvector_sampling", 4, epsilon=1.0)
    paper("eigenvector_sampling", 4, epsilon=1.0, options={})
    paper("frobenius", 4, epsilon=1.0)
    paper("gaussian", 4, epsilon=0.5, delta=1e-6)


@story(RESEARCHER, "repeat local PCA and local sparse PCA of Wang and Xu.", "local/test_mechanisms.py")
def wang_xu() -> None:
    for kind in (ev.LocalPCA, ev.LocalSparsePCA):
        model = kind(1, epsilon=1.0, delta=1e-6, mechanism="gaussian_paper", norm_bound=1.0).fit(unit_rows())
        print(model.release_.guarantee)


@story(RESEARCHER, "compare with baselines: no noise, and a random projection.", "contract/test_mechanisms.py")
def baselines() -> None:
    exact, guess = paper("none", 2, options={}), paper("random_projection", 2, options={}, epsilon=1.0)
    print(metrics.subspace_distance(exact.components_, guess.components_))
    print(metrics.correlation(exact.components_[0], guess.components_[0]))


@story(RESEARCHER, "ask the bounds of the papers, and ours, how many rows I need.", "theory/test_bounds.py")
def bounds() -> None:
    facts = {"n_rows": 1e6, "n_features": 40, "n_components": 10, "epsilon": 0.5, "delta": 1e-6, "gap": 0.1}
    facts |= {"correlation": 0.9, "failure_probability": 0.05, "top_eigenvalue": 0.2, "kth_eigenvalue": 0.1}
    facts |= {"next_eigenvalue": 0.05, "sparsity": 30, "degrees": 41, "noise_norm": 0.1, "eigenvalue": 0.2, "copies": 2}
    facts |= {"noise_smallest": -0.1, "noise_largest": 0.1, "radius": 0.1, "height": 0.5, "inner_product": 0.5}
    facts |= {"threshold": 0.5, "conditional_means": [0.2, 0.8], "captured": 0.5, "distance": 0.01, "divergence": 0.1}
    facts |= {"n_densities": 9, "epsilon_0": 0.2, "epsilons": [0.1] * 3, "eigenvalues": [0.5, 0.3, 0.2]}
    facts |= {"mechanism": "matrix_laplace", "a": [1, 0], "b": [0, 1], "covariance": np.eye(2)}
    for name in theory.__all__:
        bound = getattr(theory, name)
        if inspect.isfunction(bound):
            facts["n_components"] = 2 if name == "expected_loss" else 10
            needed = [one.name for one in inspect.signature(bound).parameters.values() if one.default is one.empty]
            print(name, bound(**{word: facts[word] for word in needed}))


@story(AUDITOR, "try to refute a claim; a planted flaw is refuted.", "audit/test_audit.py", "privacy/test_audit.py")
def audit_claims() -> None:
    made = {"epsilon": 1.0, "n_features": 2}
    assert audit(MECHANISMS["laplace"](**made), draws=1_000).verdict == "consistent"
    published = MECHANISMS["wishart"](calibration="paper", allow_unsound=True, **made)
    assert audit(published, delta=1e-3, draws=4_000).verdict == "violation"
    audit(ev.PrivatePCA(1, epsilon=1.0, norm_bound=1.0, center=False, mechanism="ppca"), draws=48)
    audit("local:double_cap", parameters={"n_features": 2, "epsilon": 1.0}, draws=200)


@story(RESEARCHER, "run the experiments of a paper at a small size.", "experiments/test_framework.py")
def experiments() -> None:
    sys.path.append(str(ROOT))
    from experiments.common import run

    for name in ("amin2018", "jiang2016", "wang_xu2019"):
        print(run(name, quick=True, most=1, cache=Path.cwd()))


@story(RESEARCHER, "add a mechanism of my own.", "docs/test_examples.py")
def own_mechanism() -> None:
    runpy.run_path(str(ROOT / "examples" / "new_mechanism.py"), run_name="__main__")


@story(RESEARCHER, "compose releases with OpenDP.", "interop/test_opendp.py")
def opendp() -> None:
    needs("opendp")
    import opendp.prelude as dp

    from eigenveil.interop.opendp import measurement

    dp.enable_features("contrib", "honest-but-curious")
    fit = measurement(ev.PrivatePCA(1, epsilon=0.5, norm_bound=1.0), n_features=4, n_rows=3_000)
    assert fit(unit_rows()).n_features == 4
    assert fit.map(1) <= 0.5 + 1e-9
    both = measurement(ev.PrivatePCA(1, epsilon=0.5, delta=1e-6, norm_bound=1.0), n_features=4, n_rows=3_000)
    assert both.map(2)[1] > 2e-6


@story(RESEARCHER, "account for releases with dp-accounting.", "interop/test_dp_accounting.py")
def dp_accounting() -> None:
    needs("dp_accounting")
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    from eigenveil.interop.dp_accounting import pld_event, rdp_event, relation

    pure = pca_release().guarantee
    assert 5 <= PLDAccountant(relation(pure)).compose(pld_event(pure)).get_epsilon(0.0) < 5.001
    gaussian = ev.PrivatePCA(1, epsilon=1.0, delta=1e-6, norm_bound=300.0, mechanism="gaussian").fit(frame()).guarantee_
    assert RdpAccountant().compose(rdp_event(gaussian), 10).get_epsilon(1e-5) < 5


@story(R_USER, "fit through reticulate.", "docs/test_r.py")
def from_r() -> None:
    if shutil.which("Rscript") is None:
        raise Skip("R is not installed")
    environment = {**os.environ, "EIGENVEIL_PYTHON": sys.executable}
    subprocess.run(["Rscript", str(ROOT / "examples" / "pca.R"), "results"], env=environment, check=True)


SHELL = "On the command line, I"


@story(SHELL, "see a demo on public data.", "cli/test_commands.py")
def cli_demo() -> None:
    assert "Privacy" in command("demo", "--output", "demo")


@story(SHELL, "draft and show a schema, and plan.", "cli/test_schema.py")
def cli_schema_and_plan() -> None:
    people().to_csv("people.csv", index=False)
    command("schema", "people.csv")
    command("schema", "people.yaml")
    command("plan", "--rows", 4_000, "--features", 4, "-k", 1, "--epsilon", 1, "--repeats", 2, "--target-loss", 0.3)
    command("mechanisms")
    command("mechanisms", "--papers", "--json")
    needs("matplotlib")
    small = ("--rows", 400, "--features", 2, "-k", 1, "--epsilon", 1, "--repeats", 2)
    command("plan", *small, "--plot", "plan.png")
    assert json.loads(command("plan", *small, "--json"))["against_rows"]


@story(SHELL, "release components, and look at the release.", "cli/test_fitting.py")
def cli_pca() -> None:
    frame().to_csv("people.csv", index=False)
    command("pca", "people.csv", "-k", 2, "--epsilon", 5, "--standardize", "--bounds", "0:230", "-o", "one.npz")
    command("pca", "people.csv", "-k", 2, "--epsilon", 5, "--standardize", "--json", "-o", "two.npz")
    for words in (("show", "one.npz"), ("show", "one.npz", "--json"), ("summary", "one.npz", "--format", "latex")):
        command(*words)
    command("compare", "one.npz", "one.npz")
    command("scores", "one.npz", "people.csv", "--epsilon", 1, "-o", "scores.npz")
    Path("statement.yaml").write_text("purpose: planning\n", encoding="utf-8")
    command("report", "one.npz", "--scores", "scores.npz", "--statement", "statement.yaml", "--registry", "r.yaml")


@story(SHELL, "read a table from a pipe, and stop with Ctrl-C.", "cli/test_signals.py")
def cli_pipe() -> None:
    words = [sys.executable, "-m", "eigenveil.cli", "covariance", "-", "--epsilon", "5", "--bounds", "0:230"]
    table = frame().to_csv(index=False)
    subprocess.run([*words, "-o", "all.npz"], input=table, text=True, check=True, capture_output=True)
    assert ev.load_release("all.npz").n_rows == 4_000
    with subprocess.Popen([*words, "-o", "none.npz"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        assert waiting.stdin is not None
        waiting.stdin.write(table.encode() * 5)  # more than a pipe holds, so the command reads
        waiting.stdin.flush()
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
    assert not Path("none.npz").exists()


@story(SHELL, "release a covariance matrix, and use it.", "cli/test_showing.py")
def cli_covariance() -> None:
    people().to_csv("people.csv", index=False)
    schema(missing="middle").save("schema.yaml")
    command("covariance", "people.csv", "--schema", "schema.yaml", "--epsilon", 5, "-o", "all.npz")
    command("ridge", "all.npz", "--target", "mass", "-o", "ridge.npz")
    command("summary", "all.npz", "--target", "mass", "--features", "age,ward", "--base", "ward=B")
    command("sample", "all.npz", "-n", 20, "-o", "synthetic.csv")
    command("export", "all.npz", "--to", "json")
    command("report", "all.npz")


@story(SHELL, "release regressions, sparse components and persons.", "cli/test_privacy_units.py")
def cli_other_fits() -> None:
    people()[["age", "pulse", "patient"]].to_csv("visits.csv", index=False)
    frame().to_csv("people.csv", index=False)
    bound = ("--bounds", "0:230", "--epsilon", 5)
    command("ridge", "people.csv", "--target", "mass", "--target", "pulse", *bound, "-o", "ridge.npz")
    command("sparse-pca", "people.csv", "-k", 1, *bound, "-o", "sparse.npz")
    command("pca", "visits.csv", "-k", 1, "--privacy-unit", "patient", *bound, "--dry-run")
    command("pca", "visits.csv", "-k", 1, "--privacy-unit", "patient", *bound, "-o", "persons.npz")
    for name in ("ridge", "sparse", "persons"):
        command("show", f"{name}.npz")


@story(SHELL, "keep a ledger.", "cli/test_ledger.py")
def cli_ledger() -> None:
    frame().to_csv("people.csv", index=False)
    command("ledger", "create", "study.ledger", "--epsilon", 2, "--data-set", "people")
    words = ("pca", "people.csv", "-k", 1, "--epsilon", 1.5, "--bounds", "0:230", "--ledger", "study.ledger")
    command(*words, "-o", "one.npz")
    command(*words, "-o", "two.npz", code=1)
    command("ledger", "check", "study.ledger", "--epsilon", 1, code=1)
    command("ledger", "show", "study.ledger")
    command("ledger", "history", "study.ledger", "--json")


@story(SHELL, "audit a mechanism.", "audit/test_audit.py")
def cli_audit() -> None:
    command("audit", "matrix_laplace", "--epsilon", 1, "--features", 2, "--draws", 500)
    wrong = ("audit", "wishart", "--calibration", "paper", "--at-delta", 0.001, "--draws", 4_000, "--json")
    command(*wrong, code=3)


@story(SHELL, "collect reports of clients.", "cli/test_local.py")
def cli_local() -> None:
    np.savetxt("rows.csv", np.random.default_rng(8).normal(size=(300, 3)), delimiter=",")
    command("local", "params", "--features", 3, "--epsilon", 4, "--norm-bound", 3, "--output", "protocol.json")
    command("local", "encode", "protocol.json", "rows.csv", "--output", "reports.txt", "--yes")
    assert command("local", "encode", "protocol.json", "rows.csv", "--yes")
    command("local", "aggregate", "reports.txt", "--protocol", "protocol.json", "--release", "local.npz", "-k", 1)
    command("show", "local.npz")


@story(SHELL, "take part in a round of several sites.", "cli/test_federation.py")
def cli_federation() -> None:
    needs("cryptography")
    people().to_csv("rows.csv", index=False)
    schema(missing="middle").save("schema.yaml")
    sites = [word for site in ("north", "south") for word in ("--site", site)]
    budget = ("--epsilon", 1, "--delta", 1e-6, "-k", 1)
    command("federation", "invite", "--schema", "schema.yaml", *budget, *sites, "--output", "draft.json")
    for site in ("north", "south"):
        joined = ("--site", site, "--key", f"{site}.key", "--output", f"{site}.json")
        command("federation", "join", "draft.json", *joined)
    closed = ("close", "north.json", "south.json", "--output", "round.json", "--json")
    fingerprint = json.loads(command("federation", *closed))["fingerprint"]
    for site in ("north", "south"):
        given = ("--key", f"{site}.key", "--fingerprint", fingerprint, "--output", f"{site}.contribution", "--yes")
        command("federation", "contribute", "round.json", "rows.csv", *given)
    files = ("north.contribution", "south.contribution")
    command("federation", "combine", "round.json", *files, "--output", "together.npz")


def run_stories(chosen: Iterable[Story]) -> bool:
    """Run stories, each in an empty folder, print a line for each, and return whether all passed."""
    failed = []
    warnings.simplefilter("ignore")
    for one in chosen:
        start, said = time.perf_counter(), "ok"
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            try:
                with contextlib.redirect_stdout(open(os.devnull, "w")):
                    one.run()
            except Skip as reason:
                said = f"skipped: {reason}"
            except Exception:
                said = f"failed\n{traceback.format_exc()}"
                failed.append(one.name)
        print(f"{time.perf_counter() - start:6.1f} s  {one.name:26}{said}", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return not failed


def print_unreached() -> bool:
    """Print the functions that nothing reaches, with the reasons, and return whether each has one."""
    commands = [str(Path(__file__))], ["-m", "pytest", "-q", "-n", "2", *TESTS]
    without = []
    for one in reach.unreached(commands):
        reason = next((why for pattern, why in UNREACHED.items() if fnmatch(one.path, pattern)), None)
        print(f"{one.path}: {reason or 'no reason'}")
        without += [one] if reason is None else []
    print(f"{len(without)} functions that nothing reaches have no reason.")
    return not without


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--only", default="", metavar="TEXT", help="the stories whose name or sentence has the text")
    asked.add_argument("--unreached", action="store_true", help="functions of src that nobody needs")
    asked.add_argument("--size", action="store_true", help="sizes of the packages")
    asked.add_argument("--walk", action="store_true", help="modules and functions of one fit")
    options = parser.parse_args()
    if options.size or options.walk:
        print(reach.size() if options.size else reach.walks())
        return 0
    if options.unreached:
        return 0 if print_unreached() else 1
    text = options.only.lower()
    return 0 if run_stories(one for one in STORIES if text in f"{one.name} {one.who}".lower()) else 1


if __name__ == "__main__":
    sys.exit(main())
