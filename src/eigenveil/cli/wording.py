"""Errors and warnings in the words of whoever typed the command: its options, where Python would name an argument."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from typer.core import TyperCommand

from eigenveil.errors import EigenveilError

from .common import visible

_PHRASES = {
    "encode it,": "encode it with --categories,",
    "columns=": "--columns",
    " by a schema, by missing= of open_table, or by a RowBound of on_invalid='zero'": " with --missing or --schema",
    " (of an estimator in law_options)": "",
    "by memory= of open_table": "in Python, by memory= of open_table",
    "make one with PrivacyLedger.create": "make one with `eigenveil ledger create`",
    "open it with PrivacyLedger(path), or name another": "name another file",
    "; Schema.from_dict takes a mapping": "",
}
"""What has no option of the same name."""
_ALIASES = {"n_components": "components", "n_features": "features", "n_rows": "rows"}
# The options of the command that runs, by the names of their parameters.
_running: ContextVar[Mapping[str, str]] = ContextVar("running", default=MappingProxyType({}))
_ARGUMENT = re.compile(r"\b([a-z]\w*)='?([\w.]+?)'?(?=[\s,;:.)]|$)")
_NAME = re.compile(r"(?<![\w'-])[a-z]+(?:_[a-z]+)+(?![\w'=])")


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a sentence that names options where it names arguments, as far as the command has them.

    Parameters
    ----------
    text : str
    options : mapping of str to str
        The options of the command by the names of their parameters.

    Examples
    --------
    >>> options = {"norm_bound": "--norm-bound", "relation": "--relation", "accept_inexact": "--accept-inexact"}
    >>> in_options("norm_bound must be above 0; or give relation='replace'.", options)
    '--norm-bound must be above 0; or give --relation replace.'
    >>> in_options("It needs accept_inexact=True, and a seeded_generator.", options)
    'It needs --accept-inexact, and a seeded_generator.'
    """

    def option(name: str) -> str | None:
        return options.get(_ALIASES.get(name, name)) or options.get(name)

    def argument(found: re.Match[str]) -> str:
        known, value = option(found[1]), found[2]
        if known is None or value == "False":
            return found[0]
        return known if value == "True" else f"{known} {value.replace('above_noise', 'above-noise')}"

    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    return _NAME.sub(lambda found: option(found[0]) or found[0], _ARGUMENT.sub(argument, text))


def in_own_options(text: str) -> str:
    """Return a sentence with the options of the command that runs."""
    return in_options(text, _running.get())


class Command(TyperCommand):
    """A command whose errors and warnings name its own options."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        """Read what was typed; an error about it, which is typer's, quotes it."""
        try:
            return super().make_context(*words, **options)
        except Exception as error:
            if isinstance(getattr(error, "message", None), str):
                vars(error)["message"] = visible(vars(error)["message"])
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {str(one.name): max(one.opts, key=len) for one in self.params if one.param_type_name == "option"}
        before = _running.set(options)
        try:
            return super().invoke(ctx)
        except EigenveilError as error:  # one of ours: its text is changed in place, so that no second error holds it
            error.args = (in_own_options(str(error)), *error.args[1:])
            raise
        finally:
            _running.reset(before)
