"""Every surface says in the same line of what an interval is, where it is not of the rows as they are."""

import html

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.cli import app
from eigenveil.report import render_report
from eigenveil.report.headline import fit_html
from eigenveil.uncertainty import INTERVAL, LEGEND

ROWS = np.random.default_rng(3).standard_normal((4_000, 4)) @ np.array(
    [[3.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0] * 4]
)
ROWS[:, 3] = np.random.default_rng(4).exponential(size=4_000)


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize("estimator", [PrivatePCA, PrivateCovariance])
@pytest.mark.parametrize(
    ("options", "of"),
    [
        ({"statistic": "kendall"}, "Kendall's tau"),
        ({"norm_bound": 6.0}, "the clipped rows"),
        ({"bounds": (-20, 20)}, None),
    ],
)
def test_every_surface_says_of_what_an_interval_is(estimator, options, of, tmp_path):
    if estimator is PrivatePCA and options.get("statistic") == "kendall":
        options = {**options, "standardize": True}
    release = estimator(epsilon=5.0, random_state=0, **options).fit(ROWS).release_
    release.save(tmp_path / "release.npz")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "release.npz")]).output
    as_json = CliRunner().invoke(app, ["show", str(tmp_path / "release.npz"), "--json"]).output
    page = html.unescape(render_report(release)).replace("\N{NO-BREAK SPACE}", " ")
    notebook = html.unescape(fit_html("Fit", release))
    name = f"{INTERVAL} of {of}" if of else INTERVAL
    assert f"<td>{name}</td>" in notebook
    assert release.intervals.about in as_json
    assert f"Noise only: for {release.intervals.about}; covers the privacy noise." in " ".join(shown.split())
    (line,) = {line[line.index(LEGEND) :] for line in page.splitlines() if LEGEND in line}
    assert (f"{LEGEND} They are for {release.intervals.about}." in line) == (of is not None)
    if estimator is PrivatePCA:
        assert name in page
        assert (f"{INTERVAL} of" in page) == (of is not None)
