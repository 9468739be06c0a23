"""Sections on where a release comes from: how it was made, what was paid for it, how to cite and to verify it."""

import math

from ..accounting.ledger import PrivacyLedger
from ..guarantee import Unit
from ..releases import Release
from .cards import budget, card, table
from .markup import Html, element, number

WEIGHTS = {
    "persons": "every person's average counts once, however many rows they have",
    "rows": "rows are pooled, so persons with many rows count more, until the bound holds them",
}
"""What a release is about where persons have many rows, in words."""


def subtitle(release: Release) -> str:
    """Return one line: what was released, by which law, when."""
    what = "Second moment and components" if release.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features, released by the law {release.origin.law}"
    return line + (f" on {release.origin.created[:10]}." if release.origin.created else ".")


def facts(release: Release) -> Html:
    """Return the public facts of the release."""
    origin, guarantee = release.origin, release.guarantee
    local = origin.model == "local"
    refused = {} if origin.collection is None else origin.collection.refused
    simulated = origin.collection is not None and origin.collection.simulated
    pairs = [
        (_counted(release).capitalize(), _count(release)),
        ("Features", f"{release.n_features:,}"),
        ("Law", origin.law),
        ("Calibration", origin.parameters.get("calibration")),
        ("Model", _model(release)),
        ("Epsilon", f"{guarantee.epsilon:.6g}"),
        ("Delta", f"{guarantee.delta:.3g}"),
        ("zCDP rho", None if guarantee.rho is None else f"{guarantee.rho:.4g}"),
        ("Unit of privacy", "one report, which is all of one person" if local else guarantee.unit.in_words),
        ("Neighbours", guarantee.neighbours),
        ("Weights", _weights(release)),
        ("Numerics", guarantee.numerics.value),
        ("Norm bound", _norm(release)),
        ("Centred", _centred(release)),
        ("Stages", _stages(release)),
        ("Chosen privately", ", ".join(map(_words, origin.chosen_privately)) or None),
        ("Reports refused", ", ".join(f"{_words(reason)} {n:,}" for reason, n in refused.items()) or None),
        ("Simulated", "yes: one process played all clients" if simulated else None),
        ("Ledger entry", origin.ledger_entry),
        ("Created", _date(origin.created) or None),
        ("Made by", f"eigenveil {origin.package_version}" if origin.package_version else None),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    return card("facts", "How it was made", element("dl", listed, class_="facts"), _parts(release))


def _model(release: Release) -> str | None:
    """Return who was trusted with rows, where it is not one custodian."""
    if release.origin.model == "local":
        return "local: rows were private before they were collected"
    sites = () if release.origin.collection is None else release.origin.collection.sites
    return f"federated: each of {', '.join(sites)} kept its own rows" if sites else None


def declared(release: Release) -> Html | None:
    """Return what was declared of the columns in public, by whom and when."""
    schema = release.origin.schema
    if schema is None:
        return None
    by, on = schema.declared_by or "somebody who is not named", schema.declared_on
    text = (
        f"Declared by {by}{f' on {on}' if on else ''}, and not read off the rows. Rows with values far beyond their "
        "range were shortened; values beside the categories became zeros."
    )
    rows = [(one.name, one.kind, one.told() or "nothing", ", ".join(one.features) or "none") for one in schema.columns]
    listed = table("Columns", ("column", "kind", "declared", "features"), rows)
    return card("declared", "What was known in public", element("p", text), listed)


def history(release: Release, ledger: PrivacyLedger | None) -> Html:
    """Return the history of the ledger, with the entry of this release marked."""
    paid = release.origin.ledger_entry
    if ledger is None:
        text = (
            f"This release was paid for as entry {paid} of a ledger that is not part of this report."
            if paid is not None
            else "No ledger is recorded for this release. Other releases from the same data add to what it costs."
        )
        return card("ledger", "Budget", element("p", text))
    entries = ledger.entries()
    own = [e for e in entries if e.entry == paid and e.guarantee == release.guarantee]
    spent, left = ledger.spent, ledger.remaining
    text = (
        f"The ledger of the data set {ledger.data_set} allows {budget(ledger.epsilon, ledger.delta)} in all "
        f"({ledger.composition} composition), on {ledger.unit.in_words}. "
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
    return card("ledger", "Budget", element("p", text), warning, listed)


def use(release: Release, file_name: str | None, digest: str | None) -> Html:
    """Return how to cite the release and how to verify its file."""
    origin = release.origin
    version = origin.package_version or "not stated"
    name = file_name or "release.npz"
    on = "" if release.n_rows is None else f", from {_count(release)} {_counted(release)}"
    made = f" on {origin.created[:10]}" if origin.created else ""
    checksum = f" SHA-256 {digest}." if digest else ""
    cite = (
        f"The released values were drawn by the law {origin.law} of eigenveil, version {version}{on}{made}. "
        f"Guarantee: {release.guarantee}.{checksum} "
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
    chosen = [_words(name) for name in release.origin.chosen_privately]
    named = [*chosen, "release"] if len(parts) == len(chosen) + 1 else [f"part {i + 1}" for i in range(len(parts))]
    rows = [
        (name, f"{p.epsilon:.6g}", f"{p.delta:.3g}", p.numerics.value) for name, p in zip(named, parts, strict=True)
    ]
    listed = table("Parts of the guarantee", ("spent on", "epsilon", "delta", "numerics"), rows)
    return element("details", element("summary", "What the budget was spent on"), listed)


def _centred(release: Release) -> str | None:
    if "mean" in release.integers:
        return "yes, the mean was measured first and taken off the rows, which were bounded anew"
    return "yes, the mean is part of the release" if release.origin.centred else None


def _weights(release: Release) -> str | None:
    """Return what the release is about where persons have many rows; how many these are is never told."""
    weight = release.origin.rows.person_weight
    return None if weight is None else WEIGHTS[weight]


def _stages(release: Release) -> str | None:
    rows = release.origin.rows
    if rows.mapped_from is None:
        return None
    return f"two: rows were mapped after a first look, to norm {number(rows.norm, 6)}"


def _count(release: Release) -> str | None:
    if release.n_rows is None:
        return None
    # Where it is not public it was told with noise, unless nothing is promised at all.
    noisy = release.origin.n_rows is None and math.isfinite(release.guarantee.epsilon)
    return f"{release.n_rows:,}{' (noisy)' if noisy else ''}"


def _counted(release: Release) -> str:
    if release.origin.model == "local":
        return "reports"
    rows = release.origin.rows
    return "pairs of rows" if rows.compares and not rows.on_ring else release.guarantee.unit.counted


def _norm(release: Release) -> str:
    rows = release.origin.rows
    if rows.keeps_lengths:
        held = "" if rows.unit is Unit.ROW else ", for all rows of a person together"
        return number(rows.row_norm, 6) + held
    if not rows.compares:
        return "directions of rows, norm 1"
    what = "signs of differences" if rows.rows == "signs" else "directions of differences, norm 1"
    return f"{what}; {rows.comparisons} comparisons a row" if rows.on_ring else what


def _words(name: str) -> str:
    return str(name).replace("_", " ")


def _date(text: str) -> str:
    return str(text).replace("T", " ").replace("+00:00", " UTC")


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
