"""A private cell in no error: a sentinel through every public entry; text, cause, context and warnings are searched."""

import contextlib
import re
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from eigenveil import PrivateCovariance, PrivatePCA, PrivateRidge, PrivateSparsePCA, RowBound, Schema, SecondMoments
from eigenveil.errors import EigenveilError, InvalidDataError
from eigenveil.estimators import LocalPCA
from eigenveil.local import LocalProtocol, encode_many
from eigenveil.tables.open import draft_schema, open_source, open_table, second_moments
from eigenveil.tables.schema import Column
from helpers import assert_one_sentence

WORD, NUMBER = "Jane Doe HIV+", 31337.2109375
GOOD = np.random.default_rng(0).normal(size=(30, 3))
PRIVATE = re.compile(r"Jane|HIV|31337|3\.1337")


class Cell:
    """A number that cannot be had, and says so with what it holds."""

    def __float__(self):
        raise RuntimeError(f"{WORD} {NUMBER}")

    def __repr__(self):
        return f"Cell({WORD}, {NUMBER})"

    __str__ = __repr__


def with_cell(cell, dtype=object):
    rows = np.array(GOOD[:5], dtype=dtype)
    rows[1, 1] = NUMBER
    rows[2, 1] = cell
    return rows


def frame_of(cell, kind=pd.DataFrame):
    return kind({"a": [1.0, NUMBER, 2.0], "b": [1.0, cell, 3.0]})


BAD = {
    "text among objects": with_cell(WORD),
    "text": np.array([[WORD, "1"], [str(NUMBER), "2"]]),
    "bytes": np.array([[WORD.encode(), b"1"], [b"2", b"3"]]),
    "an object": with_cell(Cell()),
    "a signalling NaN": with_cell(Decimal("sNaN31337")),
    "none": with_cell(None),
    "a list in a cell": with_cell([NUMBER, NUMBER]),
    "complex": with_cell(NUMBER + 1j, complex),
    "complex among objects": with_cell(NUMBER + 1j),
    "NaN": with_cell(np.nan, float),
    "infinity": with_cell(np.inf, float),
    "one row": np.array([NUMBER, 1.0, 2.0]),
    "one word": [WORD, WORD],
    "three dimensions": np.full((2, 2, 2), NUMBER),
    "a number": NUMBER,
    "ragged": [[NUMBER, 1.0], [2.0]],
    "list with text": [[WORD, NUMBER], [1.0, 2.0]],
    "list with an object": [[Cell(), NUMBER], [1.0, 2.0]],
    "dates": np.array([["2001-01-01", "2002-01-01"]], dtype="datetime64[D]"),
    "masked": np.ma.masked_array([[NUMBER, 1.0], [2.0, 3.0]], mask=[[0, 1], [0, 0]]),
    "sparse with NaN": scipy.sparse.csr_array(np.array([[NUMBER, np.nan, 0.0], [1.0, 2.0, 3.0]])),
    "pandas, objects": frame_of(WORD),
    "pandas, an object": frame_of(Cell()),
    "pandas, missing": frame_of(np.nan),
    "pandas, categories": pd.DataFrame({"a": [1.0, NUMBER], "b": pd.Categorical([WORD, "x"])}),
    "polars, text": pl.DataFrame({"a": [1.0, NUMBER], "b": [WORD, "x"]}),
    "polars, objects": pl.DataFrame({"a": [1.0, 2.0], "b": pl.Series([Cell(), 1], dtype=pl.Object)}),
    "arrow, text": pa.table({"a": [1.0, NUMBER], "b": [WORD, "x"]}),
    "arrow, lists": pa.table({"a": [[NUMBER], [1.0]]}),
}
DECLARED = Schema((Column("a", range=(0, 1), missing="middle"), Column("b", "boolean", missing="indicator")))
FITTED = [
    PrivatePCA(1, norm_bound=10.0, epsilon=1000.0, random_state=0).fit(GOOD),
    LocalPCA(1, norm_bound=10.0, random_state=0).fit(GOOD),
    PrivateRidge(epsilon=1000.0, norm_bound=10.0, random_state=0).fit(GOOD, GOOD[:, 0]),
]
ENTRIES = {
    "PrivatePCA.fit": lambda X: PrivatePCA(1, norm_bound=1.0).fit(X),
    "PrivatePCA.fit, private bound": lambda X: PrivatePCA(1, statistic="clipped").fit(X),
    "PrivatePCA.fit, nothing public": lambda X: PrivatePCA(1).fit(X),
    "PrivatePCA.fit, correlations": lambda X: PrivatePCA(1, norm_bound=1.0, standardize=True).fit(X),
    "PrivatePCA.fit, pairs": lambda X: PrivatePCA(1, statistic="spatial_sign").fit(X),
    "PrivatePCA.fit, signs": lambda X: PrivatePCA(1, statistic="kendall").fit(X),
    "PrivatePCA.partial_fit": lambda X: PrivatePCA(1, norm_bound=1.0).partial_fit(X),
    "PrivateCovariance.fit": lambda X: PrivateCovariance(norm_bound=1.0).fit(X),
    "PrivateSparsePCA.fit": lambda X: PrivateSparsePCA(1, norm_bound=1.0).fit(X),
    "PrivateRidge.fit": lambda X: PrivateRidge(norm_bound=1.0).fit(X, np.ones(len_of(X))),
    "PrivateRidge.fit, other length": lambda X: PrivateRidge(norm_bound=1.0).fit(X, np.ones(31337)),
    "PrivateRidge.fit, target": lambda X: PrivateRidge(norm_bound=1.0, target=0).fit(X),
    "PrivateRidge.fit, y": lambda X: PrivateRidge(norm_bound=1.0).fit(GOOD[: len_of(X)], X),
    "PrivateRidge.partial_fit": lambda X: PrivateRidge(norm_bound=1.0).partial_fit(X, np.ones(len_of(X))),
    "PrivateRidge.predict": lambda X: FITTED[2].predict(X),
    "LocalPCA.fit": lambda X: LocalPCA(1, norm_bound=1.0).fit(X),
    "encode_many": lambda X: encode_many(LocalProtocol(3, epsilon=1.0), X),
    "LocalPCA.transform": lambda X: FITTED[1].transform(X),
    "PrivatePCA.transform": lambda X: FITTED[0].transform(X),
    "PrivatePCA.inverse_transform": lambda X: FITTED[0].inverse_transform(X),
    "SecondMoments.update": lambda X: SecondMoments(RowBound(1.0), 3).update(X),
    "second_moments": lambda X: second_moments(X, RowBound(1.0)),
    "open_source": lambda X: list(open_source(X).batches()),
    "open_table, schema": lambda X: list(open_table(X, schema=DECLARED).batches()),
    "open_table, dates": lambda X: list(open_table(X, schema=Schema((Column("b", "date"),))).batches()),
    "PrivatePCA.fit, schema": lambda X: PrivatePCA(1, schema=DECLARED).fit(X),
    "PrivatePCA.fit, ranges by name": lambda X: PrivatePCA(1, bounds={"a": (0, 1), "b": (0, 1)}).fit(X),
    "draft_schema": lambda X: draft_schema(X),
    "from_frame_types": lambda X: Schema.from_frame_types(X),
    "open_table, categories": lambda X: list(open_table(X, categories={"b": ["x"]}, missing=0.0).batches()),
}


def len_of(X):
    return X.shape[0] if hasattr(X, "shape") and X.shape else len(X) if hasattr(X, "__len__") else 1


def searched(error):
    """Fail where the error, or any that it can be traced to, shows something private."""
    seen, waiting = set(), [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        assert not PRIVATE.search(f"{one} {one!r} {one.args} {getattr(one, '__notes__', '')}"), type(one)
        waiting += [one.__cause__, one.__context__]
    assert len(seen) == 1, "an error of another library is still there"


@contextlib.contextmanager
def tells_nothing(kind=Exception):
    """Let an entry raise, or not; nothing private in the error or in a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except kind as error:
            searched(error)
    assert not any(PRIVATE.search(str(warning.message)) for warning in caught)


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_entry_quotes_a_cell(entry):
    for data in BAD.values():
        with tells_nothing():
            ENTRIES[entry](data)


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_is_refused_in_our_words(case):
    for entry in ("PrivatePCA.fit", "PrivateRidge.fit", "LocalPCA.fit", "PrivatePCA.transform"):
        with pytest.raises((TypeError, ValueError)) as refusal:
            ENTRIES[entry](BAD[case])
        # Of the schema, which is public, scikit-learn speaks in its own words.
        if not re.match(r"X has \d features|The feature names", str(refusal.value)):
            assert isinstance(refusal.value, EigenveilError)
            assert_one_sentence(refusal.value, WORD, NUMBER)


def test_control_the_search_finds_what_is_hidden():
    for raising in (lambda: float(WORD), lambda: np.asarray([[WORD]], dtype=float)):
        try:
            try:
                raising()
            except ValueError:
                raise InvalidDataError("The data are no numbers.") from None
        except InvalidDataError as error:
            with pytest.raises(AssertionError):
                searched(error)


# Files.

HEADERLESS = {
    "numbers": f"{NUMBER},1.5\n2.5,3.5\n",
    "whole numbers": "31337,15\n25,35\n",
    "a number beside text": f"{WORD},31337\nJohn,40\n",
    "text": f"{WORD},F\nJohn,M\n",
    "the same text twice": f"{WORD},{WORD}\nJohn,M\n",
    "a missing value": "NA,31337\n1,2\n",
    "missing values": "NA,nan\n31337,2\n",
    "an empty field": "31337,\n1,2\n",
    "a percentage": "31337%,x\n1,2\n",
    "thousands": '"31,337",x\n1,2\n',
    "one column": f"{NUMBER}\n1.0\n2.0\n",
    "truth values": "true,false\nfalse,true\n",
}


@pytest.mark.parametrize("case", HEADERLESS)
def test_a_file_without_a_header_is_refused_and_not_quoted(case, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(HEADERLESS[case])
    good = tmp_path / "good.csv"
    good.write_text("a,b\n1,2\n")
    for data, options in (
        (path, {}),
        ([good, path], {}),
        (path, {"categories": {"sex": ["F", "M"]}}),
        (path, {"columns": ["age"]}),
        (path, {"columns": ["age", "sex"], "categories": {"sex": ["F", "M"]}}),
    ):
        with pytest.raises(EigenveilError) as refusal:
            list(open_table(data, **options).batches())
        searched(refusal.value)
        assert_one_sentence(refusal.value, WORD, NUMBER, "31337", "Jane")


@pytest.mark.parametrize("data", BAD)
def test_a_draft_holds_no_value(data):
    """Where a frame has categories in its type, or values of any kind, none of them is in its schema."""
    with tells_nothing():
        draft = draft_schema(BAD[data])
        assert not PRIVATE.search(f"{draft!r} {draft.to_yaml()} {draft.to_dict()}")


COMMANDS = {
    "pca -k 1": "a,b\n" + "1,2\n" * 9000 + f"3,{WORD}\n",
    "covariance --categories a=x": HEADERLESS["text"],
    "ridge --target b": HEADERLESS["a number beside text"],
    "local encode": f"a,b\n1,2\n1,2,{NUMBER}\n",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_quotes_a_cell(command, tmp_path):
    """In a process of its own, with --debug, which prints the chain of errors."""
    path, output, words = tmp_path / "rows.csv", tmp_path / "output", command.split()
    path.write_text(COMMANDS[command])
    if words[0] == "local":
        protocol = tmp_path / "protocol.json"
        protocol.write_text(LocalProtocol(2, 1.0).to_json())
        words += [str(protocol), str(path), "--yes", "--output", str(output)]
    else:
        words += [str(path), "--epsilon", "1", "--norm-bound", "1", "--yes", "--output", str(output)]
    result = run("--debug", *words)
    assert result.returncode == 1, result.stderr
    assert not PRIVATE.search(result.stdout + result.stderr), result.stderr
    assert not output.exists()


def run(*words):
    return subprocess.run([sys.executable, "-m", "eigenveil.cli", *words], capture_output=True, text=True, check=False)
