"""The exceptions of eigenveil, and the validators that raise them.

Every message is one sentence that says what is wrong and what to do. None of them carries a value taken
from private data: an error text is a release like any other. Validators here see parameters only.
"""

import math
import sys
import warnings
from fractions import Fraction
from numbers import Integral, Real


class EigenveilError(Exception):
    """Base class of every error that eigenveil raises on purpose."""


class InvalidParameterError(EigenveilError, ValueError):
    """A public parameter is outside its range."""


class InvalidDataError(EigenveilError, ValueError):
    """The data cannot be used as given (wrong width, not numeric, not finite, unreadable)."""


class NotNumbersError(InvalidDataError, TypeError):
    """The data hold something that is not a real number."""


class CapacityError(EigenveilError, OverflowError):
    """The exact integer arithmetic would overflow; nothing was added."""


class EngineError(EigenveilError, RuntimeError):
    """An engine or something it needs is missing, or it could not compute the rows; nothing was passed on."""


class BudgetError(EigenveilError):
    """A spend was refused because it would pass the limit of the ledger; nothing was spent."""


class LedgerError(EigenveilError):
    """A ledger file cannot be used (corrupt, read-only, or made for something else)."""


class ReleaseFileError(EigenveilError):
    """A release file is damaged, altered, or of a format this version does not read."""


class NoiseWarning(UserWarning):
    """The released values are mostly noise; known from released values alone."""


def warn_caller(sentence: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that led here, however deep inside it was noticed."""
    package, level, frame = __name__.partition(".")[0], 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (package, "functools"):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | Fraction):
        raise InvalidParameterError(f"{name} must be a number, not {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        raise InvalidParameterError(f"{name} is too large for a float.") from None


def positive_number(name: str, value: object) -> float:
    """Return `value` as a float if it is finite and above zero."""
    number = _real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidParameterError(f"{name} must be a finite number above 0, got {number!r}.")
    return number


def probability_below_one(name: str, value: object) -> float:
    """Return `value` as a float if it lies in [0, 1)."""
    number = _real(name, value)
    if not 0 <= number < 1:
        raise InvalidParameterError(f"{name} must lie in [0, 1), got {number!r}.")
    return number


def integer_between(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int if low <= value, and value <= high where a `high` is given."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidParameterError(f"{name} must be a whole number, not {type(value).__name__}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidParameterError(f"{name} must be {span}, got {number}.")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameterError(f"{name} must be one of {listed}, got {value!r}.")
    return str(value)
