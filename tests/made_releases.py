"""Releases for tests of what is shown of them: made by the gate, so that no estimator is needed."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eigenveil import Guarantee, Release, RowBound, SecondMoments
from eigenveil.gate import check, draw, pay
from eigenveil.mechanisms import MECHANISMS
from eigenveil.mechanisms.base import DIRECTION_UNIT, Mechanism
from eigenveil.moments.row_rule import RowRule
from eigenveil.releases.origin import ComponentsRequest, Origin, Request
from eigenveil.sampling.randomness import secure_generator

NAMES = ["age", "income", "rent", "savings", "visits", "pulse"]


def table(n: int = 3000) -> np.ndarray:
    """Two groups of three features each, one with nine times the variance of the other."""
    generator = np.random.default_rng(5)
    weights = np.array([[3.0, 2, 1, 0, 0, 0], [0, 0, 0, 1, 1, -1]])
    return generator.normal(size=(n, 2)) @ weights + 0.3 * generator.normal(size=(n, 6))


def moments_of(rows: np.ndarray, bound: RowBound, names: Sequence[str] | None = None) -> SecondMoments:
    return SecondMoments(bound, rows.shape[1], None if names is None else tuple(names)).update(rows)


def drawn(
    mechanism: str = "gaussian",
    rows: np.ndarray | None = None,
    *,
    bound: RowBound | None = None,
    names: Sequence[str] | None = NAMES,
    request: Request | None = None,
    seed: int | None = None,
    ledger: Any = None,
    estimator: str | None = None,
    chosen_privately: tuple[str, ...] = (),
    guarantee: Guarantee | None = None,
    **parameters: Any,
) -> Release:
    """Return a release of a mechanism by its name; by default epsilon is 1 and delta, where it has one, 1e-6."""
    moments = moments_of(table() if rows is None else rows, RowBound(8.0) if bound is None else bound, names)
    calibration = parameters.get("calibration", MECHANISMS[mechanism].calibrations[0])
    budget = {"epsilon": 1.0, "delta": 1e-6 if MECHANISMS[mechanism].uses_delta(calibration) else 0.0}
    made = MECHANISMS[mechanism](**{**budget, **parameters, "n_features": moments.width, "accept_inexact": True})
    check(made, moments)
    generator = secure_generator() if seed is None else np.random.default_rng(seed)
    payment = pay(made, made.guarantee() if guarantee is None else guarantee, generator, ledger, f"{mechanism} release")
    return draw(moments, generator, payment, request=request, estimator=estimator, chosen_privately=chosen_privately)


def with_origin(release: Release, **changes: Any) -> Release:
    """Return the same integers with other public facts."""
    known = {name: getattr(release.origin, name) for name in release.origin.__dataclass_fields__}
    return Release(release.integers, release.unit, release.guarantee, Origin(**{**known, **changes}))


def by_hand(
    integers: Mapping[str, Any], guarantee: Guarantee | None = None, *, unit: float = 1.0, **origin: Any
) -> Release:
    """Return a release of a mechanism that nobody knows."""
    known = {"mechanism": "elsewhere", "parameters": {}, "row_rule": RowRule(1.0), "n_rows": 1, **origin}
    units = dict.fromkeys(integers, unit)
    return Release(integers, units, Guarantee(1.0) if guarantee is None else guarantee, Origin(**known))


def directions_by_hand(directions: np.ndarray, guarantee: Guarantee | None = None, **origin: Any) -> Release:
    """Return directions of a mechanism that nobody knows."""
    integers = {"directions": np.rint(directions / DIRECTION_UNIT)}
    return by_hand(integers, guarantee, unit=DIRECTION_UNIT, **origin)


class PlainReports(Mechanism):
    """A stand-in for a local mechanism: reports are the squares of rows, and their noise has a known size."""

    name = "plain_reports"
    releases = "matrix"

    def guarantee(self) -> Guarantee:
        return Guarantee(4.0).with_assumption("It holds against the server too.")

    def second_moment(self, values: Mapping[str, np.ndarray], n_rows: int) -> np.ndarray:
        return values["sums"].sum(axis=0) / n_rows

    def noise_sd(self, n_rows: int) -> float:
        return 2 / np.sqrt(n_rows)


def local_release(monkeypatch: Any, mechanism: Mechanism | None = None, k: int = 2) -> Release:
    """Return a release of the local model by a stand-in for its mechanism."""
    mechanism = PlainReports() if mechanism is None else mechanism
    monkeypatch.setattr("eigenveil.mechanisms.local.local_mechanism_from", lambda parameters: mechanism)
    rows = table() / 8.0
    integers = {"sums": np.rint(rows.T @ rows * 2**20)[None], "ones": np.array(0)}
    origin = Origin(
        mechanism=mechanism.name,
        parameters={},
        row_rule=RowRule(8.0),
        n_rows=len(rows),
        feature_names=tuple(NAMES),
        model="local",
        request=ComponentsRequest(k),
    )
    release = Release(integers, {"sums": 2.0**-20, "ones": 1.0}, mechanism.guarantee(), origin)
    assert release.mechanism is mechanism  # kept by the release, also after the patch is gone
    return release


def quietly(make: Any) -> Any:
    """Call without the warning that the noise swamps the signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()
