"""`InBatches`: what every statistic shares that is collected batch by batch."""

from collections.abc import Iterable
from typing import Any, Self


class InBatches:
    """Base of statistics that add the rows of one batch at a time."""

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix."""
        raise NotImplementedError

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches."""
        for batch in batches:
            self.update(batch)
        return self
