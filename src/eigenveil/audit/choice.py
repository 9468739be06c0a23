"""Which statistic an audit judges by: chosen on draws that take no part in the judgement."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .learned import learned_score
from .lower_bound import Event, ranked_event

FloatArray = NDArray[np.float64]
Score = Callable[[FloatArray], FloatArray]


class Choice:
    """The statistics that a pair of data sets can be judged by, from draws of the search.

    Parameters
    ----------
    names : tuple of str
        The last columns of the scores, each a statistic by itself. What stands before them is the main one, or features
        to learn it from on half of these draws.
    first, second : ndarray
        What the subject returned on D and on D'.
    """

    def __init__(self, names: tuple[str, ...], first: FloatArray, second: FloatArray) -> None:
        self.names = names
        tables = _main(first, len(names)), _main(second, len(names))
        self.learned: Score | None = None
        if tables[0].ndim > 1:
            halves = len(first) // 2, len(second) // 2
            self.learned = learned_score(tables[0][: halves[0]], tables[1][: halves[1]])
            first, second = first[halves[0] :], second[halves[1] :]
        self.samples = first, second

    def rank(self, n_pairs: int, *, extra: bool, **limits: Any) -> float:
        """Return how telling the pair is by its best statistic; not a valid bound.

        An extra pair is there for the named statistics. Its main one, on more or fewer draws than those of other pairs,
        does not compare with theirs.
        """
        ranked = self._ranked(*self.samples, n_pairs, **limits)
        return max((value for value, *_ in ranked[extra:]), default=-math.inf)

    def choose(self, first: FloatArray, second: FloatArray, **limits: Any) -> tuple[str | None, Score, Event]:
        """Return the name of the best statistic on new draws (None for the main one), how to get it, and its event."""
        _, name, score, event = max(self._ranked(first, second, 1, **limits), key=lambda entry: entry[0])
        return name, score, event

    def _ranked(
        self, first: FloatArray, second: FloatArray, n_pairs: int, **limits: Any
    ) -> list[tuple[float, str | None, Score, Event]]:
        value, event = ranked_event(self._main(first), self._main(second), **limits)
        ranked: list[tuple[float, str | None, Score, Event]] = [(value, None, self._main, event)]
        # Where many statistics are tried, the best of them looks good by luck: those beside the main one must show
        # anything at all at the confidence of all together.
        n_tests = 1 + n_pairs * len(self.names)
        for i, name in enumerate(self.names):
            score = _Column(i - len(self.names))
            one, two = score(first), score(second)
            if np.ptp(one) or np.ptp(two) or one[0] != two[0]:
                value, event = ranked_event(one, two, n_tests=n_tests, **limits)
                if value > 0:
                    ranked.append((value, name, score, event))
        return ranked

    def _main(self, scores: FloatArray) -> FloatArray:
        main = _main(scores, len(self.names))
        return main if self.learned is None else self.learned(main)


class _Column:
    """One column of the scores."""

    def __init__(self, column: int) -> None:
        self.column = column

    def __call__(self, scores: FloatArray) -> FloatArray:
        return scores[:, self.column]


def _main(scores: FloatArray, n_names: int) -> FloatArray:
    """Return what stands before the named columns: one number for each draw, or a table of features."""
    if n_names == 0:
        return scores
    main = scores[:, : scores.shape[1] - n_names]
    return main[:, 0] if main.shape[1] == 1 else main
