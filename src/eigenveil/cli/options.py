"""What the commands share: options, output as text, tables and JSON, files written whole, one sentence for an error."""

import functools
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, TypeVar, get_type_hints

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ..display import NOT_ABOVE_NOISE, NOT_DETERMINED, angle_in_words, around, holds_zero, marked, with_error
from ..errors import EigenveilError, InvalidParameterError
from ..files import check_replaceable
from ..files import whole_file as written_whole
from ..limits import CORRELATION, SHARE, SIZE
from .output import BROKEN_PIPE, untold_failure

if TYPE_CHECKING:
    from ..releases.record import Release


REFUSED, INTERRUPTED, TERMINATED = 1, 130, 143
"""Exit codes beside 0 (done), 2 (wrong usage, from typer) and 3 (an audit found a violation)."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else on stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
AdjacencyName = Literal["replace_one", "add_or_remove_one"]
Adjacency = Annotated[AdjacencyName, typer.Option(help="Neighbouring data.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only; no progress, no result.")]

_INTERRUPTED_SENTENCE = (
    "eigenveil: interrupted; no half-written file is left, and a spend that a ledger had recorded stays spent."
)


def output_console() -> Console:
    """Return the console for results: stdout, coloured on a terminal only."""
    return _console(sys.stdout.isatty())


def note_console(quiet: bool = False) -> Console:
    """Return the console for everything that is no result: stderr."""
    return _console(sys.stderr.isatty(), stderr=True, quiet=quiet)


def visible(text: str) -> str:
    r"""Return a text in which all that steers a terminal, or cannot be printed for another reason, is an escape.

    Names of files, columns and data sets come from others, and a terminal obeys what it is sent.

    Examples
    --------
    >>> print(visible("age\x1b[2J"))
    age\x1b[2J
    """
    return "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)


def say(text: str, *, err: bool = True) -> None:
    """Print a text as it is, but for what steers a terminal; on stderr by default."""
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
        raise InvalidParameterError(f"{path} is read from and cannot be the output; name another {option}.")
    if path.exists() and not force:
        raise InvalidParameterError(f"{path} is already there; name another {option}, or add --force.")
    try:
        check_replaceable(path)
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror} as {option}.") from error
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameterError(f"{path} cannot be written; name another {option}.")


class Debug:
    """Whether `--debug` was given; set once, by the options before the command."""

    on = False


class LargestFile:
    """The most bytes of a release file that are read; None is the default of `load_release`. Set as `Debug` is."""

    limit: int | None = None

    @classmethod
    def given(cls) -> dict[str, int]:
        """Return it as `load_release` takes it."""
        return {} if cls.limit is None else {"max_bytes": cls.limit}


def opened_release(path: str | Path) -> "Release":
    """Read a release file, as large as `--largest-file` allows."""
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
        _stop("eigenveil: there is not enough memory for this.", REFUSED)
    except Exception as error:
        # Its text is not shown: it comes from a library, and may quote private values.
        name = type(error).__name__
        _stop(
            f"eigenveil: an unexpected {name}; `eigenveil --debug ...` shows where, on data that are public.", REFUSED
        )


def _check_shown(end: SystemExit) -> None:
    """Let a command fail whose result could not be shown, unless it has paid for it and said where it is."""
    failure = None if end.code else untold_failure()
    if failure == BROKEN_PIPE:  # as `| head` ends it, which is nothing to talk about
        raise SystemExit(REFUSED) from None
    if failure is not None:
        _stop(f"eigenveil: the result could not be printed on standard output: {failure}.", REFUSED)


def _stop(sentence: str, code: int) -> None:
    if Debug.on:
        say(traceback.format_exc())
    say(sentence)
    raise SystemExit(code) from None


_SHOWN_FEATURES = 20
_SHOWN_PAIRS = 10
_SHOWN_LOADINGS = 3


# For --json, by the names of the attributes.


def component_fields(release: "Release") -> dict[str, Any]:
    """Return components with their variances, and the intervals of these; null where there are none."""
    errors = release.spectrum.loading_errors()
    told = {
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
    return {name: plain(value) for name, value in told.items()}


def covariance_fields(release: "Release") -> dict[str, Any]:
    """Return the matrix and the location with the intervals of all entries; null where there are none."""
    told = {
        "covariance": release.covariance,
        "entry_interval": release.intervals.covariance(),
        "correlation": release.correlation,
        "correlation_interval": release.intervals.correlation(),
        "location": release.mean,
        "location_interval": release.intervals.mean(),
        "drowned_features": release.spectrum.drowned_features,
        "interval_of": None if release.intervals.unavailable else release.intervals.about,
        "no_interval": release.intervals.unavailable,
    }
    return {name: plain(value) for name, value in told.items()}


def regression_fields(fit: Any, names: Sequence[str]) -> dict[str, Any]:
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
    }


def feature_names(release: "Release") -> tuple[str, ...]:
    """Return the names of the features; their positions where they have none."""
    return release.feature_names or tuple(map(str, range(release.n_features)))


def plain(value: Any) -> Any:
    """Return an array as lists, and a tuple as a list; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


# For readers.


def print_components(console: "Console", release: "Release", names: Sequence[str], most: int | None = None) -> None:
    """Print a table of components, and what they capture together."""
    components, above = release.components, release.above_noise
    count = len(components)
    shares, share_ends = release.explained_variance_ratio, release.spectrum.explained_variance_ratio_interval
    variances, ends = release.explained_variance, release.explained_variance_interval
    errors = release.spectrum.loading_errors()
    grid = Grid(title=f"Principal components of {len(names)} features")
    grid.add_column("component", justify="right", no_wrap=True)
    if shares is not None:  # a sampled subspace comes without variances
        grid.add_column("share", justify="right", no_wrap=True)
        grid.add_column("variance", justify="right", no_wrap=True)
    if errors is not None:
        grid.add_column("off by", justify="right", no_wrap=True)
    grid.add_column("largest loadings")
    for i, direction in enumerate(components[:most]):
        cells = [marked(str(i + 1), above is not None and not above[i], NOT_ABOVE_NOISE)]
        if shares is not None and variances is not None:
            cells.append(with_error(shares[i], _of(share_ends, i), percent=True))
            cells.append(with_error(variances[i], _of(ends, i), SIZE))
        if errors is not None:
            cells.append(angle_in_words(errors.angle[i], errors.angle_bound[i]))
        known = errors is not None and not errors.undetermined[i]
        grid.add_row(*cells, loadings(direction, names, errors.standard_errors[i] if errors and known else None))
    if most is not None and count > most:
        grid.add_row(f"{count - most} more")
    console.print(grid)
    together, interval = release.spectrum.captured_variance_ratio, release.spectrum.captured_variance_ratio_interval
    if together is not None and count > 1:
        console.print(f"Together: {with_error(together, interval, percent=True)} of the variance.", soft_wrap=True)


def print_features(console: "Console", release: "Release", names: Sequence[str]) -> None:
    """Print locations and sizes of features, and their largest correlations."""
    covariance, correlation = release.covariance, release.correlation
    assert covariance is not None
    assert correlation is not None
    where, ends, drowned = release.intervals.mean(), release.intervals.covariance(), release.spectrum.drowned_features
    grid = Grid(title="Released covariance" if release.matrix.centred else "Released second moment")
    for heading in ("feature", "location", "root of the diagonal"):
        grid.add_column(heading, justify="left" if heading == "feature" else "right")
    for i, name in enumerate(names[:_SHOWN_FEATURES]):
        sizes = None if ends is None else [max(0.0, end) ** 0.5 for end in ends[i, i]]
        spread = with_error(max(0.0, covariance[i, i]) ** 0.5, sizes, SIZE)
        cells = with_error(release.mean[i], _of(where, i)), spread
        grid.add_row(marked(name, i in drowned), *cells)
    if len(names) > _SHOWN_FEATURES:
        grid.add_row(f"and {len(names) - _SHOWN_FEATURES} more", "", "")
    console.print(grid)
    reach = release.intervals.correlation()
    pairs = sorted(combinations(range(len(names)), 2), key=lambda pair: -abs(correlation[pair]))
    if pairs:
        grid = Grid(
            title=f"Correlations: the largest {_SHOWN_PAIRS} of {len(pairs)}"
            if pairs[_SHOWN_PAIRS:]
            else "Correlations"
        )
        grid.add_column("features")
        grid.add_column("correlation", justify="right")
        for one, other in pairs[:_SHOWN_PAIRS]:
            interval = None if reach is None else reach[one, other]
            text = with_error(correlation[one, other], interval, CORRELATION)
            grid.add_row(f"{names[one]}, {names[other]}", marked(text, interval is not None and holds_zero(interval)))
        console.print(grid)


def print_regression(console: "Console", fit: Any, names: Sequence[str], most: int | None = None) -> None:
    """Print the coefficients of a regression."""
    grid = Grid(title=f"Ridge regression of {names[fit.target]}")
    grid.add_column("feature")
    grid.add_column("coefficient", justify="right")
    for place, position in list(enumerate(fit.features))[:most]:
        ends = fit.coef_interval[place]
        grid.add_row(names[position], marked(with_error(fit.coef[place], ends), holds_zero(ends)))
    if most is not None and len(fit.features) > most:
        grid.add_row(f"and {len(fit.features) - most} more", "")
    grid.add_row("intercept", with_error(fit.intercept, around(fit.intercept, fit.intercept_error)))
    console.print(grid)
    told = f"R² {with_error(fit.r2, fit.r2_interval, SHARE)}, alpha {fit.alpha:.4g}, from the same release"
    console.print(told, soft_wrap=True)
    if not fit.determined:
        console.print(NOT_DETERMINED, soft_wrap=True)
    console.print(
        "Intervals of coefficients are for least squares, which a ridge draws to 0; they are widened to hold what is "
        "shown.",
        soft_wrap=True,
    )


def print_legend(console: "Console", release: "Release", *, soft_wrap: bool = True) -> None:
    """Print once what all these intervals are, or why there are none."""
    varied = release.matrix.has_matrix and release.explained_variance_interval is not None
    console.print(
        release.intervals.legend if varied or release.intervals.unavailable is None else release.intervals.unavailable,
        soft_wrap=soft_wrap,
    )


def loadings(direction: Any, names: Sequence[str], errors: Any = None) -> str:
    """Return the features with the largest weights in a direction, with their errors where these are known."""
    order = sorted(range(len(names)), key=lambda position: -abs(direction[position]))[:_SHOWN_LOADINGS]
    told = []
    for position in order:
        value = float(direction[position])
        text = f"{value:.2f}"
        if errors is not None:
            text = with_error(value, around(value, float(errors[position]), CORRELATION), CORRELATION)
        told.append(f"{names[position]} {'+' if value >= 0 else ''}{text}")
    return "\n".join(told)


def _of(ends: Any, i: int) -> Any:
    return None if ends is None else ends[i]


_Options = TypeVar("_Options")
Weight = Literal["equal", "by_rows"]

Delimiter = Annotated[str | None, typer.Option(help="Character between the fields of a file of text; `tab` is one.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of the numbers in a file of text, such as a comma.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a file of text, such as latin-1; UTF-8 by default.")]


def mechanism_names(incomplete: str) -> list[str]:
    """Complete the name of a mechanism for the shell."""
    from ..mechanisms import MECHANISMS

    return [name for name in ("auto", *MECHANISMS) if name.startswith(incomplete)]


def engine_names(incomplete: str) -> list[str]:
    """Complete the name of an engine for the shell."""
    from ..tables.open import ENGINES

    return [name for name in ENGINES if name.startswith(incomplete)]


@dataclass(kw_only=True)
class FitOptions:
    """What to read, how to bound it, what to spend, where the result goes."""

    epsilon: Annotated[float | None, typer.Option(help="Privacy budget to spend.")]
    delta: Annotated[float, typer.Option(help="Delta to spend; 0 is pure differential privacy.")] = 0.0
    adjacency: Adjacency = "replace_one"
    mechanism: Annotated[
        str, typer.Option(help="auto, or a name that `eigenveil mechanisms` lists.", autocompletion=mechanism_names)
    ] = "auto"
    accept_inexact: Annotated[
        bool,
        typer.Option(
            "--accept-inexact",
            help="Release by a mechanism whose bits may tell more than its guarantee says: for research.",
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
        str,
        typer.Option(help="1: one release; 2: rows are read again after a pilot estimate; auto: where that may pay."),
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
    privacy_unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that tells persons apart, where they have several rows: the promise is then made to a person "
            "with all of their rows, and the column is no feature.",
        ),
    ] = None
    unit_weight: Annotated[
        Weight | None,
        typer.Option(
            help="With persons: every person's average counts once (equal, the default), or rows are pooled, so that "
            "persons with many rows count more (by_rows)."
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
