"""The local model: every client makes its own report private, and the collector is trusted with nothing.

`LocalProtocol` is the public agreement, plain data; `encode` runs on the client, `aggregate` on the server, and the
mechanisms behind them are `eigenveil.mechanisms.local`. Names are loaded when they are asked for, so a client that only
encodes never loads the server.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .client import encode, encode_many
    from .protocol import LocalProtocol, Refusal, mechanism_of, shuffled_guarantee
    from .server import Aggregate, aggregate
    from .simulation import simulate


__all__ = [
    "Aggregate",
    "LocalProtocol",
    "Refusal",
    "aggregate",
    "encode",
    "encode_many",
    "mechanism_of",
    "shuffled_guarantee",
    "simulate",
]

# No module may have the name of a function here: importing it would put the module in the function's place.
_HOMES = {
    "Aggregate": "server",
    "LocalProtocol": "protocol",
    "Refusal": "protocol",
    "aggregate": "server",
    "encode": "client",
    "encode_many": "client",
    "mechanism_of": "protocol",
    "shuffled_guarantee": "protocol",
    "simulate": "simulation",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
