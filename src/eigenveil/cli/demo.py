"""`eigenveil demo`: from nothing to a report, on real data that ship with scikit-learn."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..display import NOT_ABOVE_NOISE, around, marked, with_error
from ..limits import CORRELATION
from .fitting import told_notes
from .options import AsJson, Force, Quiet, check_output, output_console, plain, print_json, print_legend, whole_file
from .spending import guarantee_fields

if TYPE_CHECKING:
    from rich.console import Console


# Ten measurements of a nucleus, as means over a sample; the other twenty columns are their errors and extremes.
_COLUMNS = 10
# Chosen by measuring 200 releases: docs/reference/command_line.md tells what they gave.
_EPSILON, _COMPONENTS = 2.0, 2
_WIDTH = 80  # of what is printed, commands apart
_SHOWN_COMPONENTS = 2  # as many loadings as fit beside each other


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the release.")] = _EPSILON,
    components: Annotated[
        int, typer.Option("--components", "-k", help="Number of principal components.")
    ] = _COMPONENTS,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; made if needed.")] = Path(
        "eigenveil-demo"
    ),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a private PCA on a medical table that ships with scikit-learn, and write the release and its report."""
    from ..errors import InvalidParameterError
    from ..estimators import PrivatePCA
    from ..report import write_report

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"The folder {output} cannot be made: {error.strerror}.") from error
    table, release, page = (output / f"tumours.{ending}" for ending in ("csv", "npz", "html"))
    for file in (table, release, page):
        check_output(file, force)
    names, rows = _tumours()
    pca = PrivatePCA(components, epsilon=epsilon, standardize=True)
    pca.plan(len(names), len(rows))  # what is refused, is refused before a file is written
    _write_csv(table, names, rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pca.fit(str(table))
    notes = told_notes(caught, quiet)
    pca.release_.save(release)
    write_report(pca.release_, page)
    truth = _without_privacy(rows, pca.components_)
    commands = _next_commands(output, release, table)
    if as_json:
        print_json(
            {
                "command": "demo",
                "release": str(release),
                "report": str(page),
                "data": str(table),
                "guarantee": guarantee_fields(pca.guarantee_),
                "mechanism": pca.mechanism_,
                "captured_variance": {"private": plain(truth["held"]), "not_private": plain(truth["best"])},
                "running_ratio": plain(pca.release_.spectrum.running_ratio),
                "running_ratio_interval": plain(pca.release_.spectrum.running_ratio_interval),
                "warnings": notes,
                "next": commands,
            }
        )
    elif not quiet:
        console = output_console()
        console.width = min(console.width, _WIDTH)
        _show(console, pca, names, truth)
        _show_files(console, (release, page, table), commands)


def _tumours() -> tuple[list[str], Any]:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [str(name).removeprefix("mean ").replace(" ", "_") for name in data.feature_names[:_COLUMNS]]
    return names, data.data[:, :_COLUMNS]


def _write_csv(path: Path, names: list[str], rows: Any) -> None:
    lines = [",".join(names), *(",".join(repr(float(value)) for value in row) for row in rows)]
    with whole_file(path) as file:
        file.write("\n".join([*lines, ""]).encode())


def _without_privacy(rows: Any, directions: Any) -> dict[str, Any]:
    """Return the share of the variance that the private directions truly hold, and what scikit-learn's PCA gets.

    For the demonstration alone: the rows are public here, so the truth may be shown beside the release.
    """
    import numpy as np
    from sklearn.decomposition import PCA

    standardized = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    best = PCA(len(directions)).fit(standardized)
    signs = np.sign((best.components_ * directions).sum(axis=1, keepdims=True))  # a direction has no sign of its own
    held = ((standardized @ directions.T) ** 2).sum(axis=0) / (standardized**2).sum()
    return {
        "held": np.cumsum(held),
        "best": np.cumsum(best.explained_variance_ratio_),
        "loadings": signs * best.components_,
    }


def _next_commands(folder: Path, release: Path, table: Path) -> list[str]:
    ledger, second = folder / "study.ledger", folder / "second.npz"
    return [
        f"eigenveil show {release}",
        f"eigenveil ledger create {ledger} --epsilon 3 --data-set tumours",
        f"eigenveil pca {table} -k 2 --epsilon 2 --standardize --ledger {ledger} --output {second}",
        f"eigenveil compare {release} {second}",
        f"eigenveil report {second} --ledger {ledger}",
        "eigenveil --help",
    ]


def _show(console: "Console", pca: Any, names: list[str], truth: dict[str, Any]) -> None:
    release = pca.release_
    console.print(f"{pca.n_samples_} tumours, {len(names)} measurements of each: a table that ships with scikit-learn")
    console.print(f"Released: {pca.n_components_} principal components of the correlation matrix")
    console.print(f"Guarantee: {pca.guarantee_}")
    for assumption in pca.guarantee_.assumptions:
        console.print(f"Assumption: {assumption}")
    told, ends, above = release.spectrum.running_ratio, release.spectrum.running_ratio_interval, pca.above_noise_
    grid = Table(title="Share of the variance that the components hold")
    for heading in ("components", "told by the release", "in truth", "scikit-learn's PCA"):
        grid.add_column(heading, justify="right")
    for k, pair in enumerate(zip(truth["held"], truth["best"], strict=True)):
        count = marked(f"1 to {k + 1}" if k else "1", not above[k], NOT_ABOVE_NOISE)
        grid.add_row(count, with_error(told[k], ends[k], percent=True), *(f"{100 * share:.1f} %" for share in pair))
    console.print(grid)
    _show_loadings(console, pca, names, truth["loadings"])
    console.print(
        "What is told by the release, and the components with their errors, is private. The other columns read the "
        "rows: the demo may, because these data are public. With private data nobody may."
    )
    print_legend(console, release, soft_wrap=False)


def _show_loadings(console: "Console", pca: Any, names: list[str], best: Any) -> None:
    errors = pca.release_.spectrum.loading_errors()
    shown = range(min(_SHOWN_COMPONENTS, len(best)))
    grid = Table(title="Loadings")
    grid.add_column("measurement")
    for i in shown:
        grid.add_column(f"component {i + 1}", justify="right")
        grid.add_column("not private", justify="right")
    for j, name in enumerate(names):
        cells = []
        for i in shown:
            value = float(pca.components_[i, j])
            known = errors is not None and not errors.undetermined[i]
            interval = around(value, float(errors.standard_errors[i, j]), CORRELATION) if known else None
            cells += [with_error(value, interval, CORRELATION), f"{best[i, j]:.2f}"]
        grid.add_row(name, *cells)
    console.print(grid)


def _show_files(console: "Console", files: tuple[Path, Path, Path], commands: list[str]) -> None:
    release, page, data = files
    console.print(f"\nRelease: {release}\nReport: {page} (open it in a browser)\nData: {data}", soft_wrap=True)
    console.print("\nTry next (with your own table begin with `eigenveil schema TABLE.csv`):")
    for command in commands:
        console.print(f"  {command}", soft_wrap=True)
