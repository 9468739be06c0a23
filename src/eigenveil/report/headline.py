"""The result of a release in one sentence with its error, as a warning where it may be noise, and for a notebook."""

import warnings

import numpy as np

from ..errors import NoiseWarning
from ..notebook import notebook_grid, notebook_table
from ..releases.record import Release
from ..releases.regression import Regression
from ..uncertainty import CORRELATION, NOT_ABOVE_NOISE, SHARE, SIZE, for_readers, holds_zero, marked, with_error
from .estimates import Estimate, Estimates, read_estimates
from .html import Html, element

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NAMED = 3
_LONGEST = 90  # letters of names in a sentence
HELP = "Use more rows, a larger epsilon, a delta above 0 or fewer features."


def headline(estimates: Estimates, release: Release) -> str:
    """Return the result with its error, as a sentence."""
    if estimates.regressions:
        return " ".join(_of_regression(estimates, fit) for fit in estimates.regressions)
    return _of_components(estimates, release) if estimates.correlations is None else _of_matrix(estimates, release)


def noise_banner(estimates: Estimates) -> Html | None:
    """Return the warning over a release whose result is not distinguishable from noise; None where some of it is.

    It is about the requested result alone: correlations may be significant where no coefficient is.
    """
    title, them, beside = None, "components", ""
    if estimates.regressions:
        them, beside = "coefficients", " Correlations, means and standard deviations have separate intervals."
        if not any(map(_significant_coefficients, estimates.regressions)):
            title = "No coefficient is significantly different from 0"
    elif estimates.correlations is not None:
        title, them = _nothing_in_matrix(estimates), "variance"
        if len(estimates.names) > 1:
            them, beside = "correlations", " Means and standard deviations have separate intervals."
    elif estimates.above_noise is not None and not estimates.above_noise.any():
        title = "No component is above the noise"
    if title is None:
        return None
    text = f"The {them} below may be noise. Do not draw conclusions from this part.{beside} {HELP}"
    return element("div", element("strong", title), element("p", text), class_="banner", role="alert")


# Components.


def _of_components(estimates: Estimates, release: Release) -> str:
    k = len(estimates.components)
    rising = None if estimates.above_noise is None else int(estimates.above_noise.sum())
    kinds = ("sparse component" if estimates.sparse else "component") + ("" if k == 1 else "s")
    if rising == 0:
        return f"No component is above the noise: {'the' if k == 1 else f'all {_word(k)}'} {kinds} may be noise alone."
    if estimates.shares is None:
        were = "was released, without its variance" if k == 1 else "were released, without their variances"
        return _sentence(f"{_word(k)} {kinds} {were}")
    if rising is None:
        said = f"{_word(k)} {kinds} {'was' if k == 1 else 'were'} released"
    else:
        some = _word(k) if rising == k else f"{_word(rising)} of {_word(k)}"
        said = f"{some} {kinds} {'is' if rising == 1 else 'are'} above the noise"
    first = next(i for i in range(k) if not estimates.not_above(i))
    which = "it" if 1 in (k, rising) else "the first" if first == 0 else f"component {first + 1}"
    said += f"; {which} captures {estimates.shares.in_words(first, percent=True)} of the variance"
    if estimates.shares.intervals is None and release.guarantee.is_private:
        said += " (its error is not known)"
    return _sentence(said + _mostly(estimates, first))


def _mostly(estimates: Estimates, i: int) -> str:
    """Return the features that make up a component, as the end of a sentence."""
    direction = estimates.components[i]
    if len(direction) == 1:
        return ""
    if estimates.angle_bounds is not None and estimates.angle_bounds[i] >= 90:
        return "; its direction is not determined"
    order = [int(j) for j in np.argsort(-np.abs(direction), kind="stable")]
    sure = [j for j in order if direction[j] != 0 and not estimates.loading_may_be_zero(i, j)]
    if not sure:
        return ""
    enough = int(np.searchsorted(np.cumsum(direction[sure] ** 2), 0.5)) + 1
    few = enough <= min(_NAMED, len(sure))
    names = [estimates.names[j] for j in sure[: enough if few else _NAMED]]
    listed = list(names)
    while len(listed) > 1 and sum(map(len, listed)) > _LONGEST:
        listed.pop()
    if len(listed) < len(names):
        listed.append(f"{_word(len(names) - len(listed))} more")
    words = listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
    return f", mostly {words}" if few else f", spread over many features, most of all {words}"


# Matrices.


def _of_matrix(estimates: Estimates, release: Release) -> str:
    values, ends, names = estimates.correlations, estimates.correlation_intervals, estimates.names
    assert values is not None
    nothing = _nothing_in_matrix(estimates)
    if nothing is not None:
        return f"{nothing}."
    if len(names) == 1:
        entries = release.intervals.covariance()
        variance = float(np.asarray(release.covariance)[0, 0])
        text = with_error(variance, None if entries is None else entries[0, 0], SIZE)
        return f"The variance of {names[0]} is {for_readers(text)}."
    sure, pairs = _significant_pairs(estimates), len(names) * (len(names) - 1) // 2
    i, j = max(sure, key=lambda pair: abs(values[pair]))
    strongest = for_readers(with_error(float(values[i, j]), None if ends is None else ends[i, j], CORRELATION))
    both = f"{names[i]} with {names[j]}"
    if len(names) == 2:
        return f"The correlation of {both} is {strongest}."
    if ends is None:
        return f"The strongest of {pairs:,} correlations, of {both}, is {strongest}."
    some = f"{len(sure):,} of {pairs:,} correlations are significantly different from 0"
    return f"{some}; the strongest, of {both}, is {strongest}."


def _nothing_in_matrix(estimates: Estimates) -> str | None:
    """Return the words for a matrix in which nothing is significantly different from 0; None for any other."""
    names, spreads = estimates.names, estimates.spreads
    if len(names) == 1:
        lost = spreads is not None and spreads.intervals is not None and not spreads.intervals[0, 0] > 0
        return f"The variance of {names[0]} is not significantly different from 0" if lost else None
    if _significant_pairs(estimates):
        return None
    if len(names) == 2:
        return f"The correlation of {names[0]} with {names[1]} is not significantly different from 0"
    return "No correlation is significantly different from 0"


def _significant_pairs(estimates: Estimates) -> list[tuple[int, int]]:
    """Return the pairs with a correlation significantly different from 0; all where the errors are not known."""
    ends = estimates.correlation_intervals
    pairs = zip(*np.triu_indices(len(estimates.names), 1), strict=True)
    return [(int(i), int(j)) for i, j in pairs if ends is None or not holds_zero(ends[i, j])]


# Regressions.


def _of_regression(estimates: Estimates, fit: Regression) -> str:
    target, sure = estimates.names[fit.target], _significant_coefficients(fit)
    if not fit.determined and fit.reduced is not None:
        return f"{fit.reduced.notes[0]} {_of_regression(estimates, fit.reduced)}"
    if not fit.determined:
        return f"The regression of {target} on the other features is not determined: the noise is too large."
    r2 = f"R² = {for_readers(with_error(fit.r2, tuple(fit.r2_interval), SHARE))}"
    if not sure:
        return f"No coefficient for {target} is significantly different from 0 ({r2})."
    effects = estimates.effects(fit)
    most = max(sure, key=lambda place: effects[place])
    value = for_readers(with_error(float(fit.coef[most]), tuple(fit.coef_interval[most])))
    which = estimates.names[fit.features[most]]
    if len(fit.features) == 1:
        return f"{target} depends on {which} with a coefficient of {value} ({r2})."
    are = "is" if len(sure) == 1 else "are"
    some = f"{_word(len(sure))} of {_word(len(fit.features))} coefficients for {target} {are}"
    return _sentence(f"{some} significantly different from 0; {which} has the largest effect, with {value} ({r2})")


def _significant_coefficients(fit: Regression) -> list[int]:
    """Return the positions of coefficients whose interval excludes 0, of the features that can be resolved."""
    fit = fit if fit.determined else fit.reduced or fit
    return [place for place, ends in enumerate(fit.coef_interval) if not holds_zero(ends)]


def _word(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


# Notebooks.

_MOST = 10


def fit_html(title: str, release: Release) -> str:
    """Return HTML with the guarantee and the first components, features or coefficients, each with its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # such values are marked
        estimates = read_estimates(release)
        if estimates.regressions:
            table = "".join(_coefficient_grid(estimates, fit) for fit in estimates.regressions)
        else:
            table = _component_grid(estimates) if estimates.correlations is None else _feature_grid(estimates, release)
    facts = {
        "mechanism": release.origin.mechanism,
        release.guarantee.unit.counted: None if release.n_rows is None else f"{release.n_rows:,}",
        "features": release.features_counted,
        "±": estimates.interval_name if estimates.has_intervals or not release.intervals.unavailable else None,
    }
    return notebook_table(title, facts, [headline(estimates, release)], table + release.guarantee._repr_html_())


def _component_grid(estimates: Estimates) -> str:
    rows = []
    for i, direction in enumerate(estimates.components[:_MOST]):
        share = "" if estimates.shares is None else estimates.shares.in_words(i, percent=True)
        largest = np.argsort(-np.abs(direction), kind="stable")[:_NAMED]
        loadings = ", ".join(f"{estimates.names[j]} {direction[j]:+.2f}" for j in largest)
        number = marked(str(i + 1), estimates.not_above(i), NOT_ABOVE_NOISE)
        rows.append([number, share, *map(for_readers, (estimates.angle_in_words(i), loadings))])
    return notebook_grid(["component", "explained variance", "angle error", "largest loadings"], rows)


def _feature_grid(estimates: Estimates, release: Release) -> str:
    variances, intervals = np.diag(np.asarray(release.covariance)), release.intervals
    ends, means = intervals.covariance(), Estimate(release.mean, intervals.mean())
    rows = []
    for i, name in enumerate(estimates.names[:_MOST]):
        variance = with_error(float(variances[i]), None if ends is None else ends[i, i], SIZE)
        lost = i in release.spectrum.features_below_noise
        rows.append([marked(name, lost), means.in_words(i), for_readers(variance)])
    return notebook_grid(["feature", "mean", "variance"], rows)


def _coefficient_grid(estimates: Estimates, fit: Regression) -> str:
    rows = [
        [estimates.names[feature], for_readers(with_error(float(coef), ends))]
        for feature, coef, ends in zip(fit.features[:_MOST], fit.coef, fit.coef_interval, strict=False)
    ]
    return notebook_grid([f"coefficient for {estimates.names[fit.target]}", "value"], rows)
