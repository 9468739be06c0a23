"""A scalar learned from draws, where no likelihood is known: the log-odds of a logistic regression."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def learned_score(first: FloatArray, second: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a function that tells outputs of D (high) from outputs of D' (low), learned on these draws.

    It must then be used on other draws. Features without variance on both samples carry nothing and are dropped by
    the standardization; a separable sample is no problem, since the regression is penalized.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = np.vstack([first, second])
    labels = np.repeat([1, 0], [len(first), len(second)])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=200))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough direction is a valid one
        model.fit(table, labels)

    def score(outputs: FloatArray) -> FloatArray:
        return np.asarray(model.decision_function(outputs))

    return score
