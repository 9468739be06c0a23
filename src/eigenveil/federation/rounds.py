"""`Terms` that several sites agree on, and the `Round` of those that joined: a small JSON file with a fingerprint.

All of it is public but `SiteKeys`. A written round never changes its meaning: a field may be added with a default that
says what a file without it meant.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import EigenveilError, InvalidParameterError, integer_between, one_of, quoted
from ..files import parsed_json, read_bounded, sync_folder, whole_file
from ..guarantee import Adjacency, Guarantee
from ..mechanisms.federated import FEDERATED_MECHANISMS, FederatedMechanism
from ..moments.row_rule import RowRule
from ..releases.origin import REQUESTS, ComponentsRequest, Request
from ..tables.schema import Schema
from .crypto import keystream, new_private_keys, public_keys, signed, verified

MOST_SITES = 1000
_LONGEST_NAME = 100
_NONCE_BYTES = 16


class FederationError(EigenveilError):
    """A round, a key or a contribution of several sites cannot be used."""


@dataclass(frozen=True)
class Terms:
    """The terms of a federated release: what is released, and under which guarantee.

    Parameters
    ----------
    schema : Schema
        What is public of the columns, the same at every site.
    row_rule : RowRule
        How rows become integers; nothing of it is found privately.
    mechanism : str
        Name of the central mechanism whose noise the sites share: a key of
        `eigenveil.mechanisms.federated.FEDERATED_MECHANISMS`.
    epsilon, delta : float
        What the release costs everybody in the data.
    adjacency : {"replace_one", "add_or_remove_one"}
    invited : tuple of str
        Names of the sites.
    n_colluding : int
        Against how many sites, together with whoever combines, the guarantee holds.
    quorum : int
        With fewer sites there is no round; more than may collude.
    request : Request
        What the release is for.
    purpose : str
        A public name.
    nonce : str
        Random, so that no two rounds have the same fingerprint.
    """

    schema: Schema
    row_rule: RowRule
    mechanism: str
    epsilon: float
    delta: float
    adjacency: str
    invited: tuple[str, ...]
    n_colluding: int
    quorum: int
    request: Request = field(default_factory=ComponentsRequest)
    purpose: str = ""
    nonce: str = field(default_factory=partial(secrets.token_hex, _NONCE_BYTES))

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency).value)
        one_of("mechanism", self.mechanism, tuple(FEDERATED_MECHANISMS))
        object.__setattr__(self, "invited", tuple(_named("site", name) for name in self.invited))
        if not 2 <= len(self.invited) <= MOST_SITES or len(set(self.invited)) < len(self.invited):
            raise InvalidParameterError(f"A round needs 2 to {MOST_SITES} sites of different names.")
        integer_between("n_colluding", self.n_colluding, 0, len(self.invited) - 1)
        integer_between("quorum", self.quorum, max(2, self.n_colluding + 1), len(self.invited))
        if self.purpose:
            object.__setattr__(self, "purpose", _named("purpose", self.purpose))
        if not isinstance(self.nonce, str) or len(self.nonce) != 2 * _NONCE_BYTES:
            raise InvalidParameterError("The nonce of a round is 16 random bytes in hexadecimal digits.")
        self.schema.check_confirmed()
        self.mechanism_for(len(self.invited))  # refuses a budget that this mechanism cannot have
        self.row_rule.check_width(self.schema.n_features)

    def mechanism_for(self, n_sites: int) -> FederatedMechanism:
        """Return the mechanism at work for so many sites."""
        return FEDERATED_MECHANISMS[self.mechanism](
            epsilon=self.epsilon,
            delta=self.delta,
            n_features=self.schema.n_features + (self.row_rule.constant is not None),
            adjacency=self.adjacency,
            n_sites=n_sites,
            n_colluding=self.n_colluding,
        )

    def guarantee(self) -> Guarantee:
        """Return the guarantee if all invited sites join."""
        return self.mechanism_for(len(self.invited)).guarantee().for_unit(self.row_rule.unit)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON text, by which a site knows the terms that it joined."""
        return fingerprint_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "schema": self.schema.to_dict(),
            "row_rule": self.row_rule.to_dict(),
            "invited": list(self.invited),
            "request": self.request.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the terms that `to_dict` wrote."""
        request = dict(content["request"])
        return cls(
            **{
                **content,
                "schema": Schema.from_dict(content["schema"]),
                "row_rule": RowRule(**content["row_rule"]),
                "invited": tuple(content["invited"]),
                "request": REQUESTS[request.pop("kind")](**request),
            }
        )


def fingerprint_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of canonical JSON: keys in order, no blanks.

    Examples
    --------
    >>> fingerprint_of({"b": 1, "a": 2}) == fingerprint_of({"a": 2, "b": 1})
    True
    """
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _named(what: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_NAME or not text.isprintable():
        raise InvalidParameterError(f"{what} must be a public name in one line of at most {_LONGEST_NAME} characters.")
    return text


FORMAT = 1
_KEY_DIGITS, _SIGNATURE_DIGITS = 64, 128


@dataclass(frozen=True)
class Member:
    """The public keys of one site, for one round.

    Parameters
    ----------
    site : str
    agreement : str
        X25519, in hexadecimal digits.
    signing : str
        Ed25519.
    signature : str
        By the second key: of the terms, the site and the first key.
    """

    site: str
    agreement: str
    signing: str
    signature: str

    def __post_init__(self) -> None:
        lengths = {"agreement": _KEY_DIGITS, "signing": _KEY_DIGITS, "signature": _SIGNATURE_DIGITS}
        for name, digits in lengths.items():
            text = getattr(self, name)
            if not isinstance(text, str) or len(text) != digits or set(text) - set("0123456789abcdef"):
                raise InvalidParameterError(f"The {name} of a site must be {digits} hexadecimal digits.")

    def check(self, terms: Terms) -> None:
        """Refuse keys that were not made by this site for these terms."""
        message = joining_message(terms, self.site, self.agreement)
        if not verified(bytes.fromhex(self.signing), bytes.fromhex(self.signature), message):
            raise FederationError(
                f"The keys of the site {quoted(self.site)} are not for these terms; it has to join anew."
            )


def joining_message(terms: Terms, site: str, agreement: str) -> bytes:
    """Return the bytes that a site signs when it joins."""
    return b"eigenveil federation join\n" + json.dumps([terms.fingerprint, site, agreement]).encode()


@dataclass(frozen=True)
class Round:
    """Terms, and the sites that joined. A closed round has its final members, and a mechanism.

    Parameters
    ----------
    terms : Terms
    members : tuple of Member
        In the order of their invitation.
    closed : bool
    """

    terms: Terms
    members: tuple[Member, ...] = ()
    closed: bool = False

    def __post_init__(self) -> None:
        places = {site: place for place, site in enumerate(self.terms.invited)}
        names = [member.site for member in self.members]
        for name in names:
            if name not in places:
                raise FederationError(f"The site {quoted(name)} was not invited to this round.")
            if names.count(name) > 1:
                raise FederationError(f"The site {quoted(name)} is in the round more than once.")
        for member in self.members:
            member.check(self.terms)
        for kind in ("agreement", "signing"):
            if len({getattr(member, kind) for member in self.members}) < len(self.members):
                raise FederationError("Two sites have the same key; each has to make its own.")
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda one: places[one.site])))
        if self.closed and len(self.members) < self.terms.quorum:
            missing = ", ".join(self.missing)
            raise FederationError(
                f"{len(self.members)} sites joined where the quorum is {self.terms.quorum}; wait for {missing}."
            )

    @property
    def missing(self) -> tuple[str, ...]:
        """Sites that were invited and did not join."""
        return tuple(site for site in self.terms.invited if site not in self.sites)

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the members, in order."""
        return tuple(member.site for member in self.members)

    def place_of(self, site: str) -> int:
        """Return the place of a site, which decides about the signs of masks."""
        if site not in self.sites:
            raise FederationError(f"The site {quoted(site)} is not in this round.")
        return self.sites.index(site)

    def with_member(self, member: Member) -> Self:
        """Return the draft with one site more."""
        if self.closed:
            raise FederationError("The round is closed; whoever is missing waits for the next one.")
        return replace(self, members=(*self.members, member))

    def close(self, others: Iterable[Self] = ()) -> Self:
        """Return the closed round of all sites that joined this draft or one of the others, copies of the same."""
        members = {member.site: member for member in self.members}
        for other in others:
            if other.terms != self.terms:
                raise FederationError("The drafts have different terms; every site has to join the same one.")
            for member in other.members:
                if members.setdefault(member.site, member) != member:
                    raise FederationError(f"The site {quoted(member.site)} joined with two keys; it has to choose one.")
        return replace(self, members=tuple(members.values()), closed=True)

    def again(self, without: Iterable[str] = ()) -> Self:
        """Return a draft of the same terms for the sites of this round without some: all of them join with new keys."""
        gone = set(without)
        for site in gone:
            self.place_of(site)
        left = tuple(site for site in self.sites if site not in gone)
        if len(left) < self.terms.quorum:
            raise FederationError(
                f"{len(left)} sites are left where the quorum is {self.terms.quorum}; invite others, on new terms."
            )
        return type(self)(replace(self.terms, invited=left, nonce=secrets.token_hex(_NONCE_BYTES)))

    @cached_property
    def mechanism(self) -> FederatedMechanism:
        """The mechanism at work for the members of a closed round."""
        if not self.closed:
            raise FederationError("The round is not closed yet; close it when all sites have joined.")
        return self.terms.mechanism_for(len(self.members))

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the release, which every site's ledger counts."""
        return self.mechanism.guarantee().for_unit(self.terms.row_rule.unit)

    # The file.

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        members = [asdict(member) for member in self.members]
        return {"format": FORMAT, "terms": self.terms.to_dict(), "members": members, "closed": self.closed}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON text: what sites compare over another channel before they contribute."""
        return fingerprint_of(self.to_dict())

    def to_json(self) -> str:
        """Return the text of the file, with its fingerprint."""
        return json.dumps({**self.to_dict(), "fingerprint": self.fingerprint}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the round that `to_json` wrote, or raise if it was changed or is of another format."""
        try:
            content = parsed_json(text)
            form = content["format"]
            if form != FORMAT:
                raise FederationError(
                    f"The round has format {quoted(form)}, and this version reads {FORMAT}; update eigenveil."
                )
            members = tuple(Member(**member) for member in content["members"])
            made = cls(Terms.from_dict(content["terms"]), members, content["closed"] is True)
            intact = made.fingerprint == content["fingerprint"]
        except EigenveilError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise FederationError("The text is not a round of eigenveil, or misses fields of one.") from None
        if not intact:
            raise FederationError("The round was changed after it was written; get it anew.")
        return made

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the round to a JSON file, whole or not at all."""
        target = Path(path)
        try:
            with whole_file(target) as file:
                file.write(self.to_json().encode())
        except OSError as error:
            raise FederationError(f"The round cannot be written to {target}: {error.strerror}.") from error
        return target

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a round from a JSON file."""
        return cls.from_json(read_bounded(path, "The file of a round", FederationError))


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
            raise InvalidParameterError(f"The site {quoted(site)} was not invited; the draft is for {listed}.")
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


Words = NDArray[np.uint64]


def mask(agreed: Round, place: int, agreement: bytes, size: int) -> Words:
    """Return the mask that a site adds to its numbers: the sum over all other sites of one keystream each.

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
            raise FederationError(f"The public key of the site {quoted(member.site)} is none; it has to join anew.")
        words = np.frombuffer(stream, dtype="<u8")
        if place < other:
            total += words
        else:
            total -= words
    return total
