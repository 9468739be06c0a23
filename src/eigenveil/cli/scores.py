"""`eigenveil scores`: a private histogram of the scores on two released components."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InvalidParameterError
from .fitting import Data
from .messages import shown_warnings
from .options import (
    AdjacencyName,
    AsJson,
    Decimal,
    Delimiter,
    Delta,
    DryRun,
    Encoding,
    Epsilon,
    Force,
    Quiet,
    Yes,
    check_output,
    facts_table,
    note_console,
    opened_release,
    output_console,
    print_json,
    print_table,
)
from .options import whole_file as written
from .spending import (
    ask,
    guarantee_fields,
    ledger_fields,
    ledger_files,
    ledger_in_words,
    open_ledger,
    somebody_answers,
)
from .terminal import fit_progress

if TYPE_CHECKING:
    from ..releases.record import Release
    from ..releases.score_map import ScoreMap


def two_components(text: str) -> tuple[int, int]:
    """Return two positions from 0 for two component numbers from 1.

    Examples
    --------
    >>> two_components("1,3")
    (0, 2)
    """
    first, second = (int(part) - 1 for part in text.split(","))
    return first, second


def _check_axes(axes: tuple[int, int], release: "Release") -> tuple[int, int]:
    """Return the axes if the release has these components; they are counted from 1 here, and from 0 in Python."""
    count = len(release.components)
    if not all(0 <= axis < count for axis in axes) or axes[0] == axes[1]:
        given = ",".join(str(axis + 1) for axis in axes)
        raise InvalidParameterError(
            f"--axes must be two different components from 1 to {count}, which the release has, got {given}."
        )
    return axes


def scores(
    release: Annotated[Path, typer.Argument(help="Release file (.npz) with the components.")],
    data: Data,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    axes: Annotated[
        Any, typer.Option(parser=two_components, metavar="A,B", help="Two components, numbered from 1.")
    ] = "1,2",
    bins: Annotated[
        int | None,
        typer.Option(help="Cells along each component. By default they follow from the number of rows and the noise."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="One histogram for each category of this column.")
    ] = None,
    adjacency: Annotated[
        AdjacencyName | None,
        typer.Option(help="replace_one or add_or_remove_one. Default: that of the release."),
    ] = None,
    mechanism: Annotated[
        str, typer.Option(help="laplace, gaussian, or auto (default) for the one with less noise.")
    ] = "auto",
    privacy_unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies a person; each person counts once."),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Score map to write (.npz).")] = Path("scores.npz"),
    plot: Annotated[Path | None, typer.Option(help="Also write a figure, such as scores.png or scores.svg.")] = None,
    force: Force = False,
    ledger: Annotated[Path | None, typer.Option(help="Ledger that records the spend.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Release a private histogram of the scores on two released components."""
    from ..estimators.preparation import Features
    from ..estimators.score_map import opened_rows, plan_scores, score_map
    from .charging import signals_of
    from .tables import expand, read_from, text_format

    loaded = opened_release(release)
    paths, book = expand(data), open_ledger(ledger)
    if not dry_run:
        inputs: list[str | Path] = [release, *paths, *ledger_files(ledger)]
        check_output(output, force, inputs)
        if plot is not None:
            check_output(plot, force, [*inputs, output], "--plot")
            _check_drawable(plot)
    text = text_format(delimiter, decimal, encoding)
    source = opened_rows(read_from(paths, quiet), loaded, privacy_unit=privacy_unit, **text)
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "axes": _check_axes(axes if isinstance(axes, tuple) else two_components(axes), loaded),
        "bins": bins,
        "groups": groups,
        "adjacency": adjacency,
        "mechanism": mechanism,
    }
    features = Features.of(source)
    plan = plan_scores(loaded, by_unit=features.by_unit, assumptions=features.assumptions, **given)
    if book is not None:
        book.check(plan.guarantee)
    planned = {
        "guarantee": guarantee_fields(plan.guarantee),
        "mechanism": plan.mechanism.kind,
        "noise_sd": plan.mechanism.noise_sd,
        "bins": list(plan.grid.bins),
        "groups": [name for name in plan.grid.names if name],
        "ledger": None if book is None else ledger_fields(book, plan.guarantee),
    }
    asks = not (yes or dry_run) and somebody_answers()
    if asks or not (quiet or (dry_run and as_json)):
        _show_plan(planned, dry_run, output)
    if asks:
        ask()
    if dry_run:
        if as_json:
            print_json(planned)
        return
    with signals_of(book) as signals:
        with fit_progress(source, quiet):
            cloud = score_map(source, loaded, ledger=book, **given)
        cloud.save(output)
        signals.written = output
        if plot is not None:
            _draw(cloud, plot)
        _show(cloud, planned, output, as_json, quiet)


def _draw(cloud: "ScoreMap", plot: Path) -> None:
    from ..report import plots

    figure = plots.score_map(cloud)
    with written(plot) as file:
        figure.savefig(file, format=plot.suffix[1:])


def _show(cloud: "ScoreMap", planned: dict[str, Any], output: Path, as_json: bool, quiet: bool) -> None:
    if as_json:
        counts = {"counts": cloud.counts.tolist(), "noisy_counts": cloud.noisy_counts.tolist()}
        edges = {"edges": [ends.tolist() for ends in cloud.edges], "noise_level": cloud.noise_level}
        entry = {"scores": str(output), "n_units": cloud.n_units, "ledger_entry": cloud.ledger_entry}
        print_json({"command": "scores", **planned, **entry, **edges, **counts, "warnings": shown_warnings()})
    elif not quiet:
        shown_warnings()
        facts = [(name.capitalize(), str(value)) for name, value in cloud.facts().items() if value is not None]
        output_console().print(facts_table([*facts, ("Privacy", str(cloud.guarantee)), ("Score map", str(output))]))


def _check_drawable(plot: Path) -> None:
    from ..report import plots

    with plots.styled():  # an error says so if matplotlib is missing
        kinds = plots.new_figure(1, 1).canvas.get_supported_filetypes()
    if plot.suffix[1:] not in kinds:
        raise InvalidParameterError(f"--plot {plot} has no supported file type; use .png or .svg.")


def _show_plan(planned: dict[str, Any], dry_run: bool, output: Path) -> None:
    facts = [("Privacy", planned["guarantee"]["text"])]
    if planned["guarantee"]["weakness"] is not None:
        facts.append(("Warning", planned["guarantee"]["weakness"]))
    noise = f"{planned['mechanism']}, standard deviation {planned['noise_sd']:.3g} for every count"
    facts += [("Noise", noise), ("Cells", " x ".join(map(str, planned["bins"])))]
    if planned["groups"]:
        facts.append(("Groups", ", ".join(planned["groups"])))
    facts += [("Ledger", ledger_in_words(planned["ledger"])), ("Output", str(output))]
    print_table(note_console(), "This would be spent:" if dry_run else "This will be spent:", facts_table(facts))
