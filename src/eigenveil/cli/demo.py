"""`eigenveil demo`: a private PCA, its release and its report, on public data that ship with scikit-learn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..uncertainty import CORRELATION, marked, with_error
from .ledger import guarantee_fields
from .messages import facts_table, new_table, output_console, print_json, print_table, printed_warnings
from .options import AsJson, Epsilon, Force, Quiet, check_output, whole_file
from .terminal import busy

if TYPE_CHECKING:
    from rich.console import Console


# The means of ten measurements; the other twenty columns are their standard errors and extremes.
_COLUMNS = 10
# docs/reference/command_line.md has the results of 1,000 releases with these numbers.
EPSILON, COMPONENTS = 2.0, 2
_WIDTH = 80  # of what is printed, commands apart
_ESTIMATE = "private estimate ± 95 %"
_SHOWN_COMPONENTS = 2  # as many loadings as fit beside each other


def demo(
    epsilon: Epsilon = EPSILON,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of principal components.")] = COMPONENTS,
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
    names, rows = tumours()
    pca = PrivatePCA(components, epsilon=epsilon, standardize=True)
    pca.plan(len(names), len(rows))  # an error comes before a file is written
    lines = [",".join(names), *(",".join(repr(float(value)) for value in row) for row in rows)]
    with whole_file(table) as written:
        written.write("\n".join([*lines, ""]).encode())
    with busy("computing the release and the report", quiet or as_json):
        pca.fit(str(table))
        pca.release_.save(release)
        write_report(pca.release_, page)
        truth = without_privacy(rows, pca.components_)
    notes = printed_warnings()
    ledger, second = output / "study.ledger", output / "second.npz"
    commands = [
        f"eigenveil show {release}",
        f"eigenveil ledger create {ledger} --epsilon 3 --data-set tumours",
        f"eigenveil pca {table} -k 2 --epsilon 2 --standardize --ledger {ledger} --output {second}",
        f"eigenveil compare {release} {second}",
    ]
    if as_json:
        print_json(
            {
                "command": "demo",
                "release": str(release),
                "report": str(page),
                "data": str(table),
                "guarantee": guarantee_fields(pca.guarantee_),
                "mechanism": pca.mechanism_,
                "captured_variance": {"private": truth["held"], "not_private": truth["best"]},
                "running_ratio": pca.release_.spectrum.running_ratio,
                "running_ratio_interval": pca.release_.spectrum.running_ratio_interval,
                "warnings": notes,
                "next": commands,
            }
        )
    elif not quiet:
        console = output_console()
        console.width = min(console.width, _WIDTH)
        _show(console, pca, names, truth)
        files = f"\nRelease: {release}\nReport:  {page} (open it in a browser)\nData:    {table}\n\nNext:"
        console.print(files, soft_wrap=True)
        for command in commands:
            console.print(f"  {command}", soft_wrap=True)
        console.print("For your own table, start with: eigenveil schema TABLE.csv", soft_wrap=True)


def _show(console: "Console", pca: Any, names: list[str], truth: dict[str, Any]) -> None:
    """Print the private estimates beside the true values and scikit-learn's PCA."""
    from ..report.estimates import read_estimates

    shown = read_estimates(pca.release_)
    facts = [
        ("Data", f"{pca.n_samples_} tumours, {len(names)} measurements each (public, from scikit-learn)"),
        ("Released", f"{pca.n_components_} principal components of the correlation matrix"),
        ("Privacy", str(pca.guarantee_)),
    ]
    console.print(facts_table(facts))
    estimates, ends = pca.release_.spectrum.running_ratio, pca.release_.spectrum.running_ratio_interval
    grid = new_table("Components", _ESTIMATE.capitalize(), "True value", "scikit-learn (not private)")
    for k, (true, best) in enumerate(zip(truth["held"], truth["best"], strict=True)):
        estimate = with_error(estimates[k], ends[k], percent=True)
        estimate = marked(estimate, shown.not_above(k), "not distinguishable from noise")
        grid.add_row(f"1 to {k + 1}" if k else "1", estimate, f"{100 * true:.1f} %", f"{100 * best:.1f} %")
    print_table(console, "\nExplained variance", grid)
    components = range(min(_SHOWN_COMPONENTS, len(truth["loadings"])))
    headings = [heading for i in components for heading in (f"Component {i + 1}", "scikit-learn")]
    grid = new_table("Measurement", *headings)
    for j, name in enumerate(names):
        cells = []
        for i in components:
            loading = with_error(float(pca.components_[i, j]), shown.loading_interval(i, j), CORRELATION)
            cells += [loading, f"{truth['loadings'][i, j]:.2f}"]
        grid.add_row(name, *cells)
    print_table(console, f"\nLoadings, {_ESTIMATE}", grid)
    console.print(f"\n{shown.legend}")
    console.print(
        "True values and scikit-learn use the rows without privacy. The demo shows them because these data are public."
    )


def tumours() -> tuple[list[str], Any]:
    """Return the names and the rows of the public table."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [str(name).removeprefix("mean ").replace(" ", "_") for name in data.feature_names[:_COLUMNS]]
    return names, data.data[:, :_COLUMNS]


def without_privacy(rows: Any, directions: Any) -> dict[str, Any]:
    """Return the variance that the private components explain, and the variance and loadings of scikit-learn's PCA.

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
