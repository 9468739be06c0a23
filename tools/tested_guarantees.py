"""Count the attacks of the tests on each guarantee, and how many failed: a table in docs/explanation/testing.md.

python tools/tested_guarantees.py            run the long tests and print the table; fails if an attack succeeded
python tools/tested_guarantees.py --write    also write the table into the page
python tools/tested_guarantees.py --short    run the short tests, which are part of the default `pytest` run

A test is counted if it uses one of the fixtures `campaign` and `noted` of tests/conftest.py.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from marked_part import with_part

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "testing.md"
BEGIN, END = "<!-- attacks: begin; made by tools/tested_guarantees.py -->", "<!-- attacks: end -->"
USES = re.compile(r"\b(campaign|noted)\(")


def counted(report: Path) -> tuple[Counter[str], Counter[str]]:
    """Return the attacks on each guarantee and those that succeeded, from a JUnit report."""
    attacks: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        found = {one.get("name"): one.get("value", "") for one in case.iter("property")}
        if "attack" in found:
            attacks[found["attack"]] += int(found["tries"])
            broken[found["attack"]] += int(found["broken"])
    return attacks, broken


def table(attacks: Counter[str], broken: Counter[str]) -> str:
    """Return the table as Markdown, sorted by name."""
    rows = [("attack", "runs", "failed", "succeeded"), ("---", "--:", "--:", "--:")]
    rows += [(name, f"{n:,}", f"{n - broken[name]:,}", f"{broken[name]:,}") for name, n in sorted(attacks.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Run the tests, print the table and write it into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"update {PAGE.relative_to(ROOT)}")
    parser.add_argument("--short", action="store_true", help="the short tests, not the long ones")
    given = parser.parse_args()
    users = [str(file) for file in sorted((ROOT / "tests").rglob("test_*.py")) if USES.search(file.read_text("utf-8"))]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        marked = "not heavy" if given.short else "heavy"
        # Whole parts of a file go to different cores.
        options = ["-m", marked, "--dist", "load", "-q", f"--junitxml={report}"]
        ended = subprocess.run([sys.executable, "-m", "pytest", *options, *users], cwd=ROOT, check=False).returncode
        found = table(*counted(report))
    if given.write:
        PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, END, found), "utf-8")
    print(found)
    sys.exit(ended)


if __name__ == "__main__":
    main()
