"""Mechanisms: what is drawn, under which guarantee. Public, functions of parameters, and free of data.

`MECHANISMS` is the one table. A new mechanism is its file, one line in `table.py`, its test and one docs line;
estimators, command line, plan, audit and report take it from the table and from the facts that it declares. Names are
loaded when they are asked for: a client that makes one local report does not load the central mechanisms.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .additive import AdditiveMechanism, RealNoiseMechanism
    from .base import CentralMechanism, Mechanism
    from .sampling_directions import SamplingMechanism
    from .table import MECHANISMS, choose_mechanism, mechanism_from, mechanism_with


__all__ = [
    "MECHANISMS",
    "AdditiveMechanism",
    "CentralMechanism",
    "Mechanism",
    "RealNoiseMechanism",
    "SamplingMechanism",
    "choose_mechanism",
    "mechanism_from",
    "mechanism_with",
]

_HOMES = {
    "MECHANISMS": "table",
    "AdditiveMechanism": "additive",
    "CentralMechanism": "base",
    "Mechanism": "base",
    "RealNoiseMechanism": "additive",
    "SamplingMechanism": "sampling_directions",
    "choose_mechanism": "table",
    "mechanism_from": "table",
    "mechanism_with": "table",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
