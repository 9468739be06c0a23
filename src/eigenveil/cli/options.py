"""What the commands share: options, tables, JSON, files written whole, and errors as one sentence."""

import functools
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TypeVar, get_type_hints

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ..errors import EigenveilError, InvalidParameterError
from ..files import check_replaceable
from ..files import whole_file as written_whole
from .output import BROKEN_PIPE, untold_failure

if TYPE_CHECKING:
    from ..releases.record import Release
    from ..releases.summary import Summary


REFUSED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes beside 0 (done), 2 (wrong usage, from typer) and 3 (an audit found a violation)."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
AdjacencyName = Literal["replace_one", "add_or_remove_one"]
Adjacency = Annotated[
    AdjacencyName, typer.Option(help="Neighbouring data sets: replace_one (default) or add_or_remove_one.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget ε to spend, such as 1.")]
Delta = Annotated[float, typer.Option(help="Privacy budget δ to spend; 0 is pure differential privacy.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be spent, and stop.")]
Statistic = Annotated[
    Literal["auto", "clipped", "normalized", "spatial_sign", "kendall"],
    typer.Option(help="What is computed from the rows: auto (default), clipped, normalized, spatial_sign or kendall."),
]
Standardize = Annotated[bool, typer.Option("--standardize", help="Use the correlation matrix.")]
Center = Annotated[
    bool, typer.Option("--center/--no-center", help="Centre at the mean (default), or use second moments.")
]
Stages = Annotated[
    str, typer.Option(help="1: one pass; 2: a pilot estimate, then a second pass; auto (default): where that helps.")
]

_INTERRUPTED_SENTENCE = (
    "eigenveil: interrupted; no half-written file is left, and what a ledger has recorded stays spent."
)


def output_console() -> Console:
    """Return the console for results: stdout, coloured on a terminal only."""
    return _console(sys.stdout.isatty())


def note_console(quiet: bool = False) -> Console:
    """Return the console for everything but results: stderr."""
    return _console(sys.stderr.isatty(), stderr=True, quiet=quiet)


def visible(text: str) -> str:
    r"""Return a text with escapes in place of control characters and other characters that cannot be printed.

    Names of files, columns and data sets come from others, and a terminal obeys control characters.

    Examples
    --------
    >>> print(visible("age\x1b[2J"))
    age\x1b[2J
    """
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def say(text: str, *, err: bool = True) -> None:
    """Print a text without control characters; on stderr by default."""
    typer.echo(visible(text), err=err)


class _VisibleConsole(Console):
    """A console in which every text is `visible`; colours and bars are its own."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def _console(terminal: bool, **options: Any) -> Console:
    # Names of files and columns are not markup, and a pipe has no width of its own.
    return _VisibleConsole(width=None if terminal else 100, markup=False, highlight=False, emoji=False, **options)


def print_json(value: Any) -> None:
    """Write a JSON text to stdout; JSON has no infinity and no NaN, so they become null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


class Debug:
    """Whether `--debug` was given; set once, by the options before the command."""

    on = False


class LargestFile:
    """The size limit of release files, by `--largest-file`; None is the default of `load_release`."""

    limit: int | None = None

    @classmethod
    def given(cls) -> dict[str, int]:
        """Return the limit as an argument of `load_release`."""
        return {} if cls.limit is None else {"max_bytes": cls.limit}


def opened_release(path: str | Path) -> "Release":
    """Read a release file up to the size that `--largest-file` allows."""
    from ..releases.record import load_release

    return load_release(path, **LargestFile.given())


def run(app: Callable[[], Any]) -> None:
    """Run the command line: an error of ours is one sentence on stderr and exit code 1, a signal has its own."""
    try:
        app()
    except KeyboardInterrupt:
        _stop(_INTERRUPTED_SENTENCE, INTERRUPTED)
    except SystemExit as end:  # typer has made an exit of the interrupt
        if end.code in (INTERRUPTED, TERMINATED):
            _stop(_INTERRUPTED_SENTENCE, int(end.code))
        _check_shown(end)
        raise
    except EigenveilError as error:
        error.__cause__ = error.__context__ = None  # --debug must not show what another library said about a cell
        _stop(f"eigenveil: {error}", REFUSED)
    except MemoryError:
        _stop("eigenveil: not enough memory; use fewer columns or smaller files.", REFUSED)
    except Exception as error:
        # Its text is not shown: it comes from a library, and may quote private values.
        name = type(error).__name__
        _stop(f"eigenveil: unexpected {name}; run `eigenveil --debug ...` on public data to see where.", REFUSED)


def _check_shown(end: SystemExit) -> None:
    """Let a command fail whose result could not be printed, unless it has spent budget and named its file."""
    failure = None if end.code else untold_failure()
    if failure == BROKEN_PIPE:  # as `| head` ends it, which needs no message
        raise SystemExit(REFUSED) from None
    if failure is not None:
        _stop(f"eigenveil: the result could not be printed on standard output: {failure}.", REFUSED)


def _stop(sentence: str, code: int) -> None:
    if Debug.on:
        say(traceback.format_exc())
    say(sentence)
    raise SystemExit(code) from None


# For --json, by the names of the attributes.


def component_fields(release: "Release") -> dict[str, Any]:
    """Return components with their variances, and the intervals of these; null where there are none."""
    errors = release.spectrum.loading_errors()
    values = {
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
        "loading_errors": None if errors is None else {name: plain(value) for name, value in vars(errors).items()},
        "mean": release.mean,
        "location_interval": release.intervals.mean(),
        "interval_of": None if release.intervals.unavailable else release.intervals.about,
        "no_interval": release.intervals.unavailable,
    }
    return {name: plain(value) for name, value in values.items()}


def covariance_fields(release: "Release") -> dict[str, Any]:
    """Return the matrix and the location with the intervals of all entries; null where there are none."""
    values = {
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
    return {name: plain(value) for name, value in values.items()}


def regressions_fields(fits: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the target and the fields of the regression of one; of several, their names and a list of the same."""
    each = [{"target": names[fit.target], **_regression_fields(fit, names)} for fit in fits]
    return each[0] if len(each) == 1 else {"target": [one["target"] for one in each], "regressions": each}


def _regression_fields(fit: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the coefficients of a regression by the names of its features, and the intervals of them and of R²."""
    features = [names[position] for position in fit.features]
    return {
        "coefficients": dict(zip(features, fit.coef.tolist(), strict=True)),
        "coef_interval": dict(zip(features, fit.coef_interval.tolist(), strict=True)),
        "intercept": fit.intercept,
        "intercept_error": fit.intercept_error,
        "r2": fit.r2,
        "r2_interval": fit.r2_interval.tolist(),
        "determined": bool(fit.determined),
        "alpha": fit.alpha,
        "notes": list(fit.notes),
        "reduced": None if fit.reduced is None else _regression_fields(fit.reduced, names),
    }


def feature_names(release: "Release") -> tuple[str, ...]:
    """Return the names of the features; their positions where they have none."""
    return release.feature_names or tuple(map(str, range(release.n_features)))


def plain(value: Any) -> Any:
    """Return an array as lists, and a tuple as a list; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


# For readers.


def new_table(*headings: str, left: int = 1) -> Grid:
    """Return a table without frames; so many columns are aligned left, the others right."""
    grid = Grid(
        header_style="bold",
        show_header=bool(headings),
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for position, heading in enumerate(headings):
        grid.add_column(heading, justify="left" if position < left else "right")
    return grid


def print_table(console: "Console", title: str, grid: Grid) -> None:
    """Print a table below its title."""
    console.print(title, style="bold", soft_wrap=True)
    console.print(grid)


def facts_table(facts: Iterable[tuple[str, str]]) -> Grid:
    """Return a table of facts with their headings."""
    grid = new_table()
    grid.add_column(no_wrap=True)
    grid.add_column()
    for heading, text in facts:
        grid.add_row(f"{heading}:" if heading else "", text)
    return grid


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


_Options = TypeVar("_Options")
Weight = Literal["equal", "by_rows"]

Delimiter = Annotated[str | None, typer.Option(help="Field separator of text files, such as ';' or tab.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of text files, such as a comma.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of text files, such as latin-1. Default: UTF-8.")]
Engine = Annotated[
    str | None,
    typer.Option(help="Compute on dask or spark.", autocompletion=lambda incomplete: engine_names(incomplete)),
]


def mechanism_names(incomplete: str) -> list[str]:
    """Complete the name of a mechanism for the shell."""
    from ..mechanisms import MECHANISMS

    return [name for name in ("auto", *MECHANISMS) if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    """Complete the name of an engine for the shell."""
    from ..tables.open import ENGINES

    return [name for name, engine in ENGINES.items() if engine.reads and name.startswith(incomplete)]


@dataclass(kw_only=True)
class FitOptions:
    """The options of a fit: privacy budget, bounds, table, output."""

    epsilon: Annotated[float | None, typer.Option(help="Privacy budget ε to spend, such as 1.")]
    delta: Delta = 0.0
    adjacency: Adjacency = "replace_one"
    mechanism: Annotated[
        str,
        typer.Option(
            help="auto (default), or a mechanism listed by `eigenveil mechanisms`.", autocompletion=mechanism_names
        ),
    ] = "auto"
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
    """The same; a release file in place of rows costs nothing."""

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
