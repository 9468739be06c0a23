"""Compile the one pass over rows where there is a compiler; without one the package is all Python, and slower.

The README of the built package has absolute links once `[project.urls]` of pyproject.toml has a Repository: a package
index shows the README, and not the files beside it.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROWS = Path("eigenveil/moments")
# No fused products, and nothing else that could change a rounding.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]


class CompilingHook(BuildHookInterface):
    """What runs before a wheel is built, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library to the wheel, which then is for this platform, but for any Python."""
        rows = Path(self.root, "src", ROWS)
        # An editable install reads it from beside its source; else nothing is left there.
        self.folder = None if version == "editable" else tempfile.TemporaryDirectory()
        library = Path(rows if self.folder is None else self.folder.name, "compiled_pass.so")
        library.unlink(missing_ok=True)
        if not compiled(rows / "one_pass.c", library):
            self.app.display_warning("No compiler: rows are read more slowly, and what is released is the same.")
            return
        if self.folder is not None:
            build_data["force_include"][str(library)] = str(ROWS / library.name)
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what has been copied."""
        del version, build_data, artifact_path
        if self.folder is not None:
            self.folder.cleanup()


def compiled(source: Path, library: Path) -> bool:
    """Compile; tell whether that worked."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or sys.platform == "win32":
        return False
    command = [compiler, *FLAGS, str(source), "-o", str(library), "-lm"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class ReadmeHook(MetadataHookInterface):
    """What makes the README of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the README, with absolute links where the repository is known."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        text = with_absolute_links(text, repository) if repository else text
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose relative links lead to files of a repository, and whose images are loaded from it."""
    relative = r"(?![a-z][a-z0-9+.-]*:|#)"
    root = repository.rstrip("/")
    text = re.sub(rf"(!\[[^\]]*\]\(|\bsrc=\"){relative}", rf"\1{root}/raw/HEAD/", text)
    return re.sub(rf"(\]\(|\bhref=\"){relative}", rf"\1{root}/blob/HEAD/", text)
