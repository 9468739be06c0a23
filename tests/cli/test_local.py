"""`eigenveil local params | encode | aggregate` on files and standard streams."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from eigenveil import load_release
from eigenveil.cli import app
from eigenveil.errors import InvalidDataError, InvalidParameterError
from eigenveil.local import LocalProtocol, encode_many
from eigenveil.local.protocol import to_line
from helpers import invoked


def invoke(*words, **options):
    result = invoked("local", *words, **options)
    return result if isinstance(result, str) else result.output


@pytest.fixture
def protocol(tmp_path):
    path = tmp_path / "protocol.json"
    invoke("params", "--features", 4, "--epsilon", 8, "--norm-bound", 2, "--output", path)
    return path


def rows_file(tmp_path, n=300, header="a,b,c,d\n"):
    rows = np.random.default_rng(0).standard_normal((n, 4)) * [2, 0.1, 0.1, 0.1]
    path = tmp_path / "rows.csv"
    path.write_text(header + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return path


def test_params_shows_the_terms(tmp_path):
    output = invoke("params", "--features", 40, "--epsilon", 1, "--output", tmp_path / "p.json")
    assert "1-DP (pure)" in output
    assert "114" in output
    assert LocalProtocol.load(tmp_path / "p.json") == LocalProtocol(40, 1.0)
    auto = ("params", "--features", 40, "--mechanism", "auto", "--force", "--output", tmp_path / "s.json")
    assert "one_bit, rank 8" in invoke(*auto, "--epsilon", 0.5)
    assert LocalProtocol.load(tmp_path / "s.json") == LocalProtocol(40, 0.5, mechanism="one_bit")
    assert "double_cap" in invoke(*auto, "--epsilon", 2)
    assert json.loads(invoke(*auto, "--epsilon", 2, "--rank", 3, "--json"))["rank"] == 3
    invoke("params", "--features", 5, "--epsilon", -2, "--output", tmp_path / "r.json", fails=InvalidParameterError)
    assert not (tmp_path / "r.json").exists()


def test_files_all_the_way(tmp_path, protocol):
    reports, totals, release = (tmp_path / name for name in ("reports.txt", "totals.npz", "release.npz"))
    invoke("encode", protocol, rows_file(tmp_path), "--header", "--output", reports)
    assert len(reports.read_bytes().splitlines()) == 300
    output = invoke("aggregate", reports, "--protocol", protocol, "--totals", totals, "--release", release)
    assert "300 reports accepted" in output
    assert abs(load_release(release).components[0, 0]) > 0.9
    # Again: nothing counts twice, and saved totals need no protocol file.
    output = invoke("aggregate", reports, "--merge", totals)
    assert "300 reports accepted" in output
    assert "300 refused: repeated" in output
    invoke("aggregate", "--merge", totals, "--release", release, "--components", 2, "--force")
    assert load_release(release).components.shape == (2, 4)
    invoke("aggregate", "--merge", totals, "--merge", totals, fails=InvalidDataError)
    invoke("aggregate", "--merge", totals, "--totals", totals, fails=InvalidParameterError)


def test_standard_streams(tmp_path, protocol):
    rows = rows_file(tmp_path, header="").read_bytes()
    encoded = CliRunner().invoke(app, ["local", "encode", str(protocol)], input=rows).stdout_bytes
    assert encoded.count(b"\n") == 300
    words = ["local", "aggregate", "--protocol", str(protocol)]
    done = CliRunner().invoke(app, words, input=encoded + b"junk\n")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "300 reports accepted" in done.stderr
    assert "1 refused: malformed" in done.stderr


def test_reports_in_a_parquet_file(tmp_path, protocol):
    frame = pd.DataFrame({"payload": encode_many(LocalProtocol.load(protocol), np.ones((5, 4)))})
    frame.to_parquet(tmp_path / "reports.parquet")
    words = ("aggregate", tmp_path / "reports.parquet", "--protocol", protocol)
    assert "5 reports accepted" in invoke(*words, "--column", "payload")
    invoke(*words, fails=InvalidDataError)


def test_one_sentence_for_what_goes_wrong(tmp_path, protocol):
    secret = "7.7777"
    for content in (f"{secret},1,1\n", f"{secret},1,1,1\n1,1,1\n", f"a,b,c,d\n{secret},1,1\n"):
        path = tmp_path / "bad.csv"
        path.write_text(content)
        result = CliRunner().invoke(app, ["local", "encode", str(protocol), str(path)])
        assert isinstance(result.exception, InvalidDataError)
        assert secret not in str(result.exception)
    invoke("encode", protocol, tmp_path / "nowhere.csv", fails=InvalidDataError)
    invoke("encode", tmp_path / "nowhere.json", tmp_path / "bad.csv", fails=InvalidParameterError)
    invoke("aggregate", tmp_path / "bad.csv", fails=InvalidParameterError)
    invoke("aggregate", tmp_path / "nowhere.txt", "--protocol", protocol, fails=InvalidDataError)
    invoke("aggregate", "--protocol", protocol, "--release", tmp_path / "r.npz", fails=InvalidDataError)


def test_every_row_is_reported_whatever_it_holds(tmp_path, protocol):
    """How many reports leave a device is what its lines are, and nothing that stands in them."""
    rows, reports = tmp_path / "rows.csv", tmp_path / "reports.txt"
    for content, note in (
        ("0.1,0.2,0.3,0.4\n,,,\n", False),
        ("\ufeff0.1,private,0.3,0.4\n0.1,nan,0.3,1e999\n", False),
        ("private,private,,\n0.1,0.2,0.3,0.4\n", True),
    ):
        rows.write_text(content, encoding="utf-8")
        told = invoke("encode", protocol, rows, "--force", "--output", reports)
        assert len(reports.read_bytes().splitlines()) == 2
        assert ("--header" in told) == note
        assert "private" not in told
        invoke("encode", protocol, rows, "--header", "--force", "--output", reports)
        assert len(reports.read_bytes().splitlines()) == 1


def test_a_server_may_refuse_seeded_reports(tmp_path, protocol):
    reports = tmp_path / "reports.txt"
    seeded = encode_many(LocalProtocol.load(protocol), [[1.0, 0, 0, 0]] * 3, np.random.default_rng(0))
    reports.write_bytes(b"".join(map(to_line, seeded)))
    told = json.loads(invoke("aggregate", reports, "--protocol", protocol, "--refuse-seeded", "--json"))
    assert (told["accepted"], told["refused"]) == (0, {"seeded": 3})
    assert json.loads(invoke("aggregate", reports, "--protocol", protocol, "--json"))["accepted"] == 3


def test_encode_replaces_nothing_it_reads_and_refuses_what_is_no_text(tmp_path):
    protocol, rows = tmp_path / "p.json", tmp_path / "rows.csv"
    protocol.write_text(LocalProtocol(2, 1.0).to_json())
    rows.write_text("0.5,0.5\n")
    for output in (protocol, rows):
        invoke("encode", protocol, rows, "--output", output, "-y", fails=InvalidParameterError)
    assert rows.read_text() == "0.5,0.5\n"
    rows.write_bytes(b"\xff\xfe0.5,0.5\n")
    invoke("encode", protocol, rows, "--output", tmp_path / "reports", "-y", fails=InvalidDataError)
