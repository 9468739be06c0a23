"""The bytes of a report, and the reasons to refuse one.

    4 bytes  "EVL1"           8 bytes  the protocol's fingerprint, shortened
    1 byte   flags            n bytes  payload, of a length fixed by the protocol
    16 bytes random identifier  4 bytes  CRC-32 of all bytes before it

In files and streams a report is one line of base64, so that a damaged line cannot swallow the next.
"""

import binascii
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.local.base import ByteArray

MAGIC = b"EVL1"
TAG_BYTES = 8
ID_BYTES = 16
HEADER_BYTES = len(MAGIC) + TAG_BYTES + 1 + ID_BYTES
OVERHEAD_BYTES = HEADER_BYTES + 4
SEEDED_FLAG = 1
_FLAGS_AT = len(MAGIC) + TAG_BYTES
_ID_AT = _FLAGS_AT + 1


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
    refusals = [_refusal(report, tag, payload_bytes) for report in reports]
    good = b"".join(report for report, refusal in zip(reports, refusals, strict=True) if refusal is None)
    block = np.frombuffer(good, dtype=np.uint8).reshape(-1, OVERHEAD_BYTES + payload_bytes)
    return Batch(
        refusals,
        ids=block[:, _ID_AT:HEADER_BYTES],
        payloads=block[:, HEADER_BYTES : HEADER_BYTES + payload_bytes],
        seeded=(block[:, _FLAGS_AT] & SEEDED_FLAG) != 0,
    )


def _refusal(report: bytes, tag: bytes, payload_bytes: int) -> Refusal | None:
    if len(report) < OVERHEAD_BYTES or not report.startswith(MAGIC):
        return Refusal.MALFORMED
    if zlib.crc32(report[:-4]).to_bytes(4, "little") != report[-4:]:
        return Refusal.MALFORMED
    # Before the length: a report for another protocol has another length, and its reason is the protocol.
    if report[len(MAGIC) : _FLAGS_AT] != tag:
        return Refusal.FOREIGN
    if len(report) != OVERHEAD_BYTES + payload_bytes or report[_FLAGS_AT] > SEEDED_FLAG:
        return Refusal.MALFORMED
    return None


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
