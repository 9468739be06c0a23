"""Compile the one pass over rows where there is a compiler; without one the package is all Python, and slower."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/eigenveil/rows/one_pass.c")
LIBRARY = SOURCE.with_name("compiled_pass.so")
# No fused products, and nothing else that could change a rounding.
FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]


class CompilingHook(BuildHookInterface):
    """What runs before a wheel is built, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library to the wheel, which then is for this platform, but for any Python."""
        del version
        library = Path(self.root, LIBRARY)
        library.unlink(missing_ok=True)
        if not compiled(Path(self.root, SOURCE), library):
            self.app.display_warning("No compiler: reading rows will be slower, and what is released the same.")
            return
        build_data["artifacts"].append(LIBRARY.as_posix())
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compiled(source: Path, library: Path) -> bool:
    """Compile; tell whether that worked."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None or sys.platform == "win32":
        return False
    command = [compiler, *FLAGS, str(source), "-o", str(library), "-lm"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
