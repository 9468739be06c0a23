"""What a data-protection officer asks of a release, in that order: seven questions, answered from public facts."""

from collections.abc import Iterator

from ..accounting.composition import compose
from ..accounting.ledger import PrivacyLedger
from ..guarantee import Relation
from ..releases import Release
from ..score_maps import ScoreMap
from .cards import budget, card, folded, question, table
from .guarantee_card import limits, promise
from .markup import Html, element
from .origin_sections import WEIGHTS, count, counted, date_in_words, norm_in_words, plain_words
from .shown import printable

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
    if release.guarantee.relation is Relation.REPLACE and count(release) is not None:
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
    "map": "map that rows went through after a first look, itself made from noisy numbers",
}


def _unit(release: Release) -> list[Html]:
    guarantee = release.guarantee
    if release.origin.model == "local":
        said = "One report, which is all that leaves one person. Rows were private before they were collected."
    else:
        said = f"{guarantee.unit.in_words.capitalize()}. "
        said += f"Two tables are neighbours where one comes from the other so: {guarantee.neighbours}."
    weight = release.origin.rows.person_weight
    if weight is not None:
        said += f" {WEIGHTS[weight].capitalize()}."
    return [element("p", said)]


def _declared(release: Release) -> list[Html]:
    schema, chosen = release.origin.schema, release.origin.chosen_privately
    found = f" Found privately, inside of the budget: {', '.join(map(plain_words, chosen))}." if chosen else ""
    if schema is None:
        rows = release.origin.rows
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
    alike = all(getattr(cloud.guarantee, one) == getattr(release.guarantee, one) for one in ("relation", "unit"))
    if alike and release.guarantee.is_private and cloud.guarantee.is_private:
        together = compose([release.guarantee, cloud.guarantee])
        text += f" Both together keep {budget(together.epsilon, together.delta)}."
    return [*said, element("p", text)]


def _spent(release: Release, ledger: PrivacyLedger | None, cloud: ScoreMap | None) -> list[Html]:
    """Return the history of the ledger, with the entries of this release marked."""
    paid = release.origin.ledger_entry
    if ledger is None:
        text = (
            f"This release was paid for as entry {paid} of a ledger that is not part of this report."
            if paid is not None
            else "No ledger is recorded for this release. Other releases from the same data add to what it costs."
        )
        return [element("p", text)]
    entries, spent, left = ledger.entries(), ledger.spent, ledger.remaining
    told = {
        line: name
        for line, entry in enumerate(entries)
        for name, number, guarantee in [
            ("this release", paid, release.guarantee),
            *([("its score map", cloud.ledger_entry, cloud.guarantee)] if cloud is not None else []),
        ]
        if entry.entry == number and entry.guarantee == guarantee
    }
    text = (
        f"Spent so far: {budget(*spent)}. The ledger of the data set {ledger.data_set} allows "
        f"{budget(ledger.epsilon, ledger.delta)} in all ({ledger.composition} composition), on {ledger.unit.in_words}. "
        f"One more release may have {budget(*left)}."
    )
    rows = [
        (
            e.entry,
            date_in_words(e.spent_at),
            e.what + (f" ({told[line]})" if line in told else ""),
            f"{e.guarantee.epsilon:.6g}",
            f"{e.guarantee.delta:.3g}",
        )
        for line, e in enumerate(entries)
    ]
    warning = None
    if "this release" not in told.values():
        warning = element("p", element("strong", "This release is not among the entries of this ledger."))
    listed = table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, set(told))
    return [element("p", text), *([] if warning is None else [warning]), listed]
