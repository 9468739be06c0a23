"""`Terms`: what several sites agree on before anybody has a key. All of it is public.

A written round never changes its meaning: a field may be added with a default that says what a file without it meant.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ..errors import EigenveilError, InvalidParameterError, integer_between, one_of
from ..guarantee import Adjacency, Guarantee
from ..mechanisms.federated import FEDERATED_MECHANISMS, FederatedMechanism
from ..moments.row_rule import RowRule
from ..releases.origin import REQUESTS, ComponentsRequest, Request
from ..tables.schema import Schema

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
    nonce: str = field(default_factory=lambda: new_nonce())

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

    def guarantee(self, n_sites: int | None = None) -> Guarantee:
        """Return the guarantee for this number of sites; for all sites by default."""
        return (
            self.mechanism_for(len(self.invited) if n_sites is None else n_sites)
            .guarantee()
            .for_unit(self.row_rule.unit)
        )

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


def new_nonce() -> str:
    """Return what makes a round different from all others."""
    return secrets.token_hex(_NONCE_BYTES)


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
