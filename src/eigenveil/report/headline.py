"""The result of a release in one sentence with its error, and the warning where all of it may be noise."""

from collections.abc import Sequence

import numpy as np

from ..display import for_readers, holds_zero, with_error
from ..limits import CORRELATION, SHARE, SIZE
from ..releases.record import Release
from ..releases.regression import Regression
from .charts import interval_of
from .facts import Shown
from .html import Html, element

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NAMED = 3
_LONGEST = 90  # letters of names in a sentence
HELP = "Use more rows, a larger epsilon, a delta above 0 or fewer features."


def headline(shown: Shown, release: Release) -> str:
    """Return the result with its error, as a sentence."""
    if shown.regressions:
        return " ".join(_of_regression(shown, fit) for fit in shown.regressions)
    if shown.correlations is not None:
        return _of_matrix(shown, release)
    return _of_components(shown, release)


def noise_banner(shown: Shown) -> Html | None:
    """Return the warning over a release whose result is not distinguishable from noise; None where some of it is.

    It is about the requested result alone: correlations may be significant where no coefficient is.
    """
    if shown.regressions:
        lost = not any(map(_significant_coefficients, shown.regressions))
        title, them = "No coefficient is significantly different from 0", "the coefficients"
        beside = " Correlations, means and standard deviations have separate intervals."
    elif shown.correlations is not None:
        lost, them = _lost_matrix(shown), "the correlations" if len(shown.names) > 1 else "the variance"
        title = _lost_matrix_in_words(shown)
        beside = " Means and standard deviations have separate intervals." if len(shown.names) > 1 else ""
    else:
        lost = _rising(shown) == 0
        title, them, beside = "No component is above the noise", "the components", ""
    if not lost:
        return None
    text = f"{them[:1].upper()}{them[1:]} below may be noise. Do not draw conclusions from this part.{beside} {HELP}"
    return element("div", element("strong", title), element("p", text), class_="banner", role="alert")


def _rising(shown: Shown) -> int | None:
    """Return how many components are above the noise; None where this is not known."""
    return None if shown.above_noise is None else int(shown.above_noise.sum())


def _of_components(shown: Shown, release: Release) -> str:
    k, rising = len(shown.components), _rising(shown)
    kind = "sparse component" if shown.sparse else "component"
    kinds = kind if k == 1 else f"{kind}s"
    if rising == 0:
        return f"No component is above the noise: {'the' if k == 1 else f'all {_word(k)}'} {kinds} may be noise alone."
    if rising is not None:
        some = _word(k) if rising == k else f"{_word(rising)} of {_word(k)}"
        said = f"{some} {kinds} {'is' if rising == 1 else 'are'} above the noise"
    elif shown.variances is not None:
        said = f"{_word(k)} {kinds} {'was' if k == 1 else 'were'} released"
    else:
        were = "was released, without its variance" if k == 1 else "were released, without their variances"
        return _sentence(f"{_word(k)} {kinds} {were}")
    first = next((i for i in range(k) if not shown.not_above(i)), 0)
    which = "it" if k == 1 or (rising == 1) else "the first" if first == 0 else f"component {first + 1}"
    assert shown.shares is not None
    share = with_error(float(shown.shares[first]), interval_of(shown.share_intervals, first), percent=True)
    said += f"; {which} captures {for_readers(share)} of the variance"
    if shown.share_intervals is None and release.guarantee.is_private:
        said += " (its error is not known)"
    return _sentence(said + _mostly(shown, first))


def _mostly(shown: Shown, i: int) -> str:
    """Return which features make up a component."""
    direction = shown.components[i]
    if len(direction) == 1:
        return ""
    if shown.angle_bounds is not None and shown.angle_bounds[i] >= 90:
        return "; its direction is not determined"
    order = [int(j) for j in np.argsort(-np.abs(direction), kind="stable")]
    sure = [j for j in order if direction[j] != 0 and not shown.loading_may_be_zero(i, j)]
    if not sure:
        return ""
    held = np.cumsum(direction[sure] ** 2)
    enough = int(np.searchsorted(held, 0.5)) + 1
    if enough <= min(_NAMED, len(sure)):
        return f", mostly {_listed([shown.names[j] for j in sure[:enough]])}"
    return f", spread over many features, most of all {_listed([shown.names[j] for j in sure[:_NAMED]])}"


def _of_matrix(shown: Shown, release: Release) -> str:
    values, ends, d = shown.correlations, shown.correlation_intervals, len(shown.names)
    assert values is not None
    if _lost_matrix(shown):
        return f"{_lost_matrix_in_words(shown)}."
    if d == 1:
        entries = release.intervals.covariance()
        variance = float(np.asarray(release.covariance)[0, 0])
        text = with_error(variance, None if entries is None else entries[0, 0], SIZE)
        return f"The variance of {shown.names[0]} is {for_readers(text)}."
    pairs = _pairs(d)
    sure = pairs if ends is None else _significant_pairs(shown, pairs)
    i, j = max(sure, key=lambda pair: abs(values[pair]))
    strongest = for_readers(with_error(float(values[i, j]), None if ends is None else ends[i, j], CORRELATION))
    names = f"{shown.names[i]} with {shown.names[j]}"
    if d == 2:
        return f"The correlation of {names} is {strongest}."
    if ends is None:
        return f"The strongest of {len(pairs):,} correlations, of {names}, is {strongest}."
    some = f"{len(sure):,} of {len(pairs):,} correlations are significantly different from 0"
    return f"{some}; the strongest, of {names}, is {strongest}."


def _of_regression(shown: Shown, fit: Regression) -> str:
    target, sure = shown.names[fit.target], _significant_coefficients(fit)
    if not fit.determined and fit.reduced is not None:
        return f"{fit.reduced.notes[0]} {_of_regression(shown, fit.reduced)}"
    if not fit.determined:
        return f"The regression of {target} on the other features is not determined: the noise is too large."
    r2 = f"R² = {for_readers(with_error(fit.r2, tuple(fit.r2_interval), SHARE))}"
    if not sure:
        return f"No coefficient for {target} is significantly different from 0 ({r2})."
    p = len(fit.features)
    effects = shown.effects(fit)
    most = max(sure, key=lambda place: effects[place])
    value = for_readers(with_error(float(fit.coef[most]), tuple(fit.coef_interval[most])))
    which = shown.names[fit.features[most]]
    if p == 1:
        return f"{target} depends on {which} with a coefficient of {value} ({r2})."
    some = f"{_word(len(sure))} of {_word(p)} coefficients for {target} {'is' if len(sure) == 1 else 'are'}"
    return _sentence(f"{some} significantly different from 0; {which} has the largest effect, with {value} ({r2})")


def _significant_coefficients(fit: Regression) -> list[int]:
    """Return the positions of coefficients whose interval excludes 0, of the features that can be resolved."""
    fit = fit if fit.determined else fit.reduced or fit
    return [place for place, ends in enumerate(fit.coef_interval) if not holds_zero(ends)]


def _pairs(d: int) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in zip(*np.triu_indices(d, 1), strict=True)]


def _lost_matrix(shown: Shown) -> bool:
    """Return whether no correlation (for a single feature: not its variance) is significantly different from 0."""
    pairs, spreads = _pairs(len(shown.names)), shown.spread_intervals
    if not pairs:
        return spreads is not None and not spreads[0, 0] > 0
    return shown.correlation_intervals is not None and not _significant_pairs(shown, pairs)


def _lost_matrix_in_words(shown: Shown) -> str:
    names = shown.names
    if len(names) == 1:
        return f"The variance of {names[0]} is not significantly different from 0"
    if len(names) == 2:
        return f"The correlation of {names[0]} with {names[1]} is not significantly different from 0"
    return "No correlation is significantly different from 0"


def _significant_pairs(shown: Shown, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ends = shown.correlation_intervals
    assert ends is not None
    return [pair for pair in pairs if not holds_zero(ends[pair])]


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in words: as many as fit into a sentence, and the number of the others."""
    kept = list(names)
    while len(kept) > 1 and sum(map(len, kept)) > _LONGEST:
        kept.pop()
    if len(kept) < len(names):
        kept.append(f"{_word(len(names) - len(kept))} more")
    return kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}"


def _word(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
