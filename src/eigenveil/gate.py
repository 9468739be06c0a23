"""The gate: the only place where a law meets private statistics.

Private sums come in, a `Release` goes out. In between, everything that can be refused is refused, the spend is recorded
in the ledger in a committed transaction, and only then is anything drawn. Units are converted here, once.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .accounting.calibration import exact, float_above
from .accounting.ledger import PrivacyLedger
from .errors import InvalidDataError, InvalidParameterError
from .guarantee import Guarantee, Relation
from .laws.central import CentralLaw
from .laws.selection import largest_score
from .moments import SecondMoments
from .origin import ComponentsRequest, Origin, Request
from .randomness import is_secure, secure_generator
from .releases import Release
from .row_rule import RowRule
from .rows.norm_counts import LADDER, MagnitudeCounts
from .version import __version__


@dataclass(frozen=True)
class Payment:
    """What was paid for: the law that will draw, the whole guarantee, and the entry of the ledger if there is one."""

    law: CentralLaw
    guarantee: Guarantee
    entry: int | None = None


def release(
    law: CentralLaw,
    moments: SecondMoments,
    *,
    generator: np.random.Generator | None = None,
    ledger: PrivacyLedger | None = None,
) -> Release:
    """Draw one release of private moments; every call spends the full budget of the law again.

    Parameters
    ----------
    law : CentralLaw
        From `eigenveil.laws.LAWS`, made with public parameters.
    moments : SecondMoments
        The private statistic.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other marks the release as reproducible and not private.
    ledger : PrivacyLedger, optional
        Records the spend, durably, before anything is sampled.

    Examples
    --------
    >>> from eigenveil import RowBound
    >>> from eigenveil.laws import LAWS
    >>> moments = SecondMoments(RowBound(1.0), 3).update(np.eye(3))
    >>> drawn = release(LAWS["laplace"](epsilon=1.0, n_features=3), moments)
    >>> drawn.integers["matrix"].shape, str(drawn.guarantee)
    ((3, 3), '1-differentially private (replace one row), exact numerics')
    """
    generator = secure_generator() if generator is None else generator
    check(law, moments)
    payment = pay(law, law.guarantee(), generator, ledger, f"{law.name} release")
    return draw(moments, generator, payment)


def check(law: CentralLaw, moments: SecondMoments) -> None:
    """Refuse what cannot be released, before any budget is spent."""
    if moments.width != law.n_features:
        raise InvalidDataError(f"The moments are {moments.width} wide where the law was made for {law.n_features}.")
    moments.check_whole()
    check_rule(law, moments.bound)
    # Under add/remove, whether there are any rows at all is private and gets no error of its own.
    if law.relation is Relation.REPLACE and moments.n_rows == 0:
        raise InvalidDataError("There are no rows to release anything about; update the moments first.")


def check_rule(law: CentralLaw, rule: RowRule) -> None:
    """Refuse a law for rows made by this rule; public facts alone."""
    law.check_accepted()
    if rule.rows == "pairs" and law.relation is not Relation.REPLACE:
        raise InvalidParameterError(
            "rows='pairs' needs relation='replace', since an added row would shift every later pair."
        )
    if rule.constant is not None and law.releases == "subspace":
        raise InvalidParameterError(
            f"{law.name} releases no matrix, so it cannot tell components about the mean; choose another law."
        )
    law.check_grid(rule.limit_squared)
    _check_count(law)


# Scales of the noise on a private number of rows that the sampler draws in int64.
_COUNT_SCALES = Fraction(1, 2**20), Fraction(2**50)


def _check_count(law: CentralLaw) -> None:
    share = exact(law.epsilon) - law.matrix_epsilon
    if share > 0 and not _COUNT_SCALES[0] <= 1 / share <= _COUNT_SCALES[1]:
        raise InvalidParameterError(
            f"epsilon = {law.epsilon:g} is too far from 1 for a private number of rows; choose another epsilon, or "
            "relation='replace'."
        )


def pay(
    law: CentralLaw,
    guarantee: Guarantee,
    generator: np.random.Generator,
    ledger: PrivacyLedger | None,
    what: str,
) -> Payment:
    """Record what is about to be spent; a process killed afterwards has paid for nothing, which is safe.

    `guarantee` is that of the whole fit, in which this law draws the release.
    """
    promise = guarantee if is_secure(generator) else guarantee.marked_reproducible()
    return Payment(law, promise, None if ledger is None else ledger.spend(promise, what).entry)


def draw(
    moments: SecondMoments,
    generator: np.random.Generator,
    payment: Payment,
    *,
    request: Request | None = None,
    estimator: str | None = None,
    chosen_privately: tuple[str, ...] = (),
) -> Release:
    """Draw a release by the law that was paid for."""
    law = payment.law
    check(law, moments)
    rule = moments.bound.rule
    integers = law.draw(moments.gram, rule.limit_squared, moments.n_rows, generator)
    units = law.units(rule.limit_squared, rule.unit_squared)
    if request is None:
        request = ComponentsRequest(min(law.n_components, moments.n_features))
    origin = Origin(
        law=law.name,
        parameters=law.parameters(),
        rows=rule,
        n_rows=moments.n_rows if law.relation is Relation.REPLACE else None,
        feature_names=moments.feature_names,
        estimator=estimator,
        request=request,
        chosen_privately=chosen_privately,
        ledger_entry=payment.entry,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
    drawn = Release(integers, {name: units[name] for name in integers}, payment.guarantee, origin)
    vars(drawn)["law"] = law  # which a file would make again from the origin
    return drawn


# Scores are counted in hundredths of a row, so that quantiles in per cent keep them integers.
_UNITS = 100


def choose_magnitudes(
    counts: MagnitudeCounts, quantile: float, epsilon: Fraction, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return, for every column, a rung of the ladder near the given quantile of its magnitudes.

    Formal guarantee
    ----------------
    Pure epsilon over all columns together, for both relations. The wanted rung is where the count of rows at or below
    it passes quantile * n, so the score is minus the number of rows by which it misses: the larger of how many are
    lacking at the rung, and how many are too many at the rung before. One row moves a count by at most 1, and so the
    score, in every column; each column is chosen with epsilon divided by their number, by permute-and-flip (McKenna
    and Sheldon 2020; OpenDP's exact sampler from a secure generator).
    """
    excess = _UNITS * counts.at_most() - round(_UNITS * quantile) * counts.n_rows
    before = np.pad(excess, ((0, 0), (1, 0)), constant_values=np.iinfo(np.int64).min // 2)[:, :-1]
    scores = -np.maximum(0, np.maximum(-excess, before))
    scale = float_above(2 * _UNITS * scores.shape[0] / epsilon)
    return LADDER[[largest_score(column, scale, generator) for column in scores]]
