"""What a notebook or a terminal shows: small HTML tables, with all text escaped, and a bar of progress."""

import html
from collections.abc import Iterable, Mapping
from typing import TypeVar

_Item = TypeVar("_Item")


def tracked(items: Iterable[_Item], what: str, progress: bool) -> Iterable[_Item]:
    """Return the items, counted by a progress bar on the standard error if it was asked for and can be seen."""
    if not progress:
        return items
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return items
    from rich.progress import track

    return track(list(items), what, console=console, transient=True)


def notebook_table(title: str, facts: Mapping[str, object], notes: Iterable[str] = (), more: str = "") -> str:
    """Return a titled table of names and values as HTML; what is None is left out.

    Parameters
    ----------
    title : str
    facts : mapping
    notes : iterable of str
        Sentences below the table.
    more : str
        HTML that is escaped already, such as that of a guarantee.

    Examples
    --------
    >>> notebook_table("Plan", {"mechanism": "<b>"})
    '<div><strong>Plan</strong><table><tr><th>mechanism</th><td>&lt;b&gt;</td></tr></table></div>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    listed = f"<ul>{items}</ul>" if items else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{listed}{more}</div>"


def notebook_grid(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells under headings as HTML.

    Examples
    --------
    >>> notebook_grid(["mechanism"], [["a & b"]])
    '<table><tr><th>mechanism</th></tr><tr><td>a &amp; b</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def printable(name: object) -> str:
    """Return a public name that is not trusted: what cannot be printed, as a change of direction, is made visible.

    Examples
    --------
    >>> printable("a" + chr(7) + "b") == "a" + chr(0xFFFD) + "b"
    True
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name))
