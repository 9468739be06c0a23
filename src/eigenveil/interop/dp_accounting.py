"""Guarantees as events of Google's dp-accounting (extra ``accounting``).

Every accountant of dp-accounting that accepts one of these events counts it right, however often it is composed:

=========================  ======================================  =======================
mechanism                  `pld_event`, for a ``PLDAccountant``    `rdp_event`, for an ``RdpAccountant``
=========================  ======================================  =======================
pure epsilon               discrete Laplace, sensitivity 1         zCDP, rho = epsilon^2/2
with a rho (Gaussian)      none: the noise is discrete             zCDP
only (epsilon, delta)      none                                    none
=========================  ======================================  =======================

Where there is none, the event is ``UnsupportedDpEvent``, which every accountant refuses;
`eigenveil.accounting.compose` composes these too.
"""

from collections.abc import Callable

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    UnsupportedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from ..accounting.calibration import exact, float_above
from ..accounting.composition import concentrated_rho
from ..guarantee import Adjacency, Guarantee

__all__ = ["pld_event", "rdp_event", "relation"]


def relation(guarantee: Guarantee) -> NeighboringRelation:
    """Return the neighbouring relation of an accountant for events of this guarantee.

    For ``replace_one`` it is ``REPLACE_SPECIAL``: replacing a row by a special one is a replacement. Under
    ``REPLACE_ONE``, a `PLDAccountant` of dp-accounting 0.6 has one pure event, randomized response, and counts it once
    even if it is composed several times; it refuses the events of this module.

    Examples
    --------
    >>> relation(Guarantee(1.0)).name
    'REPLACE_SPECIAL'
    """
    replaced = guarantee.adjacency is Adjacency.REPLACE_ONE
    return NeighboringRelation.REPLACE_SPECIAL if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE


def pld_event(guarantee: Guarantee) -> DpEvent:
    """Return the event of a guarantee for a ``PLDAccountant`` with the relation of `relation`.

    Every pure mechanism is a post-processing of randomized response, and so is discrete Laplace noise on a number that
    changes by 1: its privacy loss is epsilon or minus epsilon, with the same probabilities.

    Examples
    --------
    >>> from dp_accounting.pld import PLDAccountant
    >>> guarantee = Guarantee(0.1)
    >>> accountant = PLDAccountant(relation(guarantee)).compose(pld_event(guarantee), 100)
    >>> round(accountant.get_epsilon(1e-6), 2)
    4.77
    """
    return _composed(guarantee, _pld_event)


def rdp_event(guarantee: Guarantee) -> DpEvent:
    """Return the event of a guarantee for an ``RdpAccountant``, with any relation that fits the guarantee.

    For a pure mechanism of a large epsilon the event is valid and loose: epsilon = 5 counts as 37 at delta
    = 1e-6. Use `pld_event` for releases of pure mechanisms alone.

    Examples
    --------
    >>> rdp_event(Guarantee(1.0)), rdp_event(Guarantee(1.0, 1e-6, rho=0.02))
    (ZCDpEvent(rho=0.5, xi=0.0), ZCDpEvent(rho=0.02, xi=0.0))
    """
    return _composed(guarantee, _rdp_event)


def _composed(guarantee: Guarantee, event: Callable[[Guarantee], DpEvent]) -> DpEvent:
    if not guarantee.is_private:
        return NonPrivateDpEvent()
    events = [event(part) if part.is_private else NonPrivateDpEvent() for part in guarantee.mechanisms]
    return events[0] if len(events) == 1 else ComposedDpEvent(events)


def _pld_event(part: Guarantee) -> DpEvent:
    if part.delta > 0 or part.rho is not None:
        return UnsupportedDpEvent()
    if part.epsilon == 0:
        return NoOpDpEvent()
    return DiscreteLaplaceDpEvent(float_above(exact(part.epsilon)), 1)


def _rdp_event(part: Guarantee) -> DpEvent:
    rho = concentrated_rho(part)
    return UnsupportedDpEvent() if rho is None else ZCDpEvent(rho)
