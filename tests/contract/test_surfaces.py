"""One truth on every surface: four releases, and the same facts wherever they are shown."""

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
from eigenveil.releases.origin import ComponentsRequest
from eigenveil.report import render_report
from eigenveil.report.estimates import read_estimates
from eigenveil.report.headline import fit_html
from eigenveil.uncertainty import NOT_ABOVE_NOISE, angle_in_words
from made_releases import drawn

# Mechanisms with noise of a known distribution, from noise alone to hardly any; of covariances and of correlations.
CASES = [
    ("gaussian", 0.02, True),
    ("matrix_laplace", 0.02, False),
    ("matrix_laplace", 2.0, True),
    ("laplace", 20.0, False),
]
K = 4


def release_of(mechanism, epsilon, correlation):
    bound = RowBound(8.0, constant=8.0) if correlation else RowBound(8.0)
    asked = ComponentsRequest(K, correlation=correlation)
    return drawn(mechanism, bound=bound, epsilon=epsilon, request=asked, seed=3)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)))
def made(request, tmp_path):
    path = release_of(*request.param).save(tmp_path / "release.npz")
    return load_release(path), path


def plain_words(page: str) -> str:
    text = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\N{NO-BREAK SPACE}", " ")
    return re.sub(r"\s+", " ", text)


def test_above_the_noise_and_the_angle_are_the_same_on_every_surface(made):
    release, path = made
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        release.components  # noqa: B018
        above, errors = release.above_noise, release.spectrum.loading_errors()
    count = int(above.sum())
    assert (above == (np.arange(K) < count)).all()
    angles = [angle_in_words(*both) for both in zip(errors.angle, errors.angle_bound, strict=True)]

    # The parameter and the attributes.
    assert count == min(K, release.spectrum.n_above_noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        assert len(release.pca("above_noise").components) == max(1, release.spectrum.n_above_noise)
        pca = PrivatePCA.from_release(release)
        np.testing.assert_array_equal(pca.above_noise_, above)
        np.testing.assert_array_equal(pca.angle_bound_, errors.angle_bound)

        # The report, its figures, the notebook, the command line.
        shown, page, notebook = (
            read_estimates(release),
            plain_words(render_report(release)),
            plain_words(fit_html("Fit", release)),
        )
        summary = release.summary().to_dict()["tables"][0]["rows"]
    np.testing.assert_array_equal(shown.above_noise, above)
    assert [row["above_noise"] for row in summary] == above.tolist()
    assert [row["angle_bound"] for row in summary] == errors.angle_bound.tolist()
    assert [row["determined"] for row in summary] == (~errors.undetermined).tolist()
    assert [row["share"] for row in summary] == release.explained_variance_ratio.tolist()
    passed = shown.released_eigenvalues[:K] > shown.edges[:K]
    np.testing.assert_array_equal(passed, above)  # a dot is above the line where the component is above the noise
    result = CliRunner().invoke(app, ["show", str(path)])
    told = json.loads(CliRunner().invoke(app, ["show", str(path), "--json"]).stdout)
    assert told["above_noise"] == above.tolist()
    assert told["loading_errors"]["angle_bound"] == errors.angle_bound.tolist()
    assert str(release.summary()) in result.stdout
    for i in range(K):
        mark = f"{i + 1} ({NOT_ABOVE_NOISE})"
        for surface in (page, notebook):
            assert (mark in surface) == (not above[i])
            assert angles[i] in surface
    headline = "No component is above the noise" if count == 0 else "above the noise; "
    assert headline in page
    assert headline in notebook

    # The warning.
    said = " ".join(str(one.message) for one in heard if issubclass(one.category, NoiseWarning))
    assert ("No component is distinguishable from noise" in said) == (count == 0)
    for numbers in re.findall(r"Components? ([\d, and]+) (?:is|are) not distinguishable", said):
        named = [int(number) for number in re.findall(r"\d+", numbers)]
        assert named == list(range(count + 1, K + 1))


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_control_the_cases_range_from_noise_alone_to_all_above():
    counts = [release_of(*case).spectrum.n_above_noise for case in CASES]
    assert min(counts) == 0
    assert max(counts) >= 2
