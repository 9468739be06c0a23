"""One progress bar for a whole fit, which says what is being done."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress


class Watched:
    """A source whose rows are counted by a bar each time they are read; who reads them says what for.

    Parameters
    ----------
    source : Source
    bar : Progress
        With one task.
    afterwards : str
        What follows each time when they have been read.
    """

    def __init__(self, source: Any, bar: "Progress", afterwards: str) -> None:
        self._source, self._bar, self._afterwards = source, bar, afterwards
        self._purpose = "opening"
        self._task = bar.add_task(self._purpose, total=source.n_rows_hint)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def announce(self, purpose: str) -> None:
        """Take what the rows are read for next, in words."""
        self._purpose = purpose

    def batches(self) -> Iterator[Any]:
        """Yield the batches of the source."""
        from eigenveil.sources.progress import units_in

        self._bar.reset(self._task, description=self._purpose, total=self._source.n_rows_hint)
        seen = 0
        for batch in self._source.batches():
            yield batch
            seen += units_in(batch)
            self._bar.update(self._task, completed=seen)
        # The hint may have been a guess.
        self._bar.update(self._task, description=self._afterwards, total=seen, completed=seen)


@contextmanager
def one_bar(source: Any, afterwards: str, quiet: bool = False) -> Iterator[Any]:
    """Yield the source, watched by a bar on stderr where that is a terminal; readers then show none of their own."""
    terminal, screen = not quiet and sys.stderr.isatty(), sys.stderr
    with redirect_stderr(io.StringIO()):
        if not terminal:
            yield source
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from eigenveil.sources.on_engine import EngineSource

        # Of persons it is their number that is counted: that of their rows is private.
        counted = "persons" if getattr(source, "by_person", False) else "rows"
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}} {counted}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(file=screen), redirect_stdout=False, redirect_stderr=False) as bar:
            if isinstance(source, EngineSource):  # which reads no rows here
                bar.add_task("adding up rows on the engine", total=None)
                yield source
            else:
                yield Watched(source, bar, afterwards)
