"""The picture of the home page, and what its example prints: one run of the page's own code.

python tools/home_picture.py

Every run draws new noise and makes another picture; none is selected. PCA without privacy is shown for comparison.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from eigenveil.report.plots import BLUE, BROWN, GREY, new_figure, styled

DOCS = Path(__file__).parents[1] / "docs"


def example(page: str) -> tuple[dict[str, Any], str]:
    """Return the names that the Python of the home page leaves behind, and what it prints."""
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    known: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec("\n".join(code), known)
    return known, printed.getvalue()


def with_printed(page: str, printed: str) -> str:
    """Return the page with what was printed between its two marks."""
    lines = "".join(f"    {line}\n" for line in printed.splitlines())
    return re.sub(
        r"(<!-- printed: begin.*?-->\n\n).*?(\n<!-- printed: end -->)", rf"\g<1>{lines}\g<2>", page, flags=re.DOTALL
    )


@styled()
def draw(released: np.ndarray, errors: np.ndarray, true: np.ndarray, names: list[str]) -> Any:
    """Return the loadings with their 95 % intervals, and where they are without noise."""
    figure = new_figure(5.0, 4.2)
    axes = figure.subplots()
    places = np.arange(len(names))[::-1]
    axes.axvline(0, color=GREY, linewidth=0.8)
    interval = {"xerr": 1.96 * errors, "capsize": 4, "elinewidth": 2}
    label = "released, with 95 % confidence interval"
    axes.errorbar(released, places, fmt="o", color=BLUE, markersize=8, label=label, **interval)
    axes.plot(true, places, "D", mfc="none", mec=BROWN, mew=2, markersize=8, label="without privacy (not released)")
    axes.set_yticks(places, names)
    axes.set(xlabel="loading on the first component", ylabel="feature")
    figure.legend(loc="outside upper left")
    return figure


def main() -> None:
    """Run the example, draw it, and write down what it printed."""
    home = DOCS / "index.md"
    page = home.read_text(encoding="utf-8")
    known, printed = example(page)
    home.write_text(with_printed(page, printed), encoding="utf-8")
    table, model = known["X"], known["pca"]
    released = model.components_[0]
    true = PCA(1).fit(StandardScaler().fit_transform(table)).components_[0]
    order = np.argsort(-np.abs(released))
    signs = np.sign(released.sum()), np.sign(true @ released) * np.sign(released.sum())
    errors = model.release_.spectrum.loading_errors().standard_errors[0]
    # Neither a date nor random names: the file changes only where the picture does.
    with rc_context({"svg.hashsalt": "home"}):
        figure = draw(
            signs[0] * released[order],
            errors[order],
            signs[1] * true[order],
            [str(name) for name in table.columns[order]],
        )
        figure.savefig(DOCS / "images" / "home.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
