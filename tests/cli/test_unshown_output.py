"""A result that cannot be printed: after a charge the command ends well, and says which entry paid for which file."""

import contextlib
import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, gate, load_release
from eigenveil.cli import main
from helpers import in_child
from made_rounds import drafted, joined, needs_cryptography

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning"),
]
ROWS = np.random.default_rng(4).normal(size=(300, 3))
FULL = "/dev/full"


def opened(kind, number, folder):
    """Make a standard stream of a kind, as Python finds it when it begins."""
    if kind == "closed":
        with contextlib.suppress(OSError):
            os.close(number)
        return None
    if kind == "full":
        file = os.open(FULL, os.O_WRONLY)
    elif kind in ("unread", "unread and not waiting"):
        reading, file = os.pipe()
        os.close(reading)
        os.set_blocking(file, kind == "unread")
    else:
        file = os.open(folder / f"stream-{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, number)
    return open(number, "w", encoding="ascii" if kind == "ascii" else "utf-8", closefd=False)


def run(folder, *words, stdout="file", stderr="file"):
    """Run the command line in a child with such streams; return its exit code, and what it wrote to stderr."""
    if "full" in (stdout, stderr) and not (os.path.exists(FULL) and stat.S_ISCHR(os.stat(FULL).st_mode)):
        pytest.skip(f"needs {FULL}")

    def command():
        os.chdir(folder)
        sys.argv = ["eigenveil", *map(str, words)]
        sys.stdout, sys.stderr = opened(stdout, 1, folder), opened(stderr, 2, folder)
        try:
            main()
        except SystemExit as end:
            return end.code or 0
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # as Python does at its end
        return 0

    code = in_child(command)
    said = folder / "stream-2"
    return code, said.read_text() if said.exists() else ""


FIT = ("--epsilon", 0.5, "--norm-bound", 3, "--ledger", "study.ledger", "--yes", "-o", "out.npz")
SPENDING = {
    "pca": ("pca", "t.csv", "-k", 2, *FIT),
    "ridge": ("ridge", "t.csv", "--target", "größe", *FIT, "--json"),
    "scores": ("scores", "r.npz", "t.csv", "--epsilon", 0.5, "--ledger", "study.ledger", "--yes", "-o", "out.npz"),
}
BROKEN = ["closed", "full", "unread", "unread and not waiting"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    np.savetxt(folder / "t.csv", ROWS, delimiter=",", header="größe,b,c", comments="", encoding="utf-8")
    PrivatePCA(2, epsilon=5.0, norm_bound=3.0).fit(str(folder / "t.csv")).release_.save(folder / "r.npz")
    PrivateCovariance(epsilon=5.0, norm_bound=3.0).fit(ROWS)  # what is loaded once, is loaded before the children
    return folder


@pytest.fixture
def study(files, tmp_path):
    for name in ("t.csv", "r.npz"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    return PrivacyLedger.create(tmp_path / "study.ledger", epsilon=1.0, data_set="study")


@pytest.mark.parametrize(
    ("command", "stdout"), [*(("pca", stdout) for stdout in BROKEN), ("ridge", "full"), ("scores", "unread")]
)
def test_a_command_that_has_paid_ends_well_and_says_where_its_result_is(study, command, stdout):
    folder = study.path.parent
    code, said = run(folder, *SPENDING[command], stdout=stdout)
    assert code == 0
    assert len(study.entries()) == 1
    assert (folder / "out.npz").exists()
    assert "entry 1 of the ledger study.ledger, is complete in out.npz." in said
    assert "unexpected" not in said


@pytest.mark.parametrize("stderr", BROKEN)
def test_nor_does_it_matter_what_became_of_stderr(study, stderr):
    folder = study.path.parent
    assert run(folder, *SPENDING["pca"], stdout="full", stderr=stderr)[0] == 0
    assert load_release(folder / "out.npz").origin.ledger_entry == 1  # whole, though streams had left their numbers


def test_letters_that_an_encoding_lacks_are_escapes(study):
    folder = study.path.parent
    code, said = run(folder, *SPENDING["pca"], stdout="ascii", stderr="ascii")
    assert (code, "is complete in" in said) == (0, False)
    assert (folder / "stream-1").read_bytes().isascii()
    assert len(study.entries()) == 1


def test_a_contribution_ends_well(tmp_path):
    needs_cryptography()
    agreed, keys = joined(drafted(2), tmp_path)
    agreed.save(tmp_path / "round.json")
    site = agreed.sites[0]
    ledger = PrivacyLedger.create(tmp_path / "site.ledger", epsilon=5.0, data_set="site")
    names = agreed.terms.schema.feature_names
    table = np.full((20, len(names)), 0.5)
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header=",".join(names), comments="")
    words = ("federation", "contribute", "round.json", "t.csv", "--key", keys[site], "--yes", "-o", "out")
    words += ("--fingerprint", agreed.fingerprint, "--ledger", "site.ledger")
    assert run(tmp_path, *words, stdout="closed", stderr="full")[0] == 0
    assert len(ledger.entries()) == 1
    assert (tmp_path / "out").exists()


def fails(*_, **__):
    raise RuntimeError("a cell")


def test_what_goes_wrong_after_the_file_names_entry_and_file(study, monkeypatch):
    monkeypatch.setattr("eigenveil.cli.fitting.print_release", fails)
    code, said = run(study.path.parent, *SPENDING["pca"])
    assert code == 1
    assert "entry 1 of the ledger study.ledger, is complete in out.npz." in said
    assert "a cell" not in said


def test_a_draw_that_fails_names_the_entry_in_every_command(study, monkeypatch):
    monkeypatch.setattr("eigenveil.releases.score_map.ScoreMap.save", fails)
    code, said = run(study.path.parent, *SPENDING["scores"])
    assert code == 1
    assert "entry 1 of the ledger study.ledger is spent, and no release was written." in said


def test_a_signal_after_the_spend_needs_no_stderr(study, monkeypatch):
    honest = gate.draw

    def signalled(*words, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return honest(*words, **options)

    monkeypatch.setattr(gate, "draw", signalled)
    folder = study.path.parent
    assert run(folder, *SPENDING["pca"], stdout="closed", stderr="closed")[0] == 130
    assert load_release(folder / "out.npz").origin.ledger_entry == 1


@pytest.mark.parametrize(("stdout", "told"), [("closed", "closed"), ("full", "No space left"), ("unread", None)])
def test_a_command_that_costs_nothing_fails_where_its_result_is_lost(study, stdout, told):
    code, said = run(study.path.parent, "show", "r.npz", stdout=stdout)
    assert code == 1
    assert (told in said) if told else said == ""


@pytest.mark.parametrize("stdout", ["full", "unread"])
def test_reports_that_cannot_be_written_end_the_encoding(tmp_path, stdout):
    assert run(tmp_path, "local", "params", "--features", 2, "--epsilon", 1, "-o", "p.json", "--quiet")[0] == 0
    (tmp_path / "rows.csv").write_text("1,0\n" * 5000)
    code, said = run(tmp_path, "local", "encode", "p.json", "rows.csv", "--yes", stdout=stdout)
    assert code == 1
    assert "reports already written stay spent" in said
    code, _ = run(tmp_path, "local", "encode", "p.json", "rows.csv", "--yes")
    assert (code, (tmp_path / "stream-1").read_bytes().count(b"\n")) == (0, 5000)


def test_a_whole_process_ends_well(study):
    # Python's own end flushes what is left, and would tell by another exit code.
    words = " ".join(map(str, SPENDING["pca"]))
    command = f"exec {sys.executable} -m eigenveil.cli {words} >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", command], cwd=study.path.parent, capture_output=True).returncode == 0
    assert len(study.entries()) == 1
