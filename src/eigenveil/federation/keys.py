"""`SiteKeys`: the private keys of one site for one round. They never leave, and are used once.

Two contributions under the same masks would tell their difference, which has a part of the noise only. So a key is
taken away from its name, atomically, before anything is drawn, and destroyed when its contribution is written.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Self

from ..bounded_file import parsed_json, read_bounded
from ..errors import InvalidParameterError
from ..whole_file import sync_folder, whole_file
from .crypto import new_private_keys, public_keys, signed
from .rounds import Member, Round, joining_message
from .terms import FederationError, Terms

FORMAT = 1
_USED = ".used"


@dataclass(frozen=True)
class SiteKeys:
    """The secrets of one site for one round.

    Parameters
    ----------
    site : str
    terms : str
        Fingerprint of the terms that they were made for.
    agreement, signing : bytes
        Private keys, X25519 and Ed25519.
    """

    site: str
    terms: str
    agreement: bytes = field(repr=False)
    signing: bytes = field(repr=False)

    @classmethod
    def create(cls, site: str, terms: Terms) -> Self:
        """Return fresh keys for a site that was invited."""
        if site not in terms.invited:
            listed = ", ".join(terms.invited)
            raise InvalidParameterError(f"The site {site!r} was not invited; the draft is for {listed}.")
        return cls(site, terms.fingerprint, *new_private_keys())

    def join(self, draft: Round) -> Round:
        """Return the draft with the public keys of this site, signed for its terms."""
        if draft.terms.fingerprint != self.terms:
            raise FederationError("These keys were made for other terms; make new ones for this draft.")
        agreement, signing = (key.hex() for key in public_keys(self.agreement, self.signing))
        signature = signed(self.signing, joining_message(draft.terms, self.site, agreement)).hex()
        return draft.with_member(Member(self.site, agreement, signing, signature))

    def check(self, agreed: Round) -> int:
        """Return the place of this site, or refuse a round that it did not join with these keys on these terms."""
        if not agreed.closed:
            raise FederationError("The round is not closed yet; get it from whoever closes it.")
        if agreed.terms.fingerprint != self.terms:
            raise FederationError("The round has other terms than this site joined; do not contribute to it.")
        place = agreed.place_of(self.site)
        member = agreed.members[place]
        ours = tuple(key.hex() for key in public_keys(self.agreement, self.signing))
        if (member.agreement, member.signing) != ours:
            raise FederationError("The round has other keys for this site; do not contribute to it.")
        return place

    # The file.

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the keys to a file that its owner alone may read; one that is there is never replaced."""
        target = Path(path)
        if target.exists() or _used(target).exists():
            raise InvalidParameterError(f"{target} is there, or was used already; name another file for the keys.")
        content = asdict(self) | {"agreement": self.agreement.hex(), "signing": self.signing.hex(), "format": FORMAT}
        _write(target, content)
        return target

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read the keys of a site that were not used yet."""
        source = Path(path)
        if not source.exists() and _used(source).exists():
            raise FederationError(
                f"The keys {source} were used: send the contribution that was written then, or repeat the round with "
                "fresh keys."
            )
        return cls._read(source)

    @classmethod
    def _read(cls, source: Path) -> Self:
        try:
            if os.name == "posix" and source.stat().st_mode & 0o077:
                raise FederationError(f"Others may read the keys {source}; `chmod 600` it, and do not share it.")
            content = parsed_json(read_bounded(source, "The keys", FederationError))
            if content.pop("format") != FORMAT:
                raise KeyError
            private = [bytes.fromhex(content[name]) for name in ("agreement", "signing")]
            return cls(str(content["site"]), str(content["terms"]), *private)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise FederationError(f"The file {source} cannot be read as the keys of a site.") from None


@contextmanager
def used_once(path: str | PathLike[str]) -> Iterator[SiteKeys]:
    """Yield the keys of a file that nobody can use again; when the block is through they are destroyed.

    The file is renamed first, which one process alone can do. Whatever happens in the block, no other contribution can
    be made with these keys.
    """
    source = Path(path)
    keys = SiteKeys.load(source)
    try:
        os.rename(source, _used(source))
        sync_folder(source)  # or a power cut would give them back
    except OSError:
        raise FederationError(f"The keys {source} are being used, or cannot be moved.") from None
    yield keys
    _write(_used(source), {"format": FORMAT, "site": keys.site, "terms": keys.terms, "used": True})


def _used(path: Path) -> Path:
    return path.with_name(path.name + _USED)


def _write(path: Path, content: dict[str, object]) -> None:
    try:
        with whole_file(path, secret=True) as file:
            file.write((json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:
        raise InvalidParameterError(f"{path} cannot be written: {error.strerror}.") from error
