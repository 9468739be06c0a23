"""The sections of a report, each a function from released values to markup; None where there is nothing to say."""

import math
from typing import Any

import numpy as np

from ..accounting.ledger import PrivacyLedger
from ..guarantee import Relation
from ..release import Release
from ..version import __version__
from . import charts
from .blocks import budget, figure, section, table
from .markup import Html, element, fixed, number, percent
from .reading import SHOWN_EIGENVALUES, Reading


def subtitle(release: Release, reading: Reading) -> str:
    """Return one line: what was released, by which mechanism, when."""
    known = release.provenance
    what = "Second moment and components" if release.covariance is not None else "Components"
    line = f"{what} of {len(reading.names):,} features, released by {known.get('mechanism', 'an unknown mechanism')}"
    return line + (f" on {str(known['created'])[:10]}." if known.get("created") else ".")


def facts(release: Release, reading: Reading) -> Html:
    """Return the public facts of the release."""
    known, guarantee = release.provenance, release.guarantee
    bound = known.get("bound") or {}
    local = known.get("model") == "local"
    parameters = known.get("parameters") or {}
    private_count = guarantee.relation is Relation.ADD_REMOVE
    n_rows = known.get("n_rows")
    unit = "reports" if local else "pairs of rows" if known.get("rows") == "pairs" else "rows"
    pairs: list[tuple[str, Any]] = [
        (unit.capitalize(), None if n_rows is None else f"{n_rows:,}{' (noisy)' if private_count else ''}"),
        ("Features", f"{len(reading.names):,}"),
        ("Mechanism", known.get("mechanism")),
        ("Calibration", parameters.get("calibration")),
        ("Model", "local: rows were private before they were collected" if local else None),
        ("Epsilon", f"{guarantee.epsilon:.6g}"),
        ("Delta", f"{guarantee.delta:.3g}"),
        ("zCDP rho", None if guarantee.rho is None else f"{guarantee.rho:.4g}"),
        ("Neighbours", "replace one row" if guarantee.relation is Relation.REPLACE else "add or remove one row"),
        ("Numerics", guarantee.numerics.value),
        ("Norm bound", _norm(known, bound, parameters)),
        ("Centred", "yes, the mean is part of the release" if bound.get("constant") is not None else None),
        ("Chosen privately", ", ".join(map(_words, known.get("chosen_privately") or [])) or None),
        ("Reports refused", ", ".join(f"{_words(k)} {n:,}" for k, n in (known.get("refused") or {}).items()) or None),
        ("Simulated", "yes: one process played all clients" if known.get("simulated") else None),
        ("Ledger entry", known.get("ledger_entry")),
        ("Created", _date(known["created"]) if known.get("created") else None),
        ("Made by", f"eigenveil {known['package_version']}" if known.get("package_version") else None),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    return section("facts", "How it was made", element("dl", listed, class_="facts"), _parts(release))


def spectrum(reading: Reading) -> Html | None:
    """Return the scree plot and the shares of variance."""
    values, shares = reading.eigenvalues, reading.shares
    if values is None or shares is None or reading.released_eigenvalues is None:
        return None
    count = min(SHOWN_EIGENVALUES, values.size)
    said = f"The first {count} of {values.size} eigenvalues. " if count < values.size else ""
    if reading.alignments is not None:
        said += "Estimates are freed of the bias that the noise has on eigenvalues. "
    if reading.edge is not None:
        seen = reading.n_visible or "none"
        said += f"Above the noise edge {number(reading.edge)}: {seen} of {values.size} released eigenvalues. "
        said += "Below it there may be noise alone. " if seen != "none" else "The noise swamps the signal. "
    if charts.needs_root_scale(reading):
        said += "The axis is stretched near zero (square-root scale)."
    columns = ["component", "estimate", "as released"]
    cells = [range(1, count + 1), map(number, values[:count]), map(number, reading.released_eigenvalues[:count])]
    if reading.intervals is not None:
        columns += ["95 % from", "to"]
        cells += [map(number, reading.intervals[:count, end]) for end in (0, 1)]
    if reading.edge is not None:
        columns.append("above the edge")
        cells.append("yes" if value > reading.edge else "no" for value in reading.released_eigenvalues[:count])
    if reading.alignments is not None:
        columns.append("alignment")
        cells.append(f"{alignment:.2f}" for alignment in reading.alignments[:count])
    scree = figure(charts.scree(reading), said, columns, list(zip(*cells, strict=True)))
    running = np.minimum(np.cumsum(shares), 1.0)
    rows = [(i + 1, percent(float(shares[i])), percent(float(running[i]))) for i in range(count)]
    caption = "Bars: share of the total variance, from the estimates. Line: running total."
    variance = figure(charts.shares(reading), caption, ("component", "share", "running total"), rows)
    return element(
        "section",
        element("div", element("h2", "Eigenvalues"), scree, class_="card"),
        element("div", element("h2", "Explained variance"), variance, class_="card"),
        class_="pair",
        aria_label="Eigenvalues and explained variance",
    )


def correlations(reading: Reading) -> Html | None:
    """Return the correlations of the leading features, where the matrix is what was asked for."""
    if reading.correlations is None:
        return None
    features = charts.leading_features(reading, charts.CORRELATED_FEATURES)
    said = "Correlations in the released matrix, shrunk to remove noise; columns are numbered like the rows."
    if len(features) < len(reading.names):
        said += f" Shown are {len(features)} of {len(reading.names)} features; the release has all of them."
    columns = ["feature", *(reading.names[j] for j in features)]
    rows = [(reading.names[j], *(fixed(float(reading.correlations[j, i])) for i in features)) for j in features]
    return section("matrix", "Correlations", figure(charts.correlations(reading), said, columns, rows, "wide"))


def loadings(reading: Reading) -> Html:
    """Return the heat map of the loadings, and bars for each component."""
    k, d = reading.components.shape
    shown = min(k, charts.SHOWN_COMPONENTS)
    features = charts.leading_features(reading)
    said = "Loadings say how much each feature counts in a component; blue is positive, orange is negative. "
    if len(features) < d:
        said += f"Shown are the {len(features)} of {d} features with the largest loadings. "
    if shown < k:
        said += f"Shown are the first {shown} of {k} components; the release has all of them. "
    said += "The sign of a whole component has no meaning."
    columns = ["feature", *(f"component {i + 1}" for i in range(shown))]
    rows = [(reading.names[j], *(fixed(float(v), 4) for v in reading.components[:shown, j])) for j in features]
    chart = figure(charts.heat_map(reading), said, columns, rows, "wide")
    each = [
        element("figure", element("h3", _component_title(reading, i)), charts.bars(reading, i)) for i in range(shown)
    ]
    return element(
        "section",
        element("div", element("h2", "Loadings"), chart, class_="card"),
        element(
            "div", element("h2", "Largest loadings, by component"), element("div", each, class_="many"), class_="card"
        ),
        aria_label="Loadings",
    )


def notes(reading: Reading) -> Html | None:
    """Return what a reader should know about the numbers above."""
    lines = list(reading.notes)
    if reading.alignments is not None:
        lines.append(
            "Alignment is the estimated squared cosine between a released direction and the true one of the same rank: "
            "1 is the same direction, 0 is unrelated."
        )
    if not lines:
        return None
    return section("notes", "Reading these numbers", element("ul", [element("li", line) for line in lines]))


def history(release: Release, ledger: PrivacyLedger | None) -> Html:
    """Return the history of the ledger, with the entry of this release marked."""
    paid = release.provenance.get("ledger_entry")
    if ledger is None:
        text = (
            f"This release was paid for as entry {paid} of a ledger that is not part of this report."
            if paid is not None
            else "No ledger is recorded for this release. Other releases from the same data add to what it costs."
        )
        return section("ledger", "Budget", element("p", text))
    entries = ledger.entries()
    own = [e for e in entries if e.entry == paid and e.guarantee == release.guarantee]
    spent, left = ledger.spent, ledger.remaining
    text = (
        f"The ledger allows {budget(ledger.epsilon, ledger.delta)} in all ({ledger.composition} composition). "
        f"Spent so far: {budget(*spent)}. One more release may have {budget(*left)}."
    )
    rows = [
        (
            e.entry,
            _date(e.spent_at),
            e.what + (" (this release)" if e in own else ""),
            f"{e.guarantee.epsilon:.6g}",
            f"{e.guarantee.delta:.3g}",
        )
        for e in entries
    ]
    marked = {row for row, entry in enumerate(entries) if entry in own}
    warning = None
    if not own:
        warning = element("p", element("strong", "This release is not among the entries of this ledger."))
    listed = table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, marked)
    return section("ledger", "Budget", element("p", text), warning, listed)


def use(release: Release, file_name: str | None, digest: str | None) -> Html:
    """Return how to cite the release and how to verify its file."""
    known = release.provenance
    version = known.get("package_version", __version__)
    name = file_name or "release.npz"
    method = f"eigenveil {version}, mechanism {known.get('mechanism', 'not stated')}"
    rows = known.get("n_rows")
    on = f" from {rows:,} {'reports' if known.get('model') == 'local' else 'rows'}" if isinstance(rows, int) else ""
    made = f" on {known['created'][:10]}" if isinstance(known.get("created"), str) else ""
    checksum = f" SHA-256 {digest}." if digest else ""
    cite = (
        f"The released values were computed by {method}{on}{made}. Guarantee: {release.guarantee}.{checksum} "
        f"Software: The eigenveil developers, eigenveil: differentially private PCA and covariance, version {version}."
    )
    check = f"python -c \"import eigenveil; print(eigenveil.load_release('{_quoted(name)}').guarantee)\""
    verify = [
        element("p", "Reading the file fails if a single bit of it changed since it was written:"),
        element("pre", element("code", check)),
    ]
    if digest:
        verify += [
            element(
                "p",
                "The file that this report was made from has the SHA-256 checksum (compare with ",
                element("code", "sha256sum"),
                "):",
            ),
            element("pre", element("code", digest)),
        ]
    verify.append(
        element("p", "A checksum finds damage. It does not prove who made the file: for that, sign it.", class_="soft")
    )
    return element(
        "section",
        element("div", element("h2", "How to cite"), element("p", cite), class_="card"),
        element("div", element("h2", "How to verify"), verify, class_="card"),
        class_="pair",
        aria_label="How to cite and verify",
    )


def _parts(release: Release) -> Html | None:
    """Return what a composed guarantee is made of."""
    parts = release.guarantee.parts
    if not parts:
        return None
    chosen = [_words(name) for name in release.provenance.get("chosen_privately") or []]
    named = [*chosen, "release"] if len(parts) == len(chosen) + 1 else [f"part {i + 1}" for i in range(len(parts))]
    rows = [
        (name, f"{p.epsilon:.6g}", f"{p.delta:.3g}", p.numerics.value) for name, p in zip(named, parts, strict=True)
    ]
    listed = table("Parts of the guarantee", ("spent on", "epsilon", "delta", "numerics"), rows)
    return element("details", element("summary", "What the budget was spent on"), listed)


def _component_title(reading: Reading, i: int) -> str:
    title = f"Component {i + 1}"
    shares, released = reading.shares, reading.released_eigenvalues
    if shares is not None and i < shares.size:
        title += f": {percent(float(shares[i]))} of variance"
    if reading.edge is not None and released is not None and released[i] <= reading.edge:
        return title + ", may be noise"
    if reading.alignments is not None:
        title += f", alignment {reading.alignments[i]:.2f}"
    return title


def _norm(known: Any, bound: Any, parameters: Any) -> str | None:
    if known.get("rows") == "pairs":
        return "directions of differences, norm 1"
    norm = bound.get("norm", parameters.get("norm_bound"))
    return number(norm, 6) if isinstance(norm, float | int) and math.isfinite(norm) else None


def _words(name: str) -> str:
    return str(name).replace("_", " ")


def _date(text: str) -> str:
    return str(text).replace("T", " ").replace("+00:00", " UTC")


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
