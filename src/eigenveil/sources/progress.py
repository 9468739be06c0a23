"""A progress bar on the terminal, and silence anywhere else."""

import sys
from collections.abc import Generator
from typing import Any

from ..rows.persons import Blocks
from ..rows.weighted import without_weights
from .base import Source


def units_in(batch: Any) -> int:
    """Return how many rows a batch counts for; persons where they are the unit, whose number of rows is private."""
    if isinstance(batch, Blocks):
        return batch.n_persons
    return int(without_weights(batch).shape[0])


def tracked_batches(source: Source, progress: bool | None = None, purpose: str = "reading rows") -> Generator[Any]:
    """Yield the batches of `source` while a bar on stderr counts their rows, or persons.

    Parameters
    ----------
    source : Source
        Where the batches come from.
    progress : bool, optional
        Whether to show the bar; by default it shows only where stderr is a terminal, so never in a pipe.
    purpose : str
        What the rows are read for, in words; a source that shows a bar of its own is told by its `announce`.
    """
    announce = getattr(source, "announce", None)
    if announce is not None:
        announce(purpose)
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if not progress:
        yield from source.batches()
        return
    # rich is imported only where something is drawn: importing it takes longer than a small fit.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(purpose),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("rows", total=source.n_rows_hint)
        seen = 0
        for batch in source.batches():
            yield batch
            seen += units_in(batch)
            bar.update(task, completed=seen)
        bar.update(task, total=seen, completed=seen)  # the hint may have been a guess
