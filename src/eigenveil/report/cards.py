"""What the sections of a report are built from: cards, figures with their tables, budgets in words."""

from collections.abc import Sequence
from typing import Any

from .markup import Html, element

# From so many columns on, a row becomes a list of its own where the window is narrow.
_STACKED = 4
# A longer table scrolls within itself.
_WHOLE = 12
_BEGINS_A_NUMBER = tuple("0123456789\N{MINUS SIGN}-")


def card(identifier: str, title: str, *children: Any, class_: str = "card") -> Html:
    """Return a section of the page with a heading."""
    heading = element("h2", title, id=identifier)
    return element("section", heading, children, class_=class_, aria_labelledby=identifier)


def question(identifier: str, title: str, *children: Any) -> Html:
    """Return one question of a half of the page, with its answer."""
    return element("section", element("h3", title, id=identifier), children, aria_labelledby=identifier)


def figure(chart: Html, caption: Any, numbers: Html | None = None, class_: str | None = None) -> Html:
    """Return a chart with its caption, and what else stands below it."""
    return element("figure", chart, element("figcaption", element("p", caption), numbers), class_=class_)


def folded(summary: str, *children: Any) -> Html:
    """Return what is shown when it is asked for."""
    return element("details", element("summary", summary), children)


def table(
    label: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    marked: set[int] | None = None,
    class_: str | None = None,
) -> Html:
    """Return a table of which a narrow window shows every column; `marked` rows stand out.

    Roles are told beside the elements, since a browser forgets what a table is once its rows are laid out as lists.
    """
    # A column of words reads from the left, a column of numbers from the right.
    kinds = ["text" if rows and str(cell)[:1].isalpha() else None for cell in (rows[0] if rows else columns)]
    head = [
        element("th", name, scope="col", role="columnheader", class_=kind)
        for name, kind in zip(columns, kinds, strict=True)
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", role="rowheader", data_column=columns[0]),
            [
                element("td", element("span", cell, class_=_kind(cell)), role="cell", class_=kind, data_column=name)
                for name, cell, kind in zip(columns[1:], row[1:], kinds[1:], strict=True)
            ],
            role="row",
            class_="this" if marked and line in marked else None,
        )
        for line, row in enumerate(rows)
    ]
    whole = element(
        "table",
        element("thead", element("tr", head, role="row"), role="rowgroup"),
        element("tbody", body, role="rowgroup"),
        role="table",
        aria_label=label,
        class_=" ".join(filter(None, ["stack" if len(columns) >= _STACKED else "", class_])) or None,
    )
    if len(rows) <= _WHOLE:
        return whole
    # Focusable, so that the arrow keys scroll what is too long.
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def _kind(cell: Any) -> str | None:
    """Return the class of a number, which breaks between its words only."""
    return "number" if str(cell)[:1] in _BEGINS_A_NUMBER else None


def budget(epsilon: float, delta: float) -> str:
    """Return a budget in words."""
    return f"epsilon = {epsilon:.6g}" + (f" and delta = {delta:.3g}" if delta else "")
