"""The commands that read a release and cost nothing: show, compare, export, sample, report."""

import csv
import importlib.util
import io
import warnings
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table as Grid

from ..errors import InvalidParameterError, LedgerError, NoiseWarning
from .options import (
    AsJson,
    Force,
    LargestFile,
    Quiet,
    check_output,
    component_fields,
    covariance_fields,
    note_console,
    opened_release,
    output_console,
    plain,
    print_components,
    print_features,
    print_json,
    print_legend,
    print_regression,
    regression_fields,
    say,
    whole_file,
)
from .spending import count_fields, guarantee_fields, ledger_files

if TYPE_CHECKING:
    from ..releases.record import Release


File = Annotated[Path, typer.Argument(help="Release file (.npz).")]
_SHOWN_COEFFICIENTS = 20


def show(release: File, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show what a release says: its guarantee, where it comes from, components and variances. It costs nothing."""
    from ..report.facts import SHOWN_COMPONENTS, read

    opened = opened_release(release)
    shown = read(opened)
    if as_json:
        print_json({"command": "show", **_facts(release, opened), **_values(opened, shown), "notes": list(shown.notes)})
    elif not quiet:
        console = output_console()
        table = Grid(title=f"Release {release}", show_header=False)
        for name, value in _told(opened).items():
            table.add_row(name, value)
        console.print(table)
        if shown.correlations is not None and shown.regression is None:
            print_features(console, opened, shown.names)
        if shown.components.shape[0]:
            print_components(console, opened, shown.names, SHOWN_COMPONENTS)
        if shown.regression is not None:
            print_regression(console, shown.regression, shown.names, _SHOWN_COEFFICIENTS)
        print_legend(console, opened)
        for note in shown.notes:
            console.print(f"Note: {note}", soft_wrap=True)
        console.print(f"`eigenveil report {release}` writes a page with all of it.", soft_wrap=True)


def compare(first: File, second: File, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Compare two releases of the same features: directions, matrices, and what both promise together."""
    from ..releases.compare import compare as compared

    releases = opened_release(first), opened_release(second)
    found = compared(*releases)
    if as_json:
        result = {
            "command": "compare",
            "releases": [_facts(path, one) for path, one in zip((first, second), releases, strict=True)],
            "affinity": found.affinity,
            "angle": found.angle,
            "angle_interval": plain(found.angle_interval),
            "cosines": plain(found.cosines),
            "cosines_by_noise": plain(found.cosines_by_noise),
            "distance": found.distance,
            "together": None if found.together is None else guarantee_fields(found.together),
            "notes": list(found.notes),
        }
        print_json(result)
    elif not quiet:
        table = Grid()
        for heading in ("", str(first), str(second)):
            table.add_column(heading)
        told = [_told(one) for one in releases]
        for name in dict.fromkeys([*told[0], *told[1]]):
            table.add_row(name, *(one.get(name, "") for one in told))
        console = output_console()
        console.print(table)
        for name, value in found.facts().items():
            console.print(f"{name.capitalize()}: {value}", soft_wrap=True)
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
        "feature_names": None if origin.feature_names is None else list(origin.feature_names),
        "estimator": origin.estimator,
        "created": origin.created,
        "ledger_entry": origin.ledger_entry,
    }


def _told(release: "Release") -> dict[str, str]:
    origin = release.origin
    told = {
        "guarantee": str(release.guarantee),
        "mechanism": origin.mechanism,
        release.guarantee.unit.counted: None if release.n_rows is None else f"{release.n_rows:,}",
        "features": release.features_counted,
        "made by": origin.estimator,
        "made on": origin.created,
        "ledger entry": None if origin.ledger_entry is None else str(origin.ledger_entry),
        "schema": None if origin.schema is None else f"declared by {origin.schema.declared_by or 'nobody yet'}",
        "assumption": " ".join(release.guarantee.assumptions),
    }
    return {name: value for name, value in told.items() if value}


def _values(release: "Release", shown: Any) -> dict[str, Any]:
    """Return the fields that the command which made the release prints."""
    regression = shown.regression
    values = {"components": shown.components.tolist(), "mean": release.mean.tolist(), "coefficients": None}
    if len(shown.components):
        values |= component_fields(release)
    if shown.correlations is not None and regression is None:
        values |= covariance_fields(release)
    return values if regression is None else {**values, **regression_fields(regression, shown.names)}


def export(
    release: File,
    to: Annotated[
        Literal["json", "onnx"],
        typer.Option("--to", help="json: all that left and what it says; onnx: a model that projects rows."),
    ] = "json",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; by default the name of the release with the new suffix."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a release in another form: JSON for any language, or an ONNX model that projects rows. It costs nothing."""
    target = release.with_suffix(f".{to}") if output is None else output
    check_output(target, force, [release])
    content = _quietly(lambda: _content(opened_release(release), to))
    with whole_file(target) as file:
        file.write(content)
    note_console(quiet).print(f"Written to {target}; it holds released values only.", soft_wrap=True)


def sample(
    release: File,
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many synthetic rows.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write: .csv, or .parquet.")] = Path(
        "synthetic.csv"
    ),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write synthetic rows with the mean and covariance of a release, in its declared categories and ranges."""
    if output.suffix not in (".csv", ".parquet"):
        raise InvalidParameterError("The name of the output must end in .csv or .parquet.")
    check_output(output, force, [release])
    if output.suffix == ".parquet":
        _check_parquet()
    columns = _quietly(lambda: opened_release(release).sample_table(rows))
    content = _parquet(columns) if output.suffix == ".parquet" else _csv(columns)
    with whole_file(output) as file:
        file.write(content)
    note_console(quiet).print(
        f"Written to {output}: {rows:,} synthetic rows, none of which is a person's.", soft_wrap=True
    )


def _content(release: Any, to: str) -> bytes:
    return bytes(release.to_onnx() if to == "onnx" else release.to_json().encode("utf-8"))


def _quietly(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)  # which `show` tells
        return make()


def _csv(columns: dict[str, list[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))  # nothing stands for None
    return text.getvalue().encode("utf-8")


def _check_parquet() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise InvalidParameterError("Parquet needs pyarrow; run pip install 'eigenveil[files]', or write a .csv.")


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def report(
    release: Annotated[Path, typer.Argument(help="Release file (.npz).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write; by default the name of the release with .html."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger, to show its history.")] = None,
    scores: Annotated[
        Path | None, typer.Option(help="File of a score map on its components (.npz), to draw it too.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="What stands over the headline of the report.")] = None,
    registry: Annotated[
        Path | None,
        typer.Option(help="Also write a record for the registry of deployments (.yaml), with blanks to fill in."),
    ] = None,
    force: Force = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Write a report on a release: its answer with errors, then what a data-protection officer asks."""
    from ..accounting.ledger import PrivacyLedger
    from ..report import write_registry, write_report

    if ledger is not None and not ledger.exists():
        raise LedgerError(f"There is no ledger at {ledger}; name an existing one.")
    page = release.with_suffix(".html") if output is None else output
    inputs = [release, *([] if scores is None else [scores]), *ledger_files(ledger)]
    check_output(page, force, inputs)
    if registry is not None:
        check_output(registry, force, [*inputs, page], "--registry")
    book = None if ledger is None else PrivacyLedger(ledger)
    target = write_report(release, page, ledger=book, title=title, scores=scores, **LargestFile.given())
    say(f"Written to {target}; it needs no network and holds released values only.", err=False)
    if registry is not None:
        written = write_registry(release, registry, ledger=book, **LargestFile.given())
        say(f"Written to {written}; it has blanks that only a person can fill in.", err=False)
    if show:
        webbrowser.open(target.resolve().as_uri())
