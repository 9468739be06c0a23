"""Contributions to a round: what a site refuses to make, what whoever combines refuses to take, and what was paid."""

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivacyLedger, RowBound, SecondMoments
from eigenveil.errors import BudgetError, CapacityError, EngineError, InvalidDataError, InvalidParameterError
from eigenveil.federation import (
    ContributionError,
    FederationError,
    Objection,
    SiteKeys,
    combine,
    contribute,
    site,
)
from eigenveil.federation.contributions import _check_range, from_words, opened, sealed
from eigenveil.federation.crypto import public_keys, signed
from eigenveil.federation.rounds import Member, joining_message
from eigenveil.gate import pay_for_share, site_share
from eigenveil.mechanisms.federated import UNITS, FederatedMechanism
from eigenveil.sampling.matrices import rounded_sum
from eigenveil.sampling.randomness import seeded_generator
from eigenveil.sampling.wishart import LazyWishartDifference
from helpers import refused, start_child
from made_rounds import GAUSSIAN, D, contributions, drafted, joined, needs_cryptography, site_rows

needs_cryptography()


@pytest.fixture
def some_round(tmp_path):
    """Return a closed round of three sites, the bytes of their contributions, and their private keys."""
    agreed, keys = joined(drafted(**GAUSSIAN), tmp_path)
    secrets = {name: SiteKeys.load(file) for name, file in keys.items()}
    files = contributions(agreed, keys, tmp_path, site_rows())
    return agreed, [file.read_bytes() for file in files.values()], secrets


def objection_to(agreed, content):
    with refused(ContributionError) as told:
        combine(agreed, content)
    return told.value.objection


# What whoever combines refuses.


def test_every_contribution_counts_once_for_its_own_round_and_site(some_round, tmp_path):
    agreed, sent, secrets = some_round
    assert combine(agreed, sent[::-1]).n_rows == sum(map(len, site_rows()))
    assert objection_to(agreed, [*sent, sent[0]]) is Objection.REPEATED
    other, keys = joined(drafted(**GAUSSIAN), tmp_path)
    theirs = contribute(other, keys["site 0"], site_rows()[0], tmp_path / "other").read_bytes()
    assert objection_to(agreed, [theirs, *sent[1:]]) is Objection.FOREIGN
    # With another site's name, as it is and signed anew by who has a key of its own.
    place = slice(36, 40)
    renamed = bytearray(sent[0])
    renamed[place] = (1).to_bytes(4, "little")
    assert objection_to(agreed, [bytes(renamed), *sent[1:]]) is Objection.FORGED
    words = opened(agreed, sent[0]).words
    resealed = sealed(agreed, 1, words, False, secrets["site 0"].signing)
    assert objection_to(agreed, [resealed, *sent[1:]]) is Objection.FORGED
    renamed[place] = (7).to_bytes(4, "little")
    assert objection_to(agreed, [bytes(renamed), *sent[1:]]) is Objection.FOREIGN
    # A fingerprint cannot be put in place of another.
    moved = theirs[:4] + bytes.fromhex(agreed.fingerprint) + theirs[36:]
    assert objection_to(agreed, [moved, *sent[1:]]) is Objection.FORGED


def test_no_byte_of_a_contribution_can_be_changed(some_round):
    agreed, sent, _ = some_round
    seen = set()
    for at in range(len(sent[0])):
        changed = bytearray(sent[0])
        changed[at] ^= 1
        seen.add(objection_to(agreed, [bytes(changed), *sent[1:]]))
    assert seen == {Objection.MALFORMED, Objection.FOREIGN, Objection.FORGED}


@pytest.mark.parametrize("content", [b"", b"EVF1", b"garbage" * 100, bytes(10**6)])
def test_what_is_no_contribution_is_malformed(some_round, content):
    agreed, sent, _ = some_round
    assert objection_to(agreed, [content, *sent[1:]]) is Objection.MALFORMED
    for broken in (sent[0][:-1], sent[0] + b"\0"):
        assert objection_to(agreed, [broken, *sent[1:]]) is Objection.MALFORMED


def test_a_missing_site_is_named_and_files_are_too(some_round, tmp_path):
    agreed, sent, _ = some_round
    with refused(FederationError) as told:
        combine(agreed, sent[:2])
    assert "site 2" in str(told.value)
    (tmp_path / "broken").write_bytes(b"EVF1")
    with refused(ContributionError) as told:
        combine(agreed, [tmp_path / "broken"])
    assert "broken" in str(told.value)
    with refused(FederationError):
        combine(agreed, [tmp_path / "nowhere"])


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_a_poisoned_contribution_is_bounded_by_the_range_of_the_sum(tmp_path, adjacency):
    agreed, keys = joined(drafted(adjacency=adjacency, d=2, mechanism="matrix_laplace"), tmp_path)
    secrets = SiteKeys.load(keys["site 0"])
    files = contributions(agreed, keys, tmp_path, site_rows(d=2))
    sent = [file.read_bytes() for file in files.values()]
    rows = sum(map(len, site_rows(d=2)))
    grid, reach = agreed.terms.row_rule.limit_squared, agreed.mechanism.noise_reach

    def poisoned(entry, by):
        words = opened(agreed, sent[0]).words.copy()
        words[[entry]] += np.uint64(int(by * grid) % 2**64)
        return [sealed(agreed, 0, words, False, secrets.signing), *sent[1:]]

    combine(agreed, poisoned(0, rows / 4))  # within what rows can do, nobody can see it
    extra = (
        25 * reach if adjacency == "add_or_remove_one" else 0
    )  # where the number of rows is private, so is its range
    for entry, by in [(0, rows + 2 * reach), (0, -2 * reach - rows), (1, rows + 2 * reach), (2, 1e8)]:
        with refused(FederationError):
            combine(agreed, poisoned(entry, by + np.sign(by) * extra))
    if adjacency == "replace_one":
        for by in (-rows, -2 * rows, 10**6, 2**60):  # the number of units itself: the constant's corner knows it too
            with refused(FederationError):
                combine(agreed, poisoned(-1, by / grid))


def test_the_corner_tells_the_number_of_units(some_round):
    agreed, sent, _ = some_round
    total = sum(opened(agreed, content).words for content in sent)
    sums = dict(from_words(agreed.mechanism, total))
    _check_range(agreed, sums)
    sums[UNITS] = sums[UNITS] * 10_000
    with refused(FederationError):
        _check_range(agreed, sums)


# What a site refuses, and what it pays.


def test_a_site_contributes_once_whatever_the_data(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    key, rows = keys["site 0"], site_rows()
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="a")
    first = contribute(agreed, key, rows[0], tmp_path / "a", ledger=ledger)
    sent = first.read_bytes()
    for data in (rows[0], rows[1]):
        with refused(FederationError):
            contribute(agreed, key, data, tmp_path / "b", ledger=ledger)
    assert not (tmp_path / "b").exists()
    assert first.read_bytes() == sent
    assert [entry.what for entry in ledger.entries()] == [f"federation round {agreed.fingerprint[:16]}, site site 0"]
    assert "agreement" not in (tmp_path / f"{key.name}.used").read_text()  # destroyed
    with refused(InvalidParameterError):
        SiteKeys.create("site 0", agreed.terms).save(key)


@pytest.mark.parametrize("step", ["site_share", "to_words", "sealed", "whole_file"])
def test_the_spend_comes_first_and_a_broken_off_contribution_uses_up_its_keys(tmp_path, monkeypatch, step):
    agreed, keys = joined(drafted(), tmp_path)
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="a")

    class PowerCutError(Exception):
        pass

    def cut(*_, **__):
        assert len(ledger.entries()) == 1  # before anything is drawn or written
        raise PowerCutError

    monkeypatch.setattr(site, step, cut)
    with pytest.raises(PowerCutError):
        contribute(agreed, keys["site 0"], site_rows()[0], tmp_path / "a", ledger=ledger)
    monkeypatch.undo()
    assert not (tmp_path / "a").exists()
    with refused(FederationError):
        contribute(agreed, keys["site 0"], site_rows()[0], tmp_path / "a", ledger=ledger)
    assert len(ledger.entries()) == 1


def test_a_refused_spend_leaves_the_keys(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=0.5, data_set="a")
    with refused(BudgetError):
        contribute(agreed, keys["site 0"], site_rows()[0], tmp_path / "a", ledger=ledger)
    assert not (tmp_path / "a").exists()
    assert contribute(agreed, keys["site 0"], site_rows()[0], tmp_path / "a").exists()


def test_a_site_refuses_rounds_that_it_did_not_join(tmp_path):
    draft = drafted(4, quorum=3)
    agreed, keys = joined(draft, tmp_path)
    rows, out = site_rows()[0], tmp_path / "a"
    other, _ = joined(drafted(4, quorum=3), tmp_path)
    with refused(FederationError):
        contribute(other, keys["site 0"], rows, out)
    with refused(FederationError):
        contribute(draft, keys["site 0"], rows, out)
    without = replace(agreed, members=agreed.members[1:])
    with refused(FederationError):
        contribute(without, keys["site 0"], rows, out)
    fresh = SiteKeys.create("site 0", draft.terms).join(draft).members
    with refused(FederationError):
        contribute(replace(agreed, members=(*fresh, *agreed.members[1:])), keys["site 0"], rows, out)
    out.write_bytes(b"mine")
    with refused(InvalidParameterError):
        contribute(agreed, keys["site 0"], rows, out)
    assert keys["site 0"].exists()


def test_what_would_fail_later_fails_before_the_spend(tmp_path):
    """A key that makes a secret which everybody knows, and places where nothing can be written."""
    draft = drafted()
    mallory = SiteKeys.create("site 2", draft.terms)
    own = {name: SiteKeys.create(name, draft.terms) for name in ("site 0", "site 1")}
    known = bytes(32).hex()
    signature = signed(mallory.signing, joining_message(draft.terms, "site 2", known)).hex()
    _, signing = public_keys(mallory.agreement, mallory.signing)
    agreed = draft.with_member(Member("site 2", known, signing.hex(), signature))
    agreed = agreed.close([keys.join(draft) for keys in own.values()])
    key = own["site 0"].save(tmp_path / "own.key")
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="a")
    with refused(FederationError) as told:
        contribute(agreed, key, site_rows()[0], tmp_path / "a", ledger=ledger)
    assert "site 2" in str(told.value)
    honest, keys = joined(drafted(), tmp_path)
    with refused(InvalidParameterError):
        contribute(honest, keys["site 0"], site_rows()[0], tmp_path / "nowhere" / "a", ledger=ledger)
    assert not ledger.entries()
    assert key.exists()
    assert keys["site 0"].exists()


def test_data_that_are_not_those_of_the_round_are_refused(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    for data in (
        np.ones((5, D - 1)),
        SecondMoments(RowBound(1.0), D).update(np.ones((3, D))),
        np.full((5, D), np.nan),
        SecondMoments(RowBound(**agreed.terms.row_rule.to_dict()), D),
    ):
        with refused(InvalidDataError):
            contribute(agreed, keys["site 0"], data, tmp_path / "a")
    assert keys["site 0"].exists()


def test_more_units_than_the_sum_can_hold_are_refused(tmp_path, monkeypatch):
    agreed, keys = joined(drafted(), tmp_path)
    assert agreed.mechanism.site_capacity(2**32) == 2**30 // 3
    monkeypatch.setattr(FederatedMechanism, "site_capacity", lambda *_: 20)
    with refused(CapacityError):
        contribute(agreed, keys["site 0"], site_rows()[0], tmp_path / "a")


def test_seeded_noise_marks_the_release(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    files = contributions(agreed, keys, tmp_path, site_rows(), generator=seeded_generator(1))
    assert combine(agreed, files.values()).guarantee.reproducible
    ledger = PrivacyLedger.create(tmp_path / "a.ledger", epsilon=5.0, data_set="a")
    again, keys = joined(drafted(), tmp_path)
    with refused(BudgetError):
        contribute(again, keys["site 0"], site_rows()[0], tmp_path / "b", ledger=ledger, generator=seeded_generator(1))


def test_a_share_is_drawn_only_for_what_was_paid(tmp_path):
    agreed, _ = joined(drafted(), tmp_path)
    moments = site.site_moments(agreed, site_rows()[0])
    generator = seeded_generator(1)
    payment = pay_for_share(agreed.mechanism, moments, generator, None, "test")
    assert set(site_share(moments, 0, generator, payment)) == {"matrix", *agreed.mechanism.numbers}
    with refused(InvalidParameterError):
        site_share(moments, 0, generator, replace(payment, mechanism=agreed.mechanism.part))


def test_a_contribution_has_eight_bytes_a_number_and_a_constant(some_round):
    _, sent, _ = some_round
    width = D + 1
    assert {len(content) for content in sent} == {8 * width * (width + 1) // 2 + 8 * 2 + 105}


def test_noise_beyond_int64_wraps_and_is_not_cut_off():
    noise = LazyWishartDifference(2, 3, 2.0**70, np.random.default_rng(0))
    exact = [[round(noise.interval(i, j, 4).low) for j in range(2)] for i in range(2)]
    wrapped = rounded_sum(np.zeros((2, 2), np.int64), 0, noise, wraps=True)
    assert max(abs(exact[i][j]) for i in range(2) for j in range(2)) > 2**63
    for i in range(2):
        for j in range(i, 2):
            assert abs((exact[i][j] - int(wrapped[i, j]) + 2**63) % 2**64 - 2**63) <= 1


def test_without_the_extra_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with refused(EngineError) as told:
        SiteKeys.create("site 0", drafted().terms)
    assert "eigenveil[federation]" in str(told.value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_of_processes_that_race_for_the_keys_one_contributes(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    moments = [site.site_moments(agreed, rows) for rows in site_rows(4)]
    racing = [
        start_child(
            lambda place=place: contribute(agreed, keys["site 0"], moments[place], tmp_path / f"{place}").name,
            (FederationError,),
        )
        for place in range(4)
    ]
    answers = [child.result() for child in racing]
    written = [answer for answer in answers if isinstance(answer, str)]
    assert len(written) == 1
    assert all(isinstance(answer, FederationError) for answer in answers if answer not in written)
    assert sorted(path.name for path in tmp_path.iterdir() if len(path.name) == 1) == written


def test_rows_come_from_any_source_to_the_same_bits(tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    agreed, _ = joined(drafted(), tmp_path)
    rows = site_rows()[0].round(3)
    frame = pd.DataFrame(rows, columns=[str(place) for place in range(D)])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    known = site.site_moments(agreed, rows)
    for data in (frame[frame.columns[::-1]], tmp_path / "rows.csv", dd.from_pandas(frame, npartitions=3)):
        assert site.site_moments(agreed, data) == known
