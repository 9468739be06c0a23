"""How a release was made, how to cite and verify it, and the questions of a data-protection officer."""

import math
from collections.abc import Iterator, Mapping

from ..accounting.composition import compose
from ..accounting.ledger import PrivacyLedger
from ..errors import EigenveilError
from ..guarantee import Adjacency, Guarantee, Unit
from ..releases.record import Release
from ..releases.score_map import ScoreMap
from .facts import printable
from .html import Html, budget, card, element, folded, limits, number, promise, question, table

WEIGHTS = {
    "equal": "every person's average counts once, however many rows they have",
    "by_rows": "rows are pooled, so persons with many rows count more, until the bound holds them",
}
"""What a release is about where persons have many rows, in words."""


def subtitle(release: Release) -> str:
    """Return one line: what was released, from how many, by which mechanism, when, under which promise."""
    what = "Second moment and components" if release.matrix.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features"
    line += "" if count(release) is None else f" from {count(release)} {counted(release)}"
    line += f", released by the mechanism {release.origin.mechanism}"
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
        ("Features", release.features_counted),
        ("Mechanism", origin.mechanism),
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
        f"The released values were drawn by the mechanism {origin.mechanism} of eigenveil, version {version}{on}{made}."
        f" Guarantee: {release.guarantee}.{checksum} "
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
    weight = release.origin.row_rule.unit_weight
    return None if weight is None else WEIGHTS[weight]


def _stages(release: Release) -> str | None:
    rows = release.origin.row_rule
    if rows.mapped_from is None:
        return None
    return f"two: rows were mapped after a pilot estimate, to norm {number(rows.norm, 6)}"


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
    rows = release.origin.row_rule
    return "pairs of rows" if rows.compares and not rows.compares_neighbours else release.guarantee.unit.counted


def norm_in_words(release: Release) -> str:
    """Return what no row is longer than."""
    rows = release.origin.row_rule
    if rows.keeps_lengths:
        held = "" if rows.unit is Unit.ROW else ", for all rows of a person together"
        return number(rows.row_norm, 6) + held
    if not rows.compares:
        return "directions of rows, norm 1"
    what = "signs of differences" if rows.statistic == "kendall" else "directions of differences, norm 1"
    return f"{what}; {rows.comparisons} comparisons a row" if rows.compares_neighbours else what


def plain_words(name: str) -> str:
    """Return the name of a parameter in words."""
    return str(name).replace("_", " ")


def date_in_words(text: str) -> str:
    """Return an instant as it is read."""
    return str(text).replace("T", " ").replace("+00:00", " UTC")


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


QUESTIONS = (
    "Which table, and which period?",
    "What left, exactly?",
    "What is one unit?",
    "Which ranges were declared, and by whom?",
    "What is promised?",
    "What was spent on this table in all?",
    "What is not promised?",
)

_LISTED = 24


def officer(release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None) -> Html:
    """Return the seven questions with their answers."""
    answers = (
        _table(release, ledger),
        _left(release, cloud),
        _unit(release),
        _declared(release),
        _promised(release, cloud),
        _spent(release, ledger, cloud),
        [element("p", limits(release.guarantee))],
    )
    asked = [
        question(f"question-{place}", f"{place}. {title}", answer)
        for place, (title, answer) in enumerate(zip(QUESTIONS, answers, strict=True), 1)
    ]
    return card("officer", "For the data-protection officer", asked, class_="card officer")


def _table(release: Release, ledger: PrivacyLedger | None) -> list[Html]:
    schema = release.origin.schema
    table, period = (None, None) if schema is None else (schema.table, schema.period)
    said = f"The table: {table}." if table else "The release does not tell its table."
    said += f" The period: {period}." if period else " It does not tell a period."
    if ledger is not None:
        said += f" The ledger calls the data set {ledger.data_set}."
    if not (table and period):
        said += " Whoever declares a schema can write both into it, under table and period."
    names = release.feature_names
    if not names:
        return [element("p", said), element("p", f"It has {release.n_features:,} features without names.")]
    listed = element("p", f"Features: {', '.join(map(printable, names))}.", class_="soft")
    return [element("p", said), listed if len(names) <= _LISTED else folded(f"Its {len(names):,} features", listed)]


def _left(release: Release, cloud: ScoreMap | None) -> list[Html]:
    lines = list(_integers(release))
    if cloud is not None:
        groups, cells = cloud.integers.shape[0], " × ".join(map(str, cloud.grid.bins))  # noqa: RUF001
        many = f"{groups} maps" if groups > 1 else "a map"
        lines.append(f"{many} of {cells} noisy counts, beside the release")
    said = "No row left, and nothing else that was read off the rows. "
    if release.guarantee.adjacency is Adjacency.REPLACE_ONE and count(release) is not None:
        said += f"The number of {counted(release)}, {count(release)}, is told: this promise takes it as public. "
    said += "Everything else on this page is computed from these integers and from public parameters."
    if not release.guarantee.is_private:
        said = "These numbers are not private. Everything else on this page is computed from them."
    return [element("ul", [element("li", line) for line in lines]), element("p", said)]


def _integers(release: Release) -> Iterator[str]:
    """Yield what left, piece by piece, in words."""
    for name, value in sorted(
        release.integers.items(), key=lambda piece: (piece[0] != "matrix", -piece[1].size, piece[0])
    ):
        shape = " × ".join(map(str, value.shape))  # noqa: RUF001
        if value.ndim == 0:
            yield f"one integer, the {_PIECES.get(name, plain_words(name))}"
        elif name == "matrix":
            with_mean = "; its last row and column tell the mean" if release.origin.centred else ""
            yield f"a {shape} matrix of integers{with_mean}"
        else:
            yield f"{shape} integers, the {_PIECES.get(name, plain_words(name))}"


_PIECES = {
    "trace": "sum of the diagonal, measured once more",
    "count": "number of units, with noise",
    "slack": "number of units less the sum of the diagonal, with noise",
    "quotients": "variances along the directions, and what they leave",
    "sums": "sums of reports",
    "ones": "sum of the ones among the reports",
    "mean": "mean, with noise",
    "mean_again": "mean of what a first mean left, with noise",
    "map": "map that rows went through after a pilot estimate, itself made from noisy numbers",
}


def _unit(release: Release) -> list[Html]:
    guarantee = release.guarantee
    if release.origin.model == "local":
        said = "One report, which is all that leaves one person. Rows were private before they were collected."
    else:
        said = f"{guarantee.unit.in_words.capitalize()}. "
        said += f"Two tables are neighbours where one comes from the other so: {guarantee.neighbours}."
    weight = release.origin.row_rule.unit_weight
    if weight is not None:
        said += f" {WEIGHTS[weight].capitalize()}."
    return [element("p", said)]


def _declared(release: Release) -> list[Html]:
    schema, chosen = release.origin.schema, release.origin.chosen_privately
    found = f" Found privately, inside of the budget: {', '.join(map(plain_words, chosen))}." if chosen else ""
    if schema is None:
        rows = release.origin.row_rule
        ranges = "and ranges" if rows.shift is not None or rows.scale is not None else "and no ranges"
        said = f"No schema was declared. Whoever ran the fit gave a bound {ranges}, which nobody signed."
        if chosen or not rows.keeps_lengths:
            said = "No schema was declared, so nobody signed for a range."
        return [element("p", f"{said} Bound of the rows: {norm_in_words(release)}.{found}")]
    by, on = schema.declared_by or "somebody who is not named", schema.declared_on
    text = (
        f"Declared by {by}{f' on {on}' if on else ''}, and not read off the rows. Rows with values far beyond their "
        f"range were shortened; values beside the categories became zeros.{found}"
    )
    rows_of = [
        (one.name, one.kind, one.told() or "nothing", ", ".join(one.features) or "none") for one in schema.columns
    ]
    return [element("p", text), table("Declared columns", ("column", "kind", "declared", "features"), rows_of)]


def _promised(release: Release, cloud: ScoreMap | None) -> list[Html]:
    said = promise(release.guarantee)
    if cloud is None:
        return said
    text = f"The map of scores has a promise of its own: {cloud.guarantee}."
    together = _together(release, cloud)
    text += "" if together is None else f" Both together keep {_budget_of(together)}."
    return [*said, element("p", text)]


def _together(release: Release, cloud: ScoreMap | None) -> Guarantee | None:
    """Return the guarantee of a release and its score map; None where they do not add up, or there is no map."""
    if cloud is None or not (release.guarantee.is_private and cloud.guarantee.is_private):
        return None
    alike = all(getattr(cloud.guarantee, one) == getattr(release.guarantee, one) for one in ("adjacency", "unit"))
    return compose([release.guarantee, cloud.guarantee]) if alike else None


def _budget_of(guarantee: Guarantee) -> str:
    return budget(guarantee.epsilon, guarantee.delta)


def _spent(release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None) -> list[Html]:
    """Return the history of the ledger, with the entries of this release marked."""
    paid = release.origin.ledger_entry
    if ledger is None:
        text = (
            f"This release was paid for as entry {paid} of a ledger that is not part of this report."
            if paid is not None
            else "No ledger is recorded for this release. Other releases from the same data add to what it costs."
        )
        together = _together(release, cloud)
        known = "" if together is None else f" This release and its score map have spent {_budget_of(together)}."
        return [element("p", text + known)]
    entries, left, rho = ledger.entries(), budget(*ledger.remaining), ledger.remaining_rho
    shown = [("this release", paid, release.guarantee)]
    shown += [] if cloud is None else [("its score map", cloud.ledger_entry, cloud.guarantee)]
    told = {
        line: name
        for line, entry in enumerate(entries)
        for name, number, guarantee in shown
        if entry.entry == number and entry.guarantee == guarantee
    }
    beside = {name: guarantee for name, _, guarantee in shown if name not in told.values()}
    text = (
        f"Spent so far: {known_total(ledger, beside)}. The ledger of the data set {ledger.data_set} allows "
        f"{budget(ledger.epsilon, ledger.delta)} in all ({ledger.composition} composition), on {ledger.unit.in_words}. "
    )
    text += "By its entries alone: " if beside else ""
    text += f"One more release may have {left}." if rho is None else f"Left of it: rho = {rho:.6g}, which is {left}."
    rows = [
        (
            str(e.entry),
            date_in_words(e.spent_at),
            e.what + (f" ({told[line]})" if line in told else ""),
            f"{e.guarantee.epsilon:.6g}",
            f"{e.guarantee.delta:.3g}",
        )
        for line, e in enumerate(entries)
    ]
    rows += [
        (_NOT_IN_LEDGER, "", name, f"{guarantee.epsilon:.6g}", f"{guarantee.delta:.3g}")
        for name, guarantee in beside.items()
    ]
    said = f"{' and '.join(beside).capitalize()}: {_NOT_IN_LEDGER}."
    warning = [element("p", element("strong", said))] if beside else []
    marked = {*told, *range(len(entries), len(rows))}
    listed = table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, marked)
    return [element("p", text), *warning, listed]


_NOT_IN_LEDGER = "not in the ledger"


def known_total(ledger: PrivacyLedger, beside: Mapping[str, Guarantee]) -> str:
    """Return what the entries of a ledger have spent together with what is shown and has no entry, in words."""
    if not beside:
        return budget(*ledger.spent)
    by_entries = f"{budget(*ledger.spent)} by the entries of the ledger"
    try:
        total = ledger.spent_with(*beside.values())
    except EigenveilError:  # of another adjacency or unit, without a rho, or not private
        return f"{by_entries}, and what is {_NOT_IN_LEDGER}, which cannot be added to it"
    over = total[0] > ledger.epsilon or total[1] > ledger.delta
    text = f"{budget(*total)}, of which {by_entries} and the rest is {_NOT_IN_LEDGER}"
    return f"{text}; this is over the limit" if over else text
