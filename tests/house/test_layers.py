"""The layer rules of docs/explanation/architecture.md, read from the syntax tree of every module.

Private data stop at the gate. Nothing to the right of it can reach `tables` or `moments`, directly or through another
module: imports inside functions count, and so do names that a package loads lazily. Two modules of these packages are
public records, and everybody may read them: the schema of a table, and the rule by which its rows are made.
"""

import ast
import functools
from pathlib import Path

import pytest

import eigenveil

PACKAGE = Path(eigenveil.__file__).parent
RECORDS = {"tables.schema", "moments.row_rule"}
PRIVATE = {"tables", "moments", "gate", "estimators", "cli"}
BASE = {"__version__", "errors", "files", "guarantee", "notebook", "lazily", "numerics", "uncertainty"}
DRAWS = BASE | {"accounting", "mechanisms", "sampling"}
# What each part of the package imports by itself, besides its own modules.
ALLOWED = {
    **{part: set() for part in ("errors", "notebook", "numerics", "uncertainty")},
    **{part: {"errors"} for part in ("files", "guarantee", "metrics")},
    **dict.fromkeys(("accounting", "postprocess", "sampling", *RECORDS), BASE),
    "mechanisms": BASE | {"accounting", "sampling"},
    "releases": BASE | {"accounting", "mechanisms", "postprocess"} | RECORDS,
    "moments": BASE | {"moments.row_rule", "releases"},  # of releases the public grid that scores are counted on
    "tables": BASE | {"moments", "tables.schema"},
    "gate": DRAWS | {"moments", "releases"} | RECORDS,
    # A client holds its own row, so the local model bounds rows itself and shares nothing with the central one.
    "local": DRAWS | {"moments", "releases", "moments.row_rule"},
    # A site reads its rows by an estimator's parameters; whoever combines has what left, and no more.
    "federation": DRAWS | {"estimators", "gate", "moments", "releases", "tables"} | RECORDS,
    # Planning knows mechanisms by their public parameters.
    "theory": DRAWS,
    # An audit makes its own neighbouring data sets, and runs mechanisms on them.
    "audit": DRAWS | {"local"},
    # A report reads release files and ledgers.
    "report": BASE | {"accounting", "mechanisms", "releases", "theory"},
    # Other packages run fits and rounds, and read guarantees.
    "interop": BASE | {"accounting", "estimators", "federation", "releases"},
}
JOIN_BOTH_HALVES = {"estimators", "cli", "__init__"}
# Only what runs on a client, or plays clients, may reach the rows of the local model.
CLIENT_SIDE = {"local.client", "local.simulation"}
# And only what runs at a site may reach those of several custodians, or what another package calls with its rows.
SITE_SIDE = {"federation.site", "interop.flower", "interop.opendp"}
# What is of no use to a fit, and packages that are installed apart.
EXTRAS = {"audit", "cli", "federation", "interop", "report"}
OPTIONAL = {
    "cryptography",
    "dask",
    "distributed",
    "dp_accounting",
    "duckdb",
    "matplotlib",
    "onnx",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
}


def sources():
    """Return the text of every module by its dotted name below the package; a package is its `__init__`."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts)] = file.read_text(encoding="utf-8")
    return found


SOURCES = sources()


@functools.cache
def parsed(text):
    return ast.parse(text)


def statements(body, late=True):
    """Return all statements that may run, at any depth, but for those below `if TYPE_CHECKING`.

    With ``late=False`` those alone that run when a module is loaded, and so none of functions.
    """
    for statement in body:
        yield statement
        only_for_types = isinstance(statement, ast.If) and getattr(statement.test, "id", None) == "TYPE_CHECKING"
        skipped = only_for_types or (not late and isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef))
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if not (skipped and field == "body"):
                yield from statements(getattr(statement, field, ()), late)


def all_paths(text, module, late=True):
    """Return the dotted paths that a module imports, of this package and of others."""
    here = ["eigenveil", *module.split(".")]
    for node in statements(parsed(text).body, late):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            stem = base + (node.module.split(".") if node.module else [])
            paths = [[*stem, alias.name] for alias in node.names]
        else:
            continue
        yield from paths


def imported_paths(text, module, late=True):
    """Return the dotted paths, below the package, that a module imports."""
    paths = all_paths(text, module, late)
    return {".".join(path[1:]) for path in paths if path[0] == "eigenveil" and len(path) > 1}


@functools.cache
def lazy_homes(package):
    """Return the names that a package loads lazily, by the module they live in."""
    for node in parsed(SOURCES.get(package, "")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_HOMES":
            return ast.literal_eval(node.value)
    return {}


def modules_of(path):
    """Return the modules that run when a dotted path is imported: its packages, itself, and a lazy name's home.

    Whoever imports a package as a whole may ask it for any of its names.
    """
    parts, found = path.split("."), {"__init__"}
    for home in lazy_homes(f"{path}.__init__").values():
        found |= modules_of(f"{path}.{home}")
    for length in range(1, len(parts) + 1):
        stem = ".".join(parts[:length])
        found |= {name for name in (stem, f"{stem}.__init__") if name in SOURCES}
    package = ".".join([*parts[:-1], "__init__"])
    home = lazy_homes(package).get(parts[-1])
    return found if home is None else found | modules_of(".".join([*parts[:-1], home]))


@functools.cache
def all_imports():
    """Return the modules that run because of each module's own imports."""
    return {
        module: set().union(*(modules_of(path) for path in imported_paths(text, module))) - {module}
        for module, text in SOURCES.items()
    }


def reachable(start, imports=None):
    """Return every module that runs, sooner or later, because of `start`."""
    imports = imports or all_imports()
    found, waiting = set(), {start}
    while waiting:
        module = waiting.pop()
        found.add(module)
        waiting |= imports[module] - found
    return found


def layer(path):
    """Return the part of the package that a module, or a name in one, belongs to."""
    record = ".".join(path.split(".")[:2])
    return record if record in RECORDS else path.partition(".")[0]


def private_parts(modules):
    """Return the private parts among modules; a package that loads lazily is nothing by itself."""
    return {layer(module) for module in modules if not module.endswith(".__init__")} & PRIVATE


def test_modules_import_only_their_lower_layers():
    for module, text in SOURCES.items():
        if layer(module) not in JOIN_BOTH_HALVES:
            direct = {layer(path) for path in imported_paths(text, module)} - {layer(module)}
            if module in ("tables.__init__", "moments.__init__"):
                assert direct == {"lazily"}, module
            assert direct <= ALLOWED[layer(module)], module


def test_nothing_right_of_the_gate_can_reach_a_row():
    right = [module for module in SOURCES if layer(module) not in PRIVATE | {"__init__"} and module not in SITE_SIDE]
    assert {layer(module) for module in right} >= ALLOWED.keys() - PRIVATE
    for module in right:
        assert private_parts(reachable(module)) == ({"moments"} if module in CLIENT_SIDE else set()), module


def readers(*names):
    """Return the modules that read an attribute of one of these names."""
    return {
        module
        for module, text in SOURCES.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute) and node.attr in names
    }


def test_a_mechanism_meets_private_sums_at_the_gate_only():
    """`gram` is the private sum: it is read where it is made, and where a mechanism draws."""
    assert readers("gram", "_gram") == {"moments.second_moments", "gate"}


def test_a_mechanism_meets_private_counts_of_scores_at_the_gate_only():
    assert readers("in_cells", "_in_cells") == {"moments.counts", "gate"}


def test_the_core_loads_no_extra():
    """Neither a part that is of no use to a fit, nor a package that is installed apart, such as an engine."""
    for module, text in SOURCES.items():
        if layer(module) not in EXTRAS:
            assert not EXTRAS & {layer(path) for path in imported_paths(text, module, late=False)}, module
            others = {path[0] for path in all_paths(text, module, late=False)}
            assert not others & OPTIONAL, module


def test_control_an_extra_is_seen_where_it_is_loaded_at_once():
    late, at_once = "def late():\n    from ..report import page", "try:\n    import dask.array\nexcept ImportError: ..."
    assert imported_paths(late, "releases.record") == {"report.page"}
    assert not imported_paths(late, "releases.record", late=False)
    assert ["dask", "array"] in list(all_paths(at_once, "tables.dask", late=False))


def test_no_circle_of_imports():
    """Packages are entered through their `__init__`, which loads lazily, so circles are of modules."""
    graph = {
        module: {other for other in found if not other.endswith("__init__")} for module, found in all_imports().items()
    }
    circles = [module for module, found in graph.items() if any(module in reachable(other, graph) for other in found)]
    assert not circles


@pytest.mark.parametrize("statement", ["from ..tables.schema import Schema", "from eigenveil.moments import RowRule"])
def test_control_a_public_record_may_be_read(statement):
    found = set().union(*(modules_of(path) for path in imported_paths(statement, "postprocess.spectrum")))
    assert not private_parts(found)
    assert found & RECORDS


@pytest.mark.parametrize(
    "statement",
    [
        "from ..moments import SecondMoments",
        "from eigenveil.moments import RowBound",
        "import eigenveil.tables.files",
        "from .. import moments",
        "from eigenveil import SecondMoments",
        "def late():\n    from ..tables import second_moments",
        "from .. import tables",
        "from ..gate import release",
        "from eigenveil import release",
        "from ..local.client import encode",
        "from ..local import encode",
        "from ..gate import site_share",
        "from ..federation import contribute",
    ],
)
def test_control_a_reach_for_rows_is_seen(statement):
    module = "postprocess.spectrum"
    added = set().union(*(modules_of(path) for path in imported_paths(statement, module)))
    imports = {**all_imports(), module: all_imports()[module] | added}
    assert private_parts(reachable("report.page", imports))
