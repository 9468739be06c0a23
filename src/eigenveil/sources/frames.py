"""Every data frame that narwhals knows: neither pandas nor Polars is imported here, but what the frame came from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidDataError
from .encoder import Encoder

if TYPE_CHECKING:
    import narwhals as nw


class FrameReader:
    """A data frame; Polars' lazy frames stream, other lazy ones are refused.

    Examples
    --------
    >>> import pyarrow as pa
    >>> reader = FrameReader(as_frame(pa.table({"age": [30, 40], "mass": [60.5, 70.5]})))
    >>> [len(part) for part in reader.read(["mass"], step=1)]
    [1, 1]
    """

    where, by_column = "the frame", True

    def __init__(self, frame: "nw.DataFrame[Any] | nw.LazyFrame[Any]") -> None:
        import narwhals as nw

        self._frame = frame
        lazy = isinstance(frame, nw.LazyFrame)
        self.holds_rows = not lazy
        if lazy and not hasattr(frame.to_native(), "collect_batches"):
            raise InvalidDataError(
                "This lazy frame cannot be read in batches; collect it first, or save it as Parquet and give the path."
            )
        try:
            self._types: Mapping[Any, Any] = frame.collect_schema()
        except nw.exceptions.DuplicateError:
            raise _same_name() from None
        except Exception:
            raise InvalidDataError("The schema of the frame cannot be read; collect it to see why.") from None
        self.columns: Sequence[Any] = list(self._types)
        self.n_rows_hint: int | None = None if lazy else len(frame)  # type: ignore[arg-type]

    def types(self, columns: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the narwhals types of the columns."""
        del columns
        return self._types

    def read(self, columns: Sequence[Any], step: int) -> "Iterator[nw.DataFrame[Any]]":
        """Yield slices of the frame; held ones keep columns that nobody asked for, which costs nothing."""
        for part in self._eager_parts(columns, step):
            for start in range(0, len(part), step):
                yield part[start : start + step]

    def column(self, column: Any) -> Any:
        """Return one column of a held frame."""
        return self._frame.get_column(column)  # type: ignore[union-attr]

    def picker(self, encoder: Encoder) -> Callable[[Any], Any]:
        """Return what gives the encoded rows of a held frame at a slice or at positions."""
        return encoder.picker(self._frame, self.where)

    def batch_limit(self, step: int) -> tuple[int, None]:
        """Return how many rows make a batch; each adds 1."""
        return step, None

    def _eager_parts(self, columns: Sequence[Any], step: int) -> "Iterator[nw.DataFrame[Any]]":
        import narwhals as nw

        if isinstance(self._frame, nw.DataFrame):
            yield self._frame
            return
        native = self._frame.select(*columns).to_native()
        try:
            for part in native.collect_batches(chunk_size=step, maintain_order=True):
                yield nw.from_native(part, eager_only=True)
        except Exception:  # whatever the engine says may quote a cell
            raise InvalidDataError("The lazy frame cannot be computed; collect it to see why.") from None


def as_frame(data: Any) -> "nw.DataFrame[Any] | nw.LazyFrame[Any] | None":
    """Return the narwhals frame around `data`, or None for what is no frame."""
    if isinstance(data, np.ndarray | list | tuple):
        return None
    import narwhals as nw

    try:
        frame: Any = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise _same_name() from None
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def _same_name() -> InvalidDataError:
    return InvalidDataError("Two columns of the frame have the same name; rename one.")
