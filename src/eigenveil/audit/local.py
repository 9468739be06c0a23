"""Audits of the local model: one client's report, its row against another row."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..local.client import encode_many, on_grid
from ..local.directions import DIRECTION_SCALE, DirectionMechanism
from ..local.double_cap import DoubleCap
from ..local.gaussian import UpperTriangleNoise
from ..local.one_bit import OneBit, public_directions
from ..local.protocol import LocalProtocol
from ..local.wire import Batch, unpack
from .claims import claims_of
from .pairs import Pair, one_row_pairs

FloatArray = NDArray[np.float64]


class LocalTarget:
    """A local protocol: the bytes of one report, decoded as the server decodes them.

    Parameters
    ----------
    protocol : LocalProtocol
    """

    def __init__(self, protocol: LocalProtocol) -> None:
        self.protocol = protocol
        self.name = f"local:{protocol.mechanism}"

    def parameters(self) -> dict[str, Any]:
        """Return the fields of the protocol."""
        kind = type(self.protocol.law)
        return {**asdict(self.protocol), "class": f"{kind.__module__}.{kind.__qualname__}"}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return what a report's guarantee states at this delta, and what the paper does."""
        return claims_of(self.protocol.guarantee(), delta)

    def pairs(self) -> Sequence[Pair]:
        """Return pairs of single rows, at the protocol's norm bound."""
        p = self.protocol
        scale = 1.0 if p.scale is None else np.asarray(p.scale)
        shift = 0.0 if p.shift is None else np.asarray(p.shift)
        pairs = one_row_pairs(p.n_features)
        return [
            Pair(pair.name, pair.first * p.norm_bound / scale + shift, pair.second * p.norm_bound / scale + shift)
            for pair in pairs
        ]

    def scores(self, pair: Pair, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Encode the row n times and return the log-likelihood ratio of every report."""
        law = self.protocol.law
        reports = encode_many(self.protocol, np.repeat(pair.rows(side), n, axis=0), generator)
        batch = unpack(reports, self.protocol.tag, law.payload_bytes)
        first, second = (on_grid(self.protocol, pair.rows(which))[0] for which in (0, 1))
        if isinstance(law, UpperTriangleNoise):
            return _noisy(law, batch, first) - _noisy(law, batch, second)
        assert isinstance(law, DoubleCap | OneBit)
        likelihood = _in_caps if isinstance(law, DoubleCap) else _bit
        return np.log(likelihood(law, batch, first)) - np.log(likelihood(law, batch, second))


def _noisy(law: UpperTriangleNoise, batch: Batch, row: FloatArray) -> FloatArray:
    noise = (law._entries(batch.payloads) - row[law.rows_] * row[law.columns_]) / law.grid
    return np.asarray(-0.5 * np.square(noise) @ np.where(law.on_diagonal, law.sigma**-2, law.off_diagonal_sd**-2))


def _in_caps(law: Any, batch: Batch, row: FloatArray) -> FloatArray:
    """Density of a direction, with respect to the uniform law, and of the trace bit."""
    directions = law._integers(batch.payloads) / DIRECTION_SCALE
    inside = np.square(directions @ _unit(row)) > law.law.threshold
    kept = np.where(inside, law.law.hit / law.law.mass, (1 - law.law.hit) / (1 - law.law.mass))
    bits = batch.payloads[:, -1] if law.measures_trace else None
    return _mixed(law, row, kept, np.ones(len(kept)), bits)


def _bit(law: Any, batch: Batch, row: FloatArray) -> FloatArray:
    """Probability of the bit about a public direction, and of the trace bit."""
    public = public_directions(batch.ids, law.n_features) / DIRECTION_SCALE
    near = np.square(public @ _unit(row)) > law.law.threshold
    bit = (batch.payloads[:, 0] & 1).astype(bool)
    truth = 1 / (1 + math.exp(-law.direction_epsilon))
    kept = np.where(bit == near, truth, 1 - truth)
    likely = law.law.mass * truth + (1 - law.law.mass) * (1 - truth)
    bits = batch.payloads[:, 0] >> 1 if law.measures_trace else None
    return _mixed(law, row, kept, np.where(bit, likely, 1 - likely), bits)


def _mixed(
    law: DirectionMechanism, row: FloatArray, kept: FloatArray, dropped: FloatArray, bits: NDArray[Any] | None
) -> FloatArray:
    """Mix over the coin that keeps the direction or drops it, which the trace bit reports noisily."""
    squared = float(row @ row) / 4.0**law.row_bits
    if bits is None:
        return kept if squared > 0 else dropped
    truth = 1 / (1 + math.exp(-law.trace_epsilon))
    said_kept = np.where(bits == 1, truth, 1 - truth)
    return np.asarray(squared * kept * said_kept + (1 - squared) * dropped * (1 - said_kept))


def _unit(row: FloatArray) -> FloatArray:
    return np.asarray(row / max(1.0, float(np.linalg.norm(row))))
