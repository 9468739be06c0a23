"""A mechanism of your own: copy this file to src/eigenveil/mechanisms/, rename the class, and fill in what is yours.

It is a complete mechanism with a proof: Laplace noise on the upper triangle, as `laplace` has it, with as little code
as a mechanism needs. Run it to see that estimators, plan and release take a mechanism from the table alone:

    python examples/new_mechanism.py
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from eigenveil.accounting.calibration import float_above, square_root_above
from eigenveil.accounting.sensitivity import upper_triangle_l1_squared
from eigenveil.guarantee import Guarantee, Numerics
from eigenveil.mechanisms import AdditiveMechanism
from eigenveil.sampling.discrete import discrete_laplace
from eigenveil.sampling.matrices import symmetric


class NewMechanism(AdditiveMechanism):
    """Discrete Laplace noise of one scale on the diagonal and above, mirrored below.

    Formal guarantee
    ----------------
    Pure epsilon with scale s/epsilon, for both adjacencies, where s bounds the l1 norm of a change of the upper
    triangle (accounting/sensitivity.py). Author (year), theorem: write here whose proof it is.
    """

    # Facts: command line, plan, audit, report and docs read these. No code asks for a mechanism by its name.
    name = "new_mechanism"
    needs_delta = False
    numerics = Numerics.EXACT
    source = "who proposed it, and the theorem"
    use_when = "what it is better at than the others"

    def guarantee(self):
        """Return the guarantee of the code as it runs: a function of the parameters, never of data."""
        return Guarantee(self.epsilon, 0.0, self.adjacency, self.numerics)

    def noise_scale(self):
        """Return the scale of an entry for rows of norm at most 1, rounded up."""
        sensitivity = square_root_above(upper_triangle_l1_squared(self.adjacency, self.n_features))
        return float_above(Fraction(sensitivity) / self.matrix_epsilon)

    def noise(self, generator, grid=1.0):
        """Draw int64 noise in units of the grid, by an exact sampler."""
        scale = self.noise_scale() * grid
        noise = symmetric(self.n_features, partial(discrete_laplace, scale), generator)
        np.fill_diagonal(noise, discrete_laplace(scale, self.n_features, generator))
        return noise

    # What is known about the noise: views of a release, forecasts and audits use it.

    @property
    def off_diagonal_sd(self):
        """Standard deviation of an off-diagonal entry."""
        return math.sqrt(2) * self.noise_scale()

    @property
    def noise_reach(self):
        """A bound that an entry exceeds with probability exp(-400), so that int64 does not overflow."""
        return 400 * self.noise_scale()

    @property
    def rotation_invariant(self):
        """Whether the noise has the same distribution in every basis; independent entries do not."""
        return False

    def log_density(self, noise):
        """Return the log density of a stack of noise matrices, up to a constant, for audits."""
        upper = np.triu(np.ones((self.n_features, self.n_features)))
        return -np.einsum("nij,ij->n", np.abs(noise), upper) / self.noise_scale()


def main():
    """Register the mechanism, plan a fit and run it."""
    from eigenveil import PrivatePCA
    from eigenveil.mechanisms import MECHANISMS

    MECHANISMS["new_mechanism"] = NewMechanism  # in the package: an entry in mechanisms/table.py
    rows = np.random.default_rng(0).normal(size=(5000, 4)) * [3.0, 2.0, 0.5, 0.2]
    model = PrivatePCA(2, epsilon=5.0, norm_bound=10.0, mechanism="new_mechanism")
    print("planned:", model.plan(n_features=4).guarantee)
    model.fit(rows)
    print("released by", model.release_.mechanism)
    print("shares of variance:", model.explained_variance_ratio_.round(3))


if __name__ == "__main__":
    main()
