"""Do fast tests hold the constants of the mechanisms? Each is made wrong in a copy, and its tests must fail.

python tools/mutants.py                  all mutants of tools/mutant_table.py, one after the other
python tools/mutants.py --only wishart   those whose name or expressions have this word
python tools/mutants.py --list           what there is, and nothing run

The table names a function, method or constant of the package and an expression in it, compared as syntax: how it is
laid out plays no role. "scaled" puts 0.8 and 1.25 times the expression there; other words replace it: degrees and
exponents one off, the other adjacency. The source is copied to a temporary directory; nothing here changes.
A mutant that dies of something else than a failed check (a NameError, say) tells nothing about tests and counts as
missed. Needs a POSIX system: every mutant runs in a process forked from one that has imported the heavy packages.
"""

import argparse
import ast
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "eigenveil"
FACTORS = ("4 * ({}) / 5", "5 * ({}) / 4")
# What says that a check failed, in pytest's summary lines; anything else is the mutant's own death.
CHECKS = ("AssertionError", "assert ", "Failed: DID NOT RAISE", "Expected:")
PRELOADED = ["numpy", "scipy.stats", "scipy.integrate", "scipy.optimize", "mpmath", "hypothesis", "pytest", "_pytest"]


@dataclass(frozen=True)
class Mutant:
    """One wrong constant: where it is, the expression that is there, what stands there instead, and the tests."""

    where: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {self.old} -> {self.new}"

    def applied(self) -> tuple[Path, str]:
        """Return the file, relative to the package, and its text with the wrong constant."""
        name, _, number = self.where.partition("#")
        parts = name.split(".")
        files = [Path(*parts[:length]).with_suffix(".py") for length in range(1, len(parts))]
        file = next((file for file in files if (SOURCE / file).exists()), files[-1])
        source = (SOURCE / file).read_bytes()
        found = expressions(ast.parse(source), parts[len(file.parts) :], self.old)
        if int(number or 1) > len(found) or (len(found) > 1 and not number):
            raise ValueError(f"{name} has {self.old!r} {len(found)} times; {name}#2 means the second of several.")
        node = found[int(number or 1) - 1]
        lines = source.splitlines(keepends=True)  # bytes, as ast counts columns in them
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        after = start + len(ast.get_source_segment(source.decode(), node).encode())
        return file, (source[:start] + f"({self.new})".encode() + source[after:]).decode()


def expressions(tree: ast.Module, names: list[str], words: str) -> list[ast.expr]:
    """Return where an expression stands in the function, method or constant of these names, from the top down."""
    scopes: list[Any] = [tree]
    for name in names:
        scopes = [inner for scope in scopes for inner in getattr(scope, "body", []) if name in defined(inner)]
    wanted = ast.parse(words, mode="eval").body
    alike = [node for scope in scopes for node in ast.walk(scope) if type(node) is type(wanted)]
    same = [node for node in alike if ast.dump(node) == ast.dump(wanted)]
    return sorted(same, key=lambda node: (node.lineno, node.col_offset))


def defined(statement: ast.stmt) -> set[str]:
    """Return the name of a function or class, or those that an assignment gives."""
    parts = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.Name)]
    return {getattr(statement, "name", ""), *(part.id for part in parts if isinstance(part.ctx, ast.Store))}


def mutants(table: Any) -> Iterator[Mutant]:
    """Yield the mutants of a table of (where, expression, replacements, tests)."""
    for where, old, replacements, tests in table:
        for words in replacements:
            for new in [factor.format(old) for factor in FACTORS] if words == "scaled" else [words]:
                yield Mutant(where, old, new, tests)


def run_tests(source: str, tests: tuple[str, ...]) -> tuple[int, str]:
    """Return pytest's exit code and its summary, with the package taken from another directory."""
    sys.dont_write_bytecode = True  # two mutants of one size and second would share a cached file
    sys.path.insert(0, source)
    os.chdir(ROOT)
    import pytest

    printed = io.StringIO()
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    with redirect_stdout(printed), redirect_stderr(printed):
        code = int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))
        import eigenveil

    if not Path(eigenveil.__file__).is_relative_to(source):
        raise RuntimeError(f"The tests imported {eigenveil.__file__} and not the copy in {source}.")
    summary = [line for line in printed.getvalue().splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
    return code, "\n".join(summary) or printed.getvalue()[-500:]


def verdict(code: int, summary: str) -> str:
    """Return "caught", "missed", or what is wrong with the mutant."""
    if code == 0:
        return "missed"
    if code == 1 and any(check in summary for check in CHECKS):
        return "caught"
    return "died: " + (summary.splitlines() or ["no tests"])[-1][:160]


def main() -> None:
    """Run the mutants that were asked for, and exit with 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word in the name or the expressions of a mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tools"))
    from mutant_table import TABLE

    chosen = [mutant for mutant in mutants(TABLE) if options.only in str(mutant)]
    if not chosen:
        parser.error(f"no mutant has {options.only!r} in its name or expressions; --list shows what there is")
    if options.list:
        print("\n".join(str(mutant) for mutant in chosen))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    missed, start = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as place, context.Pool(1, maxtasksperchild=1) as pool:
        copy = Path(place) / "eigenveil"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        honest = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        code, summary = pool.apply(run_tests, (place, honest))
        if code != 0:
            sys.exit(f"The tests fail on the source as it is, so they catch nothing:\n{summary}")
        for mutant in chosen:
            file, changed = mutant.applied()
            (copy / file).write_text(changed)
            found = verdict(*pool.apply(run_tests, (place, mutant.tests)))
            shutil.copy(SOURCE / file, copy / file)
            missed += found != "caught"
            print(f"{found:7} {mutant}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught, {time.monotonic() - start:.0f} seconds.")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
