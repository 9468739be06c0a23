"""`eigenveil audit NAME`: a lower bound on the epsilon of a mechanism, from its outputs."""

from pathlib import Path
from typing import Annotated

import typer

VIOLATION_EXIT_CODE = 3


def audit(
    name: Annotated[
        str, typer.Argument(help="A mechanism, local:MECHANISM for a client's report, or diffprivlib or opendp.")
    ],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the mechanism.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of the mechanism.")] = 0.0,
    features: Annotated[int, typer.Option(help="Width of a row; audits are strongest where it is small.")] = 2,
    components: Annotated[int | None, typer.Option(help="Number of directions to release.")] = None,
    relation: Annotated[str, typer.Option(help="replace or add_remove.")] = "replace",
    calibration: Annotated[str | None, typer.Option(help="tight, or paper for the published constants.")] = None,
    at_delta: Annotated[
        float | None, typer.Option(help="Delta to bound epsilon at; by default 0 for pure claims, else at least 0.01.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Outputs drawn on each of the two data sets.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound, over everything that is tried.")] = 0.99,
    checkpoint: Annotated[Path | None, typer.Option(help="File that keeps finished draws; resumes from it.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Try to refute a privacy claim. Exit code 0: not refuted, which proves nothing; 3: refuted."""
    # Not at the top: a device that encodes a row should not wait for any of this.
    import json as json_format
    import os

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from ..audit import audit as run_audit

    parameters = _parameters(name, epsilon, delta, features, components, relation, calibration)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task(f"drawing from {name}", total=None)
        report = run_audit(
            name,
            parameters=parameters,
            delta=at_delta,
            confidence=confidence,
            draws=draws,
            checkpoint=checkpoint,
            workers=cores if workers is None else workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if json:
        typer.echo(json_format.dumps(report.to_dict(), indent=1))
    else:
        table = Table(title=f"Audit of {name}", show_header=False)
        table.add_row("epsilon is at least", f"{report.epsilon_lower:.4g}")
        table.add_row("claimed", f"{report.claimed:.4g} ({report.claimed_by})")
        table.add_row("at delta", f"{report.delta:g}")
        table.add_row("confidence", f"{report.confidence:.10g}")
        table.add_row("tightness", f"{report.tightness:.3f}")
        table.add_row("neighbours", f"{report.pair} (of {report.n_pairs} pairs searched)")
        table.add_row("event", report.event)
        table.add_row(
            "counted", " against ".join(f"{c} of {n}" for c, n in zip(report.counts, report.draws, strict=True))
        )
        if report.impossible:
            table.add_row("support violation", f"probability at least {report.impossible:.3g}")
        table.add_row("verdict", report.verdict)
        Console(width=None if screen.is_terminal else 100).print(table)
    if report.verdict == "violation":
        raise typer.Exit(VIOLATION_EXIT_CODE)


def _parameters(
    name: str,
    epsilon: float,
    delta: float,
    features: int,
    components: int | None,
    relation: str,
    calibration: str | None,
) -> dict[str, object]:
    """Return the arguments that this kind of name takes; those not given are left to its defaults."""
    from ..errors import InvalidParameterError
    from ..mechanisms import MECHANISMS

    central: dict[str, object] = {"n_components": components, "calibration": calibration}
    if name in MECHANISMS:
        if name == "wishart" and calibration == "paper":
            central["allow_unsound"] = True  # an audit is what it may be repeated for
        return {"epsilon": epsilon, "delta": delta, "n_features": features, "relation": relation, **central}
    given = [
        f"--{option}" for option, value in zip(("components", "calibration"), central.values(), strict=True) if value
    ]
    if given or relation != "replace":
        raise InvalidParameterError(f"{name} takes no {given[0] if given else '--relation'}; leave it out.")
    return {"epsilon": epsilon, "delta": delta, "n_features": features}
