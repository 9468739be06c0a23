"""`PlannedFit`: what a fit would do with its rows and its budget, as forecasts ask for it."""

from dataclasses import dataclass
from fractions import Fraction

from ..guarantee import Guarantee
from ..mechanisms.base import CentralLaw
from ..moments.row_rule import RowRule
from .assumed_rows import AXES, CORRELATION, FEATURES


@dataclass(frozen=True)
class PlannedFit:
    """What a fit would do with its rows and its budget; public numbers alone.

    Parameters
    ----------
    law : CentralLaw
        The law that draws the matrix, with what private choices leave of epsilon.
    rule : RowRule
        How rows become integers; its norm stands for itself where it is found privately.
    n_rows : int
    guarantee : Guarantee
        That of the whole fit.
    correlation : bool
        Whether components are those of the correlation matrix.
    search : (Fraction, int), optional
        Where a norm bound is found privately: what that costs, and how many rows it should leave beyond it.
    range_beyond : float, optional
        Where ranges of the features are found privately: the share of pairs of rows that differ by more.
    mean, norm, first, mapped_norm : Fraction
        The shares of mu^2 that are expected to be spent before the matrix, on what `Stages` names.
    rounds : int
        In how many rounds a mean is expected to be measured.
    residual_beyond : int
        How many rows a bound for rows without their mean leaves beyond it.
    sampled : bool
        Whether rows are a sample of a population of the assumed spectrum; else the spectrum is their own.
    """

    law: CentralLaw
    rule: RowRule
    n_rows: int
    guarantee: Guarantee
    correlation: bool = False
    search: tuple[Fraction, int] | None = None
    range_beyond: float | None = None
    mean: Fraction = Fraction(0)
    norm: Fraction = Fraction(0)
    first: Fraction = Fraction(0)
    mapped_norm: Fraction = Fraction(0)
    rounds: int = 1
    residual_beyond: int = 0
    sampled: bool = True

    @property
    def frame(self) -> str:
        """Where the eigenvectors of assumed rows lie, as far as it matters."""
        if self.correlation or self.rule.rows == "signs":
            return CORRELATION
        return AXES if self.range_beyond is None else FEATURES

    @property
    def bounds_publicly(self) -> bool:
        """Whether rows are clipped to a public norm, so that it matters how long they are beside it."""
        return self.rule.keeps_lengths and self.search is None

    @property
    def about_mean(self) -> bool:
        """Whether components are about the mean."""
        return bool(self.rule.compares or self.rule.constant is not None or self.mean)

    def in_words(self) -> str:
        """Return how rows are prepared.

        Examples
        --------
        >>> from eigenveil.mechanisms import LAWS
        >>> law = LAWS["matrix_laplace"](epsilon=1.0, n_features=3)
        >>> PlannedFit(law, RowRule(1.0), 100, law.guarantee()).in_words()
        'rows clipped to a public bound'
        """
        if self.rule.compares:
            what = "signs of differences" if self.rule.rows == "signs" else "directions between rows"
            return f"{what}, {self.rule.comparisons} comparisons a row; nothing about the rows need be public"
        if not self.rule.keeps_lengths:
            return "rows brought to length 1"
        bound = "a public bound" if self.search is None else "a bound that is found privately"
        if self.range_beyond is not None:
            bound = "ranges and a bound that are found privately"
        centre = " with the mean measured first" if self.mean else " with a constant for the mean"
        look = ", after a first look" if self.first else ""
        return f"rows clipped to {bound}{centre if self.about_mean else ''}{look}"
