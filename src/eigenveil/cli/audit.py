"""`eigenveil audit NAME`: a lower bound on the epsilon of a mechanism, from its outputs."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .options import Adjacency, AsJson, facts_table, note_console, output_console, print_table

if TYPE_CHECKING:
    from ..audit import AuditReport


VIOLATION_EXIT_CODE = 3
_VERDICTS = {
    "violation": "violation: the claim is refuted",
    "consistent": "consistent: the claim is not refuted, which does not prove it",
}


def _subject_names(incomplete: str) -> list[str]:
    from ..audit.subjects import names

    return [name for name in names() if name.startswith(incomplete)]


def audit(
    name: Annotated[
        str,
        typer.Argument(help="A mechanism, or local:MECHANISM for a report of a client.", autocompletion=_subject_names),
    ],
    epsilon: Annotated[float, typer.Option(help="ε that the mechanism claims.")] = 1.0,
    delta: Annotated[float, typer.Option(help="δ that the mechanism claims.")] = 0.0,
    features: Annotated[int, typer.Option(help="Number of features; audits are strongest with few.")] = 2,
    components: Annotated[int | None, typer.Option(help="Number of components to release.")] = None,
    adjacency: Adjacency = "replace_one",
    calibration: Annotated[
        Literal["tight", "paper"] | None,
        typer.Option(help="Constants: tight, or paper for the published ones."),
    ] = None,
    at_delta: Annotated[
        float | None, typer.Option(help="δ at which ε is bounded. Default: 0 for pure claims, else at least 0.01.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Outputs drawn from each of the two data sets.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound, over all tests together.")] = 0.99,
    workers: Annotated[int | None, typer.Option(help="Number of processes. Default: all cores.")] = None,
    json: AsJson = False,
) -> None:
    """Try to refute the privacy claim of a mechanism. Exit code 3: refuted; 0: not refuted."""
    from ..audit.subjects import names, subject_for
    from ..errors import InvalidParameterError, one_of
    from ..mechanisms import MECHANISMS

    one_of("name", name, names())
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "n_features": features}
    if name in MECHANISMS:
        parameters |= {"n_components": components, "adjacency": adjacency, "calibration": calibration}
        # Constants that are not private may be audited.
        parameters |= {"allow_unsound": True} if calibration in MECHANISMS[name].unsound_calibrations else {}
    else:
        given = {"components": components, "calibration": calibration, "adjacency": adjacency != "replace_one"}
        extra = [option for option, value in given.items() if value]
        if extra:
            raise InvalidParameterError(f"{name} takes no --{extra[0]}; leave it out.")
    subject = subject_for(name, parameters)
    report = audited(subject, delta=at_delta, confidence=confidence, draws=draws, workers=workers, hidden=json)
    show(report, json=json)
    if report.verdict == "violation":
        raise typer.Exit(VIOLATION_EXIT_CODE)


def audited(subject: Any, *, workers: int | None = None, hidden: bool = False, **options: Any) -> "AuditReport":
    """Return the result of `eigenveil.audit.audit`, with a progress bar on a terminal; on all cores by default."""
    # Not at the top: a device that encodes a row should not load any of this.
    import os

    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from ..audit import audit as run_audit

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    screen = note_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=hidden or not screen.is_terminal) as bar:
        task = bar.add_task(f"auditing {getattr(subject, 'name', subject)}", total=None)
        return run_audit(
            subject,
            workers=cores if workers is None else workers,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **options,
        )


def show(report: "AuditReport", *, json: bool) -> None:
    """Print a report as a table, or as JSON."""
    import json as json_format

    if json:
        typer.echo(json_format.dumps(report.to_dict(), indent=1))
        return
    counts = zip(report.counts, report.draws, strict=True)
    facts = [
        ("Verdict", _VERDICTS.get(report.verdict, report.verdict)),
        ("Lower bound", f"ε ≥ {report.epsilon_lower:.4g} at δ = {report.delta:g}, confidence {report.confidence:.10g}"),
        ("Claim", f"ε = {report.claimed:.4g} ({report.claimed_by})"),
        ("Tightness", f"{report.tightness:.3f} (lower bound / claim)"),
        ("Neighbours", f"{report.neighbours} (of {report.n_searched} pairs searched)"),
        ("Event", report.event),
        ("Counts", " against ".join(f"{count} of {draws}" for count, draws in counts)),
    ]
    if report.impossible:
        facts.append(("Support", f"outputs impossible for one data set: probability at least {report.impossible:.3g}"))
    print_table(output_console(), f"Audit of {report.name}", facts_table(facts))
