"""`eigenveil pca`, `sparse-pca`, `covariance`, `ridge` and `scores`: from files to a release file."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidParameterError, quoted
from .ledger import confirm, confirm_fit, count_fields, guarantee_fields, ledger_files, open_ledger, plan_for
from .messages import facts_table, output_console, print_json, printed_warnings
from .options import (
    AdjacencyName,
    AsJson,
    Decimal,
    Delimiter,
    Delta,
    DryRun,
    Encoding,
    Epsilon,
    FitOptions,
    Force,
    Quiet,
    RidgeOptions,
    Statistic,
    Yes,
    check_output,
    whole_file,
    with_options,
)
from .show import component_fields, covariance_fields, feature_names, opened_release, print_release, regressions_fields
from .tables import Table, expand, open_data, public_bounds, read_from, text_format
from .terminal import HeldSignals, busy, fit_progress

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
    if options.unit_weight is not None and not table.source.by_unit:
        raise InvalidParameterError(
            "--unit-weight needs --privacy-unit, the column that identifies a person; give it, or leave out "
            "--unit-weight."
        )
    # The table was opened with its schema and its privacy unit.
    handed_on = estimator().get_params().keys() & {field.name for field in fields(options)} - {"schema", "privacy_unit"}
    if options.unit_weight is None:
        handed_on -= {"unit_weight"}
    return {
        **{name: getattr(options, name) for name in handed_on},
        "ledger": open_ledger(options.ledger),
        "mechanism_options": {"accept_inexact": True} if options.accept_inexact else None,
        **public_bounds(table, options),
    }


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
    from ..estimators.parameters import Features

    plan, ledger = plan_for(model, table.source, options.quiet), opened_ledger(model.ledger)
    identifiers = Features.of(table.source).identifiers_in_words(model.bounds)
    shown = confirm_fit(plan, ledger, options, table.source.n_rows_hint, identifiers)
    if options.dry_run:
        if options.as_json:
            print_json(shown)
        return
    with HeldSignals(ledger) as signals:
        try:
            with fit_progress(table.source, options.quiet):
                model.fit(table.source, plan=plan)
        finally:  # save it even if a later step failed: the budget is spent
            if hasattr(model, "release_"):
                model.release_.save(options.output)
                signals.written = options.output
        notes, release = printed_warnings(), model.release_
        if options.as_json:
            facts = {
                "command": command,
                "release": str(options.output),
                "guarantee": guarantee_fields(model.guarantee_),
                "mechanism": model.mechanism_,
                **count_fields(model.guarantee_, model.n_samples_),
                "norm_bound": model.norm_bound_,
                "scale": release.scale,
                "feature_names": release.origin.feature_names,
                "ledger_entry": release.origin.ledger_entry,
                "warnings": notes,
            }
            print_json({**facts, **fields_of(release)})
        elif not options.quiet:
            print_release(options.output, release)


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
    """Release a private ridge regression of a table or a release.

    From a release file it costs nothing.
    """
    if data[0].lower().endswith(".npz"):
        _ridge_from_release(data, options, target, alpha)
        return
    table = open_data(data, options, target)
    for one in target:
        if one not in table.names:
            # The header of a file may be a row, so its names are not listed.
            raise InvalidParameterError(
                f"--target {quoted(one)} is not a numeric column of the table; give the name of a column that is read."
            )
    each = target if table.source.feature_names is not None else [int(one) for one in target]
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
    notes = printed_warnings()
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


# `eigenveil scores`.


def two_components(text: str) -> tuple[int, int]:
    """Return two positions from 0 for two component numbers from 1.

    Examples
    --------
    >>> two_components("1,3")
    (0, 2)
    """
    first, second = (int(part) - 1 for part in text.split(","))
    return first, second


def scores(
    release: Annotated[Path, typer.Argument(help="Release file (.npz) with the components.")],
    data: Data,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    axes: Annotated[
        Any, typer.Option(parser=two_components, metavar="A,B", help="Two components, numbered from 1.")
    ] = "1,2",
    bins: Annotated[
        int | None,
        typer.Option(help="Cells along each component. By default they follow from the number of rows and the noise."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="One histogram for each category of this column.")
    ] = None,
    adjacency: Annotated[
        AdjacencyName | None,
        typer.Option(help="replace_one or add_or_remove_one. Default: that of the release."),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="laplace, gaussian, or auto for the one with less noise.")] = "auto",
    privacy_unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies a person; each person counts once."),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Score map to write (.npz).")] = Path("scores.npz"),
    plot: Annotated[Path | None, typer.Option(help="Also write a figure, such as scores.png or scores.svg.")] = None,
    force: Force = False,
    ledger: Annotated[Path | None, typer.Option(help="Ledger that records the spend.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Release a private histogram of scores on two components."""
    from ..estimators.parameters import Features
    from ..estimators.score_map import opened_rows, plan_scores, score_map
    from ..report import plots

    loaded = opened_release(release)
    paths, book = expand(data), open_ledger(ledger)
    if not dry_run:
        inputs: list[str | Path] = [release, *paths, *ledger_files(ledger)]
        check_output(output, force, inputs)
        if plot is not None:
            check_output(plot, force, [*inputs, output], "--plot")
            with plots.styled():  # an error says so if matplotlib is missing
                kinds = plots.new_figure(1, 1).canvas.get_supported_filetypes()
            if plot.suffix[1:] not in kinds:
                raise InvalidParameterError(f"--plot {plot} has no supported file type; use .png or .svg.")
    text = text_format(delimiter, decimal, encoding)
    source = opened_rows(read_from(paths, quiet), loaded, privacy_unit=privacy_unit, **text)
    chosen = axes if isinstance(axes, tuple) else two_components(axes)
    count = len(loaded.components)
    if not all(0 <= axis < count for axis in chosen) or chosen[0] == chosen[1]:
        raise InvalidParameterError(
            f"--axes must be two different components from 1 to {count}, which the release has, got "
            f"{','.join(str(axis + 1) for axis in chosen)}."
        )
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "axes": chosen,
        "bins": bins,
        "groups": groups,
        "adjacency": adjacency,
        "mechanism": mechanism,
    }
    features = Features.of(source)
    plan = plan_scores(loaded, by_unit=features.by_unit, assumptions=features.assumptions, **given)
    if book is not None:
        book.check(plan.guarantee)
    noise = f"{plan.mechanism.kind}, standard deviation {plan.mechanism.noise_sd:.3g} for every count"
    facts = [("Noise", noise), ("Cells", " x ".join(map(str, plan.grid.bins)))]
    if any(plan.grid.names):
        facts.append(("Groups", ", ".join(filter(None, plan.grid.names))))
    hidden = quiet or (dry_run and as_json)
    planned = {
        "guarantee": guarantee_fields(plan.guarantee),
        "mechanism": plan.mechanism.kind,
        "noise_sd": plan.mechanism.noise_sd,
        "bins": list(plan.grid.bins),
        "groups": [name for name in plan.grid.names if name],
        "ledger": confirm(plan.guarantee, book, facts, output, yes=yes, dry_run=dry_run, hidden=hidden),
    }
    if dry_run:
        if as_json:
            print_json(planned)
        return
    with HeldSignals(book) as signals:
        with fit_progress(source, quiet):
            cloud = score_map(source, loaded, ledger=book, **given)
        cloud.save(output)
        signals.written = output
        if plot is not None:
            with whole_file(plot) as file:
                plots.score_map(cloud).savefig(file, format=plot.suffix[1:])
        if as_json:
            print_json(
                {
                    "command": "scores",
                    **planned,
                    "scores": str(output),
                    "n_units": cloud.n_units,
                    "ledger_entry": cloud.ledger_entry,
                    "edges": cloud.edges,
                    "noise_level": cloud.noise_level,
                    "counts": cloud.counts,
                    "noisy_counts": cloud.noisy_counts,
                    "warnings": printed_warnings(),
                }
            )
        elif not quiet:
            shown = [(name.capitalize(), str(value)) for name, value in cloud.facts().items() if value is not None]
            shown += [("Privacy", str(cloud.guarantee)), ("Score map", str(output))]
            output_console().print(facts_table(shown))
