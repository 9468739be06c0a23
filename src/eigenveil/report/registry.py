"""A record for the registry of deployments of differential privacy, from a release and its ledger.

What the release knows is filled in. What only a person knows is a blank that begins with `BLANK`, so that it can be
found and cannot be taken for an answer. The schema of the registry is that of its `deployments-schema.yaml`.
"""

import math
from os import PathLike
from pathlib import Path
from typing import Any

from ..accounting.ledger import PrivacyLedger
from ..errors import ReleaseFileError
from ..files import given_path, whole_file
from ..guarantee import Adjacency, Guarantee, Numerics
from ..releases.file import MAX_BYTES
from ..releases.record import Release, load_release
from .officer import known_total

BLANK = "TO BE FILLED IN"
_HEAD = f"""\
# A record for the registry of deployments of differential privacy, drafted by eigenveil from a release file.
# Every blank says {BLANK}, and what belongs there. Optional and left out: data_product_sector (Technology,
# Healthcare, Education, Government, Energy or Finance). Read all of it before it is published.
"""


def registry_record(release: Release, ledger: PrivacyLedger | None = None) -> dict[str, Any]:
    """Return the record as plain types, with blanks for what only a person knows.

    Parameters
    ----------
    release : Release
    ledger : PrivacyLedger, optional
        For what was spent on the same data in all.
    """
    promise, origin = release.guarantee, release.origin
    names = ", ".join(release.feature_names) if release.feature_names else f"{release.n_features} features"
    deployment = {
        "basic": {
            "name": _blank("the name of the data product"),
            "data_curators": [_blank("the entity that publishes it")],
            "intended_use": _blank("what the release is for"),
            "data_product_type": "Summary statistics",
            "data_product_region": _blank("which region the data describe, or whose laws apply"),
            "description": f"{_what_left(release)} Columns: {names}. {_about(release)}",
            "publication_date": origin.created[:10] or _blank("YYYY-MM-DD"),
        },
        "dp_variant": {
            "variant_name": _variant(promise),
            "data_domain": _domain(release),
            "unprotected_quantities": _unprotected(release),
        },
        "privacy_loss": {
            "privacy_unit": promise.unit.in_words,
            "privacy_unit_details": f"Neighbouring data sets: {promise.neighbours}. {' '.join(promise.in_words())}",
            "privacy_parameters": _parameters(promise),
            "privacy_parameters_details": " ".join((str(promise), *promise.assumptions)),
        },
        "deployment_model": {
            "model_name": {"local": "Local", "federated": "Federated"}.get(origin.model, "Central"),
            "actors": _blank("who may see the data, who may see the release, and why they are trusted"),
            "release_type": "One release",
            "release_type_details": _blank("whether the same data will be used again"),
            "data_source_type": "Static",
            "data_source_type_details": _blank("whether new rows come in over time; then the type is Dynamic"),
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "Everything that is read off the integers of the release: division by the number of "
            f"{promise.unit.counted}, units, eigenvectors, shrinkage, intervals.",
            "composition": _composition(release, ledger),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _preparation(release),
            "mechanisms": _mechanism(release),
            "justification": _blank("why this budget, these ranges and this unit"),
        },
        "administrative": {
            "sources": _blank("links to the release and to what describes it"),
            "registry_authors": [_blank("who filled in this record")],
        },
    }
    slug = f"{_blank('a-short-name')}"
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def write_registry(
    release: Release | str | PathLike[str],
    path: str | PathLike[str],
    *,
    ledger: PrivacyLedger | None = None,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write the record as YAML, whole or not at all, and return its path."""
    import yaml

    made = release if isinstance(release, Release) else load_release(release, max_bytes=max_bytes)
    text = yaml.safe_dump(registry_record(made, ledger), sort_keys=False, allow_unicode=True, width=100)
    target = given_path(path)
    try:
        with whole_file(target) as file:
            file.write((_HEAD + text).encode("utf-8"))
    except OSError as error:
        raise ReleaseFileError(f"The record cannot be written to {target}: {error.strerror}.") from error
    return target


def _blank(what: str) -> str:
    return f"{BLANK}: {what}."


def _what_left(release: Release) -> str:
    shapes = [
        f"{name} ({' x '.join(map(str, value.shape)) or 'one number'})" for name, value in release.integers.items()
    ]
    return f"What left is integers, and no rows: {', '.join(shapes)}."


def _about(release: Release) -> str:
    schema = release.origin.schema
    table, period = (None, None) if schema is None else (schema.table, schema.period)
    told = f"Table: {table}." if table else _blank("which table")
    return f"{told} Period: {period}." if period else f"{told} {_blank('which period')}"


def _variant(promise: Guarantee) -> str:
    if not promise.is_private:
        return "Custom"
    return "Pure DP" if promise.delta == 0 else "Approximate DP"


def _parameters(promise: Guarantee) -> dict[str, float]:
    told = {"epsilon": promise.epsilon, "delta": promise.delta, "rho": promise.rho}
    return {name: float(value) for name, value in told.items() if value is not None and math.isfinite(value)}


def _domain(release: Release) -> str:
    schema = release.origin.schema
    if schema is None:
        return _blank("which tables are possible, and what is publicly known of their columns")
    told = "; ".join(
        f"{one.name} ({one.kind}{': ' + one.in_words() if one.in_words() else ''})" for one in schema.columns
    )
    return f"Tables of these columns, declared by {schema.declared_by or _blank('who declared them')}: {told}."


def _unprotected(release: Release) -> str:
    kept = ["the names of the columns, ranges and other parameters that were declared"]
    if release.guarantee.adjacency is Adjacency.REPLACE_ONE:
        kept.insert(0, f"the number of {release.guarantee.unit.counted} ({release.n_rows})")
    if release.origin.total_weight is not None:
        kept.append("the weights of the rows")
    return f"Public by assumption: {'; '.join(kept)}."


def _composition(release: Release, ledger: PrivacyLedger | None) -> str:
    promise = release.guarantee
    parts = f"{len(promise.parts)} parts composed into one guarantee" if promise.parts else "one mechanism"
    if ledger is None:
        return f"This release: {parts}. {_blank('what else was spent on the same data')}"
    spent, entries = ledger.spent, len(ledger.entries())
    return (
        f"This release: {parts}. In all, {entries} entries of the ledger for the data set {ledger.data_set} have spent "
        f"epsilon {spent[0]:.6g} and delta {spent[1]:.3g}, of a limit of {ledger.epsilon:g} and {ledger.delta:g}, added"
        f" up by {'sums' if ledger.composition == 'basic' else 'zero-concentrated privacy'}."
        f"{_beside(release, ledger)}"
    )


def _beside(release: Release, ledger: PrivacyLedger) -> str:
    paid, promise = release.origin.ledger_entry, release.guarantee
    if any(entry.entry == paid and entry.guarantee == promise for entry in ledger.entries()):
        return ""
    return f" Known in all: {known_total(ledger, {'this release': promise})}."


def _preparation(release: Release) -> str:
    rows, chosen = release.origin.row_rule, release.origin.chosen_privately
    held = f"held to norm {rows.row_norm:.6g} (statistic: {rows.statistic})"
    bound = f"Rows were scaled by public or paid-for numbers and {held}."
    found = f"Found privately, inside of the budget: {', '.join(chosen)}." if chosen else "Nothing was found privately."
    return f"{bound} {found} {_blank('whether anyone looked at the data before, and what they chose by it')}"


def _mechanism(release: Release) -> str:
    origin, mechanism = release.origin, release.mechanism
    known = None if mechanism is None else getattr(mechanism, "source", None)
    source = "" if known is None else f" ({known})"
    exact = release.guarantee.numerics is Numerics.EXACT
    floats = (
        "Noise is drawn exactly in whole numbers, so that floating point plays no part in the guarantee."
        if exact
        else f"Numerics: {release.guarantee.numerics.value}."
    )
    return (
        f"The mechanism {origin.mechanism}{source}, by the Python package eigenveil {origin.package_version}. {floats} "
        f"Running times are not protected. {_blank('how the rows themselves are kept, and who has access')}"
    )
