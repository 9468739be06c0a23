"""MOD-SULQ of Chaudhuri, Sarwate and Sinha (2012, 2013), with the guarantee its noise really gives."""

import math
from typing import Any, ClassVar

from ..errors import one_of
from .gaussian import GaussianNoise


class ModSulq(GaussianNoise):
    """Gaussian noise of the published standard deviation beta on every entry of the upper triangle of A = C/n.

    Formal guarantee
    ----------------
    The paper states (epsilon, delta) for beta = (d+1)/(n epsilon) sqrt(2 ln((d^2+d)/(2 sqrt(2 pi) delta)))
    + 1/(n sqrt(epsilon)) (JMLR 2013, Theorem 5). One row moves the upper triangle by at most sqrt(2) in l2 norm,
    so by the exact curve of the Gaussian mechanism the same noise is private at an epsilon about d times smaller:
    `guarantee` states that one, at the given delta.

    Parameters
    ----------
    beta : {"printed", "root"}
        The beta of Algorithm 1, equation (5), or the root that the proof of Theorem 5 rounds up to it: beta solves
        epsilon beta^2 = (d+1)/n sqrt(2 ln((d^2+d)/(2 sqrt(2 pi) delta))) beta + 1/n^2.

    Examples
    --------
    >>> mechanism = ModSulq(epsilon=1.0, delta=0.01, n_features=100)
    >>> round(mechanism.guarantee().epsilon, 4), mechanism.guarantee().claimed
    (0.0, (1.0, 0.01))
    """

    name = "mod_sulq"
    source = "Chaudhuri, Sarwate and Sinha 2013, Theorem 5"
    use_when = "comparison; over-noises"
    calibrations: ClassVar[tuple[str, ...]] = ("paper",)

    def __init__(self, *, beta: str = "printed", **parameters: Any) -> None:
        super().__init__(**parameters)
        self.beta = one_of("beta", beta, ("printed", "root"))

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        return super().parameters() | ({} if self.beta == "printed" else {"beta": self.beta})

    @property
    def rotation_invariant(self) -> bool:
        """One scale on every entry makes the diagonal too quiet for it."""
        return False

    def _scales(self) -> tuple[float, float]:
        d = self.n_features
        logarithm = math.log((d * d + d) / (2 * math.sqrt(2 * math.pi) * self.delta))
        # For d = 1 and a large delta the published logarithm is negative; the rest of beta stays.
        if self.beta == "root":
            linear = (d + 1) * math.sqrt(2 * max(logarithm, 0.0))
            scale = (linear + math.sqrt(linear**2 + 4 * self.epsilon)) / (2 * self.epsilon)
        else:
            scale = (d + 1) / self.epsilon * math.sqrt(2 * max(logarithm, 0.0)) + 1 / math.sqrt(self.epsilon)
        return scale, scale
