"""`eigenveil mechanisms`: the table of mechanisms, from the facts that they declare."""

import textwrap
from typing import Any

from .options import AsJson, output_console, print_json

_HEADINGS = ("use_when", "releases", "privacy", "numerics", "source")
_WIDTH, _INDENT = 70, 13


def mechanisms(as_json: AsJson = False) -> None:
    """List the mechanisms: what they release, their guarantee and when to use them."""
    from ..mechanisms import MECHANISMS

    cards = [_card(mechanism) for mechanism in MECHANISMS.values()]
    if as_json:
        print_json(cards)
        return
    console = output_console()
    for card in cards:
        console.print(card["name"], style="bold")
        for heading in _HEADINGS:
            # Two columns that fit any terminal.
            lines = textwrap.wrap(str(card[heading]), _WIDTH - _INDENT)
            for number, line in enumerate(lines):
                label = heading.replace("_", " ").capitalize() if number == 0 else ""
                console.print(f"  {label:<{_INDENT - 2}}{line}", soft_wrap=True)
    console.print("auto chooses from public numbers: docs/explanation/choosing.md")


def _card(mechanism: Any) -> dict[str, Any]:
    return {
        "name": mechanism.name,
        "releases": mechanism.releases,
        "privacy": mechanism.privacy(),
        "numerics": mechanism.numerics_in_words(),
        "source": mechanism.source,
        "use_when": mechanism.use_when,
        "calibrations": list(mechanism.calibrations),
    }
