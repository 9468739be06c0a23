"""The tables that compare with diffprivlib and OpenDP: in README.md, and in docs/research/utility.md.

    python benchmarks/peers_table.py                                               print them, from the saved results
    python benchmarks/peers_table.py --write                                       put them into the pages
    python benchmarks/peers_table.py --measure --diffprivlib-python PATH/TO/python --write     measure first

Measuring takes about a quarter of an hour, most of it waiting for fits that do not end, and saves every single loss in
`peers_results.json` with versions, commit and day. What is not measured on the day is not in the tables.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from frontier_page import filled, markdown

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("peers_results.json")
README, PAGE = ROOT / "README.md", ROOT / "docs" / "research" / "utility.md"
NAMES = {"eigenveil": "eigenveil", "diffprivlib": "diffprivlib", "opendp": "OpenDP"}
MARK = "peers_table"
DIMENSIONS = (4, 10)  # of the true epsilon
SETS = {
    "digits": "handwritten digits",
    "breast_cancer": "tumours",
    "synthetic": "synthetic rows of JMLR 2013",
}


def measure(diffprivlib_python: str) -> None:
    """Run the quadrature of the samplers' true epsilon and every fit, and save them after each set and epsilon."""
    sys.path.append(str(ROOT))
    import peers_loss
    import peers_quadrature
    from experiments import provenance

    record = {"commit": provenance.commit(), "day": provenance.today()}  # before the run: files may change in its time
    results: dict[str, Any] = {
        "origin": provenance.origin(peers_loss.SETS, [record]),
        "seconds": peers_loss.SECONDS,
        "true_epsilon": {str(d): peers_quadrature.worst(d)[0] for d in DIMENSIONS},
        "cases": [],
    }
    for case in peers_loss.cases({"opendp": sys.executable, "diffprivlib": diffprivlib_python}):
        results["cases"].append(case)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"{case['set']}, epsilon {case['epsilon']:g}: done", file=sys.stderr, flush=True)


def version_of(package: str, results: dict[str, Any]) -> str:
    """Return the version that a fit reported; ours is that of the environment."""
    reported = [case["packages"][package].get("version") for case in results["cases"]]
    return next((version for version in reported if version), results["origin"]["versions"].get(package, ""))


def mean_text(losses: list[float]) -> str:
    error = f" ± {np.std(losses, ddof=1) / len(losses) ** 0.5:.1g}" if len(losses) > 1 else ""
    return f"{np.mean(losses):.3g}{error}" if losses else ""


def readme_table(results: dict[str, Any]) -> str:
    """Return the table of the README: a line a set, a column a package, both epsilons in a cell."""
    epsilons = list(dict.fromkeys(case["epsilon"] for case in results["cases"]))
    header = [f"loss at ε = {' / '.join(f'{epsilon:g}' for epsilon in epsilons)}"]
    header += [f"{words} {version_of(name, results)}" for name, words in NAMES.items()] + ["a random guess"]
    rows = []
    for name, words in SETS.items():
        mine = [case for case in results["cases"] if case["set"] == name]
        shape = f"{words}, {mine[0]['n']:,} by {mine[0]['d']}, k = {mine[0]['k']}"
        losses = [[case["packages"][package]["losses"] for case in mine] for package in NAMES]
        cells = [" / ".join(f"{np.mean(some):.2g}" if some else "none" for some in both) for both in losses]
        rows.append([shape, *cells, f"{mine[0]['random']:.2g}"])
    peers = " / ".join(f"{results['true_epsilon'][str(d)]:.2f}" for d in DIMENSIONS)
    dimensions = " / ".join(str(d) for d in DIMENSIONS)
    rows.append([f"true ε of one direction stated at 1, d = {dimensions}", "at most 1", peers, peers, ""])
    return markdown(header, rows, around=" ")


def page_table(results: dict[str, Any]) -> str:
    """Return the table of the research page: a line a set and epsilon, packages in the order of `NAMES`."""
    rows = []
    for case in results["cases"]:
        found = [case["packages"][package] for package in NAMES]
        losses = [mean_text(each["losses"]) or each["note"] for each in found]
        fits = " / ".join(str(len(each["losses"])) for each in found)
        seconds = " / ".join(f"{np.median(each['seconds']):.2g}" if each["seconds"] else "none" for each in found)
        rows.append([case["set"], f"{case['epsilon']:g}", *losses, f"{case['random']:.2g}", fits, seconds])
    return markdown(
        ["set", "ε", *(f"{words} loss" for words in NAMES.values()), "random", "fits", "seconds a fit"], rows
    )


def origin_in_words(results: dict[str, Any]) -> str:
    origin = results["origin"]
    versions = ", ".join(f"{words} {version_of(name, results)}" for name, words in NAMES.items())
    return (
        f"Measured on {', '.join(origin['days'])} at commit {', '.join(origin['commits'])} ({versions}, Python "
        f"{origin['versions']['python']}). A fit has {results['seconds']:g} seconds of processor time. After the first "
        "fit that does not finish, no further fit is tried."
    )


def pages(results: dict[str, Any]) -> dict[Path, dict[str, str]]:
    """Return what stands between the marks of each page."""
    return {
        README: {"table": readme_table(results)},
        PAGE: {"results": f"{origin_in_words(results)}\n\n{page_table(results)}"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="run everything again and save it")
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment with diffprivlib; with --measure")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    arguments = parser.parse_args()
    if arguments.measure:
        if not arguments.diffprivlib_python:
            parser.error("--measure needs --diffprivlib-python")
        measure(arguments.diffprivlib_python)
    for page, parts in pages(json.loads(RESULTS.read_text(encoding="utf-8"))).items():
        if arguments.write:
            page.write_text(filled(page.read_text(encoding="utf-8"), parts, MARK), encoding="utf-8")
        else:
            print("\n\n".join(parts.values()), end="\n\n")


if __name__ == "__main__":
    main()
