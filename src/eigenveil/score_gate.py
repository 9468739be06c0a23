"""The gate of score maps: the only place where a law of counts meets private counts of scores.

As at the gate of matrices: what can be refused is refused, the spend is recorded, and only then is anything drawn.
"""

from datetime import UTC, datetime

import numpy as np

from .accounting.ledger import LedgerOrPath, opened_ledger
from .errors import InvalidDataError
from .guarantee import Relation, Unit
from .laws.counting import CountLaw
from .randomness import is_secure, secure_generator
from .rows.score_counts import ScoreCounts
from .score_maps import ScoreMap
from .version import __version__


def release_scores(
    law: CountLaw,
    counts: ScoreCounts,
    *,
    generator: np.random.Generator | None = None,
    ledger: LedgerOrPath | None = None,
) -> ScoreMap:
    """Draw one map of scores; every call spends the full budget of the law again.

    Parameters
    ----------
    law : CountLaw
    counts : ScoreCounts
        The private statistic.
    generator : numpy.random.Generator, optional
        The secure generator by default. Any other marks the map as reproducible and not private.
    ledger : PrivacyLedger or path, optional
        Records the spend, durably, before anything is drawn.
    """
    generator = secure_generator() if generator is None else generator
    book = opened_ledger(ledger)
    unit = Unit.PERSON if counts.by_person else Unit.ROW
    public = law.relation is Relation.REPLACE
    if public and counts.n_units == 0:
        raise InvalidDataError(f"There are no {unit.counted} to draw a map of; give some.")
    law.check(counts.in_cells.size, counts.n_units)
    promise = law.guarantee(unit)
    promise = promise if is_secure(generator) else promise.marked_reproducible()
    entry = None if book is None else book.spend(promise, "score map").entry
    return ScoreMap(
        law.draw(counts.in_cells, generator),
        counts.grid,
        law,
        promise,
        n_units=counts.n_units if public else None,
        ledger_entry=entry,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
