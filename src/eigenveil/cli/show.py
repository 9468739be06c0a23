"""`eigenveil show` and `eigenveil compare`: what release files say, in the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from .options import (
    AsJson,
    Quiet,
    component_fields,
    covariance_fields,
    opened_release,
    output_console,
    plain,
    print_components,
    print_features,
    print_json,
    print_legend,
    print_regression,
    regression_fields,
)
from .spending import count_fields, guarantee_fields

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
        "features": str(release.n_features),
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
