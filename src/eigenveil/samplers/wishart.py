"""Wishart matrices by Bartlett's decomposition."""

import numpy as np

from eigenveil.errors import InvalidParameterError, integer_between, positive_number
from eigenveil.samplers.bingham import FloatArray, check_generator
from eigenveil.samplers.symmetric import mirror_upper


def wishart(degrees: float, scale: float, n_features: int, generator: np.random.Generator) -> FloatArray:
    """Draw W from the Wishart law with `degrees` degrees of freedom and scale matrix scale·I.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, a real number above n_features − 1. E[W] = degrees·scale·I.
    scale : float
        The factor of the identity in the scale matrix, above 0.
    n_features : int
        d, the side of W.
    generator : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        A positive definite matrix, symmetric to the last bit.

    Notes
    -----
    W = scale·LLᵀ, where L is lower triangular with standard normals below its diagonal, and on it the square
    roots of chi-square variables with degrees, …, degrees − d + 1 degrees of freedom (Bartlett 1933).
    The cost is one matrix product, whatever the degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> W = wishart(4.5, 2.0, 3, np.random.default_rng(0))
    >>> W.shape, bool((W == W.T).all()), bool((np.linalg.eigvalsh(W) > 0).all())
    ((3, 3), True, True)
    """
    check_generator(generator)
    d = integer_between("n_features", n_features, 1)
    scale = positive_number("scale", scale)
    degrees = positive_number("degrees", degrees)
    if degrees <= d - 1:
        raise InvalidParameterError("degrees must be above n_features - 1, else the law has no density.")
    factor = generator.standard_normal((d, d))
    for i in range(d):
        factor[i, i + 1 :] = 0.0
    np.fill_diagonal(factor, np.sqrt(generator.chisquare(degrees - np.arange(d))))
    factor *= np.sqrt(scale)
    product: FloatArray = factor @ factor.T
    # BLAS may sum the two triangles in different orders; the lower one is mirrored, so symmetry is exact.
    mirror_upper(product.T)
    return product
