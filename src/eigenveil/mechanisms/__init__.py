"""Laws: what is drawn, under which promise. Public, functions of parameters, and free of data.

`LAWS` is the one table. A new law is its file, one line in `table.py`, its test and one docs line; estimators, command
line, plan, audit and report take it from the table and from the facts that it declares. Names are loaded when they are
asked for: a client that makes one local report does not load the central laws.
"""

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .additive import AdditiveLaw, RealNoiseLaw
    from .base import CentralLaw, Law
    from .sampled import SamplingLaw
    from .table import LAWS, choose_law, law_from, law_with


__all__ = [
    "LAWS",
    "AdditiveLaw",
    "CentralLaw",
    "Law",
    "RealNoiseLaw",
    "SamplingLaw",
    "choose_law",
    "law_from",
    "law_with",
]

_HOMES = {
    "LAWS": "table",
    "AdditiveLaw": "additive",
    "CentralLaw": "base",
    "Law": "base",
    "RealNoiseLaw": "additive",
    "SamplingLaw": "sampled",
    "choose_law": "table",
    "law_from": "table",
    "law_with": "table",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
