"""A record for the registry of deployments of differential privacy, from a release and its ledger.

Facts of the release are filled in. Facts that only people know are blanks that begin with `BLANK`, so that they are
easy to find. The schema of the registry is that of its `deployments-schema.yaml`.
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
from .record import Statement, bounds_used, known_total

BLANK = "TO BE FILLED IN"
_HEAD = f"""\
# A record for the registry of deployments of differential privacy, drafted by eigenveil from a release file.
# Every blank begins with {BLANK}. Optional and not included: data_product_sector (Technology, Healthcare, Education,
# Government, Energy or Finance). Read the whole record before you publish it.
"""


def registry_record(
    release: Release, ledger: PrivacyLedger | None = None, statement: Statement | None = None
) -> dict[str, Any]:
    """Return the record as plain types, with blanks for facts that only people know.

    Parameters
    ----------
    release : Release
    ledger : PrivacyLedger, optional
        For the total spend on the same data.
    statement : Statement, optional
        Its purpose becomes the intended use.
    """
    guarantee, origin = release.guarantee, release.origin
    names = ", ".join(release.feature_names) if release.feature_names else f"{release.n_features} features"
    deployment = {
        "basic": {
            "name": _blank("the name of the data product"),
            "data_curators": [_blank("the organization that publishes it")],
            "intended_use": (statement and statement.purpose) or _blank("purpose of the release"),
            "data_product_type": "Summary statistics",
            "data_product_region": _blank("region or jurisdiction of the data"),
            "description": f"{_released(release)} Columns: {names}. {_about(release)}",
            "publication_date": origin.created[:10] or _blank("YYYY-MM-DD"),
        },
        "dp_variant": {
            "variant_name": _variant(guarantee),
            "data_domain": _domain(release),
            "unprotected_quantities": _unprotected(release),
        },
        "privacy_loss": {
            "privacy_unit": guarantee.unit.in_words,
            "privacy_unit_details": f"Neighbouring data sets: {guarantee.neighbours}. {' '.join(guarantee.in_words())}",
            "privacy_parameters": _parameters(guarantee),
            "privacy_parameters_details": " ".join((str(guarantee), *guarantee.assumptions)),
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
            "post_processing": "Everything computed from the released integers: division by the number of "
            f"{guarantee.unit.counted}, conversion of units, eigenvectors, shrinkage, confidence intervals.",
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
    statement: Statement | None = None,
    max_bytes: int = MAX_BYTES,
) -> Path:
    """Write the record as YAML, and return its path; a failed write leaves no partial file."""
    import yaml

    made = release if isinstance(release, Release) else load_release(release, max_bytes=max_bytes)
    text = yaml.safe_dump(registry_record(made, ledger, statement), sort_keys=False, allow_unicode=True, width=100)
    target = given_path(path)
    try:
        with whole_file(target) as file:
            file.write((_HEAD + text).encode("utf-8"))
    except OSError as error:
        raise ReleaseFileError(f"The record cannot be written to {target}: {error.strerror}.") from error
    return target


def _blank(what: str) -> str:
    return f"{BLANK}: {what}."


def _released(release: Release) -> str:
    shapes = [
        f"{name} ({' x '.join(map(str, value.shape)) or 'one number'})" for name, value in release.integers.items()
    ]
    return f"Released integers, and no rows: {', '.join(shapes)}."


def _about(release: Release) -> str:
    schema = release.origin.schema
    table, period = (None, None) if schema is None else (schema.table, schema.period)
    text = f"Table: {table}." if table else _blank("which table")
    return f"{text} Period: {period}." if period else f"{text} {_blank('which period')}"


def _variant(guarantee: Guarantee) -> str:
    if not guarantee.is_private:
        return "Custom"
    return "Pure DP" if guarantee.delta == 0 else "Approximate DP"


def _parameters(guarantee: Guarantee) -> dict[str, float]:
    values = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "rho": guarantee.rho}
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _domain(release: Release) -> str:
    schema = release.origin.schema
    if schema is None:
        return _blank("which tables are possible, and what is publicly known of their columns")
    columns = "; ".join(
        f"{one.name} ({one.kind}{': ' + one.in_words() if one.in_words() else ''})" for one in schema.columns
    )
    return f"Tables of these columns, declared by {schema.declared_by or _blank('who declared them')}: {columns}."


def _unprotected(release: Release) -> str:
    kept = ["the names of the columns, ranges and other parameters that were declared"]
    if release.guarantee.adjacency is Adjacency.REPLACE_ONE:
        kept.insert(0, f"the number of {release.guarantee.unit.counted} ({release.n_rows})")
    if release.origin.total_weight is not None:
        kept.append("the weights of the rows")
    return f"Public by assumption: {'; '.join(kept)}."


def _composition(release: Release, ledger: PrivacyLedger | None) -> str:
    guarantee = release.guarantee
    parts = f"{len(guarantee.parts)} parts composed into one guarantee" if guarantee.parts else "one mechanism"
    if ledger is None:
        return f"This release: {parts}. {_blank('what else was spent on the same data')}"
    spent, entries = ledger.spent, len(ledger.entries())
    return (
        f"This release: {parts}. Total spend: {entries} entries of the ledger for the data set {ledger.data_set} have "
        f"spent epsilon {spent[0]:.6g} and delta {spent[1]:.3g}, of a limit of {ledger.epsilon:g} and {ledger.delta:g},"
        f" by {'basic' if ledger.composition == 'basic' else 'zCDP'} composition."
        f"{_beside(release, ledger)}"
    )


def _beside(release: Release, ledger: PrivacyLedger) -> str:
    paid, guarantee = release.origin.ledger_entry, release.guarantee
    if any(entry.entry == paid and entry.guarantee == guarantee for entry in ledger.entries()):
        return ""
    return f" Total known spend: {known_total(ledger, {'this release': guarantee})}."


def _preparation(release: Release) -> str:
    rows, bounds = release.origin.row_rule, bounds_used(release)
    clipping = " ".join(f"Clipping bound: {one.what} {one.value:.6g}, {one.in_words}." for one in bounds.clipping)
    used = f"Statistic: {rows.statistic}. {bounds.ranges_in_words} {clipping or bounds.clipping_in_words}"
    return f"{used} {_blank('whether anyone looked at the data before, and what they chose by it')}"


def _mechanism(release: Release) -> str:
    origin, mechanism = release.origin, release.mechanism
    known = None if mechanism is None else getattr(mechanism, "source", None)
    source = "" if known is None else f" ({known})"
    exact = release.guarantee.numerics is Numerics.EXACT
    floats = (
        "Noise is sampled exactly, as integers, so that the guarantee does not depend on floating-point arithmetic."
        if exact
        else f"Numerics: {release.guarantee.numerics.value}."
    )
    return (
        f"The mechanism {origin.mechanism}{source}, by the Python package eigenveil {origin.package_version}. {floats} "
        f"Running times are not protected. {_blank('how the rows are stored, and who has access')}"
    )
