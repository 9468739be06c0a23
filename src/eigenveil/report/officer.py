"""How a release was made, how to cite and verify it, and the questions of a data-protection officer."""

from collections.abc import Sequence

from ..accounting.ledger import PrivacyLedger
from ..display import printable
from ..releases.record import Release
from ..releases.score_map import ScoreMap
from .html import Html, budget, card, element, folded, guarantee_section, number, question, table
from .record import (
    LABELS,
    NOT_IN_LEDGER,
    Bounds,
    Source,
    Spending,
    Statement,
    assumptions,
    bounds_used,
    count,
    counted,
    limits,
    model_in_words,
    plain_words,
    privacy_unit,
    range_in_words,
    released_arrays,
    released_in_words,
    spending,
    table_in_words,
    together,
    weights_in_words,
)


def subtitle(release: Release) -> str:
    """Return one line: what was released, from how many rows, by which mechanism, when, under which budget."""
    what = "Second moment and components" if release.matrix.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features"
    line += "" if count(release) is None else f" from {count(release)} {counted(release)}"
    line += f", released by the mechanism {release.origin.mechanism}"
    line += f" on {release.origin.created[:10]}" if release.origin.created else ""
    guarantee = release.guarantee
    return f"{line}: {budget(guarantee.epsilon, guarantee.delta)}." if guarantee.is_private else f"{line}."


def facts(release: Release) -> Html:
    """Return the public facts of the release."""
    origin, guarantee = release.origin, release.guarantee
    local = origin.model == "local"
    refused = {} if origin.collection is None else origin.collection.refused
    simulated = origin.collection is not None and origin.collection.simulated
    pairs = [
        (counted(release).capitalize(), count(release)),
        ("Features", release.features_counted),
        ("Mechanism", origin.mechanism),
        ("Calibration", origin.parameters.get("calibration")),
        ("Model", model_in_words(release)),
        ("Epsilon", f"{guarantee.epsilon:.6g}"),
        ("Delta", f"{guarantee.delta:.3g}"),
        ("zCDP rho", None if guarantee.rho is None else f"{guarantee.rho:.4g}"),
        ("Privacy unit", "one report" if local else guarantee.unit.in_words),
        ("Adjacency", guarantee.neighbours),
        ("Weights", weights_in_words(release)),
        ("Numerics", guarantee.numerics.value),
        ("Clipping bound", norm_in_words(release)),
        ("Centred", _centred(release)),
        ("Preconditioning", _preconditioning(release)),
        ("Estimated privately", ", ".join(map(plain_words, origin.chosen_privately)) or None),
        ("Reports refused", ", ".join(f"{plain_words(reason)} {n:,}" for reason, n in refused.items()) or None),
        ("Simulated", "yes: one process simulated all clients" if simulated else None),
        ("Ledger entry", origin.ledger_entry),
        ("Created", date_in_words(origin.created) or None),
        ("Software", f"eigenveil {origin.package_version}" if origin.package_version else None),
    ]
    listed = [element("div", element("dt", name), element("dd", value)) for name, value in pairs if value is not None]
    return card("facts", "How it was made", element("dl", listed, class_="facts"), _parts(release))


def use(release: Release, file_name: str | None, digest: str | None) -> Html:
    """Return how to cite the release and how to verify its file."""
    origin = release.origin
    version = origin.package_version or "not stated"
    name = file_name or "release.npz"
    on = "" if release.n_rows is None else f", from {count(release)} {counted(release)}"
    made = f" on {origin.created[:10]}" if origin.created else ""
    checksum = f" SHA-256 {digest}." if digest else ""
    cite = (
        f"The released values were drawn by the mechanism {origin.mechanism} of eigenveil, version {version}{on}{made}."
        f" Guarantee: {release.guarantee}.{checksum} "
        f"Software: The eigenveil developers, eigenveil: differentially private PCA and covariance, version {version}."
    )
    check = f"python -c \"import eigenveil; print(eigenveil.load_release('{_quoted(name)}').guarantee)\""
    verify = [
        element("p", "Loading the file fails if any bit of it was changed after it was written:"),
        element("pre", element("code", check)),
    ]
    if digest:
        verify += [
            element(
                "p",
                "The file that this report was made from has this SHA-256 checksum (compare with ",
                element("code", "sha256sum"),
                "):",
            ),
            element("pre", element("code", digest)),
        ]
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
    listed = table("Parts of the privacy budget", ("spent on", "epsilon", "delta", "numerics"), rows)
    return folded("How the privacy budget was split", listed)


def _centred(release: Release) -> str | None:
    if "mean" in release.integers:
        return "yes: the mean was estimated first and subtracted from the rows"
    return "yes: the mean is part of the release" if release.origin.centred else None


def _preconditioning(release: Release) -> str | None:
    rows = release.origin.row_rule
    if rows.mapped_from is None:
        return None
    return f"pilot estimate, then a second pass with rows of norm at most {number(rows.norm, 6)}"


def norm_in_words(release: Release) -> str:
    """Return the largest norm of a row."""
    bounds = bounds_used(release)
    if bounds.clipping:
        return f"{number(bounds.clipping[-1].value, 6)}, {bounds.clipping[-1].what}"
    rows = release.origin.row_rule
    if not rows.compares:
        return "none: directions of rows, norm 1"
    what = "signs of differences" if rows.statistic == "kendall" else "directions of differences, norm 1"
    return f"none: {what}" + (f"; {rows.comparisons} comparisons per row" if rows.compares_neighbours else "")


def date_in_words(text: str) -> str:
    """Return an instant as people write it."""
    return str(text).replace("T", " ").replace("+00:00", " UTC")


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


QUESTIONS = (
    "Purpose and responsibility",
    "What was released?",
    "Is one row one person?",
    "What does it mean for one person?",
    "What does it assume?",
    "Which ranges and clipping bounds were used?",
    "How much privacy budget was spent in total?",
    "What is not protected?",
    "Approval",
)

_LISTED = 24


def officer(
    release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None, statement: Statement | None = None
) -> Html:
    """Return the questions of a data-protection officer with their answers."""
    stated = Statement() if statement is None else statement
    answers = (
        _purpose(release, ledger, stated),
        _released(release, cloud),
        [element("p", privacy_unit(release)["answer"])],
        _meaning(release, cloud),
        [element("ul", [element("li", line) for line in assumptions(release)])],
        _bounds(release),
        _spent(spending(release, ledger, cloud), stated),
        [element("ul", [element("li", line) for line in limits(release)])],
        _approval(release, stated),
    )
    sections = [
        question(f"question-{place}", f"{place}. {title}", answer)
        for place, (title, answer) in enumerate(zip(QUESTIONS, answers, strict=True), 1)
    ]
    return card("officer", "For the data-protection officer", sections, class_="card officer")


def _fields(pairs: Sequence[tuple[str, str | None]]) -> Html:
    """Return fields by name; one without a value is a blank line to fill in by hand."""
    return element(
        "dl", [element("div", element("dt", name), _field(value)) for name, value in pairs], class_="statement"
    )


def _field(value: str | None) -> Html:
    if value is None:
        return element("dd", element("span", "to be filled in"), class_="blank")
    lines = [printable(line) for line in value.splitlines()]
    return element("dd", [[element("br") if place else None, line] for place, line in enumerate(lines)])


def _purpose(release: Release, ledger: PrivacyLedger | None, stated: Statement) -> list[Html]:
    names = ("purpose", "recipients", "responsible")
    fields = _fields([(LABELS[name], getattr(stated, name)) for name in names])
    said = element("p", table_in_words(release, None if ledger is None else ledger.data_set))
    features = release.feature_names
    if not features:
        return [fields, said, element("p", f"The table has {release.n_features:,} features without names.")]
    listed = element("p", f"Features: {', '.join(map(printable, features))}.", class_="soft")
    return [fields, said, listed if len(features) <= _LISTED else folded(f"All {len(features):,} features", listed)]


def _released(release: Release, cloud: ScoreMap | None) -> list[Html]:
    said = [element("p", sentence) for sentence in released_in_words(release)]
    lines = [piece["description"] for piece in released_arrays(release, cloud)]
    return [said[0], element("ul", [element("li", line) for line in lines]), *said[1:]]


def _meaning(release: Release, cloud: ScoreMap | None) -> list[Html]:
    said = guarantee_section(release.guarantee)
    if cloud is None:
        return said
    text, both = f"The score map has its own guarantee: {cloud.guarantee}.", together(release, cloud)
    text += "" if both is None else f" Both together: {budget(both.epsilon, both.delta)}."
    return [*said, element("p", text)]


def _bounds(release: Release) -> list[Html]:
    bounds, schema = bounds_used(release), release.origin.schema
    said = [element("p", bounds.ranges_in_words)]
    if schema is not None:
        rows = [
            (one.name, one.kind, one.in_words() or "nothing", ", ".join(one.features) or "none")
            for one in schema.columns
        ]
        if bounds.ranges_source is not Source.SCHEMA:
            said.append(element("p", "The schema declares these columns:"))
        said.append(table("Declared columns", ("column", "kind", "declared", "features"), rows))
    if bounds.ranges and bounds.ranges_source is not Source.SCHEMA:
        said.append(_range_table(bounds))
    if bounds.clipping:
        lines = [(one.what, number(one.value, 6), one.in_words) for one in bounds.clipping]
        said.append(table("Clipping bounds", ("clipping bound", "value", "source"), lines, class_="stack"))
        said.append(element("p", bounds.clipping_in_words))
    return said


def _range_table(bounds: Bounds) -> Html:
    if bounds.common is not None:
        return element("p", f"All {len(bounds.ranges):,} features: {range_in_words(bounds.common)}.")
    rows = [(one.feature, range_in_words(one)) for one in bounds.ranges]
    listed = table("Ranges of the features", ("feature", "range"), rows, class_="narrow")
    return listed if len(rows) <= _LISTED else folded(f"All {len(rows):,} ranges", listed)


def _spent(spent: Spending, stated: Statement) -> list[Html]:
    """Return the total spend, the history of the ledger, and what no ledger knows."""
    said = [element("p", spent.total_in_words, class_="lead")]
    said += [element("p", sentence) for sentence in spent.sentences]
    if spent.missing:
        missing = f"{' and '.join(spent.missing).capitalize()}: {NOT_IN_LEDGER}."
        said.append(element("p", element("strong", missing)))
    if spent.entries:
        rows = [
            (
                one.number or NOT_IN_LEDGER,
                date_in_words(one.spent_at).removesuffix(" UTC"),
                one.what + (f" ({one.shown_as})" if one.shown_as and one.number else ""),
                f"{one.epsilon:.6g}",
                f"{one.delta:.3g}",
            )
            for one in spent.entries
        ]
        marked = {place for place, one in enumerate(spent.entries) if one.shown_as}
        said.append(table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, marked))
    return [*said, element("p", spent.unknown), _fields([(LABELS["other_releases"], stated.other_releases)])]


def _approval(release: Release, stated: Statement) -> list[Html]:
    text = "The undersigned confirm that the assumptions in section 5 hold for this table."
    if not release.guarantee.is_private:
        text = "This release is not private. Approve it for public data only."
    lines = [
        (LABELS["approval"], stated.approval),
        ("Place and date", None),
        ("Signature of the responsible person", None),
        ("Signature of the data-protection officer", None),
    ]
    return [element("p", text), _fields(lines)]
