"""`eigenveil demo`: from nothing to a report, on real data that ship with scikit-learn."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from eigenveil.with_error import marked, with_error

from .common import AsJson, Force, Quiet, check_output, output_console, print_json, whole_file
from .fitting import told_notes
from .spending import guarantee_fields
from .values import plain, print_legend

if TYPE_CHECKING:
    from rich.console import Console

# Pixels lie in 0..16 by the format of the data set, so no row is longer than 128; half of that is a public guess at
# a typical length.
_BOUND = 64.0


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the release.")] = 1.0,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of principal components.")] = 3,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; made if needed.")] = Path(
        "eigenveil-demo"
    ),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a private PCA on scikit-learn's handwritten digits, and write the release and its report."""
    from sklearn.datasets import load_digits

    from eigenveil.errors import InvalidParameterError
    from eigenveil.estimators import PrivatePCA
    from eigenveil.report import write_report

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"The folder {output} cannot be made: {error.strerror}.") from error
    release, page, table = (output / name for name in ("eigenveil-demo.npz", "eigenveil-demo.html", "digits.csv"))
    for file in (release, page, table):
        check_output(file, force)
    digits = load_digits().data
    pca = PrivatePCA(components, epsilon=epsilon, norm_bound=_BOUND, center=False, law="matrix_laplace")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pca.fit(digits)
    notes = told_notes(caught, quiet)
    pca.release_.save(release)
    write_report(pca.release_, page)
    _write_csv(table, digits)
    shares = _captured(digits, pca.components_)
    commands = _next_commands(output, release, table)
    if as_json:
        print_json(
            {
                "command": "demo",
                "release": str(release),
                "report": str(page),
                "data": str(table),
                "guarantee": guarantee_fields(pca.guarantee_),
                "law": pca.law_,
                "captured_variance": {"private": shares[0], "not_private": shares[1]},
                "running_ratio": plain(pca.release_.running_ratio),
                "running_ratio_interval": plain(pca.release_.running_ratio_interval),
                "warnings": notes,
                "next": commands,
            }
        )
    elif not quiet:
        _show(output_console(), pca, digits.shape, shares, (release, page, table), commands)


def _captured(digits: Any, directions: Any) -> tuple[list[float], list[float]]:
    """Return the shares of variance for the private and for the true directions.

    For the demonstration alone: the rows are public here, so the truth may be shown beside the release.
    """
    import numpy as np

    from eigenveil.metrics import captured_variance
    from eigenveil.postprocess import top_components

    shortened = digits * np.minimum(1.0, _BOUND / np.linalg.norm(digits, axis=1, keepdims=True))
    truth = shortened.T @ shortened / digits.shape[0]
    best = top_components(truth, directions.shape[0])
    private, true = (
        [float(captured_variance(truth, rows[:k]) / np.trace(truth)) for k in range(1, len(rows) + 1)]
        for rows in (directions, best)
    )
    return private, true


def _write_csv(path: Path, digits: Any) -> None:
    header = ",".join(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    lines = [header, *(",".join(f"{value:.0f}" for value in row) for row in digits)]
    with whole_file(path) as file:
        file.write("\n".join([*lines, ""]).encode())


def _next_commands(folder: Path, release: Path, table: Path) -> list[str]:
    ledger, mine = folder / "study.ledger", folder / "digits.npz"
    return [
        f"eigenveil ledger create {ledger} --epsilon 2 --delta 1e-5 --data-set digits",
        f"eigenveil pca {table} -k 3 --epsilon 0.5 --delta 1e-6 --bounds 0:16 --ledger {ledger} --output {mine}",
        f"eigenveil ridge {mine} --target pixel_4_4",
        f"eigenveil report {mine}",
        "eigenveil laws",
        "eigenveil --help",
    ]


def _show(
    console: "Console",
    pca: Any,
    shape: tuple[int, int],
    shares: tuple[list[float], list[float]],
    files: tuple[Path, Path, Path],
    commands: list[str],
) -> None:
    console.print(f"Handwritten digits: {shape[0]} rows of {shape[1]} pixels")
    console.print(f"Released: {pca.n_components_} components and the second moment, by {pca.law_}")
    console.print(f"Guarantee: {pca.guarantee_}")
    table = Table(title="Variance captured, share of the total")
    for heading in ("components", "told by the release", "truly, private", "truly, not private"):
        table.add_column(heading, justify="right")
    told, ends, lost = pca.release_.running_ratio, pca.release_.running_ratio_interval, pca.may_be_noise_
    for k, pair in enumerate(zip(*shares, strict=True)):
        count = marked(str(k + 1), bool(lost[k]))
        table.add_row(count, with_error(told[k], ends[k], percent=True), *(f"{100 * share:.1f} %" for share in pair))
    console.print(table)
    print_legend(console, pca.release_)
    release, page, data = files
    console.print(f"Release: {release}\nReport: {page} (open it in a browser)\nData: {data}", soft_wrap=True)
    console.print("\nTry next:")
    for command in commands:
        console.print(f"  {command}", soft_wrap=True)
