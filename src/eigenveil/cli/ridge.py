"""`eigenveil ridge`: a regression from rows, or at no cost from a release that is already there."""

import warnings
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from eigenveil.errors import InvalidParameterError

from .common import output_console, print_json
from .fitting import Data, estimator_parameters, facts, fit_and_save, told_notes
from .options import FitOptions, RidgeOptions, with_options
from .spending import guarantee_fields
from .tables import Table, open_data


@with_options(RidgeOptions)
def ridge(
    data: Data,
    options: RidgeOptions,
    target: Annotated[str, typer.Option(help="Column to predict: a name, or a position where there are no names.")],
    alpha: Annotated[
        float | None, typer.Option(help="Regularization on the scale of one row; by default it follows from the noise.")
    ] = None,
) -> None:
    """Release a ridge regression; or, from a release file (.npz) of `covariance`, compute one at no cost."""
    if data[0].lower().endswith(".npz"):
        _ridge_from_release(data, options, target, alpha)
        return
    table = open_data(data, options, target)
    chosen = _target(target, table)
    from eigenveil.estimators import PrivateRidge

    model = PrivateRidge(alpha, target=chosen, **estimator_parameters(PrivateRidge, table, options))
    notes = fit_and_save(model, table, options)
    if notes is not None:
        _show(model.release_.regression, table.names, target, options, facts("ridge", model, options, notes))


def _ridge_from_release(data: list[str], options: FitOptions, target: str, alpha: float | None) -> None:
    from eigenveil.releases import load_release

    if len(data) > 1 or options.epsilon is not None:
        raise InvalidParameterError("A regression from a release takes that one file, and costs no epsilon.")
    release = load_release(data[0])
    names = release.feature_names or tuple(map(str, range(release.n_features)))
    if target not in names:
        raise InvalidParameterError(f"There is no feature {target!r} in {data[0]}.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = release.regress(names.index(target), alpha=alpha)
    known = {
        "command": "ridge",
        "release": data[0],
        "guarantee": guarantee_fields(release.guarantee),
        "law": release.origin.law,
        "n_rows": release.n_rows,
        "warnings": told_notes(caught, options),
    }
    _show(fit, names, target, options, known)


def _target(target: str, table: Table) -> str | int:
    if target not in table.names:
        raise InvalidParameterError(f"There is no column {target!r} to predict.")
    return target if table.source.feature_names is not None else int(target)


def _show(fit: Any, names: tuple[str, ...], target: str, options: FitOptions, known: dict[str, Any]) -> None:
    features = [name for name in names if name != target]
    if options.as_json:
        coefficients = dict(zip(features, fit.coef.tolist(), strict=True))
        result = {"coefficients": coefficients, "intercept": fit.intercept, "r2": fit.r2, "alpha": fit.alpha}
        print_json({**known, "target": target, **result})
    elif not options.quiet:
        grid = Grid(title=f"Ridge regression of {target}")
        grid.add_column("feature")
        grid.add_column("coefficient", justify="right")
        for name, value in zip(features, fit.coef, strict=True):
            grid.add_row(name, f"{value:.4g}")
        grid.add_row("intercept", f"{fit.intercept:.4g}")
        console = output_console()
        console.print(grid)
        console.print(f"R² {fit.r2:.3f}, alpha {fit.alpha:.4g}, from the same release")
        console.print(f"Guarantee: {known['guarantee']['text']}", soft_wrap=True)
        console.print(f"Release: {known['release']}", soft_wrap=True)
