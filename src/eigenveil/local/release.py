"""From exact totals to a `Release`; what it says about the rows is then read as of any other release."""

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from ..errors import InvalidDataError, integer_between
from ..laws.local.base import Totals
from ..origin import Collection, ComponentsRequest, Origin, Request
from ..releases import Release
from ..version import __version__
from .protocol import LocalProtocol, row_rule_of


def released(
    protocol: LocalProtocol,
    totals: Totals,
    request: Request,
    *,
    refused: Mapping[str, int] | None = None,
    simulated: bool = False,
    estimator: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Release:
    """Return the release of a collection; everything here is post-processing of private reports.

    Parameters
    ----------
    protocol : LocalProtocol
    totals : Totals
        Of at least one report.
    request : Request
        What the release is for.
    refused : mapping, optional
        Counts of refused reports.
    simulated : bool
        Whether one process held all rows and played all clients.
    estimator : str, optional
        The estimator that asked.
    feature_names : tuple of str, optional
        Public names of the features.
    """
    if totals.n_reports == 0:
        raise InvalidDataError("There are no accepted reports to release anything from.")
    guarantee = protocol.guarantee().with_caveat(
        "Local model: the promise is made to every person for their one report, and holds against the server too; "
        "whoever reports twice spends twice."
    )
    if totals.n_seeded:
        guarantee = guarantee.marked_reproducible()
    origin = Origin(
        law=protocol.law,
        parameters=protocol.to_dict(),
        rows=row_rule_of(protocol),
        n_rows=totals.n_reports,
        feature_names=feature_names,
        model="local",
        estimator=estimator,
        request=request,
        collection=Collection(protocol.fingerprint, dict(refused or {}), simulated),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        package_version=__version__,
    )
    integers = {"sums": totals.sums, "ones": np.array(totals.ones)}
    return Release(integers, dict.fromkeys(integers, 1.0), guarantee, origin)


def components_request(n_components: int | None, n_features: int) -> ComponentsRequest:
    """Return the request for so many components, all by default; a number that cannot be is refused."""
    k = n_features if n_components is None else n_components
    return ComponentsRequest(integer_between("n_components", k, 1, n_features))
