"""One way to make every mechanism of the table, for the tests that run over all of them."""

import itertools

import numpy as np

from eigenveil import Relation, RowBound, SecondMoments
from eigenveil.mechanisms import MECHANISMS

NEEDS_DELTA = {"gaussian", "mod_sulq", "wishart"}
CASES = [
    (name, calibration, relation)
    for (name, mechanism), relation in itertools.product(MECHANISMS.items(), Relation)
    for calibration in mechanism.calibrations
]
IDS = ["-".join(case) for case in CASES]


def make(name, calibration=None, relation=Relation.REPLACE, *, d=5, k=2, epsilon=1.0, **options):
    """Return the mechanism with parameters it accepts."""
    paper_wishart = name == "wishart" and calibration == "paper"
    options.setdefault("delta", 1e-6 if name in NEEDS_DELTA and not paper_wishart else 0.0)
    if paper_wishart:
        options["allow_unsound"] = True
    if name == "ppca" and calibration == "paper":
        options.setdefault("updates", 50)  # the law is tested elsewhere; here it is only to be quick
    return MECHANISMS[name](
        epsilon=epsilon, n_features=d, n_components=k, relation=relation, calibration=calibration, **options
    )


def some_moments(d=5, n=400, seed=3, norm=2.0, names=None, bits=16):
    """Return moments of rows with a falling spectrum."""
    X = np.random.default_rng(seed).normal(size=(n, d)) / np.arange(1, d + 1)
    return SecondMoments(RowBound(norm, bits=bits), d, names).update(X)
