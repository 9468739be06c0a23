"""One way to make every law of the table, for the tests that run over all of them."""

import itertools
from functools import cache

import numpy as np

from eigenveil import Relation, RowBound, SecondMoments
from eigenveil.mechanisms import LAWS

CASES = [
    (name, calibration, relation)
    for (name, law), relation in itertools.product(LAWS.items(), Relation)
    for calibration in law.calibrations
]
IDS = ["-".join(case) for case in CASES]


def make(name, calibration=None, relation=Relation.REPLACE, *, d=5, k=2, epsilon=1.0, **options):
    """Return the law with parameters it accepts; an inexact one is accepted as such, so that it can be released."""
    law = LAWS[name]
    chosen = law.calibrations[0] if calibration not in law.calibrations else calibration
    options.setdefault("delta", 1e-6 if law.uses_delta(chosen) else 0.0)
    if name == "wishart" and calibration == "paper":
        options["allow_unsound"] = True
    if name == "ppca" and calibration == "paper":
        options.setdefault("updates", 50)  # its draws are tested elsewhere; here it is only to be quick
    given = {"epsilon": epsilon, "n_features": d, "n_components": k, "relation": relation, "calibration": calibration}
    made = law(**given, **options)
    return made if made.exact else law(**given, **options, accept_inexact=True)


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
