"""Files made to hurt: whatever they say, they are refused in one sentence, or everything that reads them works.

Release files have a right checksum and a content made to hurt, one for every seed.
"""

import copy
import hashlib
import io
import json
import math
import os
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

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

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("format_*/*.npz"))
_COMMENT = 7 + 64
HOSTILE = (
    *(None, True, False, 0, 1, -1, 3, 17, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400),
    *(0.0, 0.5, 1e-320, 1e-160, 1e154, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *("", "0", "nan", "-inf", "1e400", "x", "\x00", "<script>", "\ud800", "a" * 5000, "replace_one", "above_noise"),
    *("kendall", "clipped", [], {}, [0], [None], ["a"], [1e308] * 8, [[1, 2], [3]], {"kind": "matrix"}, {"": 1}),
)


def members_of(path):
    """Return the names and contents of a release file."""
    with zipfile.ZipFile(path) as archive:
        return [(one.filename, archive.read(one)) for one in archive.infolist()]


def sealed(body):
    """Return a file with the checksum that belongs to it."""
    return body + b"sha256:" + hashlib.sha256(body).hexdigest().encode()


def zipped(members, **options):
    """Return the archive, up to the checksum in its comment; names may repeat."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in members:
            information = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            information.compress_type = archive.compression
            archive.writestr(information, content)
        archive.comment = b" " * _COMMENT
    return buffer.getvalue()[:-_COMMENT]


def packed(members, **options):
    """Return the file of these members with a right checksum."""
    return sealed(zipped(members, **options))


def npy(value, kind=None, shape=()):
    """Return an ``.npy`` text; with a `kind` one whose header says what it likes."""
    buffer = io.BytesIO()
    if kind is None:
        np.save(buffer, value, allow_pickle=True)
        return buffer.getvalue()
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + np.asarray(value).tobytes()


def pick(generator, choices):
    return choices[int(generator.integers(len(choices)))]


def mutated(seed):
    """Return the file that belongs to a seed."""
    generator = np.random.default_rng([20, seed])
    members = members_of(pick(generator, GOLDEN))
    change = pick(generator, (with_header, with_header, with_header, with_text, with_values, with_array, with_archive))
    changed = change(members, generator)
    return changed if isinstance(changed, bytes) else packed(changed)


def places_in(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places_in(one, (*path, key)))]


def with_header(members, generator):
    """Change the header in one place or two: a key less or more, a longer list, another number, a hostile value."""
    header = json.loads(dict(members)["release.json"])
    for _ in range(1 + int(generator.random() < 0.2)):
        *above, last = pick(generator, places_in(header)[1:])
        parent = header
        for key in above:
            parent = parent[key]
        what = generator.integers(10)
        if what == 0:
            del parent[last]
        elif what == 1 and isinstance(parent, dict):
            parent[pick(generator, ("extra", "", "norm", "__class__", "n" * 300))] = pick(generator, HOSTILE)
        elif what == 2 and isinstance(parent, list):
            parent += [parent[last]] * int(generator.integers(1, 40))
        elif what == 3 and type(parent[last]) in (int, float):
            parent[last] = parent[last] * pick(generator, (-1, 2, 1e-200, 1e200, 1e100, 10**6))
        else:
            parent[last] = pick(generator, HOSTILE)
    return replaced(members, "release.json", json.dumps(header).encode("utf-8", "surrogatepass"))


def replaced(members, name, content):
    return [(one, content if one == name else before) for one, before in members]


def with_text(members, generator):
    """Change the JSON text of the header."""
    text, depth = dict(members)["release.json"], int(pick(generator, (50, 2000, 100_000)))
    texts = (
        *(b"", b"null", b"[]", b"\xff" + text, text.decode().encode("utf-16"), text[: len(text) // 2], text + text),
        *(b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth),
        text.replace(b'"parameters": {', b'"parameters": {"deep": ' + b"[" * depth + b"]" * depth + b","),
        text.replace(b'"parts": []', b'"parts": ' + b'[{"parts":' * depth + b"[]" + b"}]" * depth),
        *(text.replace(b'"format": 2', b'"format": ' + other) for other in (b"9" * 10_000, b"NaN", b"1e999")),
        text.replace(b'"format": 2', b'"format": 2, "format": 2'),
    )
    return replaced(members, "release.json", pick(generator, texts))


def one_array(members, generator):
    name, content = pick(generator, [one for one in members if one[0].endswith(".npy")])
    return name, np.load(io.BytesIO(content))


def with_values(members, generator):
    """Keep the form of an array and change its numbers."""
    name, value = one_array(members, generator)
    changed = value.astype(np.int64) if value.dtype.kind == "i" else value.copy()
    one = pick(generator, (0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**40))
    what = generator.integers(4)
    if what == 0:
        changed[...] = one
    elif what == 1:
        changed.reshape(-1)[generator.integers(changed.size)] = one
    elif what == 2:
        changed = generator.permutation(changed.reshape(-1)).reshape(changed.shape)
    else:
        changed = -changed * int(pick(generator, (1, 2, 1000)))
    return replaced(members, name, npy(changed))


def with_array(members, generator):
    """Change the form of an array, or what its header says."""
    name, value = one_array(members, generator)
    forms = (
        lambda: npy(value[..., None]),
        lambda: npy(value.reshape(-1)[:1]),
        lambda: npy(value[:0] if value.ndim else np.zeros(0, np.int64)),
        lambda: npy(np.concatenate([np.atleast_2d(value)] * 2)),
        lambda: npy(np.asfortranarray(value)),
        *(lambda kind=kind: npy(value.astype(kind)) for kind in (">i8", np.float64, np.int32, complex, object, str)),
        lambda: npy(np.zeros(3, dtype=[("a", "i8"), ("b", "f8")])),
        *(
            lambda shape=shape: npy(value, "<i8", shape)
            for shape in ((10**9, 10**9), (2**62,), (-1, value.size), (True,), (1,) * 70, ("a",))
        ),
        lambda: npy(value, "|O", (value.size,)),
        lambda: npy(value, "|V0", (2**40,)),
        lambda: npy(value, "x" * 20_000),
        lambda: b"\x93NUMPY\x09\x00" + b"\x00" * 20,
        lambda: npy(value)[:-5],
        lambda: npy(value) + b"\x00" * 8,
        lambda: b"not an array at all",
    )
    return replaced(members, name, pick(generator, forms)())


def with_archive(members, generator):
    """Change what a zip archive says of its members, and which there are."""
    place = int(generator.integers(len(members)))
    name, content = members[place]
    odd = ("../x.npy", "/etc/passwd", "a/b.npy", "", "count", "release.json.npy", "RELEASE.JSON", "n" * 2000 + ".npy")
    body = bytearray(zipped(members))
    where, fields = body.rfind(b"PK\x01\x02"), {8: 2, 10: 2, 16: 4, 20: 4, 24: 4, 28: 2, 30: 2, 32: 2, 38: 4, 42: 4}
    if generator.integers(2):  # the end of the archive
        where, fields = body.rfind(b"PK\x05\x06"), {4: 2, 6: 2, 8: 2, 10: 2, 12: 4, 16: 4}
    offset = pick(generator, list(fields))
    value = pick(generator, (0, 1, 9, 12, 2**16 - 1, 2**31, 2**32 - 1)) % 256 ** fields[offset]
    body[where + offset : where + offset + fields[offset]] = value.to_bytes(fields[offset], "little")
    archives = (
        *(sealed(bytes(body)),) * 4,
        packed(members[:place] + members[place + 1 :]),
        packed([*members, (pick(generator, odd), pick(generator, (b"", content)))]),
        packed([*members, (name, content)]),
        packed([*members[:place], (pick(generator, odd), content), *members[place + 1 :]]),
        *(packed(members, compression=one) for one in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
        sealed(b"x" * int(generator.integers(1, 300)) + zipped(members)),
        sealed(zipped([])[:-2] + struct.pack("<H", _COMMENT)),
        sealed(b""),
    )
    return pick(generator, archives)


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


@pytest.mark.parametrize(
    "seeds",
    [
        range(150),
        *(pytest.param(range(start, start + 100), marks=pytest.mark.heavy) for start in range(1000, 16_000, 100)),
    ],
    ids=str,
)
def test_no_release_file_ends_in_another_error(seeds, tmp_path):
    names = list(USES)
    loaded = [tried(seed, tmp_path / "r.npz", [names[(seed + step) % 15] for step in (0, 5, 10)]) for seed in seeds]
    assert any(loaded)
    assert not all(loaded)


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
    members["matrix.npy"] = npy(np.zeros(2, np.int64), "<i8", shape)
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
