"""What an estimator is asked for by its parameters: what is true or false, and in whose units."""

from typing import Any

from ..errors import truth_value
from ..schema import Schema

TRUTH_VALUES = {"standardize": "; give public sizes by a schema", "center": "; give a public middle by bounds"}
"""Parameters that are true or false, with what to do for who means numbers."""


def told(estimator: Any, name: str) -> bool:
    """Return a parameter that is true or false, or refuse it."""
    return truth_value(name, getattr(estimator, name), TRUTH_VALUES[name])


def has_own_units(estimator: Any, schema: Schema | None) -> bool:
    """Return whether public ranges bound rows alone, and what is asked for is asked of features in their own units.

    Not of matrices in the units of the features anyway, nor of correlations. About the origin with a norm of mapped
    features, those are what is asked for: a law may draw their directions, and no matrix.
    """
    if estimator._lengths or told(estimator, "standardize"):
        return False
    ranges = estimator.bounds is not None or getattr(schema, "bounds", None) is not None
    return ranges and (told(estimator, "center") or estimator.norm_bound is None)
