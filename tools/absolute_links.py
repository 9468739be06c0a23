"""Make the relative links of the README absolute, before a package is built: an index shows no files beside it.

python tools/absolute_links.py FOLDER    change README.md there, if its pyproject.toml has a Repository
"""

import re
import sys
import tomllib
from pathlib import Path


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose relative links lead to files of a repository, and whose images are loaded from it.

    Examples
    --------
    >>> with_absolute_links("[a](b.md) ![c](d.png)", "https://x/y/")
    '[a](https://x/y/blob/HEAD/b.md) ![c](https://x/y/raw/HEAD/d.png)'
    """
    relative = r"(?![a-z][a-z0-9+.-]*:|#)"
    root = repository.rstrip("/")
    text = re.sub(rf"(!\[[^\]]*\]\(|\bsrc=\"){relative}", rf"\1{root}/raw/HEAD/", text)
    return re.sub(rf"(\]\(|\bhref=\"){relative}", rf"\1{root}/blob/HEAD/", text)


def change(folder: Path) -> bool:
    """Change the README of a folder, and return whether its repository is known."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository")
    if repository is not None:
        readme = folder / "README.md"
        readme.write_text(with_absolute_links(readme.read_text(encoding="utf-8"), repository), encoding="utf-8")
    return repository is not None


if __name__ == "__main__":
    print("README.md: links are absolute." if change(Path(sys.argv[1])) else "No Repository in pyproject.toml.")
