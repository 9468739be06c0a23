"""All commands together. Modules load SciPy and the like when a command runs, so that help is fast."""

from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from .. import __version__
from . import ABOUT
from .messages import Command, Group
from .options import Debug, LargestFile

_MODULES = {
    **dict.fromkeys(("pca", "sparse-pca", "covariance", "ridge"), "fitting"),
    **dict.fromkeys(("show", "summary", "compare", "export", "sample", "report"), "show"),
}
"""Where a command is, unless its module has its name."""


@cache
def app_with(*names: str) -> typer.Typer:
    """Return the command line with these commands: typer reads the options of each, which takes longer than a fit."""
    app = typer.Typer(
        help=ABOUT,
        cls=Group,
        rich_markup_mode=None,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        module = import_module(f".{_MODULES.get(name, name)}", __package__)
        group = getattr(module, f"{name}_app", None)
        if group is None:
            app.command(cls=Command)(getattr(module, name.replace("-", "_")))
        else:
            for registered in group.registered_commands:
                registered.cls = Command
            app.add_typer(group, name=name)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eigenveil {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; it may quote private values.")
    ] = False,
    largest_file: Annotated[
        int | None,
        typer.Option(min=1, metavar="BYTES", help="Refuse larger release files. Default: 2 GiB."),
    ] = None,
) -> None:
    """Differentially private PCA, covariance, correlation and regression for tabular data."""
    del version
    Debug.on, LargestFile.limit = debug, largest_file
