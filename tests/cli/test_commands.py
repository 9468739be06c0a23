"""The command line as a whole: errors, exit codes, Ctrl-C, completion, the demo."""

import json
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivacyLedger, PrivatePCA, __version__, load_release
from eigenveil.cli import app, local, main, messages
from eigenveil.cli.demo import COMPONENTS, EPSILON, tumours, without_privacy
from eigenveil.errors import InvalidParameterError


def invoke(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_version():
    assert invoke("--version").output.strip() == f"eigenveil {__version__}"


def test_help_waits_for_nothing_slow():
    code = "import eigenveil.cli, sys; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"sklearn", "scipy", "numpy", "pyarrow", "narwhals", "matplotlib"}


@pytest.mark.usefixtures("noise_that_repeats")
def test_demo_goes_from_nothing_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = invoke("demo").output
    shown = " ".join(output.split())
    assert str(load_release("eigenveil-demo/tumours.npz").guarantee) in shown
    columns = "Components Private estimate ± 95 % True value scikit-learn (not private)"
    for words in ("569 tumours", columns, "Loadings, private estimate ± 95 %", "these data are public"):
        assert words in shown
    assert max(len(line) for line in output.splitlines() if not line.startswith("  eigenveil ")) <= 80
    release = load_release("eigenveil-demo/tumours.npz")
    assert release.guarantee.epsilon == 2.0
    assert release.guarantee.is_private
    assert release.feature_names[0] == "radius"
    assert "<html" in (tmp_path / "eigenveil-demo/tumours.html").read_text(encoding="utf-8")
    # What it says to try next works as it stands.
    commands = [line.strip() for line in output.splitlines() if line.startswith("  eigenveil ")]
    assert len(commands) == 4
    for command in commands:
        invoke(*shlex.split(command)[1:])
    assert PrivacyLedger("eigenveil-demo/study.ledger").spent == (2.0, 0.0)


@pytest.mark.usefixtures("noise_that_repeats")
def test_demo_for_machines(tmp_path):
    result = invoke("demo", "--json", "--output", tmp_path / "deep" / "folder")
    told = json.loads(result.stdout)
    assert load_release(told["release"]).components.shape == (2, 10)
    truth = told["captured_variance"]
    assert truth["not_private"] == pytest.approx([0.548, 0.800], abs=5e-4)
    assert all(0 < held <= best for held, best in zip(truth["private"], truth["not_private"], strict=True))
    refused_folder = tmp_path / "nothing"
    assert isinstance(invoke("demo", "-k", 11, "--output", refused_folder, code=1).exception, InvalidParameterError)
    assert not list(refused_folder.iterdir())


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
def test_what_the_demo_shows_is_no_luck():
    """What docs/reference/command_line.md says of many releases, by fresh noise; the least of 1,000 captured 0.775."""
    names, rows = tumours()
    held, above = [], []
    for _ in range(200):
        pca = PrivatePCA(COMPONENTS, epsilon=EPSILON, standardize=True).fit(rows)
        held.append(without_privacy(rows, pca.components_)["held"][-1])
        above.append(pca.above_noise_.all())
    assert len(names) == 10
    assert np.mean(above) >= 0.98  # a true rate of 0.999 fails this with probability 3e-6
    assert np.mean(held) == pytest.approx(0.793, abs=0.004)
    assert np.quantile(held, 0.05) > 0.775
    # The control: at this epsilon a release is noise, and rises above it in 5 of 100 at most.
    controls = [PrivatePCA(COMPONENTS, epsilon=0.02, standardize=True).fit(rows) for _ in range(20)]
    assert np.mean([control.above_noise_.all() for control in controls]) < 0.5


def run_main(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["eigenveil", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr()


def test_debug_shows_the_traceback(monkeypatch, capsys):
    words = ("pca", "nowhere.csv", "-k", 1, "--epsilon", 1)
    code, printed = run_main(monkeypatch, capsys, *words)
    assert (code, printed.err) == (1, "eigenveil: There is no file nowhere.csv; check the path.\n")
    code, printed = run_main(monkeypatch, capsys, "--debug", *words)
    assert code == 1
    assert "Traceback" in printed.err


def test_the_text_of_an_unexpected_error_is_not_shown(monkeypatch, capsys):
    def fail(**_):
        raise RuntimeError("a private value: 4711")

    monkeypatch.setattr(messages.Debug, "on", False)
    with pytest.raises(SystemExit) as end:
        messages.run(fail)
    printed = capsys.readouterr().err
    assert end.value.code == 1
    assert "RuntimeError" in printed
    assert "4711" not in printed


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("pca",),
        ("unknown",),
        ("pca", "a.csv", "-k", 1, "--epsilon", 1, "--adjacency", "swap"),
        ("pca", "a.csv", "-k", 1, "--epsilon", 1, "--rows", "triples"),
    ],
)
def test_wrong_usage_has_its_own_code(words, monkeypatch, capsys):
    assert run_main(monkeypatch, capsys, *words)[0] == 2


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,0\n0,1\n" * 50)
    return path


def test_ctrl_c_while_reading_leaves_nothing(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=1.0, data_set="study")
    words = ("pca", "-", "-k", 1, "--epsilon", 1, "--ledger", ledger.path, "--output", tmp_path / "out.npz")
    # The handler is set by hand: a shell may have started the tests with SIGINT ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code += "; from eigenveil.cli import main; main()"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code, *map(str, words)], text=True, **pipes) as process:
        process.stdin.write("a,b\n" + "1,2\n" * 50_000)  # more than a pipe holds, so some has been read
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    assert printed[1].count("\n") == 1
    assert printed[1].startswith("eigenveil: interrupted;")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.ledger"]
    assert ledger.spent == (0.0, 0.0)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("eigenveil pca --mech", ["--mechanism"]),
        ("eigenveil cov", ["covariance"]),
        ("eigenveil pca t.csv --adjacency add", ["add_or_remove_one"]),
    ],
)
def test_completion(words, offered):
    environment = {"_EIGENVEIL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    result = CliRunner().invoke(app, [], env=environment, prog_name="eigenveil")
    assert result.output.split() == offered


def test_json_has_no_infinity(capsys):
    messages.print_json({"a": [1.0, float("inf")], "b": (float("nan"),)})
    assert json.loads(capsys.readouterr().out) == {"a": [1.0, None], "b": [None]}


def test_encoding_rows_of_a_file_asks_too(tmp_path, table, monkeypatch):
    protocol, reports = tmp_path / "protocol.json", tmp_path / "reports.txt"
    invoke("local", "params", "--features", 2, "--epsilon", 1, "--output", protocol, "--quiet")
    monkeypatch.setattr(local, "somebody_answers", lambda: True)
    words = [str(word) for word in ("local", "encode", protocol, table, "--header", "--output", reports)]
    result = CliRunner().invoke(app, words, input="n\n")
    assert result.exit_code == 1
    assert "1-DP (pure)" in result.stderr
    assert not reports.exists()
    assert CliRunner().invoke(app, [*words, "--yes"]).exit_code == 0
    assert len(reports.read_bytes().splitlines()) == 100
    told = invoke("local", "aggregate", reports, "--protocol", protocol, "--release", tmp_path / "r.npz", "--json")
    assert json.loads(told.stdout)["accepted"] == 100
    assert told.stderr == ""
