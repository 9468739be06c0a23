"""Synthetic rows of a release, from its mean and covariance; they cost no privacy.

Where a schema was declared its categories are drawn as such, and numbers stay inside of their ranges.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray
from ..tables.schema import DATE_UNITS, Column
from .matrix import ABOUT_THE_MEAN

if TYPE_CHECKING:
    from .record import Release


# Variances below this share of the largest are rounding.
_TINY = 2.0**-30


def _given(
    mean: FloatArray, covariance: FloatArray, wanted: list[int], known: list[int], rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the best linear predictions of some features by others that are known, and the covariance they leave."""
    own = covariance[np.ix_(wanted, wanted)]
    if not known:
        return np.tile(mean[wanted], (len(rows), 1)), own
    across = covariance[np.ix_(wanted, known)]
    inverse = scipy.linalg.pinvh(covariance[np.ix_(known, known)], rtol=_TINY)
    slopes = across @ inverse
    return mean[wanted] + (rows[:, known] - mean[known]) @ slopes.T, own - slopes @ across.T


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sample(release: "Release", n_rows: int, *, random_state: int | np.random.Generator | None = None) -> FloatArray:
    """Return synthetic rows of all features: a Gaussian distribution with the released mean and covariance.

    Features that the schema declares to be categories or truth values are 0 or 1, drawn one column after another
    with chances that are linear in those before; numbers and dates with a range are held to it.

    Parameters
    ----------
    n_rows : int
    random_state : None, int or numpy.random.Generator
        Nothing secret depends on it.
    """
    count = integer_between("n_rows", n_rows, 1)
    release.matrix.check_units()
    covariance = release.covariance
    if covariance is None or not release.matrix.centred:
        raise InvalidParameterError(ABOUT_THE_MEAN)
    places, blocks = _declared_places(release), []
    for column, positions in places:
        block = [place for place, fixed in zip(positions, column.one_hot, strict=True) if fixed]
        blocks += [block] if block else []
        blocks += [positions[:1]] if column.kind == "boolean" else []
    generator, mean = np.random.default_rng(random_state), release.mean
    rows = np.zeros((count, len(mean)))
    drawn: list[int] = []
    for block in blocks:  # of each at most one feature is 1
        chances = np.maximum(_given(mean, covariance, block, drawn, rows)[0], 0.0)
        chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)  # what is left is none of them
        place = (generator.random((count, 1)) >= np.cumsum(chances, axis=1)).sum(axis=1)
        hit = np.flatnonzero(place < len(block))
        rows[hit, np.asarray(block)[place[hit]]] = 1.0
        drawn += block
    others = [position for position in range(len(mean)) if position not in set(drawn)]
    if others:
        middle, left = _given(mean, covariance, others, drawn, rows)
        values, vectors = scipy.linalg.eigh(left)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        rows[:, others] = middle + generator.standard_normal((count, len(others))) @ spread.T
    for column, positions in places:
        if column.kind in ("number", "date") and column.limits is not None:
            rows[:, positions[0]] = np.clip(rows[:, positions[0]], *column.limits)
        if column.has_indicator and column.fill is not None:
            rows[rows[:, positions[-1]] == 1, positions[0]] = column.fill
    return rows


def sample_table(
    release: "Release", n_rows: int, *, random_state: int | np.random.Generator | None = None
) -> dict[str, list[Any]]:
    """Return synthetic rows as columns of a table: categories by their names, dates as text, None where missing."""
    rows = sample(release, n_rows, random_state=random_state)
    places = _declared_places(release)
    if not places:
        names = release.feature_names or [f"x{position}" for position in range(release.n_features)]
        return {str(name): rows[:, position].tolist() for position, name in enumerate(names)}
    found: dict[str, list[Any]] = {}
    for column, positions in places:
        values = rows[:, positions]
        if column.kind == "category":
            labels: list[Any] = [*column.categories, *([None] if column.has_indicator else []), None]
            found[column.name] = [labels[int(row.argmax())] if row.any() else None for row in values]
        else:
            missing = values[:, -1] == 1 if column.has_indicator else np.zeros(len(values), bool)
            cells = zip(values[:, 0], missing, strict=True)
            found[column.name] = [None if gone else _cell(float(one), column) for one, gone in cells]
    return found


def _declared_places(release: "Release") -> list[tuple[Column, list[int]]]:
    """Return the declared columns with the positions of their features; none without a schema."""
    schema = release.origin.schema
    if schema is None or schema.feature_names != release.feature_names:
        return []
    ends = np.cumsum([len(column.features) for column in schema.used])
    return [
        (column, list(range(int(end) - len(column.features), int(end))))
        for column, end in zip(schema.used, ends, strict=True)
    ]


def _cell(value: float, column: Column) -> Any:
    if column.kind == "boolean":
        return value == 1
    if column.kind == "number":
        return value
    unit = DATE_UNITS[column.unit or "day"]
    try:
        instant = _EPOCH + timedelta(microseconds=value * unit)
    except OverflowError:  # a date without a range, of which the noise is all there is
        return None
    return instant.date().isoformat() if unit >= DATE_UNITS["day"] else instant.isoformat(timespec="seconds")
