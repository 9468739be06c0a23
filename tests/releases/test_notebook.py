"""Faces in notebooks: every object has one of its own, and no text gets into it unescaped."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_iris

from eigenveil import (
    LocalPCA,
    PrivateCovariance,
    PrivatePCA,
    PrivateRidge,
    PrivateScaler,
    PrivateSparsePCA,
    forecast,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:Fantope selection stopped"),
]
EVIL = "<script>alert(1)</script>&\"'"
NAMES = [EVIL, "b", "c", "d"]
VOID = {"br", "meta"}


class Tags(HTMLParser):
    """Collects tags and text, and checks that they are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def checked(html):
    """Return the text of a page that is well-formed and holds no script."""
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    assert "script" not in tags.seen
    return tags.text


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(load_iris().data, columns=NAMES)


FITS = {
    "components": lambda: PrivatePCA(2, epsilon=500.0, bounds=(0, 8)),  # whose noise leaves every loading in the text
    "pure subspace": lambda: PrivatePCA(1, epsilon=5.0, mechanism="ppca", norm_bound=9.0, center=False),
    "sparse": lambda: PrivateSparsePCA(1, epsilon=5.0, bounds=(0, 8), max_iter=20),
    "covariance": lambda: PrivateCovariance(epsilon=5.0, bounds=(0, 8)),
    "ridge": lambda: PrivateRidge(target="b", epsilon=5.0, bounds=(0, 8)),
    "scaler": lambda: PrivateScaler(epsilon=5.0, bounds=(0, 8)),
    "local": lambda: LocalPCA(1, epsilon=4.0, norm_bound=9.0),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_shows_what_was_released_and_its_promise(name, frame):
    model = FITS[name]()
    assert "-DP (pure)" not in model._repr_html_()  # what scikit-learn shows
    shown = model.fit(frame)._repr_mimebundle_()["text/html"]
    text = checked(shown)
    assert type(model).__name__ in text
    assert str(model.guarantee_) in text
    if name in ("components", "covariance"):
        assert EVIL in text  # as text
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_plans_comparisons_and_releases(frame):
    fits = [PrivatePCA(2, epsilon=5.0, bounds=(0, 8)).fit(frame) for _ in range(2)]
    assert "5-DP (pure)" in checked(fits[0].plan(4)._repr_html_())
    assert "epsilon 0.1" in checked(PrivatePCA(1, statistic="clipped", center=False).plan(50)._repr_html_())
    compared = checked(fits[0].release_.compare(fits[1].release_)._repr_html_())
    assert "largest angle" in compared
    assert "10-DP (pure)" in compared
    assert "matrix" in checked(fits[0].release_._repr_html_())
    shown = checked(forecast(PrivatePCA(1), 4, 500, repeats=2)._repr_html_())
    assert "matrix_laplace" in shown


def test_no_face_holds_a_row(frame):
    model = PrivateCovariance(epsilon=5.0, bounds=(0, 8)).fit(frame)
    numbers = set(re.findall(r"\d+\.\d{3,}", model._repr_html_()))
    exact = {f"{value:.{places}f}" for value in np.ravel(frame.mean()) for places in (3, 4, 6)}
    assert not numbers & exact
