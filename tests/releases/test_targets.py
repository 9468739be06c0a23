"""What is saved replaces regular files only; a path is a path; a release survives pickle and skops."""

import os
import pickle
import stat

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivateCovariance, PrivatePCA, load_release, load_score_map, score_map
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.files import read_bounded
from eigenveil.local import LocalProtocol
from eigenveil.report import write_registry, write_report
from eigenveil.tables.schema import Column, Schema
from helpers import command_result, refused
from made_rounds import drafted, joined, needs_cryptography, site_rows

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name"),
    pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning"),
]
ROWS = np.random.default_rng(5).normal(size=(200, 2))


@pytest.fixture(scope="module")
def release():
    return PrivatePCA(2, epsilon=5.0, norm_bound=3.0).fit(ROWS).release_


def device(path):
    """Make a node of the null device, in a folder of the test."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices, and not in every container")


def dangling(path):
    path.symlink_to(path.with_name("nowhere"))


def link_to_a_device(path):
    path.symlink_to(os.devnull)


def link_to_a_file(path):
    path.with_name("target").write_text("kept")
    path.symlink_to(path.with_name("target"))


KINDS = [os.mkfifo, device, dangling, link_to_a_device, link_to_a_file, os.mkdir]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def target(tmp_path, request):
    """The name of something that is no regular file; afterwards it is still there, and nothing else is."""
    path = tmp_path / "target-of-a-save.npz"
    request.param(path)
    before, names = os.lstat(path), set(os.listdir(tmp_path))
    yield path
    after = os.lstat(path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert {name for name in os.listdir(tmp_path) if name.endswith(".part")} == set()
    assert names <= set(os.listdir(tmp_path))


WRITERS = {
    "a release": lambda release, path: release.save(path),
    "a score map": lambda release, path: score_map(ROWS, release, epsilon=1.0).save(path),
    "a report": lambda release, path: write_report(release, path),
    "a record": lambda release, path: write_registry(release, path),
    "a schema": lambda release, path: Schema((Column("a", "number"),)).save(path, overwrite=True),
    "a protocol": lambda release, path: LocalProtocol(2, 1.0).save(path),
    "a round": lambda release, path: needs_cryptography() or drafted(2).save(path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_but_a_regular_file_is_replaced(release, target, writer):
    with refused(EigenveilError):
        WRITERS[writer](release, target)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_regular_file_is_replaced(release, tmp_path, writer):
    path = tmp_path / "old"
    path.write_text("old")
    WRITERS[writer](release, path)
    assert path.read_bytes() != b"old"


def spending(target, ledger):
    """The commands that spend, with this target."""
    paid = ("--ledger", ledger.path, "--yes", "--force")
    fit = ("--epsilon", 0.5, "--norm-bound", 3, *paid, "-o", target)
    folder = ledger.path.parent
    return {
        "pca": ("pca", folder / "t.csv", "-k", 1, *fit),
        "covariance": ("covariance", folder / "t.csv", *fit),
        "scores": ("scores", folder / "r.npz", folder / "t.csv", "--epsilon", 0.5, *paid, "-o", target),
        "plot": ("scores", folder / "r.npz", folder / "t.csv", "--epsilon", 0.5, *paid, "-o", folder / "s.npz",
                 "--plot", target),
    }  # fmt: skip


@pytest.mark.parametrize("command", ["pca", "covariance", "scores", "plot"])
def test_commands_refuse_it_before_they_spend(release, target, tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("study")
    np.savetxt(folder / "t.csv", ROWS, delimiter=",", header="a,b", comments="")
    release.save(folder / "r.npz")
    ledger = PrivacyLedger.create(folder / "study.ledger", epsilon=2.0, data_set="study")
    result = command_result(*spending(target, ledger)[command])
    assert isinstance(result.exception, InvalidParameterError)
    assert ledger.entries() == []


def test_a_contribution_refuses_it_before_it_spends(target, tmp_path_factory):
    needs_cryptography()
    from eigenveil.federation import contribute

    folder = tmp_path_factory.mktemp("round")
    agreed, keys = joined(drafted(2), folder)
    ledger = PrivacyLedger.create(folder / "ledger", epsilon=5.0, data_set="site")
    with refused(InvalidParameterError):
        contribute(agreed, keys[agreed.sites[0]], site_rows(2)[0], target, ledger=ledger, overwrite=True)
    assert ledger.entries() == []
    assert keys[agreed.sites[0]].exists()


def test_no_output_is_written_over_the_ledger(tmp_path):
    np.savetxt(tmp_path / "t.csv", ROWS, delimiter=",", header="a,b", comments="")
    ledger = PrivacyLedger.create(tmp_path / "study.ledger", epsilon=2.0, data_set="study")
    for target in (ledger.path, *ledger.path.iterdir()):
        result = command_result(*spending(target, ledger)["pca"])
        assert isinstance(result.exception, InvalidParameterError)
    assert ledger.entries() == []


@pytest.mark.parametrize("value", [5, None, 2.5, ["r.npz"], b"r.npz", "a\0b"])
@pytest.mark.parametrize(
    "read", [load_release, load_score_map, Schema.load, LocalProtocol.load, PrivacyLedger, WRITERS["a release"]]
)
def test_a_path_is_a_path(release, value, read):
    words = (release, value) if read is WRITERS["a release"] else (value,)
    with refused(InvalidParameterError):
        read(*words)


def test_too_little_memory_is_not_called_damage(release, tmp_path, monkeypatch):
    path = release.save(tmp_path / "r.npz")

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def fileno(self):
            return self.file.fileno()

        def read(self, size):
            raise MemoryError

    monkeypatch.setattr("eigenveil.files.open_regular", lambda path: Full(open(path, "rb")))  # noqa: SIM115
    with refused(EigenveilError) as info:
        load_release(path)
    assert "not enough memory" in str(info.value)
    with refused(InvalidParameterError):
        read_bounded(path, "The file", InvalidParameterError)


# Copies.


def plain(value):
    """Whether a state is made of plain values only."""
    if isinstance(value, dict):
        return type(value) is dict and all(map(plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.ndarray)


@pytest.mark.parametrize("estimator", [PrivatePCA(2), PrivateCovariance()])
def test_the_state_of_a_release_is_plain_and_pickles(estimator):
    release = estimator.set_params(epsilon=5.0, norm_bound=3.0).fit(ROWS).release_
    assert release.components.shape == (2, 2)  # computed, and not part of the state
    assert plain(release.__getstate__())
    assert plain(release.origin.__getstate__())
    again = pickle.loads(pickle.dumps(release))
    assert again.origin == release.origin
    assert again.guarantee == release.guarantee
    assert np.array_equal(again.components, release.components)
    assert not again.integers["matrix"].flags.writeable


def test_skops_keeps_a_release(release, tmp_path):
    io = pytest.importorskip("skops.io")
    file = tmp_path / "r.skops"
    io.dump(release, file)
    again = io.load(file, trusted=io.get_untrusted_types(file=file))
    assert again.origin == release.origin
    assert np.array_equal(again.components, release.components)
