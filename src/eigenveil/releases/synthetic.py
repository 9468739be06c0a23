"""Synthetic rows: they look like those of a release, from its mean and covariance, and cost no privacy.

Where a schema was declared its categories are drawn as such, and numbers stay inside of their ranges.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidParameterError, integer_between
from ..numerics import FloatArray
from ..postprocess.synthetic import synthetic_rows
from ..tables.schema import DATE_UNITS, Column
from .matrix import ABOUT_THE_MEAN

if TYPE_CHECKING:
    from .record import Release

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
    generator = np.random.default_rng(random_state)
    rows = synthetic_rows(release.mean, covariance, blocks, count, generator)
    for column, positions in places:
        if column.kind in ("number", "date") and column.limits is not None:
            rows[:, positions[0]] = np.clip(rows[:, positions[0]], *column.limits)
        if column.has_indicator and column.fill is not None:
            rows[rows[:, positions[-1]] == 1, positions[0]] = column.fill
    return rows


def sample_table(
    release: "Release", n_rows: int, *, random_state: int | np.random.Generator | None = None
) -> dict[str, list[Any]]:
    """Return such rows as the columns of a table: categories by their names, dates as text, None where missing."""
    rows = sample(release, n_rows, random_state=random_state)
    places = _declared_places(release)
    if not places:
        names = release.feature_names or [f"x{position}" for position in range(release.n_features)]
        return {str(name): rows[:, position].tolist() for position, name in enumerate(names)}
    return {column.name: _decoded(rows[:, positions], column) for column, positions in places}


def _declared_places(release: "Release") -> list[tuple[Column, list[int]]]:
    """Return the declared columns with the positions of their features; none where no schema tells of them."""
    schema = release.origin.schema
    if schema is None or schema.feature_names != release.feature_names:
        return []
    ends = np.cumsum([len(column.features) for column in schema.used])
    return [
        (column, list(range(int(end) - len(column.features), int(end))))
        for column, end in zip(schema.used, ends, strict=True)
    ]


def _decoded(values: FloatArray, column: Column) -> list[Any]:
    """Return the features of one column as the cells that they encode."""
    if column.kind == "category":
        labels: list[Any] = [*column.categories, *([None] if column.has_indicator else []), None]
        return [labels[int(row.argmax())] if row.any() else None for row in values]
    missing = values[:, -1] == 1 if column.has_indicator else np.zeros(len(values), bool)
    return [None if gone else _cell(float(one), column) for one, gone in zip(values[:, 0], missing, strict=True)]


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
