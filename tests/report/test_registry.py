"""The record for the registry of deployments: valid by its schema, true by the release, with blanks that show."""

import math
from pathlib import Path

import pytest
import yaml

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, Schema
from eigenveil.report import registry_record, write_registry
from eigenveil.report.registry import BLANK
from eigenveil.tables.schema import Column
from helpers import invoked
from made_releases import drawn, local_release, table

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
SCHEMA = Path(__file__).parents[3] / "shared" / "registry" / "deployments-schema.yaml"
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}


def faults(value, schema, where=""):
    """Yield what is wrong about a value, by the words of JSON Schema that the registry's uses."""
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(isinstance(value, TYPES[kind]) and not isinstance(value, bool) for kind in kinds):
        yield f"{where} is no {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is none of {schema['enum']}"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{where} lacks {name}" for name in schema.get("required", ()) if name not in value)
        if schema.get("additionalProperties") is False:
            yield from (f"{where} has an unknown {name}" for name in value if name not in known)
        for name in value.keys() & known.keys():
            yield from faults(value[name], known[name], f"{where}.{name}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} is too short"
        for i, one in enumerate(value):
            yield from faults(one, schema.get("items", {}), f"{where}[{i}]")
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is not finite"


@pytest.fixture(scope="module")
def schema():
    if not SCHEMA.exists():
        pytest.skip("the schema of the registry is not beside this checkout")
    return yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))


def releases(monkeypatch):
    columns = tuple(Column(str(i), range=(-20, 20)) for i in range(6))
    declared = Schema(columns, declared_by="the custodian", declared_on="2026-01-31")
    yield PrivateCovariance(epsilon=2.0, schema=declared).fit(table()).release_
    yield PrivatePCA(2, epsilon=1.0, delta=1e-6, statistic="clipped").fit(table()).release_
    yield PrivatePCA(2, statistic="kendall").fit(table()).release_
    yield drawn("eigenvector_sampling", adjacency="add_or_remove_one")
    yield drawn("none")
    yield drawn(seed=1)
    yield local_release(monkeypatch)


def test_records_follow_the_schema_of_the_registry(schema, monkeypatch):
    for release in releases(monkeypatch):
        assert list(faults(registry_record(release), schema)) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.pop("tier"),
        lambda record: record.update(status="Done"),
        lambda record: record["deployment"].update(more={}),
        lambda record: record["deployment"]["basic"].update(data_curators=[]),
        lambda record: record["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="1"),
        lambda record: record["deployment"]["dp_variant"].update(variant_name="Exact DP"),
    ],
)
def test_control_a_record_that_does_not_is_found(schema, spoil):
    record = registry_record(drawn())
    spoil(record)
    assert list(faults(record, schema))


def test_it_tells_what_the_release_knows(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=5.0, data_set="patients of 2025")
    columns = tuple(Column(str(i), range=(-20, 20), unit="kg") for i in range(6))
    declared = Schema(columns, declared_by="the custodian", table="patients of a clinic", period="2025")
    release = PrivateCovariance(epsilon=2.0, schema=declared, ledger=ledger).fit(table()).release_
    told = registry_record(release, ledger)["deployment"]
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0, "delta": 0.0}
    assert told["dp_variant"]["variant_name"] == "Pure DP"
    assert told["privacy_loss"]["privacy_unit"] == "one row"
    assert "declared by the custodian" in told["dp_variant"]["data_domain"]
    assert "-20 to 20 kg" in told["dp_variant"]["data_domain"]
    assert "number of rows (3000)" in told["dp_variant"]["unprotected_quantities"]
    assert "patients of 2025" in told["accounting"]["composition"]
    assert "epsilon 2 " in told["accounting"]["composition"]
    assert "Total known spend" not in told["accounting"]["composition"]
    beside = PrivateCovariance(epsilon=4.0, schema=declared).fit(table()).release_
    told_of_it = registry_record(beside, ledger)["deployment"]["accounting"]["composition"]
    assert "Total known spend: epsilon = 6: epsilon = 2 in the ledger, the rest not in the ledger" in told_of_it
    assert "exceeds the limit" in told_of_it
    assert "7 x 7" in told["basic"]["description"]
    assert "no rows" in told["basic"]["description"]
    assert "Table: patients of a clinic. Period: 2025." in told["basic"]["description"]
    assert told["basic"]["publication_date"] == release.origin.created[:10]
    assert release.origin.package_version in told["implementation"]["mechanisms"]
    not_private = registry_record(drawn("none"))["deployment"]
    assert not_private["dp_variant"]["variant_name"] == "Custom"
    assert "epsilon" not in not_private["privacy_loss"]["privacy_parameters"]


def blanks(value):
    if isinstance(value, str):
        return value.count(BLANK)
    return sum(map(blanks, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()))


def test_what_only_a_person_knows_is_a_blank_that_shows(tmp_path):
    release = drawn()
    basic = registry_record(release)["deployment"]["basic"]
    for name in ("name", "intended_use", "data_product_region"):
        assert basic[name].startswith(BLANK)
    path = write_registry(release, tmp_path / "record.yaml")
    text = path.read_text(encoding="utf-8")
    assert text.count(BLANK) == blanks(registry_record(release)) + 1  # and once in the heading
    assert yaml.safe_load(text) == registry_record(release)


def test_the_command_line_writes_it_beside_the_report(tmp_path):
    path = drawn().save(tmp_path / "release.npz")
    record = tmp_path / "record.yaml"
    statement = tmp_path / "statement.yaml"
    statement.write_text("purpose: teaching\n", encoding="utf-8")
    assert "TO BE FILLED IN" in invoked("report", path, "--registry", record, "--statement", statement).stdout
    assert yaml.safe_load(record.read_text())["deployment"]["basic"]["intended_use"] == "teaching"
    assert (tmp_path / "release.html").exists()
    from eigenveil.errors import InvalidParameterError

    (tmp_path / "release.html").unlink()
    assert "already exists" in invoked("report", path, "--registry", record, fails=InvalidParameterError)
    assert not (tmp_path / "release.html").exists()
