"""The shape of the code in numbers: how far one fit walks, how large the package is, how wide its main classes are.

python tools/house.py            print the figures, scikit-learn's beside them
python tools/house.py --check    and fail where a figure is above its limit

The limits stand below: what is true today, and a little slack. They are there to notice a maze while it is small.
Where a change is right and passes one, raise it in the same commit and say why.
"""

import argparse
import ast
import dataclasses
import importlib
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "eigenveil"

LIMITS = {
    "modules on the path of one fit": 52,
    "changes of module in one fit": 3_000,
    "modules": 200,
    "source lines": 53_000,
    "top-level entries": 24,
    "classes in the MRO of Release": 4,
    "public names of Release": 41,  # `regressions`: one for each target of a fit
    "classes in the MRO of PrivatePCA": 9,
    "arguments typed `estimator: Any`": 0,
    "modules imported by exactly one other": 65,
}


def module_names() -> Iterator[str]:
    """Yield the dotted name of every module; a package is its `__init__`."""
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def walk(run: Callable[[], object], package: str) -> list[str]:
    """Return the module of every call of a package's own Python code while `run` runs, in order, in this thread."""
    modules: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and (name == package or name.startswith(f"{package}.")):
            modules.append(name)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return modules


def changes(modules: list[str]) -> int:
    """Return how often a call is in another module than the call before it."""
    return sum(one != other for one, other in pairwise(modules))


def import_all() -> None:
    """Import every module whose packages are installed, so that a walk holds no import."""
    for name in module_names():
        if not name.endswith("__main__"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue


def walk_of_one_fit() -> list[str]:
    """Return the walk of the first fit of a process; seeded, so that every run counts the same calls."""
    import numpy as np

    from eigenveil import PrivatePCA

    rows = np.random.default_rng(0).normal(size=(2000, 5))
    model = PrivatePCA(2, epsilon=1, standardize=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return walk(lambda: model.fit(rows), "eigenveil")


def walk_of_scikit_learn() -> list[str]:
    """Return the walk of the same analysis in scikit-learn, without privacy."""
    import numpy as np
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).normal(size=(2000, 5))
    return walk(lambda: make_pipeline(StandardScaler(), PCA(2)).fit(rows), "sklearn")


def imported_once() -> list[str]:
    """Return the modules that exactly one other module imports, inside functions and for types too."""
    names = set(module_names())
    importers: dict[str, set[str]] = {name: set() for name in names}
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        here = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                stem = [*parts[: len(parts) - node.level]] if node.level else []
                stem += node.module.split(".") if node.module else []
                paths = [".".join([*stem, alias.name]) for alias in node.names] + [".".join(stem)]
            elif isinstance(node, ast.Import):
                paths = [alias.name for alias in node.names]
            else:
                continue
            for path in paths:
                if path in names and path != here:
                    importers[path].add(here)
    return sorted(name for name, found in importers.items() if len(found) == 1)


def public_names(cls: type) -> set[str]:
    """Return the public attributes of a class, fields included."""
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    return {name for name in {*dir(cls), *fields} if not name.startswith("_")}


def figures(path: list[str]) -> dict[str, int]:
    """Return the figures by the names of `LIMITS`; `path` is the walk of one fit."""
    from eigenveil import PrivatePCA, Release

    texts = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")]
    entries = {entry.name for entry in PACKAGE.iterdir()} - {"py.typed", "__pycache__"}
    values = (
        len(set(path)),
        changes(path),
        len(texts),
        sum(text.count("\n") for text in texts),
        len(entries),
        len(Release.__mro__),
        len(public_names(Release)),
        len(PrivatePCA.__mro__),
        sum(len(re.findall(r"\bestimator: Any\b", text)) for text in texts),
        len(imported_once()),
    )
    return dict(zip(LIMITS, values, strict=True))


def main() -> int:
    """Print the figures; with --check return 1 where one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a figure is above its limit")
    parser.add_argument("--walk", action="store_true", help="list the modules of one fit in order")
    options = parser.parse_args()
    import_all()
    path, theirs = walk_of_one_fit(), walk_of_scikit_learn()
    beside: dict[str, Any] = dict(zip(LIMITS, (len(set(theirs)), changes(theirs)), strict=False))
    found = figures(path)
    print(f"{'':40}{'eigenveil':>10}{'limit':>10}{'sklearn':>10}")
    for name, value in found.items():
        print(f"{name:40}{value:>10,}{LIMITS[name]:>10,}{beside.get(name, ''):>10}")
    if options.walk:
        calls = Counter(path)
        print("\nThe walk of one fit, and how many calls each module has:")
        for module in dict.fromkeys(path):
            print(f"  {module.removeprefix('eigenveil.'):34}{calls[module]:>6,}")
    above = [name for name, value in found.items() if value > LIMITS[name]]
    for name in above:
        print(f"above its limit: {name}, {found[name]:,} > {LIMITS[name]:,}", file=sys.stderr)
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
