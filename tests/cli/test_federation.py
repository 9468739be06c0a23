"""`eigenveil federation ...` on files: what it prints, what it refuses, and what it replaces."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivacyLedger, load_release
from eigenveil.errors import BudgetError, InvalidParameterError
from eigenveil.federation import FederationError
from helpers import invoked
from made_rounds import needs_cryptography, schema_of

needs_cryptography()

INVITE = "federation invite --schema schema.yaml --epsilon 1 --site a --site b -o draft.json"


def command(line, *more, **options):
    return invoked(*shlex.split(line), *more, **options)


@pytest.fixture
def closed(tmp_path, monkeypatch):
    """Make a closed round of two sites in the current folder; return its fingerprint."""
    monkeypatch.chdir(tmp_path)
    schema_of(3).save("schema.yaml")
    for place, site in enumerate("ab"):
        rows = np.random.default_rng(place).normal(size=(300, 3))
        np.savetxt(f"{site}.csv", rows, "%.3f", ",", header="0,1,2", comments="")
    command(INVITE)
    for site in "ab":
        command(f"federation join draft.json --site {site} --key {site}.key -o {site}.json")
    return json.loads(command("federation close a.json b.json -o round.json --json").stdout)["fingerprint"]


def contribute(site, fingerprint, *more, **options):
    line = f"federation contribute round.json {site}.csv --key {site}.key --fingerprint {fingerprint}"
    return command(f"{line} -o {site}.contribution", *more, **options)


def test_a_round_by_files(closed, tmp_path):
    ledger = PrivacyLedger.create("a.ledger", epsilon=1.5, data_set="a")
    shown = contribute("a", closed, "--ledger", "a.ledger")
    assert "ε = 0.5 of 1.5 left after this" in shown.output
    assert len(ledger.entries()) == 1
    contribute("b", closed.upper(), "--quiet")
    told = json.loads(command("federation combine round.json a.contribution b.contribution --json").stdout)
    assert told["guarantee"]["epsilon"] == 1.0
    assert len(told["guarantee"]["assumptions"]) == 3
    assert load_release("release.npz").n_rows == 600
    assert "at most one site" in command("federation combine round.json a.contribution b.contribution --force").output
    page = command("report release.npz")
    assert page.exit_code == 0
    assert "each of a, b kept its own rows" in Path("release.html").read_text(encoding="utf-8")
    assert "federated_matrix_laplace" in command("show release.npz").output


def test_the_fingerprint_has_to_be_told(closed):
    for wrong in ("0" * 64, closed[:-1], ""):
        assert "fingerprint" in contribute("a", wrong or "x", fails=InvalidParameterError)
    assert Path("a.key").exists()


def test_keys_are_never_replaced_and_are_used_once(closed):
    command("federation join draft.json --site a --key a.key -o again.json --force", fails=InvalidParameterError)
    contribute("a", closed)
    before = Path("a.contribution").read_bytes()
    assert "fresh keys" in contribute("a", closed, "--force", fails=FederationError)
    assert Path("a.contribution").read_bytes() == before
    command("federation join draft.json --site a --key a.key -o again.json", fails=InvalidParameterError)


def test_force_replaces_what_is_no_key(closed):
    Path("a.contribution").write_bytes(b"mine")
    assert "--force" in contribute("a", closed, fails=InvalidParameterError)
    contribute("a", closed, "--force")
    assert Path("a.contribution").read_bytes().startswith(b"EVF1")
    for line in (INVITE, "federation close a.json b.json -o round.json"):
        command(line, fails=InvalidParameterError)
        command(line, "--force")


def test_a_spend_beyond_the_ledger_is_refused_before_rows_are_read(closed):
    PrivacyLedger.create("a.ledger", epsilon=0.5, data_set="a")
    contribute("a", closed, "--ledger", "a.ledger", fails=BudgetError)
    assert Path("a.key").exists()


@pytest.mark.parametrize(
    "line",
    [
        "federation invite -o x.json",
        "federation invite --schema schema.yaml --epsilon 1 -o x.json",
        "federation invite --again round.json --epsilon 2 -o x.json",
        f"{INVITE.replace('draft', 'x')} --mechanism laplace",
        f"{INVITE.replace('draft', 'x')} --quorum 5",
        "federation join draft.json --site mallory --key m.key -o x.json",
    ],
)
def test_wrong_words_are_one_sentence(closed, line):
    command(line, fails=InvalidParameterError)
    assert not Path("x.json").exists()
    assert not Path("m.key").exists()


def test_a_round_is_repeated(closed):
    command("federation invite --again round.json --without b -o x.json", fails=FederationError)  # below the quorum
    command("federation invite --again round.json -o x.json")
    assert json.loads(Path("x.json").read_text())["members"] == []
    contribute("a", closed)
