"""`NoiseReading`: what rises above the noise and what drowns in it, by the noise's own law."""

import zlib
from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from .component_reading import ComponentReading
from .errors import InvalidParameterError, NoiseWarning, features_in_words, listed, warn_caller
from .laws.additive import AdditiveLaw
from .matrix_reading import FloatArray
from .origin import ComponentsRequest
from .postprocess.above_noise import edge_quantile, n_above_edge, n_above_few_draws, n_above_noise, typical_edge
from .postprocess.noise_along import simulation
from .postprocess.shrinkage import SIMULATION_SEED
from .postprocess.spectrum import largest_eigenvalue, sorted_eigh

# From this size on the closed form loses hardly any power against a simulation.
_CLOSED_FORM = 32
# How often pure noise may pass without a warning.
_UNNOTICED = 0.001
# Draws that tell how far noise with another law in every basis reaches on average.
_DRAWS, _DRAWS_WIDE, _WIDE = 40, 3, 100
# A feature whose variance is within so many standard deviations of its noise may not vary at all.
_FEATURE_SDS = 2.0
_A_FEW = 20
# Up to this width noise that is not alike in every basis is drawn by its own law, often enough for a quantile.
_SIMULATED = 400
# From few draws, levels for noise this rare are taken where 0.05 is promised: it leaves room for their error.
_TOO_MANY = 0.01


class NoiseReading(ComponentReading):
    """Components and features against the noise. Base of `Reading`."""

    @property
    def _alike(self) -> bool:
        """Whether the noise is known in closed form and has the same law in every basis."""
        return self.noise_facts is not None and self._noise_map is None and not self.of_correlation

    @cached_property
    def n_above_noise(self) -> int:
        """How many components rise above the noise: more than there are with a probability of at most 5 %.

        Of correlations, how many rise above it from 1, which is what all of them are where nothing is correlated.
        """
        if not self.has_noise_law:
            raise InvalidParameterError("Components above the noise need a released matrix plus noise of a known law.")
        closed = self._alike and self.n_features >= _CLOSED_FORM
        if not closed and self.n_features <= _SIMULATED:
            values, vectors = self._eigensystem
            return n_above_noise(values - self.without_signal, vectors, self.noise_draw, generator=self._own_simulation)
        values, rows = self._some_leading
        count = self._n_above_edge if closed else self._n_above_few_draws
        found = count(values, rows)
        return found if found < values.size else count(*self._eigensystem)

    def _n_above_edge(self, values: FloatArray, rows: FloatArray) -> int:
        del rows
        facts = self.noise_facts
        assert facts is not None
        return n_above_edge(values, self.n_features, facts.off_variance * self._noise_unit**2, facts.excess)

    def _n_above_few_draws(self, values: FloatArray, rows: FloatArray) -> int:
        generator = self._own_simulation
        noises = [self.moment_draw(generator) for _ in range(_DRAWS_WIDE)]
        along_one = partial(self._along_one, _TOO_MANY)
        return n_above_few_draws(values - self.without_signal, rows, noises, along_one, excess=self._excess)

    @property
    def _own_simulation(self) -> np.random.Generator:
        """A generator with the same draws for this release only: its noise may be unlucky in no other one."""
        return np.random.default_rng([SIMULATION_SEED, zlib.crc32(self.integers["matrix"].tobytes())])

    @property
    def _excess(self) -> float:
        return 0.0 if self.noise_facts is None else self.noise_facts.excess

    @property
    def _some_leading(self) -> tuple[FloatArray, FloatArray]:
        """The largest eigenvalues that are known already, or a few of them, and their eigenvectors as rows."""
        known = [self.__dict__[name] for name in ("_eigensystem", "_leading") if name in self.__dict__]
        return known[0] if known else sorted_eigh(self.scaled_matrix, min(_A_FEW, self.n_features))

    @cached_property
    def above_noise(self) -> NDArray[np.bool_] | None:
        """Which components are found: above the noise, and surely with more than an average share of the variance.

        None where nothing is known of the noise on the variances along them.
        """
        if not self.has_noise_law or self.explained_variance_interval is None:
            return None
        least = self.total_variance / self.n_features if self.n_features > 1 else 0.0
        found = np.arange(len(self.components)) < self.n_above_noise
        return np.asarray(found & (self.explained_variance_interval[:, 0] > least))

    def noise_level(self, leading: int = 0) -> float | None:
        """Return what the largest eigenvalue of pure noise passes once in 1,000 times, beside some leading directions.

        None where the law of the noise is not known.
        """
        levels = self._noise_levels(leading, 1)
        return levels[0] if levels else None

    def _noise_levels(self, leading: int, count: int) -> list[float]:
        """Return the levels beside so many leading directions, and beside one more each; none where none is known."""
        sd = self.noise_sd if self.has_noise_law else None
        if sd is None:
            return []
        d, excess, ratio, along = self.n_features, self._excess, self._reach_ratio, self._rarely_along_one
        sizes = [max(1, d - first) for first in range(leading, leading + count)]
        edges = (edge_quantile(size, sd**2, excess * size / d, _UNNOTICED) for size in sizes)
        return [float(np.hypot(ratio * edge, along)) for edge in edges]

    @cached_property
    def _rarely_along_one(self) -> float:
        return self._along_one(_UNNOTICED, np.zeros((0, self.n_features)))

    def _along_one(self, alpha: float, without: FloatArray) -> float:
        """Return what noise passes with probability alpha along its largest direction beside some rows.

        0 where it is as large along all.
        A direction that has most of the noise is one number, whose law is wider than that of an edge.
        """
        law, products = self.law, self._noise_products
        if self._alike or self.of_correlation or not isinstance(law, AdditiveLaw):
            return 0.0
        facts = law.noise_facts()
        most = 1.0 if products is None else largest_eigenvalue(products, without)
        variance = max(facts.diagonal_variance, facts.diagonal_variance - facts.diagonal_extra)
        return most * self._noise_unit * float(np.sqrt(variance)) * law.noise_quantiles(1 - 2 * alpha)[1]

    @cached_property
    def _noise_products(self) -> FloatArray | None:
        mapping = self._noise_map
        return None if mapping is None else np.asarray(mapping @ mapping.T)

    @cached_property
    def _reach_ratio(self) -> float:
        """How much farther the noise reaches than noise as large that has the same law in every basis."""
        if self._alike or self.noise_sd is None:
            return 1.0
        draws = _DRAWS if self.n_features <= _WIDE else _DRAWS_WIDE
        none = np.zeros((0, self.n_features))
        tops = [
            largest_eigenvalue(self.moment_draw(generator), none) for generator in [simulation()] for _ in range(draws)
        ]
        return float(np.mean(tops)) / typical_edge(self.n_features, self.noise_sd**2)

    @cached_property
    def drowned_features(self) -> tuple[int, ...]:
        """Positions of features whose released variance is not above the noise on it; none of correlations."""
        if not self.has_noise_law or self.of_correlation:
            return ()
        matrix, still = self.scaled_matrix, set(self.origin.without_range)
        low = np.flatnonzero(np.diag(matrix) <= _FEATURE_SDS * self._feature_sds)
        return tuple(int(position) for position in low if position not in still)

    @property
    def _feature_sds(self) -> FloatArray:
        """Standard deviations of the noise on the diagonal of `scaled_matrix`."""
        facts, mapping = self.noise_facts, self._noise_map
        sizes = np.ones(self.n_features) if mapping is None else np.square(mapping).sum(axis=1)
        if facts is None:
            return np.asarray(sizes * (np.sqrt(2) * (self.noise_sd or 0.0)))
        return np.asarray(sizes * (self._noise_unit * np.sqrt(2 * facts.off_variance + facts.shared_variance)))

    def _warn_of_noise(self, values: Sequence[float]) -> None:
        """Warn of components and features that drown; from what was released alone."""
        if self.of_correlation and self.n_features == 1:  # which is 1, whatever the noise
            return
        levels = self._noise_levels(0, len(values)) or [0.0] * len(values)
        drowned = [i for i, (value, level) in enumerate(zip(values, levels, strict=True)) if level and value <= level]
        request = self.origin.request
        chosen = isinstance(request, ComponentsRequest) and isinstance(request.n_components, int)
        # Who asks for all gets some that are noise, and correlations near 1 are what features have by themselves.
        if not drowned or (drowned[0] > 0 and (self.of_correlation or not chosen)):
            return
        if drowned[0] == 0:
            what = "The noise swamps the signal: no released eigenvalue is above the noise edge"
        else:
            what = f"The noise may be all there is in {listed('component', drowned, [i + 1 for i in drowned])}"
        names = features_in_words(self.feature_names, self.n_features) if self.drowned_features else []
        features = [names[position] for position in self.drowned_features]
        hidden = f", and hides the variances of {listed('feature', features, features)}" if features else ""
        wide = ", and so would a public random projection of the features, or PrivateSparsePCA"
        warn_caller(
            f"{what}{hidden}; more {self._counted}, a larger epsilon, a delta above 0 or fewer features would help"
            f"{wide if (self.n_rows or 0) < self.n_features else ''}.",
            NoiseWarning,
        )
