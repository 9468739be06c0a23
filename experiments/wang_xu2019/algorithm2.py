"""Algorithm 2 of Wang and Xu (2019): the Fantope problem with an l1 penalty, by ADMM, at a wanted sparsity.

The algorithm has a penalty and no s, so the penalty is chosen to leave s features. The problem is made smaller first,
without a change of its solution. Where |S_ij| is at most the penalty for all pairs between two groups of features,
those entries of X may be set to 0: the matrix stays in the Fantope and the objective does not fall. So the solution is
block-diagonal on the connected components of the larger entries; and of the features that are alone only the k with
the largest diagonal can be used.
"""

import warnings

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning

from eigenveil.postprocess.fantope import fantope_components

# Where more features than this are left, those with the largest diagonal are kept.
LARGEST = 300
STEPS = 6


def algorithm_2(matrix: np.ndarray, k: int, s: int) -> np.ndarray:
    """Return k orthonormal rows on about s features: at most s, from the least penalty found that leaves no more."""
    beside = np.abs(matrix)
    np.fill_diagonal(beside, 0.0)
    # Above the largest entry beside the diagonal all features are alone, and the k largest of the diagonal are left.
    # Below a third of it far more than s are left on every matrix tried.
    high, best = float(beside.max()), None
    low = high / 3
    if s > k:
        for _ in range(STEPS):
            penalty = (low + high) / 2
            found = solution(matrix, beside, k, penalty)
            size = int(np.count_nonzero(found.any(axis=0)))
            if size <= s:
                high, best = penalty, found
            else:
                low = penalty
            if size == s:
                break
    return solution(matrix, beside, k, high) if best is None else best


def solution(matrix: np.ndarray, beside: np.ndarray, k: int, penalty: float) -> np.ndarray:
    """Return the k directions of Algorithm 2 at one penalty."""
    kept = relevant(matrix, beside, k, penalty)
    block = matrix[np.ix_(kept, kept)].astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is stopped early, as any penalty but the last is
        result = fantope_components((block + block.T) / 2, k, penalty=penalty, tol=1e-3, max_iter=200)
    found = np.zeros((k, len(matrix)))
    found[:, kept] = result.components
    return found


def relevant(matrix: np.ndarray, beside: np.ndarray, k: int, penalty: float) -> np.ndarray:
    """Return the features that the solution can use."""
    rows, columns = np.nonzero(beside > penalty)
    graph = coo_array((np.ones(rows.size), (rows, columns)), shape=matrix.shape)
    labels = connected_components(graph, directed=False)[1]
    alone = np.bincount(labels)[labels] == 1
    diagonal = np.diag(matrix)
    single = np.flatnonzero(alone)
    single = single[np.argsort(-diagonal[single], kind="stable")[:k]]
    kept = np.union1d(np.flatnonzero(~alone), single)
    if kept.size > LARGEST:
        kept = np.sort(kept[np.argsort(-diagonal[kept], kind="stable")[:LARGEST]])
    return kept
