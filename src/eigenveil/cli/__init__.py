"""The command line: `eigenveil demo` and `eigenveil local`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import EigenveilError
from ..version import __version__
from .local import local_app

app = typer.Typer(
    help="Differentially private PCA with guarantees you can defend.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
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
) -> None:
    """Differentially private PCA with guarantees you can defend."""
    del version


@app.command()
def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the release.")] = 1.0,
    components: Annotated[int, typer.Option(help="Number of principal components.")] = 3,
    output: Annotated[Path | None, typer.Option(help="Also write the release to this file (.npz).")] = None,
) -> None:
    """Fit a private PCA on scikit-learn's handwritten digits, and show what it released."""
    # Not at the top: `eigenveil local encode` on a device should not wait for scikit-learn.
    import numpy as np
    from sklearn.datasets import load_digits

    from ..estimators import PrivatePCA
    from ..metrics import captured_variance
    from ..postprocess import top_components

    console = Console(width=None if sys.stdout.isatty() else 100)
    digits = load_digits().data
    # Pixels lie in 0..16 by the format of the data set, so no row is longer than 128; half of that is a public
    # guess at a typical length.
    bound = 64.0
    pca = PrivatePCA(components, epsilon=epsilon, norm_bound=bound, mechanism="matrix_laplace").fit(digits)
    if output is not None:
        pca.release_.save(output)

    console.print(f"[bold]Handwritten digits[/bold]: {digits.shape[0]} rows of {digits.shape[1]} pixels")
    console.print(f"Released: {components} components and the second moment, by [bold]{pca.mechanism_}[/bold]")
    console.print(f"Guarantee: [bold]{pca.guarantee_}[/bold]")

    # For the demonstration alone: the rows are public here, so the truth may be shown beside the release.
    shortened = digits * np.minimum(1.0, bound / np.linalg.norm(digits, axis=1, keepdims=True))
    truth = shortened.T @ shortened / digits.shape[0]
    best = top_components(truth, components)
    table = Table(title="Variance captured, share of the total")
    table.add_column("components", justify="right")
    table.add_column("private", justify="right")
    table.add_column("not private", justify="right")
    for k in range(1, components + 1):
        shares = (captured_variance(truth, rows[:k]) / np.trace(truth) for rows in (pca.components_, best))
        table.add_row(str(k), *(f"{share:.1%}" for share in shares))
    console.print(table)
    if output is not None:
        console.print(f"Written to {output}; read it with eigenveil.load_release.")


def main() -> None:
    """Run the command line; an error of ours is one sentence on stderr and exit code 1."""
    try:
        app()
    except EigenveilError as error:
        typer.echo(f"eigenveil: {error}", err=True)
        raise SystemExit(1) from None
