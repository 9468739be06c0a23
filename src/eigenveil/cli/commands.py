"""All commands, in the order of the overview. SciPy and the like are loaded when a command runs, so help is fast."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from .. import __version__
from . import demo, federation, fitting, ledger, local, mechanisms, plan, show, tables
from .messages import Command, Debug, run
from .terminal import HeldSignals, lasting_output


def _group(about: str, *commands: Callable[..., Any]) -> typer.Typer:
    group = typer.Typer(
        help=about,
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in commands:
        group.command(cls=Command)(command)
    return group


app = _group(
    "Differentially private PCA, covariance, correlation and regression for tabular data.",
    demo.demo,
    tables.schema,
    fitting.pca,
    fitting.sparse_pca,
    fitting.covariance,
    fitting.ridge,
    fitting.scores,
    plan.plan,
    show.show,
    show.summary,
    show.compare,
    show.export,
    show.sample,
    show.report,
    mechanisms.audit,
    mechanisms.mechanisms,
)
app.add_typer(
    _group("Track the privacy budget of a data set.", ledger.create, ledger.show, ledger.history, ledger.check),
    name="ledger",
)
app.add_typer(
    _group("Local differential privacy: encode rows, aggregate reports.", local.params, local.encode, local.aggregate),
    name="local",
)
app.add_typer(
    _group(
        "One release from several data owners who do not share rows.",
        federation.invite,
        federation.join,
        federation.close,
        federation.contribute,
        federation.combine,
    ),
    name="federation",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eigenveil {__version__}")
        raise typer.Exit


@app.callback()
def before_a_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; it may quote private values.")
    ] = False,
) -> None:
    """Differentially private PCA, covariance, correlation and regression for tabular data."""
    del version
    Debug.on = debug


def main() -> None:
    """Run the command line; docs/reference/command_line.md lists the exit codes."""
    with lasting_output(), HeldSignals():
        run(app)
