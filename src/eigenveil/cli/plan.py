"""`eigenveil plan`: a forecast of the accuracy of a fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .. import guarantee
from ..errors import MOST_FEATURES, InvalidParameterError, integer_between
from ..files import read_bounded
from .fitting import number_of_components
from .messages import output_console, print_json
from .options import (
    Adjacency,
    AsJson,
    Center,
    Force,
    Quiet,
    Stages,
    Standardize,
    Statistic,
    check_output,
    whole_file,
)
from .terminal import busy

if TYPE_CHECKING:
    from ..estimators.forecast import Forecasts


_FORMATS = (".png", ".svg", ".pdf")


def plan(
    rows: Annotated[int, typer.Option(help="Number of rows; with a privacy unit, of units.")],
    components: Annotated[
        Any,
        typer.Option(
            "--components",
            "-k",
            parser=number_of_components,
            metavar="K",
            help="Number of components; or above-noise, for those that will be distinguishable from noise.",
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget ε of the fit, such as 1.")],
    features: Annotated[int | None, typer.Option(help="Number of features; or give --schema.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Schema file (.yaml) with the features and their public ranges.")
    ] = None,
    public: Annotated[
        Literal["nothing", "norm", "ranges"],
        typer.Option(help="Public bounds of the fit."),
    ] = "nothing",
    statistic: Statistic = "auto",
    standardize: Standardize = False,
    center: Center = True,
    stages: Stages = "auto",
    delta: Annotated[float, typer.Option(help="Privacy budget δ of the fit; 0 is pure differential privacy.")] = 0.0,
    adjacency: Adjacency = "replace_one",
    spectrum: Annotated[
        str,
        typer.Option(
            metavar="SPECTRUM",
            help="Assumed eigenvalues: power:P, a list A,B,... or a file of numbers. Never those of the private rows.",
        ),
    ] = "power:1",
    energy: Annotated[
        float | None,
        typer.Option(
            help="With public bounds: mean squared norm of a row / squared bound. Default: 0.5, or 1/3 with ranges."
        ),
    ] = None,
    target_loss: Annotated[
        float | None, typer.Option(help="Also find the number of rows, or the ε, that reaches this loss.")
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(help="Simulated fits of the mechanism that is taken; of others, a third where that is enough."),
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(help="Also write a figure of the forecast (.png, .svg or .pdf)."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forecast the accuracy of a fit from public numbers. Reads no data, spends nothing."""
    from ..estimators.forecast import forecast
    from ..estimators.parameters import PCAParameters  # not PrivatePCA, for which scikit-learn has to be loaded
    from ..tables.schema import Schema

    if plot is not None:
        if plot.suffix.lower() not in _FORMATS:
            raise InvalidParameterError(f"--plot {plot.name} has no supported file type; use {', '.join(_FORMATS)}.")
        check_output(plot, force, option="--plot")
    declared, width = None, features
    if schema is not None and features is None:
        declared = Schema.load(schema)
        declared.check_complete()
        width = declared.n_features
    elif schema is not None or features is None:
        raise InvalidParameterError("The number of features is unclear; give either --features or --schema.")
    width = integer_between("--features", width, 1, MOST_FEATURES)

    # Only the norm of rows relative to the bound matters, which is `energy`.
    model = PCAParameters(
        n_components=components,
        epsilon=epsilon,
        delta=delta,
        statistic=statistic,
        standardize=standardize,
        center=center,
        norm_bound=1.0 if public == "norm" else None,
        bounds=(-1.0, 1.0) if public == "ranges" else None,
        schema=declared,
        privacy_unit=None,
        unit_weight="equal",
        mechanism="auto",
        mechanism_options=None,
        adjacency=guarantee.Adjacency.parse(adjacency),
        stages=stages,
    )
    hidden = quiet or as_json
    answer = forecast(
        model,
        width,
        rows,
        spectrum=_eigenvalues(spectrum, width),
        energy=energy,
        target_loss=target_loss,
        repeats=repeats,
        progress=not hidden,
    )
    if plot is not None:
        from ..report.plots import plan_figure

        figure = plan_figure(answer, progress=not hidden)
        with whole_file(plot) as file:
            figure.savefig(file, format=plot.suffix[1:].lower(), dpi=130)
    if as_json:
        others = {
            "against_epsilon": _against("epsilon", answer.against_epsilon()),
            "against_rows": _against("n_rows", answer.against_rows()),
        }
        print_json({**answer.to_dict(), **others})
    elif not quiet:
        _show(answer)
        if declared is not None and declared.privacy_unit is not None:
            output_console().print(
                f"The privacy unit is {declared.privacy_unit}: --rows counts privacy units. The forecast assumes one "
                "row per unit, which is the worst case.",
                soft_wrap=True,
            )
        if plot is not None:
            output_console().print(f"Figure: {plot}", soft_wrap=True)


def _show(answer: "Forecasts") -> None:
    from ..estimators.forecast import against_table

    console = output_console()
    for part in answer.parts():
        console.print(part, soft_wrap=isinstance(part, str))
    with busy("forecasting other budgets and numbers of rows"):
        others = ("epsilon", answer.against_epsilon()), ("rows", answer.against_rows())
    console.print(f"\nForecast of {answer.taken.mechanism} for other ε and other numbers of rows:", soft_wrap=True)
    for name, found in others:
        console.print(against_table(name, found))
        console.print("")


def _against(name: str, found: Any) -> list[dict[str, Any]]:
    """Return the forecasts for other values of a parameter for JSON; a refused one has its reason."""
    return [{name: value, **({"refused": one} if isinstance(one, str) else one.to_dict())} for value, one in found]


def _eigenvalues(text: str, n_features: int) -> Any:
    from ..theory import power_law

    kind, colon, exponent = text.partition(":")
    if kind == "power" and colon:
        return power_law(n_features, _numbers(exponent, "The exponent P of --spectrum power:P")[0])
    if "," in text:
        return _numbers(text, "The list in --spectrum")
    what = "--spectrum must be power:P, a list A,B,... or a file of numbers; the file"
    content = read_bounded(text, what, InvalidParameterError)
    return _numbers(content.decode("utf-8", "replace"), "The file in --spectrum")


def _numbers(text: str, what: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise InvalidParameterError(f"{what} must have numbers only, at least one.")
    return numbers
