"""The loss of diffprivlib's and OpenDP's PCA beside ours, pure, at the epsilon that each states itself.

The loss of directions V is 1 - qF(V)/qF(V_k). Rows of norm at most 1, about the origin (`datasets.py`), for everybody.
Peers run in processes of their own, diffprivlib with the interpreter of another environment, since it needs an older
scikit-learn. A fit that takes more than a minute of the processor "did not finish", and is not tried again. Seconds are
those of the processor. `peers_table.py` runs this.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

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


def cases(pythons: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the losses on every set at every epsilon; `pythons` are the interpreters of the peers."""
    for name in SETS:
        rows = datasets.load(name)
        truth = rows.X.T @ rows.X
        best = float(captured_variance(truth, top_components(truth, rows.k)))
        n, d = rows.X.shape
        for epsilon in EPSILONS:
            yield {
                "set": name,
                "epsilon": epsilon,
                "n": n,
                "d": d,
                "k": rows.k,
                "random": 1 - rows.k / d * float(np.trace(truth)) / best,  # what a random subspace misses, on average
                "packages": {
                    "eigenveil": our_fits(rows, epsilon, truth, best),
                    **{
                        package: peer_fits(python, package, rows, epsilon, truth, best)
                        for package, python in pythons.items()
                    },
                },
            }


def our_fits(rows: datasets.Rows, epsilon: float, truth: np.ndarray, best: float) -> dict[str, Any]:
    losses, seconds = [], []
    for _ in range(OUR_FITS):
        model = PrivatePCA(rows.k, epsilon=epsilon, statistic="clipped", center=False, norm_bound=1.0)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            components = model.fit(rows.X).components_
        seconds.append(time.process_time() - start)
        losses.append(float(1 - captured_variance(truth, components) / best))
    return {"losses": losses, "seconds": seconds, "note": ""}


def peer_fits(
    python: str, package: str, rows: datasets.Rows, epsilon: float, truth: np.ndarray, best: float
) -> dict[str, Any]:
    losses: list[float] = []
    seconds: list[float] = []
    found: dict[str, Any] = {"losses": losses, "seconds": seconds, "note": ""}
    while len(losses) < (QUICK_FITS if seconds and seconds[0] < 1 else FITS):
        fit = peer_fit(python, package, rows.X, rows.k, epsilon, SECONDS)
        if isinstance(fit, str):
            found["note"] = fit
            break
        found["version"] = fit["version"]
        losses.append(float(1 - captured_variance(truth, np.asarray(fit["components"])) / best))
        seconds.append(fit["cpu_seconds"])
    return found
