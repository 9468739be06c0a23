"""Texts that users see are in the words of the field: no retired word in them, and docs of a readable length.

Checked: pages, README and the like, examples, and every string and docstring of the package. Names in code are not:
text between backticks, addresses of links, doctests, and strings without a space.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = 60_000

RETIRED = {
    r"(?<!power\s)laws?": "mechanism, or distribution",
    r"promis\w*": "guarantee",
    r"told": "reported, released, known",
    r"(what|as it) left": "released values",
    r"in truth": "true value",
    r"caveats?": "assumption",
    r"(rungs?|ladders?)": "grid of candidate bounds",
    r"rings?": "neighbours at distance 1..h, integers modulo 2^k",
    r"(swamp|drown)\w*": "not distinguishable from noise",
    r"noise hides": "not distinguishable from noise",
    r"hidden by the noise": "not distinguishable from noise",
    r"by their places": "uses differences of neighbouring rows",
    r"(first|second) looks?": "pilot estimate, second pass",
    r"(one|two|first|second|both) stages?": "pilot estimate, second pass",
    r"read off": "estimated from, computed from",
    r"persons": "people, privacy units",
    r"custodians?": "data owner",
    r"freed of": "without",
    r"nobody may": "must not",
    r"of its own accord": "automatically",
    r"tells": "shows, states, reports",
    r"root of the diagonal": "standard deviation",
    r"off by [\d.]+\s*(°|degrees?)": "angle error N°",
    r"(holds?|held) [\d.]+\s*% of the variance": "captures N % of the variance",
}
_PATTERNS = (one.replace(" ", r"\s+") for one in RETIRED)  # a text may break its lines anywhere
_ANY = re.compile(rf"\b({'|'.join(_PATTERNS)})(?!\w)", re.IGNORECASE)

ALLOWED: dict[str, tuple[str, ...]] = {
    # Path from the root: exact texts that stay, each with its reason as a comment.
}

_NOT_TEXT = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)|https?://\S+|^ *(?:>>>|\.\.\.) .*$", re.MULTILINE)


def retired_in(text: str) -> list[tuple[int, str]]:
    """Return the retired words of a text with their lines."""
    cleaned = _NOT_TEXT.sub(lambda found: "`" + "\n" * found[0].count("\n"), text)
    return [(cleaned.count("\n", 0, found.start()) + 1, found[0]) for found in _ANY.finditer(cleaned)]


def strings_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are texts: those with a space, docstrings and parts of f-strings included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def offences(path: Path) -> list[str]:
    """Return the retired words of a file, each with its place."""
    name, content = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    texts = strings_of(content) if name.startswith("src/") and path.suffix == ".py" else [(1, content)]
    found = []
    for first, text in texts:
        for allowed in ALLOWED.get(name, ()):
            text = text.replace(allowed, "")
        found += [f"{name}:{first + line - 1}: {word}" for line, word in retired_in(text)]
    return found


def pages() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def texts() -> dict[str, list[Path]]:
    package = ROOT / "src" / "eigenveil"
    return {
        "pages": [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"],
        "examples": sorted((ROOT / "examples").rglob("*.py")),
        "package": sorted(path for path in package.rglob("*") if path.suffix in (".py", ".css", ".js", ".html")),
    }


@pytest.mark.parametrize("kind", ["pages", "examples", "package"])
def test_no_retired_word_is_in_texts_that_users_see(kind):
    paths = texts()[kind]
    assert len(paths) > 10
    found = [one for path in paths for one in offences(path)]
    assert found == [], f"{len(found)} retired words; {RETIRED}"


def test_docs_have_at_most_60000_words():
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in pages())
    assert words <= MOST_WORDS


def test_what_is_allowed_is_still_there():
    for name, allowed in ALLOWED.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        assert all(text in content for text in allowed), name


@pytest.mark.parametrize(
    "text",
    [
        "The law of the noise.",
        "What is promised here",
        "No value was told.",
        "These are the values as it left.",
        "54 % in truth",
        "See the caveats.",
        "a ladder with ten rungs",
        "rings of neighbours",
        "The noise swamps it.",
        "What the noise hides",
        "Rows are compared by their places.",
        "in two stages",
        "read off the rows",
        "400 persons",
        "The table tells more.",
        "off by 4.5°",
        "Component 1 holds 54 % of the variance.",
    ],
)
def test_control_a_retired_word_is_found(text):
    assert retired_in(text)
    assert retired_in(text.replace(" ", "\n    "))
    module = f"def f():\n    {text!r}\n    g(f'{{x}} {text}')\n"
    assert [len(retired_in(one)) > 0 for _, one in strings_of(module)] == [True, True]


def test_control_names_in_code_and_other_words_are_not_found():
    assert retired_in("A string, a compromise, lawful; the coordinator; during a pass, `told` and [x](law.md).") == []
    assert list(strings_of("told = {'told': f('persons')}  # told")) == []
