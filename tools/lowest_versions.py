"""Print every dependency of the core and of the tests at the lowest version that pyproject.toml allows, for pip's -c.

python tools/lowest_versions.py > lowest.txt && pip install '.[test]' -c lowest.txt
"""

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("files", "test")


def lowest_versions(project: dict[str, object]) -> list[str]:
    """Return one line a dependency; those without a lowest version are refused.

    Examples
    --------
    >>> lowest_versions({"dependencies": ["numpy>=2.0"], "optional-dependencies": {"files": [], "test": ["me[files]"]}})
    ['click<8.5', 'numpy==2.0']
    """
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    declared: list[str] = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]  # type: ignore[misc]
    found = ["click<8.5"]  # with newer ones typer below 0.26 shows no help on arguments
    for line in declared:
        if line.endswith("]"):  # an extra of our own, which is among them
            continue
        name, sign, version = re.split(r"(>=)", line)
        found.append(f"{name}{sign.replace('>=', '==')}{version}")
    return found


if __name__ == "__main__":
    print("\n".join(lowest_versions(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"])))
