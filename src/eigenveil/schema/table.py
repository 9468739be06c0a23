"""`Schema`: what is publicly known of a table, and its file."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ..errors import InvalidParameterError
from ..whole_file import whole_file
from .columns import MIDDLE, Column, identifies, nearest
from .yaml_text import read_yaml, written

VERSION = 1
"""Of the file. A key may be added; none ever changes its meaning under the same number."""
_KEYS = ("version", "table", "period", "declared_by", "declared_on", "columns")


@dataclass(frozen=True)
class Schema:
    """What a custodian knows in public about a table.

    Parameters
    ----------
    columns : tuple of Column
        In the order of the features. Columns of the table that are not listed are not read.
    declared_by : str, optional
        Who says so.
    declared_on : str, optional
        The ISO date of it.
    table : str, optional
        Which table it is, in words for whoever reads a report.
    period : str, optional
        Which time its rows are about, in words.

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

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Iterable) or not all(isinstance(one, Column) for one in self.columns):
            raise InvalidParameterError("columns must be a list of Column; Schema.from_dict takes a mapping.")
        object.__setattr__(self, "columns", tuple(self.columns))
        for name, count in Counter(column.name for column in self.columns).items():
            if count > 1:
                raise InvalidParameterError(f"The schema declares the column {name!r} more than once; leave one out.")
        for name, count in Counter(self.feature_names).items():
            if count > 1:
                raise InvalidParameterError(f"Two features would have the name {name!r}; rename a column or category.")
        persons = [column.name for column in self.columns if column.kind == "person"]
        if len(persons) > 1:
            raise InvalidParameterError("The schema has more than one column of kind person; leave one.")
        for key in ("declared_by", "table", "period"):
            object.__setattr__(self, key, None if getattr(self, key) is None else str(getattr(self, key)))
        object.__setattr__(self, "declared_on", _day(self.declared_on))

    # What it says of the features.

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if column.used)

    @property
    def person(self) -> str | None:
        """The column that tells persons apart."""
        return next((column.name for column in self.columns if column.kind == "person"), None)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def n_features(self) -> int:
        """Width of a row."""
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

    @property
    def norm(self) -> float:
        """The longest row by construction, once ranges are mapped to [-1, 1]: every column adds 1 to its square."""
        return self.longest([1.0] * self.n_features)

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
        """What to divide every feature by where not all have a range: half the range, the declared scale, or 1."""
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

    def check_complete(self) -> None:
        """Refuse a draft whose blanks are not filled in."""
        for column in self.columns:
            if column.open:
                raise InvalidParameterError(
                    f"The column {column.name!r} has no categories; list those that are public, or declare it of kind "
                    "ignored, as names and identifiers should be."
                )
        if not self.used:
            raise InvalidParameterError("The schema has no column that becomes a feature; declare at least one.")

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
            raise InvalidParameterError("This is no schema: it must be a mapping with the key version.")
        if str(content["version"]) != str(VERSION):
            raise InvalidParameterError(
                f"The version of the schema must be {VERSION}, which is known here; update eigenveil for another."
            )
        for key in content:
            if key not in _KEYS:
                raise InvalidParameterError(f"The schema has the unknown key {key!r}{nearest(str(key), _KEYS)}.")
        columns = content.get("columns")
        if isinstance(columns, list) and all(isinstance(one, Mapping) and "name" in one for one in columns):
            listed = [(one["name"], {key: one[key] for key in one if key != "name"}) for one in columns]
        else:
            listed = list(columns.items()) if isinstance(columns, Mapping) else []
        if not listed:
            raise InvalidParameterError("The key columns of the schema must be a mapping with at least one column.")
        made = (Column.from_dict(str(name), {} if keys is None else keys) for name, keys in listed)
        return cls(tuple(made), **{key: content.get(key) for key in _KEYS if key not in ("version", "columns")})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read the YAML file of a schema; every error is one sentence that names the file."""
        try:
            return cls.from_dict(read_yaml(Path(path)))
        except InvalidParameterError as error:
            raise InvalidParameterError(f"{path}: {error}") from None

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the schema as YAML, whole or not at all; a file that is there is refused unless told otherwise."""
        target = Path(path)
        if target.exists() and not overwrite:
            raise InvalidParameterError(f"{target} is already there; name another file, or say to overwrite it.")
        try:
            with whole_file(target) as file:
                file.write(self.to_yaml().encode("utf-8"))
        except OSError as error:
            raise InvalidParameterError(f"{target} cannot be written: {error.strerror}.") from None
        return target

    def to_yaml(self) -> str:
        """Return the text of the file, with blanks and a comment where a custodian may know more."""
        return written(self.to_dict())

    @classmethod
    def from_types(cls, types: Mapping[Any, Any]) -> Self:
        """Return a draft from the narwhals type of every column; None is that of a number."""
        return cls(tuple(_drafted(str(name), kind) for name, kind in types.items()))

    @classmethod
    def from_frame_types(cls, frame: Any) -> Self:
        """Return a draft from the names and types of a data frame; no value of it is looked at.

        Parameters
        ----------
        frame : data frame
            Any that narwhals knows. Categories that its types list stay where they are: which ones occur is private.

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
            raise InvalidParameterError("from_frame_types needs a data frame; sources.draft_schema takes files.")
        return cls.from_types(types)


def _drafted(name: str, kind: Any) -> Column:
    """Return a column that can be read as it is, with a rule for missing values whether there are any or not.

    Text and identifiers are left out: which categories can occur is yet to be declared, and by whom.
    """
    if not identifies(name):
        if kind is None or kind.is_numeric():
            return Column(name, missing=0)
        import narwhals as nw

        if kind == nw.Boolean():
            return Column(name, "boolean", missing=MIDDLE)
        if isinstance(kind, nw.Date | nw.Datetime):
            return Column(name, "date", missing="2000-01-01")
    return Column(name, "ignored")


def _day(text: Any) -> str | None:
    if text is None or isinstance(text, date):
        return None if text is None else text.isoformat()
    try:
        return date.fromisoformat(text).isoformat()
    except (TypeError, ValueError):
        raise InvalidParameterError("declared_on must be an ISO date, such as 2026-01-31.") from None
