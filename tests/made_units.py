"""Persons with many rows, for several test files."""

import itertools

import numpy as np

from eigenveil.moments.units import Blocks

WEIGHTS = ("equal", "by_rows")


def blocks_of(privacy_units, first=0):
    """Return the batch of lists of rows, one list a person, with keys by their place from `first` on."""
    sizes = [len(rows) for rows in privacy_units]
    keys = np.array([[first + place, 7] for place in range(len(privacy_units))], dtype=np.uint64)
    return Blocks(np.concatenate([np.asarray(rows) for rows in privacy_units]), np.cumsum([0, *sizes[:-1]]), keys)


def small_blocks(entries, most_rows):
    """Return every block of at most so many rows of two entries, whatever the order of its rows."""
    rows = list(itertools.product(entries, repeat=2))
    return [block for m in range(1, most_rows + 1) for block in itertools.combinations_with_replacement(rows, m)]


def visits(seed=4, privacy_units=60, d=5):
    """Persons of one to forty rows, some of them long, some zero; all of them float32 numbers."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(privacy_units):
        m = int(generator.choice([1, 1, 2, 3, 7, 40]))
        length = 10.0 ** generator.choice([-3.0, -0.5, 0.0, 0.5, 2.0])
        rows = generator.normal(size=(m, d)) * length * (generator.random((m, d)) < 0.7)
        found.append(rows.astype(np.float32).astype(np.float64))
    return found
