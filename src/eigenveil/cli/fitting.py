"""`eigenveil pca`, `sparse-pca` and `covariance`: from files to a release file."""

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InvalidParameterError, NoiseWarning, PrivacyWarning, quoted
from .options import (
    FitOptions,
    RidgeOptions,
    check_output,
    component_fields,
    covariance_fields,
    feature_names,
    note_console,
    opened_release,
    output_console,
    print_components,
    print_features,
    print_json,
    print_legend,
    print_regression,
    regression_fields,
    with_options,
)
from .spending import confirm_spend, count_fields, guarantee_fields, ledger_files, open_ledger, plan_for
from .tables import Table, open_data, public_bounds
from .terminal import in_own_options, one_bar

if TYPE_CHECKING:
    from ..estimators import PrivateCovariance, PrivatePCA
    from ..estimators.base import PrivateEstimator


Data = Annotated[
    list[str],
    typer.Argument(help="Files that are the parts of one table, such as CSV or Parquet; - is standard input."),
]
Rows = Annotated[
    Literal["auto", "clipped", "normalized", "spatial_sign", "kendall"],
    typer.Option(
        help="auto goes by what is public; clip shortens rows to the bound; unit brings them to length 1; pairs takes "
        "directions between rows; signs those of the differences between rows, for the correlation matrix."
    ),
]


def number_of_components(text: str) -> int | float | str:
    """Return what -k means: how many, a share of variance, or those above the noise.

    Examples
    --------
    >>> number_of_components("3"), number_of_components("0.9"), number_of_components("above-noise")
    (3, 0.9, 'above_noise')
    """
    if text.replace("_", "-") == "above-noise":
        return "above_noise"
    return int(text) if text.lstrip("+-").isdigit() else float(text)


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
            metavar="K | SHARE | above-noise",
            help="How many principal components; or the share of variance that they should explain, such as 0.9; or "
            "those that rise above the noise.",
            autocompletion=lambda: ["above-noise"],
        ),
    ],
    statistic: Rows = "auto",
) -> None:
    """Release principal components of a table."""
    table = open_data(data, options)
    from ..estimators import PrivatePCA  # seconds of import time, after the files were found

    model = PrivatePCA(components, statistic=statistic, **estimator_parameters(PrivatePCA, table, options))
    fit_and_save(model, table, options, lambda notes: _show_components("pca", model, table, options, notes))


@with_options(FitOptions)
def sparse_pca(
    data: Data,
    options: FitOptions,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of sparse components.")],
    penalty: Annotated[
        float | None, typer.Option(help="Weight of the l1 norm; by default it follows from the noise.")
    ] = None,
    statistic: Rows = "auto",
) -> None:
    """Release principal components that use few features."""
    table = open_data(data, options)
    from ..estimators import PrivateSparsePCA  # seconds of import time, after the files were found

    parameters = estimator_parameters(PrivateSparsePCA, table, options)
    model = PrivateSparsePCA(components, penalty=penalty, statistic=statistic, **parameters)
    fit_and_save(model, table, options, lambda notes: _show_components("sparse-pca", model, table, options, notes))


def _show_components(command: str, model: "PrivatePCA", table: Table, options: FitOptions, notes: list[str]) -> None:
    if options.as_json:
        print_json({**facts(command, model, options, notes), **component_fields(model.release_)})
        return
    print_components(output_console(), model.release_, feature_names(model.release_))
    _print_guarantee(model, options)


@with_options(FitOptions)
def covariance(data: Data, options: FitOptions, statistic: Rows = "auto") -> None:
    """Release the covariance of a table, or with --no-center its second moment, for others to use freely."""
    table = open_data(data, options)
    from ..estimators import PrivateCovariance  # seconds of import time, after the files were found

    model = PrivateCovariance(statistic=statistic, **estimator_parameters(PrivateCovariance, table, options))
    fit_and_save(model, table, options, lambda notes: _show_covariance(model, table, options, notes))


def _show_covariance(model: "PrivateCovariance", table: Table, options: FitOptions, notes: list[str]) -> None:
    if options.as_json:
        print_json({**facts("covariance", model, options, notes), **covariance_fields(model.release_)})
        return
    print_features(output_console(), model.release_, table.names)
    _print_guarantee(model, options)


def estimator_parameters(estimator: "type[PrivateEstimator]", table: Table, options: FitOptions) -> dict[str, Any]:
    """Return what an estimator is made with."""
    if options.epsilon is None:
        raise typer.BadParameter("rows cost budget; say what may be spent.", param_hint="--epsilon")
    if not options.dry_run:
        check_output(options.output, options.force, [*table.paths, *ledger_files(options.ledger)])
    # The schema and the persons are those of the table, which was opened with them.
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
    """Return what counts once, where persons are the unit and it was said."""
    if options.unit_weight is None:
        return {}
    if not table.source.by_unit:
        raise InvalidParameterError(
            "Without a column that tells persons apart every row is one person's; give --privacy-unit, or leave out "
            "--unit-weight."
        )
    return {"unit_weight": options.unit_weight}


def fit_and_save(
    model: "PrivateEstimator", table: Table, options: FitOptions, show: Callable[[list[str]], None]
) -> None:
    """Ask, fit, save, and show the result with its warnings where it is not to be quiet."""
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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with one_bar(table.source, "drawing the release", options.quiet) as source:
                    model.fit(source, plan=plan)
            finally:  # whatever became of reading it: it has been paid for
                if hasattr(model, "release_"):
                    model.release_.save(options.output)
                    signals.written = options.output
        notes = told_notes(caught, options.quiet)
        if options.as_json or not options.quiet:
            show(notes)


def told_notes(caught: list[warnings.WarningMessage], quiet: bool) -> list[str]:
    """Print our warnings, and return their sentences."""
    # Those of other packages are not ours to vouch for: they could quote a cell.
    ours = (warning for warning in caught if issubclass(warning.category, NoiseWarning | PrivacyWarning))
    notes = list(dict.fromkeys(in_own_options(str(warning.message)) for warning in ours))
    for note in notes:
        note_console(quiet).print(f"eigenveil: warning: {note}", soft_wrap=True)
    return notes


def facts(command: str, model: "PrivateEstimator", options: FitOptions, notes: list[str]) -> dict[str, Any]:
    """Return what `--json` tells about every release."""
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


def _print_guarantee(model: "PrivateEstimator", options: FitOptions) -> None:
    console = output_console()
    print_legend(console, model.release_)
    console.print(f"Guarantee: {model.guarantee_}", soft_wrap=True)
    console.print(f"Mechanism: {model.mechanism_}; norm bound {model.norm_bound_:.6g}", soft_wrap=True)
    for assumption in model.guarantee_.assumptions:
        console.print(f"Assumption: {assumption}", soft_wrap=True)
    console.print(f"Written to {options.output}; `eigenveil show {options.output}` shows it again.", soft_wrap=True)


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
    from ..estimators import PrivateRidge  # seconds of import time, after the files were found

    model = PrivateRidge(alpha, target=chosen, **estimator_parameters(PrivateRidge, table, options))

    def show(notes: list[str]) -> None:
        _show(model.release_, model.release_.regression, options, facts("ridge", model, options, notes))

    fit_and_save(model, table, options, show)


def _ridge_from_release(data: list[str], options: FitOptions, target: str, alpha: float | None) -> None:
    if len(data) > 1 or options.epsilon is not None:
        raise InvalidParameterError("A regression from a release takes that one file, and costs no epsilon.")
    release = opened_release(data[0])
    names = feature_names(release)
    if target not in names:
        raise InvalidParameterError(f"There is no feature {quoted(target)} in {data[0]}.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = release.regress(names.index(target), alpha=alpha)
    known = {
        "command": "ridge",
        "release": data[0],
        "guarantee": guarantee_fields(release.guarantee),
        "mechanism": release.origin.mechanism,
        **count_fields(release.guarantee, release.n_rows),
        "warnings": told_notes(caught, options.quiet),
    }
    _show(release, fit, options, known)


def _target(target: str, table: Table) -> str | int:
    if target not in table.names:
        raise InvalidParameterError(f"There is no column {quoted(target)} to predict.")
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
