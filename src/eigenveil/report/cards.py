"""What the sections of a report are built from: cards, figures with their tables, budgets in words."""

from collections.abc import Sequence
from typing import Any

from .markup import Html, element


def card(identifier: str, title: str, *children: Any) -> Html:
    """Return a section of the page with a heading."""
    heading = element("h2", title, id=identifier)
    return element("section", heading, children, class_="card", aria_labelledby=identifier)


def figure(
    chart: Html, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], class_: str | None = None
) -> Html:
    """Return a chart with its caption and its numbers as a table, for readers who do not see it."""
    summary = element("summary", "The numbers as a table")
    numbers = element("details", summary, table("Numbers of the figure", columns, rows))
    return element("figure", chart, element("figcaption", element("p", caption), numbers), class_=class_)


def table(label: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], marked: set[int] | None = None) -> Html:
    """Return a table that scrolls within itself; `marked` rows stand out."""
    # A column of words reads from the left, a column of numbers from the right.
    kinds = ["text" if rows and str(cell)[:1].isalpha() else None for cell in (rows[0] if rows else columns)]
    head = element(
        "tr", [element("th", name, scope="col", class_=kind) for name, kind in zip(columns, kinds, strict=True)]
    )
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            [element("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)],
            class_="this" if marked and line in marked else None,
        )
        for line, row in enumerate(rows)
    ]
    whole = element("table", element("thead", head), element("tbody", body))
    # Focusable, so that the arrow keys scroll what does not fit.
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def budget(epsilon: float, delta: float) -> str:
    """Return a budget in words."""
    return f"epsilon = {epsilon:.6g}" + (f" and delta = {delta:.3g}" if delta else "")
