"""Release files: written whole, read back exactly, refused when anything changed."""

import io
import json
import math
import os
import pickle
import warnings
import zipfile
from functools import cache

import numpy as np
import pytest

from eigenveil import Adjacency, Guarantee, PrivateCovariance, PrivatePCA, Release, load_release
from eigenveil.errors import EigenveilError, InvalidParameterError, ReleaseFileError, ReleaseFileWarning
from eigenveil.guarantee import Numerics
from eigenveil.moments.row_rule import RowRule
from eigenveil.releases.file import release_bytes
from eigenveil.releases.origin import Origin

PARAMETERS = {"epsilon": 1.0, "n_features": 4, "n_components": 2, "adjacency": "add_or_remove_one"}


@pytest.fixture
def release():
    guarantee = Guarantee(
        math.inf,
        1e-6,
        Adjacency.ADD_OR_REMOVE_ONE,
        Numerics.EMPIRICAL,
        rho=0.25,
        assumptions=("A assumption.",),
        reproducible=True,
    )
    half = np.random.default_rng(0).integers(-(2**60), 2**60, size=(4, 4))
    integers = {"matrix": half + half.T, "count": np.array(2**53 + 1)}
    origin = Origin("matrix_laplace", PARAMETERS, RowRule(2.0), feature_names=("a", "b", "c", "d"))
    return Release(integers, {"matrix": RowRule(2.0).unit_squared, "count": 1.0}, guarantee, origin)


def test_round_trip_is_exact_to_the_last_bit(release, tmp_path):
    again = load_release(release.save(tmp_path / "r.npz"))
    assert again.guarantee == release.guarantee
    assert again.origin == release.origin
    assert again.feature_names == ("a", "b", "c", "d")
    assert again.n_rows == 2**53 + 1
    assert dict(again.unit) == dict(release.unit)
    assert set(again.integers) == set(release.integers)
    for name, value in release.integers.items():
        assert again.integers[name].dtype == np.int64
        assert np.array_equal(again.integers[name], value)


def test_the_same_release_gives_the_same_bytes(release, tmp_path):
    first, second = (release.save(tmp_path / name).read_bytes() for name in ("one.npz", "two.npz"))
    assert first == second


def test_any_numpy_opens_it_without_pickle(release, tmp_path):
    with np.load(release.save(tmp_path / "r.npz"), allow_pickle=False) as archive:
        assert np.array_equal(archive["matrix"], release.integers["matrix"])
        assert json.loads(archive["release.json"])["format"] == 2


def test_a_pickle_is_the_release_and_nothing_that_was_computed_from_it(release):
    again = pickle.loads(pickle.dumps(release))
    assert again.origin == release.origin
    assert np.array_equal(again.integers["matrix"], release.integers["matrix"])
    kept = {name for name, value in vars(again).items() if value is not None}
    assert kept == {"integers", "unit", "guarantee", "origin"}


@pytest.mark.heavy
def test_every_changed_byte_is_refused(release, tmp_path):
    path = release.save(tmp_path / "r.npz")
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << (position % 8)
        path.write_bytes(changed)
        with pytest.raises(ReleaseFileError):
            load_release(path)


def test_every_truncation_is_refused(release, tmp_path):
    path = release.save(tmp_path / "r.npz")
    content = path.read_bytes()
    for length in [*range(0, len(content), 7), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ReleaseFileError):
            load_release(path)


def test_appended_bytes_are_refused(release, tmp_path):
    path = release.save(tmp_path / "r.npz")
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ReleaseFileError):
        load_release(path)


def rewritten(release, change) -> bytes:
    """Return the file of a release whose header was changed and whose digest is right."""
    from eigenveil.releases.file import _COMMENT_LENGTH, _comment_for

    content = io.BytesIO(release_bytes(release.integers, release.unit, release.guarantee, release.origin))
    buffer = io.BytesIO()
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(buffer, "w") as archive:
        for name in old.namelist():
            text = old.read(name)
            if name == "release.json":
                header = json.loads(text)
                change(header)
                text = json.dumps(header).encode()
            archive.writestr(name, text)
        archive.comment = b" " * _COMMENT_LENGTH
    body = buffer.getvalue()[:-_COMMENT_LENGTH]
    return body + _comment_for(body)


def test_control_a_header_rewritten_without_a_change_is_read(release, tmp_path):
    path = tmp_path / "r.npz"
    path.write_bytes(rewritten(release, lambda header: None))
    assert load_release(path).origin == release.origin


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda header: header.update(format=3), "format 3"),
        (lambda header: header.pop("guarantee"), "follow the format"),
        (lambda header: header.pop("unit"), "follow the format"),
        (lambda header: header["unit"].pop("matrix"), "follow the format"),
        (lambda header: header["guarantee"].update(epsilon="-1"), "follow the format"),
        (lambda header: header["guarantee"].update(adjacency="sideways"), "follow the format"),
        (lambda header: header["origin"].update(row_rule={"norm": -1.0}), "follow the format"),
        (lambda header: header["origin"].update(request={"kind": "wish"}), "follow the format"),
        (lambda header: header["origin"].update(request=7), "follow the format"),
        (lambda header: header.update(format=1), "format 1"),
    ],
)
def test_a_foreign_header_is_refused(release, tmp_path, change, says):
    path = tmp_path / "r.npz"
    path.write_bytes(rewritten(release, change))
    with pytest.raises(ReleaseFileError, match=says):
        load_release(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda origin: origin.update(later="A SECRET"), "1 field of a later version"),
        (lambda origin: origin["request"].update(later=1), "1 field of a later version"),
        (lambda origin: origin["row_rule"].update(later=[1]), "1 field of a later version"),
        (lambda origin: (origin.update(a={}, b=None), origin["request"].update(c=1)), "3 fields of a later version"),
    ],
)
def test_fields_of_a_later_version_are_ignored_with_a_sentence(release, tmp_path, change, says):
    path = tmp_path / "r.npz"
    path.write_bytes(rewritten(release, lambda header: change(header["origin"])))
    with pytest.warns(ReleaseFileWarning, match=says) as heard:
        again = load_release(path)
    assert [one.filename for one in heard] == [__file__]
    assert "SECRET" not in str(heard[0].message)
    assert again.origin == release.origin
    with warnings.catch_warnings():  # what is written again is all known
        warnings.simplefilter("error")
        load_release(again.save(tmp_path / "again.npz"))


def test_missing_files_and_folders_are_one_sentence(release, tmp_path):
    with pytest.raises(ReleaseFileError, match="cannot be read"):
        load_release(tmp_path / "absent.npz")
    with pytest.raises(ReleaseFileError, match="cannot be written"):
        release.save(tmp_path / "no" / "folder.npz")


def test_a_failed_write_leaves_the_old_file_and_no_draft(release, tmp_path, monkeypatch):
    path = release.save(tmp_path / "r.npz")
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ReleaseFileError, match="No space"):
        release.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.npz"]


def test_a_release_holds_no_memory_in_which_more_stands_than_what_leaves(release):
    whole = np.arange(16)
    part, all_of_it = (
        Release({"matrix": cut}, {"matrix": 1.0}, release.guarantee, release.origin)
        for cut in (whole[:4].reshape(2, 2), whole.reshape(4, 4))
    )
    assert not np.shares_memory(part.integers["matrix"], whole)
    assert np.shares_memory(all_of_it.integers["matrix"], whole)  # a wide matrix is not copied for nothing


def test_a_release_cannot_be_changed(release):
    with pytest.raises(ValueError, match="read-only"):
        release.integers["matrix"][0, 0] = 0
    with pytest.raises(TypeError):
        release.integers["more"] = np.eye(2)
    with pytest.raises(TypeError):
        release.unit["matrix"] = 2.0
    with pytest.raises(TypeError):
        release.origin.parameters["epsilon"] = 2.0
    with pytest.raises(AttributeError):
        release.guarantee = Guarantee(0.0)


def test_an_origin_must_be_plain_json(release, tmp_path):
    odd = Release(release.integers, release.unit, Guarantee(1.0), Origin("x", {"bad": object()}, RowRule(1.0)))
    with pytest.raises(InvalidParameterError, match="JSON"):
        odd.save(tmp_path / "r.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_seeded_release_says_that_it_is_not_private(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    seeded = PrivatePCA(1, epsilon=50.0, norm_bound=2.0, random_state=0).fit(X).release_
    again = load_release(seeded.save(tmp_path / "seeded.npz"))
    assert again.guarantee.reproducible
    assert not again.guarantee.is_private
    assert str(again.guarantee).startswith("NOT PRIVATE")
    assert PrivatePCA(1, epsilon=50.0, norm_bound=2.0).fit(X).guarantee_.is_private


@cache
def _of_three_features():
    rows = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 0.5, 0.2]
    return PrivateCovariance(epsilon=5.0, norm_bound=3.0, random_state=0).fit(rows).release_


ODD_ROWS = [5, "private cell", None, object(), [1, 2, 3], [[1, 2]], [["private cell", "b", "c"]], {"a": 1}, b"x", True]
ODD_ROWS += [np.ones((2, 5)), np.ones((2, 3, 1)), [[1, 2, 3j]], np.array([[1, 2, "private cell"]], dtype=object)]


@pytest.mark.parametrize("use", ["transform", "inverse_transform", "whiten", "mahalanobis", "compare", "regress"])
@pytest.mark.parametrize("odd", ODD_ROWS, ids=range(len(ODD_ROWS)))
def test_what_is_no_table_is_refused_in_plain_words(use, odd):
    with pytest.raises(EigenveilError) as told:
        getattr(_of_three_features(), use)(odd)
    assert str(told.value).count(".") <= 2  # what is wrong, and what to do
    assert use == "regress" or "private cell" not in str(told.value)  # which is given the name of a feature
    assert told.value.__context__ is None
