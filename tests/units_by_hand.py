"""Rows of persons for tests, and the persons that they are by hand."""

from hashlib import blake2b
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse

from eigenveil.moments.units import Blocks

RNG = np.random.default_rng(11)
N, D, PRIVACY_UNITS = 1500, 3, 200
NAMES = ["age", "height", "mass"]
ROWS = RNG.normal(size=(N, D)).round(6)
# One person has a fifth of all rows, some have one.
IDS = np.where(RNG.random(N) < 0.2, 7, (RNG.random(N) ** 2 * PRIVACY_UNITS).astype(int))
FRAME = pd.DataFrame(ROWS, columns=NAMES).assign(id=IDS)[["age", "id", "height", "mass"]]

Found = dict[tuple[int, int], list[tuple[float, ...]]]


def by_hand(ids: Any, rows: Any) -> Found:
    """Return the sorted rows of every person by the key that is documented."""
    found: Found = {}
    for identifier, row in zip(ids, rows, strict=True):
        digest = blake2b(str(identifier).encode(), digest_size=16).digest()
        key = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
        found.setdefault(key, []).append(tuple(float(value) for value in row))
    return {key: sorted(rows) for key, rows in found.items()}


REFERENCE = by_hand(IDS, ROWS)


class PrivacyUnits:
    """A statistic that remembers every person, and refuses one who comes twice."""

    def __init__(self) -> None:
        self.found: Found = {}

    def update(self, block: Any) -> Self:
        """Add the persons of one batch."""
        assert isinstance(block, Blocks)
        assert block.starts.dtype == np.int64
        assert block.keys.dtype == np.uint64
        assert block.keys.shape == (block.n_privacy_units, 2)
        assert block.starts[0] == 0
        assert (block.sizes > 0).all()
        rows = block.rows.toarray() if scipy.sparse.issparse(block.rows) else np.asarray(block.rows)
        for key, start, size in zip(block.keys.tolist(), block.starts, block.sizes, strict=True):
            assert tuple(key) not in self.found
            self.found[tuple(key)] = sorted(map(tuple, rows[start : start + size].tolist()))
        return self

    def update_from(self, blocks: Any) -> Self:
        """Add the persons of all batches."""
        for block in blocks:
            self.update(block)
        return self

    def __add__(self, other: Self) -> Self:
        assert not self.found.keys() & other.found.keys()
        both = type(self)()
        both.found = self.found | other.found
        return both


def privacy_units_of(blocks: Any) -> Found:
    """Return the sorted rows of every person; nobody may come twice."""
    return PrivacyUnits().update_from(blocks).found
