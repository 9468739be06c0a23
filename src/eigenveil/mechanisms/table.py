"""The one table of central laws."""

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import InvalidParameterError, one_of, shown
from ..guarantee import Relation
from .base import CentralLaw
from .baselines import NoPrivacy, RandomProjection
from .eigenvector_sampling import EigenvectorSampling
from .federated import FEDERATED_LAWS
from .frobenius import Frobenius
from .gaussian import Gaussian
from .laplace import Laplace
from .matrix_laplace import MatrixLaplace
from .mod_sulq import ModSulq
from .ppca import Ppca
from .wishart import Wishart

LAWS: dict[str, type[CentralLaw]] = {
    law.name: law
    for law in (
        Gaussian,
        MatrixLaplace,
        Laplace,
        Frobenius,
        ModSulq,
        Wishart,
        Ppca,
        EigenvectorSampling,
        RandomProjection,
        NoPrivacy,
    )
}


def law_from(name: str, parameters: Mapping[str, Any]) -> CentralLaw:
    """Return the law of a name with the parameters that `CentralLaw.parameters` wrote.

    Examples
    --------
    >>> law_from("matrix_laplace", {"epsilon": 1.0, "n_features": 3}).off_diagonal_sd > 0
    True
    """
    known: dict[str, type[CentralLaw]] = {**LAWS, **{law.name: law for law in FEDERATED_LAWS.values()}}
    return known[one_of("law", name, tuple(known))](**parameters)


def law_with(name: str, options: Any, **parameters: Any) -> CentralLaw:
    """Return the law of a name with parameters that are known here and options that a user chose, or refuse those.

    Examples
    --------
    >>> law_with("laplace", {"calibration": "paper"}, epsilon=1.0, n_features=3).calibration
    'paper'
    >>> law_with("laplace", {"scale": 2.0}, epsilon=1.0, n_features=3)
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: laplace has no option 'scale' in law_options, known are accept_inexact, \
calibration.
    """
    if options is None:
        return LAWS[name](**parameters)
    if not isinstance(options, Mapping):
        raise InvalidParameterError(f"law_options must map names to values, not {type(options).__name__}.")
    known = sorted(_names(LAWS[name]) - _OF_ALL)
    for option in options:
        if option not in known:
            instead = "; give it as a parameter of its own" if option in _OF_ALL else f", known are {', '.join(known)}"
            raise InvalidParameterError(f"{name} has no option {shown(option)} in law_options{instead}.")
    return LAWS[name](**parameters, **options)


_OF_ALL = {"epsilon", "delta", "n_features", "n_components", "relation"}


def _names(kind: type) -> set[str]:
    """Return the names of all parameters that a law takes, with those that it hands on."""
    made = [
        inspect.signature(vars(one)["__init__"])
        for one in kind.__mro__
        if "__init__" in vars(one) and one is not object
    ]
    return {one.name for found in made for one in found.parameters.values() if one.kind is one.KEYWORD_ONLY}


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
