"""Questions of a data-protection officer with their answers: a template over the record of facts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..display import printable
from ..guarantee import Adjacency, Guarantee, Unit, chance, odds_factor
from ..releases.record import Release
from ..releases.score_map import ScoreMap
from .charts import WIDTH, label, line, svg
from .html import Html, card, element, figure, folded, number, table
from .record import LABELS, Bounds, Range, Record, Spending, budget, released_in_words, together

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
# Beyond this e^epsilon is above 100, and a bound on the odds alone rules out little.
WEAK_EPSILON = 5.0
_LISTED = 24


def officer(release: Release, cloud: ScoreMap | None, record: Record) -> Html:
    """Return the questions of a data-protection officer with their answers."""
    before, *after = (element("p", sentence) for sentence in released_in_words(release))
    approve = "The undersigned confirm that the assumptions in section 5 hold for this table."
    if not release.guarantee.is_private:
        approve = "This release is not private. Approve it for public data only."
    signed = _fields(
        [
            (LABELS["approval"], record.statement.approval),
            ("Place and date", None),
            ("Signature of the responsible person", None),
            ("Signature of the data-protection officer", None),
        ]
    )
    answers = (
        _purpose(release, record),
        [before, _listed([one["description"] for one in record.released["arrays"]]), *after],
        element("p", record.privacy_unit["answer"]),
        _meaning(release, cloud, record),
        _listed(record.assumptions),
        _bounds(release, record.bounds),
        [
            *_spent(release, record.spending),
            _fields([(LABELS["other_releases"], record.statement.other_releases)]),
        ],
        _listed(record.not_protected),
        [element("p", approve), signed],
    )
    sections = [
        element(
            "section",
            element("h3", f"{place}. {title}", id=f"question-{place}"),
            answer,
            aria_labelledby=f"question-{place}",
        )
        for place, (title, answer) in enumerate(zip(QUESTIONS, answers, strict=True), 1)
    ]
    return card("officer", "For the data-protection officer", sections, class_="card officer")


def _listed(sentences: Sequence[str]) -> Html:
    return element("ul", [element("li", sentence) for sentence in sentences])


def _fields(pairs: Sequence[tuple[str, str | None]]) -> Html:
    """Return fields by name; one without a value is a blank line to fill in by hand."""
    fields = []
    for name, value in pairs:
        if value is None:
            entered = element("dd", element("span", "to be filled in"), class_="blank")
        else:
            lines = [printable(line) for line in value.splitlines()]
            entered = element("dd", [[element("br") if place else None, line] for place, line in enumerate(lines)])
        fields.append(element("div", element("dt", name), entered))
    return element("dl", fields, class_="statement")


def _purpose(release: Release, record: Record) -> list[Html]:
    stated, schema, ledger = record.statement, release.origin.schema, record.spending.ledger
    names = ("purpose", "recipients", "responsible")
    table, period = (None, None) if schema is None else (schema.table, schema.period)
    about = f"Table: {table or 'not stated'}. Period: {period or 'not stated'}."
    about += "" if ledger is None else f" Data set in the ledger: {ledger['data_set']}."
    about += "" if table and period else " Set table and period in the schema to state both."
    said = [_fields([(LABELS[name], getattr(stated, name)) for name in names]), element("p", about)]
    features = release.feature_names
    if not features:
        return [*said, element("p", f"The table has {release.n_features:,} features without names.")]
    listed = element("p", f"Features: {', '.join(map(printable, features))}.", class_="soft")
    return [*said, listed if len(features) <= _LISTED else folded(f"All {len(features):,} features", listed)]


# The guarantee.


def banner(guarantee: Guarantee) -> Html | None:
    """Return the warning over a release that is not private."""
    if guarantee.is_private:
        return None
    if guarantee.reproducible:
        head, text = "Not private: seeded", "The noise of this release was drawn from a seed, for tests only. "
        text += "Anyone who knows or guesses the seed can remove the noise. Do not publish it about real people."
    else:
        head, text = "Not private", "These values were released without any protection. Use them with public data only."
    return element("div", element("strong", head), element("p", text), class_="banner", role="alert")


def _meaning(release: Release, cloud: ScoreMap | None, record: Record) -> list[Html]:
    """Return the guarantee for one person: in words, and as beliefs of an attacker."""
    guarantee = release.guarantee
    said = list(record.meaning["sentences"])
    if guarantee.claimed is not None:
        said.append(
            f"The paper behind this mechanism states {budget(*guarantee.claimed)}. The noise gives "
            f"{budget(guarantee.epsilon, guarantee.delta)}, and this report uses that value."
        )
    if guarantee.is_private and guarantee.weakness is None and guarantee.epsilon > WEAK_EPSILON:
        said.append("A factor this large is a weak guarantee: by itself it rules out little.")
    formal = element("p", f"Formal guarantee: {guarantee}.", class_="soft")
    text = element("div", [element("p", sentence) for sentence in said], formal)
    if guarantee.is_private:
        factor = element("span", odds_factor(guarantee.epsilon), class_="factor")
        exception = f", except with {chance(guarantee.delta)}" if guarantee.delta > 0 else ""
        lead = ("This release changes the odds about one person by at most a factor of ", factor, f"{exception}.")
        pair = element("div", text, _belief_figure(guarantee, record.meaning["beliefs"]), class_="pair")
        found = [element("p", *lead, class_="lead"), pair]
    else:
        lost = "There is no limit to what can be learned about one person."
        found = [element("p", lost, class_="lead broken"), text]
    if cloud is not None:
        both = together(release, cloud)
        more = "" if both is None else f" Both together: {budget(both.epsilon, both.delta)}."
        found.append(element("p", f"The score map has its own guarantee: {cloud.guarantee}.{more}"))
    return found


def _belief_figure(guarantee: Guarantee, beliefs: Sequence[Mapping[str, Any]]) -> Html:
    """Draw the range of an attacker's belief for some prior odds, with a caption and a table."""
    left, right, row, upper = 110, WIDTH - 22, 28, 24
    lower = upper + row * len(beliefs)

    def x(belief: float) -> float:
        return left + (right - left) * belief

    shapes = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        shapes.append(line((x(tick), upper), (x(tick), lower), "grid"))
        shapes.append(label(x(tick), 14, f"{100 * tick:.0f} %", "middle", "soft"))
    shapes.append(label(left - 24, 14, "prior odds", "end", "soft"))
    rows, described = [], []
    for place, one in enumerate(beliefs):
        low, high, y = one["lowest"], one["highest"], upper + row * place + row / 2
        name = f"{one['prior_odds']} ({100 * one['prior']:.0f} %)"
        shapes.append(label(left - 12, y + 4, name, "end"))
        shapes.append(
            element("rect", x=x(low), y=y - 7, width=max(x(high) - x(low), 1.0), height=14, rx=7, class_="range")
        )
        shapes.append(element("circle", cx=x(one["prior"]), cy=y, r=4.5, class_="point"))
        rows.append((name, f"{100 * low:.4g} %", f"{100 * high:.4g} %"))
        described.append(
            f"prior odds of {one['prior_odds']} become a belief between {100 * low:.2g} and {100 * high:.3g} %"
        )
    title = "How much a belief can change"
    chart = svg("beliefs", lower + 4, title, f"{'; '.join(described)}.", shapes)
    even = next(one for one in beliefs if one["prior"] == 0.5)
    claim = "data say A and not B" if guarantee.adjacency is Adjacency.REPLACE_ONE else "data are in the table"
    # Rounded away from the prior.
    low, high = math.floor(1000 * even["lowest"]) / 10, math.ceil(1000 * even["highest"]) / 10
    caption = (
        f"Suppose an attacker knows {guarantee.known_others}, and the attacker's prior odds are 1:1 (50 %) that one "
        f"person's {claim}. After this release the attacker's belief is between {low:g} % and {high:g} %. Dot: belief "
        "before the release. Band: possible beliefs after it."
    )
    if guarantee.delta > 0:
        caption += " The bands do not include the probability delta."
    numbers = table(title, ("prior odds", "lowest belief", "highest belief"), rows)
    return figure(chart, caption, folded("These numbers as a table", numbers))


# Bounds and budget.


def _bounds(release: Release, bounds: Bounds) -> list[Html]:
    schema = release.origin.schema
    said = [element("p", bounds.ranges_text)]
    if schema is not None:
        rows = [
            (one.name, one.kind, one.in_words() or "nothing", ", ".join(one.features) or "none")
            for one in schema.columns
        ]
        if bounds.ranges_source != "schema":
            said.append(element("p", "The schema declares these columns:"))
        said.append(table("Declared columns", ("column", "kind", "declared", "features"), rows))
    if bounds.ranges and bounds.ranges_source != "schema":
        ranges = [(one.feature, _range_in_words(one)) for one in bounds.ranges]
        if len(ranges) > 1 and len({(one.low, one.high) for one in bounds.ranges}) == 1:
            said.append(element("p", f"All {len(ranges):,} features: {ranges[0][1]}."))
        else:
            listed = table("Ranges of the features", ("feature", "range"), ranges, class_="narrow")
            said.append(listed if len(ranges) <= _LISTED else folded(f"All {len(ranges):,} ranges", listed))
    if bounds.clipping:
        lines = [(one.what, number(one.value, 6), one.text) for one in bounds.clipping]
        said.append(table("Clipping bounds", ("clipping bound", "value", "source"), lines, class_="stack"))
        whose = "A row with a larger norm is scaled down to this bound. Single values are not clipped."
        if release.origin.model == "local":
            whose = "Each client scales its own row down if its norm is larger than this bound."
        elif release.origin.row_rule.unit is not Unit.ROW:
            whose = (
                "The rows of a privacy unit with a larger norm are scaled down to this bound. Single values are not "
                "clipped."
            )
        said.append(element("p", whose))
    return said


def _range_in_words(one: Range) -> str:
    if one.low is None or one.high is None:
        return "none found: treated as constant"
    return f"{number(one.low, 6)} to {number(one.high, 6)}"


def _spent(release: Release, spent: Spending) -> list[Html]:
    """Return the total spend, the history of the ledger, and a note on spends that no ledger has."""
    book, paid = spent.ledger, release.origin.ledger_entry
    if book is not None:
        limit, left, rho = budget(**book["limit"]), budget(**book["remaining"]), book["remaining_rho"]
        rest = f"One more release may spend {left}" if rho is None else f"Remaining: rho = {rho:.6g}, that is {left}"
        only = " (by its entries alone)" if spent.not_in_ledger else ""
        sentences = [
            f"The ledger of the data set {book['data_set']} allows {limit} in total ({book['composition']} "
            f"composition), for {Unit(book['unit']).in_words}.",
            f"{rest}{only}.",
        ]
    elif paid is not None:
        sentences = [f"This release is entry {paid} of a ledger that is not part of this report."]
    else:
        sentences = ["No ledger: this spend is not tracked."]
    said = [element("p", spent.text, class_="lead"), *(element("p", sentence) for sentence in sentences)]
    if spent.not_in_ledger:
        missing = f"{' and '.join(spent.not_in_ledger).capitalize()}: not in the ledger."
        said.append(element("p", element("strong", missing)))
    if spent.entries:
        rows = []
        for one in spent.entries:
            listed = one.entry is not None
            name = "this release" if one.entry == paid else "its score map"
            rows.append(
                (
                    str(one.entry) if listed else "not in the ledger",
                    date_in_words(one.spent_at or "").removesuffix(" UTC"),
                    one.what + (f" ({name})" if one.in_this_report and listed else ""),
                    f"{one.epsilon:.6g}",
                    f"{one.delta:.3g}",
                )
            )
        marked = {place for place, one in enumerate(spent.entries) if one.in_this_report}
        said.append(table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, marked))
    return [*said, element("p", spent.not_included)]


def date_in_words(text: str) -> str:
    """Return an instant as people write it."""
    return str(text).replace("T", " ").replace("+00:00", " UTC")
