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
from ..guarantee import Adjacency, Numerics
from ..releases.file import MAX_BYTES
from ..releases.record import Release, load_release
from .record import Statement, read_record

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
    guarantee, origin, record = release.guarantee, release.origin, read_record(release, ledger, None, statement)
    names = ", ".join(release.feature_names) if release.feature_names else f"{release.n_features} features"
    shapes = [f"{name} ({' x '.join(map(str, one.shape)) or 'one number'})" for name, one in release.integers.items()]
    table, period = (None, None) if origin.schema is None else (origin.schema.table, origin.schema.period)
    about = f"Table: {table}." if table else _blank("which table")
    about += f" Period: {period}." if period else f" {_blank('which period')}"
    domain = _blank("which tables are possible, and what is publicly known of their columns")
    if origin.schema is not None:
        columns = "; ".join(
            f"{one.name} ({one.kind}{': ' + one.in_words() if one.in_words() else ''})" for one in origin.schema.columns
        )
        declared_by = origin.schema.declared_by or _blank("who declared them")
        domain = f"Tables of these columns, declared by {declared_by}: {columns}."
    unprotected = ["the names of the columns, ranges and other parameters that were declared"]
    if guarantee.adjacency is Adjacency.REPLACE_ONE:
        unprotected.insert(0, f"the number of {guarantee.unit.counted} ({release.n_rows})")
    if origin.total_weight is not None:
        unprotected.append("the weights of the rows")
    variant = ("Pure DP" if guarantee.delta == 0 else "Approximate DP") if guarantee.is_private else "Custom"
    parameters = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "rho": guarantee.rho}
    known = {name: float(one) for name, one in parameters.items() if one is not None and math.isfinite(one)}
    made_of = f"{len(guarantee.parts)} parts composed into one guarantee" if guarantee.parts else "one mechanism"
    composition, book = f"This release: {made_of}.", record.spending.ledger
    if book is None:
        composition += f" {_blank('what else was spent on the same data')}"
    else:
        entries = sum(one.entry is not None for one in record.spending.entries)
        spent, limit = book["spent"], book["limit"]
        composition += (
            f" Total spend: {entries} entries of the ledger for the data set {book['data_set']} have spent epsilon "
            f"{spent['epsilon']:.6g} and delta {spent['delta']:.3g}, of a limit of {limit['epsilon']:g} and "
            f"{limit['delta']:g}, by {'basic' if book['composition'] == 'basic' else 'zCDP'} composition."
        )
        composition += f" {record.spending.text}" if record.spending.not_in_ledger else ""
    clipping = " ".join(f"Clipping bound: {one.what} {one.value:.6g}, {one.text}." for one in record.bounds.clipping)
    source = None if release.mechanism is None else getattr(release.mechanism, "source", None)
    cited = "" if source is None else f" ({source})"
    numerics = f"Numerics: {guarantee.numerics.value}."
    if guarantee.numerics is Numerics.EXACT:
        numerics = (
            "Noise is sampled exactly, as integers, so that the guarantee does not depend on floating-point arithmetic."
        )
    deployment = {
        "basic": {
            "name": _blank("the name of the data product"),
            "data_curators": [_blank("the organization that publishes it")],
            "intended_use": record.statement.purpose or _blank("purpose of the release"),
            "data_product_type": "Summary statistics",
            "data_product_region": _blank("region or jurisdiction of the data"),
            "description": f"Released integers, and no rows: {', '.join(shapes)}. Columns: {names}. {about}",
            "publication_date": origin.created[:10] or _blank("YYYY-MM-DD"),
        },
        "dp_variant": {
            "variant_name": variant,
            "data_domain": domain,
            "unprotected_quantities": f"Public by assumption: {'; '.join(unprotected)}.",
        },
        "privacy_loss": {
            "privacy_unit": guarantee.unit.in_words,
            "privacy_unit_details": f"Neighbouring data sets: {guarantee.neighbours}. "
            f"{' '.join(record.meaning['sentences'])}",
            "privacy_parameters": known,
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
            "composition": composition,
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": f"Statistic: {origin.row_rule.statistic}. "
            f"{record.bounds.ranges_text} {clipping or 'No row was clipped.'} "
            f"{_blank('whether anyone looked at the data before, and what they chose by it')}",
            "mechanisms": f"The mechanism {origin.mechanism}{cited}, by the Python package eigenveil "
            f"{origin.package_version}. {numerics} Running times are not protected. "
            f"{_blank('how the rows are stored, and who has access')}",
            "justification": _blank("why this budget, these ranges and this unit"),
        },
        "administrative": {
            "sources": _blank("links to the release and to what describes it"),
            "registry_authors": [_blank("who filled in this record")],
        },
    }
    return {"url_slug": _blank("a-short-name"), "status": "Draft", "tier": 3, "deployment": deployment}


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
