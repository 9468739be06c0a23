"""The notebook view of a fit: the released values with their errors, from the release alone."""

import warnings

import numpy as np

from ..display import NOT_ABOVE_NOISE, for_readers, marked, notebook_grid, notebook_table, with_error
from ..errors import NoiseWarning
from ..limits import SIZE
from ..releases.record import Release
from ..releases.regression import Regression
from .facts import Shown, read
from .headline import headline

_MOST = 10
_LOADINGS = 3


def fit_html(title: str, release: Release) -> str:
    """Return HTML with the guarantee and the first components, features or coefficients, each with its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # such values are marked
        shown = read(release)
        if shown.regressions:
            table = "".join(_coefficients(shown, fit) for fit in shown.regressions)
        else:
            table = _features(release, shown) if shown.correlations is not None else _components(shown)
    count = None if release.n_rows is None else f"{release.n_rows:,}"
    facts = {
        "mechanism": release.origin.mechanism,
        release.guarantee.unit.counted: count,
        "features": release.features_counted,
        "±": None if shown.intervals is None and release.intervals.unavailable else shown.interval_name,
    }
    return notebook_table(title, facts, [headline(shown, release)], table + release.guarantee._repr_html_())


def _components(shown: Shown) -> str:
    rows = []
    for i, direction in enumerate(shown.components[:_MOST]):
        share = None if shown.shares is None else shown.shares[i]
        ends = None if shown.share_intervals is None else shown.share_intervals[i]
        largest = np.argsort(-np.abs(direction), kind="stable")[:_LOADINGS]
        rows.append(
            [
                marked(str(i + 1), shown.not_above(i), NOT_ABOVE_NOISE),
                "" if share is None else for_readers(with_error(float(share), ends, percent=True)),
                "" if shown.angles is None else for_readers(shown.angle_in_words(i)),
                for_readers(", ".join(f"{shown.names[j]} {direction[j]:+.2f}" for j in largest)),
            ]
        )
    return notebook_grid(["component", "explained variance", "angle error", "largest loadings"], rows)


def _features(release: Release, shown: Shown) -> str:
    variances, ends = np.diag(np.asarray(release.covariance)), release.intervals.covariance()
    means = release.intervals.mean()
    rows = []
    for i, name in enumerate(shown.names[:_MOST]):
        mean = with_error(float(release.mean[i]), None if means is None else means[i])
        variance = with_error(float(variances[i]), None if ends is None else ends[i, i], SIZE)
        rows.append(
            [marked(name, i in release.spectrum.features_below_noise), for_readers(mean), for_readers(variance)]
        )
    return notebook_grid(["feature", "mean", "variance"], rows)


def _coefficients(shown: Shown, fit: Regression) -> str:
    rows = [
        [shown.names[feature], for_readers(with_error(float(coef), ends))]
        for feature, coef, ends in zip(fit.features[:_MOST], fit.coef, fit.coef_interval, strict=False)
    ]
    return notebook_grid([f"coefficient for {shown.names[fit.target]}", "value"], rows)
