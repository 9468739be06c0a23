"""`eigenveil demo`: a private PCA, its release and its report, on public data that ship with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..display import around, marked, with_error
from ..limits import CORRELATION
from .ledger import guarantee_fields
from .messages import facts_table, new_table, output_console, print_json, print_table, printed_warnings
from .options import AsJson, Epsilon, Force, Quiet, check_output, whole_file
from .show import plain
from .terminal import busy

if TYPE_CHECKING:
    from rich.console import Console


# The means of ten measurements; the other twenty columns are their standard errors and extremes.
_COLUMNS = 10
# docs/reference/command_line.md has the results of 1,000 releases with these numbers.
_EPSILON, _COMPONENTS = 2.0, 2
_WIDTH = 80  # of what is printed, commands apart
_ESTIMATE = "private estimate ± 95 %"
_SHOWN_COMPONENTS = 2  # as many loadings as fit beside each other


def demo(
    epsilon: Epsilon = _EPSILON,
    components: Annotated[
        int, typer.Option("--components", "-k", help="Number of principal components.")
    ] = _COMPONENTS,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files; it is made if needed.")] = Path(
        "eigenveil-demo"
    ),
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a private PCA on a public medical table, with a report."""
    from ..errors import InvalidParameterError
    from ..estimators import PrivatePCA
    from ..report import write_report

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"--output {output} cannot be made: {error.strerror}.") from error
    table, release, page = (output / f"tumours.{ending}" for ending in ("csv", "npz", "html"))
    for file in (table, release, page):
        check_output(file, force)
    names, rows = _tumours()
    pca = PrivatePCA(components, epsilon=epsilon, standardize=True)
    pca.plan(len(names), len(rows))  # an error comes before a file is written
    _write_csv(table, names, rows)
    with busy("computing the release and the report", quiet or as_json):
        pca.fit(str(table))
        pca.release_.save(release)
        write_report(pca.release_, page)
        truth = _without_privacy(rows, pca.components_)
    notes = printed_warnings()
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
    """Return the variance that the private components explain, and the same for scikit-learn's PCA.

    Only for the demonstration: these rows are public, so true values can be shown.
    """
    import numpy as np
    from sklearn.decomposition import PCA

    standardized = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    best = PCA(len(directions)).fit(standardized)
    signs = np.sign((best.components_ * directions).sum(axis=1, keepdims=True))  # the sign of a component is arbitrary
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
    ]


def _show(console: "Console", pca: Any, names: list[str], truth: dict[str, Any]) -> None:
    release = pca.release_
    facts = [
        ("Data", f"{pca.n_samples_} tumours, {len(names)} measurements each (public, from scikit-learn)"),
        ("Released", f"{pca.n_components_} principal components of the correlation matrix"),
        ("Privacy", str(pca.guarantee_)),
    ]
    console.print(facts_table(facts))
    estimates, ends = release.spectrum.running_ratio, release.spectrum.running_ratio_interval
    above = pca.above_noise_
    grid = new_table("Components", _ESTIMATE.capitalize(), "True value", "scikit-learn (not private)")
    for k, (true, best) in enumerate(zip(truth["held"], truth["best"], strict=True)):
        estimate = marked(
            with_error(estimates[k], ends[k], percent=True), not above[k], "not distinguishable from noise"
        )
        grid.add_row(f"1 to {k + 1}" if k else "1", estimate, f"{100 * true:.1f} %", f"{100 * best:.1f} %")
    print_table(console, "\nExplained variance", grid)
    _show_loadings(console, pca, names, truth["loadings"])
    console.print(f"\n{release.intervals.legend}")
    console.print(
        "True values and scikit-learn use the rows without privacy. The demo shows them because these data are public."
    )


def _show_loadings(console: "Console", pca: Any, names: list[str], best: Any) -> None:
    errors = pca.release_.spectrum.loading_errors()
    shown = range(min(_SHOWN_COMPONENTS, len(best)))
    headings = [heading for i in shown for heading in (f"Component {i + 1}", "scikit-learn")]
    grid = new_table("Measurement", *headings)
    for j, name in enumerate(names):
        cells = []
        for i in shown:
            value = float(pca.components_[i, j])
            known = errors is not None and not errors.undetermined[i]
            interval = around(value, float(errors.standard_errors[i, j]), CORRELATION) if known else None
            cells += [with_error(value, interval, CORRELATION), f"{best[i, j]:.2f}"]
        grid.add_row(name, *cells)
    print_table(console, f"\nLoadings, {_ESTIMATE}", grid)


def _show_files(console: "Console", files: tuple[Path, Path, Path], commands: list[str]) -> None:
    release, page, data = files
    console.print(f"\nRelease: {release}\nReport:  {page} (open it in a browser)\nData:    {data}", soft_wrap=True)
    console.print("\nNext:")
    for command in commands:
        console.print(f"  {command}", soft_wrap=True)
    console.print("For your own table, start with: eigenveil schema TABLE.csv", soft_wrap=True)
