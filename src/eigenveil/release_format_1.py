"""Files of format 1, which version 0.1 wrote: floats in place of integers, and an untyped provenance.

What such a file does not tell is left open: the penalty of sparse components, the target of a regression, and how many
components were asked for where the rows were centred. Its floats are put on the grid that they came from; directions
are rounded to that of format 2.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .guarantee import Guarantee, Relation
from .laws.base import IN_UNITS_OF_C
from .laws.central import DIRECTION_UNIT
from .origin import Collection, ComponentsRequest, Origin, Request
from .row_rule import RowRule

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OLD_NAMES = frozenset({"covariance", "components", "eigenvalues"})
"""The arrays of a file."""


def upgraded(
    arrays: Mapping[str, FloatArray], guarantee: Mapping[str, Any], facts: Mapping[str, Any]
) -> tuple[dict[str, IntArray], dict[str, float], Guarantee, Origin]:
    """Return the content of a file of format 1 as that of format 2."""
    promise = Guarantee.from_dict(guarantee)
    local = facts.get("model") == "local"
    rows = _local_rows(facts["parameters"]) if local else _central_rows(facts)
    n_rows = facts["n_rows"]
    integers, unit = _integers(
        arrays, rows, 1 if n_rows is None else n_rows, facts["parameters"].get("calibration") == "paper"
    )
    private_count = promise.relation is Relation.ADD_REMOVE
    if private_count and n_rows is not None:
        integers["count"], unit["count"] = np.array(n_rows, dtype=np.int64), 1.0
    names = facts.get("feature_names")
    origin = Origin(
        law=facts["mechanism"],
        parameters=_local_parameters(facts["parameters"]) if local else _central_parameters(facts),
        rows=rows,
        n_rows=None if private_count else n_rows,
        feature_names=None if names is None else tuple(names),
        model="local" if local else "central",
        estimator=facts.get("estimator"),
        request=_request(arrays, facts.get("estimator"), rows),
        chosen_privately=tuple(facts.get("chosen_privately") or ()),
        collection=Collection(facts["fingerprint"], facts["refused"], facts["simulated"]) if local else None,
        ledger_entry=facts.get("ledger_entry"),
        created=facts.get("created", ""),
        package_version=facts.get("package_version", ""),
    )
    return integers, unit, promise, origin


def _central_rows(facts: Mapping[str, Any]) -> RowRule:
    return RowRule(**{**facts["bound"], "rows": facts.get("rows", "clip")})


def _central_parameters(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a law, with those that version 0.1 had no word for."""
    added = {"whole_degrees": False} if facts["mechanism"] == "wishart" else {}
    return {**facts["parameters"], **added}


def _local_rows(parameters: Mapping[str, Any]) -> RowRule:
    return RowRule(parameters["norm_bound"], shift=parameters["shift"], scale=parameters["scale"])


def _local_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a protocol under the names of today."""
    renamed = {name: value for name, value in parameters.items() if name not in ("format", "mechanism")}
    return {**renamed, "law": parameters["mechanism"]}


def _integers(
    arrays: Mapping[str, FloatArray], rows: RowRule, n_rows: int, published: bool
) -> tuple[dict[str, IntArray], dict[str, float]]:
    sums: dict[str, FloatArray] = {}
    if "eigenvalues" in arrays:
        # Version 0.1 counted sampled variances in units of norm², where the constant's share belongs to them too.
        share = rows.reach_squared / rows.norm**2
        values, directions = arrays["eigenvalues"], arrays["components"]
        if published:  # all directions left, and the file holds them in the matrix alone
            values, vectors = np.linalg.eigh(arrays["covariance"])
            directions = vectors.T
        rest = float(np.trace(arrays["covariance"])) - float(values.sum())
        sums["directions"] = directions / DIRECTION_UNIT
        sums["quotients"] = np.append(values, rest) * (share * n_rows / rows.unit_squared)
    elif "covariance" in arrays:
        sums["matrix"] = arrays["covariance"] * (n_rows / rows.unit_squared)
    else:
        sums["directions"] = arrays["components"] / DIRECTION_UNIT
    if not all(np.isfinite(value).all() and np.abs(value).max() < 2.0**62 for value in sums.values()):
        raise ValueError("numbers of format 1 fit the grid that they came from")
    integers = {name: np.rint(value).astype(np.int64) for name, value in sums.items()}
    return integers, {name: rows.unit_squared if name in IN_UNITS_OF_C else DIRECTION_UNIT for name in integers}


def _request(arrays: Mapping[str, FloatArray], estimator: str | None, rows: RowRule) -> Request:
    if estimator in ("PrivateCovariance", "PrivateSparsePCA", "PrivateRidge") or rows.constant is not None:
        return Request()
    return ComponentsRequest(int(arrays["components"].shape[0]))
