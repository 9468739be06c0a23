"""`eigenveil plan`: what a fit will be worth, before anything is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigenveil.errors import InvalidParameterError

from .common import AsJson, Force, Quiet, Relation, check_output, output_console, print_json, whole_file

if TYPE_CHECKING:
    from eigenveil.theory import Plan

_FORMATS = (".png", ".svg", ".pdf")


def plan(
    rows: Annotated[int, typer.Option(help="Number of rows, n.")],
    components: Annotated[int, typer.Option("--components", "-k", help="Number of directions, k.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one release.")],
    features: Annotated[int | None, typer.Option(help="Width of a row, d; or give --schema.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file of the table, which tells the features.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of one release; 0 is pure differential privacy.")] = 0.0,
    relation: Relation = "replace",
    spectrum: Annotated[
        str,
        typer.Option(
            metavar="power:P | A,B,... | FILE",
            help="Assumed eigenvalues, not those of the private rows: a power law, a list, or a file of numbers.",
        ),
    ] = "power:1",
    energy: Annotated[
        float, typer.Option(help="Mean squared norm of a row over the squared norm bound, at most 1.")
    ] = 0.5,
    target_loss: Annotated[
        float | None, typer.Option(help="Also find the rows, or the epsilon, at which this loss is met.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="Simulated fits of each law.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a plot of the loss against the rows (.png, .svg or .pdf).")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forecast the loss of every law from public numbers. No data are read, and nothing is spent."""
    from eigenveil import theory

    if plot is not None and plot.suffix.lower() not in _FORMATS:
        raise InvalidParameterError(f"The plot must be named {', '.join(_FORMATS)}, not {plot.name}.")
    if plot is not None:
        check_output(plot, force, option="--plot")
    width = _width(features, schema)
    answer = theory.plan(
        n_rows=rows,
        n_features=width,
        n_components=components,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        spectrum=_eigenvalues(spectrum, width),
        energy=energy,
        target_loss=target_loss,
        repeats=repeats,
        progress=not quiet,
    )
    if plot is not None:
        _write(answer, plot, progress=not quiet)
    if as_json:
        print_json(answer.to_dict())
    elif not quiet:
        console = output_console()
        console.print(answer.header(), soft_wrap=True)
        console.print(answer.table())
        console.print(answer.footer(), soft_wrap=True)
        if plot is not None:
            console.print(f"Plot written to {plot}.", soft_wrap=True)


def _width(features: int | None, schema: Path | None) -> int:
    if (features is None) == (schema is None):
        raise InvalidParameterError("Give either --features or --schema, which tells how many there are.")
    if schema is None:
        assert features is not None
        return features
    from eigenveil.schema import Schema

    declared = Schema.load(schema)
    declared.check_complete()
    return declared.n_features


def _eigenvalues(text: str, n_features: int) -> Any:
    from eigenveil.theory import power_law

    kind, colon, exponent = text.partition(":")
    if kind == "power" and colon:
        return power_law(n_features, _numbers(exponent, "The exponent of the power law")[0])
    if "," in text:
        return _numbers(text, "A list of eigenvalues")
    try:
        content = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameterError(
            f"--spectrum is neither power:P, nor a list A,B,..., nor a text file that can be read: {text}."
        ) from error
    return _numbers(content, "The file of eigenvalues")


def _numbers(text: str, what: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise InvalidParameterError(f"{what} must hold numbers only, at least one.")
    return numbers


def _write(answer: "Plan", path: Path, progress: bool) -> None:
    from eigenveil.theory.plan_figure import plan_figure

    figure = plan_figure(answer, progress=progress)
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=130)
