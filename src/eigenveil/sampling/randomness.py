"""The secure source of noise, and the seeded one for tests and papers.

Noise that an adversary can predict is no noise. `secure_generator` drives NumPy's Generator by AES in counter
mode, keyed from the operating system; it cannot be copied or pickled, and a forked child gets a new key, so
that no stream is ever used twice.
"""

import os
import weakref
from typing import Any, NoReturn

import numpy as np
from randomgen import AESCounter

from ..errors import InvalidParameterError

_alive: "weakref.WeakSet[SecureGenerator]" = weakref.WeakSet()


def _fresh_aes() -> Any:
    return AESCounter(key=int.from_bytes(os.urandom(16), "little"))


class SecureGenerator(np.random.Generator):
    """A NumPy Generator whose stream no one can foresee or repeat; made by `secure_generator`."""

    def __init__(self) -> None:
        super().__init__(_fresh_aes())
        _alive.add(self)

    def rekey(self) -> None:
        """Forget the current stream and take a new key from the operating system."""
        self.bit_generator.state = _fresh_aes().state

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        """Return independent secure generators (each has its own key)."""
        return [SecureGenerator() for _ in range(n_children)]

    def _refuse_copy(self, *_: Any) -> NoReturn:
        raise TypeError(
            "A secure generator cannot be copied or pickled, because two copies would repeat the same noise; "
            "make a new one with secure_generator()."
        )

    __copy__ = _refuse_copy
    __deepcopy__ = _refuse_copy
    __reduce__ = _refuse_copy
    __reduce_ex__ = _refuse_copy
    __getstate__ = _refuse_copy


def _rekey_all() -> None:
    for generator in list(_alive):
        generator.rekey()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_all)


def secure_generator() -> SecureGenerator:
    """Return a generator fit for private releases."""
    return SecureGenerator()


def seeded_generator(seed: int) -> np.random.Generator:
    """Return a reproducible generator; releases drawn from it are marked as not private.

    Examples
    --------
    >>> bool(seeded_generator(1).normal() == seeded_generator(1).normal())
    True
    """
    return np.random.default_rng(seed)


def is_secure(generator: np.random.Generator) -> bool:
    """Return whether `generator` came from `secure_generator`; any other counts as seeded."""
    return isinstance(generator, SecureGenerator)


def generator_from(random_state: object) -> np.random.Generator:
    """Return the generator an estimator's ``random_state`` stands for: None is secure, a number is a seed."""
    if random_state is None:
        return secure_generator()
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        # scikit-learn hands these out; one draw from it seeds a Generator of ours.
        return seeded_generator(int(random_state.randint(2**31)))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise InvalidParameterError("random_state must be at least 0.")
        return seeded_generator(int(random_state))
    raise InvalidParameterError(
        f"random_state must be None, a whole number or a numpy Generator, not {type(random_state).__name__}."
    )


def check_generator(generator: object) -> None:
    """Raise unless `generator` is a NumPy random generator."""
    if not isinstance(generator, np.random.Generator):
        raise InvalidParameterError(f"generator must be a numpy.random.Generator, not {type(generator).__name__}.")
