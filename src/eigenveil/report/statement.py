"""`Statement`: the purpose of a release, its recipients, the responsible person, and the approval."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Self

from ..errors import InvalidParameterError, quoted
from ..files import read_bounded

LABELS = {
    "purpose": "Purpose",
    "recipients": "Recipients",
    "responsible": "Responsible person",
    "approval": "Approval",
    "other_releases": "Other releases of the same data",
}
"""The fields of a statement, as a report names them."""
_LONGEST = 10_000


@dataclass(frozen=True)
class Statement:
    """What the data owner states about a release. A field that is None is printed as a blank line to fill in.

    Parameters
    ----------
    purpose : str, optional
        Why the values are released.
    recipients : str, optional
        Who receives them.
    responsible : str, optional
        The person who is responsible for the release.
    approval : str, optional
        Who approved it, when, and under which reference.
    other_releases : str, optional
        Releases of the same data that no ledger records.

    Examples
    --------
    >>> Statement(purpose="Annual report", recipients="Public").purpose
    'Annual report'
    >>> Statement.from_dict({"porpose": "Annual report"})
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: Unknown key 'porpose' in the statement; did you mean purpose.
    """

    purpose: str | None = None
    recipients: str | None = None
    responsible: str | None = None
    approval: str | None = None
    other_releases: str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _text(one.name, getattr(self, one.name)))

    @classmethod
    def from_dict(cls, content: Any) -> Self:
        """Return the statement that a mapping of its fields makes; unknown keys are refused."""
        if content is None:
            return cls()
        if not isinstance(content, Mapping):
            raise InvalidParameterError(f"A statement must be a mapping with the keys {', '.join(LABELS)}.")
        for key in content:
            if key not in LABELS:
                near = get_close_matches(str(key), list(LABELS), 1)
                hint = f"did you mean {near[0]}" if near else f"known keys are {', '.join(LABELS)}"
                raise InvalidParameterError(f"Unknown key {quoted(key)} in the statement; {hint}.")
        return cls(**content)

    @classmethod
    def of(cls, given: "Statement | Mapping[str, Any] | str | PathLike[str] | None") -> Self:
        """Return a statement that was given as such, as a mapping, as the path of a YAML file, or not at all."""
        if isinstance(given, cls):
            return given
        return cls.from_dict(_read(Path(given)) if isinstance(given, str | PathLike) else given)

    def to_dict(self) -> dict[str, str | None]:
        """Return all fields; those that nobody filled in are None."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def _read(path: Path) -> Any:
    import yaml

    content = read_bounded(path, "The statement", InvalidParameterError)
    try:
        return yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" near line {mark.line + 1}"
        raise InvalidParameterError(f"{path} is not valid YAML{where}; check indentation and quotes.") from error


def _text(name: str, value: Any) -> str | None:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = "\n".join(value)
    if isinstance(value, date | int | float) and not isinstance(value, bool):
        value = str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise InvalidParameterError(
            f"{name} must be a text of at most {_LONGEST:,} characters, or a list of texts; got "
            f"{type(value).__name__ if not isinstance(value, str) else f'{len(value):,} characters'}."
        )
    return value.strip()
