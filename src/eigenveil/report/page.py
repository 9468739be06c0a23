"""The page of a report, in one file that loads nothing: results first, then answers for a data-protection officer."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..accounting.ledger import DATABASE, PrivacyLedger
from ..errors import InvalidParameterError, ReleaseFileError
from ..files import given_path, whole_file
from ..guarantee import Adjacency, Guarantee, Unit, chance, odds_factor
from ..notebook import printable
from ..numerics import FloatArray
from ..releases.file import MAX_BYTES
from ..releases.record import Release, load_release
from ..releases.score_map import ScoreMap, load_score_map
from . import sections
from .charts import WIDTH, label, line, svg
from .estimates import read_estimates
from .headline import headline, noise_banner
from .html import Html, card, element, figure, folded, number, table
from .record import (
    LABELS,
    Bounds,
    Record,
    Spending,
    Statement,
    budget,
    count,
    counted,
    plain_words,
    read_record,
    released_in_words,
    together,
    weights_in_words,
)

StatementOrPath = Statement | Mapping[str, Any] | str | PathLike[str] | None
# Directions of a map are rounded to fewer bits than those of a release.
_SAME = 1e-4
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
    estimates, stated = read_estimates(content), Statement.of(statement)
    cloud = scores if scores is None or isinstance(scores, ScoreMap) else load_score_map(scores)
    if cloud is not None:
        _check_same_directions(cloud, content.matrix.of_all(estimates.components, 0.0))
    record = read_record(content, ledger, cloud, stated)
    kind = "Private release" if content.guarantee.is_private else "Release"
    name = title or f"{kind} by {content.origin.estimator or 'eigenveil'}"
    top = element(
        "div",
        element("p", name, class_="eyebrow"),
        element("h1", headline(estimates, content).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")),
        element("p", _subtitle(content), class_="soft"),
    )
    means = sections.means(estimates)  # part of the result where a matrix was requested
    # First the result; then the questions of a data-protection officer.
    body = element(
        "div",
        element("header", top, element("button", "Dark theme", type="button", id="theme", hidden="")),
        element(
            "main",
            _banner(content.guarantee),
            noise_banner(estimates),
            sections.regression(estimates),
            sections.correlations(estimates),
            means if estimates.correlations is not None else None,
            sections.spectrum(estimates),
            sections.plane(estimates),
            sections.loadings(estimates),
            sections.scores(cloud),
            means if estimates.correlations is None else None,
            sections.notes(estimates),
            sections.summary(content),
            _officer(content, cloud, record),
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
    style, script = (Html(assets.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "theme.js"))
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    policy = "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        # Nothing may be loaded and only these two texts may act, whatever stands in the names of features.
        element("meta", http_equiv="Content-Security-Policy", content=policy.format(*digests)),
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


def _subtitle(release: Release) -> str:
    """Return one line with the released values, their rows, mechanism, date and budget."""
    what = "Second moment and components" if release.matrix.has_matrix else "Components"
    line = f"{what} of {release.n_features:,} features"
    line += "" if count(release) is None else f" from {count(release)} {counted(release)}"
    line += f", released by the mechanism {release.origin.mechanism}"
    line += f" on {release.origin.created[:10]}" if release.origin.created else ""
    guarantee = release.guarantee
    return f"{line}: {budget(guarantee.epsilon, guarantee.delta)}." if guarantee.is_private else f"{line}."


# Questions of a data-protection officer.


def _officer(release: Release, cloud: ScoreMap | None, record: Record) -> Html:
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
        [before, _bullets([one["description"] for one in record.released["arrays"]]), *after],
        element("p", record.privacy_unit["answer"]),
        _meaning(release, cloud, record),
        _bullets(record.assumptions),
        _bounds(release, record.bounds),
        [
            *_spent(release, record.spending),
            _fields([(LABELS["other_releases"], record.statement.other_releases)]),
        ],
        _bullets(record.not_protected),
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


def _bullets(sentences: Sequence[str]) -> Html:
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


def _banner(guarantee: Guarantee) -> Html | None:
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
        ranges = [
            (one.feature, "none found: treated as constant")
            if one.low is None or one.high is None
            else (one.feature, f"{number(one.low, 6)} to {number(one.high, 6)}")
            for one in bounds.ranges
        ]
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
                    _date_in_words(one.spent_at or "").removesuffix(" UTC"),
                    one.what + (f" ({name})" if one.in_this_report and listed else ""),
                    f"{one.epsilon:.6g}",
                    f"{one.delta:.3g}",
                )
            )
        marked = {place for place, one in enumerate(spent.entries) if one.in_this_report}
        said.append(table("Ledger", ("entry", "when (UTC)", "what", "epsilon", "delta"), rows, marked))
    return [*said, element("p", spent.not_included)]


def _date_in_words(text: str) -> str:
    """Return an instant as people write it."""
    return str(text).replace("T", " ").replace("+00:00", " UTC")


# Making, citing and verifying a release.


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
        ("Created", _date_in_words(origin.created) or None),
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
