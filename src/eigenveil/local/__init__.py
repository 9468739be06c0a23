"""The local model: every client makes its own report private, and the collector is trusted with nothing.

`LocalProtocol` is the public agreement, its `encode` runs on the client, `Aggregator` runs on the server. Names
are loaded when they are asked for, so a client that only encodes never loads the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .protocol import LocalProtocol
    from .server import Aggregator, Tally
    from .shuffler import shuffled_guarantee
    from .simulation import simulate
    from .store import CollectionError
    from .wire import Refusal

__all__ = [
    "Aggregator",
    "CollectionError",
    "LocalProtocol",
    "Refusal",
    "Tally",
    "shuffled_guarantee",
    "simulate",
]

_HOMES = {
    "Aggregator": "server",
    "CollectionError": "store",
    "LocalProtocol": "protocol",
    "Refusal": "wire",
    "Tally": "server",
    "shuffled_guarantee": "shuffler",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
