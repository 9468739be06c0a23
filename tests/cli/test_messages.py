"""Manners of the command line: choices, nothing overwritten, options in errors and warnings, a bar on a terminal."""

import contextlib
import json
import os
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
import typer

from eigenveil import PrivatePCA, load_release
from eigenveil.cli import app, fitting, options
from eigenveil.cli.messages import in_options
from eigenveil.errors import InvalidParameterError
from eigenveil.estimators.parameters import AUTO
from eigenveil.guarantee import Adjacency
from eigenveil.moments.row_rule import STATISTICS
from helpers import invoked as invoke


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with table.csv: three columns of which one says nearly everything."""
    rng = np.random.default_rng(5)
    table = rng.uniform(-1, 1, (3000, 3)) * [1.0, 0.01, 0.01]
    np.savetxt(tmp_path / "table.csv", table, delimiter=",", header="a,b,c", comments="", fmt="%.4f")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = ("table.csv", "--epsilon", 5, "--norm-bound", 1)


def leaves(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        return {path: command}
    return {key: leaf for name, part in command.commands.items() for key, leaf in leaves(part, (*path, name)).items()}


def test_choices_are_those_of_python():
    assert get_args(options.AdjacencyName) == tuple(adjacency.value for adjacency in Adjacency)
    assert get_args(options.Statistic.__origin__) == (AUTO, *STATISTICS)
    assert PrivatePCA().statistic == options.FitOptions(epsilon=1.0).mechanism == AUTO


@pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
@pytest.mark.parametrize(("k", "found"), [("2", {2}), ("0.9", {1}), ("above-noise", {1, 2, 3})])
def test_components_are_a_number_a_share_or_above_noise(folder, k, found):
    told = json.loads(invoke("pca", *FIT, "-k", k, "--json").stdout)
    assert len(told["components"]) in found  # one of them is above the noise, and one time in twenty one more seems so
    assert load_release("release.npz").components.tolist() == told["components"]
    assert load_release("release.npz").origin.request.n_components == fitting.number_of_components(k)


def test_sparse_pca_finds_few_features(folder):
    told = json.loads(invoke("sparse-pca", *FIT, "-k", 1, "--penalty", 0.05, "--json").stdout)
    assert np.flatnonzero(told["components"][0]).tolist() == [0]
    assert load_release("release.npz").spectrum.sparse.support.tolist() == [0]


WRITERS = {
    ("pca",): ("release.npz", *FIT, "-k", 1),
    ("sparse-pca",): ("release.npz", *FIT, "-k", 1),
    ("covariance",): ("release.npz", *FIT),
    ("ridge",): ("release.npz", *FIT, "--target", "a"),
    ("report",): ("page.html", "there.npz", "-o", "page.html"),
    ("export",): ("there.json", "there.npz"),
    ("sample",): ("synthetic.csv", "there.npz", "-n", 3),
    ("scores",): ("scores.npz", "there.npz", "table.csv", "--epsilon", 1, "--yes"),
    ("schema",): ("table.yaml", "table.csv"),
    ("local", "params"): ("p.json", "--features", 3, "--epsilon", 1, "-o", "p.json"),
    ("local", "encode"): ("reports.txt", "protocol.json", "table.csv", "-o", "reports.txt"),
    ("local", "aggregate"): ("l.npz", "some.txt", "--protocol", "protocol.json", "--release", "l.npz"),
    ("plan",): ("p.png", "--rows", 5, "--features", 2, "-k", 1, "--epsilon", 1, "--repeats", 2, "--plot", "p.png"),
    ("demo",): ("eigenveil-demo/tumours.csv",),
    ("federation", "invite"): ("d.json", "-o", "d.json"),
    ("federation", "join"): ("j.json", "d.json", "--site", "a", "--key", "a.key", "-o", "j.json"),
    ("federation", "close"): ("r.json", "j.json", "-o", "r.json"),
    ("federation", "contribute"): (
        "c.bin", "r.json", "table.csv", "--key", "a.key", "--fingerprint", "0", "-o", "c.bin",
    ),
    ("federation", "combine"): ("f.npz", "r.json", "c.bin", "-o", "f.npz"),
}  # fmt: skip
# Those of federation need a round: tests/cli/test_federation.py runs them.
SLOW = {("plan",), ("demo",), *(path for path in WRITERS if path[0] == "federation")}


def test_every_command_that_writes_a_file_has_force():
    having = {path for path, leaf in leaves().items() if "force" in {one.name for one in leaf.params}}
    writing = {path for path, leaf in leaves().items() if {"output", "plot", "release"} & {
        one.name for one in leaf.params if one.param_type_name == "option"}}  # fmt: skip
    assert having == writing == set(WRITERS)


def test_nothing_is_overwritten_without_force(folder):
    invoke("covariance", *FIT, "--output", "there.npz")
    invoke("local", "params", "--features", 3, "--epsilon", 1, "-o", "protocol.json")
    invoke("local", "encode", "protocol.json", "table.csv", "-o", "some.txt")
    (folder / "eigenveil-demo").mkdir()
    for path, (output, *words) in WRITERS.items():
        file = folder / output
        file.write_bytes(b"mine")
        assert "--force" in invoke(*path, *words, fails=InvalidParameterError)
        assert file.read_bytes() == b"mine"
        if path not in SLOW:
            invoke(*path, *words, "--force")
            assert file.read_bytes() != b"mine"


def test_errors_and_warnings_name_options_that_the_command_has(folder):
    told = invoke("pca", *FIT, "-k", 1, "--bounds", "0:1", "--statistic", "spatial_sign", fails=InvalidParameterError)
    assert "--norm-bound" in told
    assert "norm_bound" not in told
    told = invoke("pca", *FIT, "-k", 2, "--no-center", "--mechanism", "ppca", fails=InvalidParameterError)
    assert "--accept-inexact" in told
    assert "accept_inexact" not in told
    # An argument that the command has no option for stays what it is.
    assert in_options("give norm_bound.", {}) == "give norm_bound."
    words = ("pca", "table.csv", "-k", 1, "--epsilon", 0.5, "--standardize", "--bounds", "-100:100", "--json")
    told = json.loads(invoke(*words).stdout)["warnings"]
    assert any("--statistic kendall" in one for one in told)
    assert not any("statistic='kendall'" in one for one in told)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_fit_on_a_terminal_asks_and_shows_a_bar_for_each_pass(folder):
    primary, secondary = os.openpty()
    os.write(primary, b"y\n")
    command = [sys.executable, "-m", "eigenveil.cli", "pca", *map(str, FIT[:3]), "-k", "1"]
    done = subprocess.run(command, stdin=secondary, stdout=subprocess.PIPE, stderr=secondary, check=True)
    os.close(secondary)
    read = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed, once all of it was read
        while part := os.read(primary, 2**20):
            read += part
    os.close(primary)
    text = read.decode()
    assert b"Private principal components" in done.stdout
    for shown in ("counting rows", "This will be spent:", "Continue? [y/N]", "adding up rows"):
        assert shown in text
    assert b"\x1b" not in done.stdout  # no colour in a pipe
