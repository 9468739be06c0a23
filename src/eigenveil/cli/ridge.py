"""`eigenveil ridge`: a regression from rows, or at no cost from a release that is already there."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from eigenveil.errors import InvalidParameterError

from .common import output_console, print_json
from .fitting import Data, estimator_parameters, facts, fit_and_save
from .options import FitOptions, with_options
from .spending import guarantee_fields
from .tables import Table, open_data

if TYPE_CHECKING:
    from eigenveil.release import Release


@with_options(FitOptions)
def ridge(
    data: Data,
    options: FitOptions,
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
    _check_mechanism(options.mechanism)
    from eigenveil.estimators import PrivateRidge

    model = PrivateRidge(alpha, target=chosen, **estimator_parameters(table, options))
    notes = fit_and_save(model, table, options)
    if notes is not None:
        _show(model, table.names, target, options, facts("ridge", model, options, notes))


def _ridge_from_release(data: list[str], options: FitOptions, target: str, alpha: float | None) -> None:
    from eigenveil.estimators import PrivateRidge
    from eigenveil.release import load_release

    if len(data) > 1 or options.epsilon is not None:
        raise InvalidParameterError("A regression from a release takes that one file, and costs no epsilon.")
    release = load_release(data[0])
    model = PrivateRidge(alpha)
    names = _restore(model, release)
    model.target = names.index(target) if target in names else None
    if model.target is None:
        raise InvalidParameterError(f"There is no feature {target!r} in {data[0]}.")
    mechanism, bound = _law(release, data[0])
    model._interpret(mechanism, bound)
    known = {
        "command": "ridge",
        "release": data[0],
        "guarantee": guarantee_fields(release.guarantee),
        "mechanism": release.provenance["mechanism"],
        "n_rows": release.provenance["n_rows"],
    }
    _show(model, tuple(names), target, options, known)


def _restore(model: Any, release: "Release") -> list[str]:
    """Give a model what the release tells about the features, and return their names."""
    import numpy as np

    bound = release.provenance.get("bound") or {}
    if release.covariance is None:
        raise InvalidParameterError("This release holds no matrix to regress from; make one with `covariance`.")
    if release.provenance.get("rows") == "pairs":
        raise InvalidParameterError("This release was made from pairs of rows, whose lengths are lost; make another.")
    width = release.covariance.shape[0] - (bound.get("constant") is not None)
    model.release_ = release
    model.n_features_in_ = width
    model.scale_ = np.ones(width) if bound.get("scale") is None else np.asarray(bound["scale"])
    return list(release.feature_names or map(str, range(width)))


def _law(release: "Release", path: str) -> tuple[Any, Any]:
    """Return the mechanism and the bound behind a release, from what it states."""
    from eigenveil.mechanisms import MECHANISMS
    from eigenveil.rows import RowBound

    try:
        mechanism = MECHANISMS[release.provenance["mechanism"]](**release.provenance["parameters"])
        return mechanism, RowBound(**release.provenance["bound"])
    except (KeyError, TypeError):
        raise InvalidParameterError(f"{path} is no release of `covariance`, `pca` or `ridge`.") from None


def _check_mechanism(name: str) -> None:
    """Refuse, before anything is spent, a mechanism that the regression could not use."""
    from eigenveil.mechanisms import MECHANISMS, AdditiveMechanism

    if name in MECHANISMS and not issubclass(MECHANISMS[name], AdditiveMechanism):
        raise InvalidParameterError("Ridge regression needs a mechanism that adds noise; choose another one.")


def _target(target: str, table: Table) -> str | int:
    if target not in table.names:
        raise InvalidParameterError(f"There is no column {target!r} to predict.")
    return target if table.source.feature_names is not None else int(target)


def _show(model: Any, names: tuple[str, ...], target: str, options: FitOptions, known: dict[str, Any]) -> None:
    features = [name for name in names if name != target]
    if options.as_json:
        coefficients = dict(zip(features, model.coef_.tolist(), strict=True))
        fit = {"coefficients": coefficients, "intercept": model.intercept_, "r2": model.r2_, "alpha": model.alpha_}
        print_json({**known, "target": target, **fit})
    elif not options.quiet:
        grid = Grid(title=f"Ridge regression of {target}")
        grid.add_column("feature")
        grid.add_column("coefficient", justify="right")
        for name, value in zip(features, model.coef_, strict=True):
            grid.add_row(name, f"{value:.4g}")
        grid.add_row("intercept", f"{model.intercept_:.4g}")
        console = output_console()
        console.print(grid)
        console.print(f"R² {model.r2_:.3f}, alpha {model.alpha_:.4g}, from the same release")
        console.print(f"Guarantee: {known['guarantee']['text']}", soft_wrap=True)
        console.print(f"Release: {known['release']}", soft_wrap=True)
