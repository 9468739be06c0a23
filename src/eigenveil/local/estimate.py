"""From exact totals to a `Release`: the estimate of the second moment, its components and its guarantee."""

from collections.abc import Mapping
from datetime import UTC, datetime

from ..errors import InvalidDataError, integer_between
from ..release import Release
from ..version import __version__
from .mechanism import Totals
from .protocol import LocalProtocol


def released(
    protocol: LocalProtocol,
    totals: Totals,
    n_components: int | None = None,
    *,
    refused: Mapping[str, int] | None = None,
    simulated: bool = False,
) -> Release:
    """Return the release of a collection; everything here is post-processing of private reports.

    Parameters
    ----------
    protocol : LocalProtocol
    totals : Totals
        Of at least one report.
    n_components : int, optional
        Number of components; all features by default.
    refused : mapping, optional
        Counts of refused reports, for the provenance.
    simulated : bool
        Whether one process held all rows and played all clients.
    """
    if totals.n_reports == 0:
        raise InvalidDataError("There are no accepted reports to release anything from.")
    d = protocol.n_features
    k = integer_between("n_components", d if n_components is None else n_components, 1, d)
    from ..postprocess.spectrum import top_components  # linear algebra that a collecting server does not need

    covariance = protocol.law.estimate(totals) * protocol.norm_bound**2
    guarantee = protocol.guarantee().with_caveat(
        "Local model: the promise is made to every client for its one report, and holds against the server too."
    )
    if totals.n_seeded:
        guarantee = guarantee.marked_reproducible()
    provenance = {
        "package_version": __version__,
        "model": "local",
        "mechanism": protocol.mechanism,
        "parameters": protocol.to_dict(),
        "fingerprint": protocol.fingerprint,
        "n_rows": totals.n_reports,
        "refused": dict(refused or {}),
        "simulated": simulated,
        "feature_names": None,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Release({"covariance": covariance, "components": top_components(covariance, k)}, guarantee, provenance)
