"""From the batches of a table to rows of numbers: by one public rule for each column, value by value.

The names of columns and what is declared of them are public. Nothing is ever inferred from the data: which values occur
is private. A value that is not among the declared categories, or a missing one, becomes a block of zeros and no error,
so nothing is revealed about it. A row has at most one 1 for each categorical column: m of them add at most sqrt(m) to
its norm. A row does not depend on the batch that it comes in, nor on the type that other rows gave its column: numbers,
truth values and text are each read by one rule, also where a column holds several of them.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..errors import EigenveilError, InvalidDataError, InvalidParameterError, column_in_words, quoted
from ..moments.kernels import RowsByColumn
from .base import Columns, choose_columns, need_arrow
from .schema import DATE_UNITS, Column, Schema, label_number, label_text

Categories = Mapping[str, Sequence[Any]]
NEED_NAMES = "Categories and dates need columns with names; give a data frame, or files of one."
_NUMBER = Column("a number")  # the rule of a column of which nothing is declared
# Words of truth values, in small letters.
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
_LABELS_OF_TRUTH = {"true": True, "false": False}
# Places of a missing value, and of one that no label matches.
MISSING, NO_LABEL = -1, -2


class Labels:
    """The labels of a category, and the one that a value matches.

    A truth value matches the label true or false. A number matches the label that is an equal number, where all
    numbers are taken as float64. Text matches the label that it is without the blanks around it; true and false in any
    case. Anything else matches nothing.

    Parameters
    ----------
    labels : sequence of str
        Those of a `Column`, no two of which match one value.

    Examples
    --------
    >>> labels = Labels(("1", "true", "x"))
    >>> [labels.place(value) for value in (1.0, True, " x ", "TRUE", "1.0", None)]
    [0, 1, 2, 1, -2, -1]
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.texts: list[str] = [label_text(label) for label in labels]
        self.numbers: list[float | None] = [label_number(label) for label in labels]
        self.truths: list[bool | None] = [_LABELS_OF_TRUTH.get(text) for text in self.texts]
        self._of_text = {text: place for place, text in enumerate(self.texts)}
        self._of_number = {number: place for place, number in enumerate(self.numbers) if number is not None}

    def place(self, value: Any) -> int:
        """Return the position of the label that a value matches, `MISSING` or `NO_LABEL`."""
        if isinstance(value, str):
            text = label_text(value)
            return self._of_text.get(text, NO_LABEL) if text else MISSING
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            return MISSING
        if value.is_nan() if isinstance(value, Decimal) else isinstance(value, float | np.floating) and np.isnan(value):
            return MISSING
        if isinstance(value, bool | np.bool_):
            return self._of_text.get("true" if value else "false", NO_LABEL)
        number = number_of(value)
        return NO_LABEL if math.isnan(number) else self._of_number.get(number, NO_LABEL)


def number_of(value: Any) -> float:
    """Return a number as the nearest float64, a truth value as 0 or 1, and NaN for anything else."""
    if not isinstance(value, bool | np.bool_ | int | float | np.integer | np.floating | Decimal):
        return math.nan
    try:
        return float(value)
    except (OverflowError, ValueError):  # an integer beyond all floats, a signalling NaN
        return math.nan


def truth_of(value: Any) -> float:
    """Return a truth value, a number or a word of `TRUE` and `FALSE` as a number, and NaN for anything else."""
    if not isinstance(value, str):
        return number_of(value)
    word = value.strip().lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else math.nan


class Encoder:
    """The public rule that makes rows of tables.

    Parameters
    ----------
    columns : list of str or int
        The columns of the table, in the order of the row.
    rules : mapping of str or int to Column, optional
        What is declared of columns; the others hold numbers or truth values, and NaN where one is missing.
    quote_names : bool
        Whether errors may quote the names of columns; otherwise they count them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = pa.table({"age": [30.0, None, 50.0], "sex": ["F", "M", "?"]})
    >>> rules = {"age": Column("age", missing=40), "sex": Column("sex", "category", categories=("F", "M"))}
    >>> encoder = Encoder(["age", "sex"], rules)
    >>> encoder.names
    ['age', 'sex=F', 'sex=M']
    >>> encoder.rows(people, "people")
    array([[30.,  1.,  0.],
           [40.,  0.,  1.],
           [50.,  0.,  0.]])
    """

    def __init__(
        self, columns: Sequence[Any], rules: Mapping[Any, Column] | None = None, *, quote_names: bool = True
    ) -> None:
        self.columns: list[Any] = list(columns)
        self._declared = dict(rules or {})
        self._rules = [self._declared.get(column, _NUMBER) for column in self.columns]
        self._quote_names = quote_names
        # Columns without names keep their positions.
        by_column = [
            [column] if rule is _NUMBER or rule.features == (rule.name,) else list(rule.features)
            for column, rule in zip(self.columns, self._rules, strict=True)
        ]
        self._fixed = [(False,) if rule is _NUMBER else rule.one_hot for rule in self._rules]
        self.names: list[Any | str] = [name for names in by_column for name in names]
        if len(set(self.names)) < len(self.names):
            name, _ = Counter(self.names).most_common(1)[0]
            which = column_in_words(name, self.names.index(name), self._quote_names)
            raise InvalidDataError(f"Two features would have the name of {which}; rename a column.")

    @property
    def one_hot(self) -> tuple[bool, ...]:
        """Mask of the features that are 0 or 1 by construction."""
        return tuple(fixed for features in self._fixed for fixed in features)

    @property
    def n_categorical(self) -> int:
        """Number of columns that are encoded one-hot."""
        return sum(rule.kind == "category" for rule in self._rules)

    @property
    def truths(self) -> tuple[bool, ...]:
        """Mask of the features that are declared as truth values; types of columns depend on cells."""
        return tuple(
            rule.kind == "boolean" and not fixed
            for rule, one_hot in zip(self._rules, self._fixed, strict=True)
            for fixed in one_hot
        )

    @property
    def plain(self) -> bool:
        """Whether a row is the numbers of its columns as they are, without a rule for missing ones."""
        return all(rule.kind == "number" and rule.fill is None for rule in self._rules)

    def _told(self, column: Any) -> str:
        return column_in_words(column, self.columns.index(column), self._quote_names)

    def check(self, types: Mapping[Any, Any] | None, where: str) -> None:
        """Refuse columns whose type is not what the rule is about; None are the types of a matrix of numbers."""
        for column, rule in zip(self.columns, self._rules, strict=True):
            if types is None:
                if rule.kind not in ("number", "boolean"):
                    raise InvalidDataError(NEED_NAMES)
                continue
            if rule.kind == "date":
                need_arrow(f"Dates, as in the column {self._told(column)},")
            problem = _unfit(types[column], rule)
            if problem:
                raise InvalidDataError(f"The column {self._told(column)} of {where} {problem}.")

    def rows(self, batch: Any, where: str) -> Any:
        """Return the rows of a table as float64; a matrix, dense or sparse, is made of rows already."""
        if scipy.sparse.issparse(batch):
            if any(rule.has_indicator for rule in self._rules):
                raise InvalidDataError("A sparse matrix has no room for indicators of missing values; give dense rows.")
            holes = ~np.isfinite(batch.data)
            if self._declared and holes.any():
                fills = np.array([np.nan if rule.fill is None else rule.fill for rule in self._rules])
                batch = batch.copy()  # it may be the caller's
                batch.data[holes] = fills[batch.indices[holes]]
            return batch
        if not isinstance(batch, np.ndarray):
            import narwhals as nw

            frame = nw.from_native(batch, eager_only=True)
            return self._matrix(len(frame), lambda position: frame.get_column(self.columns[position]), where)
        if not self._declared:
            return batch
        return self._matrix(len(batch), lambda position: batch[:, position], where)

    def picker(self, frame: Any, where: str) -> Callable[[Any], Any]:
        """Return a function from a slice or positions to the encoded rows of a held frame; columns are looked up once.

        Rows of a slice are `RowsByColumn` where all columns are `plain`.
        """
        held: list[Any] = []
        for position, rule in enumerate(self._rules):
            with self._readable(position, where):
                values = frame.get_column(self.columns[position])
                held.append(_as_numbers(values) if rule.kind == "number" else values)
        if self.plain:
            return RowsByColumn(held).__getitem__

        def pick(rows: Any) -> NDArray[np.float64]:
            n_rows = len(range(len(frame))[rows] if isinstance(rows, slice) else rows)
            return self._matrix(n_rows, lambda position: held[position][rows], where)

        return pick

    def _matrix(self, n_rows: int, values_of: Any, where: str) -> NDArray[np.float64]:
        # Columns are contiguous in every frame library, and so they are written to contiguous memory.
        matrix = np.empty((n_rows, len(self.names)), order="F")
        feature = 0
        for position, rule in enumerate(self._rules):
            with self._readable(position, where):
                for values in _features(values_of(position), rule):
                    matrix[:, feature] = values
                    feature += 1
        return matrix

    @contextmanager
    def _readable(self, position: int, where: str) -> Iterator[None]:
        try:
            yield
        except (MemoryError, EigenveilError):
            raise
        except Exception:  # whatever the library says may quote a cell
            raise InvalidDataError(
                f"The column {self._told(self.columns[position])} of {where} cannot be read; make it a column of "
                "plain numbers, text or dates, as its type says."
            ) from None


def _features(values: Any, rule: Column) -> Iterator[Any]:
    """Yield the features of one column, the last of them the indicator of what is missing, where there is one."""
    import narwhals as nw

    if rule.kind in _AS_TEXT and not isinstance(values, np.ndarray):
        categories = isinstance(values.dtype, nw.Categorical | nw.Enum)
        values = values.cast(nw.String()) if categories and values.implementation.is_polars() else values
    if rule.kind == "category":
        places = _places(values, Labels(rule.categories))
        missing = places == MISSING
        for place, label in enumerate(rule.categories):
            hit = places == place
            yield hit | missing if label == rule.missing else hit
        if rule.has_indicator:
            yield missing
        return
    if isinstance(values, np.ndarray):
        numbers = values
    elif rule.kind == "date":
        numbers = _as_dates(values, rule)
    elif rule.kind == "boolean":
        numbers = _as_truths(values)
    else:
        numbers = _as_numbers(values)
    if rule.fill is None:
        yield numbers
        return
    holes = ~np.isfinite(numbers)  # infinity is no value: a quotient by 0, as often as not
    yield np.where(holes, rule.fill, numbers)
    if rule.has_indicator:
        yield holes


def _places(values: Any, labels: Labels) -> NDArray[np.int64]:
    """Return the place of the label of every value, as `Labels.place` does, without a loop over rows of one kind."""
    import narwhals as nw

    kind = kind_of(values)
    if not (_is_number(kind) or kind == nw.String()):
        return _by_value(values, labels.place, MISSING)
    places = np.full(len(values), NO_LABEL)
    if _is_number(kind):
        numbers = _numbers(values, kind).astype(np.float64)
        for place, number in enumerate(labels.truths if kind == nw.Boolean() else labels.numbers):
            if number is not None:
                places[numbers == number] = place
        places[np.isnan(numbers)] = MISSING
        return places
    text = values.str.strip_chars()
    words = text.str.to_lowercase() if any(truth is not None for truth in labels.truths) else text
    for place, (label, truth) in enumerate(zip(labels.texts, labels.truths, strict=True)):
        places[_mask((text if truth is None else words) == label)] = place
    # An empty cell is what a missing value is in a file of text.
    places[_mask(values.is_null()) | _mask(text == "")] = MISSING
    return places


def _mask(values: Any) -> NDArray[np.bool_]:
    return np.asarray(values.fill_null(False).to_numpy(), dtype=np.bool_)


def _as_numbers(values: Any) -> NDArray[Any]:
    """Return numbers and truth values as numbers; anything else beside them is a missing one."""
    import narwhals as nw

    kind = kind_of(values)
    if isinstance(kind, nw.Object):
        return _by_value(values, number_of, np.nan)
    return _numbers(values, kind)


def _numbers(values: Any, kind: Any) -> NDArray[Any]:
    import narwhals as nw

    if not _is_number(kind):  # a time has a number too, and that of another table may be in other units
        raise TypeError
    if isinstance(kind, nw.Decimal):  # by way of text: a cast to float is off by one bit here and there, by the scale
        values = values.cast(nw.String()).cast(nw.Float64())
    elif isinstance(kind, nw.Boolean | nw.Int128 | nw.UInt128):  # NumPy has no missing truth values, nor 128 bits
        values = values.cast(nw.Float64())
    return np.asarray(values.to_numpy())


def _as_truths(values: Any) -> NDArray[Any]:
    """Return truth values as numbers; a word that is none is a missing one."""
    import narwhals as nw

    kind = kind_of(values)
    if _is_number(kind):
        return _numbers(values, kind)
    if kind != nw.String():
        return _by_value(values, truth_of, np.nan)
    words = values.str.strip_chars().str.to_lowercase()
    true, false = (_mask(words.is_in(said)) for said in (TRUE, FALSE))
    return np.where(true, 1.0, np.where(false, 0.0, np.nan))


def _as_dates(values: Any, rule: Column) -> NDArray[np.float64]:
    """Return the time since 1970 in the unit of the rule; what is no date is a missing one."""
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(kind_of(values), nw.Date | nw.Datetime):
        return _by_value(values, rule.date_or_nan, np.nan)
    # Down, as a value by itself is rounded: a cast alone goes towards 1970.
    times = pc.floor_temporal(_array(values), unit="microsecond").cast(pa.timestamp("us"), safe=False)
    times = times.cast(pa.int64()).cast(pa.float64(), safe=False)
    return np.asarray(times.to_numpy(zero_copy_only=False)) / DATE_UNITS[rule.unit or "day"]


def _by_value(values: Any, of_value: Callable[[Any], float], missing: float) -> NDArray[Any]:
    """Return a function of every value; it is called once for each value that a dictionary lists."""
    codes, listed = _listed(values)
    return np.asarray(np.array([*map(of_value, listed), missing])[codes])


def _listed(values: Any) -> tuple[Any, list[Any]]:
    """Return a position for every row, -1 where its value is missing, and the values at these positions."""
    import narwhals as nw

    kind, native = kind_of(values), values.to_native()
    if isinstance(kind, nw.Object):
        return np.arange(len(values)), values.to_list()
    if hasattr(native, "cat") and hasattr(native.cat, "codes"):  # pandas, whose categories may be of any kind
        return native.cat.codes.to_numpy(), list(native.cat.categories)
    if not _is_text(kind):
        raise TypeError
    need_arrow("Dates as text, and dictionaries,")
    import pyarrow as pa

    listed = _array(values).dictionary_encode()
    codes = listed.indices.cast(pa.int64()).fill_null(-1)  # some are of a type without a sign
    return codes.to_numpy(zero_copy_only=False), listed.dictionary.to_pylist()


def _array(values: Any) -> Any:
    import pyarrow as pa

    made = values.to_arrow()
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def kind_of(values: Any) -> Any:
    """Return the narwhals type of a column: for pandas' columns of objects never what their first values suggest."""
    return _kind(getattr(values.to_native(), "dtype", None)) or values.dtype


def kinds_of(frame: Any) -> dict[Any, Any]:
    """Return the narwhals type of every column of a frame, as `kind_of` does."""
    import narwhals as nw

    kinds = dict(frame.collect_schema())
    if isinstance(frame, nw.DataFrame) and frame.implementation.is_pandas_like():
        native = frame.to_native()
        for name, dtype in zip(native.columns, native.dtypes, strict=True):
            kinds[name] = _kind(dtype) or kinds[name]
    return kinds


def _kind(dtype: Any) -> Any:
    """Return the narwhals type of a column whose type narwhals guesses or does not know; None for others."""
    import narwhals as nw

    if not isinstance(dtype, np.dtype):
        # Dates with a zone in pandas: narwhals does not know zones such as America/New_York.
        return nw.Datetime() if type(dtype).__name__ == "DatetimeTZDtype" else None
    if dtype.kind == "O":
        return nw.Object()
    return nw.Float64() if dtype.kind in "fiu" and (not dtype.isnative or dtype.itemsize > 8) else None


def same_kind(one: Any, other: Any) -> bool:
    """Tell whether columns of these types are read in the same way; pandas has missing truth values as objects only."""
    return bool(_class_of(one) == _class_of(other))


def _class_of(kind: Any) -> Any:
    import narwhals as nw

    classes = (
        (nw.Boolean, nw.Object),
        (nw.String, nw.Categorical, nw.Enum),
        (nw.Date, nw.Datetime),
    )
    number = "number" if kind.is_numeric() else kind
    return next((known for known in classes if isinstance(kind, known)), number)


def _unfit(kind: Any, rule: Column) -> str:
    """Say what is wrong about a type for a rule, or nothing."""
    import narwhals as nw

    date = isinstance(kind, nw.Date | nw.Datetime)
    if rule.kind == "date":
        return "" if date or _is_text(kind) else "does not hold dates; declare it a number, or ignored"
    if _is_number(kind) or (_is_text(kind) and rule.kind in ("category", "boolean")):
        return ""
    if rule.kind == "category":
        return (
            "holds dates or times, and these are no categories; declare it a date, or make it text in one format first"
            if kind.is_temporal()
            else "does not hold text, numbers or truth values, so it has no categories; declare it ignored"
        )
    if isinstance(kind, nw.Object) and rule.name != _NUMBER.name:  # declared by a schema, and read value by value
        return ""
    return (
        "does not hold numbers; encode it, or leave it out, as names and identifiers should be, by choosing other "
        "columns with columns="
    )


def is_plain_number(kind: Any) -> bool:
    """Tell a type of numbers that NumPy has, too."""
    import narwhals as nw

    return bool(kind.is_float() or kind.is_integer()) and not isinstance(kind, nw.Int128 | nw.UInt128)


def _is_number(kind: Any) -> bool:
    import narwhals as nw

    return bool(kind.is_numeric() or kind == nw.Boolean())


def _is_text(kind: Any) -> bool:
    import narwhals as nw

    return isinstance(kind, nw.String | nw.Categorical | nw.Enum | nw.Object)


_AS_TEXT = ("category", "boolean", "date")


@dataclass(frozen=True)
class Declared:
    """Columns, categories and a number for missing ones; or a schema, which says all of that.

    Parameters
    ----------
    columns, categories, missing, schema
        As in `eigenveil.tables.open.open_table`.
    privacy_unit : str, int or False, optional
        The column that identifies the privacy unit, which is no feature; by default that of the schema. False for none.

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
                    f"The column {quoted(self.privacy_unit)} is the privacy unit and not a feature; leave it out of "
                    "columns."
                )
            return
        if not isinstance(self.schema, Schema):
            raise InvalidParameterError("schema must be a Schema; Schema.load reads one from a file.")
        if self.columns is not None or self.categories or self.missing is not None:
            raise InvalidParameterError(
                "A schema says which columns are read and how; leave out columns, categories and missing."
            )
        self.schema.check_confirmed()
        if self.unit_column is None:
            return
        if self.schema.privacy_unit not in (None, str(self.unit_column)):
            raise InvalidParameterError("The schema names another privacy unit column; leave out privacy_unit.")
        if str(self.unit_column) in [column.name for column in self.schema.used]:
            raise InvalidParameterError(
                f"The column {quoted(self.privacy_unit)} is the privacy unit and not a feature; declare it with kind "
                "privacy_unit."
            )

    @property
    def encodes(self) -> bool:
        """Whether a row is anything else than the numbers of its columns."""
        return bool(self.categories) or self.missing is not None or self.schema is not None

    @property
    def unit_column(self) -> Any:
        """The column that identifies the privacy unit, or None."""
        if self.privacy_unit is None:
            return None if self.schema is None else self.schema.privacy_unit
        return None if self.privacy_unit is False else self.privacy_unit

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

    @property
    def listed(self) -> list[Any] | None:
        """All columns to read, where the caller listed them; categories alone leave it open which others there are."""
        return None if self.columns is None and self.schema is None else list(self.named)

    def resolve(self, available: Sequence[Any], where: str) -> tuple[list[Any], dict[Any, Column]]:
        """Return the columns to read of those that are there, in order, and the rules of those that have one."""
        if self.schema is not None:
            used, keys = self.schema.used, self._places(self.schema.columns, available, where)
            chosen = choose_columns(available, [keys.get(one.name, one.name) for one in used], where)
            return chosen, dict(zip(chosen, used, strict=True))
        privacy_unit = self.unit_in(available, where)
        features = available if privacy_unit is None else [one for one in available if one != privacy_unit]
        chosen = choose_columns(features, self.columns, where)
        # One rule for all of them: the names of a first line that may be a row are not taken along.
        filled = {} if self.missing is None else dict.fromkeys(chosen, Column("a number", missing=self.missing))
        rules = {
            column: Column(str(column), "category", categories=labels) for column, labels in self.categories.items()
        }
        for column, rule in rules.items():
            if rule.open:
                raise InvalidParameterError(f"The categories of {quoted(column)} must be a list of at least one.")
            if column not in chosen and not any(isinstance(name, str) for name in chosen):
                raise InvalidDataError(NEED_NAMES)
            if column not in chosen:
                raise InvalidParameterError(
                    f"There are categories for {quoted(column)}, which is not among the columns."
                )
        return chosen, filled | rules

    def _places(self, columns: Sequence[Column], available: Sequence[Any], where: str) -> dict[str, Any]:
        """Return the columns that are there by their names in the schema: those of an array come in the same order."""
        # Names that are numbers are positions. A column of privacy units is never taken for one of the features.
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
        """Return the column that identifies the privacy unit, or None, of the columns that are there."""
        privacy_unit = self.unit_column
        if privacy_unit is None:
            return None
        keys = {} if self.schema is None else {str(column): column for column in available}
        return choose_columns(available, [keys.get(privacy_unit, privacy_unit)], where)[0]
