"""The page of a report: sections in plain words around the figures, in one file that loads nothing."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..accounting.ledger import DATABASE, PrivacyLedger
from ..errors import InvalidParameterError, ReleaseFileError
from ..files import given_path, whole_file
from ..numerics import FloatArray
from ..releases.file import MAX_BYTES
from ..releases.record import Release, load_release
from ..releases.score_map import ScoreMap, load_score_map
from . import sections
from .facts import read
from .headline import headline, noise_banner
from .html import Html, banner, element
from .officer import facts, officer, subtitle, use
from .record import Statement

StatementOrPath = Statement | Mapping[str, Any] | str | PathLike[str] | None
# Directions of a map are rounded to fewer bits than those of a release.
_SAME = 1e-4


def write_report(
    release: Release | str | PathLike[str],
    path: str | PathLike[str],
    *,
    ledger: PrivacyLedger | None = None,
    title: str | None = None,
    scores: ScoreMap | str | PathLike[str] | None = None,
    statement: StatementOrPath = None,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write a report on a release to one HTML file that needs no network, and return its path.

    Parameters
    ----------
    release : Release or path
        The release, or its file. For a file the report also has the checksum.
    path : path
        The HTML file to write.
    ledger : PrivacyLedger, optional
        The report lists its entries and adds up the total spend.
    title : str, optional
        Line above the headline; public text.
    scores : ScoreMap or path, optional
        A score map of this release, as returned by `eigenveil.score_map`.
    statement : Statement, mapping or path, optional
        Purpose, recipients, responsible person and approval; a path names a YAML file with these keys. Fields that are
        not given are printed as blank lines to fill in.
    max_bytes : int
        As in `load_release`.
    """
    target = given_path(path)
    read_from = [] if isinstance(release, Release) else [Path(release)]
    read_from += [] if ledger is None else [ledger.path, ledger.path / DATABASE]
    read_from += [] if scores is None or isinstance(scores, ScoreMap) else [Path(scores)]
    read_from += [Path(statement)] if isinstance(statement, str | PathLike) else []
    if target.resolve() in [source.resolve() for source in read_from]:
        raise InvalidParameterError(f"{target} is an input of the report; choose another output file.")
    page = render_report(release, ledger=ledger, title=title, scores=scores, statement=statement, max_bytes=max_bytes)
    try:
        with whole_file(target) as file:
            file.write(page.encode("utf-8"))
    except OSError as error:
        raise ReleaseFileError(f"The report cannot be written to {target}: {error.strerror}.") from error
    return target


def render_report(
    release: Release | str | PathLike[str],
    *,
    ledger: PrivacyLedger | None = None,
    title: str | None = None,
    scores: ScoreMap | str | PathLike[str] | None = None,
    statement: StatementOrPath = None,
    max_bytes: int = MAX_BYTES,
) -> str:
    """Return the report as HTML text; see `write_report`."""
    if isinstance(release, Release):
        content, file_name, digest = release, None, None
    else:
        content, file_name = load_release(release, max_bytes=max_bytes), Path(release).name
        with open(release, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    shown = read(content)
    cloud = scores if scores is None or isinstance(scores, ScoreMap) else load_score_map(scores)
    if cloud is not None:
        _check_same_directions(cloud, content.matrix.of_all(shown.components, 0.0))
    kind = "Private release" if content.guarantee.is_private else "Release"
    name = title or f"{kind} by {content.origin.estimator or 'eigenveil'}"
    top = element(
        "div",
        element("p", name, class_="eyebrow"),
        element("h1", headline(shown, content).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")),
        element("p", subtitle(content), class_="soft"),
    )
    means = sections.means(shown)  # part of the result where a matrix was requested
    # First the result; then the questions of a data-protection officer.
    body = element(
        "div",
        element("header", top, element("button", "Dark theme", type="button", id="theme", hidden="")),
        element(
            "main",
            banner(content.guarantee),
            noise_banner(shown),
            sections.regression(shown),
            sections.correlations(shown),
            means if shown.correlations is not None else None,
            sections.spectrum(shown),
            sections.plane(shown, cloud),
            sections.loadings(shown),
            sections.scores(cloud),
            means if shown.correlations is None else None,
            sections.notes(shown),
            sections.summary(content),
            officer(content, ledger, cloud, Statement.of(statement)),
            facts(content),
            use(content, file_name, digest),
            id="main",
        ),
        element(
            "footer",
            element(
                "p",
                f"Made by eigenveil {__version__} from the released values, public parameters and the statements of "
                "the data owner. Making this page spends no privacy budget.",
            ),
        ),
        class_="page",
    )
    return _document(name, body)


def _check_same_directions(cloud: ScoreMap, components: FloatArray) -> None:
    """Refuse a score map whose directions are not those of the release; a map stores them as integers."""
    weights, axes = np.array(cloud.grid.weights, dtype=np.float64), list(cloud.grid.axes)
    if weights.shape[1] == components.shape[1] and max(axes) < len(components):
        lengths = np.linalg.norm(weights, axis=1, keepdims=True)
        if np.abs(weights / np.where(lengths > 0, lengths, 1.0) - components[axes]).max() < _SAME:
            return
    raise InvalidParameterError(
        "The score map was made from other components than those of this release; use a score map of this release."
    )


def _document(title: str, body: Html) -> str:
    assets = files(__package__)
    style = Html(assets.joinpath("page.css").read_text(encoding="utf-8"))
    script = Html(assets.joinpath("theme.js").read_text(encoding="utf-8"))
    policy = f"default-src 'none'; style-src '{_source(style)}'; script-src '{_source(script)}'; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        # Nothing may be loaded and only these two texts may act, whatever stands in the names of features.
        element("meta", http_equiv="Content-Security-Policy", content=policy + "; form-action 'none'"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"eigenveil {__version__}"),
        element("title", title),
        element("style", style),
    )
    skip = element("a", "Skip to the report", href="#main", class_="skip")
    return "<!DOCTYPE html>\n" + element(
        "html", head, element("body", skip, body, element("script", script)), lang="en"
    )


def _source(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
