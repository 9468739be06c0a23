"""How often every promise was tried, held and lost: the table in docs/explanation/testing.md.

python tools/promises.py            run the long tests of the promises and print the table; fails where one was lost
python tools/promises.py --write    and put it into the page
python tools/promises.py --short    the short tests instead, which `pytest` runs

A test counts where it uses one of the fixtures `campaign` and `noted` of tests/conftest.py.
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
BEGIN, END = "<!-- tries: begin; made by tools/promises.py, do not edit by hand -->", "<!-- tries: end -->"
USES = re.compile(r"\b(campaign|noted)\(")


def counted(report: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how often each promise was tried, and how often it was lost, by a JUnit report."""
    tries: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        found = {one.get("name"): one.get("value", "") for one in case.iter("property")}
        if "promise" in found:
            tries[found["promise"]] += int(found["tries"])
            lost[found["promise"]] += int(found["lost"])
    return tries, lost


def table(tries: Counter[str], lost: Counter[str]) -> str:
    """Return the table as Markdown, in the order of the names."""
    rows = [("tried", "tries", "held", "lost"), ("---", "--:", "--:", "--:")]
    rows += [(name, f"{n:,}", f"{n - lost[name]:,}", f"{lost[name]:,}") for name, n in sorted(tries.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Run the tests, print the table or write it into the page."""
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
        tries, lost = counted(report)
    found = table(tries, lost)
    if given.write:
        PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, END, found), "utf-8")
    print(found)
    sys.exit(ended)


if __name__ == "__main__":
    main()
