"""Help, warnings and errors of a command: plain text, in the words of the command's own options."""

import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from typer.core import TyperCommand, TyperGroup

from ..errors import EigenveilError, NoiseWarning, PrivacyWarning, ReleaseFileWarning
from . import help_width, two_columns
from .options import note_console, visible

# Help.

_FEW_OPTIONS = 9  # which are not grouped

_GROUPS = {
    "Privacy": "epsilon delta adjacency mechanism privacy_unit unit_weight stages ledger accept_inexact",
    "Bounds": "norm_bound bounds",
    "Table": "schema columns categories missing delimiter decimal encoding engine",
    "Output": "output plot force yes dry_run as_json json quiet help",
}
_PLACE = {name: place for place, name in enumerate(" ".join(_GROUPS.values()).split(), 1)}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names.split()}
_VALUES = {
    **dict.fromkeys(("epsilon", "delta", "norm_bound", "missing", "penalty", "alpha", "energy"), "NUMBER"),
    **dict.fromkeys(("at_delta", "confidence", "target_loss"), "NUMBER"),
    **dict.fromkeys(("rows", "features", "repeats", "draws", "workers", "rank", "colluding"), "N"),
    **dict.fromkeys(("quorum", "bins"), "N"),
    **dict.fromkeys(("output", "schema", "plot", "registry", "scores", "protocol", "release"), "FILE"),
    **dict.fromkeys(("totals", "merge"), "FILE"),
    **dict.fromkeys(("key", "again", "statement"), "FILE"),
    **dict.fromkeys(("ledger",), "FOLDER"),
    **dict.fromkeys(("target", "groups", "privacy_unit"), "COLUMN"),
    **dict.fromkeys(("title", "purpose", "fingerprint", "recipients", "responsible", "approval"), "TEXT"),
    **dict.fromkeys(("delimiter", "decimal"), "SIGN"),
    "components": "K",
}
"""The word for the value of an option, by its parameter; NAME for all others."""


def _argument(parameter: Any) -> str:
    name = f"{parameter.metavar or str(parameter.name).upper()}{'' if parameter.nargs == 1 else '...'}"
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    names = ", ".join(sorted(parameter.opts, key=len))
    if parameter.secondary_opts:
        names = f"{names} / {', '.join(parameter.secondary_opts)}"
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or _VALUES.get(str(parameter.name), 'NAME')}"


def _sentence(parameter: Any) -> str:
    text, default = parameter.help or "", parameter.default
    if parameter.required:
        return f"{text} Required." if parameter.param_type_name == "option" else text
    # A flag that is off, and what is left out, need no default; a sentence may state it itself.
    if default is None or isinstance(default, bool | list | tuple) or default == "" or "default" in text.lower():
        return text
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    return f"{text} Default: {shown}{'' if isinstance(default, PurePath) else '.'}"


def _sections(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    parameters = [one for one in command.get_params(ctx) if not getattr(one, "hidden", False)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    yield "Arguments", [(_argument(one), _sentence(one)) for one in arguments]
    yield "Commands", [(name, (one.help or "").partition("\n\n")[0]) for name, one in _commands(command).items()]
    few = len(options) <= _FEW_OPTIONS
    for group in ("Options", *_GROUPS):
        here = [one for one in options if (few and group == "Options") or (not few and _group(one) == group)]
        here.sort(key=lambda one: _PLACE.get(str(one.name), 0))
        yield group, [(_option(one), _sentence(one)) for one in here]


def _group(parameter: Any) -> str:
    return _GROUP_OF.get(str(parameter.name), "Options")


def _commands(command: Any) -> dict[str, Any]:
    return dict(getattr(command, "commands", {}))


class _PlainHelp:
    """Help as plain text: no frame, no type names, options in groups, each with one sentence."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what stands behind the name of the command in its usage."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]  # type: ignore[attr-defined]
        return ["[OPTIONS]", *map(_argument, arguments), *(["COMMAND ..."] if _commands(self) else [])]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        width = help_width()
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        about = " ".join((self.help or "").split())  # type: ignore[attr-defined]
        lines = [*textwrap.wrap(f"Usage: {usage}", width, subsequent_indent=" " * 7), ""]
        lines += textwrap.wrap(about, width, break_on_hyphens=False)
        for title, entries in _sections(self, ctx):
            if entries:
                lines += ["", f"{title}:", *two_columns(entries, width)]
        formatter.write("\n".join([*lines, ""]))


# Warnings.

_OURS = (NoiseWarning, PrivacyWarning, ReleaseFileWarning)


@dataclass
class _Running:
    """The command that runs: its options by the names of their parameters, and the warnings that it has heard."""

    options: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False
    heard: list[warnings.WarningMessage] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)


_running: ContextVar[_Running] = ContextVar("running", default=_Running())  # noqa: B039 - it hears nothing


def shown_warnings() -> list[str]:
    """Show the warnings that the running command has not shown yet, a line of stderr each, and return all of them."""
    running = _running.get()
    for one in running.heard:
        text = in_own_options(" ".join(str(one.message).split()))
        if text not in running.shown:
            running.shown.append(text)
            note_console(running.quiet).print(f"eigenveil: warning: {text}", soft_wrap=True)
    return list(running.shown)


@contextmanager
def _heard_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Record the warnings of eigenveil. Those of other packages are dropped: they could quote a cell."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("ignore")
        for kind in _OURS:
            warnings.simplefilter("always", kind)
        yield heard


# Errors.

_PHRASES = {
    "encode it,": "encode it with --categories,",
    "columns= of open_table": "--columns",
    "tables.draft_schema(data)": "`eigenveil schema`",
    "columns=": "--columns",
    " by a schema, by missing= of open_table, or by a RowBound of on_invalid='zero'": " with --missing or --schema",
    " (of an estimator in mechanism_options)": "",
    "by memory= of open_table": "in Python, by memory= of open_table",
    "make one with PrivacyLedger.create": "make one with `eigenveil ledger create`",
    "open it with PrivacyLedger(path), or name another": "name another",
    "; Schema.from_dict takes a mapping": "",
    " (in Python, use schema.confirmed())": "",
}
"""What has no option of the same name."""
_ALIASES = {"n_components": "components", "n_features": "features", "n_rows": "rows"}
_ARGUMENT = re.compile(r"\b([a-z]\w*)=(?:'([^'\s]+)'|([\w.]+?))(?=[\s,;:.)]|$)")
_SUBJECT = re.compile(r"^[a-z_]+(?= must )")
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
    >>> options = {"norm_bound": "--norm-bound", "adjacency": "--adjacency", "accept_inexact": "--accept-inexact"}
    >>> in_options("norm_bound must be above 0; or give adjacency='replace_one'.", options)
    '--norm-bound must be above 0; or give --adjacency replace_one.'
    >>> in_options("It needs accept_inexact=True, and a seeded_generator.", options)
    'It needs --accept-inexact, and a seeded_generator.'
    >>> in_options("Give delimiter=';'.", {"delimiter": "--delimiter"})
    "Give --delimiter ';'."
    >>> in_options("epsilon must be above 0.", {"epsilon": "--epsilon"})
    '--epsilon must be above 0.'
    """

    def option(name: str) -> str | None:
        return options.get(_ALIASES.get(name, name)) or options.get(name)

    def argument(found: re.Match[str]) -> str:
        known, value = option(found[1]), found[2] or found[3]
        if known is None or value == "False":
            return found[0]
        return known if value == "True" else f"{known} {shlex.quote(value.replace('above_noise', 'above-noise'))}"

    for phrase, words in _PHRASES.items():
        text = text.replace(phrase, words)
    text = _SUBJECT.sub(lambda found: option(found[0]) or found[0], text)
    return _NAME.sub(lambda found: option(found[0]) or found[0], _ARGUMENT.sub(argument, text))


def in_own_options(text: str) -> str:
    """Return a sentence with the options of the command that runs."""
    return in_options(text, _running.get().options)


def _explain(error: Any) -> None:
    """Let an error about what was typed say what to give; it is typer's, and quotes what was typed."""
    missing = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and missing is not None:
        named = _option(missing) if missing.param_type_name == "option" else _argument(missing)
        text = f"{named.rpartition(', ')[2]} is missing. {missing.help or ''}".strip()
        vars(error)["format_message"] = lambda: text
    elif isinstance(getattr(error, "message", None), str):
        vars(error)["message"] = visible(vars(error)["message"])


class Command(_PlainHelp, TyperCommand):
    """A command with plain help; its errors and warnings name its own options, and a warning is one line of stderr."""

    def make_context(self, *words: Any, **options: Any) -> Any:
        """Read what was typed."""
        try:
            return super().make_context(*words, **options)
        except Exception as error:
            _explain(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {str(one.name): max(one.opts, key=len) for one in self.params if one.param_type_name == "option"}
        with _heard_warnings() as heard:
            before = _running.set(_Running(options, bool(ctx.params.get("quiet")), heard))
            try:
                return super().invoke(ctx)
            except EigenveilError as error:  # its text is changed in place, so that no second error holds it
                error.args = (in_own_options(str(error)), *error.args[1:])
                raise
            finally:
                shown_warnings()
                _running.reset(before)


class Group(_PlainHelp, TyperGroup):
    """A group of commands with plain help."""
