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
            claims hold. Three do not: the Wishart mechanism is not ε-private, and the errors of local PCA and of one
            classification task cannot be obtained as described. [The papers](../reference/papers.md) has the calls,
            [errata](errata.md) the points we could not confirm."""),
        prose("""`python -m experiments` builds the page from `experiments/<author_year>/results.json`; these files
            have every cell (with a standard error from 10 runs on), `runs.jsonl.xz` every run. The last line of a
            section says what it rests on. Amin, Beyond and Jiang were run again on this version; Chaudhuri was not,
            nor was Wang and Xu but for new settings of Figure 2. None of the disagreements has been discussed with
            the authors yet."""),
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
    """Return where the numbers of a section come from: commit, day, versions, and the data by their checksums."""
    origin = found.origin
    kept = load_checksums()
    data = [
        f"{name}:{checksum[:8]}" + ("" if kept.get(name) == checksum else " (not ours)")
        for name, checksum in origin["data"].items()
    ]
    versions = ", ".join(f"{name}-{version}" for name, version in origin["versions"].items())
    parts = [f"{found.size.capitalize()} size", *origin["days"], f"commit {', '.join(origin['commits'])}", versions]
    return f"*{', '.join(parts)}{'; SHA-256 of the data: ' if data else ''}{', '.join(data)}.*\n"


def main(*only: str, arguments: Sequence[str] | None = None) -> None:
    """Run experiments and build the page; the full size keeps results.json, the quick size stays in the cache."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=main.__doc__)
    if not only:
        parser.add_argument("names", nargs="*", help=f"which experiments to run, all by default: {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="minutes instead of the papers' sizes")
    parser.add_argument("--repeats", type=int, metavar="N", help="at most N repeats of a cell; nothing is compared")
    parser.add_argument("--workers", type=int, default=1, help="processes to use")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run measured")
    parser.add_argument("--page-only", action="store_true", help="build the page from results.json, run nothing")
    parser.add_argument("--expect", type=int, metavar="N", help="write expected.json from N runs of the quick size")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for measurements and for partial results")
    options = parser.parse_args(arguments)
    chosen = list(only) or options.names or names()
    if unknown := sorted(set(chosen) - set(names())):
        parser.error(f"there is no experiment {unknown[0]}; choose from {', '.join(names())}")
    kept: dict[str, Results] = {}  # all cells and repeats of the full size
    others: dict[str, Results] = {}
    wrong: list[str] = []
    for name in chosen if not options.page_only else ():
        if sentence := missing_data(name):
            console.print(sentence)
        if not cells_here(name, options.quick):
            continue
        if options.expect:
            write_expected(name, options.expect, cache=options.cache, fresh=options.fresh)
            continue
        how = {"workers": options.workers, "fresh": options.fresh, "most": options.repeats, "cache": options.cache}
        found = run(name, quick=options.quick, **how)
        if options.quick and options.repeats is None:
            wrong += [f"{name}: {line}" for line in _compared(name, found)]
        whole = not (options.quick or options.repeats or lacking(name))
        (kept if whole else others)[name] = found
        if whole:
            found.save(HERE / name / "results.json")
    if wrong:  # before a page, which may fail
        print("\n".join(wrong), file=sys.stderr, flush=True)
    if others:
        build_page(others, options.cache / ("quick" if options.quick else "partial") / PAGE.relative_to(DOCS))
    if others and not options.quick:
        console.print(f"{', '.join(others)}: a partial run, so results.json stays as it is.")
    if kept or options.page_only:
        paths = {name: HERE / name / "results.json" for name in names()}
        build_page({name: load_results(path) for name, path in paths.items() if path.exists()})
    if wrong:
        sys.exit(1)


def _compared(name: str, results: Results) -> list[str]:
    if not (HERE / name / "expected.json").exists():
        console.print(f"{name} has no expected.json to compare with; make it with --expect 20.")
        return []
    return disagreements(experiment(name).findings(results), load_expected(name, without=lacking(name)))


if __name__ == "__main__":
    main()
