"""What a reader should know about the numbers of a release, from the facts of law, rows and request."""

from collections.abc import Iterator

from ..origin import RegressionRequest, SparseRequest
from ..releases import Release


def notes_on(release: Release, n_components: int) -> Iterator[str]:
    """Yield what a reader should know, from the facts of law, rows and request."""
    law, rows = release.law, release.origin.rows
    if law is None and release.has_matrix:
        yield "The law of the noise is not known here, so the eigenvalues are shown as released."
    elif law is None:
        yield "The law of this release is not known here, and with it the order of any directions."
    if not n_components:
        yield "This version of eigenveil cannot tell components from it; a later one may."
    elif not release.has_matrix:
        yield "Only directions were released, so there are no eigenvalues and no shares of variance."
    if law is not None and not release.ordered:
        yield "The directions span the released subspace and have no order of importance."
    if rows.scale is not None and not release.origin.request.own_units:
        yield "Loadings and variances refer to the features after scaling."
    if release.has_matrix:
        yield from _matrix_notes(release, n_components)


def _matrix_notes(release: Release, n_components: int) -> Iterator[str]:
    law, rows, request = release.law, release.origin.rows, release.origin.request
    if request.correlation and rows.keeps_lengths:
        yield "Components and variances are those of the correlation matrix, by the variances that were released."
    if rows.rows == "signs":
        yield "Only signs of differences between rows were used: this is a correlation matrix, by the sine rule."
    elif rows.compares:
        yield "Rows are directions of differences between rows, so variances have no unit; compare shares."
    elif not rows.keeps_lengths:
        yield "Rows were all brought to length 1, so variances have no unit; compare shares."
    elif not release.centred:
        about = "the origin" if rows.shift is None else "the public shift"
        yield f"Variances are about {about}: the mean was not subtracted, so the first direction may be it."
    if rows.mapped_from is not None:
        yield (
            "Rows were mapped by a public matrix after a first look, and the release is mapped back: its noise is "
            "larger along strong directions than along weak ones."
        )
    if release.origin.model == "local" and not release.has_noise_law:
        yield "In the local model variances are shown as released: they are not freed of bias here."
        if release.noise_sd is not None:
            yield "The noise level is that of Gaussian noise of the same size: the sum of many reports is close to it."
    if law is not None and law.releases == "directions":
        yield (
            "Directions were sampled and their variances released with noise of their own; other directions share the "
            "rest of the total evenly. There is no noise level."
        )
    if isinstance(request, SparseRequest):
        yield (
            "The components are sparse: they are computed from the released matrix, loadings that are zero are exactly "
            "so, and variances are those along them. The eigenvalues are those of the whole matrix."
        )
    if isinstance(request, RegressionRequest):
        yield (
            "The matrix holds the features and the target of a regression, which are shown alike in correlations and "
            "loadings; the coefficients are computed from it."
        )
    if release.no_interval and release.origin.model == "local":
        yield release.no_interval
    kinds = release.explained_variance_interval_kind if n_components else None
    if kinds is not None and "approximate" in kinds:
        yield "For this release the coverage of the intervals of variances is known by experiment, not by proof."
