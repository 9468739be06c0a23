"""What objects show of themselves in a notebook: small tables of HTML, every text of which is escaped."""

import html
from collections.abc import Iterable, Mapping


def notebook_table(title: str, facts: Mapping[str, object], notes: Iterable[str] = (), more: str = "") -> str:
    """Return a titled table of names and values as HTML; what is None is left out.

    Parameters
    ----------
    title : str
    facts : mapping
    notes : iterable of str
        Sentences below the table.
    more : str
        HTML that was made safe already, such as the face of a guarantee.

    Examples
    --------
    >>> notebook_table("Plan", {"law": "<b>"})
    '<div><strong>Plan</strong><table><tr><th>law</th><td>&lt;b&gt;</td></tr></table></div>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    told = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    listed = f"<ul>{told}</ul>" if told else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{listed}{more}</div>"


def notebook_grid(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return rows of cells under headings as HTML.

    Examples
    --------
    >>> notebook_grid(["law"], [["a & b"]])
    '<table><tr><th>law</th></tr><tr><td>a &amp; b</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
