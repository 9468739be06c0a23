"""What is printed of a release, and the commands that read one and spend nothing: show, summary, ..., report."""

import csv
import importlib.util
import io
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InvalidParameterError, quoted
from .ledger import count_fields, guarantee_fields, ledger_files, open_ledger
from .messages import facts_table, new_table, note_console, output_console, print_json
from .options import AsJson, Force, Quiet, check_output, whole_file
from .tables import split_list
from .terminal import busy, say, visible

if TYPE_CHECKING:
    from ..releases.record import Release
    from ..releases.summary import Summary


File = Annotated[Path, typer.Argument(help="Release file (.npz).")]


# For --json, by the names of the attributes.


def component_fields(release: "Release") -> dict[str, Any]:
    """Return components with their variances, and the intervals of these; null where there are none."""
    errors = release.spectrum.loading_errors()
    return {
        "components": release.components,
        "explained_variance": release.explained_variance,
        "explained_variance_interval": release.explained_variance_interval,
        "explained_variance_interval_kind": release.spectrum.explained_variance_interval_kind,
        "explained_variance_ratio": release.explained_variance_ratio,
        "explained_variance_ratio_interval": release.spectrum.explained_variance_ratio_interval,
        "captured_variance": release.spectrum.captured_variance,
        "captured_variance_interval": release.spectrum.captured_variance_interval,
        "captured_variance_ratio": release.spectrum.captured_variance_ratio,
        "captured_variance_ratio_interval": release.spectrum.captured_variance_ratio_interval,
        "above_noise": release.above_noise,
        "noise_edges": None if release.spectrum.noise_test is None else release.spectrum.noise_test.edges,
        "loading_errors": None if errors is None else vars(errors),
        "mean": release.mean,
        "location_interval": release.intervals.mean(),
        "interval_of": None if release.intervals.unavailable else release.intervals.about,
        "no_interval": release.intervals.unavailable,
    }


def covariance_fields(release: "Release") -> dict[str, Any]:
    """Return the matrix and the location with the intervals of all entries; null where there are none."""
    return {
        "covariance": release.covariance,
        "entry_interval": release.intervals.covariance(),
        "correlation": release.correlation,
        "correlation_interval": release.intervals.correlation(),
        "location": release.mean,
        "location_interval": release.intervals.mean(),
        "features_below_noise": release.spectrum.features_below_noise,
        "interval_of": None if release.intervals.unavailable else release.intervals.about,
        "no_interval": release.intervals.unavailable,
    }


def regressions_fields(fits: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the target and the fields of the regression of one; of several, their names and a list of the same."""
    each = [{"target": names[fit.target], **_regression_fields(fit, names)} for fit in fits]
    return each[0] if len(each) == 1 else {"target": [one["target"] for one in each], "regressions": each}


def _regression_fields(fit: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the coefficients of a regression by the names of its features, and the intervals of them and of R²."""
    features = [names[position] for position in fit.features]
    return {
        "coefficients": dict(zip(features, fit.coef, strict=True)),
        "coef_interval": dict(zip(features, fit.coef_interval, strict=True)),
        "intercept": fit.intercept,
        "intercept_error": fit.intercept_error,
        "r2": fit.r2,
        "r2_interval": fit.r2_interval,
        "determined": bool(fit.determined),
        "alpha": fit.alpha,
        "notes": fit.notes,
        "reduced": None if fit.reduced is None else _regression_fields(fit.reduced, names),
    }


def opened_release(path: str | Path) -> "Release":
    """Read a release file."""
    from ..releases.record import load_release

    return load_release(path)


def feature_names(release: "Release") -> tuple[str, ...]:
    """Return the names of the features; their positions where they have none."""
    return release.feature_names or tuple(map(str, range(release.n_features)))


# For readers.


def print_release(path: str | Path, release: "Release", summary: "Summary | None" = None) -> None:
    """Print the summary of a release and, below it, the facts about its file."""
    origin = release.origin
    console = output_console()
    console.print(str(release.summary() if summary is None else summary), soft_wrap=True)
    facts = [("Assumes", assumption) for assumption in release.guarantee.assumptions]
    facts.append(("Estimator", origin.estimator or "not named"))
    if origin.ledger_entry is not None:
        facts.append(("Ledger entry", str(origin.ledger_entry)))
    if origin.schema is not None:
        facts.append(("Schema", f"declared by {origin.schema.declared_by or 'nobody yet'}"))
    facts.append(("Release", f"{path} (for a full report: eigenveil report {path})"))
    console.print("")
    console.print(facts_table(facts))


# The commands.


def show(release: File, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show a release: its guarantee, components and intervals. Spends nothing."""
    from ..report.estimates import read_estimates

    opened = opened_release(release)
    with busy("computing intervals", quiet or as_json):
        if as_json:
            shown = read_estimates(opened)
            values = {"components": shown.components, "mean": opened.mean, "coefficients": None}
            if len(shown.components):
                values |= component_fields(opened)
            if shown.correlations is not None and not shown.regressions:
                values |= covariance_fields(opened)
            if shown.regressions:
                values |= regressions_fields(shown.regressions, shown.names)
        elif not quiet:
            found = opened.summary()
    if as_json:
        print_json({"command": "show", **_facts(release, opened), **values, "notes": shown.notes})
    elif not quiet:
        print_release(release, opened, found)


def summary(
    release: File,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to predict, for a regression. May be repeated."),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", help="Columns to predict from. Default: all others."),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LEVEL", help="Base level of a categorical column. Default: the first. May be repeated."
        ),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Regularization; 0 is least squares.")] = None,
    form: Annotated[
        Literal["text", "json", "html", "latex"],
        typer.Option("--format", help="Format of the tables."),
    ] = "text",
) -> None:
    """Print tables of a release with standard errors and intervals. Spends nothing."""
    opened = opened_release(release)
    levels = {}
    for pair in base or ():
        name, sign, levels[name] = pair.partition("=")
        if not sign:
            raise InvalidParameterError(f"--base {quoted(pair)} must be COLUMN=LEVEL.")
    named = split_list(features)
    chosen = None if named is None else [_column(opened, one) for one in named]
    with busy("computing intervals"):
        found = opened.summary(
            [_column(opened, one) for one in target] if target else None, chosen, alpha=alpha, base=levels or None
        )
    match form:
        case "json":
            typer.echo(found.to_json())
        case "html":
            typer.echo(found.to_html(), nl=False)
        case "latex":
            typer.echo(found.to_latex(), nl=False)
        case _:
            typer.echo(visible(str(found)))


def _column(release: "Release", name: str) -> str | int:
    """Return a column by its name; by its position where the release has no names."""
    if release.feature_names is not None or not name.removeprefix("x").isdecimal():
        return name
    return int(name.removeprefix("x"))


def compare(first: File, second: File, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Compare two releases of the same features. Spends nothing."""
    from ..releases.compare import compare as compared

    releases = opened_release(first), opened_release(second)
    with busy("comparing", quiet or as_json):
        found = compared(*releases)
    if as_json:
        result = {
            "command": "compare",
            "releases": [_facts(path, one) for path, one in zip((first, second), releases, strict=True)],
            "affinity": found.affinity,
            "angle": found.angle,
            "angle_interval": found.angle_interval,
            "cosines": found.cosines,
            "cosines_by_noise": found.cosines_by_noise,
            "distance": found.distance,
            "together": None if found.together is None else guarantee_fields(found.together),
            "notes": found.notes,
        }
        print_json(result)
    elif not quiet:
        table = new_table("", str(first), str(second), left=3)
        for heading, cells in (
            ("Privacy", [str(one.guarantee) for one in releases]),
            ("Mechanism", [one.origin.mechanism for one in releases]),
            ("Rows or units", ["" if one.n_rows is None else f"{one.n_rows:,}" for one in releases]),
            ("Features", [one.features_counted for one in releases]),
            ("Created", [one.origin.created for one in releases]),
        ):
            table.add_row(f"{heading}:", *cells)
        console = output_console()
        console.print(table)
        console.print("")
        console.print(facts_table((name.capitalize(), value) for name, value in found.facts().items()))
        for note in found.notes:
            console.print(f"Note: {note}", soft_wrap=True)


def _facts(path: Path, release: "Release") -> dict[str, Any]:
    origin = release.origin
    return {
        "release": str(path),
        "guarantee": guarantee_fields(release.guarantee),
        "mechanism": origin.mechanism,
        "model": origin.model,
        **count_fields(release.guarantee, release.n_rows),
        "n_features": release.n_features,
        "feature_names": origin.feature_names,
        "estimator": origin.estimator,
        "created": origin.created,
        "ledger_entry": origin.ledger_entry,
    }


def export(
    release: File,
    to: Annotated[
        Literal["json", "onnx"],
        typer.Option("--to", help="json, or onnx for a model that transforms rows."),
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write. Default: the release file with the new suffix."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Convert a release to JSON or to an ONNX model. Spends nothing."""
    target = release.with_suffix(f".{to}") if output is None else output
    check_output(target, force, [release])
    with busy("converting", quiet):
        opened = opened_release(release)
        content = opened.to_onnx() if to == "onnx" else opened.to_json().encode("utf-8")
    with whole_file(target) as file:
        file.write(content)
    note_console(quiet).print(f"Written to {target}. It contains released values only.", soft_wrap=True)


def sample(
    release: File,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of synthetic rows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write (.csv or .parquet).")] = Path(
        "synthetic.csv"
    ),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw synthetic rows by the mean and covariance of a release. Spends nothing."""
    if output.suffix not in (".csv", ".parquet"):
        raise InvalidParameterError(f"--output {output} has no supported file type; use .csv or .parquet.")
    check_output(output, force, [release])
    if output.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise InvalidParameterError(
            "Parquet needs pyarrow; run pip install 'eigenveil[files]', or give a .csv as --output."
        )
    with busy("drawing synthetic rows", quiet):
        columns = opened_release(release).sample_table(rows)
    with whole_file(output) as file:
        if output.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet

            pyarrow.parquet.write_table(pa.table(columns), file)
        else:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))  # None becomes an empty field
            text.detach()  # which writes the rest
    note_console(quiet).print(
        f"Written to {output}: {rows:,} synthetic rows. No row belongs to a person.", soft_wrap=True
    )


def report(
    release: Annotated[Path, typer.Argument(help="Release file (.npz).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write. Default: the release file with .html."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger, for the total spend.")] = None,
    scores: Annotated[Path | None, typer.Option(help="Score map of this release (.npz).")] = None,
    title: Annotated[str | None, typer.Option(help="Line above the headline.")] = None,
    statement: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with purpose, recipients, responsible, approval, other_releases. Missing fields are "
            "printed as blank lines to fill in."
        ),
    ] = None,
    registry: Annotated[
        Path | None,
        typer.Option(help="Also write a draft record for the registry of deployments (.yaml)."),
    ] = None,
    force: Force = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report about a release, with facts for officers."""
    from ..releases.score_map import load_score_map
    from ..report import Statement, report_record, write_registry, write_report

    page = release.with_suffix(".html") if output is None else output
    inputs = [release, *(one for one in (scores, statement) if one is not None), *ledger_files(ledger)]
    stated = Statement.of(statement)
    check_output(page, force, inputs)
    if registry is not None:
        check_output(registry, force, [*inputs, page], "--registry")
    book = open_ledger(ledger)
    with busy("writing the report", quiet or as_json):
        target = write_report(release, page, ledger=book, title=title, scores=scores, statement=stated)
    written = None
    if registry is not None:
        written = write_registry(release, registry, ledger=book, statement=stated)
    if as_json:
        opened = opened_release(release)
        cloud = None if scores is None else load_score_map(scores)
        record = report_record(opened, ledger=book, scores=cloud, statement=stated)
        files = {"report": str(target), "registry": None if written is None else str(written)}
        print_json({"command": "report", **_facts(release, opened), **files, **record})
    elif not quiet:
        say(f"Report written to {target}.", err=False)
        if written is not None:
            say(f"Registry record written to {written}. Fill in the fields marked TO BE FILLED IN.", err=False)
    if show:
        webbrowser.open(target.resolve().as_uri())
