"""Who takes part in `frontier.py`: how each draws once, what an oracle may choose for it, and where it can be run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import competitors
from competitors import Budget
from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.errors import InvalidDataError
from eigenveil.postprocess import top_components
from frontier_tables import Table

DELTAS = (1e-6, 0.0)
WIDEST_SAMPLED = 70  # directions drawn by rejection or by Markov chains take seconds a draw beyond
WIDEST_WHOLE = 1_500  # whole eigendecompositions, several a run
WIDEST_KEPT = 3_000  # one d x d matrix in floats

Errors = dict[str, float]


@dataclass(frozen=True)
class Contestant:
    """How to draw once, what an oracle may choose, and where it can be run at all."""

    draw: Callable[..., Errors]
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    deltas: tuple[float, ...] = DELTAS
    widest: float = np.inf
    clips: bool = True
    slow: bool = False
    whole: bool = False  # one release serves all measures


def matrix_errors(table: Table, sums: np.ndarray, measures: tuple[str, ...], largest: float = np.inf) -> Errors:
    """Return the errors of a released sum of xx' of which anything may be read."""
    found = {k: table.loss(top_components(sums, int(k))) for k in measures if k != "matrix"}
    if "matrix" in measures:
        found["matrix"] = table.matrix_error(competitors.clipped_spectrum(sums, largest) / table.n)
    return found


def eigenveil(
    table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], **options: Any
) -> Errors:
    shared = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "statistic": "clipped",
        "center": False,
        "norm_bound": options.pop("radius", None),
        "random_state": int(rng.integers(2**31)),
        **options,
    }
    found = {}
    for measure in measures:
        model = PrivateCovariance(**shared) if measure == "matrix" else PrivatePCA(int(measure), **shared)
        try:
            fitted = model.fit(table.X)
        except InvalidDataError:  # too few rows to find a bound in, refused before the spend
            continue
        found[measure] = (
            table.matrix_error(fitted.covariance_) if measure == "matrix" else table.loss(fitted.components_)
        )
    return found


def by_mechanism(mechanism: str, **options: Any) -> Callable[..., Errors]:
    """Return draws of one named mechanism of the library, directions only where it releases nothing else."""

    def draw(
        table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], radius: float
    ) -> Errors:
        wanted = tuple(m for m in measures if m != "matrix")
        return eigenveil(table, budget, rng, wanted, radius=radius, mechanism=mechanism, mechanism_options=options)

    return draw


def additive(
    table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], radius: float
) -> Errors:
    return matrix_errors(table, competitors.additive(table, budget, rng, radius), measures, table.n * radius**2)


def separate(
    table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], **choice: float
) -> Errors:
    values, vectors = competitors.separate_cov(table, budget, rng, **choice)
    return matrix_errors(table, (vectors * values) @ vectors.T, measures)


def adaptive(
    table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], **choice: float
) -> Errors:
    return matrix_errors(table, competitors.adaptive_cov(table, budget, rng, **choice), measures)


def coinpress(
    table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], **choice: Any
) -> Errors:
    return matrix_errors(table, competitors.coinpress(table, budget, rng, **choice), measures)


def directions(method: Callable[..., np.ndarray]) -> Callable[..., Errors]:
    def draw(
        table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...], **choice: Any
    ) -> Errors:
        return {m: table.loss(method(table, budget, rng, int(m), **choice)) for m in measures if m != "matrix"}

    return draw


def nothing(table: Table, budget: Budget, rng: np.random.Generator, measures: tuple[str, ...]) -> Errors:
    """Return what can be had without the rows: a random subspace, the zero matrix."""
    del budget
    bases = {m: np.linalg.qr(rng.standard_normal((table.d, int(m))))[0].T for m in measures if m != "matrix"}
    return {m: 1.0 if m == "matrix" else table.loss(bases[m]) for m in measures}


APPROXIMATE, PURE = DELTAS[:1], DELTAS[1:]
CONTESTANTS = {
    "eigenveil": Contestant(eigenveil, clips=False),
    "eigenveil, same inputs": Contestant(eigenveil),
    "Gaussian": Contestant(additive, deltas=APPROXIMATE, widest=WIDEST_KEPT, whole=True),
    "Laplace": Contestant(additive, deltas=PURE, widest=WIDEST_KEPT, whole=True),
    "SeparateCov": Contestant(separate, {"share": (0.5, 0.8, 0.95, 0.99)}, widest=WIDEST_WHOLE, whole=True),
    "AdaptiveCov": Contestant(
        adaptive,
        {"preparing": (0.25, 0.1, 0.03), "slack": (1.0, 0.25, 4.0)},
        widest=WIDEST_WHOLE,
        clips=False,
        whole=True,
    ),
    "CoinPress": Contestant(
        coinpress,
        {"factor": (1.0, 0.5, 0.25, 2.0), "steps": (2, 1, 3, 5)},
        APPROXIMATE,
        WIDEST_WHOLE,
        clips=False,
        whole=True,
    ),
    "power method": Contestant(directions(competitors.power_method), {"steps": (3, 1, 2, 5, 8, 15)}, APPROXIMATE),
    "DP-Oja": Contestant(
        directions(competitors.oja),
        {"batches": (5, 2, 20, 100), "step": (2.0, 0.5, 10.0, 50.0), "decay": (1.0, 0.1)},
        APPROXIMATE,
    ),
    # Published mechanisms of which the library has the exact or the Markov chain sampler.
    "PPCA": Contestant(by_mechanism("ppca", accept_inexact=True), deltas=PURE, widest=WIDEST_SAMPLED, slow=True),
    "eigenvector sampling": Contestant(by_mechanism("eigenvector_sampling"), deltas=PURE, widest=WIDEST_SAMPLED),
    "nothing": Contestant(nothing, clips=False),
}
