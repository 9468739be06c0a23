"""`Guarantee`: what is promised, for which adjacency and unit, under which assumptions; in numbers and in words.

A guarantee is a function of public parameters, never of data. Probabilities and odds in words are rounded to the side
that promises less.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Self

from .errors import InvalidParameterError, one_of, probability_below_one, truth_value

HARDLY_PROTECTS_ABOVE = 10.0
"""Above this epsilon odds may change by a factor of more than 22,000, which rules out nothing that matters."""


def odds_factor(epsilon: float) -> str:
    """Return e^epsilon as text, rounded up.

    Examples
    --------
    >>> odds_factor(1.0), odds_factor(0.01), odds_factor(10.0), odds_factor(100.0)
    ('2.72', '1.011', '22,100', '10^44')
    """
    if epsilon > 27:
        return f"10^{math.ceil(epsilon / math.log(10))}"
    if epsilon == 0:
        return "1"
    factor = Decimal(max(epsilon, 1e-9)).exp()  # rounded up, as all of it
    # Two digits of what exceeds 1, three in all.
    places = 1 - (factor - 1).adjusted() if factor < 2 else 2 - factor.adjusted()
    return f"{factor.quantize(Decimal(1).scaleb(-max(2, places) if factor < 10 else -places), ROUND_CEILING):,f}"


def chance(probability: float) -> str:
    """Return a probability in words, rounded up.

    Examples
    --------
    >>> chance(1e-6)
    'a chance of 1 in 1,000,000'
    """
    if probability > 0.01:
        return f"a chance of {math.ceil(probability * 1000 * (1 - 1e-12)) / 10:g} %"
    times = math.floor(1 / Fraction(repr(probability)))
    step = 10 ** max(0, len(str(times)) - 3)
    return f"a chance of 1 in {times // step * step:,}"


FLOAT_ASSUMPTION = (
    "The noise is drawn in float64: which values the sum can take depends on the data, and an observer who looks at "
    "their last bits can tell neighbouring data apart (Mironov 2012)."
)
"""Which attack applies to noise that was drawn in floats."""
DIRECTION_ASSUMPTION = (
    "The directions are computed in float64 from the data, so their last bits can be a fingerprint of it (after "
    "Mironov 2012)."
)
"""Which attack applies to directions that were drawn in floats."""
ORDER_ASSUMPTION = (
    "Rows are compared with one another by their places, so the promise is for tables whose order does not depend on "
    "values; shuffle a sorted one first, by no fixed seed."
)
"""What holds of rows that are compared: a row is replaced where it stands, and moves no other."""
IDENTIFIER_ASSUMPTION = (
    "Persons are compared with one another in the order of their identifiers, so the promise is about what the rows "
    "of a person say, and not about which identifiers there are."
)
"""What holds of persons who are compared: their rows are replaced, and their identifier stays."""
ONLY_IF = "Holds only if "
"""How an assumption begins without which nothing is guaranteed, and which nobody has checked."""

TYPES_ASSUMPTION = (
    "Assumes that the columns of the table and their types are public, that is, that they do not depend on the rows."
)
"""What holds of tables whose columns have types: whoever made the table may have read these off the rows."""


def sites_assumption(n_sites: int, n_colluding: int) -> str:
    """Return whom the noise of several sites holds against."""
    if n_colluding == 0:
        against = "everybody but the sites themselves, each of which knows its own noise"
    else:
        ours = "one site" if n_colluding == 1 else f"{n_colluding} sites"
        against = f"every coalition of at most {ours} with whoever combined them, and everybody who sees the release"
    return (
        f"The sum over {n_sites} sites is private by the noise of the sites that keep theirs secret: the promise holds "
        f"against {against}."
    )


MASKS_ASSUMPTION = (
    "That nobody sees more of a site than its part in the sum rests on masks (X25519, HKDF, ChaCha20), which is a "
    "promise about computation: without them a site's share has its own part of the noise alone, or none."
)
"""What keeps one site's share from whoever adds up."""
ONE_SITE_ASSUMPTION = (
    "Everybody is taken to be in the data of one site; who is at several is protected as a group of so many is."
)
"""What is assumed of people in the data of several sites."""


class Adjacency(StrEnum):
    """Which two data sets count as neighbours."""

    REPLACE_ONE = "replace_one"
    """One unit is exchanged for any other; the number of units is public. The papers' adjacency."""
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    """One unit is added or taken away; the number of units is itself private."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the adjacency named by `value` (a `Adjacency` or its text)."""
        return value if isinstance(value, cls) else cls(one_of("adjacency", value, tuple(cls)))


class Unit(StrEnum):
    """Whose data a promise is about: what the two neighbouring data sets differ in."""

    ROW = "row"
    """One row of the table."""
    PERSON = "person"
    """One person with all of their rows, however many there are."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the unit named by `value` (a `Unit` or its text)."""
        return value if isinstance(value, cls) else cls(one_of("unit", value, tuple(cls)))

    @property
    def in_words(self) -> str:
        """The unit as a sentence names it."""
        return "one row" if self is Unit.ROW else "one person with all of their rows"

    @property
    def counted(self) -> str:
        """What there are many of: n is the number of these."""
        return f"{self.value}s"


class Numerics(StrEnum):
    """How close the running code comes to the mathematics of the proof, best first."""

    EXACT = "exact"
    """The released bits have the distribution of the proof, as far as the generator's words are uniform."""
    IDEALIZED = "idealized"
    """The proof is for real arithmetic, and the code works in floats."""
    EMPIRICAL = "empirical"
    """A Markov chain whose convergence is checked, not proved."""

    @property
    def gap(self) -> int:
        """Rank of the numerics: 0 has no gap between proof and code."""
        return list(Numerics).index(self)


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) promise, with the event it stands for and the conditions it holds under.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss; infinity means that nothing is promised.
    delta : float
        Probability outside of that bound; 0 is pure differential privacy.
    adjacency : Adjacency
        The adjacency the promise is made for.
    numerics : Numerics
        What the running code adds to the mathematics; a bare record claims no more than real arithmetic does.
    rho : float, optional
        The zero-concentrated (zCDP) parameter, where it is proved; it makes composition tighter.
    parts : tuple of Guarantee
        What was composed, where this is a composition.
    assumptions : tuple of str
        Sentences a reader must know before relying on the promise.
    claimed : (float, float), optional
        The (epsilon, delta) that the paper behind the mechanism states, where it differs from the truth.
    reproducible : bool
        Drawn from a seed: anyone who knows it can undo the noise, so nothing is private.
    unit : Unit
        Whose data the promise is about.

    Examples
    --------
    >>> print(Guarantee(1.0))
    1-differentially private (replace one row), idealized numerics
    >>> print(Guarantee(1.0, unit=Unit.PERSON))
    1-differentially private (replace the rows of one person), idealized numerics
    >>> Guarantee(0.5, 1e-6).event.__class__.__name__
    'UnsupportedDpEvent'
    """

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    numerics: Numerics = Numerics.IDEALIZED
    rho: float | None = None
    parts: tuple["Guarantee", ...] = ()
    assumptions: tuple[str, ...] = ()
    claimed: tuple[float, float] | None = None
    reproducible: bool = False
    unit: Unit = Unit.ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        object.__setattr__(self, "numerics", Numerics(self.numerics))
        object.__setattr__(self, "unit", Unit(self.unit))
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InvalidParameterError(f"epsilon must be at least 0, got {self.epsilon!r}.")
        probability_below_one("delta", self.delta)
        if self.rho is not None and not (math.isfinite(self.rho) and self.rho >= 0):
            raise InvalidParameterError(f"rho must be a finite number of at least 0, got {self.rho!r}.")

    @property
    def is_private(self) -> bool:
        """Whether anything is promised at all: a finite epsilon, and no seed behind the noise."""
        return math.isfinite(self.epsilon) and not self.reproducible

    @property
    def weakness(self) -> str | None:
        """A sentence about an epsilon that hardly protects anybody; None up to 10, and where nothing is promised.

        Examples
        --------
        >>> print(Guarantee(50.0).weakness)
        epsilon = 50 is hardly any protection: the odds about one person may change by a factor of 10^22; choose at \
most 10, and 1 or less where you can.
        >>> Guarantee(10.0).weakness is None
        True
        """
        if not self.is_private or self.epsilon <= HARDLY_PROTECTS_ABOVE:
            return None
        return (
            f"epsilon = {self.epsilon:.6g} is hardly any protection: the odds about one person may change by a factor "
            f"of {odds_factor(self.epsilon)}; choose at most {HARDLY_PROTECTS_ABOVE:g}, and 1 or less where you can."
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """The assumptions without which nothing is guaranteed, and which nobody has checked."""
        return tuple(one for one in self.assumptions if one.startswith(ONLY_IF))

    @property
    def event(self) -> Any:
        """The `dp_accounting.DpEvent` this guarantee stands for, for use with other accountants.

        Every pure epsilon mechanism is a post-processing of binary randomized response at that epsilon, so
        that is its event. A bare (epsilon, delta) has none in dp-accounting and is marked unsupported there.
        """
        import dp_accounting  # a second of import time that a plain fit does not need

        if self.parts:
            return dp_accounting.ComposedDpEvent([part.event for part in self.parts])
        if not math.isfinite(self.epsilon):
            return dp_accounting.NonPrivateDpEvent()
        if self.rho is not None:
            return dp_accounting.ZCDpEvent(self.rho)
        if self.delta == 0:
            # Rounded down: a smaller chance of a random answer is a larger epsilon, the safe side.
            chance = 2 * math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
            noise = math.nextafter(chance * (1 - 2.0**-50), 0)
            return dp_accounting.RandomizedResponseDpEvent(noise, 2)
        return dp_accounting.UnsupportedDpEvent()

    @property
    def neighbours(self) -> str:
        """What tells two neighbouring data sets apart, in words."""
        if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            return f"add or remove {self.unit.in_words}"
        return "replace one row" if self.unit is Unit.ROW else "replace the rows of one person"

    @property
    def known_others(self) -> str:
        """What an adversary is taken to know, in words: everything but one unit."""
        return "all other rows" if self.unit is Unit.ROW else "the rows of all other persons"

    def for_unit(self, unit: Unit) -> Self:
        """Return the promise about another unit, parts and all: for statistics that one of them moves no further."""
        return replace(self, unit=unit, parts=tuple(part.for_unit(unit) for part in self.parts))

    def with_assumption(self, *sentences: str) -> Self:
        """Return the same promise with these assumptions too."""
        return replace(self, assumptions=(*self.assumptions, *sentences))

    def of_compared_units(self) -> Self:
        """Return the same promise with what holds where units are compared with one another."""
        return self.with_assumption(ORDER_ASSUMPTION if self.unit is Unit.ROW else IDENTIFIER_ASSUMPTION)

    def marked_reproducible(self) -> Self:
        """Return the record for a release drawn from a seeded generator."""
        return replace(self, reproducible=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON; floats are written as text so that infinity survives."""
        return {
            "epsilon": repr(float(self.epsilon)),
            "delta": repr(float(self.delta)),
            "adjacency": self.adjacency.value,
            "numerics": self.numerics.value,
            "rho": None if self.rho is None else repr(float(self.rho)),
            "parts": [part.to_dict() for part in self.parts],
            "assumptions": list(self.assumptions),
            "claimed": None if self.claimed is None else [repr(float(number)) for number in self.claimed],
            "reproducible": self.reproducible,
            "unit": self.unit.value,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return the guarantee that `to_dict` wrote."""
        claimed, assumptions = fields["claimed"], tuple(str(assumption) for assumption in fields["assumptions"])
        reproducible = truth_value("reproducible", fields["reproducible"])
        return cls(
            epsilon=float(fields["epsilon"]),
            delta=float(fields["delta"]),
            adjacency=Adjacency(fields["adjacency"]),
            numerics=Numerics(fields["numerics"]),
            rho=None if fields["rho"] is None else float(fields["rho"]),
            parts=tuple(cls.from_dict(part) for part in fields["parts"]),
            assumptions=assumptions,
            claimed=None if claimed is None else (float(claimed[0]), float(claimed[1])),
            reproducible=reproducible,
            unit=Unit(fields["unit"]),
        )

    def in_words(self) -> tuple[str, ...]:
        """Return the promise as plain sentences: the odds, the exception, who is protected, and the numerics.

        Examples
        --------
        >>> print(Guarantee(1.0).in_words()[0])
        Even for someone who knows all other rows, this release changes the odds of whether one person's data say A \
or B by a factor of at most e^1 = 2.72.
        """
        if self.reproducible:
            return (
                "Nothing is promised: the noise was drawn from a seed, and whoever knows the seed can take it away.",
            )
        if not math.isfinite(self.epsilon):
            return ("Nothing is promised: these values were released without protection.",)
        sentences = [
            f"Even for someone who knows {self.known_others}, this release changes the odds of whether "
            f"{_QUESTIONS[self.adjacency]} by a factor of at most e^{self.epsilon:.6g} = {odds_factor(self.epsilon)}."
        ]
        if self.weakness is not None:
            sentences.append(self.weakness)
        if self.delta > 0:
            sentences.append(
                f"It is at least as safe as a release that keeps this bound but for {chance(self.delta)} "
                f"(delta = {self.delta:.3g}), in which it may tell everything about that person."
            )
        return (*self.conditions, *sentences, _PROTECTED[self.unit][self.adjacency], _NUMERICS[self.numerics])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        told = dict.fromkeys((*self.in_words(), *self.assumptions))
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in told)
        colour = "#3b78b0" if self.is_private and not self.conditions else "#c0392b"
        return (
            f'<div style="border-left:4px solid {colour};padding:0 0 0 .8em"><strong>{html.escape(str(self))}</strong>'
            f'<ul style="margin:.3em 0 0">{lines}</ul></div>'
        )

    def __str__(self) -> str:
        if self.reproducible:
            return f"NOT PRIVATE: drawn from a seed (with a secret one it would be: {self._promise()})"
        if self.conditions:
            unchecked = " and ".join(one.removeprefix(ONLY_IF).partition(";")[0].rstrip(".") for one in self.conditions)
            return f"CONDITIONAL: only if {unchecked}, {self._promise()}"
        return self._promise()

    def _promise(self) -> str:
        if not math.isfinite(self.epsilon):
            return "not private"
        budget = f"{self.epsilon:.6g}" if self.delta == 0 else f"({self.epsilon:.6g}, {self.delta:.3g})"
        more = "; see assumptions" if self.assumptions else ""
        return f"{budget}-differentially private ({self.neighbours}), {self.numerics.value} numerics{more}"


_QUESTIONS = {
    Adjacency.REPLACE_ONE: "one person's data say A or B",
    Adjacency.ADD_OR_REMOVE_ONE: "one person's data are included",
}
_PROTECTED = {
    Unit.ROW: {
        Adjacency.REPLACE_ONE: "One person stands for one row: its contents are protected, and the number of rows is "
        "public.",
        Adjacency.ADD_OR_REMOVE_ONE: "One person stands for one row, there or not, and the number of rows is protected "
        "too; for what the row says, the factor counts twice.",
    },
    Unit.PERSON: {
        Adjacency.REPLACE_ONE: "A person is protected with all of their rows: what these say and how many they are. "
        "The number of persons is public.",
        Adjacency.ADD_OR_REMOVE_ONE: "A person is protected with all of their rows, there or not, and the number of "
        "persons is protected too; for what the rows say, the factor counts twice.",
    },
}
_NUMERICS = {
    Numerics.EXACT: "Exact numerics: the program draws its noise exactly as the proof says, in whole numbers.",
    Numerics.IDEALIZED: "Idealized numerics: the proof is for real numbers, and the program computes with 53 bits, so "
    "the last bits of what is released may tell more than the promise allows.",
    Numerics.EMPIRICAL: "Empirical numerics: the values come from a Markov chain whose convergence is checked by "
    "tests and not proved, so the promise rests on experiment.",
}
