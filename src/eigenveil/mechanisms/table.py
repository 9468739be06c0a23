"""The one table of central mechanisms."""

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidParameterError, one_of, shown
from ..guarantee import Adjacency
from .base import CentralMechanism
from .baselines import NoPrivacy, RandomProjection
from .federated import FEDERATED_MECHANISMS
from .gaussian import Gaussian, ModSulq
from .laplace import Frobenius, Laplace
from .matrix_laplace import MatrixLaplace
from .sampling_directions import EigenvectorSampling, Ppca
from .wishart import Wishart

MECHANISMS: dict[str, type[CentralMechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
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


def mechanism_from(name: str, parameters: Mapping[str, Any]) -> CentralMechanism:
    """Return the mechanism of a name with the parameters that `CentralMechanism.parameters` wrote.

    Examples
    --------
    >>> mechanism_from("matrix_laplace", {"epsilon": 1.0, "n_features": 3}).off_diagonal_sd > 0
    True
    """
    known: dict[str, type[CentralMechanism]] = {
        **MECHANISMS,
        **{mechanism.name: mechanism for mechanism in FEDERATED_MECHANISMS.values()},
    }
    return known[one_of("mechanism", name, tuple(known))](**parameters)


def mechanism_with(name: str, options: Any, **parameters: Any) -> CentralMechanism:
    """Return the mechanism of a name with known parameters and options that a user chose, or refuse those.

    Examples
    --------
    >>> mechanism_with("laplace", {"calibration": "paper"}, epsilon=1.0, n_features=3).calibration
    'paper'
    >>> mechanism_with("laplace", {"scale": 2.0}, epsilon=1.0, n_features=3)
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: laplace has no option 'scale' in mechanism_options, known are \
accept_inexact, calibration.
    """
    if options is None:
        return MECHANISMS[name](**parameters)
    if not isinstance(options, Mapping):
        raise InvalidParameterError(f"mechanism_options must map names to values, not {type(options).__name__}.")
    known = sorted(_names(MECHANISMS[name]) - _OF_ALL)
    for option in options:
        if option not in known:
            instead = "; give it as a parameter of its own" if option in _OF_ALL else f", known are {', '.join(known)}"
            raise InvalidParameterError(f"{name} has no option {shown(option)} in mechanism_options{instead}.")
    return MECHANISMS[name](**parameters, **options)


_OF_ALL = {"epsilon", "delta", "n_features", "n_components", "adjacency"}


def _names(kind: type) -> set[str]:
    """Return the names of all parameters that a mechanism takes, with those that it hands on."""
    made = [
        inspect.signature(vars(one)["__init__"])
        for one in kind.__mro__
        if "__init__" in vars(one) and one is not object
    ]
    return {one.name for found in made for one in found.parameters.values() if one.kind is one.KEYWORD_ONLY}


# Below this many rows times epsilon per feature, drawing one direction loses less than adding noise to the matrix.
# Several directions have no such place: docs/explanation/choosing.md shows the experiment that both were read from.
ONE_DIRECTION_BELOW = 8.0


def choose_mechanism(
    *,
    n_rows: int,
    n_features: int,
    n_components: int | None = None,
    epsilon: float,
    delta: float = 0.0,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    divided: bool = False,
) -> str:
    """Return the name of the mechanism that `"auto"` stands for; with our constants each of them is exact in its bits.

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
    adjacency : Adjacency
        The adjacency.
    divided : bool
        Whether the budget is to pay for several measurements, where a mechanism is there that allows for it.

    Examples
    --------
    >>> choose_mechanism(n_rows=10_000, n_features=50, epsilon=1.0)
    'matrix_laplace'
    >>> choose_mechanism(n_rows=10_000, n_features=50, epsilon=1.0, delta=1e-6)
    'gaussian'
    >>> choose_mechanism(n_rows=300, n_features=50, n_components=1, epsilon=1.0)
    'ppca'
    """
    if delta > 0:
        gaussian = Gaussian(epsilon=epsilon, delta=delta, n_features=n_features, adjacency=adjacency)
        laplace = MatrixLaplace(epsilon=epsilon, n_features=n_features, adjacency=adjacency)
        quieter = gaussian.off_diagonal_sd <= laplace.off_diagonal_sd
        return Gaussian.name if divided or quieter else MatrixLaplace.name
    if adjacency is Adjacency.REPLACE_ONE and n_components == 1 and n_rows * epsilon < ONE_DIRECTION_BELOW * n_features:
        return Ppca.name
    return MatrixLaplace.name
