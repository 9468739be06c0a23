"""Audits of the eigenvector samplers of diffprivlib and OpenDP, where these packages are installed.

    python benchmarks/peers_audit.py diffprivlib [--epsilon 1] [--features 5] [--draws 20000] [--json]

prints what `eigenveil audit` prints of our own mechanisms, with the same exit codes: 0 is not refuted, 3 is refuted. It
imports private modules of the two packages, which is why it stands here and not in eigenveil.

Both draw a direction from the angular central Gaussian distribution of Omega = I + 2A/b, A = epsilon/4 (lambda_1 I -
C), and accept it with probability exp(-s) / (M (u'Omega u)^(d/2)), s = u'Au. The density of the proposal is itself
proportional to (u'Omega u)^(-d/2), so what is drawn has density exp(-s) (1 + 2s/b)^(-d) and not exp(-s): see
docs/explanation/peers.md.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.accounting.calibration import implied_epsilon
from eigenveil.audit import Neighbours
from eigenveil.cli.mechanisms import VIOLATION_EXIT_CODE, audited, show
from eigenveil.errors import EigenveilError, InvalidParameterError, integer_between, positive_number
from eigenveil.sampling.bingham import envelope_width

FloatArray = NDArray[np.float64]
Draw = Callable[[FloatArray], FloatArray]

# In units of 1/epsilon: how far the other eigenvalues lie below the leading two. Farther leaks a little more, and makes
# the packages reject most proposals.
_FAR = 40.0


class DrawnMechanism:
    """The mechanism that the two packages draw from, known up to its normalizer.

    Parameters
    ----------
    C : ndarray of shape (d, d)
        The second moment of rows of norm at most 1.
    epsilon : float
    """

    def __init__(self, C: FloatArray, epsilon: float) -> None:
        eigenvalues, basis = np.linalg.eigh(C)
        self.gaps: FloatArray = epsilon / 4 * (eigenvalues[-1] - eigenvalues)
        self.form: FloatArray = (basis * self.gaps) @ basis.T
        self.width = envelope_width(self.gaps)

    def log_density(self, s: FloatArray, *, power: float | None = None) -> FloatArray:
        """Return the log density at directions with u'Au = s; a power of 0 in place of d gives Bingham's."""
        d = len(self.gaps)
        return np.asarray(-s - (d if power is None else power) * np.log1p(2 * s / self.width))

    def log_density_of(self, directions: FloatArray) -> FloatArray:
        """Return the log density of each row."""
        return self.log_density(np.einsum("ni,ij,nj->n", directions, self.form, directions, optimize=True))


class PeerSubject:
    """The eigenvector sampler of another package, run as it is installed.

    Parameters
    ----------
    epsilon : float
        What the package is asked for, and states, for one replaced row.
    n_features : int
        Two at least. At two features the true loss is below the claim.
    delta : float
        Has to be 0: the packages claim pure privacy.
    """

    package: str
    """What to install and import."""

    def __init__(self, *, epsilon: float = 1.0, n_features: int = 5, delta: float = 0.0) -> None:
        self.epsilon = positive_number("epsilon", epsilon)
        self.n_features = integer_between("n_features", n_features, 2)
        if delta != 0:
            raise InvalidParameterError(f"{self.package} claims pure privacy for its eigenvectors; leave delta at 0.")
        self.name = f"{self.package} eigenvector"
        self._sampler(1, np.random.default_rng(0))  # a missing package is found here, and not in a worker process

    def parameters(self) -> dict[str, Any]:
        """Return the arguments, and the version of the package."""
        return {"epsilon": self.epsilon, "n_features": self.n_features, self.package: version(self.package)}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return what the package states for one replaced row."""
        return {self.package: implied_epsilon(self.epsilon, 0.0, delta)}

    def neighbours(self) -> Sequence[Neighbours]:
        """Return tables with two nearly equal leading eigenvalues; a row of the second direction becomes the first."""
        total = math.ceil(_FAR / self.epsilon)
        gap = max(0, round(2.2 / self.epsilon - 1))
        e1, e2 = np.eye(self.n_features)[:2]
        first = np.vstack([np.tile(e1, (total + gap, 1)), np.tile(e2, (total, 1))])
        second = first.copy()
        second[-1] = e1
        return [Neighbours(f"top eigenvalues {total + gap} and {total}", first, second)]

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Draw n directions and return their log-likelihood ratios under the mechanism that we think is drawn.

        Were the packages to draw from another mechanism, the audit would be weaker and as valid.
        """
        moments = [rows.T @ rows for rows in (data.first, data.second)]
        draw = self._sampler(len(data.rows(side)), generator)
        directions = np.array([draw(moments[side]) for _ in range(n)], dtype=np.float64)
        first, second = (DrawnMechanism(C, self.epsilon).log_density_of(directions) for C in moments)
        return np.asarray(first - second)

    def _sampler(self, n_rows: int, generator: np.random.Generator) -> Draw:
        raise NotImplementedError


class DiffprivlibSubject(PeerSubject):
    """`diffprivlib.mechanisms.Bingham`, with the sensitivity of 1 that its PCA uses for rows of norm 1."""

    package = "diffprivlib"

    def _sampler(self, n_rows: int, generator: np.random.Generator) -> Draw:
        try:
            kind = import_module("diffprivlib.mechanisms").Bingham
        except ImportError as error:
            raise EigenveilError(
                "This audit needs diffprivlib, in an environment where it can be imported: install diffprivlib and "
                "scikit-learn below 1.9."
            ) from error
        draw: Draw = kind(epsilon=self.epsilon, random_state=int(generator.integers(2**32))).randomise
        return draw


class OpendpSubject(PeerSubject):
    """OpenDP's `make_private_eigenvector`; it draws from the package's own generator, so no seed repeats an audit."""

    package = "opendp"

    def _sampler(self, n_rows: int, generator: np.random.Generator) -> Draw:
        try:
            prelude = import_module("opendp.prelude")
            make = import_module("opendp.extras.sklearn._make_eigenvector").make_private_eigenvector
            domain = import_module("opendp.extras.numpy")._sscp_domain
        except (ImportError, AttributeError) as error:
            raise EigenveilError(
                "This audit needs the eigenvector sampler of OpenDP: install opendp 0.16, numpy, scipy and randomgen."
            ) from error
        prelude.enable_features("contrib", "idealized-numerics")
        space = domain(num_features=self.n_features, norm=1.0, p=2, size=n_rows, T=float)
        measurement: Draw = make(space, prelude.symmetric_distance(), self.epsilon)
        return measurement


PEERS: dict[str, type[PeerSubject]] = {"diffprivlib": DiffprivlibSubject, "opendp": OpendpSubject}
"""The packages by name."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=tuple(PEERS))
    parser.add_argument("--epsilon", type=float, default=1.0, help="what the package is asked for, and states")
    parser.add_argument("--features", type=int, default=5, help="width of a row")
    parser.add_argument("--at-delta", type=float, help="delta to bound epsilon at; 0 by default, as claimed")
    parser.add_argument("--draws", type=int, default=20_000, help="outputs drawn on each of the two data sets")
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument("--workers", type=int, help="processes; all cores by default")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    arguments = parser.parse_args()
    try:
        report = audited(
            PEERS[arguments.name](epsilon=arguments.epsilon, n_features=arguments.features),
            delta=arguments.at_delta,
            confidence=arguments.confidence,
            draws=arguments.draws,
            workers=arguments.workers,
        )
    except EigenveilError as error:
        sys.exit(str(error))
    show(report, json=arguments.json)
    sys.exit(VIOLATION_EXIT_CODE if report.verdict == "violation" else 0)


if __name__ == "__main__":
    main()
