"""The layer rule of docs/architecture.md, read from the syntax tree of every module."""

import ast
from pathlib import Path

import pytest

import eigenveil

PACKAGE = Path(eigenveil.__file__).parent
ALLOWED = {
    "errors": set(),
    "version": set(),
    "randomness": {"errors"},
    "guarantee": {"errors"},
    "metrics": {"errors"},
    "rows": {"errors"},
    "pairs": {"errors", "rows"},
    "magnitudes": {"errors", "rows"},
    "moments": {"errors", "rows"},
    "sources": {"errors", "rows", "moments"},
    "accounting": {"errors", "guarantee"},
    "samplers": {"errors", "randomness"},
    "release": {"errors", "guarantee"},
    "postprocess": {"errors"},
    "mechanisms": {
        "accounting",
        "errors",
        "guarantee",
        "magnitudes",
        "moments",
        "postprocess",
        "randomness",
        "release",
        "rows",
        "samplers",
        "version",
    },
}
# A client holds its own row, so the local model bounds rows itself and shares nothing with the central one.
ALLOWED["local"] = ALLOWED["mechanisms"] - {"moments", "magnitudes"} | {"rows"}
# Planning knows mechanisms by their public parameters; it has no way to a row.
ALLOWED["theory"] = {
    "accounting",
    "errors",
    "guarantee",
    "mechanisms",
    "metrics",
    "postprocess",
    "randomness",
    "samplers",
}
# An audit makes its own neighbouring data sets, and runs mechanisms and whole estimators on them.
ALLOWED["audit"] = ALLOWED["mechanisms"] | {"estimators", "local", "mechanisms", "rows"}
# A report reads release files and ledgers; the laws of the noise are public.
ALLOWED["report"] = {
    "accounting",
    "errors",
    "guarantee",
    "local",
    "mechanisms",
    "postprocess",
    "release",
    "version",
}
ALLOWED["plots"] = {"errors", "release", "report"}
JOIN_BOTH_HALVES = {"estimators", "cli", "__init__"}


def imported_layers(source: str, module: tuple[str, ...]) -> set[str]:
    """Return the top-level parts of eigenveil that a module imports, absolutely or relatively."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(module[: len(module) - node.level]) if node.level else []
            stem = base + (node.module.split(".") if node.module else [])
            paths = [[*stem, alias.name] for alias in node.names]
        else:
            continue
        found |= {path[1] for path in paths if path[0] == "eigenveil" and len(path) > 1}
    return found - {module[1]}


def modules() -> list[tuple[str, ...]]:
    files = sorted(PACKAGE.rglob("*.py"))
    return [("eigenveil", *file.relative_to(PACKAGE).with_suffix("").parts) for file in files]


@pytest.mark.parametrize("module", modules(), ids=".".join)
def test_module_imports_only_its_lower_layers(module):
    layer = module[1]
    if layer in JOIN_BOTH_HALVES:
        return
    source = PACKAGE.joinpath(*module[1:]).with_suffix(".py").read_text(encoding="utf-8")
    assert imported_layers(source, module) <= ALLOWED[layer]


@pytest.mark.parametrize(
    "statement",
    [
        "from ..moments import SecondMoments",
        "from eigenveil.rows import RowBound",
        "import eigenveil.sources.files",
        "from .. import moments",
        "def late():\n    from ..sources import second_moments",
    ],
)
def test_the_rule_catches_a_reach_for_rows(statement):
    found = imported_layers(statement, ("eigenveil", "postprocess", "spectrum"))
    assert found & {"rows", "moments", "sources"}
