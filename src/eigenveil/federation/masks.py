"""Masks that cancel in the sum over all sites, and make one site's numbers uniform modulo 2^64 by themselves."""

import json

import numpy as np
from numpy.typing import NDArray

from .crypto import keystream
from .rounds import Round
from .terms import FederationError

Words = NDArray[np.uint64]


def mask(agreed: Round, place: int, agreement: bytes, size: int) -> Words:
    """Return what the site at a place adds to its numbers: the sum over all other sites of one keystream each.

    Of two sites the first adds their keystream and the second takes it off, so that all masks add up to zero. The
    streams are bound to the fingerprint of the round and to both names.

    Parameters
    ----------
    agreed : Round
        Closed.
    place : int
    agreement : bytes
        The private key of the site.
    size : int
        How many numbers there are.
    """
    total = np.zeros(size, dtype=np.uint64)
    for other, member in enumerate(agreed.members):
        if other == place:
            continue
        pair = sorted((place, other))
        info = json.dumps(["eigenveil federation mask", *(agreed.sites[one] for one in pair)]).encode()
        stream = keystream(
            agreement, bytes.fromhex(member.agreement), bytes.fromhex(agreed.fingerprint), info, 8 * size
        )
        if stream is None:
            raise FederationError(f"The public key of the site {member.site!r} is none; it has to join anew.")
        words = np.frombuffer(stream, dtype="<u8")
        if place < other:
            total += words
        else:
            total -= words
    return total
