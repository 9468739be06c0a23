"""Sections on where a release comes from: how it was made, how to cite and to verify it."""

import math

from ..guarantee import Unit
from ..releases import Release
from .cards import budget, card, folded, table
from .markup import Html, element, number

WEIGHTS = {
    "persons": "every person's average counts once, however many rows they have",
    "rows": "rows are pooled, so persons with many rows count more, until the bound holds them",
}
"""What a release is about where persons have many rows, in words."""


def subtitle(release: Release) -> str:
    """Return one line: what was released, from how many, by which law, when, under which promise."""
    what = "Second moment and components" if release.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features"
    line += "" if count(release) is None else f" from {count(release)} {counted(release)}"
    line += f", released by the law {release.origin.law}"
    line += f" on {release.origin.created[:10]}" if release.origin.created else ""
    promise = release.guarantee
    return f"{line}: {budget(promise.epsilon, promise.delta)}." if promise.is_private else f"{line}."


def facts(release: Release) -> Html:
    """Return the public facts of the release."""
    origin, guarantee = release.origin, release.guarantee
    local = origin.model == "local"
    refused = {} if origin.collection is None else origin.collection.refused
    simulated = origin.collection is not None and origin.collection.simulated
    pairs = [
        (counted(release).capitalize(), count(release)),
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
        ("Norm bound", norm_in_words(release)),
        ("Centred", _centred(release)),
        ("Stages", _stages(release)),
        ("Chosen privately", ", ".join(map(plain_words, origin.chosen_privately)) or None),
        ("Reports refused", ", ".join(f"{plain_words(reason)} {n:,}" for reason, n in refused.items()) or None),
        ("Simulated", "yes: one process played all clients" if simulated else None),
        ("Ledger entry", origin.ledger_entry),
        ("Created", date_in_words(origin.created) or None),
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


def use(release: Release, file_name: str | None, digest: str | None) -> Html:
    """Return how to cite the release and how to verify its file."""
    origin = release.origin
    version = origin.package_version or "not stated"
    name = file_name or "release.npz"
    on = "" if release.n_rows is None else f", from {count(release)} {counted(release)}"
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
    chosen = [plain_words(name) for name in release.origin.chosen_privately]
    named = [*chosen, "release"] if len(parts) == len(chosen) + 1 else [f"part {i + 1}" for i in range(len(parts))]
    rows = [
        (name, f"{p.epsilon:.6g}", f"{p.delta:.3g}", p.numerics.value) for name, p in zip(named, parts, strict=True)
    ]
    listed = table("Parts of the guarantee", ("spent on", "epsilon", "delta", "numerics"), rows)
    return folded("What the budget was spent on", listed)


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


def count(release: Release) -> str | None:
    """Return how many rows, persons or reports there are, as far as it is told."""
    if release.n_rows is None:
        return None
    # Where it is not public it was told with noise, unless nothing is promised at all.
    noisy = release.origin.n_rows is None and math.isfinite(release.guarantee.epsilon)
    return f"{release.n_rows:,}{' (noisy)' if noisy else ''}"


def counted(release: Release) -> str:
    """Return what is counted, in words."""
    if release.origin.model == "local":
        return "reports"
    rows = release.origin.rows
    return "pairs of rows" if rows.compares and not rows.on_ring else release.guarantee.unit.counted


def norm_in_words(release: Release) -> str:
    """Return what no row is longer than."""
    rows = release.origin.rows
    if rows.keeps_lengths:
        held = "" if rows.unit is Unit.ROW else ", for all rows of a person together"
        return number(rows.row_norm, 6) + held
    if not rows.compares:
        return "directions of rows, norm 1"
    what = "signs of differences" if rows.rows == "signs" else "directions of differences, norm 1"
    return f"{what}; {rows.comparisons} comparisons a row" if rows.on_ring else what


def plain_words(name: str) -> str:
    """Return the name of a parameter in words."""
    return str(name).replace("_", " ")


def date_in_words(text: str) -> str:
    """Return an instant as it is read."""
    return str(text).replace("T", " ").replace("+00:00", " UTC")


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
