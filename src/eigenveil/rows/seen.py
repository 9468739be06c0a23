"""`SeenKeys`: which persons have come, eight bytes each."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from .mixing import split_mix

Keys = NDArray[np.uint64]


class SeenKeys:
    """A set of keys that only grows. It knows 64 bits made of every key: two that share them are taken for one.

    Examples
    --------
    >>> seen = SeenKeys()
    >>> seen.add(np.array([[7, 0], [3, 0]], np.uint64)), seen.add(np.array([[7, 0]], np.uint64))
    (True, False)
    """

    def __init__(self) -> None:
        self._sorted: list[Keys] = []  # each more than twice as long as the next

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return sum(part.nbytes for part in self._sorted)

    def add(self, keys: Keys) -> bool:
        """Add keys, and tell whether all of them are new; if not, none is added."""
        return self._take(np.sort(keys[:, 0] + split_mix(keys[:, 1])))

    def joined(self, other: Self) -> Self | None:
        """Return the keys of both; None where they have one in common."""
        total = type(self)()
        total._sorted = list(self._sorted)
        return total if all(total._take(part) for part in other._sorted) else None

    def _take(self, new: Keys) -> bool:
        if (new[1:] == new[:-1]).any():
            return False
        for part in self._sorted:
            places = np.minimum(np.searchsorted(part, new), part.size - 1)
            if (part[places] == new).any():
                return False
        if new.size:
            self._sorted.append(new)
        while len(self._sorted) > 1 and self._sorted[-2].size <= 2 * self._sorted[-1].size:
            joined = np.concatenate([self._sorted.pop(), self._sorted.pop()])
            joined.sort(kind="stable")  # which merges what is sorted already
            self._sorted.append(joined)
        return True
