"""`ShareReading`: shares of variance with their intervals, and the features whose variance the noise hides."""

from functools import cached_property

import numpy as np

from .component_reading import Z
from .errors import NoiseWarning, features_in_words, listed, warn_caller
from .matrix_reading import FloatArray
from .noise_reading import NoiseReading


class ShareReading(NoiseReading):
    """Shares of the components in the total, whose own noise counts too. Base of `Reading`."""

    @property
    def explained_variance_ratio_interval(self) -> FloatArray | None:
        """95 % intervals for the shares of the components; None where nothing can be said of their error."""
        shares, ends = self.explained_variance_ratio, self.explained_variance_interval
        return None if shares is None or ends is None else self._share_interval(shares, ends)

    @property
    def captured_variance_ratio_interval(self) -> FloatArray | None:
        """95 % interval for the share of all components together; None where nothing tells its error."""
        share, ends = self.captured_variance_ratio, self.captured_variance_interval
        return None if share is None or ends is None else self._share_interval(np.array([share]), ends[None])[0]

    @property
    def running_ratio(self) -> FloatArray | None:
        """Shares of the first 1, 2, ... components together; None where only a subspace was released."""
        variances = self.explained_variance
        if variances is None:
            return None
        return self._shares(np.cumsum(variances) if self._along is None else self._along.totals)

    @property
    def running_ratio_interval(self) -> FloatArray | None:
        """95 % intervals for these, each by itself; None where nothing tells their error."""
        shares = self.running_ratio
        along = self._along if self.has_matrix else None
        return None if shares is None or along is None else self._share_interval(shares, along.total_interval)

    def _share_interval(self, shares: FloatArray, ends: FloatArray) -> FloatArray:
        """Return intervals for shares from those for variances: the error of the total adds to theirs.

        Both errors mostly have the same sign, so their squares add up to too much rather than too little.
        """
        total, reach = self.total_variance, Z * self._share_total_sd
        if total <= reach:
            return np.tile([0.0, 1.0], (len(shares), 1))
        off = np.abs(ends / total - shares[:, None])
        whole = np.hypot(off, shares[:, None] * reach / total)
        return np.asarray(np.clip(shares[:, None] + whole * np.array([-1.0, 1.0]), 0.0, 1.0))

    @cached_property
    def _share_total_sd(self) -> float:
        """Standard deviation of the total that shares refer to."""
        reach = None if self._released_variances is None or self.law is None else self.law.variance_reach(1)
        if reach is None:
            return self._total_sd
        # The total is a sum of variances along all directions that were drawn and of the rest, each with noise.
        terms = self._values["quotients"].size
        return float(np.sqrt(2 * terms) / np.log(20)) * reach * self._noise_unit

    def warn_of_features(self) -> None:
        """Warn of features whose variance may be noise alone, by their names; from what was released alone."""
        names = features_in_words(self.feature_names, self.n_features)
        hidden = [str(names[position]) for position in self.drowned_features]
        if hidden:
            warn_caller(
                f"The noise hides the variances of {listed('feature', hidden, hidden)}: what is told of them may be "
                f"noise alone; more {self._counted}, a larger epsilon, a delta above 0, fewer features or narrower "
                "ranges would help.",
                NoiseWarning,
            )
