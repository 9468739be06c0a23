"""The layer rules of docs/explanation/architecture.md, read from the syntax tree of every module.

Private data stops at the gate. Nothing to the right of it can reach `rows`, `moments` or `sources`, directly or through
another module: imports inside functions count, and so do names that a package loads lazily.
"""

import ast
import functools
from pathlib import Path

import pytest

import eigenveil

PACKAGE = Path(eigenveil.__file__).parent
NUMBERS = {"bounded_file", "assumptions", "errors", "guarantee", "lazy", "notebook", "odds", "version", "whole_file"}
PRIVATE = {"rows", "moments", "sources", "gate", "score_gate", "site_gate", "estimators", "cli"}
# What each part of the package imports by itself.
ALLOWED = {
    "errors": set(),
    "assumptions": set(),
    "version": set(),
    "with_error": set(),
    "lazy": set(),
    "cores": set(),
    "whole_file": set(),
    "bounded_file": {"errors"},
    "schema": {"bounded_file", "errors", "whole_file"},
    "randomness": {"errors"},
    "guarantee": {"assumptions", "errors", "odds"},
    "odds": set(),
    "figure_style": {"errors"},
    "metrics": {"errors"},
    "row_rule": {"errors", "guarantee"},
    "score_grid": {"errors"},
    "rows": {"cores", "errors", "row_rule", "score_grid"},
    "moments": {"errors", "row_rule", "rows"},
    "sources": {"cores", "errors", "row_rule", "rows", "moments", "schema"},
    "accounting": NUMBERS,
    "samplers": {"cores", "errors", "randomness"},
    "postprocess": {"cores", "errors", "lazy"},
    "mechanisms": NUMBERS | {"accounting", "postprocess", "randomness", "samplers"},
    "origin": {"errors", "row_rule", "schema"},
    "matrix_reading": {"errors", "mechanisms", "origin"},
    "scaled_reading": {"errors", "matrix_reading", "postprocess"},
    "variance_reading": {"mechanisms", "matrix_reading", "origin", "postprocess", "scaled_reading"},
    "component_reading": {"matrix_reading", "origin", "postprocess", "variance_reading"},
    "noise_reading": {"component_reading", "errors", "mechanisms", "matrix_reading", "origin", "postprocess"},
    "share_reading": {"component_reading", "errors", "matrix_reading", "noise_reading"},
    "uncertainty": {"errors", "mechanisms", "matrix_reading", "postprocess", "scaled_reading"},
    "regressing": {"errors", "matrix_reading", "origin", "postprocess", "uncertainty"},
    "reading": {"errors", "matrix_reading", "origin", "postprocess", "regressing", "share_reading", "uncertainty"},
    "release_archive": set(),
    "release_schema": {"guarantee", "mechanisms", "origin"},
    "release_file": {
        "bounded_file",
        "errors",
        "guarantee",
        "origin",
        "release_archive",
        "release_schema",
    },
    "notebook": set(),
    "using": {"errors", "matrix_reading", "origin", "postprocess", "reading"},
    "synthesizing": {"errors", "matrix_reading", "postprocess", "reading", "schema"},
    "exporting": {"errors", "guarantee", "matrix_reading", "reading"},
    "comparison": {"accounting", "errors", "guarantee", "notebook", "with_error"},
}
ALLOWED["releases"] = {
    "comparison", "errors", "exporting", "guarantee", "matrix_reading", "notebook", "origin",
    "release_file", "synthesizing", "using", "whole_file",
}  # fmt: skip
ALLOWED["score_maps"] = {
    "errors", "guarantee", "mechanisms", "notebook", "postprocess", "release_archive", "release_file", "score_grid",
    "whole_file",
}  # fmt: skip
ALLOWED["score_gate"] = {
    "accounting", "errors", "guarantee", "mechanisms", "randomness", "rows", "score_maps", "version",
}  # fmt: skip
ALLOWED["gate"] = NUMBERS | {
    "accounting", "mechanisms", "moments", "origin", "randomness", "releases", "row_rule", "rows", "schema",
}  # fmt: skip
# One site among several draws its share of the noise where a release would be drawn: the same gate, a leaf of its own.
ALLOWED["site_gate"] = {"accounting", "errors", "gate", "mechanisms", "moments", "row_rule"}
# Whoever drafts a round has an estimator's parameters, a site its rows; whoever combines has what left, no more.
ALLOWED["federation"] = NUMBERS | {
    "accounting", "estimators", "mechanisms", "moments", "origin", "randomness", "releases", "row_rule", "rows", "schema",
    "site_gate", "sources",
}  # fmt: skip
# A client holds its own row, so the local model bounds rows itself and shares nothing with the central one.
ALLOWED["local"] = NUMBERS | {"accounting", "mechanisms", "origin", "randomness", "releases", "row_rule", "rows"}
# Planning knows mechanisms and rules of rows by their public parameters.
ALLOWED["theory"] = NUMBERS | {
    "accounting", "figure_style", "mechanisms", "metrics", "postprocess", "randomness", "row_rule", "samplers",
}  # fmt: skip
# An audit makes its own neighbouring data sets, and runs mechanisms on them.
ALLOWED["audit"] = NUMBERS | {"accounting", "mechanisms", "local", "postprocess", "randomness", "samplers"}
# A report reads release files and ledgers.
ALLOWED["report"] = NUMBERS | {"accounting", "origin", "regressing", "releases", "schema", "score_maps", "with_error"}
ALLOWED["plots"] = {"errors", "figure_style", "releases", "report", "score_maps", "with_error"}
JOIN_BOTH_HALVES = {"estimators", "cli", "__init__"}
# Only what runs on a client, or plays clients, may reach the rows of the local model.
CLIENT_SIDE = {"local.client", "local.simulation"}
# And only what runs at a site, or reads an estimator's parameters, may reach those of several custodians.
SITE_SIDE = {"federation.site", "federation.invitation"}


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


def statements(body):
    """Return all statements that may run, at any depth, but for those below `if TYPE_CHECKING`."""
    for statement in body:
        yield statement
        only_for_types = isinstance(statement, ast.If) and getattr(statement.test, "id", None) == "TYPE_CHECKING"
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            if not (only_for_types and field == "body"):
                yield from statements(getattr(statement, field, ()))


def imported_paths(text, module):
    """Return the dotted paths, below the package, that a module imports."""
    here = ["eigenveil", *module.split(".")]
    for node in statements(parsed(text).body):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            stem = base + (node.module.split(".") if node.module else [])
            paths = [[*stem, alias.name] for alias in node.names]
        else:
            continue
        yield from (".".join(path[1:]) for path in paths if path[0] == "eigenveil" and len(path) > 1)


@functools.cache
def lazy_homes(package):
    """Return the names that a package loads lazily, by the module they live in."""
    for node in parsed(SOURCES.get(package, "")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "_HOMES":
            return ast.literal_eval(node.value)
    return {}


def modules_of(path):
    """Return the modules that run when a dotted path is imported: its packages, itself, and a lazy name's home."""
    parts, found = path.split("."), {"__init__"}
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


def layer(module):
    return module.partition(".")[0]


def test_modules_import_only_their_lower_layers():
    for module, text in SOURCES.items():
        if layer(module) not in JOIN_BOTH_HALVES:
            direct = {path.partition(".")[0] for path in imported_paths(text, module)} - {layer(module)}
            assert direct <= ALLOWED[layer(module)], module


def test_nothing_right_of_the_gate_can_reach_a_row():
    asked = [module for module in SOURCES if layer(module) not in PRIVATE | {"__init__"} and module not in SITE_SIDE]
    assert len(asked) > 150
    for module in asked:
        reached = {layer(other) for other in reachable(module)} & PRIVATE
        assert reached == ({"rows"} if module in CLIENT_SIDE else set()), module


def test_a_mechanism_meets_private_sums_at_the_gate_only():
    """`gram` is the private sum: it is read where it is made, and where a mechanism draws."""
    readers = {
        module
        for module, text in SOURCES.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute) and node.attr in ("gram", "_gram")
    }
    assert readers == {"moments", "gate", "site_gate"}


def test_a_mechanism_meets_private_counts_of_scores_at_their_gate_only():
    readers = {
        module
        for module, text in SOURCES.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute) and node.attr in ("in_cells", "_in_cells")
    }
    assert readers == {"rows.score_counts", "score_gate"}


def test_estimators_are_known_to_others_by_their_public_methods():
    """No module outside `estimators/` calls a method of an estimator that begins with an underscore."""
    private = {
        node.name
        for module, text in SOURCES.items()
        if layer(module) == "estimators"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__")
    }
    callers = {
        (module, node.attr)
        for module, text in SOURCES.items()
        if layer(module) in ("cli", "audit", "theory", "report")
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute) and node.attr in private and getattr(node.value, "id", "self") != "self"
    }
    assert not callers
    assert {"_request", "_interpret"} <= private


# A theorem names the mechanisms it is about, and `auto` those it chooses from.
MAY_NAME = ("mechanisms.", "theory.bounds.")


def compared_names(text):
    """Return the names of mechanisms and estimators that a comparison, a match or a table holds as text."""
    from eigenveil.mechanisms import MECHANISMS

    # "none" is a word of many tables.
    names = {*MECHANISMS, *(name for name in eigenveil.__all__ if name.startswith(("Private", "Local")))} - {"none"}
    tables = ast.Compare | ast.MatchValue | ast.Tuple | ast.Set | ast.Dict | ast.List
    held = (inner for node in ast.walk(parsed(text)) if isinstance(node, tables) for inner in ast.walk(node))
    return names & {node.value for node in held if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_no_mechanism_and_no_estimator_is_asked_by_its_name():
    for module, text in SOURCES.items():
        if not module.startswith(MAY_NAME) and not module.endswith("__init__"):  # lists of public names
            assert compared_names(text) == set(), module


def test_control_a_ladder_of_names_is_seen():
    assert compared_names('a == "laplace" or b in ("PrivateRidge", "x")') == {"laplace", "PrivateRidge"}


def test_no_circle_of_imports():
    """Packages are entered through their `__init__`, which loads lazily, so circles are of modules."""
    graph = {
        module: {other for other in found if not other.endswith("__init__")} for module, found in all_imports().items()
    }
    circles = [module for module, found in graph.items() if any(module in reachable(other, graph) for other in found)]
    assert not circles


def test_no_circle_of_the_local_model_is_hidden_from_the_interpreter():
    """What is imported for types alone, to keep a client light, is nothing of the local model itself."""
    for module, text in SOURCES.items():
        if module.startswith(("local.", "mechanisms.local.")) and not module.endswith("__init__"):
            shown = set(imported_paths(text, module))
            hidden = set(imported_paths(text.replace("if TYPE_CHECKING:", "if True:"), module)) - shown
            assert not [path for path in hidden if path.startswith(("local.", "mechanisms.local."))], module


@pytest.mark.parametrize(
    "statement",
    [
        "from ..moments import SecondMoments",
        "from eigenveil.moments import RowBound",
        "import eigenveil.tables.files",
        "from .. import moments",
        "from eigenveil import SecondMoments",
        "def late():\n    from ..sources import second_moments",
        "from ..gate import release",
        "from eigenveil import release",
        "from ..local.client import encode",
        "from ..local import encode",
        "from ..site_gate import site_share",
        "from ..federation import contribute",
    ],
)
def test_control_a_reach_for_rows_is_seen(statement):
    module = "postprocess.spectrum"
    added = set().union(*(modules_of(path) for path in imported_paths(statement, module)))
    imports = {**all_imports(), module: all_imports()[module] | added}
    assert {layer(other) for other in reachable("report.page", imports)} & PRIVATE
