"""`eigenveil pca`, `sparse-pca`, `covariance` and `ridge`: from files to a release file."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidParameterError, quoted
from .messages import shown_warnings
from .options import (
    FitOptions,
    RidgeOptions,
    Statistic,
    check_output,
    component_fields,
    covariance_fields,
    feature_names,
    opened_release,
    print_json,
    print_release,
    regressions_fields,
    with_options,
)
from .spending import confirm_spend, count_fields, guarantee_fields, ledger_files, open_ledger, plan_for
from .tables import Table, open_data, public_bounds
from .terminal import busy, fit_progress

if TYPE_CHECKING:
    from ..estimators.base import PrivateEstimator
    from ..releases.record import Release


Data = Annotated[
    list[str],
    typer.Argument(help="Files of one table, such as CSV or Parquet; - is standard input."),
]


def number_of_components(text: str) -> int | float | str:
    """Return the number of components that -k asks for: a number, a share of the variance, or "above_noise".

    Examples
    --------
    >>> number_of_components("3"), number_of_components("0.9"), number_of_components("above-noise")
    (3, 0.9, 'above_noise')
    """
    if text.replace("_", "-") == "above-noise":
        return "above_noise"
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise typer.BadParameter("give a number, a share such as 0.9, or above-noise.") from None


@with_options(FitOptions)
def pca(
    data: Data,
    options: FitOptions,
    components: Annotated[
        Any,
        typer.Option(
            "--components",
            "-k",
            parser=number_of_components,
            metavar="K",
            help="Number of components; or the share of variance to explain, such as 0.9; or above-noise, for those "
            "that are distinguishable from noise.",
            autocompletion=lambda: ["above-noise"],
        ),
    ],
    statistic: Statistic = "auto",
) -> None:
    """Release private principal components of a table."""
    table = open_data(data, options)
    from ..estimators import PrivatePCA  # seconds of import time, after the files were found

    model = PrivatePCA(components, statistic=statistic, **estimator_parameters(PrivatePCA, table, options))
    fit_and_save("pca", model, table, options, component_fields)


@with_options(FitOptions)
def sparse_pca(
    data: Data,
    options: FitOptions,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of sparse components.")],
    penalty: Annotated[
        float | None, typer.Option(help="Weight of the l1 norm. By default it is computed from the noise.")
    ] = None,
    statistic: Statistic = "auto",
) -> None:
    """Release private principal components that use few features."""
    table = open_data(data, options)
    from ..estimators import PrivateSparsePCA  # seconds of import time, after the files were found

    parameters = estimator_parameters(PrivateSparsePCA, table, options)
    model = PrivateSparsePCA(components, penalty=penalty, statistic=statistic, **parameters)
    fit_and_save("sparse-pca", model, table, options, component_fields)


@with_options(FitOptions)
def covariance(data: Data, options: FitOptions, statistic: Statistic = "auto") -> None:
    """Release the private covariance matrix of a table."""
    table = open_data(data, options)
    from ..estimators import PrivateCovariance  # seconds of import time, after the files were found

    model = PrivateCovariance(statistic=statistic, **estimator_parameters(PrivateCovariance, table, options))
    fit_and_save("covariance", model, table, options, covariance_fields)


def estimator_parameters(estimator: "type[PrivateEstimator]", table: Table, options: FitOptions) -> dict[str, Any]:
    """Return the parameters of an estimator."""
    if options.epsilon is None:
        raise typer.BadParameter("it is missing; give the privacy budget to spend, such as 1.", param_hint="--epsilon")
    if not options.dry_run:
        check_output(options.output, options.force, [*table.paths, *ledger_files(options.ledger)])
    # The table was opened with its schema and its privacy unit.
    handed_on = estimator().get_params().keys() & {field.name for field in fields(options)}
    handed_on -= {"schema", "privacy_unit", "unit_weight"}
    return {
        **{name: getattr(options, name) for name in handed_on},
        **_weight(table, options),
        "ledger": open_ledger(options.ledger),
        "mechanism_options": {"accept_inexact": True} if options.accept_inexact else None,
        **public_bounds(table, options),
    }


def _weight(table: Table, options: FitOptions) -> dict[str, str]:
    """Return the weight of privacy units, where it was given."""
    if options.unit_weight is None:
        return {}
    if not table.source.by_unit:
        raise InvalidParameterError(
            "--unit-weight needs --privacy-unit, the column that identifies a person; give it, or leave out "
            "--unit-weight."
        )
    return {"unit_weight": options.unit_weight}


def fit_and_save(
    command: str,
    model: "PrivateEstimator",
    table: Table,
    options: FitOptions,
    fields_of: Callable[["Release"], dict[str, Any]],
) -> None:
    """Ask, fit, save, and print the summary of the release, or as JSON its facts and fields.

    `fields_of` returns the fields of a release that the command is for.
    """
    from ..accounting.ledger import opened_ledger
    from ..estimators.preparation import Features
    from .charging import signals_of

    plan, ledger = plan_for(model, table.source, options.quiet), opened_ledger(model.ledger)
    identifiers = Features.of(table.source).identifiers_in_words(model.bounds)
    shown = confirm_spend(plan, ledger, options, table.source.n_rows_hint, identifiers)
    if options.dry_run:
        if options.as_json:
            print_json(shown)
        return
    with signals_of(ledger) as signals:
        try:
            with fit_progress(table.source, options.quiet):
                model.fit(table.source, plan=plan)
        finally:  # save it even if a later step failed: the budget is spent
            if hasattr(model, "release_"):
                model.release_.save(options.output)
                signals.written = options.output
        notes, release = shown_warnings(), model.release_
        if options.as_json:
            print_json({**_facts(command, model, options, notes), **fields_of(release)})
        elif not options.quiet:
            print_release(options.output, release)


def _facts(command: str, model: "PrivateEstimator", options: FitOptions, notes: list[str]) -> dict[str, Any]:
    """Return the facts that `--json` prints of every fit."""
    origin = model.release_.origin
    return {
        "command": command,
        "release": str(options.output),
        "guarantee": guarantee_fields(model.guarantee_),
        "mechanism": model.mechanism_,
        **count_fields(model.guarantee_, model.n_samples_),
        "norm_bound": model.norm_bound_,
        "scale": model.release_.scale.tolist(),
        "feature_names": None if origin.feature_names is None else list(origin.feature_names),
        "ledger_entry": origin.ledger_entry,
        "warnings": notes,
    }


@with_options(RidgeOptions)
def ridge(
    data: Data,
    options: RidgeOptions,
    target: Annotated[
        list[str], typer.Option(help="Column to predict: a name, or a position in .npy files. May be repeated.")
    ],
    alpha: Annotated[
        float | None, typer.Option(help="Regularization, per row. By default it is computed from the noise.")
    ] = None,
) -> None:
    """Release a private ridge regression, or compute one from a release at no cost."""
    if data[0].lower().endswith(".npz"):
        _ridge_from_release(data, options, target, alpha)
        return
    table = open_data(data, options, target)
    each = [_target(one, table) for one in target]
    chosen: Any = each if each[1:] else each[0]
    from ..estimators import PrivateRidge  # seconds of import time, after the files were found

    parameters = estimator_parameters(PrivateRidge, table, options)
    model = PrivateRidge(alpha, target=chosen, fit_intercept=options.center, **parameters)
    fit_and_save("ridge", model, table, options, lambda made: regressions_fields(made.regressions, feature_names(made)))


def _ridge_from_release(data: list[str], options: FitOptions, target: list[str], alpha: float | None) -> None:
    if len(data) > 1 or options.epsilon is not None:
        raise InvalidParameterError(
            "A regression from a release costs nothing; give one release file and no --epsilon."
        )
    from ..releases.origin import RegressionRequest

    release = opened_release(data[0])
    names = feature_names(release)
    for one in target:
        if one not in names:
            raise InvalidParameterError(
                f"--target {quoted(one)} is not a feature of {data[0]}; `eigenveil show {data[0]}` lists them."
            )
    targets = tuple(names.index(one) for one in target)
    with busy("computing the regression", options.quiet or options.as_json):
        fits = release.regress(targets, alpha=alpha)
    notes = shown_warnings()
    if options.as_json:
        known = {
            "command": "ridge",
            "release": data[0],
            "guarantee": guarantee_fields(release.guarantee),
            "mechanism": release.origin.mechanism,
            **count_fields(release.guarantee, release.n_rows),
            "warnings": notes,
        }
        print_json({**known, **regressions_fields(fits, names)})
    elif not options.quiet and alpha is not None:
        print_release(data[0], release, release.summary(targets, alpha=alpha))
    elif not options.quiet:  # the summary of a fit for these targets computes alpha from the noise, as `regress` does
        asked = release.origin.request
        request = RegressionRequest(target=targets, correlation=asked.correlation, own_units=asked.own_units)
        print_release(data[0], replace(release, origin=replace(release.origin, request=request)))


def _target(target: str, table: Table) -> str | int:
    if target not in table.names:
        # The header of a file may be a row, so its names are not listed.
        raise InvalidParameterError(
            f"--target {quoted(target)} is not a numeric column of the table; give the name of a column that is read."
        )
    return target if table.source.feature_names is not None else int(target)
