"""Local mechanisms: what one client reports, and what a server reads off the sums of reports.

`LOCAL_MECHANISMS` is the one table. A local mechanism is a function of plain parameters: it knows of no protocol, no
file and no row but the integer rows that a client hands to `LocalMechanism.perturb`.
"""

from collections.abc import Mapping
from typing import Any

from ...errors import one_of
from .base import PARAMETERS, LocalMechanism, Totals
from .double_cap import DoubleCap
from .gaussian import LocalGaussian, PaperGaussian
from .one_bit import OneBit

__all__ = ["LOCAL_MECHANISMS", "LocalMechanism", "Totals", "best_local_mechanism", "local_mechanism_from"]

LOCAL_MECHANISMS: dict[str, type[LocalMechanism]] = {
    mechanism.name: mechanism for mechanism in (DoubleCap, OneBit, LocalGaussian, PaperGaussian)
}


def local_mechanism_from(parameters: Mapping[str, Any]) -> LocalMechanism:
    """Return the mechanism that the key "mechanism" names, with its parameters; other keys are ignored.

    Examples
    --------
    >>> local_mechanism_from({"mechanism": "one_bit", "n_features": 5, "epsilon": 1.0, "norm_bound": 3.0}).payload_bytes
    1
    """
    kind = LOCAL_MECHANISMS[one_of("mechanism", parameters.get("mechanism"), tuple(LOCAL_MECHANISMS))]
    return kind(**{name: parameters[name] for name in PARAMETERS if name in parameters})


def best_local_mechanism(parameters: Mapping[str, Any]) -> LocalMechanism:
    """Return the mechanism of least variance among those that keep the requested guarantee, by public numbers alone.

    Parameters
    ----------
    parameters : mapping
        As of `local_mechanism_from`, without a mechanism. A pure mechanism satisfies every guarantee of its epsilon,
        whatever the delta.

    Examples
    --------
    >>> asked = {"n_features": 100, "epsilon": 1.0, "rank": None}
    >>> best_local_mechanism(asked).name, best_local_mechanism(asked | {"epsilon": 0.5}).name
    ('double_cap', 'one_bit')
    """
    delta = parameters.get("delta", 0.0)
    # A rank above 1 asks for the one mechanism that has it.
    kinds = LOCAL_MECHANISMS.values() if parameters.get("rank") in (None, 1) else [OneBit]
    mechanisms = [
        local_mechanism_from({**parameters, "mechanism": kind.name, "delta": delta if kind.needs_delta else 0.0})
        for kind in kinds
        if delta or not kind.needs_delta
    ]
    kept = [mechanism for mechanism in mechanisms if mechanism.guarantee().epsilon <= mechanism.epsilon]
    return min(kept, key=lambda mechanism: mechanism.variance())
