"""Files that appear under their name only when all of them has been written, and stay there when the power goes."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, secret: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it has been written.

    A secret one is readable for its owner alone, from its first byte on.
    """
    draft = draft_of(path)
    mode = 0o600 if secret else 0o666
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        _remove(draft)
        raise
    sync_folder(path)


@contextmanager
def linked_into_place(path: Path) -> Iterator[Path]:
    """Give the name of a draft to make a file under, which then gets its own name where no file is.

    Nobody ever sees half of it, and of several makers the first wins; the others meet `FileExistsError`. What is
    written must have been synchronized inside.
    """
    draft = draft_of(path)
    try:
        yield draft
        os.link(draft, path)
    finally:
        _remove(draft)
    sync_folder(path)


def draft_of(path: Path) -> Path:
    """Return a name that no other process and no other thread has, in the same folder so that a rename is atomic."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.part")


def _remove(draft: Path) -> None:
    """Remove a draft; one that a failing disk keeps does no harm, and its removal is not what is told about."""
    with suppress(OSError):
        draft.unlink()


def sync_folder(path: Path) -> None:
    """Bring the names in the folder of `path` to the disk: a file that was synchronized can still lose its name."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:  # a folder that may be written and not read; and no folder can be opened on Windows
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that keeps names by itself
            raise
    finally:
        os.close(folder)
