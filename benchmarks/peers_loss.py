"""The loss of diffprivlib's and OpenDP's PCA beside ours, pure, at the epsilon that each states itself.

    python benchmarks/peers_loss.py --diffprivlib-python PATH/TO/python --output FILE.json

The loss of directions V is 1 - qF(V)/qF(V_k). Rows of norm at most 1, about the origin (`datasets.py`). Peers run in
processes of their own, diffprivlib with the interpreter of another environment, since it needs an older scikit-learn.
A fit that takes more than a minute "did not finish", and is not tried again.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rich.box
from rich.console import Console
from rich.table import Table

import datasets
from eigenveil import PrivatePCA
from eigenveil.errors import NoiseWarning
from eigenveil.metrics import captured_variance
from eigenveil.postprocess import top_components
from peers_fit import peer_fit

SETS = ("synthetic", "breast_cancer", "digits")
EPSILONS = (0.1, 1.0)
# Three fits where a fit takes long; twenty, for a usable standard error, where the first took less than a second.
FITS, QUICK_FITS, SECONDS = 3, 20, 60.0
OUR_FITS = 40


def losses_of(pythons: dict[str, str]) -> Iterator[dict[str, Any]]:
    for name in SETS:
        rows = datasets.load(name)
        truth = rows.X.T @ rows.X
        best = captured_variance(truth, top_components(truth, rows.k))
        for epsilon in EPSILONS:
            ours = [
                PrivatePCA(rows.k, epsilon=epsilon, rows="clip", center=False, norm_bound=1.0) for _ in range(OUR_FITS)
            ]
            mine = [1 - captured_variance(truth, model.fit(rows.X).components_) / best for model in ours]
            for package, python in pythons.items():
                case = {"set": name, "epsilon": epsilon, "package": package, "ours": mine}
                losses, seconds, note = [], [], ""
                while len(losses) < (QUICK_FITS if seconds and seconds[0] < 1 else FITS):
                    fit = peer_fit(python, package, rows.X, rows.k, epsilon, SECONDS)
                    if isinstance(fit, str):
                        note = fit
                        break
                    case["version"] = fit["version"]
                    losses.append(1 - captured_variance(truth, fit["components"]) / best)
                    seconds.append(fit["seconds"])
                yield {**case, "losses": losses, "seconds": seconds, "note": note}


def mean_text(losses: list[float]) -> str:
    if not losses:
        return "none"
    error = f" ± {np.std(losses, ddof=1) / len(losses) ** 0.5:.1g}" if len(losses) > 1 else ""
    return f"{np.mean(losses):.3g}{error}"


def show(results: list[dict[str, Any]]) -> None:
    table = Table(title=f"Mean loss, {SECONDS:g} s a fit at most", box=rich.box.MARKDOWN)
    for column in ("set", "ε", "package", "fits that ended", "mean loss", "seconds", "note", "our loss"):
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(
            row["set"],
            f"{row['epsilon']:g}",
            f"{row['package']} {row.get('version', '')}",
            str(len(row["losses"])),
            mean_text(row["losses"]),
            f"{np.median(row['seconds']):.2f}" if row["seconds"] else "none",
            row["note"],
            mean_text(row["ours"]),
        )
    Console(width=200).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diffprivlib-python", help="interpreter of an environment with diffprivlib")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NoiseWarning)
    pythons = {"opendp": sys.executable}
    if arguments.diffprivlib_python:
        pythons["diffprivlib"] = arguments.diffprivlib_python
    results = []
    for row in losses_of(pythons):
        results.append(row)
        print(f"{row['set']}, epsilon {row['epsilon']:g}, {row['package']}", file=sys.stderr, flush=True)
        if arguments.output:  # after every row: a long run may be stopped and still tell something
            arguments.output.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()
