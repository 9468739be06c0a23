"""The oracle: what seeded releases were, to the bit, before the code was changed.

python tools/oracle.py --check              run all configurations and say which differ, by their first fact
python tools/oracle.py --check --only kendall    those alone whose names contain a text
python tools/oracle.py --write              freeze what the code releases now
python tools/oracle.py --translate          rename keys and values of the frozen facts by tests/oracle/renames.py

A change of code that is to release the same passes --check. After a renaming: put it into renames.py, --translate,
--check, and empty renames.py again. Only a change of what is released, and a new configuration, needs --write.
"""

import argparse
import difflib
import hashlib
import importlib.util
import io
import json
import math
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parents[1] / "tests" / "oracle"
FROZEN = HERE / "frozen.json"
DIGITS, MOST_NUMBERS = 9, 12
VIEWS = "views"
# Dates, versions, and digests of texts whose keys may be renamed; of sentences only how many there are.
_LEFT_OUT = {"created", "package_version", "format", "fingerprint"}
_SENTENCES = {"assumptions"}
# Numbers that are computed from released ones: on another processor BLAS may round them otherwise in their last digits.
_COMPUTED = {"grid"}
_OF_RELEASE = ("components", "explained_variance", "covariance", "mean", "scale", "n_rows", "noise_sd")
_OF_ESTIMATOR = ("coef_", "intercept_", "mean_", "var_", "scale_", "n_samples_")
_OF_MAP = ("counts", "noise_level")


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"oracle_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


configurations = _module("configurations")
said = _module("surfaces")
CONFIGURATIONS: dict[str, dict[str, Any]] = configurations.CONFIGURATIONS


def recorded(configuration: dict[str, Any]) -> dict[str, Any]:
    """Run a configuration and return its facts: those of the file that is released, and views of it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = configurations.made(configuration, Path(folder))
        except Exception as error:
            return {"refused": type(error).__name__}
        release = getattr(found, "release_", found)
        facts = _of_file(release.save(Path(folder) / "saved.npz").read_bytes())
        kinds = {one.category.__name__ for one in heard if one.category.__module__.startswith("eigenveil")}
        return {**facts, "warnings": sorted(kinds), VIEWS: _views(found, release)}


def surfaces(name: str) -> str:
    """Return what surfaces say of the release of a configuration."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = configurations.made(CONFIGURATIONS[name], Path(folder))
        return str(said.surfaces(getattr(found, "release_", found).save(Path(folder) / "saved.npz")))


def difference_of_surfaces(name: str) -> str | None:
    """Return the first lines of a surface that differ from the frozen ones; None where none does."""
    frozen = said.file_of(name).read_text(encoding="utf-8").splitlines()
    lines = list(difflib.unified_diff(frozen, surfaces(name).splitlines(), "frozen", "now", n=0, lineterm=""))
    return "\n    ".join(["surfaces differ:", *lines[2:12]]) if lines else None


def _of_file(content: bytes) -> dict[str, Any]:
    """Return the facts of a file: its text without dates, and digests of its arrays and of the members they are in."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    [text] = [name for name in members if name.endswith(".json")]
    arrays = {name: np.load(io.BytesIO(member), allow_pickle=False) for name, member in members.items() if name != text}
    assert all(array.dtype == np.int64 for array in arrays.values())
    header = json.loads(members[text])
    return {
        "members": {
            name.removesuffix(".npy"): {
                "shape": list(array.shape),
                "integers": hashlib.sha256(array.astype("<i8").tobytes()).hexdigest(),
                "file": hashlib.sha256(members[name]).hexdigest(),
            }
            for name, array in arrays.items()
        },
        "text": _without_dates(header),
        "canonical": members[text].decode() == json.dumps(header, indent=1, sort_keys=True),
    }


def _without_dates(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _without_dates(one, name) for name, one in sorted(value.items()) if name not in _LEFT_OUT}
    if isinstance(value, list):
        return len(value) if key in _SENTENCES else [_without_dates(one) for one in value]
    return value


def _views(found: Any, release: Any) -> dict[str, Any]:
    """Return a few numbers that are computed from the release, rounded: these may differ in their last digits."""
    views = {}
    of_estimator = [] if found is release else [name for name in _OF_ESTIMATOR if hasattr(found, name)]
    of_release = _OF_RELEASE if hasattr(release, "components") else _OF_MAP
    for thing, names in ((release, of_release), (found, of_estimator)):
        for name in names:
            try:
                value = getattr(thing, name)
            except Exception as error:
                views[name] = type(error).__name__
            else:
                views[name] = None if value is None else _rounded(value, name == "components")
    return views


def _rounded(value: Any, absolute: bool) -> list[float]:
    """Return the first numbers of a view, in a few digits; directions have no sign."""
    numbers = np.asarray(value, dtype=np.float64).ravel()[:MOST_NUMBERS].tolist()
    return [float(f"{abs(one) if absolute else one:.{DIGITS}g}") for one in numbers]


def difference(frozen: Any, found: Any, path: str = "") -> str | None:
    """Return the first fact that differs, in words; None where all are the same, views but for rounding."""
    if isinstance(frozen, dict) and isinstance(found, dict):
        for key in sorted({*frozen, *found}):
            here = f"{path}.{key}" if path else key
            if key not in frozen or key not in found:
                return f"{here}: {'new' if key in found else 'gone'}"
            told = (
                _view_difference(frozen[key], found[key]) if key == VIEWS else difference(frozen[key], found[key], here)
            )
            if told is not None:
                return told
        return None
    same = _near if _COMPUTED.intersection(path.split(".")) else _same
    return None if same(frozen, found) else f"{path}: {_short(frozen)} became {_short(found)}"


def _same(one: Any, other: Any) -> bool:
    # By their texts: 1 is not 1.0, and not True either.
    return json.dumps(one) == json.dumps(other)


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if {type(one), type(other)} <= {int, float}:
        return type(one) is type(other) and math.isclose(one, other, rel_tol=1e-9)
    return _same(one, other)


def _view_difference(frozen: dict[str, Any], found: dict[str, Any]) -> str | None:
    for name in sorted({*frozen, *found}):
        one, other = frozen.get(name), found.get(name)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            # Relative to the largest: small entries are differences of large ones.
            same = np.allclose(one, other, rtol=1e-6, atol=1e-6 * max(map(abs, one), default=0) + 1e-12)
        else:
            same = one == other
        if not same:
            return f"{VIEWS}.{name}: {_short(one)} became {_short(other)}"
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def read_frozen() -> dict[str, Any]:
    """Return the frozen facts of every configuration, by its name."""
    content: dict[str, Any] = json.loads(FROZEN.read_text())
    return content


def write_frozen(content: dict[str, Any]) -> None:
    """Write the frozen facts, one configuration a line."""
    lines = (
        f"{json.dumps(name)}:{json.dumps(facts, sort_keys=True, separators=(',', ':'))}"
        for name, facts in sorted(content.items())
    )
    FROZEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def translated(value: Any, keys: dict[str, Any], values: dict[str, dict[str, Any]], path: tuple[str, ...] = ()) -> Any:
    """Return facts with keys and values renamed, and nothing else.

    Parameters
    ----------
    value : dict, list or scalar
    keys : mapping of str to str or None
        The new name of a key, or None for a key that is gone. A key may be told by the keys above it, "above.key"; the
        longest that fits counts.
    values : mapping of str to mapping
        The new text of a value, by its key (told as above, by old names) and its old text.
    path : tuple of str
        Where the value stands, by old names.
    """
    if isinstance(value, dict):
        renamed = {}
        for key, one in value.items():
            here = (*path, key)
            name = _fitting(keys, here, key)
            if name is not None:
                renamed[name] = translated(one, keys, values, here)
        return renamed
    if isinstance(value, list):
        return [translated(one, keys, values, path) for one in value]
    return _fitting(values, path, {}).get(value, value) if isinstance(value, str) else value


def _fitting(table: dict[str, Any], path: tuple[str, ...], otherwise: Any) -> Any:
    for start in range(len(path)):
        told = ".".join(path[start:])
        if told in table:
            return table[told]
    return otherwise


def main() -> int:
    """Run the command line; return how many configurations differ, at most 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    action.add_argument("--translate", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT", help="configurations whose names contain this")
    parser.add_argument("--times", action="store_true", help="print how long the slowest take")
    asked = parser.parse_args()
    if asked.translate:
        renames = _module("renames")
        known = read_frozen().items()
        write_frozen({name: translated(facts, renames.KEYS, renames.VALUES) for name, facts in known})
        return 0
    names = [name for name in CONFIGURATIONS if asked.only in name]
    found, seconds = {}, {}
    for name in names:
        start = time.perf_counter()
        found[name] = recorded(CONFIGURATIONS[name])
        seconds[name] = time.perf_counter() - start
    if asked.times:
        for name in sorted(names, key=lambda one: -seconds[one])[:25]:
            print(f"{seconds[name]:6.2f} s  {name}", file=sys.stderr)
    if asked.write:
        for name in set(names).intersection(said.NAMES):
            said.file_of(name).write_text(surfaces(name), encoding="utf-8")
        write_frozen({**(read_frozen() if asked.only else {}), **found})
        print(f"{len(found)} configurations written in {sum(seconds.values()):.0f} s.")
        return 0
    frozen = read_frozen()
    told = {name: difference(frozen.get(name, {}), found[name]) for name in names}
    told |= {f"{name} (surfaces)": difference_of_surfaces(name) for name in names if name in said.NAMES}
    told |= {} if asked.only else dict.fromkeys(frozen.keys() - found.keys(), "no such configuration any more")
    differing = {name: one for name, one in told.items() if one is not None}
    for name, one in differing.items():
        print(f"{name}: {one}")
    print(f"{len(differing)} of {len(told)} configurations differ ({sum(seconds.values()):.0f} s).")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
