"""The command line: what it prints, and one sentence for an error."""

import subprocess
import sys

from typer.testing import CliRunner

from eigenveil import __version__, load_release
from eigenveil.cli import app


def test_demo_tells_what_was_released_under_which_guarantee(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path / "demo.npz")])
    assert result.exit_code == 0
    for words in ("1797 rows of 64 pixels", "matrix_laplace", "1-differentially private", "Variance captured"):
        assert words in result.output
    release = load_release(tmp_path / "demo.npz")
    assert release.guarantee.epsilon == 1.0
    assert release.guarantee.is_private


def test_version():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"eigenveil {__version__}"


def test_an_error_is_one_sentence_on_stderr():
    command = [sys.executable, "-m", "eigenveil.cli", "demo", "--epsilon", "-1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "eigenveil: epsilon must be a finite number above 0, got -1.0.\n"
