import gzip
import io
import json
import lzma
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenveil.errors import EigenveilError, InvalidDataError, InvalidParameterError
from eigenveil.moments import RowBound
from eigenveil.moments.second_moments import SecondMoments
from eigenveil.tables import base, text
from eigenveil.tables.files import StandardInput
from eigenveil.tables.open import open_source, open_table, second_moments
from eigenveil.tables.schema import Column, Schema

BOUND = RowBound(3.0)
NAMES = ("age", "height", "mass", "score")
SENTINEL = "987654321"
ROWS = np.random.default_rng(1).normal(size=(900, 4))
REFERENCE = SecondMoments(BOUND, 4).update(ROWS)
OPENERS = {".csv": open, ".csv.gz": gzip.open, ".csv.xz": lzma.open}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(base, "BATCH_BYTES", 64 * 4 * 8)
    monkeypatch.setattr(text, "_BLOCK", 4096)
    monkeypatch.setattr(text, "_LONGEST_ROW", 16384)


def as_table(rows, names=NAMES):
    return pa.table({name: rows[:, position] for position, name in enumerate(names)})


def as_csv(rows, names=NAMES):
    lines = [",".join(repr(float(value)) for value in row) for row in rows]
    return "\n".join([",".join(names), *lines, ""])


def write_csv(path, content, suffix=".csv"):
    with OPENERS[suffix](path, "wb") as file:
        file.write(content.encode())
    return path


def refused(data, match, **options):
    """Check that reading fails with one sentence that tells no value, and return it."""
    result = None
    with pytest.raises(EigenveilError, match=match) as caught:
        result = second_moments(data, BOUND, **options)
    assert result is None
    error = caught.value
    assert isinstance(error, InvalidDataError)
    assert SENTINEL not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    return str(error)


# The same bits from every kind of file


@pytest.mark.parametrize(("row_group_size", "compression"), [(1, "none"), (100, "zstd"), (10_000, "snappy")])
def test_parquet_gives_the_bits_of_the_array(tmp_path, row_group_size, compression):
    path = tmp_path / "data.parquet"
    pq.write_table(as_table(ROWS), path, row_group_size=row_group_size, compression=compression)
    assert open_source(path).n_rows_hint == 900
    assert second_moments(path, BOUND) == REFERENCE
    moments = second_moments(path, BOUND, columns=["score", "age"])
    assert moments == second_moments(ROWS[:, [3, 0]], BOUND)
    assert moments.feature_names == ("score", "age")


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_npy_gives_the_bits_of_the_array(tmp_path, layout):
    path = tmp_path / "data.npy"
    np.save(path, layout(ROWS))
    assert len(list(open_source(path).batches())) > 10
    assert second_moments(path, BOUND) == REFERENCE
    assert second_moments(path, BOUND, columns=[3, 0]) == second_moments(ROWS[:, [3, 0]], BOUND)


@pytest.mark.parametrize("dtype", ["u1", "?", ">f8"])
def test_other_numbers_in_npy_and_parquet(tmp_path, dtype):
    rows = np.abs(2 * ROWS).astype(dtype)
    np.save(tmp_path / "data.npy", rows)
    assert second_moments(tmp_path / "data.npy", BOUND) == second_moments(rows, BOUND)
    pq.write_table(as_table(rows.astype(rows.dtype.newbyteorder("="))), tmp_path / "data.parquet")
    assert second_moments(tmp_path / "data.parquet", BOUND) == second_moments(rows, BOUND)


def test_parts_of_one_table_in_any_kind_and_order(tmp_path):
    first = write_csv(tmp_path / "1.csv", as_csv(ROWS[:300]))
    turned = [2, 0, 3, 1]
    second = tmp_path / "2.parquet"
    pq.write_table(as_table(ROWS[300:700][:, turned], [NAMES[i] for i in turned]), second)
    third = write_csv(tmp_path / "3.CSV.GZ", as_csv(ROWS[700:]), ".csv.gz")
    moments = second_moments([first, str(second), third], BOUND)
    assert moments == REFERENCE
    assert moments.feature_names == NAMES


def test_npy_parts(tmp_path):
    paths = [tmp_path / f"{part}.npy" for part in range(3)]
    for path, rows in zip(paths, np.array_split(ROWS, 3), strict=True):
        np.save(path, rows)
    assert open_source(paths).n_rows_hint == 900
    assert second_moments(paths, BOUND) == REFERENCE


# CSV: what changes midway, what is quoted, what is missing


def test_csv_types_are_not_guessed_from_the_first_block(tmp_path):
    rows = np.zeros((5000, 2))
    rows[:, 0] = np.arange(5000) % 3
    rows[4000:, 0] += 0.25
    lines = [f"{a:g}," if i < 4000 else f"{a!r},1.5" for i, (a, _) in enumerate(rows.tolist())]
    path = write_csv(tmp_path / "data.csv", "\n".join(["a,b", *lines]))
    rows[:4000], rows[4000:, 1] = 0.0, 1.5
    bound = RowBound(3.0, on_invalid="zero")
    assert second_moments(path, bound) == second_moments(rows, bound)


def test_csv_of_truth_values_quotes_line_breaks_and_byte_order_mark(tmp_path):
    lines = [f'"{i % 5}",{"true" if i % 2 else "False"},"a, ""b""\n{i}"' for i in range(2000)]
    path = write_csv(tmp_path / "data.csv", "\ufeffx,yes,note\r\n" + "\r\n".join(lines))
    rows = np.array([[i % 5, i % 2] for i in range(2000)])
    declared = Schema((Column("x", missing=0), Column("yes", "boolean", missing=False)))
    assert second_moments(open_table(path, schema=declared), BOUND) == second_moments(rows, BOUND)
    refused(path, "column number 2; declare it boolean, category or date in a schema")
    refused(path, "column 'yes'", columns=["x", "yes"])
    refused(path, "column 'note'", columns=["x", "note"])


def test_the_first_column_that_cannot_be_read_is_named_whatever_threads_do(tmp_path, monkeypatch):
    """The first bad cell of the first column comes late, where a thread of a later column has long failed."""
    monkeypatch.setattr(text, "_BLOCK", 2**22)
    lines = ["1," * 30 + "text"] * 5_000 + ["text," * 30 + "text"]
    path = write_csv(tmp_path / "data.csv", "\n".join([",".join(f"c{i}" for i in range(31)), *lines, ""]))
    for _ in range(5):
        refused(path, "column number 1;")


def test_a_file_that_was_changed_between_two_passes_is_read_again(tmp_path):
    path = write_csv(tmp_path / "data.csv", as_csv(ROWS))
    source = open_source(path)
    for _ in range(2):
        assert second_moments(source, BOUND) == REFERENCE
    write_csv(path, as_csv(ROWS[:500]))
    assert second_moments(source, BOUND) == second_moments(ROWS[:500], BOUND)


def test_a_pickle_of_a_file_that_was_read_holds_none_of_its_rows(tmp_path):
    source = open_source(write_csv(tmp_path / "data.csv", as_csv(ROWS)))
    before = pickle.dumps(source)
    first = np.vstack([np.asarray(batch) for batch in source.batches()])
    assert pickle.dumps(source) == before
    assert np.array_equal(np.vstack([np.asarray(batch) for batch in pickle.loads(before).batches()]), first)


def test_csv_rows_hint_is_near(tmp_path):
    path = write_csv(tmp_path / "data.csv", as_csv(ROWS))
    assert open_source(path).n_rows_hint == pytest.approx(900, rel=0.1)
    assert second_moments(path, BOUND, progress=True) == REFERENCE


BAD_CSV = {
    "empty": ("", "is empty"),
    "blank": ("\n\n", "is empty"),
    "short row": (f"a,b\n1,2\n{SENTINEL}\n", "different lengths"),
    "long row": (f"a,b\n1,2\n1,2,{SENTINEL}\n", "different lengths"),
    "short row late": ("a,b\n" + "1,2\n" * 5000 + f"{SENTINEL}\n", "different lengths"),
    "text": (f"a,b\n1,2\n3,x{SENTINEL}\n", "column number 2"),
    "text late": ("a,b\n" + "1,2\n" * 5000 + f"3,x{SENTINEL}\n", "column number 2"),
    "date": ("a,b\n1,2020-01-01\n", "column number 2"),
    "truth value late": ("a,b\n" + "1,2\n" * 5000 + "3,true\n", "column number 2"),
    "number among truth values": ("a,b\n" + "1,true\n" * 5000 + f"3,{SENTINEL}\n", "column number 2"),
    "missing": ("a,b\n1,2\n,3\n", "NaN or infinity"),
    "infinity": ("a,b\n1,2\n3,inf\n", "NaN or infinity"),
    "no header": (f"{SENTINEL},1.5\n1,2\n", "no header"),
    "no header, with text": (f"1.5,{SENTINEL}x\n1,2\n", "no header"),
    "no header, twice the same": (f"{SENTINEL},{SENTINEL}\n1,2\n", "no header"),
    "same name twice": ("a,a\n1,2\n", "several columns of the same name"),
    "index": (",a\n0,1\n", "has no name"),
    "open quote": (f'a,b\n1,2\n"3,{SENTINEL}\n' + "1,2\n" * 9000, "open quote"),
    "open quote at the end": (f'a,b\n1,2\n"3,{SENTINEL}\n', "open quote"),
    "open quote in the header": (f'a,"b\n1,2\n3,{SENTINEL}\n', "open quote"),
    "text after a quote": (f'a,b\n1,"2"{SENTINEL}\n', "after a closing quote"),
    "text after a quote, in the header": (f'a,"b"{SENTINEL}\n1,2\n', "after a closing quote"),
    "nul": ("\0" * 50_000, "damaged|row of more than"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv_is_one_sentence(tmp_path, case):
    content, match = BAD_CSV[case]
    refused(write_csv(tmp_path / "data.csv", content), match)


def test_csv_header_that_is_not_utf8(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"a\xff,b\n1,2\n")
    refused(path, "damaged")


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.xz"])
def test_a_flipped_bit_or_another_format_in_a_compressed_file(tmp_path, suffix):
    path = write_csv(tmp_path / f"data{suffix}", as_csv(ROWS), suffix)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 16
    path.write_bytes(damaged)
    refused(path, "damaged|different lengths|numbers")
    path.write_text(as_csv(ROWS))
    refused(path, "damaged or of another kind")


# Parquet


def parquet_bytes(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1])
def test_truncated_parquet(tmp_path, kept):
    whole = parquet_bytes(as_table(ROWS))
    path = tmp_path / "data.parquet"
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    refused(path, "truncated, damaged")


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_damaged_pages_with_checksums_are_found(tmp_path, compression):
    options = {"compression": compression, "write_page_checksum": True, "use_dictionary": False}
    whole = bytearray(parquet_bytes(as_table(ROWS), row_group_size=300, **options))
    whole[len(whole) // 2] ^= 1
    path = tmp_path / "data.parquet"
    path.write_bytes(whole)
    refused(path, "damaged")


@pytest.mark.parametrize(
    "column",
    [
        [SENTINEL] * 3,
        pa.array([SENTINEL] * 3).dictionary_encode(),
        pa.array([int(SENTINEL)] * 3, pa.timestamp("s")),
        [[int(SENTINEL)]] * 3,
        [{"a": int(SENTINEL)}] * 3,
        pa.nulls(3),
    ],
)
def test_parquet_columns_without_numbers(tmp_path, column):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "city": column}), path)
    refused(path, "column 'city'")
    assert second_moments(path, BOUND, columns=["x"]).feature_names == ("x",)


def test_parquet_decimals_missing_values_and_dotted_names(tmp_path):
    path = tmp_path / "data.parquet"
    columns = {"a.b": [Decimal("0.5"), Decimal("-1.5"), Decimal("1")], "a": [True, None, False]}
    pq.write_table(pa.table(columns), path)
    zeroed = RowBound(3.0, on_invalid="zero")
    expected = second_moments([[0.5, 1.0], [0.0, 0.0], [1.0, 0.0]], zeroed)
    assert second_moments(path, zeroed) == expected
    assert second_moments(path, zeroed, columns=["a"]).gram.shape == (1, 1)
    refused(path, "NaN or infinity")


def test_the_index_of_pandas_is_not_taken_for_a_feature(tmp_path):
    path = tmp_path / "data.parquet"
    pd.DataFrame(ROWS[:3], columns=list(NAMES), index=[5, 3, 1]).to_parquet(path)
    refused(path, "has no name")
    assert second_moments(path, BOUND, columns=NAMES) == second_moments(ROWS[:3], BOUND)


# .npy


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (np.ones(5), "2-D array"),
        (np.array([[SENTINEL]]), "2-D array"),
        (np.zeros(3, dtype=[("a", "f8"), ("b", "f8")]), "2-D array"),
        (np.array([[int(SENTINEL)], [None]], dtype=object), "2-D array"),
    ],
)
def test_npy_without_a_table_of_numbers(tmp_path, content, match):
    path = tmp_path / "data.npy"
    np.save(path, content, allow_pickle=True)
    refused(path, match)


def test_npy_that_is_truncated_or_of_another_kind(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, ROWS)
    whole = path.read_bytes()
    for part in (b"", whole[:20], whole[:-1], whole[: len(whole) // 2], pickle.dumps(ROWS), b"PK\3\4" * 40):
        path.write_bytes(part)
        refused(path, "truncated, damaged")


@pytest.mark.parametrize("layout", ["C", "F"])
def test_npy_that_is_cut_while_it_is_read_is_refused_and_does_not_end_the_process(tmp_path, layout):
    path = tmp_path / "data.npy"
    np.save(path, np.asarray(np.ones((200_000, 4)), order=layout))
    script = (
        "import os, sys; from eigenveil.tables import open_table\n"
        "for block in open_table(sys.argv[1]).batches(): os.truncate(sys.argv[1], 1000); float(block.sum())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "truncated" in ended.stderr


# Paths, columns, parts


def test_paths_that_lead_nowhere(tmp_path):
    refused(tmp_path / "nothing.csv", "There is no file")
    refused(tmp_path / "data.xlsx", "must end in .csv")
    (tmp_path / "folder.parquet").mkdir()
    refused(tmp_path / "folder.parquet", "is a directory")
    refused(tmp_path, "no known kind|directory")
    refused([tmp_path / "a.csv", 3], "paths only")


def test_columns_of_files(tmp_path):
    path = write_csv(tmp_path / "data.csv", as_csv(ROWS))
    refused(path, "no column 'nothing' in .*data", columns=["age", "nothing"])
    with pytest.raises(InvalidParameterError, match="'age' more than once"):
        second_moments(path, BOUND, columns=["age", "age"])


@pytest.mark.parametrize(
    ("second", "match"),
    [
        (f"a\n{SENTINEL}\n", r"no column 'b' in .*2\.csv"),
        (f"a,b,c\n1,2,{SENTINEL}\n", r"2\.csv and .*1\.csv are not parts .* some column"),
        (f"a,b\n1,x{SENTINEL}\n", r"2\.csv has something else than numbers in the column number 2"),
        (f"a,b\n1,2\n{SENTINEL}\n", r"2\.csv has rows of different lengths"),
    ],
)
def test_parts_of_different_tables(tmp_path, second, match):
    paths = [write_csv(tmp_path / "1.csv", "a,b\n1,2\n"), write_csv(tmp_path / "2.csv", second)]
    refused(paths, match)


def test_parts_may_have_more_columns_than_were_chosen(tmp_path):
    paths = [write_csv(tmp_path / "1.csv", "a,b\n1,2\n"), write_csv(tmp_path / "2.csv", "z,b\nx,0.5\n")]
    assert second_moments(paths, BOUND, columns=["b"]) == second_moments([[2.0], [0.5]], BOUND)


def test_parts_with_and_without_names(tmp_path):
    np.save(tmp_path / "1.npy", ROWS)
    refused([tmp_path / "1.npy", write_csv(tmp_path / "2.csv", as_csv(ROWS))], "not parts of one table")
    np.save(tmp_path / "3.npy", ROWS[:, :3])
    refused([tmp_path / "1.npy", tmp_path / "3.npy"], "not parts of one table")


def test_a_failure_in_the_last_part_passes_nothing_on(tmp_path):
    good = write_csv(tmp_path / "1.csv", as_csv(ROWS))
    bad = write_csv(tmp_path / "2.csv", as_csv(ROWS) + f"1,2,3,x{SENTINEL}\n")
    refused([good, bad], "column number 4")
    refused([good, bad], "column 'score'", columns=list(NAMES))
    assert second_moments(good, BOUND) == REFERENCE


# Text in other ways of writing, other formats


def write_bytes(path, content):
    import bz2

    end = path.suffix
    if end == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    else:
        with {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}.get(end, open)(path, "wb") as file:
            file.write(content)
    return path


def as_text(rows, delimiter=",", decimal="."):
    lines = [delimiter.join(repr(float(value)).replace(".", decimal) for value in row) for row in rows]
    return "\n".join([delimiter.join(NAMES), *lines, ""])


def as_json_lines(rows):
    return "\n".join(json.dumps(dict(zip(NAMES, map(float, row), strict=True))) for row in rows)


@pytest.mark.parametrize("end", ["", ".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("stem", [".csv", ".tsv", ".jsonl", ".ndjson"])
def test_text_plain_and_compressed_gives_the_bits_of_the_array(tmp_path, stem, end, monkeypatch):
    monkeypatch.setattr(text, "_BLOCK", 4096)
    made = {".csv": as_text(ROWS), ".tsv": as_text(ROWS, "\t")}.get(stem, as_json_lines(ROWS))
    path = write_bytes(tmp_path / f"data{stem}{end}", made.encode())
    assert len(list(open_source(path, NAMES).batches())) > 3
    assert second_moments(path, BOUND, columns=NAMES) == REFERENCE
    assert second_moments(path, BOUND, columns=["score", "age"]) == second_moments(ROWS[:, [3, 0]], BOUND)


@pytest.mark.parametrize("stem", [".csv", ".jsonl"])
@pytest.mark.parametrize("end", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("keep", [0.0, 0.5, -1])
def test_a_truncated_file_is_never_a_short_read(tmp_path, stem, end, keep):
    made = as_text(ROWS) if stem == ".csv" else as_json_lines(ROWS)
    path = write_bytes(tmp_path / f"data{stem}{end}", made.encode())
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if keep < 0 else int(keep * len(whole))])
    refused(path, "truncated", columns=NAMES)


def test_two_compressed_parts_in_one_file(tmp_path):
    import bz2

    text = as_text(ROWS).encode()
    path = tmp_path / "data.csv.bz2"
    path.write_bytes(bz2.compress(text[:5000]) + bz2.compress(text[5000:]))
    assert second_moments(path, BOUND) == REFERENCE
    codec = pa.Codec("zstd")
    path = tmp_path / "data.csv.zst"
    path.write_bytes(codec.compress(text[:5000], asbytes=True) + codec.compress(text[5000:], asbytes=True))
    assert second_moments(path, BOUND) == REFERENCE


@pytest.mark.parametrize(
    ("encoding", "suffix"),
    [("latin-1", ".csv"), ("utf-16", ".csv.gz"), ("utf-8-sig", ".csv"), ("utf-32", ".csv.xz"), ("cp1252", ".csv.zst")],
)
def test_decimal_commas_semicolons_and_encodings(tmp_path, encoding, suffix):
    text = as_text(ROWS, ";", ",").replace("height", "größe")
    path = write_bytes(tmp_path / f"data{suffix}", text.encode(encoding))
    source = open_table(path, delimiter=";", decimal=",", encoding=encoding)
    assert source.feature_names == ("age", "größe", "mass", "score")
    assert second_moments(source, BOUND) == REFERENCE


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ";;"},
        {"delimiter": 3},
        {"decimal": ","},
        {"delimiter": ".", "decimal": "."},
        {"encoding": "klingon"},
        {"separator": ";"},
    ],
)
def test_wrong_ways_of_writing_are_refused(tmp_path, options):
    path = write_csv(tmp_path / "a.csv", as_csv(ROWS))
    with pytest.raises(InvalidParameterError):
        open_table(path, **options)


def test_ways_of_writing_are_for_text_alone(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "a.jsonl").write_text(as_json_lines(ROWS))
    for data, options in (
        (tmp_path / "a.npy", {"encoding": "latin-1"}),
        (tmp_path / "a.jsonl", {"delimiter": ";"}),
        (ROWS, {"delimiter": ";"}),
    ):
        with pytest.raises((InvalidDataError, InvalidParameterError)):
            open_table(data, **options)
    path = tmp_path / "bad.csv"
    path.write_bytes(b"a,b\n1,2\n" + SENTINEL.encode() + b"\xff\xff,2\n")
    with pytest.raises(InvalidDataError) as caught:
        list(open_table(path, encoding="ascii").batches())
    assert SENTINEL not in str(caught.value)


@pytest.mark.parametrize(("suffix", "compression"), [(".feather", "lz4"), (".arrow", "uncompressed")])
def test_feather_gives_the_bits_of_the_array(tmp_path, suffix, compression):
    from pyarrow import feather

    path = tmp_path / f"data{suffix}"
    feather.write_feather(as_table(ROWS), str(path), compression=compression, chunksize=100)
    assert second_moments(path, BOUND) == REFERENCE
    assert second_moments(path, BOUND, columns=["score", "age"]) == second_moments(ROWS[:, [3, 0]], BOUND)
    whole = path.read_bytes()
    for keep in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        refused(path, ".")


def test_an_arrow_stream_in_a_file(tmp_path):
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), as_table(ROWS).schema) as writer:
        writer.write_table(as_table(ROWS), max_chunksize=100)
    assert second_moments(tmp_path / "a.arrow", BOUND) == REFERENCE


# Standard input


def piped(content):
    return StandardInput(io.BytesIO(content))


def test_standard_input_is_known_by_its_first_bytes(tmp_path, monkeypatch):
    import bz2

    from pyarrow import feather

    text = as_text(ROWS).encode()
    pq.write_table(as_table(ROWS), tmp_path / "a.parquet")
    feather.write_feather(as_table(ROWS), str(tmp_path / "a.feather"))
    contents = {
        ".csv": text,
        ".csv.gz": gzip.compress(text),
        ".csv.xz": lzma.compress(text),
        ".csv.bz2": bz2.compress(text),
        ".csv.zst": pa.Codec("zstd").compress(text, asbytes=True),
        ".jsonl": as_json_lines(ROWS).encode(),
        ".jsonl.gz": gzip.compress(as_json_lines(ROWS).encode("utf-8-sig")),
        ".parquet": (tmp_path / "a.parquet").read_bytes(),
        ".arrow": (tmp_path / "a.feather").read_bytes(),
    }
    for in_memory in (2**26, 100):
        monkeypatch.setattr("eigenveil.tables.files._IN_MEMORY", in_memory)
        for suffix, content in contents.items():
            place = piped(content)
            assert place.suffixes == suffix
            assert place.on_disk == (len(content) > in_memory)
            source = open_source([place], NAMES)
            assert second_moments(source, BOUND) == REFERENCE
            assert second_moments(source, BOUND) == REFERENCE


def test_standard_input_that_is_no_table_is_refused():
    for content in (b"", b"\x93NUMPY\x01\x00" + SENTINEL.encode(), SENTINEL.encode()):
        refused(piped(content), ".")
