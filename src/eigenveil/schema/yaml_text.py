"""The YAML of a schema: read as text alone, so that nothing is guessed, built or repeated; written with comments.

YAML makes a truth value of ``no``, a number of ``010`` and an object of a tag. Here every scalar is the text that
stands there, and a blank, ``~`` or ``null`` without quotes is nothing. Tags, anchors and aliases are refused, and so is
a key that comes twice.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..bounded_file import read_bounded
from ..errors import InvalidParameterError
from .columns import identifies

_DEEPEST = 6
_BLANKS = ("", "~", "null")
_ASKED = {
    "number": ("range", "missing"),
    "category": ("categories", "missing"),
    "boolean": ("missing",),
    "date": ("range", "missing"),
}
_COMMENTS = {
    "range": "lowest and highest value, known without the rows, as [0, 120] or [2020-01-01, 2024-12-31]",
    "categories": "all public ones, as [F, M]; or kind: ignored, as for names and identifiers",
    "missing": "replaces a missing value: better a typical public value; or, with a range, middle or indicator",
}
_IDENTIFIES = "an identifier by its name; if a person has several rows and it tells persons apart, kind: person"
_UNUSED = "not used; to use it, kind: category with categories: [F, M], all that can occur, or another kind"
_HEAD = """\
# What is publicly known of a table. Nothing here may be read off its rows: ranges and categories come from elsewhere,
# such as the questionnaire, the instrument or the law. A blank says that nothing is known.
# Kinds: number, category, boolean, date, ignored (not read), person (tells persons apart, never a feature).
# A draft is read off the names and types of the columns: check each of them. It ignores text, and identifiers by name.
"""


def read_yaml(path: Path) -> Any:
    """Return mappings, lists and text from a file; no sentence quotes what stands in it."""
    import yaml

    content = read_bounded(path, "The schema", InvalidParameterError)
    try:
        return _built(yaml.parse(content.decode("utf-8"), Loader=yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" near line {mark.line + 1}"
    raise InvalidParameterError(f"The schema is no valid YAML{where}; check indentation and quotes.")


def _built(events: Any) -> Any:
    """Return the one document that a stream of YAML events holds."""
    import yaml

    found: list[Any] = []  # documents, of which there must be one
    stack: list[Any] = [found]
    keys: list[Any] = [None]  # for every open mapping the key that waits for its value
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise InvalidParameterError("A schema has no tags, anchors or aliases; write everything out.")
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            keys.pop()
            continue
        if isinstance(event, yaml.MappingStartEvent):
            value: Any = {}
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
        elif isinstance(event, yaml.ScalarEvent):
            value = None if event.style is None and event.value in _BLANKS else event.value
        else:
            continue
        _put(stack[-1], keys, value, event.value if isinstance(event, yaml.ScalarEvent) else None)
        if isinstance(value, dict | list):
            stack.append(value)
            keys.append(None)
        if len(stack) > _DEEPEST:
            raise InvalidParameterError("The schema is nested too deeply.")
    if len(found) != 1:
        raise InvalidParameterError("A schema is one YAML document.")
    return found[0]


def _put(parent: Any, keys: list[Any], value: Any, text: str | None) -> None:
    """Add a value to the collection it stands in, or keep it as the key of the next one."""
    if isinstance(parent, list):
        parent.append(value)
    elif keys[-1] is not None:
        parent[keys[-1]] = value
        keys[-1] = None
    elif text is None or text in parent:
        raise InvalidParameterError("A key of the schema comes twice or is no text.")
    else:
        keys[-1] = text


def written(content: Mapping[str, Any]) -> str:
    """Return the text of what `Schema.to_dict` says; keys that could be filled in stand there blank, with a comment."""
    about = ("version", "table", "period", "declared_by", "declared_on")
    lines = [f"{key}: {_scalar(content.get(key))}".rstrip() for key in about]
    lines.append("columns:")
    comments = dict(_COMMENTS)  # each once: a table may be wide
    for column in content["columns"]:
        entries = {key: value for key, value in column.items() if key != "name"}
        lines.append(f"  {_scalar(column['name'])}:")
        asked = [key for key in _ASKED.get(entries["kind"], ()) if not (key == "range" and "scale" in entries)]
        for key in dict.fromkeys(("kind", *asked, *entries)):
            value = entries.get(key)
            comment = comments.pop(key, "")
            if value == "ignored" and key == "kind":
                comment = _IDENTIFIES if identifies(column["name"]) else _UNUSED
            lines.append(f"    {key}: {_flow(value)}".rstrip() + (f"  # {comment}" if comment else ""))
    return _HEAD + "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    return f"[{', '.join(map(_scalar, value))}]" if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    """Return one value as YAML writes it inside of a list, in one line."""
    import yaml

    if value is None:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    # In double quotes a line break is escaped, since a key must not go over several lines; and so is all that a
    # terminal would obey.
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    options = {"default_style": style, "allow_unicode": style is None, "width": 2**31}
    text = str(yaml.safe_dump([value], default_flow_style=True, **options))
    return text.strip()[1:-1]
