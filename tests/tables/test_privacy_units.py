"""Persons as the unit: whole persons in every batch, the same ones from every source, in any order of rows."""

import gc
import json
import os
import uuid
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.tables import arrays, base, privacy_units, text
from eigenveil.tables.identifiers import keys_of
from eigenveil.tables.open import open_table
from eigenveil.tables.schema import Column, Schema
from helpers import assert_one_sentence, refused
from units_by_hand import FRAME, IDS, NAMES, REFERENCE, ROWS, D, N, by_hand, privacy_units_of

CLUSTERED = FRAME.sort_values("id", key=lambda ids: (ids * 7919) % 1009, kind="stable").reset_index(drop=True)
SENTINEL = "Sentinel-987654321"
SMALL = 2**16


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(base, "BATCH_BYTES", 128 * D * 8)
    monkeypatch.setattr(arrays, "view_rows", lambda n_rows, width: 128)
    monkeypatch.setattr(text, "_BLOCK", 4096)


def written(directory, suffix, frame=FRAME):
    path = directory / f"visits{suffix}"
    if suffix.startswith((".csv", ".tsv")):
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    elif suffix == ".jsonl":
        path.write_text(
            "".join(
                json.dumps(row) + "\n" for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
            )
        )
    elif suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=500)
    elif suffix == ".feather":
        pyarrow.feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), path, chunksize=500)
    else:
        np.save(path, frame.to_numpy())
    return path


FILES = [".csv", ".csv.gz", ".tsv", ".jsonl", ".parquet", ".feather"]
AS_TEXT = FRAME.assign(id=[f" {identifier}\t" for identifier in IDS])
HELD = {
    "pandas": (FRAME, "id"),
    "pandas text": (AS_TEXT, "id"),
    "pandas categories": (FRAME.assign(id=pd.Categorical(IDS)), "id"),
    "pandas array": (FRAME[NAMES], IDS),
    "pandas series": (FRAME[NAMES], FRAME["id"][::-1][::-1]),
    "pandas without names": (pd.DataFrame(np.column_stack([IDS, ROWS])), 0),
    "clustered": (CLUSTERED, "id"),
    "polars": (pl.DataFrame(FRAME), "id"),
    "polars text": (pl.DataFrame(AS_TEXT), "id"),
    "polars lazy": (pl.DataFrame(FRAME).lazy(), "id"),
    "arrow": (pa.table(FRAME), "id"),
    "arrow dictionary": (
        pa.table(FRAME).set_column(1, "id", pa.array(IDS.astype(str)).dictionary_encode()),
        "id",
    ),
    "numpy": (ROWS, IDS),
    "numpy floats": (ROWS, IDS.astype(float)),
    "numpy list": (ROWS, IDS.tolist()),
    "numpy mixed": (ROWS, [one if one % 2 else str(one) for one in IDS.tolist()]),
    "numpy arrow": (ROWS, pa.array(IDS.astype(str))),
    "numpy column": (FRAME.to_numpy(), 1),
    "Fortran order": (np.asfortranarray(ROWS), IDS),
    "sparse": (scipy.sparse.csr_array(ROWS), IDS),
    "sparse column": (scipy.sparse.csc_array(FRAME.to_numpy()), 1),
}


# The same persons from everywhere


@pytest.mark.parametrize("name", HELD)
def test_held_data_give_whole_persons(name):
    data, privacy_unit = HELD[name]
    source = open_table(data, privacy_unit=privacy_unit)
    assert source.by_unit
    assert source.n_features == D
    assert source.n_rows_hint is None  # the number of rows is private
    first = list(source.batches())
    if "sparse" not in name:
        assert len(first) > 5
    assert privacy_units_of(first) == privacy_units_of(source.batches()) == REFERENCE


@pytest.mark.parametrize("suffix", FILES)
@pytest.mark.parametrize("memory", [SMALL, 2**30])
def test_files_give_whole_persons(tmp_path, suffix, memory):
    source = open_table(written(tmp_path, suffix), NAMES, privacy_unit="id", memory=memory)
    assert source.feature_names == tuple(NAMES)
    for _ in range(2):
        assert privacy_units_of(source.batches()) == REFERENCE
    assert source._spill.on_disk == (memory == SMALL)


def test_npy_files_and_chosen_columns(tmp_path):
    path = written(tmp_path, ".npy")
    assert privacy_units_of(open_table(path, privacy_unit=1).batches()) == REFERENCE
    chosen = open_table(path, [3, 0], privacy_unit=1)
    assert privacy_units_of(chosen.batches()) == by_hand(IDS, ROWS[:, [2, 0]])


def test_persons_go_on_from_part_to_part(tmp_path):
    paths = []
    for part, cut in enumerate(np.array_split(np.arange(N), 3)):
        (tmp_path / str(part)).mkdir()
        paths.append(written(tmp_path / str(part), [".csv", ".parquet", ".jsonl"][part], CLUSTERED.iloc[cut]))
    source = open_table(paths, NAMES, privacy_unit="id")
    assert privacy_units_of(source.batches()) == REFERENCE
    assert privacy_units_of(open_table(paths[::-1], NAMES, privacy_unit="id", memory=SMALL).batches()) == REFERENCE


@pytest.mark.parametrize("memory", [SMALL, 2**30])
def test_streams_that_come_once_can_be_read_again(memory):
    chunks = (FRAME.iloc[start : start + 400] for start in range(0, N, 400))
    reader = pa.table(FRAME).to_reader(max_chunksize=333)
    arrays = (FRAME.to_numpy()[start : start + 77] for start in range(0, N, 77))
    for data, privacy_unit in ((chunks, "id"), (reader, "id"), (arrays, 1)):
        source = open_table(data, privacy_unit=privacy_unit, memory=memory)
        assert not source.reads_once
        for _ in range(2):
            assert privacy_units_of(source.batches()) == REFERENCE
        assert source._spill.on_disk == (memory == SMALL)


def test_encoded_rows_are_grouped_too(tmp_path):
    frame = FRAME.assign(sex=np.where(FRAME["age"] > 0, "F", "M"))
    schema = Schema((Column("id", "privacy_unit"), Column("age"), Column("sex", "category", categories=("F", "M"))))
    rows = np.column_stack([FRAME["age"], FRAME["age"] > 0, FRAME["age"] <= 0])
    for data in (frame, written(tmp_path, ".csv", frame), pl.DataFrame(frame)):
        source = open_table(data, schema=schema)
        assert source.by_unit
        assert source.feature_names == ("age", "sex=F", "sex=M")
        assert privacy_units_of(source.batches()) == by_hand(IDS, rows)
    plain = open_table(frame, schema=schema, privacy_unit=False)
    assert not plain.by_unit
    assert np.array_equal(np.vstack(list(plain.batches())), rows)


@pytest.mark.parametrize("data", [ROWS, np.asfortranarray(ROWS), FRAME[NAMES], pl.DataFrame(FRAME[NAMES])])
def test_a_table_larger_than_the_memory_is_not_copied_whole(data):
    for memory in (8 * N, 2**30):
        source = open_table(data, privacy_unit=IDS)
        source._memory = memory
        for _ in range(2):
            assert privacy_units_of(source.batches()) == REFERENCE
        assert (source._rows is None) == (memory == 8 * N)


@pytest.mark.parametrize("kind", ["i8", "u1", ">i8", "u8"])
def test_whole_numbers_are_numbered_as_their_digits(kind):
    generator, ends, native = np.random.default_rng(5), np.iinfo(kind), kind.lstrip(">")
    few = generator.integers(max(ends.min, -40), 40, 500).astype(native)
    many = generator.integers(ends.min, ends.max, 300, dtype=native)
    some = np.concatenate([np.array([ends.min, ends.max], native), few, many]).astype(kind)
    for numbers in (some, some[::-3], some[:1], some[:0]):
        codes, keys = keys_of(list(map(str, numbers.tolist())))
        series = [nw.from_native(make(numbers.astype(native)), series_only=True) for make in (pd.Series, pl.Series)]
        for one in (numbers, *series):
            found = keys_of(one)
            assert np.array_equal(found[0], codes)
            assert np.array_equal(found[1], keys)
        assert len(keys) == len(set(numbers.tolist()))


ODD_TEXTS = ["", "NA", "nan", "n/a", "None", "#N/A", "<NA>", "NaNa", "7.0", "007", " a", "a  b", "a\t", "1e5", "-0"]
ODD_TEXTS += ["é", "\0", "x" * 31, "x" * 40, "7" * 31, "7" * 32, "nobody", "Ann\n", "Ann"]


def test_texts_are_numbered_alike_in_every_container(monkeypatch):
    some = np.random.default_rng(6).integers(0, 900, 2700)
    identifier = str(uuid.UUID(int=2**127 + 3))
    texts = [f"{'' if one % 3 else 'a unit of a long name '}{one}" for one in some]
    texts += [*ODD_TEXTS, identifier, identifier.upper(), identifier.replace("-", ""), *texts[:5], *ODD_TEXTS]
    arrow = pa.array(texts)
    kinds = [arrow, arrow.cast(pa.large_string()), pa.chunked_array([arrow[:7], arrow[:0], arrow[7:]])]
    kinds += [pa.concat_arrays([pa.array(["before"]), arrow]).slice(1), arrow.dictionary_encode()]
    made = [pa.chunked_array([one]) if isinstance(one, pa.Array) else one for one in kinds]
    made += [make(texts) for make in (pd.Series, pl.Series)]
    found = [keys_of(texts), *(keys_of(nw.from_native(one, series_only=True)) for one in made)]
    with monkeypatch.context() as patch:
        patch.setattr("eigenveil.tables.identifiers.has_arrow", lambda: False)
        codes, keys = keys_of(texts)
    one_by_one = np.concatenate([keys_of([text])[1] for text in texts])
    assert np.array_equal(keys[codes], one_by_one)
    for one in found:
        assert np.array_equal(one[0], codes)
        assert np.array_equal(one[1], keys)


def test_rows_of_a_person_keep_their_order(tmp_path):
    places = {tuple(row): place for place, row in enumerate(ROWS.tolist())}
    for data, privacy_unit in ((ROWS, IDS), (FRAME, "id"), (written(tmp_path, ".parquet"), "id")):
        for block in open_table(data, privacy_unit=privacy_unit, memory=SMALL).batches():
            order = [places[tuple(row)] for row in np.asarray(block.rows).tolist()]
            for start, size in zip(block.starts, block.sizes, strict=True):
                assert order[start : start + size] == sorted(order[start : start + size])


# Spilling


@pytest.fixture
def spools(tmp_path, monkeypatch):
    """Return the directory for temporary files, which is empty."""
    directory = tmp_path / "spools"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def open_files(directory):
    """Return how many files of a directory this process holds open, those without a name included."""
    links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(link.startswith(f"{directory}{os.sep}") for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_the_file_has_no_name_and_is_gone_with_its_table(spools, tmp_path):
    path = written(tmp_path, ".parquet")
    source = open_table(path, privacy_unit="id", memory=SMALL)
    batches = source.batches()
    next(batches)
    assert open_files(spools) == 1
    assert not list(spools.iterdir())
    assert privacy_units_of(source.batches()) == REFERENCE  # a second pass beside the first
    del source, batches
    gc.collect()
    assert open_files(spools) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files by /proc")
def test_the_file_is_gone_after_an_error(spools, tmp_path):
    broken = FRAME.astype({"id": object})
    broken.loc[N - 1, "id"] = None
    source = open_table(written(tmp_path, ".csv", broken), privacy_unit="id", memory=SMALL)
    with refused(InvalidDataError):
        list(source.batches())
    chunks = (broken.iloc[start : start + 400] for start in range(0, N, 400))
    stream = open_table(chunks, privacy_unit="id", memory=SMALL)
    with refused(InvalidDataError) as info:
        list(stream.batches())
    assert info.tb  # which holds what was going on, and no file
    assert open_files(spools) == 0
    with refused(InvalidDataError):  # what was read before is not taken for all there is
        list(stream.batches())


@pytest.mark.parametrize("most", [40, 450])
def test_rows_of_persons_beyond_the_memory_are_refused(tmp_path, most):
    """One person has more than 40 rows; the parts on disk have more than that."""
    source = open_table(written(tmp_path, ".parquet"), privacy_unit="id")
    source._memory = 8 * (2 * (D + 2) + 6) * most
    for _ in range(2):
        if most == 450:
            assert privacy_units_of(source.batches()) == REFERENCE
            continue
        with refused(InvalidDataError) as info:
            list(source.batches())
        assert "memory=" in str(info.value)


def test_a_full_disk_is_told_and_nothing_is_lost_silently(monkeypatch, tmp_path):
    source = open_table(written(tmp_path, ".parquet"), privacy_unit="id", memory=SMALL)

    class Full:
        def seek(self, *_):
            return 0

        def write(self, *_):
            raise OSError(28, SENTINEL)

        def close(self):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(privacy_units.tempfile, "TemporaryFile", Full)
        with refused(InvalidDataError, SENTINEL) as info:
            list(source.batches())
    assert "TMPDIR" in str(info.value)
    assert privacy_units_of(source.batches()) == REFERENCE


# Identifiers

UUID = uuid.UUID(int=0xABCDEF << 100)
SAME = {
    "whole numbers": [
        [7], ["7"], [" 7 "], ["7.0"], ["7."], [7.0], [Decimal("7.0")], np.array([7], np.uint8),
        np.array([7], np.float16),
        np.array([7], np.longdouble), np.array(["7"]), np.array([7, "7"], object), pd.Series([7], dtype="Int64"),
        pd.Series([7], dtype="category"), pl.Series(["7\n"]), pl.Series([7], dtype=pl.UInt64),
        pa.chunked_array([pa.array([7], pa.int16())]), [True, 7][1:], [b"7"], np.array([b"7"]), np.array([b"7"], "S16"),
        pl.Series([b"7 "]), ["7\0"], np.array(["7\0"]),
    ],
    "large numbers": [[2**64 + 1], [str(2**64 + 1)], [Decimal(2**64 + 1)]],
    "as many digits as a UUID": [[10**31], [str(10**31)], [Decimal(10**31)], ["1" + "0" * 31 + ".0"]],
    "numbers as R and Java write them": [[12_345_678], ["1.2345678E7"], ["1.2345678e+07"], ["12345678.0"]],
    "zeros": [[0], [-0.0], ["-0.0"], ["-0"], [Decimal("-0")]],
    "text in bytes": [["Zoë, 16 bytes!?"], ["Zoë, 16 bytes!?".encode()], ["Zoe\u0308, 16 bytes!?".encode()]],
    "sixteen letters in bytes": [["sixteen letters!"], [b"sixteen letters!"], np.array([b"sixteen letters!"])],
    "UUIDs": [
        [UUID], [UUID.bytes], [str(UUID)], [str(UUID).upper()], np.array([UUID.bytes]).view("V16"), pd.Series([UUID]),
        np.array([UUID.bytes]), [UUID.hex], [f"{{{UUID}}}".upper()],
        pl.Series([UUID.bytes]), pa.chunked_array([pa.array([UUID.bytes], pa.binary(16))]),
    ],
    "accents": [["\u00e9"], ["e\u0301"], pl.Series(["e\u0301 "])],
}  # fmt: skip
MISSING = [
    [None], [""], ["\t"], [float("nan")], ["NA"], ["NaN"], [b""], np.array([np.nan]), pd.Series([None, "a"]),
    pd.Series([pd.NaT]), pd.Series([pd.NA], dtype="Int64"), pl.Series([float("nan")]), pl.Series([None, 1]),
    [None, 1, "a"],
]  # fmt: skip
UNFIT = [
    [7.5], [2.0**53], [float("inf")], [(1, 2)], [[1, 2]], [{}], [object()], pl.Series([[1]]), [10**5000],
    [Decimal("sNaN")], np.array([2.0**24], np.float32), [np.float16(2**11)], pl.Series([2.0**24], dtype=pl.Float32),
    [date(2020, 1, 2)], [datetime(2020, 1, 2)], np.array(["2020-01-02"], "M8[ns]"), pl.Series([date(2020, 1, 2)]),
    pd.Series(pd.to_datetime(["2020-01-02"])), np.array(["NaT"], "M8[D]"),
]  # fmt: skip


def as_given(values):
    return values if isinstance(values, list | np.ndarray) else nw.from_native(values, series_only=True)


@pytest.mark.parametrize("kind", SAME)
def test_the_same_identifier_has_the_same_key_from_every_type(kind):
    keys = {keys_of(as_given(values))[1].tobytes() for values in SAME[kind]}
    assert len(keys) == 1


def test_others_have_other_keys():
    told_apart = [
        "7",
        "007",
        "7.5",
        "-7",
        "seven",
        bytes([7, 255]),
        UUID,
        "1e",
        "12e3",
        "0e3",
        "1e99",
        "1.25e1",
        "true",
        "a b",
        "ab",
        "AB",
        "é",
        "e",
    ]
    _, keys = keys_of(told_apart)
    assert len(np.unique(keys, axis=0)) == len(told_apart)


COLUMNS = {
    "text": np.array(["b", "a\0b", " b", "a", "a\0", "é", "e\u0301", "NA", "", "7.0", "7", str(UUID), UUID.hex]),
    "no text": np.array([], "U3"),
    "bytes": np.array([b"b", b"a\0b", b"a", b"b ", b"\xff", b""]),
    "UUIDs": np.frombuffer(UUID.bytes + bytes(16) + UUID.bytes, "V16"),
    "records": np.array([(1, 2.0), (1, 3.0)], "i4,f8"),
    "whole numbers": np.array([7, -7, 2**62, 7, 0]),
    "floats": np.array([0.0, 3.0, -0.0, -3.0, 2.0**53 - 1, 3.0]),
    "a float that is no number": np.array([0.0, np.nan, 3.0]),
    "a float of several numbers": np.array([0.0, 2.0**53, 3.0]),
    "a float between numbers": np.array([0.0, 2.5, 3.0]),
    "a narrow float of several numbers": np.array([1, 2**24, 1], np.float32),
}


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_has_the_keys_of_its_values_one_by_one(monkeypatch, kind, arrow):
    monkeypatch.setattr("eigenveil.tables.identifiers.has_arrow", lambda: arrow)
    values = COLUMNS[kind]
    as_they_are = values.dtype.kind == "f"  # floats of Python would all be wide
    one_by_one = [keys_of([value])[1] for value in (list(values) if as_they_are else values.tolist())]
    codes, keys = keys_of(values)
    assert np.array_equal(keys[codes], np.concatenate([np.empty((0, 2), np.uint64), *one_by_one]))
    assert list(dict.fromkeys(codes.tolist())) == list(range(len(keys)))  # in order of first appearance


def test_a_file_with_gaps_in_its_identifiers_once_goes_on_with_the_same_persons(tmp_path):
    # pandas writes 7.0 where another row of the column had none.
    (tmp_path / "before.csv").write_text("id,age\n7,1.0\n8,2.0\n")
    (tmp_path / "after.csv").write_text("id,age\n7.0,3.0\n9.0,4.0\n")
    found = privacy_units_of(open_table([tmp_path / "before.csv", tmp_path / "after.csv"], privacy_unit="id").batches())
    assert found == by_hand([7, 8, 7, 9], np.array([[1.0], [2.0], [3.0], [4.0]]))


@pytest.mark.parametrize("values", [*MISSING, *UNFIT])
def test_what_is_no_identifier_is_one_sentence(values):
    ids = as_given(values)
    with refused(InvalidDataError) as info:
        list(open_table(np.zeros((len(values), 2)), privacy_unit=values).batches())
    assert ("no identifier" in str(info.value)) == any(values is one for one in MISSING)
    assert len(ids) == len(values)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_missing_identifier_of_a_file_is_one_sentence(tmp_path, suffix):
    frame = FRAME.assign(id=[f"{SENTINEL}{identifier}" for identifier in IDS])
    frame.loc[N // 2, "id"] = None
    with refused(InvalidDataError, SENTINEL) as info:
        list(open_table(written(tmp_path, suffix, frame), NAMES, privacy_unit="id").batches())
    assert "'id'" in str(info.value)


def test_digits_of_long_identifiers_are_kept(tmp_path):
    ids = [2**62 + one for one in range(5)] * 2
    frame = pd.DataFrame({"id": ids, "age": np.arange(10.0)})
    for suffix in (".csv", ".jsonl", ".parquet"):
        found = privacy_units_of(open_table(written(tmp_path, suffix, frame), ["age"], privacy_unit="id").batches())
        assert found == by_hand(ids, frame[["age"]].to_numpy())


# What is refused when a table is opened


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (FRAME, {"privacy_unit": "nobody"}),
        (FRAME, {"privacy_unit": "id", "columns": ["age", "id"]}),
        (FRAME, {"privacy_unit": True}),
        (FRAME, {"privacy_unit": IDS[:-1]}),
        (FRAME, {"privacy_unit": ROWS}),
        (FRAME, {"privacy_unit": FRAME}),
        (FRAME, {"privacy_unit": 3.5}),
        (ROWS, {"privacy_unit": 3}),
        (ROWS[:, :1], {"privacy_unit": 0}),
        (FRAME, {"privacy_unit": "id", "memory": 10}),
        (FRAME, {"privacy_unit": "id", "memory": 1e9}),
        (iter([FRAME]), {"privacy_unit": IDS}),
        (pl.DataFrame(FRAME).lazy(), {"privacy_unit": IDS}),
        (FRAME, {"privacy_unit": "age", "schema": Schema((Column("id", "privacy_unit"), Column("age")))}),
        (FRAME, {"privacy_unit": "age", "schema": Schema((Column("height"), Column("age")))}),
        (FRAME, {"privacy_unit": IDS, "schema": Schema((Column("id", "privacy_unit"), Column("age")))}),
        (open_table(FRAME, privacy_unit="id"), {"privacy_unit": "id"}),
    ],
)
def test_what_cannot_tell_persons_apart_is_refused_when_it_is_opened(data, options):
    with refused((InvalidDataError, InvalidParameterError)):
        open_table(data, **options)


def test_identifiers_beside_a_file_are_refused(tmp_path):
    with refused(InvalidParameterError):
        open_table(written(tmp_path, ".csv"), privacy_unit=IDS)


def test_an_empty_table_has_no_batches(tmp_path):
    assert not list(open_table(FRAME[:0], privacy_unit="id").batches())
    assert not list(open_table(written(tmp_path, ".parquet", FRAME[:0]), privacy_unit="id").batches())
    assert not list(open_table(iter([FRAME[:0]]), privacy_unit="id").batches())


def test_the_control_sees_a_person_in_two_batches():
    block = next(open_table(ROWS[:5], privacy_unit=[1, 1, 2, 2, 2]).batches())
    with pytest.raises(AssertionError):
        privacy_units_of([block, block])
    assert_one_sentence(InvalidDataError(privacy_units.TOO_MANY_ROWS))
