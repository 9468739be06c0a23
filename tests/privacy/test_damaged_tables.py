"""No planted value of a damaged table reaches a message, a cause, a context, a warning or a log."""

import contextlib
import io
import json
import logging
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge
from eigenveil.errors import EigenveilError, looks_like_a_name
from eigenveil.tables.open import draft_schema, open_table
from helpers import assert_one_sentence

PLANTED = ("zqplanted", "zq@planted.org", "73519.24681", "73519", "1973-05-19", "zq planted name", "zqé")
# What looks like a name is one, if it stands where names stand: it is shown.
AS_NAMES = tuple(word for word in PLANTED if not looks_like_a_name(word))
FOUND = re.compile("zq|planted|73519|24681|1973-05")
TOKENS = (*PLANTED, *PLANTED, "", "NA", '"', '"zq', "'", "1e999", "--5", "NaN", "true", "{", "\\N", "\x00", "9" * 50)
NAMES = ("age", "income", "rent")
ENTRIES = {
    "fit": lambda data: PrivatePCA(1, norm_bound=1.0).fit(data),
    "private bound": lambda data: PrivateCovariance().fit(data),
    "ridge": lambda data: PrivateRidge(norm_bound=1.0, target="age").fit(data),
    "columns": lambda data: list(open_table(data, columns=["age", "rent"]).batches()),
    "categories": lambda data: list(open_table(data, categories={"rent": ["x"]}, missing=0.0).batches()),
    "bounds": lambda data: PrivatePCA(1, bounds={"age": (0, 1)}).fit(data),
    "draft": draft_schema,
    "several": lambda data: list(open_table([data, data]).batches()),
}


def _pick(generator, choices):
    return choices[int(generator.integers(len(choices)))]


def cells(generator):
    rows = [[f"{one:.4f}" for one in row] for row in generator.normal(size=(8, 3))]
    for _ in range(int(generator.integers(1, 4))):
        rows[generator.integers(8)][generator.integers(3)] = _pick(generator, TOKENS)
    return rows


def text_table(generator, separator):
    rows = cells(generator)
    header = list(NAMES)
    what = int(generator.integers(9))
    if what == 0:
        header = rows.pop(0)  # none
    elif what == 1:
        header[generator.integers(3)] = _pick(generator, AS_NAMES)
    elif what == 2:
        rows[generator.integers(len(rows))] += [_pick(generator, PLANTED)]
    elif what == 3:
        rows[generator.integers(len(rows))].pop()
    elif what == 4:
        separator = _pick(generator, (";", "|", " ", "::", "\t", ","))
    elif what == 5:
        header = [_pick(generator, AS_NAMES)] * 3
    ends = _pick(generator, ("\n", "\n", "\r\n", "\r"))
    text = ends.join(separator.join(row) for row in [header, *rows]) + ends
    content = text.encode(_pick(generator, ("utf-8", "utf-8", "utf-16", "latin-1", "utf-8-sig")), "replace")
    if what == 6:
        content = content[: int(generator.integers(1, len(content)))]
    elif what == 7:
        content = flipped(content, generator)
    elif what == 8:
        place = int(generator.integers(len(content)))
        content = content[:place] + b'"' + content[place:]
    return content


def json_lines(generator):
    lines = [json.dumps(dict(zip(NAMES, map(number_or_text, row), strict=True))) for row in cells(generator)]
    place = int(generator.integers(len(lines)))
    odd = (
        f'{{"age": "{PLANTED[0]}',
        f'["{PLANTED[0]}"]',
        f'{{"{AS_NAMES[0]}": {PLANTED[2]}}}',
        PLANTED[0],
        lines[0][:-3],
        "null",
    )
    lines[place] = _pick(generator, odd)
    content = "\n".join(lines).encode()
    return flipped(content, generator) if generator.integers(3) == 0 else content


def number_or_text(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def binary(generator, write):
    rows = cells(generator)
    names = [_pick(generator, AS_NAMES) if generator.integers(6) == 0 else name for name in NAMES]
    if len(set(names)) < 3:
        names = list(NAMES)
    columns = [[row[at] for row in rows] for at in range(3)]
    kept = [
        column if generator.integers(2) else pd.to_numeric(pd.Series(column), errors="coerce") for column in columns
    ]
    buffer = io.BytesIO()
    write(pa.table(dict(zip(names, map(pa.array, kept), strict=True))), buffer)
    content = buffer.getvalue()
    return flipped(content, generator) if generator.integers(2) else content


def numbers(generator):
    buffer = io.BytesIO()
    value = np.array(cells(generator), dtype=object if generator.integers(2) else str)
    np.save(buffer, value, allow_pickle=True)
    return flipped(buffer.getvalue(), generator) if generator.integers(2) else buffer.getvalue()


def flipped(content, generator):
    changed = bytearray(content)
    for _ in range(int(generator.integers(1, 5))):
        changed[generator.integers(len(changed))] = int(generator.integers(256))
    return bytes(changed)


FORMATS = {
    ".csv": lambda generator: text_table(generator, ","),
    ".tsv": lambda generator: text_table(generator, "\t"),
    ".jsonl": json_lines,
    ".parquet": lambda generator: binary(generator, pq.write_table),
    ".feather": lambda generator: binary(generator, lambda table, buffer: feather.write_feather(table, buffer)),
    ".npy": numbers,
}
KINDS = (".csv", ".csv", ".csv", ".tsv", ".jsonl", ".jsonl", ".parquet", ".feather", ".npy", "frame")


def damaged(seed, folder):
    """Return the table of a seed: a path, or a frame with odd cells."""
    generator = np.random.default_rng([5, seed])
    kind = KINDS[seed % len(KINDS)]
    if kind == "frame":
        columns = [*NAMES[:2], _pick(generator, ("rent", *AS_NAMES))]
        return pd.DataFrame([list(map(number_or_text, row)) for row in cells(generator)], columns=columns)
    path = folder / f"table{kind}"
    path.write_bytes(FORMATS[kind](generator))
    return path


@contextlib.contextmanager
def everything_said():
    """Collect all that is logged, warned of and printed."""
    said, stream = [], io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stderr(stream),
            contextlib.redirect_stdout(stream),
        ):
            warnings.simplefilter("always")
            yield said
    finally:
        logging.getLogger().removeHandler(handler)
    said += [str(one.message) for one in caught] + [stream.getvalue()]


def chain(error):
    while error is not None:
        yield f"{error} {error!r} {error.args} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__


def tried(seed, folder, entries):
    """Return how many of the entries refuse a damaged table; none of them tells a planted value."""
    data, refusals = damaged(seed, folder), 0
    for name in entries:
        with everything_said() as said:
            try:
                ENTRIES[name](data)
                errors = []
            except Exception as error:
                errors = [error]
        for error in errors:
            refusals += 1
            told = [*chain(error)]
            assert not FOUND.search(" ".join(told)), (seed, name, told)
            assert isinstance(error, EigenveilError), (seed, name, type(error))
            assert_one_sentence(error)
        assert not FOUND.search(" ".join(said)), (seed, name, said)
    return refusals


@pytest.mark.parametrize("part", range(10))
def test_no_damaged_table_is_quoted(part, tmp_path):
    names = list(ENTRIES)
    seeds = range(50 * part, 50 * part + 50)
    assert sum(tried(seed, tmp_path, [names[seed % 8], names[(seed // 8) % 8]]) for seed in seeds)


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(230))
def test_no_damaged_table_is_quoted_in_tens_of_thousands(part, tmp_path):
    for seed in range(1000 + 200 * part, 1200 + 200 * part):
        tried(seed, tmp_path, ENTRIES)


def test_control_a_quoted_cell_is_noticed(tmp_path, monkeypatch):
    def quoting(data):
        raise EigenveilError(f"The cell {PLANTED[0]} is no number.")

    monkeypatch.setitem(ENTRIES, "fit", quoting)
    with pytest.raises(AssertionError):
        tried(0, tmp_path, ["fit"])
