"""Moments inside a database: the same bits as `SecondMoments`, nothing but whole numbers out, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, SecondMoments
from eigenveil.errors import EngineError, InvalidDataError, InvalidParameterError
from eigenveil.moments import RowBound
from eigenveil.moments.units import Blocks
from eigenveil.tables import sql
from eigenveil.tables.open import open_source, second_moments
from tables.postgres_server import binaries, server

ibis = pytest.importorskip("ibis", reason="Ibis is an extra: sql")
pd = pytest.importorskip("pandas")

pytestmark = [
    pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),  # of the databases, by Ibis
]

D, NAMES = 4, ["a", "b", "c", "e"]
PUBLIC = {"bounds": dict.fromkeys(NAMES, (-4.0, 4.0))}


def made(n=900, seed=0):
    """Rows of all sizes: ordinary ones, ones from the smallest to the largest floats, zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * 2.0 ** rng.integers(-6, 6, (n, 1))
    third = n // 3
    X[:third] = 2.0 ** rng.uniform(-1074, 1023.9, (third, D)) * rng.choice([-1, 1, 0], (third, D))
    return pd.DataFrame(X, columns=NAMES).assign(who=rng.integers(-50, n // 10, n))


def filled(backend, frame, name="t"):
    """Put a frame into a new table of a database, float by float."""
    if backend.name == "duckdb":
        backend.con.register("frame", frame)
        backend.con.execute(f"create table {name} as select * from frame")
    elif backend.name == "sqlite":
        frame.to_sql(name, backend.con, index=False)
    else:
        columns = ", ".join(f"{column} {'bigint' if column == 'who' else 'float8'}" for column in frame.columns)
        with backend.con.cursor() as cursor:
            cursor.execute(f"create table {name} ({columns})")
            marks = ", ".join(["%s"] * frame.shape[1])
            cursor.executemany(f"insert into {name} values ({marks})", frame.astype(object).values.tolist())
        backend.con.commit()
    return backend.table(name)


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres"])
def backend(request):
    if request.param == "duckdb":
        yield ibis.duckdb.connect()
    elif request.param == "sqlite":
        yield ibis.sqlite.connect()
    else:
        if binaries() is None:
            pytest.skip("no PostgreSQL server is installed")
        pytest.importorskip("psycopg", reason="psycopg is an extra of Ibis")
        with server() as socket:
            connection = ibis.postgres.connect(host=str(socket), user="tester", database="postgres")
            yield connection
            connection.disconnect()


@pytest.fixture(scope="module")
def table(backend):
    return filled(backend, made())


def replaced(moments, bound):
    """Return the same sums under another bound."""
    return SecondMoments.from_sums(bound, moments.n_rows, moments.gram)


@pytest.mark.parametrize(("unit_weight", "constant"), [(None, 0.3), ("equal", 0.3), ("by_rows", None)])
def test_the_sums_are_those_of_the_rows_to_the_bit(table, constant, unit_weight):
    rng, rows = np.random.default_rng(5), made()
    bound = RowBound(
        0.7, shift=rng.normal(size=D), scale=rng.uniform(0.1, 3, D), constant=constant, unit_weight=unit_weight
    )
    unit = {} if unit_weight is None else {"privacy_unit": "who"}
    expected = second_moments(rows, bound, columns=NAMES, **unit)
    found = second_moments(table, bound, columns=NAMES, **unit)
    assert found == expected
    assert found.feature_names == tuple(NAMES)
    if unit_weight is not None:
        return
    moved = replace(bound, shift=tuple(np.array(bound.shift) + 1e-3))  # the control
    assert second_moments(table, moved, columns=NAMES, **unit) != replaced(expected, moved)


@pytest.mark.parametrize(
    ("estimator", "parameters"),
    [
        (PrivatePCA, {"n_components": 2, "adjacency": "add_or_remove_one"}),
        (PrivateCovariance, {"delta": 1e-6}),
    ],
)
def test_a_fit_releases_what_a_fit_of_the_rows_releases(table, estimator, parameters):
    shared = {"epsilon": 1.0, "random_state": 0, "stages": 1, **PUBLIC, **parameters}
    queried = table.select(*NAMES)
    inside, fetched = (estimator(**shared).fit(data).release_ for data in (queried, made()[NAMES]))
    assert inside.integers.keys() == fetched.integers.keys()
    for name, value in inside.integers.items():
        assert np.array_equal(value, fetched.integers[name])
    assert inside.guarantee.epsilon == fetched.guarantee.epsilon


def test_a_missing_value_is_refused_as_in_memory(backend):
    frame = made(30)
    frame.loc[3, "b"] = np.nan
    table = filled(backend, frame, "holes")
    with pytest.raises(InvalidDataError, match="NaN or infinity"):
        second_moments(table, RowBound(1.0), columns=["b"])
    zeros = RowBound(1.0, on_invalid="zero")
    assert second_moments(table, zeros, columns=["a", "b"]) == second_moments(frame, zeros, columns=["a", "b"])


@pytest.mark.parametrize("unit", [{}, {"privacy_unit": "who"}], ids=["rows", "units"])
def test_whether_there_are_rows_is_private_where_their_number_is(backend, unit):
    """An empty table is released like any other under add/remove, and refused in the same words as in memory else."""
    empty = filled(backend, made(3), f"empty_{len(unit)}").filter(ibis._.who > 10**6)
    empty = empty.select(*NAMES, *unit.values())
    shared = {"epsilon": 1.0, "stages": 1, "random_state": 0, **PUBLIC, **unit}
    PrivateCovariance(adjacency="add_or_remove_one", **shared).fit(empty)
    with pytest.raises(InvalidDataError, match="too few rows"):
        PrivateCovariance(**shared).fit(empty)


def test_nothing_but_public_bounds_is_added_up_there():
    queried = filled(ibis.duckdb.connect(), made(60)).select(*NAMES)
    with pytest.raises(InvalidDataError, match="give norm_bound, bounds"):
        PrivatePCA(2, epsilon=1.0).fit(queried)
    with pytest.raises(InvalidDataError, match="no public order"):
        PrivatePCA(2, epsilon=1.0, statistic="spatial_sign").fit(queried)
    model = PrivatePCA(2, epsilon=1.0, random_state=0, **PUBLIC)
    model.fit(queried)
    with pytest.raises(InvalidDataError, match="not transformed"):
        model.transform(queried)


def test_texts_are_neither_features_nor_privacy_units(backend):
    table = ibis.table({"a": "float64", "name": "string", "when": "timestamp"}, name="never_read")
    with pytest.raises(InvalidDataError, match="'name' has the type string"):
        open_source(table)
    with pytest.raises(InvalidDataError, match="must hold integers"):
        second_moments(table, RowBound(1.0, unit_weight="equal"), columns=["a"], privacy_unit="name")


def test_a_missing_identifier_is_refused(backend):
    frame = made(30).astype({"who": object})
    frame.loc[5, "who"] = None
    if backend.name == "duckdb":
        frame["who"] = frame["who"].astype("Int64")
    elif backend.name == "sqlite":
        backend.con.execute("create table unknown (a float, b float, c float, e float, who integer)")
        backend.con.executemany("insert into unknown values (?, ?, ?, ?, ?)", frame.values.tolist())
    table = backend.table("unknown") if backend.name == "sqlite" else filled(backend, frame, "unknown")
    with pytest.raises(InvalidDataError, match="identifier of the privacy unit is missing"):
        second_moments(table, RowBound(1.0, unit_weight="equal"), columns=["a"], privacy_unit="who")


def test_a_database_that_rounds_in_another_way_is_refused(monkeypatch):
    """Hard rows go first: a floor that rounds is found out."""
    connection = ibis.duckdb.connect()
    table = filled(connection, made(30))
    honest = sql._floor
    monkeypatch.setattr(sql, "_floor", lambda: lambda value: value.round().cast("float64"))
    with pytest.raises(EngineError, match="rounds or adds in another way"):
        second_moments(table, RowBound(1.0), columns=NAMES)
    monkeypatch.setattr(sql, "_floor", honest)
    assert second_moments(table, RowBound(1.0), columns=NAMES).n_samples == 30


def test_no_error_of_the_database_is_passed_on(backend):
    gone = ibis.table({"a": "float64"}, name="not_there_4711")
    statement = sql.Statement(gone, RowBound(1.0), ["a"], backend, None)
    with pytest.raises(EngineError, match="could not add up the rows") as caught:
        statement.moments(["a"])
    assert "4711" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.heavy
def test_wide_tables_come_in_several_rows(backend):
    """More sums than one SELECT may have columns."""
    d = 64
    X = np.random.default_rng(0).normal(size=(40, d))
    names = [f"x{j}" for j in range(d)]
    table = filled(backend, pd.DataFrame(X, columns=names), "wide")
    bound = RowBound(8.0, constant=1.0)
    assert second_moments(table, bound) == SecondMoments(bound, d, names).update(X)


# Sums from elsewhere.


def sums(constant=None):
    bound = RowBound(1.0, bits=4, constant=constant)
    return SecondMoments(bound, 2).update(np.array([[0.5, 0.0], [0.25, 1.0], [0.1, -0.3]]))


@pytest.mark.parametrize("constant", [None, 0.5])
def test_sums_from_elsewhere_are_the_moments(constant):
    moments = sums(constant)
    assert SecondMoments.from_sums(moments.bound, 3, moments.gram) == moments
    assert SecondMoments.from_sums(moments.bound, 3, moments.gram.tolist(), ["a", "b"]).feature_names == ("a", "b")
    assert SecondMoments.from_sums(moments.bound, 3, moments.gram) + moments == moments + moments


def test_sums_of_privacy_units_are_not_added_since_one_could_be_in_both():
    """In memory a unit that comes twice is met by its identifier, which a database does not return."""
    rows = pd.DataFrame({"a": [0.5, 0.25], "who": [1, 2]})
    bound = RowBound(1.0, bits=4, unit_weight="equal")
    known = second_moments(rows, bound, columns=["a"], privacy_unit="who")
    unknown, none = SecondMoments.from_sums(bound, 2, known.gram), SecondMoments(bound, 1)
    for one, other in ((unknown, unknown), (unknown, known), (known, unknown)):
        with pytest.raises(InvalidDataError, match="could count twice"):
            one + other
    with pytest.raises(InvalidDataError, match="could count twice"):
        unknown.update(Blocks(np.array([[0.5]]), np.array([0]), np.array([[1, 0]], np.uint64)))
    assert unknown + none == none + unknown == known


def test_sums_beyond_64_bits_are_kept():
    bound, n = RowBound(1.0, bits=24), 2**40
    moments = SecondMoments.from_sums(bound, n, [[n * 4**24]])
    assert moments.gram[0, 0] == n * 4**24


@pytest.mark.parametrize(
    "change",
    [
        lambda gram: gram.astype(float),
        lambda gram: gram + np.triu(np.ones_like(gram), 1),
        lambda gram: gram - 10 * np.diag(np.diag(gram)),
        lambda gram: gram * 50,
        lambda gram: gram + np.diag([0, 0, 1]),
        lambda gram: gram[:2],
        lambda gram: gram + 10**6 * np.fliplr(np.diag([1, 0, 1])),
        lambda gram: [[*row] for row in gram + 2**62 * np.fliplr(np.diag([1, 0, 1]))],
    ],
    ids=["floats", "not symmetric", "negative", "too long", "corner", "not square", "beside", "far beside"],
)
def test_other_sums_are_refused(change):
    moments = sums(0.5)
    with pytest.raises(InvalidDataError):
        SecondMoments.from_sums(moments.bound, 3, change(moments.gram.copy()))


def test_sums_of_compared_rows_and_odd_counts_are_refused():
    compared = RowBound(1.0, statistic="spatial_sign", comparisons=8)
    with pytest.raises(InvalidDataError, match="compared"):
        SecondMoments.from_sums(compared, 3, [[1]])
    with pytest.raises(InvalidParameterError, match="n_rows"):
        SecondMoments.from_sums(RowBound(1.0), -1, [[0]])
