"""`PrivateSparsePCA`: principal components that use few features."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import integer_between
from ..releases.origin import Request, SparseRequest
from ..releases.record import Release
from .base import ReleaseAttribute, names_unknown_parameters
from .pca import PrivatePCA
from .preparation import Needs


@names_unknown_parameters
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSparsePCA(PrivatePCA):
    """Differentially private sparse PCA: principal components that use few features.

    Fantope projection and selection on one released matrix. At ``delta=0`` and from 100 features on, 4 % of epsilon
    tests whether few features have most of the variance. If they do, a quarter of epsilon measures the variances of all
    features, and the matrix is released for those with the largest variances only, with less noise. `standardize` or a
    named `mechanism` turns this screening off. The parameters are those of `PrivatePCA`, with an integer
    `n_components`, and the following.

    Parameters
    ----------
    penalty : float, optional
        Weight of the l1 norm of the projection, on the scale of the released matrix. Default: the standard deviation of
        the noise times sqrt(log d).
    tol, max_iter : float, int
        Accuracy of the optimization.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions; zero for features that are not in the support.
    support_ : ndarray of int
        Positions of the features with a nonzero loading.
    kept_ : ndarray of int
        Features that the release describes: all, or those that were chosen privately. `components_`, `mean_` and
        `scale_` have an entry for every feature of the table (0, 0 and 1 if it was not kept); `covariance_` and shares
        of the variance are about the kept features.
    explained_variance_ : ndarray of shape (n_components,)
        Variance of the shrunk matrix along the components; the intervals are for the variance of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 30)) * 0.1
    >>> X[:, :3] += rng.normal(size=(20_000, 1))
    >>> PrivateSparsePCA(1, epsilon=1.0, norm_bound=3.0, penalty=0.03).fit(X).support_
    array([0, 1, 2])
    """

    n_components: int = field(default=1, kw_only=False)
    whiten: bool = field(default=False, init=False)
    penalty: float | None = None
    tol: float = 1e-4
    max_iter: int = 500
    stages: int | str = field(default="auto", init=False)

    kept_: ClassVar[ReleaseAttribute[NDArray[np.int_]]] = ReleaseAttribute(
        lambda release: _kept(release), "Features that the release describes."
    )
    support_: ClassVar[ReleaseAttribute[NDArray[np.int_]]] = ReleaseAttribute(
        lambda release: _kept(release)[release.spectrum.sparse.support], "Features with a nonzero loading."
    )
    n_iter_: ClassVar[ReleaseAttribute[int]] = ReleaseAttribute(
        lambda release: release.spectrum.sparse.n_iter, "Iterations of the optimization."
    )

    def _request(self, n_features: int, feature_names: tuple[str, ...] | None, n_targets: int | None = None) -> Request:
        del feature_names, n_targets
        k = integer_between("n_components", self.n_components, 1, n_features)
        return SparseRequest(k, self.penalty, self.tol, self.max_iter, correlation=bool(self.standardize))

    def _needs(self) -> Needs:
        # The penalty is the same for all entries, and so must be the noise.
        k = int(self.n_components) if isinstance(self.n_components, Integral) else None
        return Needs(type(self).__name__, known_noise=True, lengths=False, even_noise=True, n_sparse=k)


def _kept(release: Release) -> NDArray[np.int_]:
    screening = release.origin.screening
    return np.array(range(release.n_features) if screening is None else screening.kept)
