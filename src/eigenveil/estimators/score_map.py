"""`score_map`: a private histogram of rows on two released components, the score plot of a PCA."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..accounting.ledger import LedgerOrPath
from ..errors import InvalidDataError, InvalidParameterError, integer_between
from ..gate import release_scores
from ..guarantee import Adjacency, Guarantee, Unit
from ..mechanisms.choices import AUTO, CountMechanism, count_mechanism
from ..moments.counts import ScoreCounts
from ..releases.record import Release
from ..releases.score_map import MOST_BINS, ScoreGrid, ScoreMap, adaptive_bins
from ..sampling.randomness import generator_from
from ..tables.base import Source
from ..tables.files import is_place
from ..tables.open import collect, is_source, on_engine, open_table
from ..tables.schema import Schema
from .parameters import Features, check_delta

# The frame reaches so many standard deviations of the scores to either side.
_REACH = 3.0
Groups = tuple[tuple[str, tuple[tuple[int, float], ...]], ...]


@dataclass(frozen=True, eq=False)
class ScorePlan:
    """Mechanism, grid and guarantee of a map, from public numbers alone."""

    mechanism: CountMechanism
    grid: ScoreGrid
    guarantee: Guarantee


def score_map(
    X: Any,
    release: Release,
    *,
    epsilon: float,
    delta: float = 0.0,
    axes: tuple[int, int] = (0, 1),
    bins: int | tuple[int, int] | None = None,
    groups: Any = None,
    frame: Any = None,
    adjacency: str | None = None,
    mechanism: str = AUTO,
    schema: Schema | None = None,
    privacy_unit: Any = None,
    ledger: LedgerOrPath | None = None,
    random_state: int | np.random.Generator | None = None,
) -> ScoreMap:
    """Return a differentially private score plot of two released components. It spends its own budget.

    Parameters
    ----------
    X : array, sparse matrix, data frame, path or list of paths; or an opened table
        The private rows, with all features of the release; a raw table is encoded with its schema.
    release : Release
        The release whose components, mean and variances define the map.
    epsilon, delta : float
        Privacy budget of the map, in addition to that of the release.
    axes : (int, int)
        Which two components, from 0.
    bins : int or (int, int), optional
        Number of cells along each component; chosen from the number of rows and the noise by default.
    groups : str, int or sequence, optional
        One map for each category of a declared column, by its name; for each of several columns of 0 and 1; or for the
        two values of one.
    frame : ((low, high), (low, high)), optional
        Public ends of the map along both components; by default three released standard deviations on either side of
        the mean. Rows beyond the ends count in the cells at the border.
    adjacency : {"replace_one", "add_or_remove_one"}, optional
        By default as in the release.
    mechanism : {"auto", "laplace", "gaussian"}
        "auto" uses the smaller noise. With Laplace noise, delta is not spent.
    schema : Schema, optional
        By default that of the release.
    privacy_unit : str, int, list or array, optional
        The privacy unit: a column, or one identifier per row. Each unit counts once, by the average of its rows.
    ledger : PrivacyLedger or path, optional
        Ledger that records the spend before noise is sampled.
    random_state : None, int or numpy.random.Generator
        None samples secure noise. Anything else makes the map reproducible **and not private**.

    Examples
    --------
    >>> from eigenveil import PrivatePCA
    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) * [3, 2, 1]
    >>> release = PrivatePCA(2, epsilon=2.0, norm_bound=12.0).fit(rows).release_
    >>> cloud = score_map(rows, release, epsilon=1.0)
    >>> cloud.counts.shape, str(cloud.guarantee)
    ((1, 13, 13), '1-DP (pure), replace-one adjacency, unit: one row; exact sampling')
    """
    if not isinstance(release, Release):
        raise InvalidParameterError(
            f"score_map takes rows and then a Release, as in score_map(X, pca.release_, ...), and was given "
            f"{type(release).__name__} in its place."
        )
    source = opened_rows(X, release, schema, privacy_unit)
    features = Features.of(source)
    plan = plan_scores(
        release,
        epsilon=epsilon,
        delta=delta,
        axes=axes,
        bins=bins,
        groups=groups,
        frame=frame,
        adjacency=adjacency,
        mechanism=mechanism,
        by_unit=features.by_unit,
        assumptions=features.assumptions,
    )
    generator = generator_from(random_state)
    counts = collect(source, partial(ScoreCounts, plan.grid, features.by_unit), purpose="counting scores")
    check_delta(plan.guarantee, counts.n_units)
    return release_scores(plan.mechanism, counts, generator=generator, ledger=ledger, assumptions=features.assumptions)


def plan_scores(
    release: Release,
    *,
    epsilon: float,
    delta: float = 0.0,
    axes: Sequence[int] = (0, 1),
    bins: int | Sequence[int] | None = None,
    groups: Any = None,
    frame: Any = None,
    adjacency: str | None = None,
    mechanism: str = AUTO,
    by_unit: bool = False,
    assumptions: tuple[str, ...] = (),
) -> ScorePlan:
    """Plan a `score_map`, under assumptions about a table; nothing is read but the release."""
    if len(axes) != 2 or axes[0] == axes[1]:
        raise InvalidParameterError("axes must be two different components, such as (0, 1).")
    chosen = tuple(integer_between("axes", axis, 0, len(release.components) - 1) for axis in axes)
    wanted = release.guarantee.adjacency if adjacency is None else Adjacency.parse(adjacency)
    noise = count_mechanism(epsilon, delta, wanted, mechanism)
    ends = _frame(release, list(chosen), frame)
    release.matrix.check_units()
    by = _groups(release, groups)
    cells = adaptive_bins(release.n_rows or 1, noise.noise_sd, max(1, len(by)))
    sides = (cells, cells) if bins is None else (bins, bins) if isinstance(bins, int) else tuple(bins)
    if len(sides) != 2:
        raise InvalidParameterError("bins must be a number, or one along each of the two components.")
    counted = tuple(integer_between("bins", side, 1, MOST_BINS) for side in sides)
    of_all = release.matrix.of_all
    grid = ScoreGrid.of(
        of_all(release.mean, 0.0),
        of_all(release.scale, 1.0),
        of_all(release.components[list(chosen)], 0.0),
        ends,
        (counted[0], counted[1]),
        (chosen[0], chosen[1]),
        by,
    )
    unit = Unit.PERSON if by_unit else Unit.ROW
    return ScorePlan(noise, grid, noise.guarantee(unit).with_assumption(*assumptions))


def opened_rows(
    X: Any, release: Release, schema: Schema | None = None, privacy_unit: Any = None, **text: Any
) -> Source:
    """Return the source of rows of a release's table."""
    n_features, names = release.matrix.table_features
    known = release.origin.schema if schema is None else schema
    if is_source(X):
        source = open_table(X)
    elif known is not None:
        source = open_table(X, schema=known, privacy_unit=privacy_unit, **text)
    else:
        parts = X if isinstance(X, list | tuple) else [X]
        named = any(is_place(part) or hasattr(part, "columns") or on_engine(part) for part in parts)
        source = open_table(X, list(names) if named and names else None, privacy_unit=privacy_unit, **text)
    if source.n_features != n_features:
        raise InvalidDataError(f"X has {source.n_features} features, and the release {n_features}.")
    if None not in (source.feature_names, names) and source.feature_names != names:
        raise InvalidDataError("The features of X are not those of the release, in the same order.")
    if release.guarantee.unit is Unit.PERSON and not getattr(source, "by_unit", False):
        raise InvalidParameterError("The release was made with a privacy unit. Give privacy_unit= here too.")
    return source


def _frame(release: Release, axes: list[int], given: Any) -> Any:
    """Return the ends of the map: those that were given, or the released spread widened by its noise."""
    if given is not None:
        try:
            ends = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            ends = np.empty(0)
        if ends.shape != (2, 2):
            raise InvalidParameterError("frame must be two pairs of numbers, such as ((-3, 3), (-2, 2)).")
        return ends
    variances = release.explained_variance
    if variances is None or not release.origin.row_rule.keeps_lengths:
        raise InvalidParameterError(
            "The release has no variances in the units of the table. Give public ends of the map by frame=."
        )
    interval = release.explained_variance_interval
    highest = variances if interval is None else np.maximum(interval[:, 1], variances)
    reach = _REACH * np.sqrt((variances[axes] + highest[axes]) / 2)
    if not np.all(reach > 0):
        raise InvalidParameterError(
            "The release has no variances along these components. Give public ends of the map by frame=."
        )
    return np.stack([-reach, reach], axis=1)


def _groups(release: Release, groups: Any) -> Groups:
    """Return the groups by the values that features have in them."""
    if groups is None:
        return ()
    positions = release.matrix.positions(groups)
    names = [release.feature_names[one] if release.feature_names else f"x{one}" for one in positions]
    if release.origin.screening is not None:
        positions = [release.origin.screening.kept[one] for one in positions]
    if len(positions) == 1:
        at = positions[0]
        return (f"not {names[0]}", ((at, 0.0),)), (str(names[0]), ((at, 1.0),))
    return tuple((str(name), ((at, 1.0),)) for name, at in zip(names, positions, strict=True))
