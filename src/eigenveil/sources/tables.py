"""A table as a source: its parts read one after the other, and encoded by one rule."""

from collections.abc import Iterator, Sequence
from typing import Any

import scipy.sparse

from ..errors import InvalidDataError, column_in_words, iterated_in_own_words
from .arrays import ArrayReader, SparseReader
from .base import Reader, batch_rows, choose_columns
from .declared import Declared
from .encoder import Encoder
from .frames import FrameReader, as_frame
from .streams import stream_reader


class TableSource:
    """The rows of a table in one part or several: the same columns in each, in any order.

    Parameters
    ----------
    parts : list of Reader
        At least one.
    declared : Declared, optional
        Which columns to read, and the rules of the `Encoder`; by default all columns, which hold numbers.

    Examples
    --------
    >>> source = TableSource([held([[1.0, 2.0]]), held([[3.0, 4.0]])], Declared(columns=[1]))
    >>> [block.tolist() for block in source.batches()]
    [[[2.0]], [[4.0]]]
    """

    by_person = False  # whether batches are `Blocks`, of whole persons

    def __init__(self, parts: Sequence[Reader], declared: Declared | None = None) -> None:
        declared = Declared() if declared is None else declared
        chosen, rules = declared.resolve(parts[0].columns, parts[0].where)
        for part in parts[1:]:
            if declared.schema is not None:
                declared.resolve(part.columns, part.where)
            _check_part(part, parts[0], chosen, declared.columns is None and declared.schema is None)
        self._parts = parts
        # The first line of a file of text may be somebody's row: its words are not quoted unless the caller knows them.
        quote_names = all(getattr(part, "names_public", True) for part in parts)
        self._encoder = Encoder(chosen, rules, quote_names=quote_names)
        for part in parts:
            self._encoder.check(part.types(chosen), part.where)
        self.truths = self._encoder.truths([part.types(chosen) for part in parts])
        names = self._encoder.names
        self.n_features = len(names)
        # pandas numbers the columns that nobody named: those numbers are positions, not names.
        self.feature_names = tuple(names) if all(isinstance(name, str) for name in names) else None
        hints = [part.n_rows_hint for part in parts]
        self.n_rows_hint = None if None in hints else sum(hint or 0 for hint in hints)
        self.reads_once = any(getattr(part, "reads_once", False) for part in parts)
        self.in_order = all(getattr(part, "in_order", True) for part in parts)
        self.schema = declared.schema
        self.one_hot = self._encoder.one_hot
        self.n_categorical = self._encoder.n_categorical

    def batches(self) -> Iterator[Any]:
        """Yield blocks of rows, one part after the other."""
        return iterated_in_own_words(self._blocks())

    def _blocks(self) -> Iterator[Any]:
        step = batch_rows(self.n_features)
        for part in self._parts:
            for batch in part.read(self._encoder.columns, step):
                yield self._encoder.rows(batch, part.where)


def held(data: Any) -> Reader:
    """Return the reader of an object: a sparse matrix, a frame, a stream, or anything that NumPy makes an array of."""
    if scipy.sparse.issparse(data):
        return SparseReader(data)
    frame = as_frame(data)
    if frame is None:
        return stream_reader(data, held) or ArrayReader(data)
    # A lazy frame that hands out streams, as a relation of DuckDB, is read as these.
    lazy = not hasattr(frame, "get_column") and not hasattr(data, "collect_batches")
    return (stream_reader(data, held) if lazy else None) or FrameReader(frame)


def _check_part(part: Reader, first: Reader, chosen: Sequence[Any], all_columns: bool) -> None:
    if all(isinstance(column, str) for column in chosen):
        choose_columns(part.columns, chosen, part.where)
    odd = set(part.columns) ^ set(first.columns) if all_columns else set(chosen) - set(part.columns)
    if odd:
        quoted = getattr(part, "names_public", True) and getattr(first, "names_public", True)
        first_odd = min(odd, key=str)
        told = column_in_words(first_odd, 0, quoted)
        which = f"the column {told}" if told == repr(first_odd) else "some column"
        raise InvalidDataError(
            f"{part.where} and {first.where} are not parts of one table: only one of them has {which}."
        )
