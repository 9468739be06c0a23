"""What the commands share: options, and the files that they write."""

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar, get_type_hints

import typer

from ..errors import InvalidParameterError
from ..files import check_replaceable
from ..files import whole_file as written_whole

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
AdjacencyName = Literal["replace_one", "add_or_remove_one"]
Adjacency = Annotated[AdjacencyName, typer.Option(help="How neighbouring data sets differ.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget ε to spend, such as 1.")]
Delta = Annotated[float, typer.Option(help="Privacy budget δ to spend; 0 is pure differential privacy.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be spent, and stop.")]
Statistic = Annotated[
    Literal["auto", "clipped", "normalized", "spatial_sign", "kendall"],
    typer.Option(help="What is computed from the rows."),
]
Standardize = Annotated[bool, typer.Option("--standardize", help="Use the correlation matrix.")]
Center = Annotated[bool, typer.Option("--center/--no-center", help="Centre at the mean, or use second moments.")]
Stages = Annotated[
    str, typer.Option(help="1: one pass; 2: a pilot estimate, then a second pass; auto: where that helps.")
]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it has been written."""
    try:
        with written_whole(path) as file:
            yield file
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror}.") from error


def check_output(path: Path, force: bool, inputs: Sequence[str | Path] = (), option: str = "--output") -> None:
    """Refuse, before anything is spent, a place where the result could not or must not be written."""
    if path.resolve() in [Path(name).resolve() for name in inputs]:
        raise InvalidParameterError(f"{path} is an input and cannot be the output; give another {option}.")
    if path.exists() and not force:
        raise InvalidParameterError(f"{path} already exists; give another {option}, or add --force to overwrite it.")
    try:
        check_replaceable(path)
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror} as {option}.") from error
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameterError(f"{path} cannot be written; give another {option}.")


_Options = TypeVar("_Options")
Weight = Literal["equal", "by_rows"]

Delimiter = Annotated[str | None, typer.Option(help="Field separator of text files, such as ';' or tab.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of text files, such as a comma.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of text files, such as latin-1. Default: UTF-8.")]
Engine = Annotated[str | None, typer.Option(help="Compute on dask or spark.")]


@dataclass(kw_only=True)
class FitOptions:
    """The options of a fit: privacy budget, bounds, table, output."""

    epsilon: Annotated[float | None, typer.Option(help="Privacy budget ε to spend, such as 1.")]
    delta: Delta = 0.0
    adjacency: Adjacency = "replace_one"
    mechanism: Annotated[str, typer.Option(help="auto, or a mechanism listed by `eigenveil mechanisms`.")] = "auto"
    accept_inexact: Annotated[
        bool,
        typer.Option("--accept-inexact", help="Allow a mechanism without exact sampling, for research."),
    ] = False
    norm_bound: Annotated[
        float | None,
        typer.Option(help="Public clipping bound on the norm of a row. If it is needed, it is estimated privately."),
    ] = None
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[COLUMN=]LOW:HIGH", help="Public range of all numeric columns, or of one. May be repeated."
        ),
    ] = None
    standardize: Standardize = False
    center: Center = True
    stages: Stages = "auto"
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,C", help="Columns to read, in this order: names, or positions in .npy files."),
    ] = None
    categories: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=A,B", help="Public categories of a text column. May be repeated."),
    ] = None
    missing: Annotated[
        float | None, typer.Option(help="Public fill value for missing numbers. Without it they are an error.")
    ] = None
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies a person with several rows. The guarantee covers all rows of the person.",
        ),
    ] = None
    unit_weight: Annotated[
        Weight | None,
        typer.Option(
            help="With --privacy-unit: equal (default) counts every unit once, by_rows weights by number of rows."
        ),
    ] = None
    schema: Annotated[
        Path | None, typer.Option(help="Schema file (.yaml) with columns, ranges, categories and fill values.")
    ] = None
    delimiter: Delimiter = None
    decimal: Decimal = None
    encoding: Encoding = None
    engine: Engine = None
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write (.npz).")] = Path("release.npz")
    force: Force = False
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger that records the spend; make one with `eigenveil ledger create`.")
    ] = None
    yes: Yes = False
    dry_run: DryRun = False
    as_json: AsJson = False
    quiet: Quiet = False


@dataclass(kw_only=True)
class RidgeOptions(FitOptions):
    """The options of a ridge regression, which needs no budget where it reads a release file."""

    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget ε to spend, such as 1. Leave out for a release file.")
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
