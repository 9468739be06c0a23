"""`Averaged`: the law of several releases of one table, averaged by public weights. It is read and never drawn."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..accounting.composition import compose
from ..errors import InvalidParameterError
from ..guarantee import Guarantee, Numerics
from .additive import AdditiveLaw
from .base import FloatArray, IntArray, Integers, Values
from .central import CentralLaw
from .noise_facts import NoiseFacts
from .noise_tails import WIDEST, Tails, simulated_tails
from .table import law_from

# What may differ between laws whose integers mean the same.
_OWN = ("epsilon", "delta", "share", "n_components", "accept_inexact")


def kind_of(law: CentralLaw) -> tuple[Any, ...]:
    """Return what two laws must share for their integers to be averaged: all but the size of the noise."""
    if isinstance(law, Averaged):
        return kind_of(law.parts[0])
    public = {name: value for name, value in law.parameters().items() if name not in _OWN}
    return law.name, tuple(sorted(public.items()))


class Averaged(AdditiveLaw):
    """The weighted mean of independent releases by one law, each with a noise of its own size.

    What leaves is a sum of the parts' integers with public whole weights, so it is exact where they are. Everything
    that is read off it is linear in them, with factors that do not depend on the size of the noise.

    Parameters
    ----------
    parts : sequence of mapping
        ``law``, ``parameters``, ``weight`` (a whole number) and ``digest`` of the integers of every release.

    Formal guarantee
    ----------------
    That of all parts together, by composition: the average is post-processing of them.

    Examples
    --------
    >>> one = {"law": "laplace", "parameters": {"epsilon": 1.0, "n_features": 3}, "weight": 1, "digest": ""}
    >>> law = Averaged(parts=[one, one])
    >>> law.guarantee().epsilon, round(law.parts[0].off_diagonal_sd / law.off_diagonal_sd, 6)
    (2.0, 1.414214)
    """

    name = "averaged"
    numerics = Numerics.EXACT
    source = "inverse-variance mean"
    use_when = "releases of one table, added"
    parts: tuple[AdditiveLaw, ...]

    def __init__(self, *, parts: Sequence[Mapping[str, Any]]) -> None:
        made = tuple(law_from(str(part["law"]), part["parameters"]) for part in parts)
        if not made or not all(isinstance(law, AdditiveLaw) for law in made) or len({*map(kind_of, made)}) > 1:
            raise InvalidParameterError("An average is of releases by one law that adds noise.")
        self.parts = tuple(law for law in made if isinstance(law, AdditiveLaw))
        self.weights = tuple(int(part["weight"]) for part in parts)
        self.digests = tuple(str(part["digest"]) for part in parts)
        if min(self.weights) < 1:
            raise InvalidParameterError("The weights of an average are whole numbers of at least 1.")
        first, promise = made[0], self.guarantee()
        super().__init__(
            epsilon=promise.epsilon,
            delta=promise.delta,
            n_features=first.n_features,
            n_components=min(law.n_components for law in made),
            relation=first.relation,
            accept_inexact=True,  # whoever made the parts has said so
        )

    @classmethod
    def refusal(cls, delta: float, calibration: str | None = None) -> str | None:
        """Return nothing: the parts were made."""
        del delta, calibration
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters in JSON types."""
        told = zip(self.parts, self.weights, self.digests, strict=True)
        return {
            "parts": [
                {"law": law.name, "parameters": law.parameters(), "weight": weight, "digest": digest}
                for law, weight, digest in told
            ]
        }

    def guarantee(self) -> Guarantee:
        """Return what all parts promise together."""
        return compose([law.guarantee() for law in self.parts])

    def draw(self, gram: IntArray, grid: int, n_rows: int, generator: np.random.Generator) -> Integers:
        """Refuse: an average is made of releases."""
        del gram, grid, n_rows, generator
        raise InvalidParameterError("An average is not drawn; add two releases.")

    # Its noise.

    @cached_property
    def _shares(self) -> list[float]:
        return [weight / sum(self.weights) for weight in self.weights]

    def _root(self, sizes: Sequence[float]) -> float:
        return math.hypot(*(share * size for share, size in zip(self._shares, sizes, strict=True)))

    def noise_scale(self) -> float:
        """Return the root of the summed squares of the parts' scales."""
        return self._root([law.noise_scale() for law in self.parts])

    @property
    def off_diagonal_sd(self) -> float:
        """Standard deviation beside the diagonal."""
        return self._root([law.off_diagonal_sd for law in self.parts])

    @property
    def noise_reach(self) -> float:
        """The mean of the parts' reaches."""
        return sum(share * law.noise_reach for share, law in zip(self._shares, self.parts, strict=True))

    @property
    def noise_mean(self) -> float:
        """The mean of the parts' means."""
        return sum(share * law.noise_mean for share, law in zip(self._shares, self.parts, strict=True))

    def noise(self, generator: np.random.Generator, grid: float = 1.0) -> FloatArray:
        """Return the mean of the parts' noises: for simulation, and never for data."""
        drawn = (share * law.noise(generator, grid) for share, law in zip(self._shares, self.parts, strict=True))
        return np.asarray(sum(drawn, np.zeros((self.n_features, self.n_features))))

    @property
    def rotation_invariant(self) -> bool:
        """As that of the parts."""
        return self.parts[0].rotation_invariant

    @property
    def sharp_trace(self) -> bool:
        """As that of the parts."""
        return self.parts[0].sharp_trace

    def noise_facts(self) -> NoiseFacts:
        """Return the summed second moments; free cumulants of independent noises add up too."""
        facts, squares = [law.noise_facts() for law in self.parts], [share**2 for share in self._shares]

        def summed(name: str) -> float:
            return float(sum(square * getattr(one, name) for square, one in zip(squares, facts, strict=True)))

        fourth = sum(s**2 * one.excess * one.off_variance**2 for s, one in zip(squares, facts, strict=True))
        names = ("off_variance", "trace_variance", "count_variance", "trace_with_count", "diagonal_extra")
        known = {name: summed(name) for name in names}
        excess = fourth / known["off_variance"] ** 2
        return NoiseFacts(self.n_features, excess=excess, gaussian=all(one.gaussian for one in facts), **known)

    def noise_quantiles(self, level: float) -> tuple[float, float]:
        """Return those of a normal number where all parts are, else simulated ones."""
        if self.noise_facts().gaussian:
            return (float(ndtri((1 + level) / 2)),) * 2
        return super().noise_quantiles(level)

    @property
    def common_size(self) -> float:
        """As in any other law; 0 for normal numbers."""
        return 0.0 if self.noise_facts().gaussian else super().common_size

    def _tails(self) -> Tails:
        width = min(self.n_features, WIDEST)
        narrow = [
            part | {"parameters": part["parameters"] | {"n_features": width, "n_components": 1}, "digest": ""}
            for part in self.parameters()["parts"]
        ]
        return _tails_of(json.dumps(narrow, sort_keys=True))

    # What averaged values say.

    def second_moment(self, values: Values, n_rows: int) -> FloatArray:
        """Return what one part would say of the same values, with the mean of all noises taken off."""
        first = self.parts[0]
        moment = np.array(first.second_moment(dict(values), n_rows))
        moment[np.diag_indices_from(moment)] -= (self.noise_mean - first.noise_mean) / n_rows
        return moment

    def estimated_rows(self, values: Values) -> float | None:
        """Return what one part would say of the same values."""
        return self.parts[0].estimated_rows(values)

    def simulated_noise(self, generator: np.random.Generator) -> FloatArray:
        """Return the mean of what is left of the parts' noises."""
        return self.simulated_errors(generator)[0]

    def simulated_errors(self, generator: np.random.Generator) -> tuple[FloatArray, float]:
        """Return the same, with the mean of the errors of the numbers of rows."""
        drawn = [law.simulated_errors(generator) for law in self.parts]
        noise = sum(share * one for share, (one, _) in zip(self._shares, drawn, strict=True))
        miscounted = sum(share * count for share, (_, count) in zip(self._shares, drawn, strict=True))
        return np.asarray(noise), float(miscounted)


@lru_cache(maxsize=64)
def _tails_of(parts: str) -> Tails:
    law = Averaged(parts=json.loads(parts))
    return simulated_tails(law.simulated_noise, law.n_features)


def released_by(name: str, parameters: Mapping[str, Any]) -> CentralLaw:
    """Return the law that a release names, drawn or averaged.

    Examples
    --------
    >>> released_by("laplace", {"epsilon": 1.0, "n_features": 3}).name
    'laplace'
    """
    return Averaged(**parameters) if name == Averaged.name else law_from(name, parameters)
