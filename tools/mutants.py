"""Do fast tests hold the constants of the mechanisms? Each is made wrong in a copy, and its tests must fail.

python tools/mutants.py                  all mutants of tools/mutant_table.py, one after the other
python tools/mutants.py --only wishart   those whose file or text has this word
python tools/mutants.py --list           what there is, and nothing run

The table marks a part of a line with [[ ]]. "scaled" puts 0.8 and 1.25 times that part there; other words replace it:
degrees and exponents one off, the other adjacency. The source is copied to a temporary directory; nothing here changes.
A mutant that dies of something else than a failed check (a NameError, say) tells nothing about tests and counts as
missed. Needs a POSIX system: every mutant runs in a process forked from one that has imported the heavy packages.
"""

import argparse
import io
import multiprocessing
import os
import re
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
FACTORS = {"0.8": "(4 * ({part}) / 5)", "1.25": "(5 * ({part}) / 4)"}
# What says that a check failed, in pytest's summary lines; anything else is the mutant's own death.
CHECKS = ("AssertionError", "assert ", "Failed: DID NOT RAISE", "Expected:")
PRELOADED = ["numpy", "scipy.stats", "scipy.integrate", "scipy.optimize", "mpmath", "hypothesis", "pytest", "_pytest"]


@dataclass(frozen=True)
class Mutant:
    """One wrong constant: a file of the package, the text that is there, what stands there instead, and the tests."""

    file: str
    old: str
    new: str
    what: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"

    def applied(self, text: str) -> str:
        """Return the file with the wrong constant; the text must be there once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times; the table needs it once.")
        return text.replace(self.old, self.new)


def mutants(table: Any) -> Iterator[Mutant]:
    """Yield the mutants of a table of (file, marked text, replacements, tests)."""
    for file, marked, replacements, tests in table:
        before, part, after = re.fullmatch(r"(.*)\[\[(.*)\]\](.*)", marked, re.DOTALL).groups()  # type: ignore[union-attr]
        becomes: dict[str, str] = {}
        for words in replacements:
            if words == "scaled":
                becomes |= {f"{part} x {name}": form.format(part=part) for name, form in FACTORS.items()}
            else:
                becomes[f"{part} -> {words}"] = words
        for what, new in becomes.items():
            yield Mutant(file, before + part + after, before + new + after, what, tests)


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
    parser.add_argument("--only", default="", help="a word in the file or the text of a mutant")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tools"))
    from mutant_table import TABLE

    chosen = [mutant for mutant in mutants(TABLE) if options.only in str(mutant)]
    if not chosen:
        parser.error(f"no mutant has {options.only!r} in its file or text; --list shows what there is")
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
            original = (SOURCE / mutant.file).read_text()
            (copy / mutant.file).write_text(mutant.applied(original))
            found = verdict(*pool.apply(run_tests, (place, mutant.tests)))
            (copy / mutant.file).write_text(original)
            missed += found != "caught"
            print(f"{found:7} {mutant}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} caught, {time.monotonic() - start:.0f} seconds.")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
