"""Rounds of several sites: terms, keys, contributions, what is refused, and sums that are those of the pooled rows."""

import json
import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, RowBound, SecondMoments, load_release
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.federation import FederationError, Round, SiteKeys, combine, contribute, invite, site
from eigenveil.federation.crypto import public_keys
from eigenveil.mechanisms import federated
from eigenveil.mechanisms.gaussian import GaussianNoise
from eigenveil.mechanisms.matrix_laplace import MatrixLaplace
from helpers import refused
from made_rounds import GAUSSIAN, D, contributions, drafted, joined, needs_cryptography, schema_of, site_rows

needs_cryptography()

MECHANISMS = [GAUSSIAN, {"mechanism": "matrix_laplace"}]
ADJACENCIES = ["replace_one", "add_or_remove_one"]
CASE = (GAUSSIAN, "replace_one")


@pytest.fixture
def noise_off(monkeypatch):
    """Draw no noise, so that sums can be compared to the last bit."""
    monkeypatch.setattr(federated, "discrete_gaussian", lambda *_: np.zeros(1, np.int64))
    monkeypatch.setattr(GaussianNoise, "noise", lambda mechanism, *_: np.zeros((mechanism.n_features,) * 2, np.int64))
    monkeypatch.setattr(federated, "rounded_sum", lambda integers, *_, **__: integers)
    monkeypatch.setattr(federated.FederatedMatrixLaplace, "low_digits", lambda *_: 0)
    monkeypatch.setattr(MatrixLaplace, "count_noise", lambda *_: 0)


# What is released.


@pytest.mark.parametrize(
    ("n_sites", "mechanism", "adjacency"),
    [
        *(
            (n_sites, mechanism, adjacency)
            for n_sites in (2, 5)
            for mechanism in MECHANISMS
            for adjacency in ADJACENCIES
        ),
        (50, *CASE),
    ],
)
def test_without_noise_the_sum_is_that_of_the_pooled_rows(tmp_path, noise_off, n_sites, mechanism, adjacency):
    agreed, keys = joined(drafted(n_sites, adjacency=adjacency, **mechanism), tmp_path)
    rows = site_rows(n_sites)
    release = combine(agreed, contributions(agreed, keys, tmp_path, rows).values())
    pooled = SecondMoments(RowBound(**agreed.terms.row_rule.to_dict()), D).update(np.concatenate(rows))
    assert (release.integers["matrix"] == pooled.gram).all()
    if adjacency == "replace_one":
        assert release.origin.n_rows == release.n_rows == pooled.n_rows
    else:
        assert release.origin.n_rows is None
        assert release.n_rows == pooled.n_rows
    if "trace" in release.integers:
        assert int(release.integers["trace"]) == np.trace(pooled.gram)
    if "slack" in release.integers:
        assert int(release.integers["slack"]) == pooled.n_rows * pooled.bound.limit_squared - np.trace(pooled.gram)


def test_a_count_that_is_paid_for_is_summed_too(tmp_path, noise_off):
    agreed, keys = joined(drafted(2, d=30, adjacency="add_or_remove_one", **GAUSSIAN), tmp_path)
    rows = site_rows(2, d=30)
    release = combine(agreed, contributions(agreed, keys, tmp_path, rows).values())
    assert agreed.mechanism.numbers == ("slack", "count")
    assert int(release.integers["count"]) == release.n_rows == sum(map(len, rows))


def test_control_a_mask_that_does_not_cancel_is_seen(tmp_path, noise_off, monkeypatch):
    agreed, keys = joined(drafted(**GAUSSIAN), tmp_path)
    honest = site.mask
    monkeypatch.setattr(site, "mask", lambda agreed, place, *rest: honest(agreed, place, *rest) * np.uint64(1 + place))
    files = contributions(agreed, keys, tmp_path, site_rows())
    with refused(FederationError, *agreed.sites):  # nobody can tell who it was
        combine(agreed, files.values())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism["mechanism"])
def test_a_release_reads_itself_and_survives_its_file(tmp_path, mechanism):
    rows = site_rows(n=4000)
    agreed, keys = joined(drafted(**mechanism), tmp_path)
    release = combine(agreed, contributions(agreed, keys, tmp_path, rows).values())
    assert release.n_rows == sum(map(len, rows))
    assert abs(release.components[0, 0]) > 0.9
    loaded = load_release(release.save(tmp_path / "release.npz"))
    assert loaded.origin == release.origin
    assert loaded.origin.collection.sites == agreed.sites
    assert loaded.mechanism.parameters() == agreed.mechanism.parameters()
    assert loaded.guarantee == agreed.guarantee()
    true = np.cov(np.concatenate(rows), rowvar=False, ddof=0)
    assert np.abs(loaded.covariance - true).max() < 6 * loaded.mechanism.off_diagonal_sd * 16 / loaded.n_rows * D


def test_the_guarantee_names_its_layers(tmp_path):
    agreed, _ = joined(drafted(4, 2, **GAUSSIAN), tmp_path)
    guarantee = agreed.guarantee()
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    told = " ".join(guarantee.assumptions)
    assert "4 sites" in told
    assert "at most 2 sites" in told
    assert "masks" in told
    assert "one site" in told
    alone = drafted(3, 0).terms.guarantee().assumptions[0]
    assert "except the sites themselves" in alone


def test_persons_are_the_unit_where_the_schema_names_them(tmp_path, noise_off):
    columns = {"who": {"kind": "privacy_unit"}, **{name: {"range": [-4, 4]} for name in "ab"}}
    schema = type(schema_of()).from_dict({"version": 1, "columns": columns})
    agreed, keys = joined(drafted(2, schema=schema), tmp_path)
    assert agreed.guarantee().unit == "person"
    files = []
    for place, (name, key) in enumerate(keys.items()):
        table = tmp_path / f"{name}.csv"
        table.write_text("who,a,b\n" + "".join(f"p{place}{i % 5},{i % 3 - 1},{i % 2}\n" for i in range(20)))
        files.append(contribute(agreed, key, table, tmp_path / f"{name}.contribution"))
    release = combine(agreed, files)
    assert release.n_rows == 10
    assert release.guarantee.unit == "person"


# What a draft refuses.


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"statistic": "spatial_sign"}, "compares"),
        ({"statistic": "kendall", "standardize": True}, "compares"),
        ({"mechanism": "laplace"}, "gaussian or matrix_laplace"),
        ({"mechanism": "gaussian"}, "delta"),
        ({"stages": 2, **GAUSSIAN}, "stage"),
        ({"epsilon": 0}, "epsilon"),
    ],
    ids=["spatial_sign", "kendall", "mechanism", "delta", "stages", "epsilon"],
)
def test_a_draft_refuses_what_sites_cannot_do(parameters, word):
    with refused(InvalidParameterError) as told:
        drafted(**parameters)
    assert word in str(told.value)


def test_a_draft_refuses_private_choices_and_a_missing_schema():
    no_ranges = type(schema_of()).from_dict({"version": 1, "columns": {"a": {}, "b": {}}})
    with refused(InvalidParameterError) as told:
        drafted(schema=no_ranges, statistic="clipped")
    assert "norm_bound" in str(told.value)
    assert drafted(schema=no_ranges, norm_bound=3.0).terms.row_rule.norm == 3.0
    with refused(InvalidParameterError):
        invite(PrivateCovariance(epsilon=1.0), ["a", "b"])


@pytest.mark.parametrize("options", [{"n_sites": 1}, {"n_colluding": 3}, {"quorum": 1}, {"quorum": 4}])
def test_a_draft_refuses_numbers_that_cannot_be(options):
    with refused(InvalidParameterError):
        drafted(**options)


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "b\n"], ["a", "b" * 101]])
def test_names_of_sites_are_different_and_in_one_line(names):
    with refused(InvalidParameterError):
        invite(PrivatePCA(1, schema=schema_of()), names)


def test_auto_takes_the_distribution_of_less_noise():
    assert drafted(d=3, delta=1e-6).terms.mechanism == "matrix_laplace"
    many = drafted(d=60, delta=1e-6).terms
    assert many.mechanism == "gaussian"
    widths = {name: many.mechanism_for(3).off_diagonal_sd for name in (many.mechanism,)}
    assert widths["gaussian"] < drafted(d=60).terms.mechanism_for(3).off_diagonal_sd


# Rounds and keys.


def test_a_round_is_its_file_and_a_changed_file_is_refused(tmp_path):
    agreed, _ = joined(drafted(**GAUSSIAN), tmp_path)
    file = agreed.save(tmp_path / "round.json")
    assert Round.load(file) == agreed
    content = json.loads(file.read_text())
    for path, value in [
        (("terms", "epsilon"), 2.0),
        (("terms", "n_colluding"), 0),
        (("terms", "invited"), ["site 0", "site 1", "site 2", "mallory"]),
        (("closed",), False),
        (("format",), 2),
        (("members",), content["members"][:2]),
        (("members",), "all"),
        (("terms",), {}),
        (("terms", "more"), 1),
    ]:
        changed = json.loads(file.read_text())
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with refused((FederationError, InvalidParameterError)):
            Round.from_json(json.dumps(changed))
    for text in ("", "[]", "null", '{"format": 1}', "[" * 100_000):
        with refused(FederationError):
            Round.from_json(text)
    with refused(FederationError):
        Round.load(tmp_path / "nowhere.json")


def places_in(content, path=()):
    """Yield the way to everything in a JSON value."""
    if path:
        yield path
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in parts:
        yield from places_in(part, (*path, key))


@pytest.mark.parametrize("value", [None, -1, float("nan"), "x", [], {"a": 1}, 10**400], ids=repr)
def test_whatever_stands_in_a_round_is_refused_in_our_words(tmp_path, value):
    agreed, _ = joined(drafted(2), tmp_path)
    text = agreed.to_json()
    for path in places_in(json.loads(text)):
        changed = json.loads(text)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        try:
            read = Round.from_json(json.dumps(changed))
        except EigenveilError:
            continue
        assert read == agreed, path  # another way to write the same


def test_keys_of_another_cannot_be_put_into_a_round(tmp_path):
    draft = drafted()
    mallory, honest = SiteKeys.create("site 0", draft.terms), SiteKeys.create("site 1", draft.terms)
    theirs = honest.join(draft).members[0]
    agreement, signing = (key.hex() for key in public_keys(mallory.agreement, mallory.signing))
    for forged in (
        replace(theirs, agreement=agreement),  # to read what is masked for site 1
        replace(theirs, signing=signing),
        replace(theirs, site="site 2"),
    ):
        with refused(FederationError):
            draft.with_member(forged)
    with refused(FederationError):
        drafted().with_member(theirs)  # other terms, by the nonce
    for broken in ("", "0" * 63, "g" * 64, 3):
        with refused(InvalidParameterError):
            replace(theirs, agreement=broken)


def test_who_may_join_and_when_a_round_closes(tmp_path):
    draft = drafted(4, quorum=3)
    with refused(InvalidParameterError):
        SiteKeys.create("mallory", draft.terms)
    (tmp_path / "few").mkdir()
    with refused(FederationError):
        joined(draft, tmp_path / "few", draft.terms.invited[:2])
    agreed, _ = joined(draft, tmp_path, draft.terms.invited[1:])
    assert agreed.missing == ("site 0",)
    assert agreed.mechanism.n_sites == 3
    with refused(FederationError):
        agreed.with_member(SiteKeys.create("site 0", draft.terms).join(draft).members[0])
    with refused(FederationError):
        _ = draft.mechanism
    own = SiteKeys.create("site 0", draft.terms)
    with refused(FederationError):
        own.join(own.join(draft))
    with refused(FederationError):
        own.join(draft).close([SiteKeys.create("site 0", draft.terms).join(draft)])
    with refused(FederationError):
        draft.close([drafted(4, quorum=3)])


def test_a_round_is_repeated_without_a_site_with_fresh_keys(tmp_path):
    agreed, keys = joined(drafted(4, quorum=3), tmp_path)
    again = agreed.again(["site 2"])
    assert again.terms.invited == ("site 0", "site 1", "site 3")
    assert again.members == ()
    assert again.terms.fingerprint != agreed.terms.fingerprint
    with refused(FederationError):  # the old keys are for the old terms
        SiteKeys.load(keys["site 0"]).join(again)
    with refused(FederationError):
        agreed.again(["mallory"])
    with refused(FederationError):
        agreed.again(["site 0", "site 1"])


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_keys_are_for_their_owner_alone(tmp_path):
    draft = drafted()
    own = SiteKeys.create("site 0", draft.terms)
    file = own.save(tmp_path / "own.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert own.agreement.hex() not in repr(own)
    assert SiteKeys.load(file) == own
    file.chmod(0o640)
    with refused(FederationError):
        SiteKeys.load(file)
    with refused(InvalidParameterError):
        own.save(file)
    file.chmod(0o600)
    file.write_text("{}")
    with refused(FederationError):
        SiteKeys.load(file)
