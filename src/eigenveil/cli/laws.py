"""`eigenveil laws`: the table of laws, read from the facts that they declare."""

from typing import Any

from rich.table import Table

from .common import AsJson, output_console, print_json

_HEADINGS = ("name", "releases", "privacy", "numerics", "source", "use_when")


def laws(as_json: AsJson = False) -> None:
    """List the laws: what each releases, what it promises, where it comes from and when to use it."""
    from eigenveil.laws import LAWS

    cards = [_card(law) for law in LAWS.values()]
    if as_json:
        print_json(cards)
        return
    table = Table(title="Laws")
    for heading in _HEADINGS:
        table.add_column(heading.replace("_", " "), no_wrap=heading == "name")
    for card in cards:
        table.add_row(*(str(card[heading]) for heading in _HEADINGS))
    console = output_console()
    console.print(table)
    console.print("`auto` chooses by public numbers; docs/explanation/choosing.md tells how.")


def _card(law: Any) -> dict[str, Any]:
    return {
        "name": law.name,
        "releases": law.releases,
        "privacy": law.privacy(),
        "numerics": law.numerics_in_words(),
        "source": law.source,
        "use_when": law.use_when,
        "calibrations": list(law.calibrations),
    }
