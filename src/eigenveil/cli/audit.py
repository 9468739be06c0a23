"""`eigenveil audit NAME`: a lower bound on the epsilon of a mechanism, from its outputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import Adjacency, note_console, output_console

if TYPE_CHECKING:
    from ..audit import AuditReport


VIOLATION_EXIT_CODE = 3


def _subject_names(incomplete: str) -> list[str]:
    from ..audit.subjects import names

    return [name for name in names() if name.startswith(incomplete)]


def audit(
    name: Annotated[
        str,
        typer.Argument(help="A mechanism, or local:MECHANISM for a client's report.", autocompletion=_subject_names),
    ],
    epsilon: Annotated[float, typer.Option(help="Epsilon of the mechanism.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of the mechanism.")] = 0.0,
    features: Annotated[int, typer.Option(help="Width of a row; audits are strongest where it is small.")] = 2,
    components: Annotated[int | None, typer.Option(help="Number of directions to release.")] = None,
    adjacency: Adjacency = "replace_one",
    calibration: Annotated[
        Literal["tight", "paper"] | None, typer.Option(help="Our constants, or the published ones.")
    ] = None,
    at_delta: Annotated[
        float | None, typer.Option(help="Delta to bound epsilon at; by default 0 for pure claims, else at least 0.01.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Outputs drawn on each of the two data sets.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound, over everything that is tried.")] = 0.99,
    last_bits: Annotated[
        bool, typer.Option(help="Look at parities, float64 spacings and other last bits of what leaves too.")
    ] = True,
    bits: Annotated[
        int, typer.Option(help="Bits of the grid that the made-up rows of a central mechanism lie on.")
    ] = 16,
    checkpoint: Annotated[Path | None, typer.Option(help="File that keeps finished draws; resumes from it.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Try to refute a privacy claim. Exit code 0: not refuted, which proves nothing; 3: refuted."""
    parameters = _parameters(name, epsilon, delta, features, components, adjacency, calibration)
    report = audited(
        _subject(name, parameters, last_bits=last_bits, bits=bits),
        delta=at_delta,
        confidence=confidence,
        draws=draws,
        checkpoint=checkpoint,
        workers=workers,
    )
    show(report, json=json)
    if report.verdict == "violation":
        raise typer.Exit(VIOLATION_EXIT_CODE)


def audited(subject: Any, *, workers: int | None = None, **options: Any) -> "AuditReport":
    """Return what `eigenveil.audit.audit` finds, with a progress bar on a terminal; on all cores by default."""
    # Not at the top: a device that encodes a row should not wait for any of this.
    import os

    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..audit import audit as run_audit

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    screen = note_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as bar:
        task = bar.add_task(f"drawing from {getattr(subject, 'name', subject)}", total=None)
        return run_audit(
            subject,
            workers=cores if workers is None else workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **options,
        )


def show(report: "AuditReport", *, json: bool) -> None:
    """Print a report as a table, or as JSON."""
    import json as json_format

    from rich.table import Table

    if json:
        typer.echo(json_format.dumps(report.to_dict(), indent=1))
        return
    table = Table(title=f"Audit of {report.name}", show_header=False)
    table.add_row("epsilon is at least", f"{report.epsilon_lower:.4g}")
    table.add_row("claimed", f"{report.claimed:.4g} ({report.claimed_by})")
    table.add_row("at delta", f"{report.delta:g}")
    table.add_row("confidence", f"{report.confidence:.10g}")
    table.add_row("tightness", f"{report.tightness:.3f}")
    table.add_row("neighbours", f"{report.neighbours} (of {report.n_searched} pairs searched)")
    table.add_row("event", report.event)
    table.add_row("counted", " against ".join(f"{c} of {n}" for c, n in zip(report.counts, report.draws, strict=True)))
    if report.impossible:
        table.add_row("support violation", f"probability at least {report.impossible:.3g}")
    table.add_row("verdict", report.verdict)
    output_console().print(table)


def _subject(name: str, parameters: Mapping[str, Any], **options: Any) -> Any:
    """Return what is audited; a report of the local model has no grid, and no bits beside those that it is made of."""
    from ..audit import MechanismSubject
    from ..audit.subjects import subject_for
    from ..mechanisms import MECHANISMS

    return (
        MechanismSubject(MECHANISMS[name](**parameters), **options)
        if name in MECHANISMS
        else subject_for(name, parameters)
    )


def _parameters(
    name: str,
    epsilon: float,
    delta: float,
    features: int,
    components: int | None,
    adjacency: str,
    calibration: str | None,
) -> Mapping[str, Any]:
    """Return the arguments that a mechanism of this kind takes; those not given are left to its defaults."""
    from ..audit.subjects import names
    from ..errors import InvalidParameterError, one_of
    from ..mechanisms import MECHANISMS

    one_of("name", name, names())
    shared = {"epsilon": epsilon, "delta": delta, "n_features": features}
    if name in MECHANISMS:
        # An audit is what constants that are not private may be repeated for.
        unsound = {"allow_unsound": True} if calibration in MECHANISMS[name].unsound_calibrations else {}
        return {**shared, "n_components": components, "adjacency": adjacency, "calibration": calibration, **unsound}
    given = {"components": components, "calibration": calibration, "adjacency": adjacency != "replace_one"}
    extra = [option for option, value in given.items() if value]
    if extra:
        raise InvalidParameterError(f"{name} takes no --{extra[0]}; leave it out.")
    return shared
