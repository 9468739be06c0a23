"""Release files: written whole, read back exactly, refused when anything changed."""

import json
import math
import os
import zipfile

import numpy as np
import pytest

from eigenveil import Guarantee, PrivatePCA, Relation, Release, load_release
from eigenveil.errors import InvalidParameterError, ReleaseFileError
from eigenveil.guarantee import Numerics


@pytest.fixture
def release():
    guarantee = Guarantee(
        math.inf,
        1e-6,
        Relation.ADD_REMOVE,
        Numerics.EMPIRICAL,
        rho=0.25,
        caveats=("A caveat.",),
        reproducible=True,
    )
    rng = np.random.default_rng(0)
    arrays = {"covariance": rng.normal(size=(4, 4)), "components": rng.normal(size=(2, 4))}
    return Release(arrays, guarantee, {"mechanism": "test", "feature_names": ["a", "b", "c", "d"], "n": 3})


def test_round_trip_is_exact(release, tmp_path):
    again = load_release(release.save(tmp_path / "r.npz"))
    assert again.guarantee == release.guarantee
    assert dict(again.provenance) == dict(release.provenance)
    assert again.feature_names == ("a", "b", "c", "d")
    for name, value in release.arrays.items():
        assert np.array_equal(again.arrays[name], value)


def test_the_same_release_gives_the_same_bytes(release, tmp_path):
    first, second = (release.save(tmp_path / name).read_bytes() for name in ("one.npz", "two.npz"))
    assert first == second


def test_any_numpy_opens_it_without_pickle(release, tmp_path):
    with np.load(release.save(tmp_path / "r.npz"), allow_pickle=False) as archive:
        assert np.array_equal(archive["covariance"], release.covariance)
        assert json.loads(archive["release.json"])["format"] == 1


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
    header = {"format": 1, "guarantee": release.guarantee.to_dict(), "provenance": {}}
    change(header)
    import io

    from eigenveil.release import _COMMENT_LENGTH, _comment_for

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("release.json", json.dumps(header))
        archive.comment = b" " * _COMMENT_LENGTH
    body = buffer.getvalue()[:-_COMMENT_LENGTH]
    return body + _comment_for(body)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda header: header.update(format=2), "format 2"),
        (lambda header: header.pop("guarantee"), "follow the format"),
        (lambda header: header["guarantee"].update(epsilon="-1"), "follow the format"),
        (lambda header: header["guarantee"].update(relation="sideways"), "follow the format"),
    ],
)
def test_a_foreign_header_is_refused(release, tmp_path, change, says):
    path = tmp_path / "r.npz"
    path.write_bytes(rewritten(release, change))
    with pytest.raises(ReleaseFileError, match=says):
        load_release(path)


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


def test_a_release_cannot_be_changed(release):
    with pytest.raises(ValueError, match="read-only"):
        release.arrays["covariance"][0, 0] = 0
    with pytest.raises(TypeError):
        release.arrays["more"] = np.eye(2)
    with pytest.raises(TypeError):
        release.provenance["mechanism"] = "other"


def test_provenance_must_be_plain_json():
    with pytest.raises(InvalidParameterError, match="JSON"):
        Release({}, Guarantee(1.0), {"bad": object()})


def test_a_seeded_release_says_that_it_is_not_private(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    seeded = PrivatePCA(1, epsilon=50.0, norm_bound=2.0, random_state=0).fit(X).release_
    again = load_release(seeded.save(tmp_path / "seeded.npz"))
    assert again.guarantee.reproducible
    assert not again.guarantee.is_private
    assert str(again.guarantee).startswith("NOT PRIVATE")
    assert PrivatePCA(1, epsilon=50.0, norm_bound=2.0).fit(X).guarantee_.is_private
