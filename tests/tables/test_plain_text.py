"""Without PyArrow: CSV files of numbers are read to the same bits, and what cannot be read says what is missing."""

import gzip
import subprocess
import sys

import numpy as np
import pytest

from eigenveil.errors import EigenveilError, EngineError, InvalidDataError
from eigenveil.tables import base
from eigenveil.tables.open import open_table

NUMBERS = np.random.default_rng(5).normal(size=(40, 3)) * 10.0 ** np.arange(-200, 100, 100)
LONG = "age,mass,dose\n" + "".join(",".join(map(repr, row)) + "\n" for row in NUMBERS.tolist())
TEXTS = {
    "long": (LONG, {}),
    "missing": ("a,b\n1,NA\n,2\nnan,null\n#N/A, 3 \n", {}),
    "blank lines": ("\n\na,b\n1,2\n\n3,4\n", {}),
    "one column": ("a\n1\n\n3\n", {}),
    "carriage returns": ("a,b\r1,2\r\r3,4\r", {}),
    "one column, carriage returns": ("a\r1\r\r3\r", {}),
    "signs": ("a,b\n+1,-1\n1E5,-.5e-3\n", {}),
    "mark": ("\ufeffa,b\n1,2\n", {}),
    "windows": ("a,b\r\n1,2\r\n3,4", {}),
    "comma": ("a;b\n1,5;2\n-3e-5;4,25\n", {"delimiter": ";", "decimal": ","}),
    "latin": ("größe,b\n1,2\n", {"encoding": "latin-1"}),
    "odd numbers": ("a,b\n1e-400,1e400\n-0,.5\n5.,0.1\ninf,-inf\n", {}),
}


@pytest.fixture
def no_arrow(monkeypatch):
    monkeypatch.setattr(base, "find_spec", lambda name: None)


def read(path, columns=None, **text):
    source = open_table(path, columns, **text)
    return source.feature_names, source.names_public, np.concatenate(list(source.batches()))


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_numbers_as_with_pyarrow(name, tmp_path, monkeypatch):
    text, options = TEXTS[name]
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode(options.get("encoding", "utf-8")))
    *expected, rows = read(path, **options)
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    *found, plain = read(path, **options)
    assert found == expected
    np.testing.assert_array_equal(plain, rows)


@pytest.mark.usefixtures("no_arrow")
def test_blocks_are_cut_between_rows_and_columns_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.tables.text._BLOCK", 64)
    for name, text in (("table.tsv", LONG.replace(",", "\t").encode()), ("table.csv.gz", gzip.compress(LONG.encode()))):
        (tmp_path / name).write_bytes(text)
        np.testing.assert_array_equal(read(tmp_path / name, ["dose", "age"])[2], NUMBERS[:, [2, 0]])


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2,3\n", "a,b\n1\n", "34,2\n1,2\n", "a,b\n1,Rome\n", "a,b\n1,1_000\n", "a,b\n1,٣\n", "a,b\n1,2\xff\n"],
)
def test_what_pyarrow_refuses_is_refused_without_a_cell(text, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1", "replace") if "\xff" in text else text.encode())
    with pytest.raises(EigenveilError):
        read(path)
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(InvalidDataError) as told:
        read(path)
    said = str(told.value).replace(str(path), "")
    assert not any(cell in said for cell in ("Rome", "1_000", "34"))


@pytest.mark.usefixtures("no_arrow")
@pytest.mark.parametrize("text", ['a,b\n1,"2"\n', 'a,b\n1,2\n3,5"\n', 'a,b\n1,2\n3,"4\n'])
def test_without_pyarrow_every_quote_is_refused(text, tmp_path):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InvalidDataError, match=r"has quotes; write it without|open quote"):
        read(tmp_path / "table.csv")


@pytest.mark.usefixtures("no_arrow")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("table.parquet", {}),
        ("table.jsonl", {"columns": ["a", "b"]}),
        ("table.feather", {}),
        ("table.csv.zst", {}),
        ("table.csv", {"privacy_unit": "a"}),
        ("table.csv", {"categories": {"a": ["x"]}}),
    ],
)
def test_what_needs_pyarrow_says_how_to_get_it(name, options, tmp_path):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(EngineError, match=r"pip install 'eigenveil\[files\]'"):
        open_table(tmp_path / name, **options)


def test_a_fit_needs_no_pyarrow(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n" + "".join(f"{row % 7},{row % 5}\n" for row in range(400)))
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import numpy as np, pandas as pd\n"
        "from eigenveil import PrivatePCA\n"
        "table = pd.read_csv('table.csv')\n"
        "fits = [PrivatePCA(1, epsilon=9.0, bounds=(0, 7), random_state=3).fit(data)\n"
        "        for data in ('table.csv', table, table.to_numpy(float))]\n"
        "assert len({fit.release_.integers['matrix'].tobytes() for fit in fits}) == 1\n"
        "PrivatePCA(1, epsilon=9.0, bounds=(0, 7)).fit(table, privacy_unit=np.arange(400) // 2)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=tmp_path)
