"""A draft of a schema: the names and types of columns, and never a value."""

from typing import Any

from ..errors import InvalidDataError, own_words
from ..schema import Schema
from .base import Columns, choose_columns
from .files import open_files
from .places import text_format
from .tables import held


@own_words
def draft_schema(data: Any, columns: Columns = None, **text: Any) -> Schema:
    """Return a schema of the names and types of a table, to be filled in by who knows more in public.

    Ranges, categories, the number of rows, whether a value is missing: nothing of that is looked at. The types of
    columns in a file of text are those of its first lines. Every column that is used has a rule for missing values;
    columns of text, and those that are identifiers by their names, are ignored until somebody declares them.

    Parameters
    ----------
    data : path, list of paths, data frame or array
        Of several files the first one tells.
    columns : list of str or int, optional
        The columns to declare; all by default.
    **text
        `delimiter`, `decimal` and `encoding` of files of text.

    Examples
    --------
    >>> import pyarrow as pa
    >>> draft = draft_schema(pa.table({"age": [30, 40], "city": ["Rome", "Lima"]}))
    >>> [(column.name, column.kind, column.range, column.missing) for column in draft.columns]
    [('age', 'number', None, 0.0), ('city', 'ignored', None, None)]
    """
    parts = open_files(data, named=columns or (), text_format=text_format(text)) or [held(data)]
    part = parts[0]
    if columns is None and not getattr(part, "names_public", True):
        raise InvalidDataError(
            f"The first line of {part.where} cannot be told from a row, whose values must not become names; list the "
            "columns with columns= if it names them."
        )
    chosen = choose_columns(part.columns, columns, part.where)
    types = part.types(chosen)
    return Schema.from_types({column: None if types is None else types[column] for column in chosen})
