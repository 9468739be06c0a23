"""`Column`: what is publicly known of one column, and which features it becomes."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Self

from ..errors import InvalidParameterError

KINDS = ("number", "category", "boolean", "date", "ignored", "person")
DATE_UNITS = {
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
    "day": 86_400 * 10**6,
    "week": 604_800 * 10**6,
    "year": 31_556_952 * 10**6,
}
"""Microseconds in one; a year is the mean one of the calendar."""
MIDDLE, INDICATOR = "middle", "indicator"
_PERSONS = "patient|person|user|customer|client|participant|respondent"
_IDENTIFIER = re.compile(
    rf"(?i:(^|[\W_])(id|uuid|guid|ssn|e?mail|phone|name|{_PERSONS}|({_PERSONS})[\W_]?(no|nr|number|code|key))$)"
    r"|[a-z]I[dD]$|^(?i:index)$"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What may be declared of a column, by its kind.
_MEANT = {
    "number": {"range", "scale", "unit", "missing"},
    "category": {"categories", "missing"},
    "boolean": {"missing"},
    "date": {"range", "unit", "missing"},
    "ignored": set(),
    "person": set(),
}


@dataclass(frozen=True)
class Column:
    """One column of a table, as far as it is public.

    Parameters
    ----------
    name : str
        As in the table; a position, as text, where its columns have no names.
    kind : {"number", "category", "boolean", "date", "ignored", "person"}
        "category" becomes one feature of 0 and 1 for each of its categories; "boolean" one feature; "date" the time
        since 1970 in its unit; "ignored" is not read; "person" tells persons apart and is never a feature.
    range : (low, high), optional
        Of a number, or of a date as ISO text. Known without the rows: a range that was read off them tells about them.
    scale : float, optional
        Public size of a number without a range, to divide by.
    unit : str, optional
        Of a number any word, for the reader; of a date a key of `DATE_UNITS`, "day" by default.
    categories : sequence
        All that become features. Empty in a draft: they are yet to be listed.
    missing : optional
        What stands for a missing value: a public value of the column, "middle" (of the range), or "indicator", which is
        the middle and one more feature that is 1 where the value is missing. Without a rule a row with a missing number
        is what the row bound makes of it, and a missing category is zeros.

    Examples
    --------
    >>> Column("age", range=(0, 120), missing="indicator").features
    ('age', 'age=missing')
    >>> Column("sex", "category", categories=("F", "M")).features
    ('sex=F', 'sex=M')
    >>> Column("visit", "date", range=("2020-01-01", "2020-12-31")).limits
    (18262.0, 18627.0)
    """

    name: str
    kind: str = "number"
    range: tuple[Any, Any] | None = None
    scale: float | None = None
    unit: str | None = None
    categories: Sequence[Any] = ()
    missing: float | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidParameterError("Every column of a schema needs a name, which is text.")
        if self.kind not in KINDS:
            near = nearest(str(self.kind), KINDS)
            raise self._wrong(f"has no kind that is known; choose one of {', '.join(KINDS)}{near}")
        for key in ("range", "scale", "unit", "categories", "missing"):
            value = getattr(self, key)
            empty = value is None or (isinstance(value, tuple) and not value)  # NumPy's numbers compare with no tuple
            if not empty and key not in _MEANT[self.kind]:
                raise self._wrong(f"is of kind {self.kind}, which has no {key}; leave {key} out")
        for key, value in {
            "categories": self._labels(),
            "unit": self._unit(),
            "range": self._range(),
            "scale": None if self.scale is None else self._positive("scale", self.scale),
        }.items():
            object.__setattr__(self, key, value)
        if self.range is not None and self.scale is not None:
            raise self._wrong("has a range, which already scales it; leave scale out")
        object.__setattr__(self, "missing", self._missing())

    @classmethod
    def from_dict(cls, name: str, content: Mapping[str, Any]) -> Self:
        """Return the column that a mapping of its keys declares; a blank is a key that was left out."""
        if not isinstance(content, Mapping):
            raise InvalidParameterError(f"The column {name!r} must be a mapping of keys such as kind and range.")
        known = [one.name for one in fields(cls) if one.name != "name"]
        for key in content:
            if key not in known:
                raise InvalidParameterError(
                    f"The column {name!r} has the unknown key {key!r}{nearest(str(key), known)}."
                )
        given = {key: value for key, value in content.items() if value is not None}
        return cls(name, given.pop("kind", "category" if "categories" in given else "number"), **given)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys that say something, in plain types."""
        entries = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in entries.items()
            if value not in (None, ())
        }

    def told(self) -> str:
        """Return what is declared of it, in words.

        Examples
        --------
        >>> Column("mass", range=(0, 300), unit="kg", missing="middle").told()
        '0 to 300 kg; missing: middle'
        """
        says = []
        if self.range is not None:
            says.append(" to ".join(_shown(end) for end in self.range))
        if self.scale is not None:
            says.append(f"size {_shown(self.scale)}")
        if self.unit is not None:
            says[-1:] = [f"{' '.join(says[-1:])} {self.unit}".strip()]
        if self.categories:
            says.append(", ".join(self.categories))
        if self.missing is not None:
            says.append(f"missing: {_shown(self.missing)}")
        return "; ".join(says)

    @property
    def used(self) -> bool:
        """Whether it becomes features."""
        return self.kind not in ("ignored", "person")

    @property
    def open(self) -> bool:
        """Whether its categories are yet to be listed, as in a draft."""
        return self.kind == "category" and not self.categories

    @property
    def has_indicator(self) -> bool:
        """Whether one more feature tells where its value is missing."""
        return self.missing == INDICATOR

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if not self.used:
            return ()
        category = self.kind == "category"
        values = tuple(f"{self.name}={label}" for label in self.categories) if category else (self.name,)
        return (*values, f"{self.name}=missing") if self.has_indicator else values

    @property
    def one_hot(self) -> tuple[bool, ...]:
        """Which of its features are 0 or 1, at most one of them 1."""
        if not self.used:
            return ()
        values = (True,) * len(self.categories) if self.kind == "category" else (False,)
        return (*values, True) if self.has_indicator else values

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range of its value as a feature, where one is declared."""
        if self.kind == "boolean":
            return 0.0, 1.0
        if self.range is None:
            return None
        low, high = self.range
        return (self.date_number(low), self.date_number(high)) if self.kind == "date" else (low, high)

    @property
    def fill(self) -> float | None:
        """What a missing number, truth value or date becomes as a feature; None where there is no rule."""
        if self.missing is None or self.kind == "category":
            return None
        if self.missing in (MIDDLE, INDICATOR):
            assert self.limits is not None
            return (self.limits[0] + self.limits[1]) / 2
        if self.kind == "date":
            return self.date_number(self.missing)
        return float(self.missing == "true") if self.kind == "boolean" else float(self.missing)

    def date_number(self, text: Any) -> float:
        """Return a date in its unit since 1970."""
        microseconds = (_instant(text) - _EPOCH) // timedelta(microseconds=1)
        return microseconds / DATE_UNITS[self.unit or "day"]

    def _wrong(self, what: str) -> InvalidParameterError:
        return InvalidParameterError(f"The column {self.name!r} {what}.")

    def _labels(self) -> tuple[str, ...]:
        if isinstance(self.categories, str | Mapping) or not hasattr(self.categories, "__iter__"):
            raise self._wrong("needs its categories as a list, such as [F, M]")
        labels = tuple(_label(label) for label in self.categories)
        for label, count in Counter(labels).items():
            if count > 1 or not label:
                told = f"lists the category {label!r} more than once" if label else "has a category without a name"
                raise self._wrong(f"{told}; leave it out")
        return labels

    def _unit(self) -> str | None:
        unit = None if self.unit is None else str(self.unit)
        if self.kind == "date" and unit is not None and unit not in DATE_UNITS:
            raise self._wrong(f"must have one of the units {', '.join(DATE_UNITS)}{nearest(unit, DATE_UNITS)}")
        return unit

    def _range(self) -> tuple[Any, Any] | None:
        if self.range is None:
            return None
        if isinstance(self.range, str | Mapping) or not hasattr(self.range, "__len__") or len(self.range) != 2:
            raise self._wrong("needs its range as two values, such as [0, 120]")
        parse = self._date if self.kind == "date" else self._number
        low, high = (parse("range", end) for end in self.range)
        ordered: Any = (_instant(low), _instant(high)) if self.kind == "date" else (low, high)
        if ordered[0] == ordered[1]:
            raise self._wrong("is a constant by its range and has no variance; declare it of kind ignored")
        if ordered[0] > ordered[1]:
            raise self._wrong("has a range that ends before it begins; give the lower end first")
        return low, high

    def _missing(self) -> float | str | None:
        value = self.missing
        if value is None or (value == INDICATOR and self.kind == "category"):
            return value
        if isinstance(value, str) and value in (MIDDLE, INDICATOR) and self.kind != "category":
            if self.limits is None:
                raise self._wrong(f"has no range, so {value} of it cannot stand for a missing value; give a range")
            return value
        if self.kind == "number":
            return self._number("missing", value)
        if self.kind == "date":
            return self._date("missing", value)
        label = _label(value)
        if label not in (("true", "false") if self.kind == "boolean" else self.categories):
            raise self._wrong("has a value for missing ones that is none of its own")
        return label

    def _number(self, key: str, value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            words = f" or {MIDDLE} or {INDICATOR}" if key == "missing" else ""
            raise self._wrong(f"needs a finite number{words} as {key}")
        return number

    def _positive(self, key: str, value: Any) -> float:
        number = self._number(key, value)
        if number <= 0:
            raise self._wrong(f"needs a number above 0 as {key}")
        return number

    def _date(self, key: str, value: Any) -> str:
        try:
            _instant(value)
        except (TypeError, ValueError):
            raise self._wrong(f"needs ISO dates, such as 2024-12-31, as {key}") from None
        return value.isoformat() if isinstance(value, date) else str(value)


def identifies(name: str) -> bool:
    """Return whether a column is an identifier by its name.

    >>> [identifies(name) for name in ("patient_id", "userId", "customer", "e-mail", "body_mass_index", "valid")]
    [True, True, True, True, False, False]
    """
    return _IDENTIFIER.search(name) is not None


def nearest(word: str, known: Any) -> str:
    """Return the hint at the known word that is nearest to another.

    >>> nearest("rnage", ["range", "scale"])
    ', did you mean range'
    """
    near = get_close_matches(word, list(known), 1, 0.5)
    return f", did you mean {near[0]}" if near else f", known are {', '.join(known)}"


def _label(value: Any) -> str:
    # NumPy's truth values are no bool.
    return str(value).lower() if type(value).__name__ in ("bool", "bool_") else str(value).strip()


def _shown(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _instant(value: Any) -> datetime:
    """Return an ISO text, a date or a time as an instant; without a zone it is UTC."""
    instant = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else value)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
