"""One way to make every mechanism of the table, for the tests that run over all of them."""

import itertools
from functools import cache

import numpy as np

from eigenveil import Adjacency, RowBound, SecondMoments
from eigenveil.mechanisms import MECHANISMS

CASES = [
    (name, calibration, adjacency)
    for (name, mechanism), adjacency in itertools.product(MECHANISMS.items(), Adjacency)
    for calibration in mechanism.calibrations
]
IDS = ["-".join(case) for case in CASES]


def make(name, calibration=None, adjacency=Adjacency.REPLACE_ONE, *, d=5, k=2, epsilon=1.0, **options):
    """Return the mechanism with parameters it accepts; an inexact one is accepted as such, to be released."""
    mechanism = MECHANISMS[name]
    chosen = mechanism.calibrations[0] if calibration not in mechanism.calibrations else calibration
    options.setdefault("delta", 1e-6 if mechanism.uses_delta(chosen) else 0.0)
    if name == "wishart" and calibration == "paper":
        options["allow_unsound"] = True
    if name == "ppca" and calibration == "paper":
        options.setdefault("updates", 50)  # its draws are tested elsewhere; here it is only to be quick
    given = {"epsilon": epsilon, "n_features": d, "n_components": k, "adjacency": adjacency, "calibration": calibration}
    made = mechanism(**given, **options)
    return made if made.exact else mechanism(**given, **options, accept_inexact=True)


@cache  # nobody adds rows to them
def some_moments(d=5, n=400, seed=3, norm=2.0, names=None, bits=16, constant=None):
    """Return moments of rows with a falling spectrum about a mean of a fifth of the norm, with or without a constant.

    Their width is d, the constant included.
    """
    features = d - (constant is not None)
    X = np.random.default_rng(seed).normal(size=(n, features)) / np.arange(1, features + 1)
    if constant is not None:
        X[:, 0] += norm / 5
    return SecondMoments(RowBound(norm, bits=bits, constant=constant), features, names).update(X)
