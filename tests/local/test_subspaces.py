"""The public subspaces of `one_bit`: the same integers in any order and on any machine; rank 1 as in 0.1."""

import hashlib
import json

import numpy as np
import pytest
from scipy import special

from eigenveil.errors import InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.local import LocalProtocol, aggregate, encode_many, mechanism_of
from eigenveil.local.client import new_ids
from eigenveil.mechanisms.local import best_local_mechanism, directions, local_mechanism_from
from eigenveil.mechanisms.local.directions import DIRECTION_SCALE, normal_table, orthonormal, public_bases
from eigenveil.numerics import compiled_function
from helpers import refused

IDS = new_ids(40, np.random.default_rng(0))


def digest(integers: np.ndarray, kind: str) -> str:
    return hashlib.sha256(integers.astype(kind).tobytes()).hexdigest()[:16]


def test_the_table_of_normals_cannot_round_differently():
    """The quantiles stay away from halves by far more than any library's error, so the table is the same anywhere."""
    places = 4096 * special.ndtri((np.arange(2**16) + 0.5) / 2**16)
    assert np.abs(places - np.floor(places) - 0.5).min() > 1e-5
    table = normal_table().astype(np.float64)
    assert digest(table, "<i2") == "1ea009ce409dac97"
    assert np.array_equal(table, -table[::-1])
    assert np.square(table / 4096).mean() == pytest.approx(1, abs=3e-5)
    assert (np.square(table / 4096) ** 2).mean() == pytest.approx(3, abs=1e-3)


@pytest.mark.parametrize(
    ("d", "rank", "wanted"),
    [
        (6, 1, "33977a28fbebdaec"),
        (4, 2, "6dfb088dbbe0907b"),
        (40, 20, "3789feaa15425e69"),
        (100, 50, "2f79f45320e54509"),
        (300, 7, "d9a0e624efb1b16e"),
    ],
)
def test_an_identifier_stands_for_one_subspace_for_ever(d, rank, wanted, monkeypatch):
    assert digest(public_bases(IDS, d, rank), "<i2") == wanted
    assert np.array_equal(np.concatenate([public_bases(one[None], d, rank) for one in IDS]), public_bases(IDS, d, rank))
    monkeypatch.setattr(directions, "_compiled_bases", lambda: None)
    assert digest(public_bases(IDS, d, rank), "<i2") == wanted


@pytest.mark.skipif(compiled_function("eigenveil_bases") is None, reason="nothing was compiled")
@pytest.mark.parametrize("table", ["normals", "signs", "one number", "nothing", "nearly one number"])
def test_what_is_compiled_gives_the_same_bits(monkeypatch, table):
    """Also where rows are degenerate, as no table of normals makes them."""
    compiled, usual, small = directions._compiled_bases(), normal_table(), np.arange(2**16) % 7 == 0
    tables = {"normals": usual, "signs": np.sign(usual), "one number": 0 * usual + 9, "nothing": 0 * usual}
    tables["nearly one number"] = (9000 + small).astype(np.int16)
    monkeypatch.setattr(directions, "normal_table", lambda: tables[table])
    left_out = 0
    for n, d, rank in ((0, 4, 2), (1, 4, 2), (7, 5, 2), (8, 6, 3), (9, 200, 8), (17, 33, 9), (3, 101, 50)):
        ids = new_ids(n, np.random.default_rng(n))
        found, wanted = compiled(ids, d, rank), directions._bases(ids, d, rank)
        assert np.array_equal(found, wanted)
        assert n == 0 or table != "normals" or not np.array_equal(found, directions._bases(ids ^ 1, d, rank))
        left_out += np.count_nonzero(~wanted.any(axis=2))
    assert (left_out > 0) == (table != "normals")


@pytest.mark.parametrize(("d", "rank"), [(4, 2), (30, 15), (100, 50)])
def test_bases_are_those_of_a_factorization_and_independent_of_order(d, rank):
    rows = normal_table()[np.random.default_rng(d).integers(0, 2**16, (20, rank, d))].astype(np.float64)
    bases = orthonormal(rows)
    assert np.array_equal(bases, np.rint(bases))
    for one, basis in zip(rows, bases / DIRECTION_SCALE, strict=True):
        frame = np.linalg.qr(one.T)[0].T
        # Each entry is rounded by half a unit, and the signs of QR are its own.
        assert np.abs(np.abs(np.einsum("ij,ij->i", frame, basis)) - 1).max() < 1e-3
        assert np.abs(frame.T @ frame - basis.T @ basis).max() < 3e-4
    # Another order of the features adds everything up in another order: every bit must stay.
    order = np.random.default_rng(1).permutation(d)
    assert np.array_equal(orthonormal(np.ascontiguousarray(rows[:, :, order])), bases[:, :, order])
    assert np.array_equal(np.concatenate([orthonormal(one[None]) for one in rows]), bases)
    # The control: products of other floats depend on that order, so it would have been seen.
    thirds = rows / 3
    assert d == 4 or not np.array_equal(
        thirds @ thirds.transpose(0, 2, 1), thirds[:, :, order] @ thirds[:, :, order].transpose(0, 2, 1)
    )


def test_products_are_exact_integers():
    """What stands in the comments of the code: no partial sum of a product passes 2^53."""
    largest = int(np.abs(normal_table()).max())
    assert 2**16 * largest**2 < 2**53  # a Gram matrix of 65,536 features
    assert 2**38 * largest < 2**53  # rank entries of at most 2^38/rank


def test_degenerate_rows_give_finite_bounded_bases():
    """Identifiers are chosen by clients: no choice may put NaN, or more than the bound, into the sums."""
    mechanism = local_mechanism_from({"mechanism": "one_bit", "n_features": 6, "epsilon": 1.0, "rank": 3})
    some = normal_table()[np.random.default_rng(2).integers(0, 2**16, (3, 6))].astype(np.float64)
    nearly = some.copy()
    nearly[1] = some[0]
    nearly[1, 0] += 60
    nearly[2] = nearly[1]
    nearly[2, 3] += 60
    cases = np.array([np.zeros((3, 6)), np.tile(some[0], (3, 1)), some[[0, 1, 0]], some * [[1], [0], [1]], nearly])
    bases = orthonormal(cases)
    assert np.isfinite(bases).all()
    assert not bases[0].any()
    assert np.array_equal(bases[1][1:], np.zeros((2, 6)))
    assert bases[1][0].any()
    projectors = bases.transpose(0, 2, 1) @ bases
    assert np.abs(projectors).max() <= mechanism.entry_limit
    # The control: rows alike but for one unit in 1e4 are dropped by the rule, and would give junk without it.
    assert np.linalg.cond(nearly @ nearly.T) > 1e4


def test_no_report_adds_more_than_the_limit():
    for d, rank in ((4, 2), (20, 10), (60, 30)):
        mechanism = local_mechanism_from({"mechanism": "one_bit", "n_features": d, "epsilon": 1.0, "rank": rank})
        bases = public_bases(IDS, d, rank)
        assert np.abs(bases.transpose(0, 2, 1) @ bases).max() <= mechanism.entry_limit
        n, payloads = len(IDS), np.arange(len(IDS), dtype=np.uint8)[:, None] % 4
        sums, ones = mechanism.fold(payloads, IDS)
        exact = [bases[i].astype(int).T @ bases[i].astype(int) for i in range(n)]
        assert np.array_equal(sums[0], sum(exact))
        assert np.array_equal(sums[1], sum(exact[i] for i in range(n) if i % 2))
        assert ones == n // 2
        # The pull is that of the report that weighs most, but for the rounding of its basis.
        moments = [mechanism.estimate(mechanism.totals_of(payloads[i : i + 1], IDS[i : i + 1])) for i in range(4)]
        assert max(map(np.linalg.norm, moments)) == pytest.approx(mechanism.pull, rel=0.01)


# Rank 1 is what 0.1 knew: its texts, reports and sums mean what they meant.

OLD = {
    "format": 2,
    "n_features": 6,
    "epsilon": 1.0,
    "delta": 0.0,
    "norm_bound": 1.0,
    "mechanism": "one_bit",
    "row_norms": "any",
    "trace_share": 0.05,
    "shift": None,
    "scale": None,
    "purpose": "",
    "fingerprint": "1f634fbc9534bf0d57d3c6920d3e028e900963902b5b87aad834272702279025",
}


def test_a_text_without_a_rank_means_one_direction():
    text = json.dumps(OLD, indent=1) + "\n"
    old = LocalProtocol.from_json(text)
    assert old.rank == mechanism_of(old).rank == 1
    assert old.to_json() == text
    assert old == LocalProtocol(6, 1.0, mechanism="one_bit", rank=1)
    # Recorded with the code of one direction: seeded reports and the sums that they add up to.
    rows = np.random.default_rng(0).standard_normal((300, 6))
    reports = encode_many(old, rows, np.random.default_rng(1))
    # Without the fingerprint, which tells how the text is written, and the checksum over it.
    assert hashlib.sha256(b"".join(report[12:-4] for report in reports)).hexdigest()[:16] == "56c5b9fea0ba1123"
    found = aggregate(old, reports)
    assert (found.n_reports, found.totals.ones) == (300, 155)
    assert digest(found.totals.sums, "<i8") == "e7e40672b8ef4765"
    released = found.release()
    assert released.mechanism.rank == 1
    # And a record of a release that names no rank is read with one direction.
    parameters = {name: value for name, value in old.to_dict().items() if name != "rank"}
    assert local_mechanism_from(parameters).parameters() == mechanism_of(old).parameters()
    assert mechanism_of(old).variance() == pytest.approx(201.56107816037053, rel=1e-12)
    assert mechanism_of(old).pull == pytest.approx(15.730600540940967, rel=1e-12)


# The choice of a mechanism by public numbers.


def test_auto_is_written_as_the_mechanism_that_it_chose():
    chosen = [LocalProtocol(100, epsilon, mechanism="auto").mechanism for epsilon in (0.1, 0.5, 1.0, 4.0)]
    assert chosen == ["one_bit", "one_bit", "double_cap", "double_cap"]
    # A short row has no say in it, and the text names the mechanism and not the wish.
    protocol = LocalProtocol(100, 0.5, mechanism="auto")
    assert LocalProtocol.from_json(protocol.to_json()) == protocol
    assert "auto" not in protocol.to_json()
    # Who names a rank wants the mechanism that has one.
    assert LocalProtocol(100, 4.0, mechanism="auto", rank=7) == LocalProtocol(100, 4.0, mechanism="one_bit", rank=7)


@pytest.mark.parametrize("row_norms", ["any", "unit"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_auto_has_the_least_variance(row_norms, delta):
    for d in (3, 30):
        for epsilon in (0.2, 0.7, 3.0, 10.0):
            asked = {"n_features": d, "epsilon": epsilon, "delta": delta, "row_norms": row_norms, "rank": None}
            best = best_local_mechanism(asked)
            pure = ("one_bit", "double_cap")
            others = [local_mechanism_from(asked | {"mechanism": name, "delta": 0.0}) for name in pure]
            others += [local_mechanism_from(asked | {"mechanism": "gaussian"})] if delta else []
            assert best.variance() == min(mechanism.variance() for mechanism in others)
            guarantee = best.guarantee()
            assert (guarantee.epsilon, guarantee.delta) <= (epsilon, delta)
            assert guarantee.numerics is Numerics.EXACT


def test_auto_with_a_delta_may_be_pure():
    pure = LocalProtocol(20, 1.0, 1e-6, mechanism="auto")
    assert (pure.mechanism, pure.delta) == ("double_cap", 0.0)
    narrow = LocalProtocol(2, 1.0, 1e-6, mechanism="auto")
    assert (narrow.mechanism, narrow.delta) == ("gaussian", 1e-6)
    for broken in ({"delta": -1.0}, {"epsilon": 0}, {"n_features": 1}, {"delta": "1"}):
        with refused(InvalidParameterError):
            LocalProtocol(**{"n_features": 5, "epsilon": 1.0, "mechanism": "auto", **broken})
