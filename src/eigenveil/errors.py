"""The exceptions of eigenveil, and the validators that raise them.

Every message says in a few short sentences what is wrong and what to do. No message contains a value from private
data: an error text is a release like any other. The validators here see parameters only. Error messages of other
libraries may quote a cell of the data: `own_words` replaces them.
"""

import functools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from numbers import Integral, Real
from typing import TypeVar


class EigenveilError(Exception):
    """Base class of every error that eigenveil raises on purpose."""


class InvalidParameterError(EigenveilError, ValueError):
    """A public parameter is outside its range."""


class InvalidDataError(EigenveilError, ValueError):
    """The data cannot be used as given (wrong width, not numeric, not finite, unreadable)."""


class NotNumbersError(InvalidDataError, TypeError):
    """The data contain a value that is not a real number."""


class CapacityError(EigenveilError, OverflowError):
    """The exact integer arithmetic would overflow; nothing was added."""


class EngineError(EigenveilError, RuntimeError):
    """An engine or a package it needs is missing, or it failed to compute the rows."""


class BudgetError(EigenveilError):
    """A spend would exceed the budget of the ledger; nothing was spent."""


class LedgerError(EigenveilError):
    """A ledger cannot be used (corrupt, read-only, under a second name, or made for something else)."""


class ReleaseFileError(EigenveilError):
    """A release file is damaged, altered, or of a format this version does not read."""


class NoiseWarning(UserWarning):
    """Some released values are not distinguishable from noise; known from released values only."""


class ReleaseFileWarning(UserWarning):
    """A release file has fields that this version does not know; they are ignored."""


class PrivacyWarning(UserWarning):
    """The guarantee is weaker than it may seem; known from public facts only."""


_Callable = TypeVar("_Callable", bound=Callable[..., object])
_Item = TypeVar("_Item")
UNREADABLE = "The data cannot be read. Give an array, a sparse matrix, a data frame or a file of real numbers."
_NO_MEMORY = "There is not enough memory for these data. Give fewer columns, or the rows in smaller parts."


def own_words(function: _Callable) -> _Callable:
    """Make a function that reads data raise only errors of this package, without text from other libraries.

    ``raise ... from None`` hides the first error, but keeps it as `__context__`, where a cell can be read. So ours are
    raised once more when no other error is being handled, and what is not ours becomes `UNREADABLE`.

    Examples
    --------
    >>> try:
    ...     own_words(float)("a private cell")
    ... except InvalidDataError as error:
    ...     print(error.__cause__, error.__context__)
    None None
    """

    @functools.wraps(function)
    def wrapped(*args: object, **options: object) -> object:
        try:
            return function(*args, **options)
        except Exception as error:
            failure = _own(error)
        raise failure

    return wrapped  # type: ignore[return-value]


def iterated_in_own_words(items: Iterable[_Item], unreadable: str = UNREADABLE) -> Iterator[_Item]:
    """Yield the items; errors on the way are replaced as in `own_words`."""
    iterator = iter(items)
    try:
        while True:
            try:
                item = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                failure = _own(error, unreadable)
                break
            yield item
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    raise failure


def _own(error: Exception, unreadable: str = UNREADABLE) -> Exception:
    if isinstance(error, MemoryError):
        return MemoryError(_NO_MEMORY)  # the one of NumPy contains the number of rows
    if not isinstance(error, EigenveilError):
        return InvalidDataError(unreadable)
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = True
    return error


def quoted(name: object) -> str:
    """Return a public name in quotes, as a sentence shows it; a long one is cut, so that the sentence stays readable.

    >>> quoted("age"), quoted(3), quoted("a" * 10_000)
    ("'age'", '3', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'")
    """
    if isinstance(name, Integral):
        return shown(name)
    return repr(_cut(str(name)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_LONGEST_NAME]}..."


def column_in_words(name: object, position: int, public: bool = True) -> str:
    """Return a column as a sentence may call it: by a public name that looks like one, else by its position.

    Public are the names of a frame, of a schema, and those that the caller lists. The first line of a file of text may
    be somebody's row, and is not public unless the caller named a column of it.

    >>> column_in_words("alk.phos", 1), column_in_words("jane@home.org", 1), column_in_words("age", 0, public=False)
    ("'alk.phos'", 'number 2', 'number 1')
    """
    if isinstance(name, Integral):
        return quoted(name)
    return quoted(name) if public and looks_like_a_name(name) else f"number {position + 1}"


def looks_like_a_name(name: object) -> bool:
    """Return whether a name can be shown; not what looks like a value, as where a row was taken for a header.

    A value is a number, a date, an address, anything with a long number, and text that is long or cannot be printed.

    >>> [looks_like_a_name(name) for name in ("alk.phos", "mean radius", "5.1", "2026-01-31", "1e5", "room 12345")]
    [True, True, False, False, False, False]
    """
    text = str(name)
    if len(text) > _SHOWN_LENGTH or not text.isprintable() or re.search("[0-9]{5}|@", text):
        return False
    try:
        float(text)
    except ValueError:
        return any(character.isalpha() for character in text)
    return False


def features_in_words(names: Sequence[object] | None, count: int) -> list[str]:
    """Return the features of a release as a sentence may call them: x0, x1, ... without names that look like ones.

    The names are public: they are part of the release.

    >>> features_in_words(("alk.phos", "sex=F", "jane@home.org"), 3), features_in_words(None, 2)
    (['alk.phos', 'sex=F', 'x2'], ['x0', 'x1'])
    """
    if names is None:
        return [f"x{position}" for position in range(count)]
    found = [str(name) for name in names]
    # What stands behind the sign is a category, which was declared.
    return [_cut(name) if looks_like_a_name(name.partition("=")[0]) else f"x{at}" for at, name in enumerate(found)]


def listed(word: str, all_of: Sequence[object], named: Sequence[object]) -> str:
    """Return a list of things in words, shortened if it is long.

    >>> listed("feature", ["age"], ["age"]), listed("component", [0, 1, 2], [1, 2, 3])
    ('feature age', 'components 1, 2 and 3')
    """
    shown = [str(one) for one in named[:_NAMED]]
    more = len(all_of) - len(shown)
    last = [f"{more} more"] if more else [shown.pop()] if len(shown) > 1 else []
    return f"{word}{'s' if len(all_of) > 1 else ''} {' and '.join([', '.join(shown), *last])}"


def warn_caller(sentence: str, category: type[Warning]) -> None:
    """Warn with the line of the caller outside of this package."""
    package, level, frame = __name__.partition(".")[0], 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (package, "functools"):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)


_SHOWN_LENGTH, _LONGEST_NAME = 60, 40
_NAMED = 8
MOST_FEATURES = 10**6
"""Beyond this no matrix of features fits any memory."""
_LEAST_EPSILON, _MOST_EPSILON, _LEAST_DELTA = 1e-100, 1e12, 1e-200


def shown(value: object) -> str:
    """Return a parameter as a sentence can show it: as it is where that is short, else by its type.

    >>> shown("clip"), shown(10**400), shown([1, 2]), shown([0] * 99)
    ("'clip'", 'int', '[1, 2]', 'list')
    """
    # Python refuses to write a whole number of thousands of digits.
    is_long = isinstance(value, Integral | Fraction) and abs(value) > 10**_SHOWN_LENGTH
    if is_long or not isinstance(value, str | bytes | Real | Fraction | list | tuple | None):
        return type(value).__name__
    try:
        text = repr(str(value) if isinstance(value, str) else value)
    except ValueError:  # a number in a list, of thousands of digits
        text = ""
    return text if 0 < len(text) <= _SHOWN_LENGTH and text.isprintable() else type(value).__name__


def _real(name: str, value: object) -> float:
    if type(value) is float:  # as most are; to ask for a kind of number takes longer than the rest of a check
        return value
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


def number_from_zero(name: str, value: object) -> float:
    """Return `value` as a float if it is finite and not below zero."""
    number = _real(name, value)
    return 0.0 if number == 0 else positive_number(name, number)


def budget_epsilon(value: object) -> float:
    """Return a valid epsilon to spend."""
    number = positive_number("epsilon", value)
    if not _LEAST_EPSILON <= number <= _MOST_EPSILON:
        raise InvalidParameterError(
            f"epsilon must lie between {_LEAST_EPSILON:g} and {_MOST_EPSILON:g}, got {number!r}."
        )
    return number


def budget_delta(value: object) -> float:
    """Return a delta to spend: 0, or a probability that floats can work with."""
    number = probability_below_one("delta", value)
    if 0 < number < _LEAST_DELTA:
        raise InvalidParameterError(f"delta must be 0, or at least {_LEAST_DELTA:g}, got {number!r}.")
    return number


def probability_below_one(name: str, value: object) -> float:
    """Return `value` as a float if it lies in [0, 1)."""
    number = _real(name, value)
    if not 0 <= number < 1:
        raise InvalidParameterError(f"{name} must lie in [0, 1), got {number!r}.")
    return number


def integer_between(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int if low <= value, and value <= high where a `high` is given."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise InvalidParameterError(f"{name} must be an integer, not {type(value).__name__}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise InvalidParameterError(f"{name} must be {span}, got {shown(number)}.")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(str(choice)) for choice in choices)
        raise InvalidParameterError(f"{name} must be one of {listed}, got {shown(value)}.")
    return str(value)


def truth_value(name: str, value: object, instead: str = "") -> bool:
    """Return `value` if it is True or False; `instead` says what to do for who means something else."""
    # NumPy's truth values are no bool, and a search over parameters hands them on.
    if type(value).__name__ not in ("bool", "bool_"):
        raise InvalidParameterError(f"{name} must be True or False, not {type(value).__name__}{instead}.")
    return bool(value)
