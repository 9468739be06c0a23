"""Where results come from: the commit, the day, the versions, and checksums of the data."""

import functools
import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import datasets

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("eigenveil", "numpy", "scipy", "scikit-learn", "pandas")


@functools.cache
def commit() -> str:
    """Return the commit that this process runs, with "+" where files differ from it, or "unknown" without git."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks", "experiments/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def load_checksums() -> dict[str, str]:
    """Return the checksums of the data that the kept results were made from."""
    loaded: dict[str, str] = json.loads((ROOT / "benchmarks" / "data_checksums.json").read_text())
    return loaded


def today() -> str:
    """Return the day, in UTC."""
    return datetime.now(UTC).date().isoformat()


def origin(names: tuple[str, ...], records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the results of some records rest on; `names` are the data sets."""
    return {
        # A run that was resumed may have several of each.
        "commits": sorted({record["commit"] for record in records}),
        "days": sorted({record["day"] for record in records}),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "machine": f"{platform.system()} {platform.machine()}",
        "data": {name: datasets.checksum(name) for name in names},
    }
