"""`eigenveil ledger` and `eigenveil mechanisms`."""

import json

from eigenveil import Guarantee, PrivacyLedger
from eigenveil.errors import BudgetError, EigenveilError, InvalidParameterError
from eigenveil.mechanisms import MECHANISMS
from helpers import command_result, invoked


def invoke(*words, **options):
    result = invoked(*words, **options)
    return result if isinstance(result, str) else result.stdout


def test_a_ledger_from_making_to_history(tmp_path):
    path = tmp_path / "study.ledger"
    assert "ε = 2, δ = 1e-06" in invoke(
        "ledger", "create", path, "--data-set", "ward 3", "--epsilon", 2, "--delta", 1e-6
    )
    ledger = PrivacyLedger(path)
    assert (ledger.epsilon, ledger.delta) == (2.0, 1e-6)
    ledger.spend(Guarantee(0.5), "first look")
    shown = json.loads(invoke("ledger", "show", path, "--json"))
    assert shown["spent"] == [0.5, 0.0]
    assert shown["remaining"] == [1.5, 1e-6]
    assert shown["data_set"] == "ward 3"
    assert shown["seal"] == ledger.seal
    printed = invoke("ledger", "show", path)
    assert "ε = 0.5 (releases: 1)" in printed
    assert "ward 3" in printed
    assert ledger.seal in printed
    told = invoke("ledger", "history", path)
    assert "first look" in told
    assert "ward 3" in told
    entries = json.loads(invoke("ledger", "history", path, "--json"))
    assert [(entry["entry"], entry["what"], entry["guarantee"]["epsilon"]) for entry in entries] == [
        (1, "first look", 0.5)
    ]
    assert entries[0]["hash"] == ledger.entries()[0].hash
    assert invoke("ledger", "history", path, "--quiet") == ""


def test_a_concentrated_ledger_tells_what_is_left_in_rho(tmp_path):
    path = tmp_path / "study.ledger"
    options = ("--data-set", "study", "--epsilon", 1, "--delta", 1e-6, "--composition", "zcdp")
    invoke("ledger", "create", path, *options, "--quiet")
    ledger = PrivacyLedger(path)
    ledger.spend(Guarantee(0.1), "first")
    assert f"ε = {ledger.remaining[0]:.6g}, δ = 1e-06 (rho = {ledger.remaining_rho:.6g})" in invoke(
        "ledger", "show", path
    )
    shown = json.loads(invoke("ledger", "show", path, "--json"))
    assert (shown["remaining"], shown["remaining_rho"]) == (list(ledger.remaining), ledger.remaining_rho)


def test_check_spends_nothing(tmp_path):
    path = tmp_path / "study.ledger"
    invoke(
        "ledger", "create", path, "--data-set", "study", "--epsilon", 1, "--adjacency", "add_or_remove_one", "--quiet"
    )
    assert "ε = 1 of ε = 1" in invoke("ledger", "check", path, "--epsilon", 1)
    assert json.loads(invoke("ledger", "check", path, "--epsilon", 0.25, "--json"))["spent_after"] == [0.25, 0.0]
    invoke("ledger", "check", path, "--epsilon", 1.5, fails=BudgetError)
    assert PrivacyLedger(path).spent == (0.0, 0.0)


def test_ledger_errors(tmp_path):
    path = tmp_path / "study.ledger"
    for command in ("show", "history"):
        invoke("ledger", command, path, fails=InvalidParameterError)
    invoke("ledger", "create", path, "--data-set", "study", "--epsilon", -1, fails=EigenveilError)
    invoke(
        "ledger", "create", path, "--data-set", "study", "--epsilon", 1, "--composition", "zcdp", fails=EigenveilError
    )
    words = ("ledger", "create", path, "--epsilon", 1)
    invoke(*words, "--data-set", " ", fails=InvalidParameterError)
    assert command_result(*words).exit_code == 2  # no data set, no ledger
    assert not path.exists()
    invoke("ledger", "create", path, "--data-set", "study", "--epsilon", 1)
    invoke("ledger", "create", path, "--data-set", "study", "--epsilon", 1, fails=InvalidParameterError)
    (tmp_path / "text").write_text("hello")
    invoke("ledger", "show", tmp_path / "text", fails=EigenveilError)


def test_the_printed_table_is_the_table_of_mechanisms():
    cards = {card["name"]: card for card in json.loads(invoke("mechanisms", "--json"))}
    assert list(cards) == list(MECHANISMS)
    assert cards["ppca"]["numerics"] == "exact for one component, empirical for more"
    printed = invoke("mechanisms")
    assert all(name in printed for name in MECHANISMS)


def test_the_algorithms_of_the_papers_are_printed_with_their_calls():
    published = json.loads(invoke("mechanisms", "--papers", "--json"))
    assert "Exponential mechanism (baseline)" in [one["name"] for one in published]
    printed = invoke("mechanisms", "--papers")
    assert all(one["call"] in printed for one in published)
    assert "docs/reference/papers.md" in printed
