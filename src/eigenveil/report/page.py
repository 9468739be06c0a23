"""The page of a report: sections in plain words around the figures, in one file that loads nothing."""

import base64
import hashlib
from importlib.resources import files
from os import PathLike
from pathlib import Path

from ..accounting.ledger import PrivacyLedger
from ..errors import InvalidParameterError, ReleaseFileError
from ..releases import Release, load_release
from ..version import __version__
from ..whole_file import whole_file
from . import origin_sections, value_sections
from .guarantee_card import banner, guarantee_card
from .markup import Html, element
from .shown import read


def write_report(
    release: Release | str | PathLike[str],
    path: str | PathLike[str],
    *,
    ledger: PrivacyLedger | None = None,
    title: str | None = None,
) -> Path:
    """Write a report on a release to one HTML file that needs no network, and return its path.

    Parameters
    ----------
    release : Release or path
        The release, or its file; of a file the report also tells the checksum.
    path : path
        The HTML file to write.
    ledger : PrivacyLedger, optional
        Its history becomes a section of the report.
    title : str, optional
        The heading; public text.
    """
    target = Path(path)
    read_from = [] if isinstance(release, Release) else [Path(release)]
    read_from += [] if ledger is None else [ledger.path]
    if target.resolve() in [source.resolve() for source in read_from]:
        raise InvalidParameterError(f"{target} is read from and cannot be the report; name another file.")
    page = render_report(release, ledger=ledger, title=title)
    try:
        with whole_file(target) as file:
            file.write(page.encode("utf-8"))
    except OSError as error:
        raise ReleaseFileError(f"The report cannot be written to {target}: {error.strerror}.") from error
    return target


def render_report(
    release: Release | str | PathLike[str], *, ledger: PrivacyLedger | None = None, title: str | None = None
) -> str:
    """Return the report as HTML text; see `write_report`."""
    if isinstance(release, Release):
        content, file_name, digest = release, None, None
    else:
        content, file_name = load_release(release), Path(release).name
        with open(release, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    shown = read(content)
    kind = "Private release" if content.guarantee.is_private else "Release"
    heading = title or f"{kind} by {content.origin.estimator or 'eigenveil'}"
    body = element(
        "div",
        element(
            "header",
            element("div", element("h1", heading), element("p", origin_sections.subtitle(content), class_="soft")),
            element("button", "Dark theme", type="button", id="theme", hidden=""),
        ),
        element(
            "main",
            banner(content.guarantee),
            guarantee_card(content.guarantee),
            origin_sections.facts(content),
            value_sections.spectrum(shown),
            value_sections.regression(shown),
            value_sections.correlations(shown),
            value_sections.loadings(shown),
            value_sections.notes(shown),
            origin_sections.declared(content),
            origin_sections.history(content, ledger),
            origin_sections.use(content, file_name, digest),
            id="main",
        ),
        element(
            "footer",
            element(
                "p",
                f"Made by eigenveil {__version__} from the release alone: everything on this page is computed from "
                "released values and public parameters, and costs no further privacy.",
            ),
        ),
        class_="page",
    )
    return _document(heading, body)


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
