"""What every mechanism is, central or local: facts that it declares, a guarantee without data, a privacy curve."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ..accounting.calibration import exact, float_above, guaranteed_epsilon
from ..errors import (
    MOST_FEATURES,
    InvalidParameterError,
    budget_delta,
    budget_epsilon,
    integer_between,
    one_of,
    truth_value,
)
from ..guarantee import Adjacency, Guarantee, Numerics
from ..numerics import FloatArray, IntArray
from ..sampling.discrete import LAPLACE_SCALES, discrete_laplace

Integers = Mapping[str, IntArray]
"""What leaves, by name: "matrix", "trace", "directions", "quotients", "count", "slack"; locally "sums", "ones"."""
Values = Mapping[str, FloatArray]
"""The same as numbers, for rows of norm at most 1."""
Releases = Literal["matrix", "directions", "subspace"]

IN_UNITS_OF_C = frozenset({"matrix", "quotients", "trace", "slack"})
"""What is counted in squared units of the rows; the rest has the same unit whatever the rows are."""


class Mechanism(ABC):
    """A random mechanism that turns private numbers into public ones, known by its parameters alone.

    What a mechanism can do is declared on it and never asked by its name.

    Attributes
    ----------
    name : str
        Its key in the table.
    needs_delta : bool
        Whether it is calibrated to a delta above 0; the others are pure.
    releases : {"matrix", "directions", "subspace"}
        What leaves: a second moment; directions with their variances, from which one is rebuilt; or a subspace alone.
    numerics : Numerics
        What the running code adds to the mathematics, at its worst over all parameters.
    source : str
        Who proposed it: paper and theorem.
    use_when : str
        One line for those who choose.
    adds_noise : bool
        Whether what leaves is the second moment plus noise, as of every `AdditiveMechanism`.
    """

    name: ClassVar[str]
    needs_delta: ClassVar[bool] = False
    releases: ClassVar[Releases]
    numerics: ClassVar[Numerics]
    source: ClassVar[str]
    use_when: ClassVar[str]
    adds_noise: ClassVar[bool] = False

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Return the guarantee of one release; a function of the parameters only."""

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon proved at another delta: by the privacy curve where a mechanism knows its own."""
        return guaranteed_epsilon(self.guarantee(), delta)

    # What released values say.

    def second_moment(self, values: Values, n_rows: int) -> FloatArray | None:
        """Return the estimate of A, the mean of x x' over rows of norm at most 1; None for a subspace."""
        return None

    def estimated_rows(self, values: Values) -> float | None:
        """Return the number of rows from values other than a count; None where there are none."""
        return None

    def directions(self, values: Values) -> FloatArray | None:
        """Return the directions that were drawn as orthonormal rows, in their order; None where there are none."""
        return orthonormal(values["directions"]) if "directions" in values else None

    def variances(self, values: Values, n_rows: int) -> FloatArray | None:
        """Return released variances of all directions for rows of norm 1, in their order; None where not released."""
        return None

    @property
    def ordered(self) -> bool:
        """Whether the first direction is the most important one."""
        return self.releases != "subspace"

    def noise_sd(self, n_rows: int) -> float | None:
        """Return the standard deviation beside the diagonal of `second_moment`; None where it is not known."""
        return None

    @property
    def sharp_trace(self) -> bool:
        """True if the trace is measured with much less noise than the sum of the diagonal has."""
        return False

    def variance_reach(self, n_rows: int) -> float | None:
        """Return the half width of a 95 % interval for one of `variances`; None where these are not released."""
        return None

    @classmethod
    def privacy(cls) -> str:
        """Return the kind of guarantee in words, for tables."""
        return "(epsilon, delta)" if cls.needs_delta else "epsilon"

    @classmethod
    def numerics_in_words(cls) -> str:
        """Return `numerics` with its conditions, for tables."""
        return cls.numerics.value


COUNT_SHARE = Fraction(1, 20)
"""Where the number of rows is private, this share of epsilon pays for a noisy count to divide by."""
DIRECTION_UNIT = 2.0**-24
"""Directions leave as integers of this unit."""


class CentralMechanism(Mechanism):
    """A private way to release principal components, or the second moment they come from.

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    delta : float
        0 is pure differential privacy.
    n_features : int
        Width of a row, d.
    n_components : int, optional
        Number of directions to release, k; all of them by default.
    adjacency : Adjacency or str
        The adjacency.
    calibration : str, optional
        One of `calibrations`: our constants, or with "paper" those of the paper that proposed the mechanism; by default
        the first of them.
    accept_inexact : bool
        Says that whoever releases knows that the mechanism, with these parameters, is not exact in its bits. Nothing is
        released by an inexact mechanism without it (see `check_accepted`); plans, simulations and audits do not need
        it.

    Attributes
    ----------
    calibrations : tuple of str
        The constants that there are.
    unsound_calibrations : tuple of str
        Those of them that do not give what was stated for them: a mechanism is made with them only by who says
        ``allow_unsound=True``.
    baseline : bool
        Whether it serves comparisons only, and is never recommended.
    needs_rank_one : bool
        Whether the proof is for units that add one x x' each; the others hide any sum of such of the same trace.
    """

    calibrations: ClassVar[tuple[str, ...]] = ("tight",)
    unsound_calibrations: ClassVar[tuple[str, ...]] = ()
    baseline: ClassVar[bool] = False
    needs_rank_one: ClassVar[bool] = False

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        n_features: int,
        n_components: int | None = None,
        adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
        calibration: str | None = None,
        accept_inexact: bool = False,
    ) -> None:
        self.epsilon: float = budget_epsilon(epsilon)
        self.delta: float = budget_delta(delta)
        self.n_features: int = integer_between("n_features", n_features, 1, MOST_FEATURES)
        k = self.n_features if n_components is None else n_components
        self.n_components: int = integer_between("n_components", k, 1, self.n_features)
        self.adjacency: Adjacency = Adjacency.parse(adjacency)
        self.calibration: str = one_of(
            "calibration", self.calibrations[0] if calibration is None else calibration, self.calibrations
        )
        self.accept_inexact: bool = truth_value("accept_inexact", accept_inexact)
        reason = self.refusal(self.delta, self.calibration)
        if reason is not None:
            raise InvalidParameterError(reason)

    @classmethod
    def uses_delta(cls, calibration: str) -> bool:
        """Return whether the mechanism with these constants is calibrated to a delta."""
        return cls.needs_delta

    @classmethod
    def refusal(cls, delta: float, calibration: str | None = None) -> str | None:
        """Return in one sentence why the mechanism cannot be made with this delta; None where it can."""
        uses_delta = cls.uses_delta(calibration or cls.calibrations[0])
        if uses_delta and delta == 0:
            return f"{cls.name} needs a delta above 0; give one, or choose a pure mechanism such as matrix_laplace."
        if not uses_delta and delta > 0:
            return f"{cls.name} is pure and has no use for delta = {delta:g}; set delta=0 or choose another mechanism."
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types; `mechanism_from` makes the same mechanism of them."""
        accepted = {"accept_inexact": True} if self.accept_inexact else {}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_features": self.n_features,
            "n_components": self.n_components,
            "adjacency": self.adjacency.value,
            "calibration": self.calibration,
            **accepted,
        }

    def of_width(self, n_features: int) -> Self:
        """Return a mechanism of the same budget for rows of another width."""
        sizes = {"n_features": n_features, "n_components": min(self.n_components, n_features)}
        return type(self)(**{**self.parameters(), **sizes})

    def with_epsilon(self, epsilon: float) -> Self:
        """Return a copy of this mechanism that has another epsilon."""
        return type(self)(**{**self.parameters(), "epsilon": epsilon})

    @property
    def exact(self) -> bool:
        """Whether the distribution of the released bits is that of the proof, with these parameters."""
        return self.guarantee().numerics is Numerics.EXACT

    def check_accepted(self) -> None:
        """Refuse to release by a mechanism that is not exact, unless it was accepted as such."""
        if not (self.exact or self.accept_inexact):
            raise InvalidParameterError(
                f"{self.name} with these parameters is {self.guarantee().numerics.value}, so its bits may tell more "
                "than its guarantee says; choose an exact mechanism, or for research say accept_inexact=True (of an "
                "estimator in mechanism_options)."
            )

    @abstractmethod
    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Draw the released integers.

        Parameters
        ----------
        gram : ndarray of shape (d, d), int64 or Python's integers
            The sum of what units add, each positive semidefinite and of trace at most `grid`: C times `grid`. A row
            adds q q', a person the sum over their rows.
        grid : int
            The largest trace of what a unit adds: for a row the square of its largest norm.
        n_rows : int
            Number of units, so that of privacy units where these are; it leaves for free where the adjacency makes it
            public, and is paid for elsewhere.
        generator : numpy.random.Generator
        """

    def shifts(self, grid: int) -> Mapping[str, int]:
        """Return the public exponents s by name: these integers count multiples of 2^s. Others have s = 0."""
        return {}

    def units(self, grid: int, unit_squared: float) -> dict[str, float]:
        """Return the value of one of every kind of integer that leaves.

        Parameters
        ----------
        grid : int
            As for `draw`.
        unit_squared : float
            The value of one unit of the integer second moment.
        """
        units = {"directions": DIRECTION_UNIT, "count": 1.0, **dict.fromkeys(IN_UNITS_OF_C, unit_squared)}
        return units | {name: math.ldexp(units[name], shift) for name, shift in self.shifts(grid).items()}

    def check_grid(self, grid: int) -> None:
        """Refuse a grid that the mechanism does not fit; public numbers alone, before any budget is spent."""

    @property
    def divisible(self) -> bool:
        """True if one budget can pay for several measurements, whose costs add up in squares (`mechanisms.budget`)."""
        return False

    # Where rows are private to the number.

    @cached_property
    def count_share(self) -> Fraction:
        """The share of the budget that pays for a noisy number of rows: none where that is public."""
        return COUNT_SHARE if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE else Fraction(0)

    @property
    def matrix_epsilon(self) -> Fraction:
        """Epsilon for the matrix: all but the share of the count."""
        return exact(self.epsilon) * (1 - self.count_share)

    @property
    def _count_scale(self) -> Fraction:
        return 1 / (exact(self.epsilon) - self.matrix_epsilon)

    def check_count(self) -> None:
        """Refuse an epsilon at which the noise of a count cannot be drawn, for mechanisms that draw one."""
        if self.count_share and not LAPLACE_SCALES[0] <= self._count_scale <= LAPLACE_SCALES[1]:
            raise InvalidParameterError(
                f"epsilon = {self.epsilon:g} is too far from 1 for a private number of rows; choose another epsilon, "
                "or adjacency='replace_one'."
            )

    def count_noise(self, grid: int, generator: np.random.Generator) -> int:
        """Return noise for a number of rows that is paid for, times `grid`."""
        return grid * int(discrete_laplace(float_above(self._count_scale), 1, generator)[0])

    def draw_count(self, n_rows: int, grid: int, generator: np.random.Generator) -> Integers:
        """Return the noisy number of rows if it is paid for, else nothing."""
        if self.count_share == 0:
            return {}
        noisy = n_rows * grid + self.count_noise(grid, generator)
        return {"count": np.array(max(1, (2 * noisy + grid) // (2 * grid)))}  # to the nearest, in integers

    def count_log_density(self, values: Values, n_rows: int) -> FloatArray | float:
        """Return the log density of released counts at a number of rows, up to a constant."""
        if "count" not in values:
            return 0.0
        rate = float(exact(self.epsilon) - self.matrix_epsilon)
        return np.asarray(-rate * np.abs(values["count"] - n_rows))

    # What planning and audits ask.

    @property
    def strength(self) -> float | None:
        """The factor of C in the exponent of a mechanism that samples directions; None for the others.

        Audits search data whose leading eigenvalues are tied up to its inverse, where such mechanisms leak most.
        """
        return None

    @property
    def equivalent_sd(self) -> float:
        """Standard deviation of off-diagonal noise on C that would blur directions about as much as this mechanism.

        For rows of norm 1. It decides how many rows are worth clipping; 0 where nothing is.
        """
        return 0.0

    def first_order_loss(self, eigenvalues: FloatArray, n_rows: float) -> tuple[float, float] | None:
        """Return the expected loss of captured variance to first order, and the noise in units of the gap.

        `eigenvalues` are those of A, descending, with a gap after number k. None where no formula is known.
        """
        return None

    def log_likelihood(self, values: Values, C: FloatArray, n_rows: int) -> FloatArray | None:
        """Return the log density of released values, stacked along the first axis, on data of second moment C.

        Up to a constant; minus infinity where they are impossible; None where it is not known.
        """
        return None

    def __setattr__(self, name: str, value: object) -> None:
        # What was planned and paid for is what draws.
        if name in self.__dict__:
            raise AttributeError("A mechanism cannot be changed; make another one.")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({fields})"


@lru_cache(maxsize=256, typed=True)
def made_once(kind: type[CentralMechanism], **parameters: Any) -> CentralMechanism:
    """Return the mechanism of these public parameters, which cannot be changed; one object for all fits."""
    return kind(**parameters)


def integer_directions(directions: FloatArray) -> IntArray:
    """Return directions as integers of `DIRECTION_UNIT`, as they leave."""
    return np.rint(directions / DIRECTION_UNIT).astype(np.int64)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Return rows that were rounded to the grid of directions as orthonormal ones, first come first kept."""
    factor, triangle = np.linalg.qr(rows.T)
    return np.asarray((factor * np.where(np.diag(triangle) < 0, -1.0, 1.0)).T)
