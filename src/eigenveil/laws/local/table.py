"""The one table of local laws."""

from collections.abc import Mapping
from typing import Any

from ...errors import one_of
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
