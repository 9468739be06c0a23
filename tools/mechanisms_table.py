"""The table of mechanisms in docs/reference/mechanisms.md, made from the facts that each mechanism declares.

python tools/mechanisms_table.py            print the table
python tools/mechanisms_table.py --write    put it into the page
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "mechanisms.md"
BEGIN = "<!-- mechanisms: begin; made by tools/mechanisms_table.py, do not edit by hand -->"
END = "<!-- mechanisms: end -->"
HEADINGS = ("name", "releases", "privacy", "numerics", "source", "use when")


def mechanisms_table(mechanisms: Mapping[str, Any]) -> str:
    """Return the table of mechanisms as Markdown, in the order of the table in the code."""
    rows = [HEADINGS, ("---",) * len(HEADINGS)]
    for name, mechanism in mechanisms.items():
        words = (
            mechanism.releases,
            mechanism.privacy(),
            mechanism.numerics_in_words(),
            mechanism.source,
            mechanism.use_when,
        )
        rows.append((f"`{name}`", *(str(word).replace("|", "\\|") for word in words)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_table(page: str, table: str) -> str:
    """Return the page with the table between its two markers."""
    before, found, rest = page.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise SystemExit(f"The page must hold the two lines {BEGIN!r} and {END!r}.")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Print the table, or write it into the page."""
    from eigenveil.mechanisms import MECHANISMS

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.relative_to(PAGE.parents[2])}")
    table = mechanisms_table(MECHANISMS)
    if parser.parse_args().write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    else:
        print(table)


if __name__ == "__main__":
    main()
