"""`law="auto"`: a rule that uses public numbers only, and chooses exact laws only."""

from ..guarantee import Relation
from .eigenvector_sampling import EigenvectorSampling
from .gaussian import Gaussian
from .matrix_laplace import MatrixLaplace
from .ppca import Ppca

# Below this many rows times epsilon per feature, sampling directions loses less than adding noise:
# docs/explanation/choosing.md shows the experiment it was read from.
# One direction has an exact sampler that spends nothing on others.
ONE_DIRECTION_BELOW = 12.0
SEVERAL_BELOW = 1.0


def choose_law(
    *,
    n_rows: int,
    n_features: int,
    n_components: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    relation: Relation = Relation.REPLACE,
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
        gaussian = Gaussian(epsilon=epsilon, delta=delta, n_features=n_features, relation=relation)
        laplace = MatrixLaplace(epsilon=epsilon, n_features=n_features, relation=relation)
        return Gaussian.name if gaussian.off_diagonal_sd <= laplace.off_diagonal_sd else MatrixLaplace.name
    rows_per_feature = n_rows * epsilon / n_features
    if relation is Relation.ADD_REMOVE or n_components is None:
        return MatrixLaplace.name
    if n_components == 1 and rows_per_feature < ONE_DIRECTION_BELOW:
        return Ppca.name
    return EigenvectorSampling.name if rows_per_feature < SEVERAL_BELOW else MatrixLaplace.name
