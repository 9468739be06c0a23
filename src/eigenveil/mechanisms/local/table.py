"""The one table of local laws."""

from collections.abc import Mapping
from typing import Any

from ...errors import one_of
from ...guarantee import Numerics
from .base import PARAMETERS, LocalLaw
from .double_cap import DoubleCap
from .gaussian import LocalGaussian, PaperGaussian
from .one_bit import OneBit

LOCAL_LAWS: dict[str, type[LocalLaw]] = {law.name: law for law in (DoubleCap, OneBit, LocalGaussian, PaperGaussian)}


def local_law_from(parameters: Mapping[str, Any]) -> LocalLaw:
    """Return the law that the key "law" names, with its parameters; what else a protocol holds is not its business.

    Examples
    --------
    >>> local_law_from({"law": "one_bit", "n_features": 5, "epsilon": 1.0, "norm_bound": 3.0}).payload_bytes
    1
    """
    kind = LOCAL_LAWS[one_of("law", parameters.get("law"), tuple(LOCAL_LAWS))]
    return kind(**{name: parameters[name] for name in PARAMETERS if name in parameters})


def best_local_law(parameters: Mapping[str, Any], accept_inexact: bool = False) -> LocalLaw:
    """Return the law of least variance among those that keep the promise asked for, by public numbers alone.

    Parameters
    ----------
    parameters : mapping
        As of `local_law_from`, without a law. A pure law keeps every promise of its epsilon, whatever the delta.
    accept_inexact : bool
        Whether a law may be taken that is proved for real arithmetic only.

    Examples
    --------
    >>> asked = {"n_features": 100, "epsilon": 1.0, "rank": None}
    >>> best_local_law(asked).name, best_local_law(asked, accept_inexact=True).name
    ('one_bit', 'double_cap')
    >>> best_local_law(asked | {"epsilon": 0.5}, accept_inexact=True).name
    'one_bit'
    """
    delta = parameters.get("delta", 0.0)
    kinds = [kind for kind in LOCAL_LAWS.values() if accept_inexact or kind.numerics is Numerics.EXACT]
    laws = [
        local_law_from({**parameters, "law": kind.name, "delta": delta if kind.needs_delta else 0.0})
        for kind in kinds
        if delta or not kind.needs_delta
    ]
    kept = [law for law in laws if law.guarantee().epsilon <= law.epsilon]
    return min(kept, key=lambda law: law.variance())
