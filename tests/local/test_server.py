"""The Aggregator: exact sums, refusals, merging, crashes; and the bound of the shuffler."""

import io
import os
import sqlite3
import time
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError
from eigenveil.local import (
    Aggregator,
    CollectionError,
    LocalProtocol,
    Refusal,
    encode,
    encode_many,
    mechanism_of,
    shuffled_guarantee,
)
from eigenveil.local import server as server_module
from eigenveil.local.client import on_grid
from eigenveil.local.protocol import shuffled_epsilon
from eigenveil.local.wire import HEADER_BYTES, pack, to_line, unpack
from eigenveil.mechanisms.local import LOCAL_MECHANISMS
from helpers import refused, start_child

ALL = {name: (1e-6 if kind.needs_delta else 0.0) for name, kind in LOCAL_MECHANISMS.items()}


def protocol_for(mechanism: str = "double_cap", d: int = 5, **more) -> LocalProtocol:
    return LocalProtocol(d, 2.0, ALL[mechanism], mechanism=mechanism, **more)


def reports_for(protocol: LocalProtocol, n: int, seed: int = 1) -> list[bytes]:
    generator = np.random.default_rng(seed)
    return encode_many(protocol, generator.standard_normal((n, protocol.n_features)), generator)


def same(first: Aggregator, second: Aggregator) -> bool:
    a, b = first.totals, second.totals
    return bool((a.sums == b.sums).all()) and (a.ones, a.n_reports, a.n_seeded) == (b.ones, b.n_reports, b.n_seeded)


def forged(protocol: LocalProtocol, payload: np.ndarray) -> bytes:
    """A well-formed report with any payload: what a malicious client may send."""
    ids = np.frombuffer(os.urandom(16), dtype=np.uint8)[None]
    return pack(protocol.tag, False, ids, payload.view(np.uint8)[None])[0]


@pytest.mark.parametrize("mechanism", ALL)
def test_sums_are_exact_in_any_order_and_batch(mechanism):
    protocol = protocol_for(mechanism)
    reports = reports_for(protocol, 200)
    together, apart, backwards = (Aggregator(protocol) for _ in range(3))
    assert together.add_many(reports).accepted == 200
    assert all(apart.add(report) is None for report in reports)
    backwards.add_stream(io.BytesIO(b"".join(to_line(report) for report in reversed(reports))))
    assert same(together, apart)
    assert same(together, backwards)
    # The obvious sum, in Python's own integers.
    batch = unpack(reports, protocol.tag, mechanism_of(protocol).payload_bytes)
    expected = np.zeros((mechanism_of(protocol).n_matrices, 5, 5), dtype=object)
    for number in range(200):
        expected += mechanism_of(protocol).fold(batch.payloads[number : number + 1], batch.ids[number : number + 1])[0]
    assert (together.totals.sums == expected).all()


@pytest.mark.parametrize("mechanism", ALL)
def test_merging_is_exact_and_refuses_overlap(mechanism, tmp_path):
    protocol = protocol_for(mechanism)
    reports = reports_for(protocol, 60)
    whole, first, second = Aggregator(protocol), Aggregator(protocol), Aggregator(protocol, tmp_path / "second.db")
    whole.add_many([*reports, b"junk"])
    first.add_many(reports[:25])
    second.add_many([*reports[25:], b"junk"])
    assert same(first + second, whole)
    assert same(second + first, whole)
    assert (first + second).refused == {"malformed": 1}
    merged = first + second
    assert merged.add(reports[3]) is Refusal.REPEATED
    second.add(reports[0])
    before = first.totals
    with refused(CollectionError):
        first.merge(second)
    assert (first.totals.sums == before.sums).all()
    assert first.add(reports[30]) is None  # the refused merge left no identifiers behind
    with refused(CollectionError):
        first.merge(first)
    with refused(CollectionError):
        first.merge(Aggregator(protocol_for(mechanism, purpose="other")))
    with pytest.raises(TypeError):
        first + 3


def test_a_collection_without_reports_adds_no_refusals_however_often_it_is_merged():
    """Nothing tells that it was merged before; what has reports is refused the second time, with its refusals."""
    protocol = protocol_for()
    reports = reports_for(protocol, 4)
    collection, shard = Aggregator(protocol), Aggregator(protocol)
    collection.add_many([*reports[:2], b"junk"])
    shard.add_many([b"junk", b"more junk"])
    for _ in range(3):
        collection.merge(shard)
    assert (collection.n_reports, collection.refused) == (2, {"malformed": 1})
    shard.add_many([*reports[2:], b"junk"])
    collection.merge(shard)
    assert (collection.n_reports, collection.refused) == (4, {"malformed": 4})
    with refused(CollectionError):
        collection.merge(shard)
    assert (collection.n_reports, collection.refused) == (4, {"malformed": 4})


def test_seeded_reports_are_refused_where_the_server_says_so(tmp_path):
    protocol, path = protocol_for(), tmp_path / "collection.db"
    seeded, private = reports_for(protocol, 3), encode_many(protocol, np.ones((2, 5)))
    strict, open_to_all = Aggregator(protocol, path, refuse_seeded=True), Aggregator(protocol)
    assert strict.add(seeded[0]) is Refusal.SEEDED
    tally = strict.add_many([*seeded, *private])
    assert (tally.accepted, tally.refused) == (2, {"seeded": 3})
    assert strict.totals.n_seeded == 0
    assert not strict.release().guarantee.reproducible
    assert strict.release().origin.collection.refused == {"seeded": 4}
    # The control: by default they count, and mark the release.
    open_to_all.add_many(seeded)
    assert open_to_all.release().guarantee.reproducible
    with refused(CollectionError):
        strict.merge(open_to_all)
    with refused(CollectionError):
        strict + open_to_all
    assert strict.n_reports == 2
    strict.close()
    with Aggregator.open(path, refuse_seeded=True) as again:
        assert again.add(seeded[1]) is Refusal.SEEDED
    with Aggregator.open(path) as again:
        assert again.add(seeded[1]) is None
    for odd in (None, 1, "yes"):
        with refused(InvalidParameterError):
            Aggregator(protocol, tmp_path / "none.db", refuse_seeded=odd)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("odd", [None, 5, 2.5, "text", [1], object()])
def test_wrong_types_are_told_in_one_sentence(odd, tmp_path):
    protocol = protocol_for()
    collection = Aggregator(protocol)
    report = reports_for(protocol, 1)[0]
    calls = {
        InvalidParameterError: [
            lambda: Aggregator(odd),
            lambda: Aggregator(protocol, [odd]),
            lambda: Aggregator.open([odd]),
            lambda: Aggregator.open(None),
            lambda: collection.merge(odd),
            lambda: collection.add_file([odd]),
        ],
        InvalidDataError: [
            lambda: collection.add(odd),
            lambda: collection.add_many([report, odd]),
            lambda: collection.add_many(odd),
            lambda: collection.add_stream(odd),
            lambda: collection.add_stream(io.StringIO("text")),
        ],
    }
    for kind, wrong in calls.items():
        for call in wrong:
            with refused(kind):
                call()
    assert collection.n_reports == 0
    assert collection.add(bytearray(report)) is None


def test_a_second_report_of_the_same_identifier_is_refused_whatever_it_says():
    """One report is one person's: another one under their identifier counts for nothing, here or in a merge."""
    protocol = protocol_for("double_cap")
    reports = reports_for(protocol, 2)
    batch = unpack(reports, protocol.tag, mechanism_of(protocol).payload_bytes)
    again = pack(protocol.tag, False, batch.ids[:1], batch.payloads[1:])[0]
    assert again not in reports
    collection = Aggregator(protocol)
    assert [collection.add(report) for report in (reports[0], again)] == [None, Refusal.REPEATED]
    assert (collection.n_reports, collection.refused) == (1, {"repeated": 1})
    other = Aggregator(protocol)
    other.add(again)
    with refused(CollectionError):
        collection.merge(other)


@pytest.mark.parametrize("mechanism", ALL)
def test_every_refusal_has_its_reason_and_count(mechanism):
    protocol = protocol_for(mechanism)
    good = reports_for(protocol, 3)
    damaged = bytearray(good[1])
    damaged[-8] ^= 4
    far = np.full(mechanism_of(protocol).payload_bytes, 0x7F, dtype=np.uint8)
    cases = [
        (good[0], None),
        (good[0], Refusal.REPEATED),
        (b"", Refusal.MALFORMED),
        (good[1][:-1], Refusal.MALFORMED),
        (bytes(damaged), Refusal.MALFORMED),
        (good[1] + b"\0", Refusal.MALFORMED),
        (reports_for(protocol_for(mechanism, purpose="other"), 1)[0], Refusal.FOREIGN),
        (reports_for(protocol_for(mechanism, d=9), 1)[0], Refusal.FOREIGN),
        (forged(protocol, far), Refusal.OUT_OF_RANGE),
        (good[2], None),
    ]
    one_by_one, at_once = Aggregator(protocol), Aggregator(protocol)
    assert [one_by_one.add(report) for report, _ in cases] == [reason for _, reason in cases]
    tally = at_once.add_many(report for report, _ in cases)
    expected = {"malformed": 4, "foreign": 2, "repeated": 1, "out_of_range": 1}
    assert tally.accepted == at_once.n_reports == 2
    assert dict(tally.refused) == at_once.refused == one_by_one.refused == expected
    assert same(one_by_one, at_once)
    assert at_once.release().origin.collection.refused == expected


def test_out_of_range_directions():
    protocol = protocol_for("double_cap")
    collection = Aggregator(protocol)
    unit = np.array([32767, 0, 0, 0, 0], dtype="<i2")
    for vector, bit, outcome in [
        (unit, 0, None),
        (unit, 2, Refusal.OUT_OF_RANGE),
        (unit // 2, 0, Refusal.OUT_OF_RANGE),
        (np.full(5, 32767, dtype="<i2"), 1, Refusal.OUT_OF_RANGE),
        (np.zeros(5, dtype="<i2"), 1, Refusal.OUT_OF_RANGE),
        (np.full(5, -32768, dtype="<i2"), 1, Refusal.OUT_OF_RANGE),
    ]:
        payload = np.append(vector.view(np.uint8), np.uint8(bit))
        assert collection.add(forged(protocol, payload)) is outcome


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("row_norms", ["any", "unit"])
def test_pull_of_a_poisoned_report_is_bounded(name, row_norms):
    """The worst that passes the check moves n times the estimate by `pull` and no more."""
    protocol = protocol_for(name, row_norms=row_norms)
    mechanism = mechanism_of(protocol)
    if name == "double_cap":
        unit = np.array([32767, 0, 0, 0, 0], dtype="<i2").view(np.uint8)
        worst = [np.append(unit, np.uint8(bit)) for bit in (0, 1)] if mechanism.measures_trace else [unit]
    elif name == "one_bit":
        worst = [np.array([value], dtype=np.uint8) for value in range(4 if mechanism.measures_trace else 2)]
    else:
        entries = np.where(mechanism.on_diagonal, 0.0, 1.0)
        entries *= mechanism.norm_reach * mechanism.grid / np.sqrt(np.sum(np.square(entries)) * mechanism.entry_weight)
        worst = [np.trunc(entries).astype("<i4").view(np.uint8)]
    pulls = []
    for payload in worst:
        collection = Aggregator(protocol)
        assert collection.add(forged(protocol, payload)) is None
        pulls.append(np.linalg.norm(mechanism.estimate(collection.totals)))
    assert max(pulls) <= mechanism.pull * (1 + 2e-4)  # a quantized direction may be longer by 1e-4
    assert max(pulls) >= mechanism.pull * 0.9  # and the bound is no idle one


def test_streams_with_junk_never_stop(tmp_path):
    protocol = protocol_for()
    lines = [to_line(report) for report in reports_for(protocol, 20)]
    junk = [b"\n", b"not base64!\n", b"=" * 300_000 + b"\n", b"\xff\x00\xfe\n", b"QUJD\n"]
    mixed = b"".join(line + junk[number % len(junk)] for number, line in enumerate(lines))
    path = tmp_path / "reports.txt"
    path.write_bytes(mixed + lines[0].rstrip() + b"\n" + b"x" * 200_000)
    seen = []
    collection = Aggregator(protocol)
    tally = collection.add_file(path, lambda count, taken: seen.append((count, taken)))
    assert tally.accepted == 20
    assert tally.refused == {"malformed": 17, "repeated": 1}  # an empty line is no report and counts as nothing
    assert sum(count for count, _ in seen) == 38
    with refused(InvalidDataError):
        collection.add_file(tmp_path / "nowhere.txt")


def test_release_carries_guarantee_and_origin():
    protocol = protocol_for(norm_bound=3.0)
    collection = Aggregator(protocol)
    with refused(InvalidDataError):
        collection.release()
    collection.add_many(encode_many(protocol, np.ones((40, 5))))
    release = collection.release(n_components=2)
    assert release.components.shape == (2, 5)
    assert release.guarantee.epsilon == 2.0
    assert release.guarantee.is_private
    assert "Local model" in release.guarantee.assumptions[-1]
    assert release.origin.collection.fingerprint == protocol.fingerprint
    assert release.n_rows == 40
    np.testing.assert_allclose(release.covariance, 9 * mechanism_of(protocol).estimate(collection.totals))
    collection.add(encode(protocol, np.ones(5), np.random.default_rng(0)))
    assert not collection.release().guarantee.is_private  # one seeded report marks the whole
    with refused(InvalidParameterError):
        collection.release(n_components=6)


def test_resume_keeps_everything(tmp_path):
    protocol, path = protocol_for(), tmp_path / "collection.db"
    reports = reports_for(protocol, 30)
    with Aggregator(protocol, path) as collection:
        collection.add_many([*reports[:20], b"junk"])
    with Aggregator.open(path) as collection:
        assert collection.protocol == protocol
        assert collection.add_many(reports).accepted == 10
        assert collection.refused == {"malformed": 1, "repeated": 20}
        whole = Aggregator(protocol)
        whole.add_many(reports)
        assert same(collection, whole)
    with refused(CollectionError):
        Aggregator(protocol_for(purpose="other"), path)
    with refused(CollectionError):
        Aggregator.open(tmp_path / "nothing.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    with refused(CollectionError):
        Aggregator(protocol, tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before
    (tmp_path / "text.db").write_text("this is no database, and long enough to be looked at" * 100)
    with refused(CollectionError):
        Aggregator.open(tmp_path / "text.db")


def test_two_processes_may_add_to_one_collection(tmp_path):
    protocol, path = protocol_for(), tmp_path / "collection.db"
    reports = reports_for(protocol, 80)
    Aggregator(protocol, path).close()

    def add(part):
        with Aggregator.open(path) as collection:
            return [collection.add(report) for report in part].count(None)

    children = [start_child(lambda part=part: add(part)) for part in (reports[:50], reports[30:])]
    assert sum(child.result() for child in children) == 80
    with Aggregator.open(path) as collection:
        whole = Aggregator(protocol)
        whole.add_many(reports)
        assert same(collection, whole)


@pytest.mark.heavy
def test_a_kill_at_any_moment_loses_nothing_and_counts_nothing_twice(tmp_path):
    """A server killed again and again, its clients sending all again each time."""
    protocol, path = protocol_for(), tmp_path / "collection.db"
    reports = reports_for(protocol, 120)
    Aggregator(protocol, path).close()
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()

    def serve():
        with Aggregator.open(path) as collection, open(acknowledged, "ab", buffering=0) as log:
            for number, report in enumerate(reports):
                if collection.add(report) is None:
                    log.write(bytes([number]))

    for goal in (5, 20, 45, 80):
        child = start_child(serve)
        while len(acknowledged.read_bytes()) < goal:
            time.sleep(0.001)
        assert child.kill()
        with Aggregator.open(path) as collection:
            # Everything acknowledged is there; at most one report was committed and not yet acknowledged.
            log = acknowledged.read_bytes()
            assert len(set(log)) == len(log)
            assert 0 <= collection.n_reports - len(log) <= 4
            assert all(collection.add(reports[number]) is Refusal.REPEATED for number in log)
    start_child(serve).result()
    with Aggregator.open(path) as collection:
        whole = Aggregator(protocol)
        whole.add_many(reports)
        assert same(collection, whole)


@pytest.mark.heavy
def test_many_kills_lose_no_acknowledged_report(tmp_path):
    protocol, path, log = protocol_for(), tmp_path / "collection.db", tmp_path / "acknowledged"
    rng, known, kills = np.random.default_rng(), 0, 230
    Aggregator(protocol, path).close()

    def serve(reports):
        with Aggregator.open(path) as collection, open(log, "ab", buffering=0) as acknowledged:
            for report in reports:
                assert collection.add(report) is None
                acknowledged.write(b".")

    for kill in range(kills):
        reports = reports_for(protocol, 400, seed=kill)
        log.write_bytes(b"")
        child, goal = start_child(lambda reports=reports: serve(reports)), int(rng.integers(205, 300))
        while log.stat().st_size < goal:
            time.sleep(0.001)
        assert child.kill()
        seen = log.stat().st_size
        with Aggregator.open(path) as collection:
            assert seen <= collection.n_reports - known <= seen + 1  # one may be counted and not yet acknowledged
            known = collection.n_reports
            assert collection.add_many(reports[:seen]).refused == {"repeated": seen}
    assert known > 47_000


def test_a_failed_batch_leaves_no_trace(monkeypatch):
    protocol = protocol_for()
    reports = reports_for(protocol, 10)
    collection = Aggregator(protocol)
    collection.add_many(reports[:4])
    monkeypatch.setattr(type(mechanism_of(protocol)), "fold", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        collection.add_many(reports[4:])
    monkeypatch.undo()
    assert collection.n_reports == 4
    assert collection.add_many(reports).accepted == 6


def test_a_collection_that_cannot_be_written_says_so(tmp_path):
    protocol, path = protocol_for(), tmp_path / "collection.db"
    report = reports_for(protocol, 1)[0]
    with Aggregator(protocol, path) as collection:
        collection._store.connection.execute("PRAGMA query_only = 1")
        with refused(CollectionError):
            collection.add(report)
        collection._store.connection.execute("PRAGMA query_only = 0")
        assert collection.add(report) is None


def test_capacity_is_checked_before_adding():
    protocol = protocol_for()
    mechanism_of(protocol).check_capacity(2**31)
    with refused(CapacityError):
        mechanism_of(protocol).check_capacity(2**33)


def test_memory_does_not_grow_with_the_reports(monkeypatch):
    monkeypatch.setattr(server_module, "_BATCH_REPORTS", 200)
    protocol = protocol_for()
    generator = np.random.default_rng(0)

    def lines(n):
        for _ in range(n // 100):
            yield from encode_many(protocol, generator.standard_normal((100, 5)), generator)

    def peak(n):
        collection = Aggregator(protocol)
        tracemalloc.start()
        collection.add_many(lines(n))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(200)
    assert peak(4000) < 1.6 * peak(400)


def test_header_length_of_the_format():
    protocol = protocol_for()
    assert HEADER_BYTES == 29
    assert on_grid(protocol, np.zeros((1, 5))).shape == (1, 5)


def randomized_response_delta(local: float, n: int, epsilon: float) -> float:
    """The exact delta of n shuffled randomized responses, when one client among n - 1 zeros changes its bit."""
    lie = 1 / (1 + np.exp(local))
    k = np.arange(n + 1)
    others = stats.binom(n - 1, lie).pmf
    zero = others(k) * (1 - lie) + others(k - 1) * lie
    one = others(k) * lie + others(k - 1) * (1 - lie)
    return max(np.maximum(zero - np.exp(epsilon) * one, 0).sum(), np.maximum(one - np.exp(epsilon) * zero, 0).sum())


@pytest.mark.parametrize(("local", "n"), [(0.5, 1000), (1.0, 1000), (1.0, 100_000), (2.0, 10_000), (4.0, 100_000)])
def test_shuffling_bound_holds_for_randomized_response(local, n):
    delta = 1e-6
    central = shuffled_epsilon(local, n, delta)
    assert central <= local
    assert randomized_response_delta(local, n, central) <= delta
    assert randomized_response_delta(local, n, central / 50) > delta  # control: the check can fail


def test_shuffled_guarantee_states_its_conditions():
    protocol = LocalProtocol(20, 1.0)
    guarantee = shuffled_guarantee(protocol, 100_000, 1e-6)
    assert guarantee.epsilon < 0.1
    assert guarantee.delta == 1e-6
    assert "shuffler" in guarantee.assumptions[-1]
    with refused(InvalidParameterError):
        shuffled_guarantee(protocol, 100, 1e-6)
    with refused(InvalidParameterError):
        shuffled_guarantee(LocalProtocol(20, 1.0, 1e-6, mechanism="gaussian"), 100_000)
    with refused(InvalidParameterError):
        shuffled_guarantee(protocol, 100_000, 0.0)
