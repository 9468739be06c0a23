"""The constants of all statistical tests, in one place.

A test of a mechanism accepts the truth and rejects a planted flaw. ALPHA is the chance that one test rejects the
truth: small enough that no seed has to be searched for. N draws are enough to see a flaw of relative size
PERTURB.
"""

ALPHA = 1e-9
N = 200_000
PERTURB = 0.05

EXACT_DRAWS = 3_000
"""Draws of whole matrices, which cost more: enough to see a constant that is wrong by EXACT_FACTOR."""
EXACT_FACTOR = 1.2
SIGMAS = 6.1
"""A normal number is farther out with probability ALPHA."""
