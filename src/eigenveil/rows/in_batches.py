"""`InBatches`: what statistics share that are collected batch by batch, and the threads that read batches."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, Self, TypeVar

from ..cores import available_cores as available_cores
from ..cores import one_blas_thread as one_blas_thread

Batch = TypeVar("Batch")
Part = TypeVar("Part")


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


class InThreads(InBatches):
    """Base of statistics that are the sum of what each batch comes to by itself, in any order."""

    def _of(self, X: Any) -> Any:
        """Return what one batch comes to; other threads may ask for that of other batches meanwhile."""
        raise NotImplementedError

    def _add(self, part: Any) -> None:
        """Add what a batch came to."""
        raise NotImplementedError

    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix, or `Blocks` where persons are the unit."""
        self._add(self._of(X))
        return self

    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches; one must stay as it is while the next ones are read."""
        for part in side_by_side(self._of, batches):
            self._add(part)
        return self


def side_by_side(
    work: Callable[[Batch], Part], batches: Iterable[Batch], alone: Callable[[Batch], Part] | None = None
) -> Iterator[Part]:
    """Yield what becomes of every batch, in order; some are worked on while others are read, one BLAS thread each.

    Where there is one batch only, or one core, it becomes what `alone` makes of it, with all cores if it can.
    """
    threads, reader = available_cores(), iter(batches)
    first_two = list(islice(reader, 2))
    batches = chain(first_two, reader)
    if threads == 1 or len(first_two) < 2:
        yield from map(alone or work, batches)
        return
    waiting: deque[Future[Part]] = deque()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        for batch in batches:
            waiting.append(pool.submit(work, batch))
            # One batch a thread and one to come, so memory stays flat.
            if len(waiting) > threads:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()
