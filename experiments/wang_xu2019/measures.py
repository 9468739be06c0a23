"""What Wang and Xu (2019) measure: subspace distances in the local model, on planted and on real data.

The sum of n clients' noise is one normal draw with n times the variance, so any n can be had: `noisy` does it with the
standard deviation that the mechanism states of itself.
"""

import functools
import math

import numpy as np

from benchmarks import datasets
from eigenveil.estimators import LocalPCA, LocalSparsePCA
from eigenveil.local import LocalProtocol, mechanism_of
from eigenveil.local.simulation import simulated_totals
from eigenveil.metrics import subspace_distance
from eigenveil.postprocess import top_components
from eigenveil.postprocess.fantope import fantope_components

from ..common import Cell
from .algorithm2 import algorithm_2

DELTA = 1e-4
MECHANISMS = ("gaussian_paper", "gaussian", "double_cap")
NO_NOISE = "no noise"
NORMAL = "double_cap, one normal draw"
# Two readings under which the paper's numbers might have come about; neither is private.
ONCE = "paper's noise once"
LONG, LONG_ONCE = "long rows", "long rows, noise once"
READINGS = (*MECHANISMS, ONCE, LONG, LONG_ONCE)
# Table 1 is epsilon = 2, Table 2 is s = 20.
TABLES = [(2.0, 10), (2.0, 20), (2.0, 40), (1.0, 20), (0.5, 20), (0.1, 20)]
COMPONENTS = (5, 10, 15, 20)
LUNG_FEATURES = 3312


def random_level(p: int, k: int) -> float:
    """Return the root mean square distance of any output that knows nothing of the subspace."""
    return math.sqrt(2 * k * (1 - k / p))


@functools.cache
def protocol(mechanism: str, p: int, epsilon: float, row_norms: str = "any") -> LocalProtocol:
    """Return a protocol for rows of norm at most 1."""
    return LocalProtocol(p, epsilon, _delta(mechanism), 1.0, mechanism=mechanism, row_norms=row_norms)


def _delta(mechanism: str) -> float:
    return 0.0 if mechanism == "double_cap" else DELTA


def planted(p: int, s: int, k: int, generator: np.random.Generator) -> np.ndarray:
    """Return k orthonormal rows that live on s random features."""
    subspace = np.zeros((k, p))
    subspace[:, generator.permutation(p)[:s]] = np.linalg.qr(generator.standard_normal((s, k)))[0].T
    return subspace


def population(subspace: np.ndarray) -> np.ndarray:
    """Return the paper's covariance with its lambda = 1."""
    p = subspace.shape[1]
    return (subspace.T @ subspace + np.eye(p)) / (10 * p)


def sample(subspace: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Return n normal rows with that covariance; their norms are about 0.34, and below 1."""
    k, p = subspace.shape
    return (generator.standard_normal((n, k)) @ subspace + generator.standard_normal((n, p))) / math.sqrt(10 * p)


def symmetric(p: int, generator: np.random.Generator) -> np.ndarray:
    """Return a symmetric matrix of normal numbers with variance 1, on the diagonal too."""
    upper = np.triu(generator.standard_normal((p, p), dtype=np.float32))
    return upper + np.triu(upper, 1).T


def noisy(
    matrix: np.ndarray, noise: np.ndarray, mechanism: str, epsilon: float, n: float, once: bool = False
) -> np.ndarray:
    """Return the mean of n reports; with `once` the noise of one report is on the sum of all rows."""
    p = len(matrix)
    sd = mechanism_of(protocol(mechanism, p, epsilon)).off_diagonal_sd / (n if once else math.sqrt(n))
    found = matrix + np.asarray(sd, dtype=matrix.dtype) * noise
    if mechanism != "gaussian_paper":  # isotropic among symmetric matrices, up to a multiple of the identity
        found[np.diag_indices(p)] += (math.sqrt(2) - 1) * sd * np.diag(noise)
    return found


def low(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Algorithm 1 on a sample, with clients played; the once reading, the normal draw, and no noise beside it."""
    p, k, n, epsilon = cell["p"], cell["k"], cell["n"], cell["epsilon"]
    subspace = planted(p, p, k, generator)
    rows = sample(subspace, n, generator)
    moment, noise = rows.T @ rows / n, symmetric(p, generator)
    found = {}
    for mechanism in MECHANISMS:
        pca = LocalPCA(
            k,
            epsilon=epsilon,
            delta=_delta(mechanism),
            norm_bound=1.0,
            mechanism=mechanism,
            random_state=generator,
        )
        found[mechanism] = subspace_distance(subspace, pca.fit(rows).components_)
    others = {
        ONCE: noisy(moment, noise, "gaussian_paper", epsilon, n, once=True),
        NORMAL: noisy(moment, noise, "double_cap", epsilon, n),
        NO_NOISE: moment,
    }
    return found | {name: subspace_distance(subspace, top_components(one, k)) for name, one in others.items()}


def needed(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return log10 of the n at which the distance falls to half of that of a random subspace."""
    p, k, mechanism = cell["p"], cell["k"], cell["mechanism"]
    subspace, noise = planted(p, p, k, generator), symmetric(p, generator)
    truth = population(subspace)

    def error(power: float) -> float:
        estimate = noisy(truth, noise, mechanism, cell["epsilon"], 10**power)
        return subspace_distance(subspace, top_components(estimate, k))

    # The distance falls with n for every draw: the sum of the top k eigenvalues is convex in the weight of the truth.
    below, above = 0.0, 20.0
    while above - below > 1e-3:
        middle = (below + above) / 2
        below, above = (below, middle) if error(middle) <= random_level(p, k) / 2 else (middle, above)
    return {"power": above}


def sparse(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Algorithm 2 on a sample."""
    p, k, n, epsilon = cell["p"], cell["k"], cell["n"], cell["epsilon"]
    subspace = planted(p, cell["s"], k, generator)
    rows = sample(subspace, n, generator)
    moment, noise = rows.T @ rows / n, symmetric(p, generator)
    found = {}
    for mechanism in MECHANISMS:
        pca = LocalSparsePCA(
            k,
            screen=None,  # as Algorithm 2, and as "auto" is for the paper's own mechanism
            tol=1e-3,
            epsilon=epsilon,
            delta=_delta(mechanism),
            norm_bound=1.0,
            mechanism=mechanism,
            random_state=generator,
        )
        found[mechanism] = subspace_distance(subspace, pca.fit(rows).components_)
    once = noisy(moment, noise, "gaussian_paper", epsilon, n, once=True)
    once_sd = mechanism_of(protocol("gaussian_paper", p, epsilon)).off_diagonal_sd / n
    # Without noise the error of an entry is that of the sample.
    found[ONCE] = selected(subspace, once, once_sd)
    found[NO_NOISE] = selected(subspace, moment, 1 / (10 * p * math.sqrt(n)))
    return found


def sparse_limit(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Algorithm 2, and plain PCA beside it, on what n clients would send."""
    p, k, n, mechanism = cell["p"], cell["k"], cell["n"], cell["mechanism"]
    subspace, noise = planted(p, cell["s"], k, generator), symmetric(p, generator)
    estimate = noisy(population(subspace), noise, mechanism, cell["epsilon"], n)
    sd = mechanism_of(protocol(mechanism, p, cell["epsilon"])).off_diagonal_sd / math.sqrt(n)
    plain = subspace_distance(subspace, top_components(estimate, k))
    return {"sparse": selected(subspace, estimate, sd), "plain": plain}


def selected(subspace: np.ndarray, estimate: np.ndarray, sd: float) -> float:
    """Return the distance that the Fantope estimator reaches with the default penalty."""
    result = fantope_components(estimate, len(subspace), noise_sd=sd, tol=1e-3)
    return subspace_distance(subspace, result.components)


@functools.lru_cache(maxsize=1)
def wide(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with features in [-1, 1], the second moment of their directions, and their own, as float32."""
    X = datasets.load(name).X
    if name == "lung_gordon2002":  # as many features as the paper's lung data, those of the largest spread
        spread = datasets.load(name, scale_features=False).X.std(axis=0)
        X = X[:, np.sort(np.argsort(-spread, kind="stable")[:LUNG_FEATURES])]
    X = (X / np.abs(X).max()).astype(np.float32)
    directions = unit(X)
    return X, directions.T @ directions / len(X), X.T @ X / len(X)


def unit(X: np.ndarray) -> np.ndarray:
    """Return the rows with norm 1; zero rows stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


def on_features(matrix: np.ndarray, k: int, s: int) -> np.ndarray:
    """Return k directions on the s features with the largest off-diagonal entries, as `LocalSparsePCA(screen=s)`."""
    sizes = np.abs(matrix)
    np.fill_diagonal(sizes, 0.0)
    chosen = np.argsort(-sizes.max(axis=1), kind="stable")[:s]
    found = np.zeros((k, len(matrix)))
    found[:, chosen] = top_components(matrix[np.ix_(chosen, chosen)].astype(np.float64), k)
    return found


def real(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return the errors of Tables 1 and 2 on one data set; all readings share one draw of the noise."""
    X, directions, long = wide(cell["data"])
    n, p = X.shape
    noise, found = symmetric(p, generator), {"n": n, "p": p}
    for epsilon in dict.fromkeys(epsilon for epsilon, _ in TABLES):
        for reading in READINGS:
            truth = long if reading in (LONG, LONG_ONCE) else directions
            if reading == "double_cap":  # few reports in many dimensions are far from normal: play the clients
                shared = protocol(reading, p, epsilon, "unit")
                estimate = mechanism_of(shared).estimate(simulated_totals(shared, X, generator))
            else:
                mechanism = "gaussian" if reading == "gaussian" else "gaussian_paper"
                estimate = noisy(truth, noise, mechanism, epsilon, n, once=reading in (ONCE, LONG_ONCE))
            for s in [s for one, s in TABLES if one == epsilon]:
                error = subspace_distance(on_features(truth, 10, s), on_features(estimate, 10, s))
                found[entry(reading, epsilon, s)] = error
    return found


def solved(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Return the errors of Tables 1 and 2 by Algorithm 2: noise of every client, and long rows with noise once."""
    X, directions, long = wide(cell["data"])
    n, p = X.shape
    noise, found = symmetric(p, generator), {"n": n, "p": p}
    for reading, truth in (("gaussian_paper", directions), (LONG_ONCE, long)):
        for epsilon, s in TABLES:
            estimate = noisy(truth, noise, "gaussian_paper", epsilon, n, once=reading == LONG_ONCE)
            error = subspace_distance(target(cell["data"], truth is long, s), algorithm_2(estimate, 10, s))
            found[entry(reading, epsilon, s)] = error
    return found


@functools.cache
def target(name: str, rows_are_long: bool, s: int) -> np.ndarray:
    """Return what Algorithm 2 gives without noise."""
    _, directions, long = wide(name)
    return algorithm_2(long if rows_are_long else directions, 10, s)


def entry(reading: str, epsilon: float, s: int) -> str:
    """Return the name of one entry of Tables 1 and 2."""
    return f"{reading}, epsilon {epsilon:g}, s {s}"


@functools.lru_cache(maxsize=1)
def tall(name: str, max_rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of norm 1, and the eigenvectors of their second moment."""
    rows = unit(datasets.load(name, max_rows=max_rows).X)
    return rows, top_components(rows.T @ rows, max(COMPONENTS))


def tall_errors(cell: Cell, generator: np.random.Generator) -> dict[str, float]:
    """Algorithm 1 on normalized rows, for every k from one release."""
    rows, truth = tall(cell["data"], cell["max_rows"])
    found = dict(zip("np", rows.shape, strict=True))
    for mechanism in MECHANISMS:
        pca = LocalPCA(
            max(COMPONENTS),
            epsilon=cell["epsilon"],
            delta=_delta(mechanism),
            norm_bound=1.0,
            mechanism=mechanism,
            row_norms="unit",
            random_state=generator,
        )
        components = pca.fit(rows).components_
        for k in COMPONENTS:
            found[f"{mechanism}, k {k}"] = subspace_distance(truth[:k], components[:k])
    return found
