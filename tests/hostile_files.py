"""Release files with a right checksum and a content made to hurt: one for every seed."""

import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = sorted((Path(__file__).parent / "golden").glob("format_*/*.npz"))
_COMMENT = 7 + 64
Members = list[tuple[str, bytes]]

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 17, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400),
    *(0.0, -0.0, 0.5, 1.0, 1e-320, 1e-160, 1e150, 1e154, 1e250, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *(
        "",
        "0",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "x",
        "\x00",
        "<script>",
        "\ud800",
        "a" * 5000,
        "replace_one",
        "add_or_remove_one",
    ),
    *(
        "above_noise",
        "local",
        "kendall",
        "spatial_sign",
        "unit",
        "clipped",
        [],
        {},
        [0],
        [None],
        ["a"],
        [1e308] * 8,
        [0.0] * 3,
    ),
    *([[1, 2], [3]], {"kind": "matrix"}, {"": 1}, {"a": [1]}, ["x"] * 500),
)


def members_of(path: Path) -> Members:
    """Return the names and contents of a release file."""
    with zipfile.ZipFile(path) as archive:
        return [(one.filename, archive.read(one)) for one in archive.infolist()]


def sealed(body: bytes) -> bytes:
    """Return a file with the checksum that belongs to it."""
    return body + b"sha256:" + hashlib.sha256(body).hexdigest().encode()


def zipped(members: Members, **options: Any) -> bytes:
    """Return the archive, up to the checksum in its comment; names may repeat."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in members:
            information = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            information.compress_type = archive.compression
            archive.writestr(information, content)
        archive.comment = b" " * _COMMENT
    return buffer.getvalue()[:-_COMMENT]


def packed(members: Members, **options: Any) -> bytes:
    """Return the file of these members with a right checksum."""
    return sealed(zipped(members, **options))


def npy(value: Any, header: str | None = None) -> bytes:
    """Return an ``.npy`` text; with a header of one's own, right or wrong."""
    buffer = io.BytesIO()
    if header is None:
        np.save(buffer, value, allow_pickle=True)
        return buffer.getvalue()
    text = header.encode("latin-1", "replace")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 2**16) + text + np.asarray(value).tobytes()


def npy_header(kind: str, shape: Any) -> str:
    """Return the header of an array, whatever it says."""
    return f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n"


def mutated(seed: int) -> bytes:
    """Return the file that belongs to a seed."""
    generator = np.random.default_rng([20, seed])
    members = members_of(GOLDEN[generator.integers(len(GOLDEN))])
    kinds = (_header, _header, _header, _header, _two_of_header, _values, _values, _array, _text, _archive)
    changed = kinds[generator.integers(len(kinds))](members, generator)
    return changed if isinstance(changed, bytes) else packed(changed)


def _pick(generator: np.random.Generator, choices: Any) -> Any:
    return choices[int(generator.integers(len(choices)))]


# The header.


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


def _changed(header: Any, generator: np.random.Generator) -> None:
    *above, last = _pick(generator, _places(header)[1:])
    parent = header
    for key in above:
        parent = parent[key]
    what = generator.integers(10)
    if what == 0:
        del parent[last]
    elif what == 1 and isinstance(parent, dict):
        parent[_pick(generator, ("extra", "", "norm", "__class__", "n" * 300))] = _pick(generator, HOSTILE)
    elif what == 2 and isinstance(parent, list):
        parent += [parent[last]] * int(generator.integers(1, 40))
    elif what == 3 and isinstance(parent[last], int | float) and not isinstance(parent[last], bool):
        parent[last] = parent[last] * _pick(generator, (-1, 2, 1e-200, 1e200, 1e-100, 1e100, 10**6))
    else:
        parent[last] = _pick(generator, HOSTILE)


def _with_header(members: Members, change: Callable[[Any], None]) -> Members:
    header = json.loads(dict(members)["release.json"])
    change(header)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return [(name, text if name == "release.json" else content) for name, content in members]


def _header(members: Members, generator: np.random.Generator) -> Members:
    return _with_header(members, lambda header: _changed(header, generator))


def _two_of_header(members: Members, generator: np.random.Generator) -> Members:
    return _header(_header(members, generator), generator)


def _text(members: Members, generator: np.random.Generator) -> Members:
    """Change the JSON text itself."""
    text = dict(members)["release.json"]
    depth = int(_pick(generator, (50, 500, 2000, 100_000)))
    texts = (
        b"",
        b"null",
        b"[]",
        b"7",
        b"\xff" + text,
        "\ufeff".encode() + text,
        text.decode().encode("utf-16"),
        text[: len(text) // 2],
        text + text,
        b"[" * depth + b"]" * depth,
        b'{"a":' * depth + b"1" + b"}" * depth,
        b'{"format": 2, "origin": ' + b"[" * depth + b"]" * depth + b"}",
        text.replace(b'"parameters": {', b'"parameters": {"deep": ' + b"[" * depth + b"]" * depth + b","),
        text.replace(b'"parts": []', b'"parts": ' + b'[{"parts":' * depth + b"[]" + b"}]" * depth),
        text.replace(b'"format": 2', b'"format": ' + b"9" * 10_000),
        text.replace(b'"format": 2', b'"format": 2, "format": 2'),
        text.replace(b'"format": 2', b'"format": NaN'),
        text.replace(b'"format": 2', b'"format": 1e999'),
    )
    changed = texts[int(generator.integers(len(texts)))]
    return [(name, changed if name == "release.json" else content) for name, content in members]


# The arrays.


def _one_array(members: Members, generator: np.random.Generator) -> tuple[int, Any]:
    place = int(_pick(generator, [place for place, (name, _) in enumerate(members) if name.endswith(".npy")]))
    return place, np.load(io.BytesIO(members[place][1]))


def _values(members: Members, generator: np.random.Generator) -> Members:
    """Keep the form of an array and change its numbers."""
    place, value = _one_array(members, generator)
    numbers = (0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 7, 2**24, 2**40)
    changed = value.astype(np.int64) if value.dtype.kind == "i" else value.copy()
    what = generator.integers(6)
    if what == 0:
        changed[...] = _pick(generator, numbers)
    elif what == 1:
        changed.reshape(-1)[generator.integers(changed.size)] = _pick(generator, numbers)
    elif what == 2:
        changed = generator.permutation(changed.reshape(-1)).reshape(changed.shape)
    elif what == 3:
        changed = -changed
    elif what == 4:
        changed = generator.integers(-(2**63), 2**63 - 1, size=changed.shape)
    elif changed.dtype.kind == "f":
        changed.reshape(-1)[generator.integers(changed.size)] = _pick(
            generator, (np.nan, np.inf, 1e308, -1e308, 1e-320)
        )
    else:
        changed = changed * int(_pick(generator, (0, 2, 1000)))
    members[place] = members[place][0], npy(changed)
    return members


def _array(members: Members, generator: np.random.Generator) -> Members:
    """Change the form of an array."""
    place, value = _one_array(members, generator)
    size = value.size
    contents = (
        lambda: npy(value[..., None]),
        lambda: npy(value.reshape(-1)),
        lambda: npy(value.reshape(-1)[:1]),
        lambda: npy(value.reshape(-1)[0]),
        lambda: npy(value[:0] if value.ndim else np.zeros(0, np.int64)),
        lambda: npy(np.concatenate([np.atleast_2d(value)] * 2)),
        lambda: npy(np.asfortranarray(value)),
        lambda: npy(value.astype(">i8")),
        lambda: npy(value.astype(np.float64)),
        lambda: npy(value.astype(np.int32)),
        lambda: npy(value.astype(complex)),
        lambda: npy(value.astype(object)),
        lambda: npy(value.astype(str)),
        lambda: npy(np.zeros(3, dtype=[("a", "i8"), ("b", "f8")])),
        lambda: npy(np.zeros(2, dtype="datetime64[D]")),
        lambda: npy(value, npy_header("<i8", (10**9, 10**9))),
        lambda: npy(value, npy_header("<i8", (2**62,))),
        lambda: npy(value, npy_header("<i8", (-1, size))),
        lambda: npy(value, npy_header("<i8", (True,))),
        lambda: npy(value, npy_header("<i8", (1,) * 70)),
        lambda: npy(value, npy_header("<i8", ("a",))),
        lambda: npy(value, npy_header("|O", (size,))),
        lambda: npy(value, npy_header("|V0", (2**40,))),
        lambda: npy(value, "{'descr': '<i8'" + " " * 20_000 + "}"),
        lambda: npy(value, "(" * 5000 + ")" * 5000),
        lambda: npy(value, "__import__('os').getcwd()"),
        lambda: npy(value, "\x00"),
        lambda: b"",
        lambda: b"\x93NUMPY",
        lambda: b"\x93NUMPY\x09\x00" + b"\x00" * 20,
        lambda: members[place][1][:-5],
        lambda: members[place][1] + b"\x00" * 8,
        lambda: b"not an array at all",
    )
    members[place] = members[place][0], contents[int(generator.integers(len(contents)))]()
    return members


# The archive.


def _archive(members: Members, generator: np.random.Generator) -> bytes:
    """Change what a zip archive says of its members, and which there are."""
    place = int(generator.integers(len(members)))
    name, content = members[place]
    odd = (
        "../x.npy",
        "/etc/passwd",
        "a/b.npy",
        "",
        "count",
        "x.npy",
        "release.json.npy",
        "RELEASE.JSON",
        "n" * 2000 + ".npy",
        "map.npy",
        "mean.npy",
    )
    extra = (str(_pick(generator, odd)), _pick(generator, (b"", content, npy(np.zeros((2, 2), np.int64)))))
    what = int(generator.integers(14))
    if what == 0:
        return packed(members[:place] + members[place + 1 :])
    if what == 1:
        return packed([*members, extra])
    if what == 2:
        return packed([*members, (name, content)])
    if what in (3, 4, 5):
        method = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[what - 3]
        return packed(members, compression=method)
    if what == 6:
        return packed([(name, npy(np.zeros((3000, 3000), np.int64))), *members], compression=zipfile.ZIP_DEFLATED)
    if what == 7:
        return sealed(b"x" * int(generator.integers(1, 300)) + zipped(members))
    if what == 8:
        return sealed(zipped([])[:-2] + struct.pack("<H", _COMMENT))
    if what == 9:
        return sealed(b"")
    if what == 10:
        members[place] = (str(_pick(generator, odd)), content)
        return packed(members)
    body = bytearray(zipped(members))
    where = body.rfind(b"PK\x01\x02") if what == 11 else body.find(b"PK\x01\x02")
    fields = {8: 2, 10: 2, 16: 4, 20: 4, 24: 4, 28: 2, 30: 2, 32: 2, 34: 2, 38: 4, 42: 4}
    if what == 13:  # the end of the archive
        where, fields = body.rfind(b"PK\x05\x06"), {4: 2, 6: 2, 8: 2, 10: 2, 12: 4, 16: 4}
    offset = int(_pick(generator, list(fields)))
    value = int(_pick(generator, (0, 1, 9, 12, 99, 2**16 - 1, 2**31, 2**32 - 1))) % 256 ** fields[offset]
    body[where + offset : where + offset + fields[offset]] = value.to_bytes(fields[offset], "little")
    return sealed(bytes(body))
