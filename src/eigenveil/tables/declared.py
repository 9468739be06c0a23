"""What a caller declares of the columns of a table: which to read, and the public rule of each."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError
from .base import Columns, choose_columns
from .encoder import NEED_NAMES, Categories
from .schema import Column, Schema

_AS_TEXT = ("category", "boolean", "date")


@dataclass(frozen=True)
class Declared:
    """Columns, categories and a number for missing ones; or a schema, which says all of that.

    Parameters
    ----------
    columns, categories, missing, schema
        As in `eigenveil.tables.open.open_table`.
    privacy_unit : str, int or False, optional
        The column that tells persons apart, which is no feature; by default that of the schema. False for none.

    Examples
    --------
    >>> chosen, rules = Declared(categories={"sex": ["F", "M"]}, missing=0.0).resolve(["age", "sex"], "people.csv")
    >>> chosen, rules["sex"].features
    (['age', 'sex'], ('sex=F', 'sex=M'))
    """

    columns: Columns = None
    categories: Categories = field(default_factory=dict)
    missing: float | None = None
    schema: Schema | None = None
    privacy_unit: Any = None

    def __post_init__(self) -> None:
        if self.missing is not None and not np.isfinite(self.missing):
            raise InvalidParameterError("missing must be a finite number.")
        if self.schema is None:
            if self.unit_column is not None and self.columns is not None and self.unit_column in self.columns:
                raise InvalidParameterError(
                    f"The column {self.privacy_unit!r} tells persons apart and is no feature; leave it out of columns."
                )
            return
        if not isinstance(self.schema, Schema):
            raise InvalidParameterError("schema must be a Schema; Schema.load reads one from a file.")
        if self.columns is not None or self.categories or self.missing is not None:
            raise InvalidParameterError(
                "A schema says which columns are read and how; leave out columns, categories and missing."
            )
        self.schema.check_complete()
        if self.unit_column is None:
            return
        if self.schema.privacy_unit not in (None, str(self.unit_column)):
            raise InvalidParameterError(
                "The schema names another column that tells persons apart; leave out privacy_unit."
            )
        if str(self.unit_column) in [column.name for column in self.schema.used]:
            raise InvalidParameterError(
                f"The column {self.privacy_unit!r} tells persons apart and is no feature; declare it of kind "
                "privacy_unit."
            )

    @property
    def encodes(self) -> bool:
        """Whether a row is anything else than the numbers of its columns."""
        return bool(self.categories) or self.missing is not None or self.schema is not None

    @property
    def unit_column(self) -> Any:
        """The column that tells persons apart, or None."""
        if self.privacy_unit is None:
            return None if self.schema is None else self.schema.privacy_unit
        return None if self.privacy_unit is False else self.privacy_unit

    def without_unit(self, chosen: list[Any]) -> "Declared":
        """Return the same of rows that were read before, of these columns, without the one of persons."""
        return replace(self, columns=chosen if self.schema is None else None, privacy_unit=False)

    @property
    def text(self) -> Collection[str]:
        """The columns to read as text, where a format leaves the types to the reader."""
        if self.schema is None:
            return self.categories
        return [column.name for column in self.schema.used if column.kind in _AS_TEXT]

    @property
    def named(self) -> Collection[Any]:
        """The columns that the caller named: where a file has them all, its first line names its columns."""
        privacy_unit = [] if self.unit_column is None else [self.unit_column]
        if self.schema is not None:
            return [column.name for column in self.schema.used] + privacy_unit
        return [*(self.categories if self.columns is None else self.columns), *privacy_unit]

    def resolve(self, available: Sequence[Any], where: str) -> tuple[list[Any], dict[Any, Column]]:
        """Return the columns to read of those that are there, in order, and the rules of those that have one."""
        if self.schema is not None:
            used, keys = self.schema.used, self._places(self.schema.columns, available, where)
            chosen = choose_columns(available, [keys.get(one.name, one.name) for one in used], where)
            return chosen, dict(zip(chosen, used, strict=True))
        privacy_unit = self.unit_in(available, where)
        chosen = choose_columns(
            [one for one in available if privacy_unit is None or one != privacy_unit], self.columns, where
        )
        # One rule for all of them: the names of a first line that may be a row are not taken along.
        filled = {} if self.missing is None else dict.fromkeys(chosen, Column("a number", missing=self.missing))
        rules = {
            column: Column(str(column), "category", categories=labels) for column, labels in self.categories.items()
        }
        for column, rule in rules.items():
            if rule.open:
                raise InvalidParameterError(f"The categories of {column!r} must be a list of at least one.")
            if column not in chosen and not any(isinstance(name, str) for name in chosen):
                raise InvalidDataError(NEED_NAMES)
            if column not in chosen:
                raise InvalidParameterError(f"There are categories for {column!r}, which is not among the columns.")
        return chosen, filled | rules

    def _places(self, columns: Sequence[Column], available: Sequence[Any], where: str) -> dict[str, Any]:
        """Return the columns that are there by their names in the schema: those of an array come in the same order."""
        # Names that are numbers are positions. A column of persons is never taken for one of the features.
        in_order = isinstance(available, range) and self.unit_column is None
        if not in_order or any(column.name.isdecimal() for column in columns):
            return {str(column): column for column in available}
        if len(columns) != len(available):
            raise InvalidDataError(
                f"The schema has {len(columns)} column(s), and there are {len(available)} in {where}; declare all of "
                "them in their order, or some with their positions as names."
            )
        return {column.name: position for position, column in enumerate(columns)}

    def unit_in(self, available: Sequence[Any], where: str) -> Any:
        """Return which of the columns that are there tells persons apart, or None."""
        privacy_unit = self.unit_column
        if privacy_unit is None:
            return None
        keys = {} if self.schema is None else {str(column): column for column in available}
        return choose_columns(available, [keys.get(privacy_unit, privacy_unit)], where)[0]
