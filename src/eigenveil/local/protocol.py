"""`LocalProtocol`: the public agreement between clients and server, as a small JSON file with a fingerprint."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..errors import (
    InvalidParameterError,
    integer_between,
    one_of,
    positive_number,
    probability_below_one,
)
from ..guarantee import Guarantee
from ..rows import RowBound
from .double_cap import DoubleCap
from .gaussian import LocalGaussian, PaperGaussian
from .mechanism import LocalMechanism
from .one_bit import OneBit
from .wire import OVERHEAD_BYTES, TAG_BYTES

if TYPE_CHECKING:
    from ..release import Release

FORMAT = 1
LOCAL_MECHANISMS: dict[str, type[LocalMechanism]] = {
    mechanism.name: mechanism for mechanism in (DoubleCap, OneBit, LocalGaussian, PaperGaussian)
}
# Beyond this e^epsilon leaves the range where the formulas keep their digits, and nothing is private anyway.
LARGEST_EPSILON = 30.0


@dataclass(frozen=True)
class LocalProtocol:
    """Everything client and server must agree on; all of it is public, and none may come from private rows.

    Parameters
    ----------
    n_features : int
        Width of a row, d (at least 2).
    epsilon : float
        What one report may cost its client. ``double_cap`` and ``one_bit`` are pure: their delta is 0.
    delta : float
        0 is pure differential privacy.
    norm_bound : float
        Euclidean norm, in the units of ``scale * (x - shift)``, beyond which rows are shortened.
    mechanism : {"double_cap", "one_bit", "gaussian", "gaussian_paper"}
        How a row becomes a report; docs/local.md compares them.
    row_norms : {"any", "unit"}
        ``"unit"`` scales every row to the norm bound: only its direction counts, and the trace is known.
    trace_share : float
        The share of epsilon that ``double_cap`` and ``one_bit`` spend on the trace where it is not known.
    shift, scale : sequence of float, optional
        Public location and positive scale of every feature.
    purpose : str
        A public name of the collection; reports for another purpose are foreign.

    Examples
    --------
    >>> protocol = LocalProtocol(40, epsilon=1.0)
    >>> protocol.report_bytes, protocol == LocalProtocol.from_json(protocol.to_json())
    (114, True)
    >>> print(protocol.guarantee())
    1-differentially private (replace one row), idealized numerics
    """

    n_features: int
    epsilon: float
    delta: float = 0.0
    norm_bound: float = 1.0
    mechanism: str = "double_cap"
    row_norms: str = "any"
    trace_share: float = 0.05
    shift: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        for name, value in {
            "n_features": integer_between("n_features", self.n_features, 2),
            "epsilon": positive_number("epsilon", self.epsilon),
            "delta": probability_below_one("delta", self.delta),
            "norm_bound": positive_number("norm_bound", self.norm_bound),
            "trace_share": positive_number("trace_share", self.trace_share),
        }.items():
            object.__setattr__(self, name, value)
        one_of("mechanism", self.mechanism, tuple(LOCAL_MECHANISMS))
        one_of("row_norms", self.row_norms, ("any", "unit"))
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameterError(f"epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}.")
        if not self.trace_share < 1:
            raise InvalidParameterError(f"trace_share must be below 1, got {self.trace_share!r}.")
        if not isinstance(self.purpose, str):
            raise InvalidParameterError("purpose must be text.")
        if LOCAL_MECHANISMS[self.mechanism].needs_delta != (self.delta > 0):
            need = "needs a delta above 0" if self.delta == 0 else "is pure, so its delta must be 0"
            raise InvalidParameterError(f"The mechanism {self.mechanism!r} {need}.")
        bound = RowBound(self.norm_bound, shift=self.shift, scale=self.scale)
        bound.check_width(self.n_features)
        object.__setattr__(self, "shift", bound.shift)
        object.__setattr__(self, "scale", bound.scale)

    @cached_property
    def law(self) -> LocalMechanism:
        """The mechanism at work, with every number derived from the protocol."""
        return LOCAL_MECHANISMS[self.mechanism](self)

    @cached_property
    def bound(self) -> RowBound:
        """The rule that puts a row on the integer grid."""
        return RowBound(self.norm_bound, self.law.row_bits, self.shift, self.scale)

    @property
    def report_bytes(self) -> int:
        """The length of every report."""
        return OVERHEAD_BYTES + self.law.payload_bytes

    def guarantee(self) -> Guarantee:
        """Return what one report promises to its client, against everybody, the server included."""
        return self.law.guarantee()

    def encode(self, row: ArrayLike, generator: np.random.Generator | None = None) -> bytes:
        """Return the private report of one row; every call spends the client's epsilon again.

        Parameters
        ----------
        row : array_like of shape (n_features,)
        generator : numpy.random.Generator, optional
            The secure generator by default. Any other is for tests, and marks the report as not private.
        """
        from .client import encode

        return encode(self, row, generator)

    def simulate(self, rows: ArrayLike, generator: np.random.Generator | None = None) -> "Release":
        """Return the release that all clients together would lead to; see `eigenveil.local.simulate`."""
        from .simulation import simulate

        return simulate(self, rows, generator)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON text."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def tag(self) -> bytes:
        """The shortened fingerprint that every report carries."""
        return bytes.fromhex(self.fingerprint)[:TAG_BYTES]

    def to_dict(self) -> dict[str, Any]:
        """Return the public parameters in JSON types, with the number of the format."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """Return the protocol as JSON text, with its fingerprint."""
        return json.dumps({**self.to_dict(), "fingerprint": self.fingerprint}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the protocol that `to_json` wrote, or raise if it was changed or is of another format."""
        try:
            content = json.loads(text)
            found = content.pop("format")
            fingerprint = content.pop("fingerprint")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InvalidParameterError("The text is not a local protocol of eigenveil.") from error
        if found != FORMAT:
            raise InvalidParameterError(
                f"The protocol has format {found!r}, and this version reads {FORMAT}; update eigenveil."
            )
        if set(content) != {field.name for field in fields(cls)}:
            raise InvalidParameterError("The protocol does not have the fields of its format.")
        protocol = cls(**content)
        if protocol.fingerprint != fingerprint:
            raise InvalidParameterError("The protocol was changed after it was written; get it anew.")
        return protocol

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the protocol to a JSON file."""
        target = Path(path)
        target.write_text(self.to_json(), encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a protocol from a JSON file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameterError(f"The protocol file {path} cannot be read.") from error
        return cls.from_json(text)
