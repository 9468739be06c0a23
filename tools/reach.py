"""Which functions of the package ran, how large the package is, and how far one fit walks through it.

A process records its calls if EIGENVEIL_REACH names a file: every function of `src` that runs is appended to it once,
also in child processes. What runs while a module is imported does not count: nobody asked for it.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "eigenveil"
RECORD = "EIGENVEIL_REACH"

# A first line of a docstring that begins with a pronoun or a clause says nothing to somebody who reads it alone.
RIDDLE = re.compile(
    r"(?:(?:return|yield|tell|refuse|draw|add|check|put|make|give),? )?"
    r"(?:what|how|which|where|those|these|that|the same|such|it|its|they|as|of|by|from|for|about|so)\b|whether its?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Function:
    """A function of the package; `line` is that of its first decorator, as in code objects."""

    module: str
    name: str
    file: str
    line: int

    @property
    def path(self) -> str:
        """The dotted name below the package."""
        return f"{self.module}.{self.name}"


def functions() -> Iterator[Function]:
    """Yield every function of `src` with a body: not overloads, and not what a protocol or a base class declares."""
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield from _functions_in(ast.parse(file.read_text(encoding="utf-8")), module, str(file), ())


def _functions_in(tree: ast.AST, module: str, file: str, outer: tuple[str, ...]) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = (*outer, node.name) if named else outer
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _declares(node):
            line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Function(module, ".".join(inner), file, line)
        yield from _functions_in(node, module, file, inner)


def _declares(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Report a body without a statement but a docstring, `...` or `raise NotImplementedError`."""
    return all(
        (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        or (isinstance(one, ast.Raise) and "NotImplementedError" in ast.unparse(one))
        for one in function.body
    )


def start_recording(file: str) -> None:
    """Append the functions of the package that run in this process, in all its threads and forks, to a file."""
    known: dict[int, CodeType] = {}  # keeps the code alive, so that no number comes twice
    package = f"{PACKAGE}{os.sep}"
    record = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        if id(code) in known:
            return
        if code.co_filename.startswith(package):
            outer: FrameType | None = frame
            while outer is not None:
                if outer.f_code.co_filename.startswith("<frozen importlib"):
                    return
                outer = outer.f_back
            os.write(record, f"{code.co_filename}:{code.co_firstlineno}\n".encode())
        known[id(code)] = code

    threading.settrace(note)
    sys.settrace(note)


def unreached(commands: Sequence[Sequence[str]]) -> list[Function]:
    """Run Python commands while they record, and return the functions that none of them reached."""
    with tempfile.TemporaryDirectory() as name:
        folder, record = Path(name), Path(name, "reached")
        record.touch()
        (folder / "sitecustomize.py").write_text(
            f"import os, sys\nsys.path.append({str(ROOT / 'tools')!r})\nimport reach\n"
            f"reach.start_recording(os.environ[{RECORD!r}])\n"
        )
        paths = [str(folder), str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, RECORD: str(record), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        for command in commands:
            if subprocess.run([sys.executable, *command], env=environment, cwd=ROOT).returncode:
                print(f"failed while recording: {' '.join(command)}", file=sys.stderr)
        reached = set(record.read_text().splitlines())
    return [one for one in functions() if f"{one.file}:{one.line}" not in reached]


def size() -> str:
    """Return a table of sizes, a line for each package."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        parts = file.relative_to(PACKAGE).parts
        counts[parts[0] if len(parts) > 1 else "(top)"] += _sizes(text)
    total: Counter[str] = sum(counts.values(), Counter())
    columns = ["statements", "functions", "modules", "lines", "records", "riddles"]
    rows = [["", *columns]]
    rows += [[name, *(f"{found[one]:,}" for one in columns)] for name, found in sorted(counts.items())]
    rows.append(["total", *(f"{total[one]:,}" for one in columns)])
    lines = ["".join([f"{row[0]:14}", *(f"{cell:>12}" for cell in row[1:])]) for row in rows]
    tests: Counter[str] = Counter()
    for file in (ROOT / "tests").rglob("*.py"):
        parts = file.relative_to(ROOT / "tests").parts
        tests[parts[0] if len(parts) > 1 else "(helpers)"] += _lines(file)
    lines.append(f"{'C lines':14}{sum(_lines(file) for file in PACKAGE.rglob('*.[ch]')):>12,}")
    lines.append(f"{'test lines':14}{sum(tests.values()):>12,}")
    lines += [f"  {name:12}{found:>12,}" for name, found in sorted(tests.items())]
    return "\n".join(lines)


def _lines(file: Path) -> int:
    return file.read_text(encoding="utf-8").count("\n")


def _sizes(text: str) -> Counter[str]:
    found = Counter(modules=1, lines=text.count("\n"))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found["functions"] += 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found["riddles"] += RIDDLE.match(ast.get_docstring(node) or "") is not None
        if isinstance(node, ast.ClassDef):
            kinds = " ".join(ast.unparse(one) for one in (*node.decorator_list, *node.bases))
            found["records"] += re.search(r"\b(dataclass|NamedTuple)\b", kinds) is not None
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not docstring and not isinstance(node, ast.Import | ast.ImportFrom):
            found["statements"] += 1
    return found


def walk(run: Callable[[], object], package: str) -> list[tuple[str, str]]:
    """Return the module and the function of every call of a package's own Python code while `run` runs."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, _event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if module == package or module.startswith(f"{package}."):
            calls.append((module, f"{frame.f_code.co_qualname}:{frame.f_code.co_firstlineno}"))

    sys.settrace(note)
    try:
        run()
    finally:
        sys.settrace(None)
    return calls


def walks() -> str:
    """Return how far a fit of a raw table and one with bounds walk, scikit-learn beside them, and the modules."""
    import numpy as np
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from eigenveil import PrivatePCA

    rows = np.random.default_rng(0).normal(size=(2000, 5))
    asked = {"epsilon": 1, "standardize": True, "random_state": 0}
    fits = {
        "raw": (PrivatePCA(2, **asked), "eigenveil"),
        "with bounds": (PrivatePCA(2, bounds=(-5, 5), **asked), "eigenveil"),
        "scikit-learn": (make_pipeline(StandardScaler(), PCA(2)), "sklearn"),
    }
    lines = [f"{'':16}{'modules':>10}{'functions':>10}{'calls':>10}"]
    modules = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PrivatePCA(1, random_state=1).fit(rows)  # so that no walk holds an import
        PrivatePCA(1, bounds=(-5, 5), random_state=1).fit(rows)
        for name, (model, package) in fits.items():
            calls = walk(lambda model=model: model.fit(rows), package)
            found = Counter(module for module, _ in calls)
            lines.append(f"{name:16}{len(found):>10,}{len(set(calls)):>10,}{len(calls):>10,}")
            modules += [f"  {name:14}{module:40}{count:>6,}" for module, count in found.items() if package != "sklearn"]
    return "\n".join([*lines, "", *modules])
