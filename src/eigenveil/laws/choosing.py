"""`law="auto"`: a rule that uses public numbers only, and chooses exact laws only."""

from functools import lru_cache

from ..guarantee import Relation
from .gaussian import Gaussian
from .matrix_laplace import MatrixLaplace
from .ppca import Ppca

# Below this many rows times epsilon per feature, drawing one direction loses less than adding noise to the matrix.
# Several directions have no such place: docs/explanation/choosing.md shows the experiment that both were read from.
ONE_DIRECTION_BELOW = 8.0


def choose_law(
    *,
    n_rows: int,
    n_features: int,
    n_components: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation = Relation.REPLACE,
    divided: bool = False,
) -> str:
    """Return the name of the law that `"auto"` stands for; with our constants each of them is exact in its bits.

    Parameters
    ----------
    n_rows : int
        Public under replace; ignored under add/remove, where it is private.
    n_features : int
        Width of a row.
    n_components : int, optional
        Number of directions wanted; None where a matrix or its eigenvalues are wanted for themselves.
    epsilon : float
        The budget.
    delta : float
        0 is pure differential privacy.
    relation : Relation
        The neighbouring relation.
    divided : bool
        Whether the budget is to pay for several measurements, where a law is there that allows for it.

    Examples
    --------
    >>> choose_law(n_rows=10_000, n_features=50, epsilon=1.0)
    'matrix_laplace'
    >>> choose_law(n_rows=10_000, n_features=50, epsilon=1.0, delta=1e-6)
    'gaussian'
    >>> choose_law(n_rows=300, n_features=50, n_components=1, epsilon=1.0)
    'ppca'
    """
    if delta > 0:
        quieter = _gaussian_is_quieter(epsilon, delta, n_features, relation)
        return Gaussian.name if divided or quieter else MatrixLaplace.name
    if relation is Relation.REPLACE and n_components == 1 and n_rows * epsilon < ONE_DIRECTION_BELOW * n_features:
        return Ppca.name
    return MatrixLaplace.name


@lru_cache(maxsize=256)  # whatever the number of rows, so a plan asks four times
def _gaussian_is_quieter(epsilon: float, delta: float, n_features: int, relation: Relation) -> bool:
    gaussian = Gaussian(epsilon=epsilon, delta=delta, n_features=n_features, relation=relation)
    laplace = MatrixLaplace(epsilon=epsilon, n_features=n_features, relation=relation)
    return gaussian.off_diagonal_sd <= laplace.off_diagonal_sd
