"""`Guarantee`: epsilon and delta, the adjacency, the privacy unit and the assumptions, in numbers and in words.

A guarantee is a function of public parameters, never of data. Probabilities and odds in words are rounded up.
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
"""Above this epsilon the odds can change by a factor of more than 22,000."""


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


class Assumption(str):
    """A sentence about what a guarantee assumes, with a short form for the one line that states the guarantee.

    Parameters
    ----------
    sentence : str
        The assumption in full.
    short : str
        The assumption in a few words, without a period.

    Examples
    --------
    >>> assumption = Assumption("Assumes that the identifiers are public.", "assumes public identifiers")
    >>> print(Guarantee(1.0).with_assumption(assumption))
    1-DP (pure), replace-one adjacency, unit: one row; assumes public identifiers; idealized sampling
    """

    short: str

    def __new__(cls, sentence: str, short: str) -> Self:
        """Make a string with a short form."""
        made = super().__new__(cls, sentence)
        made.short = short
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (str(self), self.short)


FLOAT_ASSUMPTION = Assumption(
    "The noise is sampled in float64, so the last bits of the released values can distinguish neighbouring data sets "
    "(Mironov 2012).",
    "noise in float64",
)
"""Which attack applies to noise that was drawn in floats."""
DIRECTION_ASSUMPTION = Assumption(
    "The directions are computed from the data in float64, so their last bits can identify the data (compare Mironov "
    "2012).",
    "directions in float64",
)
"""Which attack applies to directions that were drawn in floats."""
ORDER_ASSUMPTION = Assumption(
    "Assumes that the order of rows does not depend on their values. Shuffle sorted tables first, without a fixed "
    "seed.",
    "assumes row order independent of values",
)
"""For statistics that use differences of neighbouring rows: replacing a row moves no other row."""
IDENTIFIER_ASSUMPTION = Assumption(
    "Assumes that the identifiers of privacy units are public. The guarantee protects the values in the rows of a "
    "unit, not which identifiers occur.",
    "assumes public identifiers",
)
"""For statistics that use differences of neighbouring privacy units, which are sorted by identifier."""
TYPES_ASSUMPTION = Assumption(
    "Assumes that the columns of the table and their types are public, that is, that they do not depend on the rows.",
    "assumes public column types",
)
"""For tables whose columns have types: these may have been inferred from the rows when the table was made."""


def sites_assumption(n_sites: int, n_colluding: int) -> Assumption:
    """Return against whom the noise of several sites protects."""
    if n_colluding == 0:
        against = "everyone except the sites themselves, each of which knows its own noise"
        short = "holds against everyone except the sites"
    else:
        ours = "one site" if n_colluding == 1 else f"{n_colluding} sites"
        against = f"every coalition of at most {ours} with the coordinator, and everyone who sees the release"
        short = f"holds against at most {n_colluding} of {n_sites} sites colluding"
    return Assumption(
        f"The sum over {n_sites} sites is protected by the noise of the sites that keep their noise secret: the "
        f"guarantee holds against {against}.",
        short,
    )


MASKS_ASSUMPTION = Assumption(
    "Assumes that the masks of the sites (X25519, HKDF, ChaCha20) are computationally secure. Without the masks, a "
    "site's share contains only its own part of the noise, or none.",
    "assumes secure masks",
)
"""What keeps the share of one site secret from the coordinator."""
ONE_SITE_ASSUMPTION = Assumption(
    "Assumes that each person is in the data of one site. A person at k sites is protected like a group of k people.",
    "assumes each person at one site",
)
"""What is assumed of people in the data of several sites."""


class Adjacency(StrEnum):
    """The relation between two neighbouring data sets."""

    REPLACE_ONE = "replace_one"
    """One unit is exchanged for any other; the number of units is public. The papers' adjacency."""
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    """One unit is added or taken away; the number of units is itself private."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the adjacency named by `value` (a `Adjacency` or its text)."""
        return value if isinstance(value, cls) else cls(one_of("adjacency", value, tuple(cls)))


class Unit(StrEnum):
    """The privacy unit: what two neighbouring data sets differ in."""

    ROW = "row"
    """One row of the table."""
    PERSON = "person"
    """All rows of one privacy unit, usually a person, however many there are."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return the unit named by `value` (a `Unit` or its text)."""
        return value if isinstance(value, cls) else cls(one_of("unit", value, tuple(cls)))

    @property
    def in_words(self) -> str:
        """The unit in words."""
        return "one row" if self is Unit.ROW else "all rows of one privacy unit"

    @property
    def counted(self) -> str:
        """The plural of the unit: n is the number of these."""
        return "rows" if self is Unit.ROW else "privacy units"


class Numerics(StrEnum):
    """The sampling of the noise, compared with the proof; best first."""

    EXACT = "exact"
    """The released bits have exactly the distribution in the proof, given uniform random bits."""
    IDEALIZED = "idealized"
    """The proof is for real arithmetic; the code uses float64."""
    EMPIRICAL = "empirical"
    """A Markov chain whose convergence is tested, not proved."""

    @property
    def gap(self) -> int:
        """Rank of the numerics: 0 has no gap between proof and code."""
        return list(Numerics).index(self)


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy guarantee: (epsilon, delta), adjacency, privacy unit and assumptions.

    `print` shows it in one line.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss; infinity means no privacy.
    delta : float
        Probability that the bound may fail; 0 is pure differential privacy.
    adjacency : Adjacency
        Which data sets are neighbours.
    numerics : Numerics
        How the noise is sampled.
    rho : float, optional
        The zero-concentrated DP (zCDP) parameter, where it is proved; used for tighter composition.
    parts : tuple of Guarantee
        The guarantees that were composed, if any.
    assumptions : tuple of Assumption or str
        What the guarantee assumes, in sentences.
    claimed : (float, float), optional
        The (epsilon, delta) that the paper of the mechanism states, where it differs.
    reproducible : bool
        Whether the noise came from a seed; then nothing is private.
    unit : Unit
        The privacy unit.
    mu : float, optional
        For Gaussian noise: the l2 sensitivity divided by the standard deviation, which is the parameter of Gaussian
        DP. Discrete Gaussian noise is within a total variation distance of delta/(100 (1 + e^epsilon)) of it.

    Examples
    --------
    >>> print(Guarantee(1.0, numerics="exact"))
    1-DP (pure), replace-one adjacency, unit: one row; exact sampling
    >>> print(Guarantee(1.0, 1e-6, unit=Unit.PERSON, rho=0.0184, mu=0.192))
    (1, 1e-06)-DP, rho = 0.0184, mu = 0.192, replace-one adjacency, unit: all rows of one privacy unit; idealized \
sampling
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
    mu: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        object.__setattr__(self, "numerics", Numerics(self.numerics))
        object.__setattr__(self, "unit", Unit(self.unit))
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise InvalidParameterError(f"epsilon must be at least 0, got {self.epsilon!r}.")
        probability_below_one("delta", self.delta)
        for name, value in (("rho", self.rho), ("mu", self.mu)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InvalidParameterError(f"{name} must be a finite number of at least 0, got {value!r}.")

    @property
    def is_private(self) -> bool:
        """Whether epsilon is finite and the noise came from no seed."""
        return math.isfinite(self.epsilon) and not self.reproducible

    @property
    def weakness(self) -> str | None:
        """A sentence about an epsilon above 10, which hardly protects; None for others and without privacy.

        Examples
        --------
        >>> print(Guarantee(50.0).weakness)
        epsilon = 50 is hardly any protection: the odds about one person can change by a factor of 10^22. Use at \
most 10, and 1 or less if possible.
        >>> Guarantee(10.0).weakness is None
        True
        """
        if not self.is_private or self.epsilon <= HARDLY_PROTECTS_ABOVE:
            return None
        return (
            f"epsilon = {self.epsilon:.6g} is hardly any protection: the odds about one person can change by a factor "
            f"of {odds_factor(self.epsilon)}. Use at most {HARDLY_PROTECTS_ABOVE:g}, and 1 or less if possible."
        )

    @property
    def mechanisms(self) -> tuple["Guarantee", ...]:
        """The guarantees of the mechanisms that were composed, each with its own numbers; itself if it is one.

        `eigenveil.interop.dp_accounting` makes events of them for other accountants.
        """
        return self.parts or (self,)

    @property
    def neighbours(self) -> str:
        """The difference between two neighbouring data sets, in words."""
        verb = "add or remove" if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE else "replace"
        return f"{verb} {self.unit.in_words}"

    @property
    def known_others(self) -> str:
        """The data that the attacker is assumed to know, in words: everything except one unit."""
        return "all other rows" if self.unit is Unit.ROW else "the rows of all other privacy units"

    def for_unit(self, unit: Unit) -> Self:
        """Return this guarantee, parts included, for another privacy unit with the same sensitivity."""
        return replace(self, unit=unit, parts=tuple(part.for_unit(unit) for part in self.parts))

    def with_assumption(self, *sentences: str) -> Self:
        """Return this guarantee with more assumptions."""
        return replace(self, assumptions=(*self.assumptions, *sentences))

    def of_compared_units(self) -> Self:
        """Return the guarantee of a statistic that uses differences of neighbouring units, with its assumption."""
        return self.with_assumption(ORDER_ASSUMPTION if self.unit is Unit.ROW else IDENTIFIER_ASSUMPTION)

    def marked_reproducible(self) -> Self:
        """Return the guarantee of a release whose noise came from a seed."""
        return replace(self, reproducible=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON; floats are written as text so that infinity survives."""
        fields = {
            "epsilon": repr(float(self.epsilon)),
            "delta": repr(float(self.delta)),
            "adjacency": self.adjacency.value,
            "numerics": self.numerics.value,
            "rho": None if self.rho is None else repr(float(self.rho)),
            "parts": [part.to_dict() for part in self.parts],
            "assumptions": [
                {"sentence": str(one), "short": one.short} if isinstance(one, Assumption) else one
                for one in self.assumptions
            ],
            "claimed": None if self.claimed is None else [repr(float(number)) for number in self.claimed],
            "reproducible": self.reproducible,
            "unit": self.unit.value,
        }
        return fields if self.mu is None else {**fields, "mu": repr(float(self.mu))}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return the guarantee that `to_dict` wrote."""
        claimed, mu = fields["claimed"], fields.get("mu")
        reproducible = truth_value("reproducible", fields["reproducible"])
        return cls(
            epsilon=float(fields["epsilon"]),
            delta=float(fields["delta"]),
            adjacency=Adjacency(fields["adjacency"]),
            numerics=Numerics(fields["numerics"]),
            rho=None if fields["rho"] is None else float(fields["rho"]),
            parts=tuple(cls.from_dict(part) for part in fields["parts"]),
            assumptions=tuple(
                Assumption(one["sentence"], one["short"]) if isinstance(one, Mapping) else str(one)
                for one in fields["assumptions"]
            ),
            claimed=None if claimed is None else (float(claimed[0]), float(claimed[1])),
            reproducible=reproducible,
            unit=Unit(fields["unit"]),
            mu=None if mu is None else float(mu),
        )

    def in_words(self) -> tuple[str, ...]:
        """Return the guarantee in plain sentences: the odds, delta, the privacy unit and the sampling.

        Examples
        --------
        >>> print(Guarantee(1.0).in_words()[0])
        Whatever an attacker believes about the data of one person, this release changes the odds by at most a factor \
of e^1 = 2.72, even if the attacker knows all other rows.
        """
        if self.reproducible:
            return ("Not private: the noise was drawn from a seed, and whoever knows the seed can remove the noise.",)
        if not math.isfinite(self.epsilon):
            return ("Not private: these values were released without protection.",)
        sentences = [
            f"Whatever an attacker believes about {_QUESTIONS[self.adjacency]}, this release changes the odds by at "
            f"most a factor of e^{self.epsilon:.6g} = {odds_factor(self.epsilon)}, even if the attacker knows "
            f"{self.known_others}."
        ]
        if self.weakness is not None:
            sentences.append(self.weakness)
        if self.delta > 0:
            sentences.append(
                f"The release is at least as private as one that keeps this bound except for {chance(self.delta)} "
                f"(delta = {self.delta:.3g}), in which case it may reveal everything about that person."
            )
        return (*sentences, _PROTECTED[self.unit][self.adjacency], _SAMPLING[self.numerics])

    def _repr_html_(self) -> str:
        """Return the guarantee as HTML for a notebook."""
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in (*self.in_words(), *self.assumptions))
        colour = "#3b78b0" if self.is_private else "#c0392b"
        return (
            f'<div style="border-left:4px solid {colour};padding:0 0 0 .8em"><strong>{html.escape(str(self))}</strong>'
            f'<ul style="margin:.3em 0 0">{lines}</ul></div>'
        )

    def __str__(self) -> str:
        if self.reproducible:
            return f"NOT PRIVATE: drawn from a seed; with secret noise: {self._line()}"
        return self._line()

    def _line(self) -> str:
        if not math.isfinite(self.epsilon):
            return "not private"
        budget = f"{self.epsilon:.6g}-DP (pure)" if self.delta == 0 else f"({self.epsilon:.6g}, {self.delta:.3g})-DP"
        concentrated = [f"{name} = {value:.3g}" for name, value in (("rho", self.rho), ("mu", self.mu)) if value]
        adjacency = f"{self.adjacency.value.replace('_', '-')} adjacency"
        remarks = [one.short if isinstance(one, Assumption) else "see assumptions" for one in self.assumptions]
        if self.epsilon > HARDLY_PROTECTS_ABOVE:
            remarks.append(f"weak (epsilon > {HARDLY_PROTECTS_ABOVE:g})")
        core = ", ".join([budget, *concentrated, adjacency, f"unit: {self.unit.in_words}"])
        return "; ".join([core, *dict.fromkeys(remarks), f"{self.numerics.value} sampling"])


_QUESTIONS = {
    Adjacency.REPLACE_ONE: "the data of one person",
    Adjacency.ADD_OR_REMOVE_ONE: "whether the data of one person are included",
}
_PROTECTED = {
    Unit.ROW: {
        Adjacency.REPLACE_ONE: "The privacy unit is one row: its values are protected, and the number of rows is "
        "public. A person is protected as stated only if the person has one row.",
        Adjacency.ADD_OR_REMOVE_ONE: "The privacy unit is one row: its presence is protected, and so is the number of "
        "rows. For its values, the factor applies twice. A person is protected as stated only if the person has one "
        "row.",
    },
    Unit.PERSON: {
        Adjacency.REPLACE_ONE: "The privacy unit is all rows of one person: their values and their number are "
        "protected. The number of privacy units is public.",
        Adjacency.ADD_OR_REMOVE_ONE: "The privacy unit is all rows of one person: their presence is protected, and so "
        "is the number of privacy units. For their values, the factor applies twice.",
    },
}
_SAMPLING = {
    Numerics.EXACT: "Exact sampling: the noise has exactly the distribution in the proof and is drawn on integers.",
    Numerics.IDEALIZED: "Idealized sampling: the proof is for real numbers and the program uses float64, so the last "
    "bits of the released values may reveal more than the guarantee allows.",
    Numerics.EMPIRICAL: "Empirical sampling: the values come from a Markov chain whose convergence is tested but not "
    "proved, so the guarantee rests on experiments.",
}
