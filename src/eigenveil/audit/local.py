"""Audits of the local model: one client's report, its row against another row."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..laws.base import FloatArray
from ..local.protocol import LocalProtocol, law_of
from ..local.wire import ID_BYTES
from .claims import law_claims
from .likelihood import features
from .neighbours import Neighbours, one_row_neighbours


class LocalSubject:
    """A local protocol: what one report says, on integer rows that the audit makes up.

    Rows are in units of the norm bound; shift and scale, which are public, play no part.

    Parameters
    ----------
    protocol : LocalProtocol
    """

    def __init__(self, protocol: LocalProtocol) -> None:
        self.protocol = protocol
        self.name = f"local:{protocol.law}"

    def parameters(self) -> dict[str, Any]:
        """Return the fields of the protocol."""
        kind = type(law_of(self.protocol))
        return {**asdict(self.protocol), "class": f"{kind.__module__}.{kind.__qualname__}"}

    def claims(self, delta: float) -> Mapping[str, float]:
        """Return what a report's guarantee states at this delta, and what the paper does."""
        return law_claims(law_of(self.protocol), delta)

    def neighbours(self) -> Sequence[Neighbours]:
        """Return tables of a single row, of norm 1 or 0."""
        return one_row_neighbours(self.protocol.n_features)

    def scores(self, data: Neighbours, side: int, n: int, generator: np.random.Generator) -> FloatArray:
        """Make n reports of the row and return their log-likelihood ratios, or their features where not known."""
        law = law_of(self.protocol)
        rows = [data.integer_rows(which, law.row_bits)[:1] for which in (0, 1)]
        ids = np.frombuffer(generator.bytes(ID_BYTES * n), dtype=np.uint8).reshape(n, ID_BYTES)
        payloads = law.perturb(np.repeat(rows[side], n, axis=0), ids, generator)
        first, second = (law.log_likelihood(payloads, ids, row[0]) for row in rows)
        if first is not None and second is not None:
            return first - second
        folded = [law.fold(payloads[i : i + 1], ids[i : i + 1]) for i in range(n)]
        sums, ones = (np.array(part, dtype=np.float64) for part in zip(*folded, strict=True))
        return features({"sums": sums, "ones": ones})
