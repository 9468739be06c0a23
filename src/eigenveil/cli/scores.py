"""`eigenveil scores`: a private map of the rows of a table on two released components."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Grid

from ..errors import InvalidParameterError
from .options import (
    AdjacencyName,
    AsJson,
    Decimal,
    Delimiter,
    Encoding,
    Force,
    Quiet,
    check_output,
    note_console,
    opened_release,
    output_console,
    print_json,
)
from .options import whole_file as written
from .spending import ask, budget, guarantee_fields, ledger_fields, ledger_files, open_ledger, somebody_answers

if TYPE_CHECKING:
    from ..releases.score_map import ScoreMap


def two_components(text: str) -> tuple[int, int]:
    """Return two positions from 0 for what is typed, which counts from 1.

    Examples
    --------
    >>> two_components("1,3")
    (0, 2)
    """
    first, second = (int(part) - 1 for part in text.split(","))
    return first, second


def scores(
    release: Annotated[Path, typer.Argument(help="Release file (.npz) with the components.")],
    data: Annotated[list[str], typer.Argument(help="Files that are the parts of one table; - is standard input.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget to spend on the map, beside that of the release.")],
    delta: Annotated[float, typer.Option(help="Delta to spend; 0 is pure differential privacy.")] = 0.0,
    axes: Annotated[
        Any, typer.Option(parser=two_components, metavar="A,B", help="Which two components, counted from 1.")
    ] = "1,2",
    bins: Annotated[
        int | None, typer.Option(help="Cells along each component; by default from the number of rows and the noise.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="One map for each category of a declared column.")
    ] = None,
    adjacency: Annotated[
        AdjacencyName | None, typer.Option(help="Neighbouring data; that of the release by default.")
    ] = None,
    mechanism: Annotated[
        str, typer.Option(metavar="auto | laplace | gaussian", help="The noise; by default the smaller.")
    ] = "auto",
    privacy_unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that tells persons apart: each counts once, by the average row."),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the map to write (.npz).")] = Path(
        "scores.npz"
    ),
    plot: Annotated[Path | None, typer.Option(help="Picture to draw it in, such as scores.png or .svg.")] = None,
    force: Force = False,
    ledger: Annotated[Path | None, typer.Option(help="Ledger to record the spend in.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before spending.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be spent, and stop.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Release a private map of scores: how many rows lie in each cell of two released components."""
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
        "axes": axes if isinstance(axes, tuple) else two_components(axes),
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
        told = {"counts": cloud.counts.tolist(), "noisy_counts": cloud.noisy_counts.tolist()}
        edges = {"edges": [ends.tolist() for ends in cloud.edges], "noise_level": cloud.noise_level}
        entry = {"scores": str(output), "n_units": cloud.n_units, "ledger_entry": cloud.ledger_entry}
        print_json({"command": "scores", **planned, **entry, **edges, **told})
    elif not quiet:
        grid = Grid(title=f"Score map {output}", show_header=False)
        for name, value in {**cloud.facts(), "guarantee": str(cloud.guarantee)}.items():
            if value is not None:
                grid.add_row(name, str(value))
        output_console().print(grid)


def _check_drawable(plot: Path) -> None:
    from ..report import plots

    with plots.styled():  # or matplotlib is missing, and said to be
        kinds = plots.new_figure(1, 1).canvas.get_supported_filetypes()
    if plot.suffix[1:] not in kinds:
        raise InvalidParameterError(f"{plot} is no kind of picture that can be drawn; end its name in .png or .svg.")


def _show_plan(planned: dict[str, Any], dry_run: bool, output: Path) -> None:
    table = Grid(title="Would spend" if dry_run else "About to spend", show_header=False)
    table.add_row("guarantee", planned["guarantee"]["text"])
    if planned["guarantee"]["weakness"] is not None:
        table.add_row("warning", planned["guarantee"]["weakness"])
    table.add_row("noise", f"{planned['mechanism']}, standard deviation {planned['noise_sd']:.3g} on every count")
    table.add_row("cells", " x ".join(map(str, planned["bins"])))
    if planned["groups"]:
        table.add_row("groups", ", ".join(planned["groups"]))
    accounts = planned["ledger"]
    if accounts is None:
        table.add_row("ledger", "none: nothing adds up what is spent on these rows")
    else:
        table.add_row("ledger", f"{accounts['path']}, for the data set {accounts['data_set']}")
        table.add_row("", f"spent {budget(accounts['spent'])}, after this {budget(accounts['spent_after'])}")
    table.add_row("output", str(output))
    note_console().print(table)
