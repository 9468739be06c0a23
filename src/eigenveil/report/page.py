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
from .html import Html, card, element, folded, number, table
from .officer import banner, date_in_words, officer
from .record import Record, Statement, budget, count, counted, plain_words, read_record, weights_in_words

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
    shown, stated = read(content), Statement.of(statement)
    cloud = scores if scores is None or isinstance(scores, ScoreMap) else load_score_map(scores)
    if cloud is not None:
        _check_same_directions(cloud, content.matrix.of_all(shown.components, 0.0))
    record = read_record(content, ledger, cloud, stated)
    kind = "Private release" if content.guarantee.is_private else "Release"
    name = title or f"{kind} by {content.origin.estimator or 'eigenveil'}"
    top = element(
        "div",
        element("p", name, class_="eyebrow"),
        element("h1", headline(shown, content).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")),
        element("p", _subtitle(content), class_="soft"),
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
            sections.plane(shown),
            sections.loadings(shown),
            sections.scores(cloud),
            means if shown.correlations is None else None,
            sections.notes(shown),
            sections.summary(content),
            officer(content, cloud, record),
            _how_it_was_made(content, record),
            _use(content, file_name, digest),
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


def _subtitle(release: Release) -> str:
    """Return one line with the released values, their rows, mechanism, date and budget."""
    what = "Second moment and components" if release.matrix.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features"
    line += "" if count(release) is None else f" from {count(release)} {counted(release)}"
    line += f", released by the mechanism {release.origin.mechanism}"
    line += f" on {release.origin.created[:10]}" if release.origin.created else ""
    guarantee = release.guarantee
    return f"{line}: {budget(guarantee.epsilon, guarantee.delta)}." if guarantee.is_private else f"{line}."


def _how_it_was_made(release: Release, record: Record) -> Html:
    """Return the public facts of the release, and the parts of its budget."""
    origin, guarantee, rows = release.origin, release.guarantee, release.origin.row_rule
    sites = () if origin.collection is None else origin.collection.sites
    refused = {} if origin.collection is None else origin.collection.refused
    simulated = origin.collection is not None and origin.collection.simulated
    chosen = [plain_words(name) for name in origin.chosen_privately]
    local = "local: rows were private before they were collected" if origin.model == "local" else None
    federated = f"federated: each of {', '.join(sites)} kept its own rows" if sites else None
    centred = "yes: the mean is part of the release" if origin.centred else None
    if "mean" in release.integers:
        centred = "yes: the mean was estimated first and subtracted from the rows"
    pilot = f"pilot estimate, then a second pass with rows of norm at most {number(rows.norm, 6)}"
    pairs = [
        (counted(release).capitalize(), count(release)),
        ("Features", release.features_counted),
        ("Mechanism", origin.mechanism),
        ("Calibration", origin.parameters.get("calibration")),
        ("Model", local or federated),
        ("Epsilon", f"{guarantee.epsilon:.6g}"),
        ("Delta", f"{guarantee.delta:.3g}"),
        ("zCDP rho", None if guarantee.rho is None else f"{guarantee.rho:.4g}"),
        ("Privacy unit", "one report" if local else guarantee.unit.in_words),
        ("Adjacency", guarantee.neighbours),
        ("Weights", weights_in_words(release)),
        ("Numerics", guarantee.numerics.value),
        ("Clipping bound", _norm_in_words(release, record)),
        ("Centred", centred),
        ("Preconditioning", None if rows.mapped_from is None else pilot),
        ("Estimated privately", ", ".join(chosen) or None),
        ("Reports refused", ", ".join(f"{plain_words(reason)} {n:,}" for reason, n in refused.items()) or None),
        ("Simulated", "yes: one process simulated all clients" if simulated else None),
        ("Ledger entry", origin.ledger_entry),
        ("Created", date_in_words(origin.created) or None),
        ("Software", f"eigenveil {origin.package_version}" if origin.package_version else None),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    parts, split = guarantee.parts, None
    if parts:
        named = [*chosen, "release"] if len(parts) == len(chosen) + 1 else [f"part {i + 1}" for i in range(len(parts))]
        lines = [
            (name, f"{one.epsilon:.6g}", f"{one.delta:.3g}", one.numerics.value)
            for name, one in zip(named, parts, strict=True)
        ]
        numbers = table("Parts of the privacy budget", ("spent on", "epsilon", "delta", "numerics"), lines)
        split = folded("How the privacy budget was split", numbers)
    return card("facts", "How it was made", element("dl", listed, class_="facts"), split)


def _norm_in_words(release: Release, record: Record) -> str:
    """Return the largest norm of a row."""
    clipping, rows = record.bounds.clipping, release.origin.row_rule
    if clipping:
        return f"{number(clipping[-1].value, 6)}, {clipping[-1].what}"
    if not rows.compares:
        return "none: directions of rows, norm 1"
    what = "signs of differences" if rows.statistic == "kendall" else "directions of differences, norm 1"
    return f"none: {what}" + (f"; {rows.comparisons} comparisons per row" if rows.compares_neighbours else "")


def _use(release: Release, file_name: str | None, digest: str | None) -> Html:
    """Return a citation of the release, and commands that verify its file."""
    origin = release.origin
    version = origin.package_version or "not stated"
    on = "" if release.n_rows is None else f", from {count(release)} {counted(release)}"
    made = f" on {origin.created[:10]}" if origin.created else ""
    checksum = f" SHA-256 {digest}." if digest else ""
    cite = (
        f"The released values were drawn by the mechanism {origin.mechanism} of eigenveil, version {version}{on}{made}."
        f" Guarantee: {release.guarantee}.{checksum} "
        f"Software: The eigenveil developers, eigenveil: differentially private PCA and covariance, version {version}."
    )
    name = (file_name or "release.npz").replace("\\", "\\\\").replace("'", "\\'")
    check = f"python -c \"import eigenveil; print(eigenveil.load_release('{name}').guarantee)\""
    verify = [
        element("p", "Loading the file fails if any bit of it was changed after it was written:"),
        element("pre", element("code", check)),
    ]
    if digest:
        said = "The file that this report was made from has this SHA-256 checksum (compare with "
        verify.append(element("p", said, element("code", "sha256sum"), "):"))
        verify.append(element("pre", element("code", digest)))
    verify.append(
        element("p", "A checksum detects damage. It does not prove who made the file: sign it for that.", class_="soft")
    )
    return element(
        "section",
        element("div", element("h2", "How to cite"), element("p", cite), class_="card"),
        element("div", element("h2", "How to verify"), verify, class_="card"),
        class_="pair",
        aria_label="How to cite and verify",
    )


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
