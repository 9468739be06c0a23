"""`WeightedTable`: a table whose rows have public weights, one a row and in the same order."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import InvalidDataError, InvalidParameterError, positive_number
from ..rows.weighted import Weighted

_ONE_EACH = "sample_weight must be one number for every row, finite and at least 0."


class WeightedTable:
    """The rows of a source in batches of `Weighted`.

    Parameters
    ----------
    source : Source
        Rows that come in a public order, each a unit by itself.
    weights : array of shape (n_rows,)
        Public numbers of at least 0.
    most_weight : float, optional
        The largest weight there may be; by default the largest that there is.

    Examples
    --------
    >>> from eigenveil.sources import open_table
    >>> table = WeightedTable(open_table([[1.0], [2.0]]), [0.5, 2.0])
    >>> [batch.weights.tolist() for batch in table.batches()], table.most_weight
    ([[0.5, 2.0]], 2.0)
    """

    by_person = False

    def __init__(self, source: Any, weights: Any, most_weight: float | None = None) -> None:
        if getattr(source, "by_person", False):
            raise InvalidParameterError("Rows of persons have no weights of their own; give either persons or weights.")
        if not getattr(source, "in_order", True):
            raise InvalidParameterError("Weights need rows in a public order; give the rows as files or an array.")
        try:
            self._weights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidDataError(_ONE_EACH) from None
        numbers = self._weights
        if numbers.ndim != 1 or not numbers.size or not (np.isfinite(numbers).all() and numbers.min() >= 0):
            raise InvalidDataError(_ONE_EACH)
        if not numbers.any():
            raise InvalidDataError("All weights of rows are zero; leave out sample_weight, or give one above 0.")
        self._source = source
        self.most_weight = positive_number("most_weight", numbers.max() if most_weight is None else most_weight)
        if self.most_weight < numbers.max():
            raise InvalidDataError("A weight is above most_weight, which no weight may be.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def batches(self) -> Iterator[Weighted]:
        """Yield blocks of rows with their weights."""
        start = 0
        for rows in self._source.batches():
            end = start + rows.shape[0]
            if end > self._weights.size:
                raise InvalidDataError(_ONE_EACH)
            yield Weighted(rows, self._weights[start:end])
            start = end
        if start != self._weights.size:
            raise InvalidDataError(_ONE_EACH)
