"""`eigenveil pca` and `covariance`: from files to a release file."""

import io
import sys
import warnings
from contextlib import redirect_stderr
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from eigenveil.errors import NoiseWarning

from .common import check_output, note_console, output_console, print_json
from .options import FitOptions, with_options
from .spending import confirm_spend, guarantee_fields, open_ledger
from .tables import Table, open_data, public_bounds, told_for_commands

Data = Annotated[
    list[str],
    typer.Argument(help="Files that are the parts of one table, such as CSV or Parquet. Patterns are expanded."),
]
Rows = Annotated[
    str,
    typer.Option(help="clip: shorten rows to the bound | pairs: directions between consecutive rows, without a bound."),
]
_SHOWN_FEATURES = 20
_SHOWN_LOADINGS = 3


@with_options(FitOptions)
def pca(
    data: Data,
    options: FitOptions,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of principal components.")],
    rows: Rows = "clip",
) -> None:
    """Release principal components of a table."""
    table = open_data(data, options)
    from eigenveil.estimators import PrivatePCA  # seconds of import time, after the files were found

    model = PrivatePCA(components, rows=rows, **estimator_parameters(PrivatePCA, table, options))
    notes = fit_and_save(model, table, options)
    if notes is None:
        return
    variances, shares = model.explained_variance_, model.explained_variance_ratio_
    if options.as_json:
        result = facts("pca", model, options, notes)
        result["components"] = model.components_.tolist()
        result["explained_variance"] = None if variances is None else variances.tolist()
        result["explained_variance_ratio"] = None if shares is None else shares.tolist()
        result["mean"] = model.mean_.tolist()
        print_json(result)
    else:
        grid = Grid(title=f"Principal components of {len(table.names)} features")
        for heading in ("component", "variance", "share"):
            grid.add_column(heading, justify="right")
        grid.add_column("largest loadings")
        for number, direction in enumerate(model.components_):
            values = ("", "")  # a sampled subspace comes without eigenvalues
            if variances is not None and shares is not None:
                values = (f"{variances[number]:.4g}", f"{shares[number]:.1%}")
            grid.add_row(str(number + 1), *values, _loadings(direction, table.names))
        _print(grid, model, options)


@with_options(FitOptions)
def covariance(data: Data, options: FitOptions, rows: Rows = "clip") -> None:
    """Release the second moment of a table, or with --center its covariance, for others to use freely."""
    table = open_data(data, options)
    from eigenveil.estimators import PrivateCovariance  # seconds of import time, after the files were found

    model = PrivateCovariance(rows=rows, **estimator_parameters(PrivateCovariance, table, options))
    notes = fit_and_save(model, table, options)
    if notes is None:
        return
    if options.as_json:
        result = facts("covariance", model, options, notes)
        print_json({**result, "covariance": model.covariance_.tolist(), "location": model.location_.tolist()})
    else:
        grid = Grid(title="Released covariance" if options.center else "Released second moment")
        grid.add_column("feature")
        grid.add_column("location", justify="right")
        grid.add_column("root of the diagonal", justify="right")
        roots = model.covariance_.diagonal() ** 0.5
        for name, location, root in list(zip(table.names, model.location_, roots, strict=True))[:_SHOWN_FEATURES]:
            grid.add_row(name, f"{location:.4g}", f"{root:.4g}")
        if len(table.names) > _SHOWN_FEATURES:
            grid.add_row(f"and {len(table.names) - _SHOWN_FEATURES} more", "", "")
        _print(grid, model, options)


def estimator_parameters(estimator: Any, table: Table, options: FitOptions) -> dict[str, Any]:
    """Return what an estimator is made with."""
    if options.epsilon is None:
        raise typer.BadParameter("say what may be spent; there is no default.", param_hint="--epsilon")
    if not options.dry_run:
        ledger = [] if options.ledger is None else [str(options.ledger)]
        check_output(options.output, options.overwrite, table.paths + ledger)
    handed_on = estimator().get_params().keys() & {field.name for field in fields(options)}
    return {
        **{name: getattr(options, name) for name in handed_on},
        "ledger": open_ledger(options.ledger),
        "law_options": {"accept_inexact": True} if options.accept_inexact else None,
        **public_bounds(table, options),
    }


def fit_and_save(model: Any, table: Table, options: FitOptions) -> list[str] | None:
    """Ask, fit and save; return warnings, or None where nothing is left to print."""
    plan = model.plan(table.source.n_features)
    shown = confirm_spend(plan, model.ledger, options)
    if options.dry_run:
        if options.as_json:
            print_json(shown)
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The progress bar looks for a terminal on stderr; quiet takes it away.
        with redirect_stderr(io.StringIO() if options.quiet else sys.stderr), told_for_commands():
            model.fit(table.source, plan=plan)
        model.release_.save(options.output)  # first of all: it has been paid for
    # Those of other packages are not ours to vouch for: they could quote a cell.
    ours = (warning for warning in caught if issubclass(warning.category, NoiseWarning))
    notes = list(dict.fromkeys(str(warning.message) for warning in ours))
    for note in notes:
        note_console(options.quiet).print(f"eigenveil: warning: {note}", soft_wrap=True)
    return None if options.quiet and not options.as_json else notes


def facts(command: str, model: Any, options: FitOptions, notes: list[str]) -> dict[str, Any]:
    """Return what `--json` tells about every release."""
    origin = model.release_.origin
    return {
        "command": command,
        "release": str(options.output),
        "guarantee": guarantee_fields(model.guarantee_),
        "law": model.law_,
        "n_rows": model.n_samples_,
        "norm_bound": model.norm_bound_,
        "scale": model.scale_.tolist(),
        "feature_names": None if origin.feature_names is None else list(origin.feature_names),
        "ledger_entry": origin.ledger_entry,
        "warnings": notes,
    }


def _loadings(direction: Any, names: tuple[str, ...]) -> str:
    order = sorted(range(len(names)), key=lambda position: -abs(direction[position]))[:_SHOWN_LOADINGS]
    return ", ".join(f"{names[position]} {direction[position]:+.2f}" for position in order)


def _print(grid: Grid, model: Any, options: FitOptions) -> None:
    console = output_console()
    console.print(grid)
    console.print(f"Guarantee: {model.guarantee_}", soft_wrap=True)
    console.print(f"Law: {model.law_}; norm bound {model.norm_bound_:.6g}", soft_wrap=True)
    for caveat in model.guarantee_.caveats:
        console.print(f"Caveat: {caveat}", soft_wrap=True)
    console.print(f"Written to {options.output}; `eigenveil report {options.output}` shows it.", soft_wrap=True)
