"""`eigenveil laws`: the table of laws, read from the facts that they declare."""

import textwrap
from typing import Any

from .options import AsJson, output_console, print_json

_HEADINGS = ("use_when", "releases", "privacy", "numerics", "source")
_WIDTH, _INDENT = 70, 13


def laws(as_json: AsJson = False) -> None:
    """List the laws: what each releases, what it promises, where it comes from and when to use it."""
    from ..mechanisms import LAWS

    cards = [_card(law) for law in LAWS.values()]
    if as_json:
        print_json(cards)
        return
    console = output_console()
    for card in cards:
        console.print(card["name"], style="bold")
        for heading in _HEADINGS:
            # Two columns of words, broken between words, that any terminal has room for.
            lines = textwrap.wrap(str(card[heading]), _WIDTH - _INDENT)
            for number, line in enumerate(lines):
                label = heading.replace("_", " ") if number == 0 else ""
                console.print(f"  {label:<{_INDENT - 2}}{line}", soft_wrap=True)
    console.print("`auto` chooses by public numbers: docs/explanation/choosing.md.")


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
