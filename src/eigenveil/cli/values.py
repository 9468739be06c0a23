"""What commands print of a release: the same values and intervals in tables and in JSON, whoever made the release."""

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid

from eigenveil.with_error import LEGEND, NOT_DETERMINED, around, holds_zero, marked, with_error

if TYPE_CHECKING:
    from rich.console import Console

    from eigenveil.releases import Release

_SHOWN_FEATURES = 20
_SHOWN_PAIRS = 10
_SHOWN_LOADINGS = 3


# For --json, by the names of the attributes.


def component_fields(release: "Release") -> dict[str, Any]:
    """Return components with their variances, and the intervals of these; null where there are none."""
    errors = release.loading_errors()
    told = {
        "components": release.components,
        "explained_variance": release.explained_variance,
        "explained_variance_interval": release.explained_variance_interval,
        "explained_variance_interval_kind": release.explained_variance_interval_kind,
        "explained_variance_ratio": release.explained_variance_ratio,
        "explained_variance_ratio_interval": release.explained_variance_ratio_interval,
        "captured_variance": release.captured_variance,
        "captured_variance_interval": release.captured_variance_interval,
        "captured_variance_ratio": release.captured_variance_ratio,
        "captured_variance_ratio_interval": release.captured_variance_ratio_interval,
        "above_noise": release.above_noise,
        "may_be_noise": release.may_be_noise,
        "noise_level": release.noise_level(),
        "loading_errors": None if errors is None else {name: plain(value) for name, value in vars(errors).items()},
        "mean": release.mean,
        "location_interval": release.location_interval(),
        "no_interval": release.no_interval,
    }
    return {name: plain(value) for name, value in told.items()}


def covariance_fields(release: "Release") -> dict[str, Any]:
    """Return the matrix and the location with the intervals of all entries; null where there are none."""
    told = {
        "covariance": release.covariance,
        "entry_interval": release.entry_interval(),
        "correlation": release.correlation,
        "correlation_interval": release.correlation_interval(),
        "location": release.mean,
        "location_interval": release.location_interval(),
        "drowned_features": release.drowned_features,
        "interval_of": None if release.no_interval else release.interval_of,
        "no_interval": release.no_interval,
    }
    return {name: plain(value) for name, value in told.items()}


def regression_fields(fit: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the coefficients of a regression by the names of its features, and the intervals of them and of R²."""
    features = [names[position] for position in fit.features]
    return {
        "coefficients": dict(zip(features, fit.coef.tolist(), strict=True)),
        "coef_interval": dict(zip(features, fit.coef_interval.tolist(), strict=True)),
        "intercept": fit.intercept,
        "intercept_error": fit.intercept_error,
        "r2": fit.r2,
        "r2_interval": fit.r2_interval.tolist(),
        "determined": bool(fit.determined),
        "alpha": fit.alpha,
    }


def feature_names(release: "Release") -> tuple[str, ...]:
    """Return the names of the features; their positions where they have none."""
    return release.feature_names or tuple(map(str, range(release.n_features)))


def plain(value: Any) -> Any:
    """Return an array as lists, and a tuple as a list; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


# For readers.


def print_components(console: "Console", release: "Release", names: Sequence[str], most: int | None = None) -> None:
    """Print a table of components, and what they capture together."""
    components, lost = release.components, release.may_be_noise
    count = len(components)
    shares, share_ends = release.explained_variance_ratio, release.explained_variance_ratio_interval
    variances, ends = release.explained_variance, release.explained_variance_interval
    errors = release.loading_errors()
    grid = Grid(title=f"Principal components of {len(names)} features")
    grid.add_column("component", justify="right", no_wrap=True)
    if shares is not None:  # a sampled subspace comes without variances
        grid.add_column("share", justify="right", no_wrap=True)
        grid.add_column("variance", justify="right", no_wrap=True)
    if errors is not None:
        grid.add_column("off by", justify="right", no_wrap=True)
    grid.add_column("largest loadings")
    for i, direction in enumerate(components[:most]):
        cells = [marked(str(i + 1), lost is not None and bool(lost[i]))]
        if shares is not None and variances is not None:
            cells.append(with_error(shares[i], _of(share_ends, i), percent=True))
            cells.append(with_error(variances[i], _of(ends, i)))
        if errors is not None:
            cells.append(_angle(errors, i))
        known = errors is not None and not errors.may_be_noise[i]
        grid.add_row(*cells, loadings(direction, names, errors.standard_errors[i] if errors and known else None))
    if most is not None and count > most:
        grid.add_row(f"{count - most} more")
    console.print(grid)
    together, interval = release.captured_variance_ratio, release.captured_variance_ratio_interval
    if together is not None and count > 1:
        console.print(f"Together: {with_error(together, interval, percent=True)} of the variance.", soft_wrap=True)


def print_features(console: "Console", release: "Release", names: Sequence[str]) -> None:
    """Print locations and sizes of features, and their largest correlations."""
    covariance, correlation = release.covariance, release.correlation
    assert covariance is not None
    assert correlation is not None
    where, ends, drowned = release.location_interval(), release.entry_interval(), release.drowned_features
    grid = Grid(title="Released covariance" if release.centred else "Released second moment")
    for heading in ("feature", "location", "root of the diagonal"):
        grid.add_column(heading, justify="left" if heading == "feature" else "right")
    for i, name in enumerate(names[:_SHOWN_FEATURES]):
        sizes = None if ends is None else [max(0.0, end) ** 0.5 for end in ends[i, i]]
        cells = with_error(release.mean[i], _of(where, i)), with_error(max(0.0, covariance[i, i]) ** 0.5, sizes)
        grid.add_row(marked(name, i in drowned), *cells)
    if len(names) > _SHOWN_FEATURES:
        grid.add_row(f"and {len(names) - _SHOWN_FEATURES} more", "", "")
    console.print(grid)
    reach = release.correlation_interval()
    pairs = sorted(combinations(range(len(names)), 2), key=lambda pair: -abs(correlation[pair]))
    if pairs:
        grid = Grid(
            title=f"Correlations: the largest {_SHOWN_PAIRS} of {len(pairs)}"
            if pairs[_SHOWN_PAIRS:]
            else "Correlations"
        )
        grid.add_column("features")
        grid.add_column("correlation", justify="right")
        for one, other in pairs[:_SHOWN_PAIRS]:
            interval = None if reach is None else reach[one, other]
            text = with_error(correlation[one, other], interval)
            grid.add_row(f"{names[one]}, {names[other]}", marked(text, interval is not None and holds_zero(interval)))
        console.print(grid)


def print_regression(console: "Console", fit: Any, names: Sequence[str], most: int | None = None) -> None:
    """Print the coefficients of a regression."""
    grid = Grid(title=f"Ridge regression of {names[fit.target]}")
    grid.add_column("feature")
    grid.add_column("coefficient", justify="right")
    for place, position in list(enumerate(fit.features))[:most]:
        ends = fit.coef_interval[place]
        grid.add_row(names[position], marked(with_error(fit.coef[place], ends), holds_zero(ends)))
    if most is not None and len(fit.features) > most:
        grid.add_row(f"and {len(fit.features) - most} more", "")
    grid.add_row("intercept", with_error(fit.intercept, around(fit.intercept, fit.intercept_error)))
    console.print(grid)
    told = f"R² {with_error(fit.r2, fit.r2_interval)}, alpha {fit.alpha:.4g}, from the same release"
    console.print(told, soft_wrap=True)
    if not fit.determined:
        console.print(NOT_DETERMINED, soft_wrap=True)
    console.print("Intervals of coefficients are for least squares, which a ridge draws to 0.", soft_wrap=True)


def print_legend(console: "Console", release: "Release", *, soft_wrap: bool = True) -> None:
    """Print once what all these intervals are, or why there are none."""
    varied = release.has_matrix and release.explained_variance_interval is not None
    console.print(LEGEND if varied or release.no_interval is None else release.no_interval, soft_wrap=soft_wrap)


def loadings(direction: Any, names: Sequence[str], errors: Any = None) -> str:
    """Return the features with the largest weights in a direction, with their errors where these are known."""
    order = sorted(range(len(names)), key=lambda position: -abs(direction[position]))[:_SHOWN_LOADINGS]
    told = []
    for position in order:
        value = float(direction[position])
        text = f"{value:.2f}" if errors is None else with_error(value, around(value, float(errors[position])))
        told.append(f"{names[position]} {'+' if value >= 0 else ''}{text}")
    return "\n".join(told)


def _angle(errors: Any, i: int) -> str:
    """Return the angle of a component to the true one in words."""
    return "any angle" if errors.may_be_noise[i] else f"{errors.angle[i]:.1f}° (< {errors.angle_bound[i]:.1f}°)"


def _of(ends: Any, i: int) -> Any:
    return None if ends is None else ends[i]
