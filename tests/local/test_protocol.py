"""LocalProtocol, the client, and the bytes of a report."""

import dataclasses
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil import Guarantee
from eigenveil.accounting import exact
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.guarantee import Numerics
from eigenveil.local import LocalProtocol, encode, encode_many, mechanism_of, shuffled_guarantee, simulate
from eigenveil.local.client import on_grid
from eigenveil.local.protocol import Refusal, from_line, to_line, unpack
from eigenveil.mechanisms.local import LOCAL_MECHANISMS, local_mechanism_from
from helpers import refused

ALL = {name: (1e-6 if kind.needs_delta else 0.0) for name, kind in LOCAL_MECHANISMS.items()}


def protocol_for(mechanism: str, d: int = 6, epsilon: float = 1.0, **more) -> LocalProtocol:
    return LocalProtocol(d, epsilon, ALL[mechanism], mechanism=mechanism, **more)


@pytest.mark.parametrize("mechanism", ALL)
def test_json_round_trip(mechanism, tmp_path):
    protocol = protocol_for(mechanism, shift=[0.5] * 6, scale=np.arange(1, 7), purpose="trial")
    assert LocalProtocol.from_json(protocol.to_json()) == protocol
    path = protocol.save(tmp_path / "protocol.json")
    assert LocalProtocol.load(path).fingerprint == protocol.fingerprint
    assert len(protocol.to_json()) < 1000


def test_fingerprint_sees_every_field():
    base = LocalProtocol(6, 1.0)
    others = [
        LocalProtocol(7, 1.0),
        LocalProtocol(6, 1.1),
        LocalProtocol(6, 1.0, norm_bound=2.0),
        LocalProtocol(6, 1.0, mechanism="one_bit"),
        LocalProtocol(6, 1.0, row_norms="unit"),
        LocalProtocol(6, 1.0, trace_share=0.1),
        LocalProtocol(6, 1.0, shift=[0.0] * 6),
        LocalProtocol(6, 1.0, scale=[1.0] * 6),
        LocalProtocol(6, 1.0, purpose="another"),
        protocol_for("gaussian"),
    ]
    assert len({protocol.fingerprint for protocol in [base, *others]}) == 11
    assert LocalProtocol(6, np.float64(1.0), norm_bound=1).fingerprint == base.fingerprint
    with pytest.raises(dataclasses.FrozenInstanceError):
        base.epsilon = 2.0


def test_a_changed_protocol_is_refused():
    text = LocalProtocol(6, 1.0).to_json()
    for broken in (
        "",
        "[]",
        "{}",
        "7",
        text[:-4],
        text.replace("1.0", "9.0", 1),
        text.replace('"format": 2', '"format": 3'),
    ):
        with refused(InvalidParameterError):
            LocalProtocol.from_json(broken)
    content = json.loads(text)
    del content["purpose"]
    with refused(InvalidParameterError):
        LocalProtocol.from_json(json.dumps(content))
    with refused(InvalidParameterError):
        LocalProtocol.load("there-is-no-such-file.json")


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_features": 1},
        {"epsilon": 0},
        {"epsilon": 31},
        {"epsilon": "1"},
        {"delta": 1e-6},
        {"delta": 1.0},
        {"norm_bound": -1},
        {"mechanism": "laplace"},
        {"mechanism": "gaussian"},
        {"row_norms": "some"},
        {"trace_share": 1.0},
        {"trace_share": 0},
        {"shift": [1.0]},
        {"scale": [0.0] * 6},
        {"purpose": 3},
    ],
)
def test_refused_parameters(parameters):
    with refused(InvalidParameterError):
        LocalProtocol(**{"n_features": 6, "epsilon": 1.0, **parameters})


def test_too_small_an_epsilon_for_a_gaussian_report():
    with refused(InvalidParameterError):
        LocalProtocol(6, 1e-9, 1e-12, mechanism="gaussian").report_bytes  # noqa: B018


@pytest.mark.parametrize("mechanism", ALL)
def test_guarantee_needs_no_data_and_is_honest(mechanism):
    guarantee = protocol_for(mechanism).guarantee()
    assert isinstance(guarantee, Guarantee)
    assert guarantee.is_private
    if mechanism == "gaussian_paper":
        assert guarantee.epsilon > 1
    else:
        assert guarantee.epsilon == 1
    assert guarantee.numerics is Numerics.EXACT


@pytest.mark.parametrize("name", ["double_cap", "one_bit"])
def test_shares_of_epsilon_never_add_up_to_more_than_epsilon(name):
    """In exact fractions, read as decimals and as binary numbers; the control is the nearest float."""
    generator, over = np.random.default_rng(0), 0
    for epsilon, share in zip(generator.uniform(0.01, 30, 300), generator.uniform(0.001, 0.999, 300), strict=True):
        mechanism = local_mechanism_from({"mechanism": name, "n_features": 4, "epsilon": epsilon, "trace_share": share})
        parts = (mechanism.trace_epsilon, mechanism.direction_epsilon)
        for read in (exact, Fraction):
            assert sum(map(read, parts)) <= exact(epsilon)
            assert sum(map(read, parts)) >= exact(epsilon) * (1 - Fraction(1, 2**50))
        nearest = [float(exact(epsilon) * part) for part in (exact(share), 1 - exact(share))]
        over += sum(map(Fraction, nearest)) > exact(epsilon)
    assert over > 50


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("row_norms", ["any", "unit"])
def test_report_has_its_length_and_comes_back(mechanism, row_norms):
    protocol = protocol_for(mechanism, row_norms=row_norms)
    report = encode(protocol, [0.1, 0.2, 0.3, 0.1, 0.0, -0.5])
    assert isinstance(report, bytes)
    assert len(report) == protocol.report_bytes
    assert from_line(to_line(report)) == report
    batch = unpack([report], protocol.tag, mechanism_of(protocol).payload_bytes)
    assert batch.refusals == [None]
    assert not batch.seeded[0]
    assert mechanism_of(protocol).in_range(batch.payloads).all()
    assert encode(protocol, [0.0] * 6) != encode(protocol, [0.0] * 6)
    assert len(encode(protocol, [0.0] * 6)) == protocol.report_bytes


def test_bytes_of_a_report():
    """The lengths that docs/research/local.md states."""
    sizes = {name: LocalProtocol(40, 1.0, delta, mechanism=name).report_bytes for name, delta in ALL.items()}
    assert sizes == {"double_cap": 114, "one_bit": 34, "gaussian": 3313, "gaussian_paper": 3313}


def test_a_seeded_report_says_so():
    protocol = LocalProtocol(4, 1.0)
    reports = [encode(protocol, [1, 0, 0, 0], np.random.default_rng(5)) for _ in range(2)]
    assert reports[0] == reports[1]
    assert unpack(reports[:1], protocol.tag, mechanism_of(protocol).payload_bytes).seeded.all()


@given(st.binary(max_size=60), st.integers(0, 113), st.integers(0, 7))
def test_no_bytes_break_the_decoder(junk, place, bit):
    protocol = LocalProtocol(40, 1.0)
    report = bytearray(encode(protocol, np.ones(40), np.random.default_rng(0)))
    report[place] ^= 1 << bit
    found = unpack([junk, bytes(report)], protocol.tag, mechanism_of(protocol).payload_bytes).refusals
    assert found == [Refusal.MALFORMED, Refusal.MALFORMED]
    assert from_line(junk) is not None


@pytest.mark.parametrize("row", [[0.1, 0.2], [[0.1] * 6], 3.0, "text", None, ["a"] * 5, [[0.1], [0.1, 0.2]]])
def test_a_row_of_another_width_is_refused_and_not_quoted(row):
    with refused(InvalidDataError, "0.1", "text"):
        encode(LocalProtocol(6, 1.0), row)


class Odd:
    def __float__(self):
        raise RuntimeError("a private cell")


INVALID = {
    "nan": [0.1, np.nan, 0.3],
    "infinity": [0.1, -np.inf, 0.3],
    "text": [0.1, "private", 0.3],
    "only text": ["a", "b", "c"],
    "none": [0.1, None, 0.3],
    "too large": [0.1, 10**400, 0.3],
    "complex": np.array([0.1, 0.2 + 1j, 0.3]),
    "complex scalar": [0.1, np.complex128(0.2), 0.3],
    "list": [0.1, [0.2], 0.3],
    "an object": [0.1, Odd(), 0.3],
    "times": np.array([1, 2, 3], dtype="datetime64[ns]"),
    "a time": [0.1, np.timedelta64(3, "ns"), 0.3],
    "strings": np.array(["0.1", "", "0.3"]),
    "masked": np.ma.masked_array([0.1, 0.2, 0.3], mask=[False, True, False]),
    "long double": np.array([0.1, np.finfo(np.longdouble).max, 0.3], dtype=np.longdouble),
}


@pytest.mark.parametrize("row", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("row_norms", ["any", "unit"])
@pytest.mark.parametrize("shift", [None, [0.5, 0.25, -0.5]])
@pytest.mark.filterwarnings("error")
def test_a_row_that_is_no_row_of_numbers_is_reported_as_the_zero_row(row, row_norms, shift):
    """The same integer row leads to the same distribution of reports; with the same seed, to the same report."""
    protocol = LocalProtocol(3, 1.0, row_norms=row_norms, shift=shift)
    zero = [0.0] * 3 if shift is None else shift  # what is zero once it is shifted
    assert encode(protocol, row, np.random.default_rng(3)) == encode(protocol, zero, np.random.default_rng(3))
    assert len(encode(protocol, row)) == protocol.report_bytes
    rows = np.empty((3, 3), dtype=object)
    rows[:] = 0.4, 0.1, 0.2
    rows[1] = list(np.ma.filled(row.astype(object), None)) if isinstance(row, np.ma.MaskedArray) else list(row)
    # No row changes another, whatever the container becomes; the control: a row of numbers is not zero.
    grid = on_grid(protocol, rows)
    assert not grid[1].any()
    assert grid[0].any()
    assert np.array_equal(grid[[0, 2]], on_grid(protocol, [[0.4, 0.1, 0.2]] * 2))
    assert not on_grid(protocol, rows.tolist())[1].any()


def test_invalid_rows_count_in_a_simulation_as_zero_rows():
    protocol, rows = LocalProtocol(3, 8.0, mechanism="gaussian", delta=1e-6), np.full((4000, 3), 0.5)
    half = rows.copy()
    half[::2, 1] = np.nan
    whole, less = (simulate(protocol, one, np.random.default_rng(0)) for one in (rows, half))
    assert whole.covariance.trace() == pytest.approx(2 * less.covariance.trace(), rel=0.1)
    assert less.origin.row_rule.on_invalid == "zero"
    masked = np.ma.masked_array(rows, mask=np.isnan(half))
    assert np.array_equal(simulate(protocol, masked, np.random.default_rng(0)).covariance, less.covariance)


NO_PROTOCOL = (None, 5, "text", [], {"n_features": 3})


@pytest.mark.parametrize("odd", NO_PROTOCOL)
def test_what_is_no_protocol_and_no_generator_is_told_in_one_sentence(odd):
    protocol = LocalProtocol(3, 1.0)
    for call in (
        lambda: encode(odd, [0.1] * 3),
        lambda: encode_many(odd, [[0.1] * 3]),
        lambda: simulate(odd, [[0.1] * 3]),
        lambda: shuffled_guarantee(odd, 10**6),
        lambda: encode(protocol, [0.1] * 3, odd or 5),
        lambda: simulate(protocol, [[0.1] * 3], odd or 5),
    ):
        with refused(InvalidParameterError):
            call()
    for path in (None, 5, [], b"bytes"):
        for call in (protocol.save, LocalProtocol.load):
            with refused(InvalidParameterError):
                call(path)
    for rows in (None, 5, "text", [[0.1]], [0.1] * 3):
        with refused(InvalidDataError):
            simulate(protocol, rows)


@pytest.mark.parametrize("mechanism", ALL)
def test_rows_are_bounded_integers(mechanism):
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((300, 6)) * 10.0 ** generator.integers(-300, 300, (300, 1))
    for row_norms in ("any", "unit"):
        protocol = protocol_for(mechanism, row_norms=row_norms, norm_bound=3.0, shift=[0.1] * 6, scale=[2.0] * 6)
        grid = on_grid(protocol, rows)
        limit = 4 ** mechanism_of(protocol).row_bits
        assert (grid == np.trunc(grid)).all()
        assert np.square(grid).sum(axis=1).max() <= limit
        if row_norms == "unit":
            assert np.square(grid).sum(axis=1).min() > 0.9 * limit


def test_many_and_one_agree_in_mechanism_of_ids():
    reports = encode_many(LocalProtocol(3, 1.0), np.ones((50, 3)))
    assert len(set(reports)) == 50
    assert len({report[13:29] for report in reports}) == 50


CLIENT = """
import sys
from eigenveil.local import LocalProtocol, encode
encode(LocalProtocol(5, 1.0, mechanism=sys.argv[1]), [0.1] * 5)
print(' '.join(sorted({name.split('.')[0] for name in sys.modules} | set(sys.modules))))
"""


@pytest.mark.parametrize("mechanism", ["double_cap", "one_bit"])
def test_a_client_loads_little(mechanism):
    done = subprocess.run([sys.executable, "-c", CLIENT, mechanism], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"sklearn", "pandas", "sqlite3", "typer", "rich", "opendp", "dp_accounting", "pyarrow", "scipy.stats"}
    assert not loaded & heavy
    ours = {"local.server", "local.release", "reading", "mechanisms.table", "accounting.ledger"}
    assert not loaded & {f"eigenveil.{name}" for name in ours}
    assert {"numpy", "scipy", "randomgen"} <= loaded  # control: what is loaded is seen
