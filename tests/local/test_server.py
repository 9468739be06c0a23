"""Reports are added up exactly and once, from files, tables and streams; totals are saved and merged; the shuffler."""

import base64
import io
import os
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from eigenveil import load_release
from eigenveil.errors import CapacityError, InvalidDataError, InvalidParameterError, ReleaseFileError
from eigenveil.local import Aggregate, LocalProtocol, aggregate, encode, encode_many, mechanism_of, shuffled_guarantee
from eigenveil.local.protocol import pack, shuffled_epsilon, to_line, unpack
from eigenveil.mechanisms.local import LOCAL_MECHANISMS
from helpers import refused

ALL = {name: (1e-6 if kind.needs_delta else 0.0) for name, kind in LOCAL_MECHANISMS.items()}


def protocol_for(mechanism: str = "double_cap", d: int = 5, **more) -> LocalProtocol:
    return LocalProtocol(d, 2.0, ALL[mechanism], mechanism=mechanism, **more)


def reports_for(protocol: LocalProtocol, n: int, seed: int = 1) -> list[bytes]:
    generator = np.random.default_rng(seed)
    return encode_many(protocol, generator.standard_normal((n, protocol.n_features)), generator)


def same(first: Aggregate, second: Aggregate) -> bool:
    a, b = first.totals, second.totals
    counts = (a.ones, a.n_reports, a.n_seeded) == (b.ones, b.n_reports, b.n_seeded)
    return counts and bool((a.sums == b.sums).all()) and first.identifiers == second.identifiers


def forged(protocol: LocalProtocol, payload: np.ndarray) -> bytes:
    """A well-formed report with any payload: what a malicious client may send."""
    ids = np.frombuffer(os.urandom(16), dtype=np.uint8)[None]
    return pack(protocol.tag, False, ids, payload.view(np.uint8)[None])[0]


@pytest.mark.parametrize("mechanism", ALL)
def test_sums_are_exact_in_any_order(mechanism):
    protocol = protocol_for(mechanism)
    reports = reports_for(protocol, 200)
    together = aggregate(protocol, reports)
    apart = None
    for report in reports:
        apart = aggregate(protocol, [report], earlier=apart)
    assert together.n_reports == 200
    assert same(together, apart)
    assert same(together, aggregate(protocol, reversed(reports)))
    assert same(together, aggregate(protocol, reports[:90]) + aggregate(protocol, reports[90:]))
    # The obvious sum, in Python's own integers.
    batch = unpack(reports, protocol.tag, mechanism_of(protocol).payload_bytes)
    expected = np.zeros((mechanism_of(protocol).n_matrices, 5, 5), dtype=object)
    for number in range(200):
        expected += mechanism_of(protocol).fold(batch.payloads[number : number + 1], batch.ids[number : number + 1])[0]
    assert (together.totals.sums == expected).all()


def kept_in(place: str, reports: list[bytes], folder):
    """The reports as they are kept in a kind of file or table."""
    text = [base64.b64encode(report).decode() for report in reports]
    half = len(reports) // 2
    match place:
        case "files":
            for name, part in (("a", reports[:half]), ("b", reports[half:])):
                (folder / name).write_bytes(b"".join(map(to_line, part)))
            return [folder / "a", str(folder / "b")]
        case "stream":
            return io.BytesIO(b"".join(map(to_line, reports)))
        case "parquet":
            pd.DataFrame({"report": reports, "received": range(len(reports))}).to_parquet(folder / "reports.parquet")
            return folder / "reports.parquet"
        case "pandas":
            return pd.DataFrame({"received": range(len(reports)), "report": reports})
        case "pandas column of text":
            return pd.Series(text)
        case "polars":
            return pl.DataFrame({"report": reports})
        case "arrow":
            return pa.table({"report": text})
        case "dask" | "dask column":
            dataframe = pytest.importorskip("dask.dataframe", reason="Dask is not installed")
            frame = dataframe.from_pandas(pd.DataFrame({"report": text}), npartitions=3)
            return frame if place == "dask" else frame["report"]
        case "generator":
            return iter(reports)


PLACES = (
    "files", "stream", "parquet", "pandas", "pandas column of text", "polars", "arrow", "dask", "dask column",
    "generator",
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_reports_are_read_from_where_they_are_kept(place, tmp_path):
    protocol = protocol_for()
    reports = reports_for(protocol, 600)
    found = aggregate(protocol, kept_in(place, reports, tmp_path))
    assert same(found, aggregate(protocol, reports))
    assert found.refused == {}


def test_what_is_no_report_in_a_column_is_counted_as_malformed():
    protocol = protocol_for()
    good = reports_for(protocol, 2)
    column = pd.Series([good[0], None, 3.5, float("nan"), "not base64!", "\ud800", good[1]], dtype=object)
    found = aggregate(protocol, column)
    assert (found.n_reports, found.refused) == (2, {"malformed": 5})
    with refused(InvalidDataError):
        aggregate(protocol, pd.DataFrame({"other": good}))
    assert aggregate(protocol, pd.DataFrame({"other": good}), column="other").n_reports == 2


@pytest.mark.parametrize("mechanism", ALL)
def test_merged_totals_never_count_a_report_twice(mechanism, tmp_path):
    protocol = protocol_for(mechanism)
    reports = reports_for(protocol, 60)
    first, second = aggregate(protocol, reports[:25]), aggregate(protocol, [*reports[25:], b"junk"])
    path = second.save(tmp_path / "second.npz")
    back = Aggregate.load(path)
    assert same(back, second)
    assert (back.protocol, back.refused) == (protocol, {"malformed": 1})
    assert path.read_bytes() == back.save(tmp_path / "again.npz").read_bytes()
    whole = first + back
    assert same(whole, aggregate(protocol, reports))
    assert same(back + first, whole)
    assert whole.refused == {"malformed": 1}
    for overlapping in (first, aggregate(protocol, [reports[30]])):
        with refused(InvalidDataError):
            whole + overlapping
    again = aggregate(protocol, [*reports[20:30], encode(protocol, np.ones(5))], earlier=back)
    assert (again.n_reports, again.refused) == (41, {"malformed": 1, "repeated": 5})
    other = aggregate(protocol_for(mechanism, purpose="other"), [])
    for attempt in (lambda: first + other, lambda: aggregate(protocol, [], earlier=other)):
        with refused(InvalidDataError):
            attempt()
    with pytest.raises(TypeError):
        first + 3


def test_saved_totals_that_were_changed_are_refused(tmp_path):
    protocol = protocol_for()
    found = aggregate(protocol, reports_for(protocol, 4))
    whole = found.save(tmp_path / "totals.npz").read_bytes()
    for place in np.random.default_rng().choice(len(whole), 60, replace=False):
        changed = bytearray(whole)
        changed[place] ^= 4
        (tmp_path / "changed.npz").write_bytes(changed)
        with refused(ReleaseFileError):
            Aggregate.load(tmp_path / "changed.npz")
    release = found.release().save(tmp_path / "release.npz")
    for path, load in ((release, Aggregate.load), (tmp_path / "totals.npz", load_release), (tmp_path, Aggregate.load)):
        with refused(ReleaseFileError):
            load(path)
    with refused(InvalidDataError):
        aggregate(protocol, []).save(tmp_path / "nothing.npz")


def test_seeded_reports_are_refused_where_the_server_says_so():
    protocol = protocol_for()
    seeded, private = reports_for(protocol, 3), encode_many(protocol, np.ones((2, 5)))
    strict = aggregate(protocol, [*seeded, *private], refuse_seeded=True)
    assert (strict.n_reports, strict.refused, strict.totals.n_seeded) == (2, {"seeded": 3}, 0)
    assert not strict.release().guarantee.reproducible
    # The control: by default they count, and mark the release.
    assert aggregate(protocol, seeded).release().guarantee.reproducible
    assert (strict + aggregate(protocol, seeded)).release().guarantee.reproducible
    for odd in (None, 1, "yes"):
        with refused(InvalidParameterError):
            aggregate(protocol, [], refuse_seeded=odd)


@pytest.mark.parametrize(
    "odd", [None, 5, 2.5, [1], object(), b"a report", np.zeros(3), np.array([b"ab"]), io.StringIO("text")]
)
def test_wrong_types_are_told_in_one_sentence(odd):
    protocol = protocol_for()
    with refused(InvalidParameterError):
        aggregate(odd, [])
    if odd is not None:
        with refused(InvalidParameterError):
            aggregate(protocol, [], earlier=odd)
    with refused(InvalidDataError):
        aggregate(protocol, odd)


def test_a_second_report_of_the_same_identifier_is_refused_whatever_it_says():
    """One report is one person's: another one under their identifier counts for nothing, here or in a merge."""
    protocol = protocol_for("double_cap")
    reports = reports_for(protocol, 2)
    batch = unpack(reports, protocol.tag, mechanism_of(protocol).payload_bytes)
    again = pack(protocol.tag, False, batch.ids[:1], batch.payloads[1:])[0]
    assert again not in reports
    found = aggregate(protocol, [reports[0], again])
    assert (found.n_reports, found.refused) == (1, {"repeated": 1})
    with refused(InvalidDataError):
        found + aggregate(protocol, [again])


@pytest.mark.parametrize("mechanism", ALL)
def test_every_refusal_has_its_reason_and_count(mechanism):
    protocol = protocol_for(mechanism)
    good = reports_for(protocol, 3)
    damaged = bytearray(good[1])
    damaged[-8] ^= 4
    far = np.full(mechanism_of(protocol).payload_bytes, 0x7F, dtype=np.uint8)
    cases = [
        (good[0], None),
        (good[0], "repeated"),
        (b"", "malformed"),
        (good[1][:-1], "malformed"),
        (bytes(damaged), "malformed"),
        (good[1] + b"\0", "malformed"),
        (reports_for(protocol_for(mechanism, purpose="other"), 1)[0], "foreign"),
        (reports_for(protocol_for(mechanism, d=9), 1)[0], "foreign"),
        (forged(protocol, far), "out_of_range"),
        (good[2], None),
    ]
    for report, reason in cases[1:]:
        found = aggregate(protocol, [report], earlier=aggregate(protocol, good[:1]))
        assert found.refused == ({} if reason is None else {reason: 1})
    at_once = aggregate(protocol, [report for report, _ in cases])
    expected = {"malformed": 4, "foreign": 2, "repeated": 1, "out_of_range": 1}
    assert (at_once.n_reports, at_once.refused) == (2, expected)
    assert at_once.release().origin.collection.refused == expected


def test_out_of_range_directions():
    protocol = protocol_for("double_cap")
    unit = np.array([32767, 0, 0, 0, 0], dtype="<i2")
    for vector, bit, accepted in [
        (unit, 0, True),
        (unit, 2, False),
        (unit // 2, 0, False),
        (np.full(5, 32767, dtype="<i2"), 1, False),
        (np.zeros(5, dtype="<i2"), 1, False),
        (np.full(5, -32768, dtype="<i2"), 1, False),
    ]:
        payload = np.append(vector.view(np.uint8), np.uint8(bit))
        found = aggregate(protocol, [forged(protocol, payload)])
        assert found.refused == ({} if accepted else {"out_of_range": 1})


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
        found = aggregate(protocol, [forged(protocol, payload)])
        assert found.n_reports == 1
        pulls.append(np.linalg.norm(mechanism.estimate(found.totals)))
    assert max(pulls) <= mechanism.pull * (1 + 2e-4)  # a quantized direction may be longer by 1e-4
    assert max(pulls) >= mechanism.pull * 0.9  # and the bound is no idle one


def test_files_with_junk_never_stop(tmp_path):
    protocol = protocol_for()
    lines = [to_line(report) for report in reports_for(protocol, 20)]
    junk = [b"\n", b"not base64!\n", b"=" * 300_000 + b"\n", b"\xff\x00\xfe\n", b"QUJD\n"]
    mixed = b"".join(line + junk[number % len(junk)] for number, line in enumerate(lines))
    path = tmp_path / "reports.txt"
    path.write_bytes(mixed + lines[0].rstrip() + b"\n" + b"x" * 200_000)
    found = aggregate(protocol, path)
    assert found.n_reports == 20
    assert found.refused == {"malformed": 17, "repeated": 1}  # an empty line is no report and counts as nothing
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1" + bytes(50))
    for missing in (tmp_path / "nowhere.txt", tmp_path, tmp_path / "damaged.parquet"):
        with refused(InvalidDataError):
            aggregate(protocol, missing)


def mutated(report, rng):
    changed = bytearray(report)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(len(changed)))] ^= int(rng.integers(1, 256))
    if rng.random() < 0.3:
        changed = changed[: int(rng.integers(len(changed)))] + rng.bytes(int(rng.integers(0, 9)))
    if len(changed) > 4 and rng.random() < 0.7:  # with a checksum that is right
        changed[-4:] = zlib.crc32(bytes(changed[:-4])).to_bytes(4, "little")
    return bytes(changed)


@pytest.mark.parametrize("times", [1000, pytest.param(250_000, marks=pytest.mark.heavy)])
def test_mutated_reports_are_counted_by_reason(times):
    rng, protocol = np.random.default_rng(), protocol_for(d=2)
    sent = encode_many(protocol, [[1.0, 0.0]] * 50)
    found = aggregate(protocol, (mutated(sent[number % 50], rng) for number in range(times)))
    assert found.n_reports + sum(found.refused.values()) == times
    # What was accepted is in range: no report pulls more than one may.
    assert np.abs(found.totals.sums).max() <= found.n_reports * 2**32
    assert {"malformed", "foreign"} <= found.refused.keys()


def test_release_carries_guarantee_and_origin():
    protocol = protocol_for(norm_bound=3.0)
    with refused(InvalidDataError):
        aggregate(protocol, []).release()
    found = aggregate(protocol, encode_many(protocol, np.ones((40, 5))))
    release = found.release(n_components=2)
    assert release.components.shape == (2, 5)
    assert release.guarantee.epsilon == 2.0
    assert release.guarantee.is_private
    assert "Local model" in release.guarantee.assumptions[-1]
    assert release.origin.collection.fingerprint == protocol.fingerprint
    assert release.n_rows == 40
    np.testing.assert_allclose(release.covariance, 9 * mechanism_of(protocol).estimate(found.totals))
    seeded = encode(protocol, np.ones(5), np.random.default_rng(0))
    assert not aggregate(protocol, [seeded], earlier=found).release().guarantee.is_private  # one marks the whole
    with refused(InvalidParameterError):
        found.release(n_components=6)


def test_capacity_is_checked_before_adding():
    protocol = protocol_for()
    mechanism_of(protocol).check_capacity(2**31)
    with refused(CapacityError):
        mechanism_of(protocol).check_capacity(2**33)


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
