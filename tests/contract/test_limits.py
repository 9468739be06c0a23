"""Every estimate lies inside of its interval, and every interval inside of what such a number can be, on all surfaces.

Shares and R² lie in [0, 1], correlations and loadings in [-1, 1], variances and standard deviations at 0 or above.
"""

import html
import json
import re
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivatePCA, RowBound, load_release
from eigenveil.cli import app
from eigenveil.errors import NoiseWarning
from eigenveil.releases.origin import ComponentsRequest, RegressionRequest, Request, SparseRequest
from eigenveil.report import render_report
from eigenveil.report.estimates import read_estimates
from eigenveil.report.headline import fit_html
from eigenveil.uncertainty import ANY, CORRELATION, SHARE, SIZE
from made_releases import drawn, table

CENTRED = RowBound(8.0, constant=8.0)
SIGNS = RowBound(6**0.5, statistic="kendall", comparisons=8)
KINDS = {
    "components": (CENTRED, ComponentsRequest(3)),
    "correlation components": (CENTRED, ComponentsRequest(3, correlation=True)),
    "sparse": (RowBound(8.0), SparseRequest(2, penalty=0.3)),
    "covariance": (CENTRED, Request()),
    "second moment": (RowBound(8.0), Request()),
    "kendall": (SIGNS, Request()),
    "ridge": (CENTRED, RegressionRequest(3)),
    "ridge with alpha": (CENTRED, RegressionRequest(3, alpha=2.0)),
}
CASES = [
    (kind, mechanism, epsilon)
    for kind in KINDS
    for mechanism, epsilon in (
        ("matrix_laplace", 0.02),
        ("laplace", 0.5),
        ("gaussian", 2.0),
        ("matrix_laplace", 50.0),
    )
] + [("components", "eigenvector_sampling", epsilon) for epsilon in (0.1, 50.0)]
CASES = [pytest.param(one, marks=pytest.mark.heavy if one[2] == 2.0 else ()) for one in CASES]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def made(request, tmp_path):
    kind, mechanism, epsilon = request.param
    bound, asked = KINDS[kind]
    rows = np.sign(table()) if kind == "kendall" else table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        if mechanism == "eigenvector_sampling":
            release = drawn(mechanism, rows, epsilon=epsilon, n_components=3, request=asked, seed=3)
        else:
            release = drawn(mechanism, rows, bound=bound, epsilon=epsilon, request=asked, seed=3)
        path = release.save(tmp_path / "release.npz")
        yield load_release(path), path


def check(estimate, ends, limits=ANY):
    """Nothing is rounded here, so that nothing may be off by a bit."""
    estimate, ends = np.asarray(estimate, float), np.asarray(ends, float)
    assert ends.shape == (*estimate.shape, 2)
    assert np.all(ends[..., 0] <= estimate)
    assert np.all(estimate <= ends[..., 1])
    assert np.all(ends >= limits[0])
    assert np.all(ends <= limits[1])


def of_diagonal(matrix):
    places = np.arange(len(matrix))
    return np.asarray(matrix)[places, places]


# As arrays, and the same as JSON.


def test_attributes(made):
    release, _ = made
    spectrum, intervals = release.spectrum, release.intervals
    if release.explained_variance_interval is not None:
        check(release.explained_variance, release.explained_variance_interval, SIZE)
        check(release.explained_variance_ratio, spectrum.explained_variance_ratio_interval, SHARE)
        check(spectrum.running_ratio, spectrum.running_ratio_interval, SHARE)
        check(spectrum.captured_variance, spectrum.captured_variance_interval, SIZE)
        check(spectrum.captured_variance_ratio, spectrum.captured_variance_ratio_interval, SHARE)
    if isinstance(release.origin.request, ComponentsRequest):
        pca = PrivatePCA.from_release(release)
        check(pca.explained_variance_ratio_, pca.explained_variance_ratio_interval_, SHARE)
        check(pca.captured_variance_ratio_, pca.captured_variance_ratio_interval_, SHARE)
    for level, of in ((0.5, "data"), (0.95, "data"), (0.95, "population")):
        covariances = intervals.covariance(level, of)
        if covariances is None:
            continue
        check(release.covariance, covariances)
        check(release.correlation, intervals.correlation(level, of), CORRELATION)
        if release.origin.row_rule.statistic != "kendall":
            check(of_diagonal(release.covariance), of_diagonal(covariances), SIZE)
    for fit in filter(None, [release.regression]):
        check(fit.coef, fit.coef_interval)
        check(fit.r2, fit.r2_interval, SHARE)
    shown = read_estimates(release)
    for i in range(len(shown.components)):
        for j, name in enumerate(shown.names):
            ends = shown.loading_interval(i, j)
            if ends is not None:
                assert name
                check(shown.components[i, j], ends, CORRELATION)
    if shown.spreads is not None and shown.spreads.intervals is not None:
        check(shown.spreads.values, shown.spreads.intervals, SIZE)


def test_json(made):
    told = json.loads(CliRunner().invoke(app, ["show", str(made[1]), "--json"]).stdout)
    found = 0
    for name, limits in (
        ("explained_variance", SIZE),
        ("explained_variance_ratio", SHARE),
        ("captured_variance", SIZE),
        ("captured_variance_ratio", SHARE),
        ("correlation", CORRELATION),
        ("r2", SHARE),
    ):
        if told.get(f"{name}_interval") is not None:
            found += 1
            check(told[name], told[f"{name}_interval"], limits)
    if told.get("entry_interval") is not None:
        check(told["covariance"], told["entry_interval"])
        check(of_diagonal(told["covariance"]), of_diagonal(told["entry_interval"]), SIZE)
    for name, value in (told["coefficients"] or {}).items():
        low, high = told["coef_interval"][name]
        assert low is None or low <= value  # None is infinity
        assert high is None or value <= high
    assert found


# As text: what is written as "a ± b" or "a (b to c)".

NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
POWER = r"(?:e[+-]\d+)?"
PLUS_MINUS = re.compile(rf"\(?({NUMBER}) ± ({NUMBER})\)?{POWER}( %)?")
FROM_TO = re.compile(rf"({NUMBER}) \(({NUMBER}) to ({NUMBER})\){POWER}( %)?")


def numbers(*texts: str) -> list[float]:
    return [float(text.replace(",", "")) for text in texts]


def check_text(text: str, limits=ANY) -> int:
    """Check all numbers with an error in a text, and return how many there are."""
    text = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-")
    found = 0
    for match in PLUS_MINUS.finditer(text):
        value, error = numbers(*match.groups()[:2])
        check_one(value, value - error, value + error, (0.0, 100.0) if match[3] else limits)
        found += 1
    for match in FROM_TO.finditer(text):
        check_one(*numbers(*match.groups()[:3]), (0.0, 100.0) if match[4] else limits)
        found += 1
    return found


def check_one(value, low, high, limits):
    assert low <= value <= high
    assert limits[0] - 1e-9 <= low
    assert high <= limits[1] + 1e-9


def test_tables_of_the_summary(made):
    found = 0
    for part in made[0].summary().to_dict()["tables"]:
        limits = CORRELATION if part["title"].startswith(("Correlations", "Loadings")) else ANY
        for row in part["rows"]:
            if row.get("noise_interval") is not None and None not in row["noise_interval"]:
                check_one(row["estimate"], *row["noise_interval"], limits)
                found += 1
            if row.get("share_interval") is not None:
                check_one(row["share"], *row["share_interval"], SHARE)
                found += 1
    assert found or made[0].explained_variance_interval is None


COLUMNS = {"correlation": CORRELATION, "variance": SIZE, "standard deviation": SIZE}


def cells(page: str, column: str) -> list[str]:
    """Return the cells of a column, of all tables of a page that have it."""
    found = re.findall(rf'<td[^>]* data-column="{column}"[^>]*>(.*?)</td>', page, re.S)
    return [html.unescape(re.sub(r"<[^>]+>", "", cell)) for cell in found]


def test_text_of_the_report(made):
    release, _ = made
    page = render_report(release)
    found = check_text(html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])))
    for column, limits in COLUMNS.items():
        for cell in cells(page, column):
            check_text(cell, limits)
    for match in re.finditer(r"R² = (.*?)(?:, computed|\))", html.unescape(page)):
        check_text(match[1], SHARE)
    check_text(html.unescape(re.sub(r"<[^>]+>", " ", fit_html("Fit", release))))
    assert found or release.explained_variance_interval is None


def test_control_tables_of_the_report_are_found():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        page = render_report(drawn(bound=CENTRED, request=Request(), seed=3))
    for column in COLUMNS:
        assert sum(check_text(cell) for cell in cells(page, column)) >= 6
