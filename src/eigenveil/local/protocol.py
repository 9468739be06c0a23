"""`LocalProtocol`: the public agreement between clients and server, as a small JSON file; and the bytes of a report.

Clients hold the file for years, so a written text never changes its meaning or its fingerprint. A text without a rank
means rank 1, and rank 1 is not written. A report is

    4 bytes  "EVL1"           8 bytes  the protocol's fingerprint, shortened
    1 byte   flags            n bytes  payload, of a length fixed by the protocol
    16 bytes random identifier  4 bytes  CRC-32 of all bytes before it

In files and streams it is one line of base64, so that a damaged line cannot swallow the next.
"""

import binascii
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidParameterError, integer_between, positive_number, probability_below_one, quoted
from ..files import given_path, parsed_json, read_bounded, whole_file
from ..guarantee import Adjacency, Assumption, Guarantee
from ..mechanisms.local import best_local_mechanism, local_mechanism_from
from ..mechanisms.local.base import PARAMETERS, ByteArray, LocalMechanism
from ..moments.row_rule import RowRule

FORMAT = 2
MAGIC = b"EVL1"
TAG_BYTES = 8
ID_BYTES = 16
HEADER_BYTES = len(MAGIC) + TAG_BYTES + 1 + ID_BYTES
OVERHEAD_BYTES = HEADER_BYTES + 4
SEEDED_FLAG = 1
_FLAGS_AT = len(MAGIC) + TAG_BYTES
_ID_AT = _FLAGS_AT + 1


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
    mechanism : {"double_cap", "one_bit", "gaussian", "gaussian_paper", "auto"}
        How a row becomes a report; docs/research/local.md compares them. ``"auto"`` becomes the mechanism of least
        variance for these numbers, and only its name is written. Where that is a pure one, delta becomes 0. With a rank
        above 1 it is ``one_bit``.
    row_norms : {"any", "unit"}
        ``"unit"`` scales every row to the norm bound: only its direction counts, and the trace is known.
    trace_share : float
        The share of epsilon that ``double_cap`` and ``one_bit`` spend on the trace where it is not known.
    shift, scale : sequence of float, optional
        Public location and positive scale of every feature.
    purpose : str
        A public name of the collection; reports for another purpose are foreign.
    rank : int, optional
        The dimension of the public subspace that a ``one_bit`` report is about: by default half of the features, at
        most 50, and 1 beyond epsilon 5. A smaller one takes less time and has more variance. Other mechanisms have rank
        1.

    Examples
    --------
    >>> protocol = LocalProtocol(40, epsilon=1.0)
    >>> protocol.report_bytes, protocol == LocalProtocol.from_json(protocol.to_json())
    (114, True)
    >>> print(protocol.guarantee())
    1-DP (pure), replace-one adjacency, unit: one row; exact sampling
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
    rank: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.purpose, str):
            raise InvalidParameterError("purpose must be text.")
        # The mechanism and the rule know what they can be made of; the fields take the plain numbers that they found.
        asked = {name: getattr(self, name) for name in ("mechanism", *PARAMETERS)}
        mechanism = (
            best_local_mechanism(asked)
            if isinstance(self.mechanism, str) and self.mechanism == "auto"
            else local_mechanism_from(asked)
        )
        rule = RowRule(self.norm_bound, shift=self.shift, scale=self.scale)
        rule.check_width(mechanism.n_features)
        rule.check_sizes()
        found = {**mechanism.parameters(), "norm_bound": rule.norm, "shift": rule.shift, "scale": rule.scale}
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def report_bytes(self) -> int:
        """The length of every report."""
        return OVERHEAD_BYTES + mechanism_of(self).payload_bytes

    def guarantee(self) -> Guarantee:
        """Return the guarantee of one report, which also holds against the server."""
        return mechanism_of(self).guarantee()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON text."""
        canonical = json.dumps(self._text_fields(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def tag(self) -> bytes:
        """The shortened fingerprint that every report carries."""
        return bytes.fromhex(self.fingerprint)[:TAG_BYTES]

    def to_dict(self) -> dict[str, Any]:
        """Return the public parameters in JSON types, with the number of the format."""
        return {"format": FORMAT, **asdict(self)}

    def _text_fields(self) -> dict[str, Any]:
        """Return the fields of the text without the fingerprint."""
        written = self.to_dict()
        if written["rank"] == 1:
            del written["rank"]
        return written

    def to_json(self) -> str:
        """Return the protocol as JSON text, with its fingerprint."""
        return json.dumps({**self._text_fields(), "fingerprint": self.fingerprint}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the protocol that `to_json` wrote, or raise if it was changed or is of another format."""
        try:
            content = parsed_json(text)
            found = content.pop("format")
            fingerprint = content.pop("fingerprint")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InvalidParameterError("The text is not a local protocol of eigenveil.") from error
        if found != FORMAT:
            raise InvalidParameterError(
                f"The protocol has format {quoted(found)}, and this version reads format {FORMAT}."
            )
        content = {"rank": 1, **content}
        if set(content) != {one.name for one in fields(cls)}:
            raise InvalidParameterError("The protocol does not have the fields of its format.")
        protocol = cls(**content)
        if protocol.fingerprint != fingerprint:
            raise InvalidParameterError("The protocol was changed after it was written; get it anew.")
        return protocol

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the protocol to a JSON file, whole or not at all."""
        target = given_path(path)
        try:
            with whole_file(target) as file:
                file.write(self.to_json().encode())
        except OSError as error:
            raise InvalidParameterError(f"The protocol cannot be written to {target}: {error.strerror}.") from error
        return target

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a protocol from a JSON file."""
        return cls.from_json(read_bounded(given_path(path), "The protocol file", InvalidParameterError))


def check_protocol(protocol: object) -> None:
    """Raise unless `protocol` is a local protocol."""
    if not isinstance(protocol, LocalProtocol):
        raise InvalidParameterError(f"protocol must be a LocalProtocol, not {type(protocol).__name__}.")


# A few: the mechanism of a wide Gaussian report holds the places of all its entries.
@lru_cache(maxsize=8)
def mechanism_of(protocol: LocalProtocol) -> LocalMechanism:
    """Return the mechanism at work, with every number derived from the protocol.

    Examples
    --------
    >>> mechanism_of(LocalProtocol(40, epsilon=1.0)).name
    'double_cap'
    """
    return local_mechanism_from(protocol.to_dict())


def row_rule_of(protocol: LocalProtocol) -> RowRule:
    """Return the public rule by which rows become integers."""
    bits = mechanism_of(protocol).row_bits
    return RowRule(protocol.norm_bound, bits, protocol.shift, protocol.scale, on_invalid="zero")


def shuffled_epsilon(epsilon: float, n_reports: int, delta: float) -> float:
    """Return a central epsilon of n shuffled reports that are each epsilon-locally private.

    Feldman, McMillan and Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.1: for
    e0 <= ln(n/(16 ln(2/delta))) the shuffled reports are (e, delta)-private under replacement of one row, with
    e = ln(1 + (exp(e0) - 1)/(exp(e0) + 1) (8 sqrt(exp(e0) ln(4/delta)/n) + 8 exp(e0)/n)).

    Examples
    --------
    >>> round(shuffled_epsilon(1.0, 100_000, 1e-6), 3)
    0.073
    """
    local = positive_number("epsilon", epsilon)
    n = integer_between("n_reports", n_reports, 2)
    delta = positive_number("delta", probability_below_one("delta", delta))
    if n <= 16 * math.log(2 / delta) * math.exp(local):
        raise InvalidParameterError(
            "The shuffling bound needs epsilon <= ln(n_reports/(16 ln(2/delta))); collect more reports, or lower "
            "epsilon."
        )
    factor = math.exp(local)
    spread = 8 * math.sqrt(factor * math.log(4 / delta) / n) + 8 * factor / n
    # The local guarantee holds all the same, so the smaller of the two is true.
    return min(local, math.log1p(math.tanh(local / 2) * spread) * (1 + 1e-12))


def shuffled_guarantee(protocol: LocalProtocol, n_reports: int, delta: float = 1e-6) -> Guarantee:
    """Return the guarantee against those who only see the shuffled reports, or what is computed from them.

    Parameters
    ----------
    protocol : LocalProtocol
        With a pure mechanism: the bound used is for pure local privacy.
    n_reports : int
        The number of honest reports in one shuffle.
    delta : float
        The delta of the central guarantee.

    Examples
    --------
    >>> print(shuffled_guarantee(LocalProtocol(20, epsilon=1.0), 100_000))
    (0.0725549, 1e-06)-DP, replace-one adjacency, unit: one row; assumes a trusted shuffler of 100000 honest reports; \
exact sampling
    """
    check_protocol(protocol)
    local = protocol.guarantee()
    if local.delta > 0:
        raise InvalidParameterError(
            "The shuffling bound used here is for pure local privacy; choose double_cap or one_bit."
        )
    return Guarantee(
        shuffled_epsilon(local.epsilon, n_reports, delta),
        delta,
        Adjacency.REPLACE_ONE,
        local.numerics,
        assumptions=(
            *local.assumptions,
            Assumption(
                f"Assumes a trusted shuffler that mixes at least {n_reports} honest reports and removes their senders. "
                "Without the shuffler, the local guarantee remains.",
                f"assumes a trusted shuffler of {n_reports} honest reports",
            ),
        ),
    )


class Refusal(StrEnum):
    """Why a report was not counted."""

    MALFORMED = "malformed"
    """Not the bytes of a report: cut short, damaged, or something else altogether."""
    FOREIGN = "foreign"
    """Made for another protocol."""
    OUT_OF_RANGE = "out_of_range"
    """No honest client sends this, but for a chance of one in a billion."""
    SEEDED = "seeded"
    """Drawn from a seed, by its own mark, where the server accepts private reports only."""
    REPEATED = "repeated"
    """A report with this identifier was counted already."""


@dataclass(frozen=True)
class Batch:
    """Decoded reports: why each was refused (or None), and the parts of those that were not."""

    refusals: list[Refusal | None]
    ids: ByteArray
    payloads: ByteArray
    seeded: NDArray[np.bool_]


def pack(tag: bytes, seeded: bool, ids: ByteArray, payloads: ByteArray) -> list[bytes]:
    """Return the bytes of reports, one for each row of `ids` and `payloads`."""
    start = MAGIC + tag + bytes([SEEDED_FLAG if seeded else 0])
    bodies = (
        start + identifier.tobytes() + payload.tobytes() for identifier, payload in zip(ids, payloads, strict=True)
    )
    return [body + zlib.crc32(body).to_bytes(4, "little") for body in bodies]


def unpack(reports: Sequence[bytes], tag: bytes, payload_bytes: int) -> Batch:
    """Check and take apart reports; ranges and repetitions are left to the caller."""
    refusals: list[Refusal | None] = []
    for report in reports:
        whole = len(report) >= OVERHEAD_BYTES and report.startswith(MAGIC)
        if not whole or zlib.crc32(report[:-4]).to_bytes(4, "little") != report[-4:]:
            refusals.append(Refusal.MALFORMED)
        elif report[len(MAGIC) : _FLAGS_AT] != tag:
            # Before the length: a report for another protocol has another length, and its reason is the protocol.
            refusals.append(Refusal.FOREIGN)
        elif len(report) != OVERHEAD_BYTES + payload_bytes or report[_FLAGS_AT] > SEEDED_FLAG:
            refusals.append(Refusal.MALFORMED)
        else:
            refusals.append(None)
    good = b"".join(report for report, refusal in zip(reports, refusals, strict=True) if refusal is None)
    block = np.frombuffer(good, dtype=np.uint8).reshape(-1, OVERHEAD_BYTES + payload_bytes)
    return Batch(
        refusals,
        ids=block[:, _ID_AT:HEADER_BYTES],
        payloads=block[:, HEADER_BYTES : HEADER_BYTES + payload_bytes],
        seeded=(block[:, _FLAGS_AT] & SEEDED_FLAG) != 0,
    )


def to_line(report: bytes) -> bytes:
    """Return the report as a line of base64."""
    return binascii.b2a_base64(report)


def from_line(line: bytes) -> bytes:
    """Return the report in a line of base64; what is not base64 becomes b"", which is malformed."""
    try:
        return binascii.a2b_base64(line.strip(), strict_mode=True)
    except (binascii.Error, ValueError):
        return b""


def read_lines(stream: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the reports of a binary stream, one line of base64 each; memory stays bounded.

    A line longer than `longest` is no report: it is skipped to its end and yielded as one empty report.
    """
    while line := stream.readline(longest + 1):
        if len(line) > longest and not line.endswith(b"\n"):
            while (rest := stream.readline(1 << 16)) and not rest.endswith(b"\n"):
                pass
            yield b""
        elif line.strip():
            yield from_line(line)
