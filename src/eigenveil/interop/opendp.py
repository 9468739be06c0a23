"""Fits as measurements of OpenDP (extra ``opendp``), for its compositors, odometers and contexts.

OpenDP checks neither the shape of the data nor the metric of a user-defined measurement, so both are checked here.
"""

import math
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import opendp.prelude as dp
from opendp.extras.numpy import array2_domain

from ..accounting.calibration import exact, float_above
from ..accounting.composition import concentrated_rho
from ..errors import InvalidDataError, InvalidParameterError, integer_between
from ..estimators.base import PrivateEstimator
from ..guarantee import ORDER_ASSUMPTION, Adjacency, Guarantee, Unit
from ..numerics import FloatArray
from ..releases.record import Release

__all__ = ["measurement"]


def measurement(
    estimator: PrivateEstimator,
    n_features: int,
    n_rows: int | None = None,
    *,
    metric: Any = None,
    measure: Any = None,
) -> Any:
    """Return an OpenDP measurement that fits an estimator to an array of float64 and returns its `Release`.

    Every call fits a new estimator with these parameters. The features ``contrib`` and ``honest-but-curious`` of
    OpenDP must be enabled, since OpenDP cannot check our proofs.

    Parameters
    ----------
    estimator : PrivatePCA, PrivateCovariance or another that fits one table
        Not fitted, without a `random_state` and without a `privacy_unit`.
    n_features : int
        Number of columns.
    n_rows : int, optional
        The public number of rows. Needed for ``adjacency="replace_one"``; for ``"add_or_remove_one"`` it is private.
    metric : opendp.mod.Metric, optional
        By default change-one distance for ``replace_one`` (Hamming distance where the order of rows matters), and
        symmetric distance for ``add_or_remove_one``. A metric for which the guarantee does not hold is refused.
    measure : opendp.mod.Measure, optional
        ``max_divergence()``, ``approximate(max_divergence())`` or ``zero_concentrated_divergence()``; by default the
        first for a pure guarantee and the second otherwise.

    Returns
    -------
    opendp.mod.Measurement

    Examples
    --------
    >>> import opendp.prelude as dp
    >>> from eigenveil import PrivatePCA
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> fit = measurement(PrivatePCA(1, epsilon=0.5, norm_bound=1.0), n_features=3, n_rows=500)
    >>> fit.map(1), fit.map(2)
    (0.5, 1.0)
    """
    guarantee = _guarantee(estimator, integer_between("n_features", n_features, 1), n_rows)
    size = n_rows if guarantee.adjacency is Adjacency.REPLACE_ONE else None
    shape = (size, n_features)
    # As they are now, which the map is for; a ledger stays the one that it is.
    given = estimator.get_params(deep=False)
    parameters = {name: value if name == "ledger" else deepcopy(value) for name, value in given.items()}

    def fitted(rows: FloatArray) -> Release:
        _check(rows, shape)
        # A new one, which knows nothing of other fits: OpenDP counts them.
        fresh = type(estimator)(**parameters)
        return fresh.fit(rows).release_

    if measure is None:
        measure = dp.max_divergence() if guarantee.delta == 0 else dp.approximate(dp.max_divergence())
    return dp.m.make_user_measurement(
        array2_domain(T=float, num_columns=n_features, size=size, nan=False),
        _checked_metric(guarantee, metric),
        measure,
        function=fitted,
        privacy_map=_privacy_map(guarantee, measure),
    )


def _guarantee(estimator: PrivateEstimator, n_features: int, n_rows: int | None) -> Guarantee:
    """Return the guarantee of every fit, by the plan of the estimator."""
    if getattr(estimator, "random_state", None) is not None:
        raise InvalidParameterError("A measurement needs secret noise. Leave out random_state.")
    if Adjacency.parse(estimator.adjacency) is Adjacency.REPLACE_ONE:
        integer_between("n_rows", n_rows, 1)
    elif n_rows is not None:
        raise InvalidParameterError("With adjacency='add_or_remove_one' the number of rows is private. Omit n_rows.")
    plan = estimator.plan(n_features, n_rows=n_rows)
    routes = [route for _, route in plan.routes] if n_rows is None else [plan.route(n_rows)]
    guarantees = [route.guarantee for route in routes]  # a private number of rows chooses among these
    rhos = [concentrated_rho(one) for one in guarantees]
    known = [rho for rho in rhos if rho is not None]
    guarantee = replace(
        guarantees[0],
        epsilon=max(one.epsilon for one in guarantees),
        delta=max(one.delta for one in guarantees),
        rho=max(known) if len(known) == len(rhos) else None,
        assumptions=tuple({sentence for one in guarantees for sentence in one.assumptions}),
    )
    if guarantee.unit is not Unit.ROW:
        raise InvalidParameterError("Metrics of OpenDP count rows, so the privacy unit must be one row.")
    if not guarantee.is_private:
        raise InvalidParameterError("This estimator gives no privacy guarantee, so it is not a measurement.")
    return guarantee


def _check(rows: object, shape: tuple[int | None, int]) -> None:
    """Refuse data of another type or shape than the domain has; how many rows there are only where it is public."""
    if not isinstance(rows, np.ndarray) or rows.dtype != np.float64 or rows.ndim != 2:
        raise InvalidDataError("The data must be a 2-dimensional array of float64.")
    if rows.shape[1] != shape[1] or shape[0] not in (None, rows.shape[0]):
        size = "any number of" if shape[0] is None else f"exactly {shape[0]}"
        raise InvalidDataError(
            f"The data must have {size} rows and {shape[1]} columns, as the measurement was made for."
        )


def _checked_metric(guarantee: Guarantee, metric: Any) -> Any:
    """Return the metric, if neighbours at distance 1 are neighbours of the guarantee."""
    if guarantee.adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        valid = [dp.symmetric_distance(), dp.insert_delete_distance()]
    else:  # unordered rows have no neighbours, so statistics that compare them need Hamming distance
        valid = [dp.change_one_distance(), dp.hamming_distance()]
        valid = valid[1:] if ORDER_ASSUMPTION in guarantee.assumptions else valid
    if metric is None:
        return valid[0]
    if str(metric) not in map(str, valid):
        names = " or ".join(str(one) for one in valid)
        raise InvalidParameterError(f"The guarantee holds for {names}, not for {metric}.")
    return metric


def _privacy_map(guarantee: Guarantee, measure: Any) -> Any:
    """Return the loss for neighbours at a distance: k epsilon, or k^2 rho (Bun and Steinke 2016, Proposition 1.9)."""
    rho, epsilon = concentrated_rho(guarantee), exact(guarantee.epsilon)
    kinds = {
        str(dp.max_divergence()): (lambda k: float_above(epsilon * k)) if guarantee.delta == 0 else None,
        str(dp.approximate(dp.max_divergence())): lambda k: (float_above(epsilon * k), _group_delta(guarantee, k)),
        str(dp.zero_concentrated_divergence()): None if rho is None else (lambda k: float_above(exact(rho) * k**2)),
    }
    found = kinds.get(str(measure))
    if found is None:
        raise InvalidParameterError(f"The guarantee {guarantee} cannot be stated in {measure}.")
    return found


def _group_delta(guarantee: Guarantee, k: int) -> float:
    """Return delta for k changed rows: delta times the sum of e^(i epsilon) over i < k, rounded up."""
    if guarantee.delta == 0 or k == 0:
        return 0.0
    if k == 1:
        return guarantee.delta
    if k * guarantee.epsilon > 700:
        return 1.0
    grown = math.expm1(k * guarantee.epsilon) / math.expm1(guarantee.epsilon) if guarantee.epsilon > 0 else float(k)
    return min(1.0, guarantee.delta * grown * (1 + 1e-12))
