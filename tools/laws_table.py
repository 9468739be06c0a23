"""The table of laws in docs/reference/laws.md, made from the facts that each law declares.

python tools/laws_table.py            print the table
python tools/laws_table.py --write    put it into the page
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marked_part import with_part

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "laws.md"
BEGIN = "<!-- laws: begin; made by tools/laws_table.py, do not edit by hand -->"
END = "<!-- laws: end -->"
HEADINGS = ("name", "releases", "privacy", "numerics", "source", "use when")


def laws_table(laws: Mapping[str, Any]) -> str:
    """Return the table of laws as Markdown, in the order of the table in the code."""
    rows = [HEADINGS, ("---",) * len(HEADINGS)]
    for name, law in laws.items():
        words = (law.releases, law.privacy(), law.numerics_in_words(), law.source, law.use_when)
        rows.append((f"`{name}`", *(str(word).replace("|", "\\|") for word in words)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_table(page: str, table: str) -> str:
    """Return the page with the table between its two markers."""
    return with_part(page, BEGIN, END, table)


def main() -> None:
    """Print the table, or write it into the page."""
    from eigenveil.mechanisms import LAWS

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.relative_to(PAGE.parents[2])}")
    table = laws_table(LAWS)
    if parser.parse_args().write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    else:
        print(table)


if __name__ == "__main__":
    main()
