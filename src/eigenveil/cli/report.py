"""`eigenveil report`: one self-contained HTML page about a release file."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..errors import LedgerError
from .options import Force, LargestFile, check_output, say


def report(
    release: Annotated[Path, typer.Argument(help="Release file (.npz).")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write; by default the name of the release with .html."),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file, to show its history.")] = None,
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
    inputs = [release] if scores is None else [release, scores]
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
