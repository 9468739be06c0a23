"""Methods that are there for some parameters only, and say why where they are not."""

from collections.abc import Callable
from types import MethodType
from typing import Any


class Available:
    """A method that an instance has where a check passes; else the check's `AttributeError` is what the caller sees.

    scikit-learn's `available_if` hides the reason behind "has no attribute".

    Examples
    --------
    >>> def small(model):
    ...     if model.size > 1:
    ...         raise AttributeError("grow needs a size of at most 1.")
    >>> class Model:
    ...     def __init__(self, size):
    ...         self.size = size
    ...     @available_where(small)
    ...     def grow(self):
    ...         return self.size + 1
    >>> Model(1).grow(), hasattr(Model(2), "grow")
    (2, False)
    >>> Model(2).grow()
    Traceback (most recent call last):
        ...
    AttributeError: grow needs a size of at most 1.
    """

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], object]) -> None:
        self._method, self._check = method, check
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._method
        self._check(instance)
        return MethodType(self._method, instance)


def available_where(check: Callable[[Any], object]) -> Callable[[Callable[..., Any]], Any]:
    """Make a method available where `check`, called with the instance, raises no `AttributeError`."""

    def decorate(method: Callable[..., Any]) -> Any:
        return Available(method, check)

    return decorate
