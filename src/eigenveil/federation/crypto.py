"""Keys, signatures and keystreams, all of them by the package `cryptography`; nothing of it is written by hand.

X25519 and Ed25519 (RFC 7748, 8032), HKDF with SHA-256 (RFC 5869), ChaCha20 (RFC 8439).
"""

from types import SimpleNamespace
from typing import Any

from ..errors import EngineError

KEY_BYTES, SIGNATURE_BYTES = 32, 64
_NONCE = bytes(16)  # a key is used for one keystream alone


def _primitives() -> Any:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError:
        raise EngineError(
            "Rounds of several sites need the package cryptography; install it with "
            "`pip install 'eigenveil[federation]'`."
        ) from None
    return SimpleNamespace(
        InvalidSignature=InvalidSignature,
        hashes=hashes,
        ed25519=ed25519,
        x25519=x25519,
        Cipher=Cipher,
        algorithms=algorithms,
        HKDF=HKDF,
    )


def new_private_keys() -> tuple[bytes, bytes]:
    """Return fresh private keys, for agreement and for signing."""
    lib = _primitives()
    agreement, signing = lib.x25519.X25519PrivateKey.generate(), lib.ed25519.Ed25519PrivateKey.generate()
    return agreement.private_bytes_raw(), signing.private_bytes_raw()


def public_keys(agreement: bytes, signing: bytes) -> tuple[bytes, bytes]:
    """Return the public keys that belong to private ones."""
    lib = _primitives()
    return (
        lib.x25519.X25519PrivateKey.from_private_bytes(agreement).public_key().public_bytes_raw(),
        lib.ed25519.Ed25519PrivateKey.from_private_bytes(signing).public_key().public_bytes_raw(),
    )


def signed(signing: bytes, message: bytes) -> bytes:
    """Return the signature of a message."""
    signature: bytes = _primitives().ed25519.Ed25519PrivateKey.from_private_bytes(signing).sign(message)
    return signature


def verified(public: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether the signature of a message is by the owner of a public key."""
    lib = _primitives()
    try:
        lib.ed25519.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (lib.InvalidSignature, ValueError):
        return False
    return True


def keystream(agreement: bytes, other: bytes, salt: bytes, info: bytes, size: int) -> bytes | None:
    """Return the bytes that two owners of keys share and nobody else has; None for a public key that is none.

    Parameters
    ----------
    agreement : bytes
        One's own private key.
    other : bytes
        The other's public one.
    salt, info : bytes
        What the stream is for: another salt or info is another stream.
    size : int
    """
    lib = _primitives()
    private = lib.x25519.X25519PrivateKey.from_private_bytes(agreement)
    try:
        secret = private.exchange(lib.x25519.X25519PublicKey.from_public_bytes(other))
    except ValueError:  # a point of small order, which would make a secret that everybody knows
        return None
    key = lib.HKDF(lib.hashes.SHA256(), KEY_BYTES, salt, info).derive(secret)
    encryptor = lib.Cipher(lib.algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()
    stream: bytes = encryptor.update(bytes(size))
    return stream
