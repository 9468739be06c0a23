"""`eigenveil plan`: what a fit will be worth, before anything is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import MOST_FEATURES, InvalidParameterError, integer_between
from ..files import read_bounded
from .fitting import number_of_components
from .options import Adjacency, AsJson, Force, Quiet, check_output, output_console, print_json, whole_file

if TYPE_CHECKING:
    from ..theory import Forecasts


_FORMATS = (".png", ".svg", ".pdf")


def plan(
    rows: Annotated[int, typer.Option(help="Number of rows, n; of persons, where they have several.")],
    components: Annotated[
        Any,
        typer.Option(
            "--components",
            "-k",
            parser=number_of_components,
            metavar="K | above-noise",
            help="Number of directions, k; or those that will rise above the noise.",
            autocompletion=lambda: ["above-noise"],
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one fit.")],
    features: Annotated[int | None, typer.Option(help="Width of a row, d; or give --schema.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema file of the table, which tells the features and their public ranges.")
    ] = None,
    public: Annotated[
        Literal["nothing", "norm", "ranges"],
        typer.Option(help="What will be public about the rows: nothing, a norm bound, or ranges of the features."),
    ] = "nothing",
    statistic: Annotated[
        Literal["auto", "clipped", "normalized", "spatial_sign", "kendall"],
        typer.Option(help="As for `pca`: how rows are used."),
    ] = "auto",
    standardize: Annotated[bool, typer.Option("--standardize", help="Components of correlations.")] = False,
    center: Annotated[bool, typer.Option("--center/--no-center", help="Work about the mean, or about the origin.")] = (
        True
    ),
    stages: Annotated[str, typer.Option(help="As for `pca`: 1, 2 or auto.")] = "auto",
    delta: Annotated[float, typer.Option(help="Delta of one fit; 0 is pure differential privacy.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    spectrum: Annotated[
        str,
        typer.Option(
            metavar="power:P | A,B,... | FILE",
            help="Assumed eigenvalues, not those of the private rows: a power law, a list, or a file of numbers.",
        ),
    ] = "power:1",
    energy: Annotated[
        float | None,
        typer.Option(
            help="With a public bound: mean squared norm of a row over its square, at most 1; 0.5, or 1/3 with ranges."
        ),
    ] = None,
    target_loss: Annotated[
        float | None, typer.Option(help="Also find the rows, or the epsilon, at which this loss is met.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Fits of each mechanism to made-up rows.")] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a plot against the rows and against epsilon (.png, .svg or .pdf)."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forecast what a fit will report, by mechanism, from public numbers. No data are read, nothing is spent."""
    if plot is not None and plot.suffix.lower() not in _FORMATS:
        raise InvalidParameterError(f"The plot must be named {', '.join(_FORMATS)}, not {plot.name}.")
    if plot is not None:
        check_output(plot, force, option="--plot")
    declared = _declared(features, schema)
    width: int = declared.n_features if features is None else integer_between("--features", features, 1, MOST_FEATURES)
    from .. import PrivatePCA
    from ..estimators.forecast import forecast

    # What a bound is does not matter, only how long rows are beside it, and that is `energy`.
    known: dict[str, dict[str, Any]] = {
        "nothing": {},
        "norm": {"norm_bound": 1.0},
        "ranges": {"bounds": (-1.0, 1.0)},
    }
    model = PrivatePCA(
        components,
        epsilon=epsilon,
        delta=delta,
        statistic=statistic,
        standardize=standardize,
        center=center,
        schema=declared,
        adjacency=adjacency,
        stages=stages,
        **known[public],
    )
    answer = forecast(
        model,
        width,
        rows,
        spectrum=_eigenvalues(spectrum, width),
        energy=energy,
        target_loss=target_loss,
        repeats=repeats,
        progress=not quiet,
    )
    if plot is not None:
        _write(answer, plot, progress=not quiet)
    if as_json:
        print_json({**answer.to_dict(), **_against(answer)})
    elif not quiet:
        _show(answer)
        if declared is not None and declared.privacy_unit is not None:
            output_console().print(_about_units(declared.privacy_unit), soft_wrap=True)
        if plot is not None:
            output_console().print(f"Plot written to {plot}.", soft_wrap=True)


def _show(answer: "Forecasts") -> None:
    from ..theory.forecast import against_table, parts

    console = output_console()
    for part in parts(answer):
        console.print(part, soft_wrap=isinstance(part, str))
    console.print(
        f"\nThe same by {answer.taken.mechanism} at other epsilons, and with other numbers of rows:", soft_wrap=True
    )
    console.print(against_table("epsilon", answer.against_epsilon()))
    console.print("")
    console.print(against_table("rows", answer.against_rows()))


def _against(answer: "Forecasts") -> dict[str, Any]:
    """Return the same for JSON; what is refused has its reason."""
    from ..theory import Forecast

    def plain(name: str, found: Any) -> list[dict[str, Any]]:
        return [
            {name: value, **(one.to_dict() if isinstance(one, Forecast) else {"refused": one})} for value, one in found
        ]

    return {
        "against_epsilon": plain("epsilon", answer.against_epsilon()),
        "against_rows": plain("n_rows", answer.against_rows()),
    }


def _declared(features: int | None, schema: Path | None) -> Any:
    if (features is None) == (schema is None):
        raise InvalidParameterError("Give either --features or --schema, which tells how many there are.")
    if schema is None:
        return None
    from ..tables.schema import Schema

    declared = Schema.load(schema)
    declared.check_complete()
    return declared


def _about_units(privacy_unit: str) -> str:
    return (
        f"Persons are told apart by {privacy_unit}: rows are persons here, each with one row, which is the worst case; "
        "more rows of a person make their average steadier."
    )


def _eigenvalues(text: str, n_features: int) -> Any:
    from ..theory import power_law

    kind, colon, exponent = text.partition(":")
    if kind == "power" and colon:
        return power_law(n_features, _numbers(exponent, "The exponent of the power law")[0])
    if "," in text:
        return _numbers(text, "A list of eigenvalues")
    what = "--spectrum is neither power:P, nor a list A,B,..., and the file of eigenvalues"
    content = read_bounded(text, what, InvalidParameterError)
    return _numbers(content.decode("utf-8", "replace"), "The file of eigenvalues")


def _numbers(text: str, what: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise InvalidParameterError(f"{what} must hold numbers only, at least one.")
    return numbers


def _write(answer: "Forecasts", path: Path, progress: bool) -> None:
    from ..report.plan_figure import plan_figure

    figure = plan_figure(answer, progress=progress)
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=130)
