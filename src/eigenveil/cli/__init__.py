"""The command line. Modules load what they need when a command runs, so that `--help` does not wait for SciPy."""

from typing import Annotated

import typer

from ..version import __version__
from .audit import audit
from .common import Debug, run
from .demo import demo
from .fitting import covariance, pca
from .laws import laws
from .ledger import ledger_app
from .local import local_app
from .plan import plan
from .report import report
from .ridge import ridge

app = typer.Typer(
    help="Differentially private PCA with guarantees you can defend.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
for command in (demo, pca, covariance, ridge, plan, audit, laws, report):
    app.command()(command)
app.add_typer(ledger_app, name="ledger")
app.add_typer(local_app, name="local")


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
) -> None:
    """Differentially private PCA with guarantees you can defend."""
    del version
    Debug.on = debug


def main() -> None:
    """Run the command line; docs/reference/command_line.md lists the exit codes."""
    run(app)
