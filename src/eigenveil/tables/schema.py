"""`Schema` and `Column`: public facts about a table, in Python and YAML, and drafts from names and types."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import InvalidParameterError, quoted, truth_value
from ..files import given_path, read_bounded, whole_file

KINDS = ("number", "category", "boolean", "date", "ignored", "privacy_unit")
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
    r"|[a-z]I[dD]$|^(?i:index|row[\W_]?names?|unnamed: 0)$"  # the last ones: a running number that R or pandas wrote
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What may be declared of a column, by its kind.
_MEANT = {
    "number": {"range", "scale", "unit", "missing"},
    "category": {"categories", "missing"},
    "boolean": {"missing"},
    "date": {"range", "unit", "missing"},
    "ignored": set(),
    "privacy_unit": set(),
}


@dataclass(frozen=True)
class Column:
    """Public facts about one column of a table.

    Parameters
    ----------
    name : str
        Name of the column in the table; its position, as text, if columns have no names.
    kind : {"number", "category", "boolean", "date", "ignored", "privacy_unit"}
        "category" is one-hot encoded; "boolean" is one feature of 0 and 1; "date" is the time since 1970 in its unit;
        "ignored" is not read; "privacy_unit" identifies the privacy unit and is never a feature.
    range : (low, high), optional
        Public range of a number, or of a date as ISO text. Do not take it from the rows.
    scale : float, optional
        Public scale of a number without a range; values are divided by it.
    unit : str, optional
        Unit of a number, for the reader; of a date a key of `DATE_UNITS`, "day" by default.
    categories : sequence
        All public categories; each becomes a feature. Empty in a draft.
    missing : optional
        Rule for missing values: a public fill value; "middle" of the range (without a range 0, or 2000-01-01 for a
        date); or "indicator", the middle plus a feature that is 1 for missing values, which needs a range. Without a
        rule, missing categories are encoded as zeros and rows with missing numbers are handled by the row bound.

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
            raise self._wrong(f"has an unknown kind; choose one of {', '.join(KINDS)}{near}")
        for key in ("range", "scale", "unit", "categories", "missing"):
            value = getattr(self, key)
            empty = value is None or (isinstance(value, tuple) and not value)  # NumPy's numbers compare with no tuple
            if not empty and key not in _MEANT[self.kind]:
                raise self._wrong(f"is of kind {self.kind}, which has no {key}; leave {key} out")
        scale, unit = self.scale, None if self.unit is None else str(self.unit)
        if scale is not None:
            scale = self._number("scale", scale)
            if scale <= 0:
                raise self._wrong("needs a number above 0 as scale")
        if self.kind == "date" and unit is not None and unit not in DATE_UNITS:
            raise self._wrong(f"must have one of the units {', '.join(DATE_UNITS)}{nearest(unit, DATE_UNITS)}")
        for key, value in {"categories": self._labels(), "unit": unit, "range": self._range(), "scale": scale}.items():
            object.__setattr__(self, key, value)
        if self.range is not None and self.scale is not None:
            raise self._wrong("has both a range and a scale; leave out scale")
        object.__setattr__(self, "missing", self._missing())

    @classmethod
    def from_dict(cls, name: str, content: Mapping[str, Any]) -> Self:
        """Return a column from a mapping of its keys; blank values are ignored."""
        if not isinstance(content, Mapping):
            raise InvalidParameterError(f"The column {quoted(name)} must be a mapping of keys such as kind and range.")
        known = [one.name for one in fields(cls) if one.name != "name"]
        for key in content:
            if key not in known:
                raise InvalidParameterError(
                    f"The column {quoted(name)} has the unknown key {quoted(key)}{nearest(str(key), known)}."
                )
        given = {key: value for key, value in content.items() if value is not None}
        return cls(name, given.pop("kind", "category" if "categories" in given else "number"), **given)

    def to_dict(self) -> dict[str, Any]:
        """Return the declared keys in plain types."""
        entries = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in entries.items()
            if value not in (None, ())
        }

    def in_words(self) -> str:
        """Return the declared facts in words.

        Examples
        --------
        >>> Column("mass", range=(0, 300), unit="kg", missing="middle").in_words()
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
            without_range = self.missing == MIDDLE and self.limits is None
            says.append(f"missing: {self._middle if without_range else _shown(self.missing)}")
        return "; ".join(says)

    @property
    def used(self) -> bool:
        """Whether the column becomes features."""
        return self.kind not in ("ignored", "privacy_unit")

    @property
    def open(self) -> bool:
        """Whether the column is a category without listed ones, as in a draft."""
        return self.kind == "category" and not self.categories

    @property
    def has_indicator(self) -> bool:
        """Whether one more feature marks missing values."""
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
        """Mask of the features that are 0 or 1, at most one of them 1."""
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
        """The feature of a missing number, truth value or date; None without a rule."""
        if self.missing is None or self.kind == "category":
            return None
        if self.missing in (MIDDLE, INDICATOR):
            if self.limits is not None:
                return (self.limits[0] + self.limits[1]) / 2
            return self.date_number(self._middle) if self.kind == "date" else float(self._middle)
        if self.kind == "date":
            return self.date_number(self.missing)
        return float(self.missing == "true") if self.kind == "boolean" else float(self.missing)

    @property
    def _middle(self) -> str:
        """The value of "middle" without a range."""
        return "2000-01-01" if self.kind == "date" else "0"

    def date_number(self, text: Any) -> float:
        """Return a date in its unit since 1970."""
        microseconds = (_instant(text) - _EPOCH) // timedelta(microseconds=1)
        return microseconds / DATE_UNITS[self.unit or "day"]

    def date_or_nan(self, value: Any) -> float:
        """Return a date, a time or ISO text in its unit since 1970, and NaN for anything else."""
        try:
            if isinstance(value, np.datetime64):  # as NumPy keeps dates in a column of objects
                value = value.astype("M8[us]").item()
            return self.date_number(value.strip() if isinstance(value, str) else value)
        except Exception:  # whatever the methods of an unknown object raise
            return math.nan

    def _wrong(self, what: str) -> InvalidParameterError:
        return InvalidParameterError(f"The column {quoted(self.name)} {what}.")

    def _labels(self) -> tuple[str, ...]:
        if isinstance(self.categories, str | Mapping) or not hasattr(self.categories, "__iter__"):
            raise self._wrong("needs its categories as a list, such as [F, M]")
        labels = tuple(_label(label) for label in self.categories)
        for label, count in Counter(labels).items():
            if count > 1 or not label:
                told = (
                    f"lists the category {quoted(label)} more than once" if label else "has a category without a name"
                )
                raise self._wrong(f"{told}; leave it out")
        texts, numbers = map(label_text, labels), [number for number in map(label_number, labels) if number is not None]
        if len(set(texts)) < len(labels) or len(set(numbers)) < len(numbers):  # which would give a row two ones
            raise self._wrong("has two categories that are the same value, such as 1 and 1.0; leave out one")
        return labels

    def _range(self) -> tuple[Any, Any] | None:
        if self.range is None:
            return None
        if isinstance(self.range, str | Mapping) or not hasattr(self.range, "__len__") or len(self.range) != 2:
            raise self._wrong("needs a range of two values, such as [0, 120]")
        parse = self._date if self.kind == "date" else self._number
        low, high = (parse("range", end) for end in self.range)
        ordered: Any = (_instant(low), _instant(high)) if self.kind == "date" else (low, high)
        if ordered[0] == ordered[1]:
            raise self._wrong("has a range of zero width; declare it with kind ignored")
        if ordered[0] > ordered[1]:
            raise self._wrong("has a range whose lower end is above its upper end; give the lower end first")
        return low, high

    def _missing(self) -> float | str | None:
        value = self.missing
        if value is None or (value == INDICATOR and self.kind == "category"):
            return value
        if isinstance(value, str) and value in (MIDDLE, INDICATOR) and self.kind != "category":
            if self.limits is None and value == INDICATOR:
                raise self._wrong("has no range, which missing: indicator needs; give one, or another rule")
            return value
        if self.kind == "number":
            return self._number("missing", value)
        if self.kind == "date":
            return self._date("missing", value)
        label = _label(value)
        if label not in (("true", "false") if self.kind == "boolean" else self.categories):
            raise self._wrong("has a fill value for missing values that is not one of its declared values")
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


def label_text(text: str) -> str:
    """Return the text that a category matches: without the blanks around it, and true and false in small letters.

    >>> label_text(" A "), label_text("True")
    ('A', 'true')
    """
    text = text.strip()
    return text.lower() if text.lower() in ("true", "false") else text


def label_number(label: str) -> float | None:
    """Return the finite number that a category is, or None; what is a number to Python alone, as 1_000, is none.

    >>> label_number("1.50"), label_number("A"), label_number("nan")
    (1.5, None, None)
    """
    try:
        number = math.nan if "_" in label or not label.isascii() else float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _label(value: Any) -> str:
    # NumPy's truth values are no bool.
    return str(value).lower() if type(value).__name__ in ("bool", "bool_") else str(value).strip()


def _shown(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _instant(value: Any) -> datetime:
    """Return an ISO text, a date or a time as an instant; without a zone it is UTC."""
    instant = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else value)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


_DEEPEST = 6
_BLANKS = ("", "~", "null")
_ASKED = {
    "number": ("range", "missing"),
    "category": ("categories", "missing"),
    "boolean": ("missing",),
    "date": ("range", "missing"),
}
_COMMENTS = {
    "range": "lowest and highest value, known without the rows, as [0, 120] or [2020-01-01, 2024-12-31]",
    "categories": "all public ones, as [F, M]; or kind: ignored, as for names and identifiers",
    "missing": "replaces a missing value: a typical public value; or middle of the range (without a range 0, or "
    "2000-01-01); or, with a range, indicator",
}
_IDENTIFIES = "an identifier by its name; if a person has several rows and it identifies them, kind: privacy_unit"
_UNUSED = "not used; to use it, kind: category with categories: [F, M], all that can occur, or another kind"
# Why a draft suggests a kind.
_REASONS = {
    "number": "has numbers; if they are codes, kind: category or ignored",
    "boolean": "has truth values",
    "date": "has dates",
    "ignored": f"has no numbers, dates or truth values: {_UNUSED}",
}
_DRAFT = "draft: true  # guessed from the table. Check every line; then change this to false.\n"
_HEAD = """\
# Public facts about a table. Do not take ranges and categories from the rows. Take them from public sources, such as
# the questionnaire, the instrument or a regulation. Leave a line blank if nothing is known. Kinds: number, category,
# boolean, date, ignored (not read), privacy_unit (identifies the person; never a feature).
"""
_DRAFT_HEAD = """\
# The kinds were guessed from the names and types of the columns; the comments give the reasons.
# Give a range to every number and date, or to none. For missing values, choose a typical value: many fill values far
# from the others would look like structure.
"""


def _built(events: Iterator[Any], event: Any, depth: int) -> Any:
    """Return the mapping, list or text that begins with an event of YAML."""
    import yaml

    if getattr(event, "anchor", None) or getattr(event, "tag", None):  # an alias has an anchor, too
        raise InvalidParameterError("A schema has no tags, anchors or aliases; write everything out.")
    if isinstance(event, yaml.ScalarEvent):
        return None if event.style is None and event.value in _BLANKS else event.value
    if depth == _DEEPEST:
        raise InvalidParameterError("The schema is nested too deeply.")
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_built(events, event, depth + 1))
        return items
    content: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        if not isinstance(event, yaml.ScalarEvent) or event.value in content:
            raise InvalidParameterError("A key of the schema occurs twice or is not text.")
        key = event.value
        content[key] = _built(events, next(events), depth + 1)
    return content


def _scalar(value: Any) -> str:
    """Return one value as YAML writes it inside of a list, in one line."""
    import yaml

    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    # In double quotes a line break is escaped, since a key must not go over several lines; and so is all that a
    # terminal would obey.
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    options = {"default_style": style, "allow_unicode": style is None, "width": 2**31}
    text = str(yaml.safe_dump([value], default_flow_style=True, **options))
    return text.strip()[1:-1]


VERSION = 1
"""Of the file. A key may be added; none ever changes its meaning under the same number."""
_ABOUT = ("version", "table", "period", "declared_by", "declared_on")
_KEYS = ("draft", *_ABOUT, "columns")


@dataclass(frozen=True)
class Schema:
    """Public facts about the columns of a table, declared by the data owner.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the features. Other columns of the table are not read.
    declared_by : str, optional
        Who declared the schema.
    declared_on : str, optional
        The ISO date of the declaration.
    table : str, optional
        Name or description of the table, for reports.
    period : str, optional
        The period that the rows cover, in words.
    draft : bool
        Whether the schema was guessed from a table and is not confirmed yet. A draft can be used for planning, not for
        a fit.

    Examples
    --------
    >>> schema = Schema((Column("age", range=(0, 120)), Column("sex", "category", categories=("F", "M"))))
    >>> schema.feature_names
    ('age', 'sex=F', 'sex=M')
    >>> schema.bounds
    ([0.0, -1.0, -1.0], [120.0, 1.0, 1.0])
    """

    columns: tuple[Column, ...]
    declared_by: str | None = None
    declared_on: str | None = None
    table: str | None = None
    period: str | None = None
    draft: bool = False

    def __post_init__(self) -> None:
        columns = tuple(self.columns) if isinstance(self.columns, Iterable) else (None,)
        if not all(isinstance(one, Column) for one in columns):
            raise InvalidParameterError("columns must be a list of Column; Schema.from_dict takes a mapping.")
        object.__setattr__(self, "columns", columns)
        for name, count in Counter(column.name for column in self.columns).items():
            if count > 1:
                raise InvalidParameterError(
                    f"The schema declares the column {quoted(name)} more than once; leave one out."
                )
        for name, count in Counter(self.feature_names).items():
            if count > 1:
                raise InvalidParameterError(
                    f"Two features would have the name {quoted(name)}; rename a column or category."
                )
        privacy_units = [column.name for column in self.columns if column.kind == "privacy_unit"]
        if len(privacy_units) > 1:
            raise InvalidParameterError("The schema has more than one column of kind privacy_unit; leave one.")
        for key in ("declared_by", "table", "period"):
            object.__setattr__(self, key, None if getattr(self, key) is None else str(getattr(self, key)))
        day: Any = self.declared_on
        try:
            day = day if day is None or isinstance(day, date) else date.fromisoformat(day)
        except (TypeError, ValueError):
            raise InvalidParameterError("declared_on must be an ISO date, such as 2026-01-31.") from None
        object.__setattr__(self, "declared_on", None if day is None else day.isoformat())
        object.__setattr__(self, "draft", truth_value("draft", self.draft))

    # What it says of the features.

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.used)

    @property
    def privacy_unit(self) -> str | None:
        """The column that identifies the privacy unit."""
        return next((column.name for column in self.columns if column.kind == "privacy_unit"), None)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def bounds(self) -> tuple[list[float], list[float]] | None:
        """The range of every feature, or None where a number or a date has none.

        What is 0 or 1 by construction has the range (-1, 1), which leaves it as it is.
        """
        pairs = [(-1.0, 1.0) if fixed else limits for limits, fixed in self._by_feature()]
        if any(pair is None for pair in pairs):
            return None
        return [pair[0] for pair in pairs if pair], [pair[1] for pair in pairs if pair]

    def longest(self, reach: Sequence[float]) -> float:
        """Return the norm that no row is beyond whose features reach so far from the middle of their ranges.

        Of the features of a column at most one is not 0: one of its categories is 1, or its indicator is 1 and its
        value the middle of its range.
        """
        of_feature = iter(reach)
        return math.sqrt(
            sum(max(next(of_feature) for _ in column.features) ** 2 for column in self.used if column.features)
        )

    @property
    def sizes(self) -> list[float]:
        """The divisor of every feature where not all have a range: half the range, the declared scale, or 1."""
        scales = [column.scale or 1.0 for column in self.columns for _ in column.features]
        return [
            1.0 if fixed else scale if limits is None else (limits[1] - limits[0]) / 2
            for (limits, fixed), scale in zip(self._by_feature(), scales, strict=True)
        ]

    @property
    def without_size(self) -> tuple[str, ...]:
        """The numbers and dates of which neither a range nor a scale is declared."""
        return tuple(one.name for one in self._measured if one.limits is None and one.scale is None)

    @property
    def says_sizes(self) -> bool:
        """Whether a range or scale of any number or date is declared, or there is none to declare."""
        return len(self.without_size) < len(self._measured) or not self._measured

    @property
    def _measured(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.kind in ("number", "date"))

    def _by_feature(self) -> Iterable[tuple[tuple[float, float] | None, bool]]:
        return [(column.limits, fixed) for column in self.columns for fixed in column.one_hot]

    def confirmed(self) -> Self:
        """Return a schema with the same columns that is no draft. Check every column first."""
        return replace(self, draft=False)

    def check_confirmed(self) -> None:
        """Refuse a draft, and what `check_complete` refuses: asked before any row is read."""
        if self.draft:
            raise InvalidParameterError(
                "The schema is a draft. Check every line, then change draft: true to draft: false (in Python, use "
                "schema.confirmed())."
            )
        self.check_complete()

    def check_complete(self) -> None:
        """Refuse a schema whose categories are not listed, or that has no feature."""
        for column in self.columns:
            if column.open:
                raise InvalidParameterError(
                    f"The column {quoted(column.name)} has no categories. List the public categories, or declare the "
                    "column with kind ignored."
                )
        if not self.used:
            raise InvalidParameterError("The schema has no features. Declare at least one column that is used.")

    def without(self, name: str) -> Self:
        """Return the schema with one column ignored."""
        columns = (Column(one.name, "ignored") if one.name == name else one for one in self.columns)
        return replace(self, columns=tuple(columns))

    # Files and drafts.

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        # Left out where they say nothing: a version before they could be told reads what it knows.
        about = {key: getattr(self, key) for key in ("table", "period") if getattr(self, key) is not None}
        return {
            **({"draft": True} if self.draft else {}),
            "version": VERSION,
            **about,
            "declared_by": self.declared_by,
            "declared_on": self.declared_on,
            # A list: JSON that is sorted by key must not sort the features.
            "columns": [{"name": column.name, **column.to_dict()} for column in self.columns],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the schema that `to_dict` or a YAML file wrote, where columns are a list or a mapping by name.

        Examples
        --------
        >>> Schema.from_dict({"version": 1, "columns": {"age": {"rnage": [0, 120]}}})
        Traceback (most recent call last):
            ...
        eigenveil.errors.InvalidParameterError: The column 'age' has the unknown key 'rnage', did you mean range.
        """
        # Asked first: what is no schema may be a private table, and is not quoted.
        if not isinstance(content, Mapping) or content.get("version") is None:
            raise InvalidParameterError("A schema must be a mapping with the key version.")
        if str(content["version"]) != str(VERSION):
            raise InvalidParameterError(
                f"The version of the schema must be {VERSION}. Update eigenveil for later versions."
            )
        for key in content:
            if key not in _KEYS:
                raise InvalidParameterError(f"The schema has the unknown key {quoted(key)}{nearest(str(key), _KEYS)}.")
        columns = content.get("columns")
        if isinstance(columns, list) and all(isinstance(one, Mapping) and "name" in one for one in columns):
            listed = [(one["name"], {key: one[key] for key in one if key != "name"}) for one in columns]
        else:
            listed = list(columns.items()) if isinstance(columns, Mapping) else []
        if not listed:
            raise InvalidParameterError("The key columns of the schema must be a mapping with at least one column.")
        made = (Column.from_dict(str(name), {} if keys is None else keys) for name, keys in listed)
        about = {key: content.get(key) for key in _ABOUT if key != "version"}
        # A file has text, JSON a truth value.
        draft = {"true": True, "false": False}.get(str(content.get("draft", False)).lower())
        if draft is None:
            raise InvalidParameterError("draft must be true or false; change it to false once every line is checked.")
        return cls(tuple(made), **about, draft=draft)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a schema from a YAML file."""
        import yaml

        source = given_path(path)
        try:
            content = read_bounded(source, "The schema", InvalidParameterError)
            events = yaml.parse(content.decode("utf-8"), Loader=yaml.SafeLoader)
            begun = (event for event in events if isinstance(event, yaml.DocumentStartEvent))
            documents = [_built(events, next(events), 1) for _ in begun]
            if len(documents) != 1:
                raise InvalidParameterError("A schema is one YAML document.")
            return cls.from_dict(documents[0])
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f" near line {mark.line + 1}"
            raise InvalidParameterError(
                f"{path}: The schema is not valid YAML{where}; check indentation and quotes."
            ) from None
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{path}: {error}") from None

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the schema to a YAML file, atomically. An existing file is refused unless `overwrite` is true."""
        target = given_path(path)
        if target.exists() and not overwrite:
            raise InvalidParameterError(f"{target} already exists. Give another file, or overwrite=True.")
        try:
            with whole_file(target) as file:
                file.write(self.to_yaml().encode("utf-8"))
        except OSError as error:
            raise InvalidParameterError(f"{target} cannot be written: {error.strerror}.") from None
        return target

    def to_yaml(self) -> str:
        """Return the schema as YAML, with blank lines and comments for facts that are not declared."""
        content = self.to_dict()
        lines = [f"{key}: {_scalar(content.get(key))}".rstrip() for key in _ABOUT]
        lines.append("columns:")
        comments = dict(_COMMENTS)  # each once: a table may be wide
        for column in self.columns:
            entries = column.to_dict()
            lines.append(f"  {_scalar(column.name)}:")
            asked = [key for key in _ASKED.get(column.kind, ()) if not (key == "range" and "scale" in entries)]
            for key in dict.fromkeys(("kind", *asked, *entries)):
                value = entries.get(key)
                comment = comments.pop(key, "")
                if key == "kind" and column.kind == "ignored" and identifies(column.name):
                    comment = _IDENTIFIES
                elif key == "kind" and (self.draft or column.kind == "ignored"):
                    comment = _REASONS.get(column.kind, "") if self.draft else _UNUSED
                text = f"[{', '.join(map(_scalar, value))}]" if isinstance(value, list) else _scalar(value)
                lines.append(f"    {key}: {text}".rstrip() + (f"  # {comment}" if comment else ""))
        return (_DRAFT + _HEAD + _DRAFT_HEAD if self.draft else _HEAD) + "\n".join(lines) + "\n"

    @classmethod
    def from_types(cls, types: Mapping[Any, Any]) -> Self:
        """Return a draft from the narwhals type of every column; None is that of a number."""
        return cls(tuple(_drafted(str(name), kind) for name, kind in types.items()), draft=True)

    @classmethod
    def from_frame_types(cls, frame: Any) -> Self:
        """Return a draft schema from the names and types of a data frame. No value is read.

        Parameters
        ----------
        frame : data frame
            Any frame that narwhals supports. Categories of categorical types are not used: they may be private.

        Examples
        --------
        >>> import pyarrow as pa
        >>> people = pa.table({"age": [30, 40], "name": ["Ada", "Max"], "member": [True, False]})
        >>> [(column.name, column.kind) for column in Schema.from_frame_types(people).columns]
        [('age', 'number'), ('name', 'ignored'), ('member', 'boolean')]
        """
        import narwhals as nw

        try:
            types = nw.from_native(frame).collect_schema()
        except Exception:  # whose text may quote what is in the frame
            types = None
        if types is None:
            raise InvalidParameterError("from_frame_types needs a data frame; tables.draft_schema takes files.")
        return cls.from_types(types)


def _drafted(name: str, kind: Any) -> Column:
    """Return the draft of a column with a rule for missing values; text and identifiers are left out."""
    if not identifies(name):
        if kind is None or kind.is_numeric():
            return Column(name, missing=MIDDLE)
        import narwhals as nw

        if kind == nw.Boolean():
            return Column(name, "boolean", missing=MIDDLE)
        if isinstance(kind, nw.Date | nw.Datetime):
            return Column(name, "date", missing=MIDDLE)
    return Column(name, "ignored")
