"""Files made to hurt: whatever they say, they are refused in one sentence, or everything that reads them works."""

import copy
import hashlib
import json
import os
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from eigenveil import PrivatePCA, Schema, load_release
from eigenveil.cli import app
from eigenveil.errors import EigenveilError, InvalidParameterError, ReleaseFileError
from eigenveil.files import parsed_json, read_bounded
from eigenveil.local import LocalProtocol
from eigenveil.releases.compare import compare
from eigenveil.report import render_report
from eigenveil.report.plots import scree
from helpers import assert_one_sentence, refused
from hostile_files import GOLDEN, HOSTILE, members_of, mutated, npy, npy_header, packed


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


USES = {
    "show": lambda path, release: command("show", path),
    "show as JSON": lambda path, release: command("show", path, "--json"),
    "report": lambda path, release: render_report(path),
    "compare": lambda path, release: compare(release, release),
    "ridge": lambda path, release: command("ridge", path, "--target", (release.feature_names or ("0",))[0]),
    "regression": lambda path, release: (release.regression, release.regress(0)),
    "transform": lambda path, release: release.transform(np.ones((2, release.n_features))),
    "inverse_transform": lambda path, release: release.inverse_transform(np.ones((2, len(release.components)))),
    "from_release": lambda path, release: PrivatePCA.from_release(release).transform(np.ones((2, release.n_features))),
    "repr": lambda path, release: (repr(release), release._repr_html_()),
    "matrix": lambda path, release: (release.covariance, release.correlation, release.mean, release.scale),
    "variances": lambda path, release: (release.explained_variance_interval, release.above_noise),
    "intervals": lambda path, release: (release.intervals.covariance(), release.intervals.correlation()),
    "plot": lambda path, release: scree(release),  # without matplotlib one sentence
    "save": lambda path, release: load_release(release.save(path)),
}


def tried(seed, path, uses):
    """Return whether a file loads; a refusal is one sentence, now and in all that follows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise, of numbers that no data have, of names that come twice
        path.write_bytes(mutated(seed))
        try:
            release = load_release(path)
        except EigenveilError as error:
            assert_one_sentence(error)
            return False
        for name in uses:
            try:
                USES[name](path, release)
            except EigenveilError as error:
                assert_one_sentence(error)
            except Exception as error:
                raise AssertionError(f"seed {seed}, {name}") from error
    return True


HOSTILE_RELEASES = "release files made to hurt"


@pytest.mark.parametrize("part", range(5))
def test_no_release_file_ends_in_another_error(part, tmp_path, campaign):
    names = list(USES)
    attempt = lambda seed: tried(seed, tmp_path / "r.npz", [names[seed % len(names)]])  # noqa: E731
    assert not all(campaign(HOSTILE_RELEASES, attempt, range(30 * part, 30 * part + 30)))


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(150))
def test_no_release_file_ends_in_another_error_in_thousands(part, tmp_path, campaign):
    names = list(USES)
    attempt = lambda seed: tried(seed, tmp_path / "r.npz", [names[(seed + step) % 15] for step in (0, 5, 10)])  # noqa: E731
    campaign(HOSTILE_RELEASES, attempt, range(1000 + 100 * part, 1100 + 100 * part))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_control_what_is_packed_again_unchanged_loads(path, tmp_path):
    again = tmp_path / "r.npz"
    again.write_bytes(packed(members_of(path)))
    assert load_release(again).origin == load_release(path).origin


# Sizes are refused before anything of that size is read.

GOOD = GOLDEN[-1]


def bomb(size):
    """Return a small file whose deflated member becomes `size` bytes of zeros."""
    members = members_of(GOOD)
    return packed([*members, ("map.npy", bytes(size))], compression=zipfile.ZIP_DEFLATED)


def peak(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_is_small_on_disk_does_not_become_large_in_memory(tmp_path):
    path, size = tmp_path / "r.npz", 2**26
    path.write_bytes(bomb(size))
    assert path.stat().st_size < size / 100

    def load():
        with refused(ReleaseFileError):
            load_release(path)

    assert peak(load) < size / 4
    assert peak(lambda: zipfile.ZipFile(path).read("map.npy")) > size  # the control


@pytest.mark.parametrize("shape", [(2**40, 2**20), (2**31, 2**31), (0,), (10**30,), (-1,)])
def test_a_shape_is_compared_with_what_is_there(shape, tmp_path):
    members = dict(members_of(GOOD))
    members["matrix.npy"] = npy(np.zeros(2, np.int64), npy_header("<i8", shape))
    (tmp_path / "r.npz").write_bytes(packed(list(members.items())))

    def load():
        with refused(ReleaseFileError):
            load_release(tmp_path / "r.npz")

    assert peak(load) < 2**23


def test_the_limit_of_size_can_be_set(tmp_path):
    size = GOOD.stat().st_size
    assert load_release(GOOD, max_bytes=size).n_features
    with refused(ReleaseFileError):
        load_release(GOOD, max_bytes=size - 1)
    with refused(InvalidParameterError):
        load_release(GOOD, max_bytes="1 GB")


# Names that are no regular files.

READERS = {
    "release": load_release,
    "protocol": LocalProtocol.load,
    "schema": Schema.load,
    "report": render_report,
    "spectrum": lambda path: command(
        "plan", "--rows", "1000", "--features", "3", "-k", "1", "--epsilon", "1", "--spectrum", path
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_pipes_devices_and_folders_are_refused_without_waiting(reader, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero", tmp_path, tmp_path / "absent"):
        with refused(EigenveilError) as refusal:
            READERS[reader](path)
        assert "cannot be read" in str(refusal.value)
    with refused(EigenveilError):
        READERS[reader]("a\0b")


def test_large_small_files_are_refused_before_they_are_read(tmp_path):
    sparse = tmp_path / "sparse"
    with open(sparse, "wb") as file:
        file.truncate(2**40)
    for reader in READERS.values():
        with refused(EigenveilError):
            reader(sparse)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    found = os.stat_result((*os.stat(path)[:6], 10, *os.stat(path)[7:]))
    monkeypatch.setattr(os, "fstat", lambda number: found)
    with refused(InvalidParameterError):
        read_bounded(path, "The file", InvalidParameterError, 50)


# JSON and YAML.


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "nul", "NaN", "[Infinity]", "[-Infinity]", "1e999", '{"a": 1, "a": 2}', '"\\ud800"', "9" * 5000),
        *("[" * 100_000, "[" * 70 + "]" * 70, '{"a":' * 70 + "1" + "}" * 70, b"\xff", '{"\\udfff": 1}'),
    ],
)
def test_json_that_cannot_be_meant_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 -- whichever reader noticed it first
        parsed_json(text)


def protocol_with(change):
    """Return the text of a protocol that was changed, with the fingerprint that belongs to it."""
    content = json.loads(
        LocalProtocol(3, 1.0, delta=1e-6, mechanism="gaussian", shift=(0, 0, 0), scale=(1, 1, 1)).to_json()
    )
    content.pop("fingerprint")
    change(content)
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    fingerprint = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({**content, "fingerprint": fingerprint})


def test_no_protocol_ends_in_another_error():
    assert LocalProtocol.from_json(protocol_with(lambda content: None)).n_features == 3
    names = list(json.loads(protocol_with(lambda content: None)))
    read = 0
    for name in (*names, "unknown"):
        for value in HOSTILE:
            try:
                LocalProtocol.from_json(
                    protocol_with(lambda content, n=name, v=value: content.update({n: v}))
                ).guarantee()
                read += 1
            except EigenveilError as error:
                assert_one_sentence(error)
    assert 0 < read < 100


SCHEMA = {"version": 1, "declared_by": "x", "declared_on": "2024-01-01", "columns": {}}
COLUMN = {"kind": "number", "range": [0, 1], "missing": "middle", "scale": None, "categories": None, "unit": None}


def test_no_schema_ends_in_another_error(tmp_path):
    import yaml

    path = tmp_path / "schema.yaml"
    for kind in ("number", "category", "boolean", "date", "ignored", "privacy_unit"):
        for name in (*COLUMN, "version", "table", "period", "declared_by", "declared_on", "columns", "unknown"):
            for value in HOSTILE:
                content = copy.deepcopy(SCHEMA)
                column = {"kind": kind}
                (column if name in COLUMN else content)[name] = value
                content["columns"] = content["columns"] or {"a": column}
                try:
                    made = Schema.from_dict(content)
                    made.to_yaml()
                except EigenveilError as error:
                    assert_one_sentence(error)
    for value in HOSTILE[::3]:
        try:
            path.write_text(yaml.safe_dump({"version": 1, "columns": {"a": value}}), encoding="utf-8", errors="replace")
            Schema.load(path)
        except EigenveilError as error:
            assert_one_sentence(error)


ALIASES = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)


@pytest.mark.parametrize(
    "text",
    [
        ALIASES,
        "[" * 10_000,
        "{a: " * 10_000,
        "- " * 10_000,
        "? " * 5000,
        "a: !!python/object:os.system x",
        "\x00",
        "%" * 100,
        "a: |\n" + " " * 10**5,
    ],
)
def test_yaml_made_to_hurt_is_one_sentence(text, tmp_path):
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    with refused(InvalidParameterError):
        Schema.load(path)
