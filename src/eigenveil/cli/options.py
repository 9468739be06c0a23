"""The options that `pca`, `sparse-pca`, `covariance` and `ridge` share, written once.

A field with the name of an estimator's parameter is handed on to it; `public_bounds` reads those with a column in them.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from .common import AsJson, Force, Quiet, Relation

_Options = TypeVar("_Options")
Weight = Literal["persons", "rows"]

Delimiter = Annotated[str | None, typer.Option(help="Character between the fields of a file of text; `tab` is one.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of the numbers in a file of text, such as a comma.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a file of text, such as latin-1; UTF-8 by default.")]


def law_names(incomplete: str) -> list[str]:
    """Complete the name of a law for the shell."""
    from eigenveil.laws import LAWS

    return [name for name in ("auto", *LAWS) if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    """Complete the name of an engine for the shell."""
    from eigenveil.sources.engines import ENGINES

    return [name for name in ENGINES if name.startswith(incomplete)]


@dataclass(kw_only=True)
class FitOptions:
    """What to read, how to bound it, what to spend, where the result goes."""

    epsilon: Annotated[float | None, typer.Option(help="Privacy budget to spend.")]
    delta: Annotated[float, typer.Option(help="Delta to spend; 0 is pure differential privacy.")] = 0.0
    relation: Relation = "replace"
    law: Annotated[str, typer.Option(help="auto, or a name that `eigenveil laws` lists.", autocompletion=law_names)] = (
        "auto"
    )
    accept_inexact: Annotated[
        bool,
        typer.Option(
            "--accept-inexact", help="Release by a law whose bits may tell more than its guarantee says: for research."
        ),
    ] = False
    norm_bound: Annotated[
        float | None,
        typer.Option(
            help="Public bound on the norm of a row; where one is needed and left out, it is chosen privately."
        ),
    ] = None
    bounds: Annotated[
        list[str] | None,
        typer.Option(metavar="[COLUMN=]LOW:HIGH", help="Public range of all columns or of one; may be repeated."),
    ] = None
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Components and matrix of correlations, at no cost of their own.")
    ] = False
    center: Annotated[bool, typer.Option("--center/--no-center", help="Work about the mean, or about the origin.")] = (
        True
    )
    stages: Annotated[
        str, typer.Option(help="1: one release; 2: rows are read again after a first look; auto: where that may pay.")
    ] = "auto"
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", help="Columns to read, in this order: names, or positions where they have none."),
    ] = None
    categories: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B", help="Public categories of a column, which is one-hot encoded; may be repeated."
        ),
    ] = None
    missing: Annotated[
        float | None, typer.Option(help="Public number to put where one is missing; else such rows are refused.")
    ] = None
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that tells persons apart, where they have several rows: the promise is then made to a person "
            "with all of their rows, and the column is no feature.",
        ),
    ] = None
    weight: Annotated[
        Weight | None,
        typer.Option(
            help="With persons: every person's average counts once (persons, the default), or rows are pooled, so that "
            "persons with many rows count more (rows)."
        ),
    ] = None
    schema: Annotated[
        Path | None, typer.Option(help="Schema file of the table, which says columns, ranges, categories and missing.")
    ] = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    engine: Annotated[
        str | None,
        typer.Option(
            help="Engine to read and add up the files on, by the name of its extra.", autocompletion=engine_names
        ),
    ] = None
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write (.npz).")] = Path("release.npz")
    force: Force = False
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger to record the spend in; see `eigenveil ledger create`.")
    ] = None
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be spent, and stop.")] = False
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(kw_only=True)
class RidgeOptions(FitOptions):
    """The same, where a release file in place of rows costs nothing."""

    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget to spend; required for rows, and left out for a release.")
    ] = None


def with_options(kind: type[_Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function that takes one `options` object: its fields become options of their own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "options"
        ]
        types = get_type_hints(kind, include_extras=True)
        listed = fields(kind)  # type: ignore[arg-type]
        shared = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=types[field.name],
            )
            for field in listed
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            options = kind(**{field.name: given.pop(field.name) for field in listed})
            command(options=options, **given)

        arguments = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + shared
        run.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in arguments}
        return run

    return decorate
