"""The answer of a release in one sentence with its error, and the warning where all of the answer may be noise."""

from collections.abc import Sequence

import numpy as np

from ..display import for_readers, holds_zero, with_error
from ..limits import CORRELATION, SHARE, SIZE
from ..releases.record import Release
from .charts import interval_of
from .facts import Shown
from .html import Html, element

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NAMED = 3
_LONGEST = 90  # letters of names in a sentence
HELP = "More rows, a larger epsilon, a delta above 0 or fewer features would help."


def headline(shown: Shown, release: Release) -> str:
    """Return what the release says, with its error, as a sentence."""
    if shown.regression is not None:
        return _of_regression(shown)
    if shown.correlations is not None:
        return _of_matrix(shown, release)
    if not len(shown.components):
        return "This version of eigenveil cannot tell components from this release."
    return _of_components(shown, release)


def noise_banner(shown: Shown) -> Html | None:
    """Return the warning over a release whose answer is not told from noise; None where some of it is.

    It speaks of what was asked for and of nothing else: correlations may be clear where no coefficient is, and
    variances where no correlation is.
    """
    if shown.regression is not None:
        lost = not _told_coefficients(shown)
        title, them = "No coefficient is distinguishable from 0", "the coefficients"
        beside = " Correlations, means and standard deviations have intervals of their own."
    elif shown.correlations is not None:
        lost, them = _lost_matrix(shown), "the correlations" if len(shown.names) > 1 else "the variance"
        title = _lost_matrix_in_words(shown)
        beside = " Means and standard deviations have intervals of their own." if len(shown.names) > 1 else ""
    else:
        lost = _rising(shown) == 0
        title, them, beside = "No component is above the noise", "the components", ""
    if not lost:
        return None
    text = f"All that is shown of {them} may be noise: do not read a finding into it.{beside} {HELP}"
    return element("div", element("strong", title), element("p", text), class_="banner", role="alert")


def _rising(shown: Shown) -> int | None:
    """Return how many components rise above the noise; None where nothing tells."""
    return None if shown.above_noise is None else int(shown.above_noise.sum())


def _of_components(shown: Shown, release: Release) -> str:
    k, rising = len(shown.components), _rising(shown)
    kind = "sparse component" if shown.sparse else "component"
    kinds = kind if k == 1 else f"{kind}s"
    if rising == 0:
        return f"No component is above the noise: {'the' if k == 1 else f'all {_word(k)}'} {kinds} may be noise alone."
    if rising is not None:
        some = _word(k) if rising == k else f"{_word(rising)} of {_word(k)}"
        said = f"{some} {kinds} {'rises' if rising == 1 else 'rise'} above the noise"
    elif shown.variances is not None:
        said = f"{_word(k)} {kinds} {'was' if k == 1 else 'were'} released"
    else:
        were = "was released, without its variance" if k == 1 else "were released, without their variances"
        return _sentence(f"{_word(k)} {kinds} {were}")
    first = next((i for i in range(k) if not shown.not_above(i)), 0)
    which = "it" if k == 1 or (rising == 1) else "the first" if first == 0 else f"component {first + 1}"
    assert shown.shares is not None
    share = with_error(float(shown.shares[first]), interval_of(shown.share_intervals, first), percent=True)
    said += f"; {which} holds {for_readers(share)} of the variance"
    if shown.share_intervals is None and release.guarantee.is_private:
        said += " (its error is not known)"
    return _sentence(said + _mostly(shown, first))


def _mostly(shown: Shown, i: int) -> str:
    """Return which features make up a component."""
    direction = shown.components[i]
    if len(direction) == 1:
        return ""
    if shown.angle_bounds is not None and shown.angle_bounds[i] >= 90:
        return ", in a direction that the noise leaves open"
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
        told = with_error(variance, None if entries is None else entries[0, 0], SIZE)
        return f"The variance of {shown.names[0]} is {for_readers(told)}."
    pairs = _pairs(d)
    sure = pairs if ends is None else _told_pairs(shown, pairs)
    i, j = max(sure, key=lambda pair: abs(values[pair]))
    strongest = for_readers(with_error(float(values[i, j]), None if ends is None else ends[i, j], CORRELATION))
    names = f"{shown.names[i]} with {shown.names[j]}"
    if d == 2:
        return f"The correlation of {names} is {strongest}."
    if ends is None:
        return f"The strongest of {len(pairs):,} correlations, of {names}, is {strongest}."
    some = f"{len(sure):,} of {len(pairs):,} correlations are distinguishable from 0"
    return f"{some}; the strongest, of {names}, is {strongest}."


def _of_regression(shown: Shown) -> str:
    fit = shown.regression
    assert fit is not None
    target, told = shown.names[fit.target], _told_coefficients(shown)
    if not fit.determined:
        return f"The noise leaves open how {target} depends on the other features."
    r2 = f"R² = {for_readers(with_error(fit.r2, tuple(fit.r2_interval), SHARE))}"
    if not told:
        return f"No coefficient for {target} is distinguishable from 0 ({r2})."
    p = len(fit.features)
    effects = np.abs(fit.coef) if shown.spreads is None else np.abs(fit.coef) * shown.spreads[list(fit.features)]
    most = max(told, key=lambda place: effects[place])
    value = for_readers(with_error(float(fit.coef[most]), tuple(fit.coef_interval[most])))
    which = shown.names[fit.features[most]]
    if p == 1:
        return f"{target} follows {which} with a coefficient of {value} ({r2})."
    some = f"{_word(len(told))} of {_word(p)} coefficients for {target} {'is' if len(told) == 1 else 'are'}"
    return _sentence(f"{some} distinguishable from 0; {which} counts most, with {value} ({r2})")


def _told_coefficients(shown: Shown) -> list[int]:
    """Return the positions of coefficients whose interval leaves 0 out."""
    fit = shown.regression
    assert fit is not None
    return [place for place, ends in enumerate(fit.coef_interval) if not holds_zero(ends)]


def _pairs(d: int) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in zip(*np.triu_indices(d, 1), strict=True)]


def _lost_matrix(shown: Shown) -> bool:
    """Return whether no correlation is distinguishable from 0; of a single feature, whether its variance is not."""
    pairs, spreads = _pairs(len(shown.names)), shown.spread_intervals
    if not pairs:
        return spreads is not None and not spreads[0, 0] > 0
    return shown.correlation_intervals is not None and not _told_pairs(shown, pairs)


def _lost_matrix_in_words(shown: Shown) -> str:
    names = shown.names
    if len(names) == 1:
        return f"The variance of {names[0]} is not distinguishable from 0"
    if len(names) == 2:
        return f"The correlation of {names[0]} with {names[1]} is not distinguishable from 0"
    return "No correlation is distinguishable from 0"


def _told_pairs(shown: Shown, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ends = shown.correlation_intervals
    assert ends is not None
    return [pair for pair in pairs if not holds_zero(ends[pair])]


def _listed(names: Sequence[str]) -> str:
    """Return names in words: as many as a sentence holds, and how many more there are."""
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
