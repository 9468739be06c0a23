"""All commands together. Modules load SciPy and the like when a command runs, so that help is fast."""

from typing import Annotated

import typer

from .. import __version__
from . import ABOUT
from .audit import audit
from .demo import demo
from .federation import federation_app
from .fitting import covariance, pca, ridge, sparse_pca
from .ledger import ledger_app
from .local import local_app
from .mechanisms import mechanisms
from .messages import Command, Group
from .options import Debug, LargestFile
from .plan import plan
from .schema import schema
from .scores import scores
from .show import compare, export, report, sample, show

app = typer.Typer(
    help=ABOUT,
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
fits, reads = (pca, sparse_pca, covariance, ridge, scores), (show, compare, export, sample, report)
for command in (demo, schema, *fits, plan, *reads, audit, mechanisms):
    app.command()(command)
GROUPS = {"ledger": ledger_app, "local": local_app, "federation": federation_app}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for part in (app, *GROUPS.values()):
    for registered in part.registered_commands:
        registered.cls = Command


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eigenveil {__version__}")
        raise typer.Exit


@app.callback()
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
