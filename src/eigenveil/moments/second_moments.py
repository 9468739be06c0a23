"""`SecondMoments`: the exact integer second moment of bounded rows, the only statistic mechanisms see."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse

from ..errors import CapacityError, InvalidDataError, InvalidParameterError, integer_between, own_words
from ..numerics import IntArray
from .bound import RowBound
from .comparisons import Compared
from .counts import KeySet
from .kernels import RowsByColumn
from .sums import added_products, widened
from .units import SHARE_BITS, TWICE, Blocks, Units, Weighted, canonical_rows, units_of

# Matrices that live at the same time at the peak of a fit: moments, noise in the making, release and its copy.
_MATRICES = 6


class SecondMoments:
    """Exact second moments: the number of units n and the sum of q q' over the integer rows q. Private data.

    The sum does not depend on the order of the rows, on block sizes, threads or engines: blocks multiply in
    float64, where every partial sum is an integer below 2^53, and add in int64, or in Python's integers from so many
    units on that int64 might not hold their sum. A unit's squares add up to the limit of its rule at most, and so do
    the sizes of its products in any entry: it is units that are counted for both. No number of units is refused, none
    included, since it may be private; under replace-one adjacency `eigenveil.release` refuses too few and too many.

    All rows of a person come in one batch. A person who comes again, in another batch or in moments that are added,
    would count for two, and is refused; 8 bytes a person are kept for that.

    **These sums are private data, and so is a pickle of them**: engines send it between their workers, and it must stay
    where the rows may be.

    Parameters
    ----------
    bound : RowBound
        The public rule that makes the integer rows.
    n_features : int
        Width of a row.
    feature_names : sequence of str, optional
        Public names of the features.

    Examples
    --------
    >>> moments = SecondMoments(RowBound(1.0, bits=4), 2).update(np.array([[0.5, 0.0], [0.0, 1.0]]))
    >>> moments.gram
    array([[ 64,   0],
           [  0, 256]])
    >>> moments == moments + SecondMoments(RowBound(1.0, bits=4), 2)
    True
    """

    n_rows: int

    def __init__(
        self, bound: RowBound, n_features: int, feature_names: tuple[str, ...] | list[str] | None = None
    ) -> None:
        self._bound = bound
        self._n_features = integer_between("n_features", n_features, 1)
        bound.check_width(self.n_features)
        if feature_names is not None and len(feature_names) != self.n_features:
            raise InvalidParameterError("feature_names must have one name for every feature.")
        self.feature_names: tuple[str, ...] | None = None if feature_names is None else tuple(feature_names)
        _check_memory(self.width)
        self.n_rows = 0  # rows, or privacy units however many rows they have; comparisons, where rows are compared
        self._weight_units = 0
        self._seen = KeySet()  # privacy units, where these are the unit
        self._broken_off = False
        self._gram: IntArray = np.zeros((self.width, self.width), dtype=np.int64)

    @classmethod
    @own_words
    def from_sums(cls, bound: RowBound, n_rows: int, gram: Any, feature_names: Sequence[str] | None = None) -> Self:
        """Return the moments of sums that were made elsewhere, in a database say, by the rule of `bound`.

        **Whoever gives the sums vouches for them.** What can be checked is checked: whole numbers, symmetry, a diagonal
        that is not negative, no entry that is larger than those of the diagonal allow, a trace within the limit of so
        many units, and the corner of an appended constant. That every unit was held to its bound cannot be: the
        guarantee of a release holds only if each row became integers as `RowBound` does it. Sums of privacy units are
        not added to others, since one unit could be in both.

        Parameters
        ----------
        bound : RowBound
            The public rule that made the integer rows.
        n_rows : int
            The number of rows, or of privacy units where these are the unit.
        gram : array of int of shape (width, width)
            The sum of q q' over the integer rows q, with the appended constant as the last entry if `bound` has one.
        feature_names : sequence of str, optional

        Examples
        --------
        >>> SecondMoments.from_sums(RowBound(1.0, bits=4), 2, [[64, 0], [0, 256]]).n_samples
        2
        """
        sums = np.array(gram, dtype=object)
        if sums.ndim != 2 or sums.shape[0] != sums.shape[1] or sums.shape[0] <= (bound.constant is not None):
            raise InvalidDataError("The sums must be a square matrix, one row for each feature and for a constant.")
        if bound.compares or bound.most_weight is not None or bound.mapped_from is not None:
            raise InvalidDataError("Sums of rows that were compared, weighted or mapped cannot be given; collect them.")
        n_features = sums.shape[0] - (bound.constant is not None)
        moments = cls(bound, n_features, None if feature_names is None else tuple(feature_names))
        n = integer_between("n_rows", n_rows, 0)
        whole = all(isinstance(entry, int | np.integer) and not isinstance(entry, bool) for entry in sums.flat)
        sums = np.frompyfunc(int, 1, 1)(sums) if whole else sums  # squares of NumPy's own would wrap around
        fits = whole and bool((sums == sums.T).all()) and min(sums.diagonal()) >= 0
        fits = fits and sum(sums.diagonal()) <= n * bound.row_limit_squared
        fits = fits and bool((sums**2 <= np.outer(sums.diagonal(), sums.diagonal())).all())
        if bound.constant is not None and bound.knows_corner:
            fits = fits and sums[-1, -1] == n * bound.constant_units**2
        if not fits:
            raise InvalidDataError(
                "These are not the sums of so many rows within the bound; make them by the rule of the bound."
            )
        moments.n_rows = n
        moments._gram = widened(moments._gram, bound, n)
        moments._gram += sums.astype(moments._gram.dtype)
        return moments

    @property
    def bound(self) -> RowBound:
        """The rule that made the integer rows; it cannot be changed any more."""
        return self._bound

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self._n_features

    @property
    def width(self) -> int:
        """Side of the Gram matrix: the features, and one more where the bound appends a constant."""
        return self.n_features + (self.bound.constant is not None)

    @property
    def n_samples(self) -> int:
        """Number of rows or privacy units; for differences each has comparisons / 2 integer rows."""
        return self.n_rows // (self.bound.comparisons // 2) if self.bound.compares_neighbours else self.n_rows

    @property
    def total_weight(self) -> float | None:
        """The sum of the public weights of rows, in units of the largest; None where each row counts once."""
        return None if self.bound.most_weight is None else math.ldexp(self._weight_units, -SHARE_BITS)

    @property
    def gram(self) -> IntArray:
        """The sum of q q', symmetric (a read-only view): int64, or Python's integers where it might not hold them."""
        self.check_whole()
        view = self._gram.view()
        view.flags.writeable = False
        return view

    @own_words
    def update(self, X: Any) -> Self:
        """Add the rows of a dense or SciPy-sparse matrix; all of them, or none where an error is raised.

        Where the bound is one of privacy units, their rows come as `eigenveil.moments.units.Blocks`. Broken off midway,
        by an interrupt, the moments refuse all further use.
        """
        self.check_whole()
        units = self._checked(X)
        added = added_products(self.bound, self.n_features, [units])
        self._meet(X)
        with self._adding():
            self._count(units)
            self._gram = widened(self._gram, self.bound, self.n_rows)
            self._gram += added
        return self

    @own_words
    def update_from(self, batches: Iterable[Any]) -> Self:
        """Add the rows of all batches, each like `update`; batches are read while others are multiplied.

        A batch must stay as it is while the next ones are read. Where an error is raised the moments are of no use
        any more, and say so; collect them anew.
        """
        with self._adding():
            self.check_whole()
            added = added_products(self.bound, self.n_features, map(self._counted, batches))
            self._gram = widened(self._gram, self.bound, self.n_rows)
            self._gram += added
        return self

    def _counted(self, batch: Any) -> Units:
        """Return the units of a batch, which count from now on."""
        units = self._checked(batch)
        self._meet(batch)
        self._count(units)
        return units

    def _meet(self, X: Any) -> None:
        """Refuse a batch with a person who came before."""
        if isinstance(X, Blocks):
            self._check_units_known()
            if not self._seen.add(X.keys):
                raise InvalidDataError(TWICE)

    def _check_units_known(self) -> None:
        """Refuse to add to sums of privacy units that came without their identifiers."""
        if self.bound.takes_units and len(self._seen) < self.n_rows:
            raise InvalidDataError(
                "These sums do not say which privacy units they have, so that one of them could count twice; bring all "
                "rows of a unit together before they are added up."
            )

    def _count(self, units: Units) -> None:
        self.n_rows += units.n_units
        if units.shares is not None:
            self._weight_units += int(units.shares.sum())

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, SecondMoments):
            return NotImplemented
        if self.bound != other.bound or self.n_features != other.n_features:
            raise InvalidDataError("Moments of different bounds or widths do not add; collect both with one RowBound.")
        names = {self.feature_names, other.feature_names} - {None}
        if len(names) > 1:
            raise InvalidDataError("Moments of differently named features do not add; select the same columns.")
        self.check_whole()
        other.check_whole()
        if self.n_rows and other.n_rows:
            self._check_units_known()
            other._check_units_known()
        seen = self._seen.joined(other._seen)
        if seen is None:
            raise InvalidDataError(TWICE)
        total = type(self)(self.bound, self.n_features, names.pop() if names else None)
        total.n_rows = self.n_rows + other.n_rows
        total._weight_units, total._seen = self._weight_units + other._weight_units, seen
        total._gram = widened(self._gram, self.bound, total.n_rows) + other._gram
        return total

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecondMoments):
            return NotImplemented
        counted = (self.n_rows, self._weight_units) == (other.n_rows, other._weight_units)
        return self.bound == other.bound and counted and np.array_equal(self._gram, other._gram)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes with every update

    def __repr__(self) -> str:
        # Counts and sums are private until a mechanism has released them.
        return f"SecondMoments({self.bound!r}, n_features={self.n_features})"

    def of_features(self, kept: Sequence[int]) -> Self:
        """Return the moments of these features alone, as they are: rows are no longer than with all features."""
        bound, names = self.bound, self.feature_names
        shift, scale = (
            None if whole is None else tuple(whole[position] for position in kept)
            for whole in (bound.shift, bound.scale)
        )
        named = None if names is None else tuple(names[position] for position in kept)
        part = type(self)(replace(bound, shift=shift, scale=scale), len(kept), named)
        part.n_rows, part._weight_units, part._seen = self.n_rows, self._weight_units, self._seen
        chosen = [*kept, *range(self.n_features, self.width)]
        part._gram = self.gram[np.ix_(chosen, chosen)]
        return part

    def check_whole(self) -> None:
        """Raise where an update was broken off, by an interrupt say: some of its rows may count already."""
        if self._broken_off:
            raise InvalidDataError("An update was broken off and may have added some of its rows; collect all anew.")

    @contextmanager
    def _adding(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # a row that was added again would count twice
            self._broken_off = True
            raise

    def _checked(self, X: Any) -> Units:
        if self.bound.most_weight is None:
            units = units_of(self.bound.takes_units, X)
        elif isinstance(X, Weighted):
            units = X.units(self.bound.most_weight)
        else:
            raise InvalidDataError("Rows are to be weighted here, and these have no weights; give one for every row.")
        return units.with_rows(self._checked_rows(units.rows))

    def _checked_rows(self, X: Any) -> Any:
        if scipy.sparse.issparse(X):
            rows = canonical_rows(X)
        else:
            if isinstance(X, np.ma.MaskedArray):
                raise InvalidDataError("Masked arrays are not supported; fill the masked entries first.")
            try:
                rows = X if isinstance(X, RowsByColumn | Compared) else np.asarray(X)
            except ValueError:
                raise InvalidDataError("The data must be a table with rows of one length.") from None
        if rows.dtype.kind not in "fiub":
            # The dtype is not named: that of text tells the length of its longest cell.
            raise InvalidDataError("The data must be real numbers; encode or drop other columns first.")
        if rows.ndim != 2:
            raise InvalidDataError(f"The data must be a table of rows, but have {rows.ndim} dimension(s).")
        if rows.shape[1] != self.n_features:
            raise InvalidDataError(f"The data have {rows.shape[1]} features where {self.n_features} were expected.")
        return rows


def _check_memory(width: int) -> None:
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a Unix
        return
    needed = _MATRICES * 8 * width**2
    if needed > there:
        raise CapacityError(
            f"A private second moment of {width} features needs about {needed / 2**30:.0f} GiB of memory where this "
            f"machine has {there / 2**30:.0f}; choose fewer columns, or project the rows to fewer features by a public "
            "random matrix first."
        )
