"""Run experiments and build docs/research/reproduction.md: `python -m experiments` from the project root."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .common import (
    CACHE,
    HERE,
    Results,
    cells_here,
    console,
    experiment,
    lacking,
    load_results,
    missing_data,
    names,
    prose,
    run,
)
from .expected import disagreements, load_expected, write_expected
from .provenance import load_checksums

DOCS = HERE.parent / "docs"
PAGE = DOCS / "research" / "reproduction.md"


def build_page(results: Mapping[str, Results], page: Path = PAGE) -> None:
    """Write the page from the results of the experiments, with figures in ../images/reproduction."""
    parts = [
        "# The papers reproduced\n",
        prose("""This page repeats the experiments and measurable theorems of the five papers behind eigenveil. Most
            claims hold. Three do not: the Wishart mechanism is not ε-private, and the published errors of local PCA
            and of one classification task cannot be obtained as described. [The papers](../reference/papers.md) has
            the calls, [errata](errata.md) the errors in the papers."""),
        prose("""`python -m experiments` builds the page from `experiments/<author_year>/results.json`; these files
            have every cell with its standard error, versions and data, and `runs.jsonl.xz` has every run. None of
            the disagreements has been discussed with the authors yet."""),
    ]
    for name in names():
        module = experiment(name)
        parts.append(f"## {module.TITLE}\n")
        if name not in results:
            parts.append("Not run yet.\n")
            continue
        found = results[name]
        parts.append(module.section(found, page.parent.parent / "images" / "reproduction").strip() + "\n")
        parts.append(_origin(found))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts))
    console.print(f"Wrote {page}.")


def _origin(found: Results) -> str:
    """Return where the numbers of a section come from."""
    origin = found.origin

    kept = load_checksums()
    other = [name for name, checksum in origin["data"].items() if kept.get(name) != checksum]
    data = f"; other data than ours: {', '.join(other)}" if other else ""
    without = origin.get("without single runs", 0)
    earlier = f"; {without} of {len(found.rows)} cells from before single runs were kept" if without else ""
    return (
        f"*{found.size.capitalize()} size, {', '.join(origin['days'])}, commit {', '.join(origin['commits'])}"
        f"{data}{earlier}.*\n"
    )


def main(*only: str, arguments: Sequence[str] | None = None) -> None:
    """Run experiments and build the page; the full size keeps results.json, the quick size stays in the cache."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=main.__doc__)
    if not only:
        parser.add_argument("names", nargs="*", help=f"which experiments to run, all by default: {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="minutes instead of the papers' sizes")
    parser.add_argument("--workers", type=int, default=1, help="processes to use")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured")
    parser.add_argument("--page-only", action="store_true", help="build the page from results.json, run nothing")
    parser.add_argument("--expect", type=int, metavar="N", help="write expected.json from N runs of the quick size")
    options = parser.parse_args(arguments)
    chosen = list(only) or options.names or names()
    if unknown := sorted(set(chosen) - set(names())):
        parser.error(f"there is no experiment {unknown[0]}; choose from {', '.join(names())}")
    results: dict[str, Results] = {}
    wrong: list[str] = []
    for name in chosen if not options.page_only else ():
        if sentence := missing_data(name):
            console.print(sentence)
        if not cells_here(name, options.quick):
            continue
        if options.expect:
            write_expected(name, options.expect, fresh=options.fresh)
        else:
            results[name] = run(name, quick=options.quick, workers=options.workers, fresh=options.fresh)
            if options.quick:
                wrong += [f"{name}: {line}" for line in _compared(name, results[name])]
            else:
                results[name].save(HERE / name / "results.json")
    if options.quick:
        build_page(results, CACHE / "quick" / PAGE.relative_to(DOCS))
    elif not options.expect:
        kept = {name: HERE / name / "results.json" for name in names()}
        build_page({name: load_results(path) for name, path in kept.items() if path.exists()})
    if wrong:
        sys.exit("\n".join(wrong))


def _compared(name: str, results: Results) -> list[str]:
    if not (HERE / name / "expected.json").exists():
        console.print(f"{name} has no expected.json to compare with; make it with --expect 20.")
        return []
    return disagreements(experiment(name).findings(results), load_expected(name, without=lacking(name)))


if __name__ == "__main__":
    main()
