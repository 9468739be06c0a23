"""The reader of CSV beside two foreign parsers: the same rows, or the same refusal, wherever a text is cut.

Python's `csv` in strict mode decides which files are well formed: no open quote, nothing after a closing quote, rows of
one length. Of those, pandas' C parser must read the same rows as we do. The others must be refused, by a sentence.
"""

import csv
import io
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from eigenveil.errors import EigenveilError
from eigenveil.tables import text as delimited
from eigenveil.tables.encoder import Declared
from eigenveil.tables.text import CsvFile, TextFormat

ENDS = ("\n", "\n", "\r\n", "\r")
SIGNS = (",", ",", ";", "\t", "|", " ")
# Fields as they are written: plain, rightly quoted, and broken in ways that exports are.
PLAIN = ("", "x", "1", "-2.5", '5" pipe', 'a"', 'a""b', "é", " ", " y", "'", "\\", "true", "NA", "#", "0")
QUOTED = (
    '""',
    '"x"',
    '"a{sign}b"',
    '"a{end}b"',
    '"{end}"',
    '"""x"""',
    '"é{end}{end}"',
    '"1{sign}2{end}3{sign}4"',
    '""""',
)
BROKEN = ('"', '"x', '"x"y', '"x" ', '" "" ', '"x""', '"a"b"', '""x')
BLOCKS = (1, 2, 3, 5, 8, 13, 64, 2**22)


def made(seed):
    """Return the text of a seed, and how it is written."""
    generator = np.random.default_rng([31, seed])

    def pick(choices):
        return choices[int(generator.integers(len(choices)))]

    end, sign, width = pick(ENDS), pick(SIGNS), int(generator.integers(1, 4))
    odd = generator.random() < 0.3  # else the file is well formed
    names = [f"c{at}" for at in range(width)]
    if generator.random() < 0.3:
        names[-1] = pick(('"c{sign}d"', '"c{end}d"', '"""c"""')).format(sign=sign, end=end)

    def field():
        kinds = (PLAIN, QUOTED) if generator.random() > 0.1 or not odd else (BROKEN,)
        text = pick(pick(kinds)).format(sign=sign, end=end)
        return text if text.startswith('"') else text.replace(sign, "")

    rows = [sign.join(names)]
    for _ in range(int(generator.integers(0, 12))):
        count = width + (int(generator.integers(-1, 2)) if odd and generator.random() < 0.05 else 0)
        rows.append("" if generator.random() < 0.1 else sign.join(field() for _ in range(max(count, 1))))
    text = end * int(generator.integers(0, 2)) + end.join(rows) + pick(("", end, end, end + end))
    if odd and generator.random() < 0.3:
        at = int(generator.integers(len(text)))
        text = text[:at] + '"' + text[at:]
    if odd and generator.random() < 0.2:
        text = text[: int(generator.integers(1, len(text) + 1))]
    return pick(("", "", "\ufeff")) + text, sign


def by_python(text, sign):
    """Return header and rows as Python's csv reads them; None where it refuses, or the rows have several lengths."""
    try:
        rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=sign, strict=True))
    except csv.Error:
        return None
    while rows and not rows[0]:
        rows.pop(0)
    if not rows:
        return None
    header, *rows = rows
    try:
        delimited.check_header(header, "a file")  # a first line that may be a row is refused, whoever reads it
    except EigenveilError:
        return None
    # A blank line is a missing value in a file of one column, and no row in others.
    rows = [row or [""] for row in rows if row or len(header) == 1]
    return (header, rows) if all(len(row) == len(header) for row in rows) else None


@contextmanager
def suppress_overflow():
    """Pass over a fault of pandas 2: some small files are told to overflow its buffer."""
    try:
        yield
    except pd.errors.ParserError as error:
        if "Buffer overflow" not in str(error):
            raise


def by_pandas(text, sign, header):
    """Return the rows as pandas' C parser reads them, which takes the names from us."""
    table = pd.read_csv(
        io.BytesIO(text.encode()),
        sep=sign,
        header=0,
        names=range(len(header)),
        index_col=False,
        dtype=str,
        keep_default_na=False,
        skip_blank_lines=len(header) > 1,
        encoding="utf-8-sig",
    )
    return [["" if cell != cell else cell for cell in row] for row in table.to_numpy().tolist()]


def by_us(path, sign):
    """Return header and rows as our reader gives them, every column as text; None where it refuses."""
    try:
        header = list(CsvFile(path, ".csv", Declared(), TextFormat(delimiter=sign)).columns)
        declared = Declared(categories={name: ["x"] for name in header})
        file = CsvFile(path, ".csv", declared, TextFormat(delimiter=sign))
        parts = list(file.read(header, 5))
    except EigenveilError:
        return None
    return header, [list(row.values()) for part in parts for row in part.to_pylist()]


def compared(seeds, path, monkeypatch):
    """Return how many files of the seeds were read and refused; all by all parsers in the same way."""
    read = refused = 0
    for seed in seeds:
        text, sign = made(seed)
        path.write_bytes(text.encode())
        expected = by_python(text, sign)
        if expected is None:
            refused += 1
        else:
            read += 1
            header, rows = expected
            # pandas takes a first blank line of one column for names, and an empty field after a blank line for none.
            if text.removeprefix("\ufeff")[:1] not in "\r\n" and f"\r\r{sign}" not in text:
                with suppress_overflow():
                    assert by_pandas(text, sign, header) == rows, (seed, text)
        for block in (BLOCKS[seed % len(BLOCKS)], 1):
            monkeypatch.setattr(delimited, "_BLOCK", block)
            assert by_us(path, sign) == expected, (seed, block, sign, text)
    return read, refused


@pytest.mark.parametrize("part", range(5))
def test_the_same_rows_or_the_same_refusal(part, tmp_path, monkeypatch):
    read, refused = compared(range(100 * part, 100 * part + 100), tmp_path / "a.csv", monkeypatch)
    assert read > 50
    assert refused > 5


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(10))
def test_the_same_rows_or_the_same_refusal_ten_thousand_times(part, tmp_path, monkeypatch):
    compared(range(1000 * part, 1000 * part + 1000), tmp_path / "a.csv", monkeypatch)


def counted_quotes(lines, delimiter, keep_blank):
    """The old way: a line break ends a row where the number of quotes before it is even."""
    end = lines.rfind(b"\n")
    while end >= 0 and lines.count(b'"', 0, end) % 2:
        end = lines.rfind(b"\n", 0, lines.rfind(b'"', 0, end))
    return end + 1, None


def test_control_counted_quotes_are_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_cut", counted_quotes)
    caught = 0
    for seed in range(100):
        try:
            compared([seed], tmp_path / "a.csv", monkeypatch)
        except AssertionError:
            caught += 1
    assert caught > 5
