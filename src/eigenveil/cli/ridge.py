"""`eigenveil ridge`: a regression from rows, or at no cost from a release that is already there."""

import warnings
from typing import Annotated, Any

import typer

from eigenveil.errors import InvalidParameterError

from .common import opened_release, output_console, print_json
from .fitting import Data, estimator_parameters, facts, fit_and_save, told_notes
from .options import FitOptions, RidgeOptions, with_options
from .spending import count_fields, guarantee_fields
from .tables import Table, open_data
from .values import feature_names, print_legend, print_regression, regression_fields


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
        _show(model.release_, model.release_.regression, options, facts("ridge", model, options, notes))


def _ridge_from_release(data: list[str], options: FitOptions, target: str, alpha: float | None) -> None:
    if len(data) > 1 or options.epsilon is not None:
        raise InvalidParameterError("A regression from a release takes that one file, and costs no epsilon.")
    release = opened_release(data[0])
    names = feature_names(release)
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
        **count_fields(release.guarantee, release.n_rows),
        "warnings": told_notes(caught, options.quiet),
    }
    _show(release, fit, options, known)


def _target(target: str, table: Table) -> str | int:
    if target not in table.names:
        raise InvalidParameterError(f"There is no column {target!r} to predict.")
    return target if table.source.feature_names is not None else int(target)


def _show(release: Any, fit: Any, options: FitOptions, known: dict[str, Any]) -> None:
    names = feature_names(release)
    if options.as_json:
        print_json({**known, "target": names[fit.target], **regression_fields(fit, names)})
    elif not options.quiet:
        console = output_console()
        print_regression(console, fit, names)
        print_legend(console, release)
        console.print(f"Guarantee: {known['guarantee']['text']}", soft_wrap=True)
        console.print(f"Release: {known['release']}", soft_wrap=True)
