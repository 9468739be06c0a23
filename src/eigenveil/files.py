"""Files written whole or not at all, also when the power fails; files and JSON read within bounds."""

import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from .errors import EigenveilError, InvalidParameterError


def given_path(value: object, name: str = "path") -> Path:
    """Return a path that was given as text or as an object of a path; anything else is refused.

    >>> given_path(5, "ledger")
    Traceback (most recent call last):
        ...
    eigenveil.errors.InvalidParameterError: ledger must be a path, not int.
    """
    text = os.fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(text, str):
        raise InvalidParameterError(f"{name} must be a path, not {type(value).__name__}.")
    if "\0" in text:
        raise InvalidParameterError(f"{name} has a zero byte in it, which no file can have in its name.")
    return Path(text)


@contextmanager
def whole_file(path: Path, *, secret: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when all of it has been written.

    A secret one is readable for its owner alone, from its first byte on. Only a regular file is replaced.
    """
    check_replaceable(path)
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


def check_replaceable(path: Path) -> None:
    """Raise `OSError` with words for `strerror` where something is that is no regular file.

    To replace a device, a pipe or a link by a file would take it away from everybody else on the machine.
    """
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "it is a folder; name a file")
        if not stat.S_ISREG(mode):
            raise OSError(None, "it is a link, a device or a pipe; name a regular file")


@contextmanager
def folder_in_place(path: Path) -> Iterator[Path]:
    """Give a new folder to fill, private to its user, which then gets its own name where nothing is.

    Nobody ever sees half of it, and of several makers the first wins; the others meet `FileExistsError`. The files in
    it must have been synchronized inside.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    draft = draft_of(path)
    try:
        os.mkdir(draft, 0o700)
        yield draft
        sync_folder(draft / path.name)
        try:
            os.rename(draft, path)  # a folder that is not empty is not replaced
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # as a draft of a file; one that got its name is not there any more
    sync_folder(path)


def sole_name(file: Path) -> os.stat_result:
    """Return the `stat` of a database file, or raise `OSError` with words where the file may have a second name.

    SQLite looks for the journal of what was interrupted beside the name that it was given. Under a second name of the
    same file it finds none, goes on, and all that is written then is rolled back under the first. A folder has no
    second name without its content; of the file inside, links and mounts are refused.

    Parameters
    ----------
    file : Path
        Resolved but for its last part.
    """
    found = os.lstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(None, f"{file.name} in it is not a regular file")
    if found.st_nlink > 1:
        raise OSError(None, f"{file.name} in it has a second name, a hard link; remove that link")
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:  # no Linux, where a file cannot be mounted by itself, or no /proc
        return found
    for mount in mounts:
        place = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), mount.split()[4])
        if place == os.fsencode(file):
            raise OSError(None, f"{file.name} in it is mounted by itself; mount the whole folder")
    return found


def draft_of(path: Path) -> Path:
    """Return a name that no other process and no other thread has, in the same folder so that a rename is atomic."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}.part")


def _remove(draft: Path) -> None:
    """Remove a draft; one that a failing disk keeps does no harm, and its removal is not reported."""
    with suppress(OSError):
        draft.unlink()


def sync_folder(path: Path) -> None:
    """Bring the names in the folder of `path` to the disk: a file that was synchronized can still lose its name.

    Where that fails the system may have given the names up, and a second attempt could report success. So
    a name is changed: names share the blocks of their folder, which are written again then.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:  # a folder that may be written and not read; and no folder can be opened on Windows
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that keeps names by itself
            draft = draft_of(path)
            with suppress(OSError):
                draft.touch()
            _remove(draft)
            raise
    finally:
        os.close(folder)


def sync_database(file: Path) -> None:
    """Bring the names beside a database that was committed to the disk, and that of its folder.

    SQLite commits without the first where it cannot open the folder. Whoever made the folder may have been stopped, or
    refused by the disk, between its rename and its synchronization: without the second all of it could still be lost.
    """
    sync_folder(file)
    sync_folder(file.parent)


TEXT_BYTES = 2**22
"""Most bytes of a small text: a schema, a protocol, a list of numbers."""
_DEEPEST = 64
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_bounded(
    path: str | PathLike[str], what: str, kind: type[EigenveilError], most_bytes: int = TEXT_BYTES
) -> bytes:
    """Return the content of a regular file, or raise `kind` with one sentence about `what` it is.

    The size is asked before anything is read, and no more than that is.
    """
    source = given_path(path)
    try:
        with open_regular(source) as file:
            found = os.fstat(file.fileno())
            # No more than there was: room is made for all that is asked for.
            content = file.read(found.st_size + 1) if found.st_size <= most_bytes else None
    except OSError as error:
        raise kind(f"{what} {source} cannot be read: {error.strerror}.") from None
    except MemoryError:
        raise kind(f"There is not enough memory to read {what[0].lower()}{what[1:]} {source}.") from None
    if content is None or len(content) > found.st_size:
        raise kind(f"{what} {source} is larger than {most_bytes:,} bytes, which is the limit, or still grows.")
    return content


def open_regular(path: str | PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, or raise `OSError` with words for `strerror`; a pipe is not waited for."""
    # Opened without waiting, then asked what it is: a name can be made to stand for another file in between.
    number = os.open(path, os.O_RDONLY | _NOT_WAITING)
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return open(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(None, "it is a folder")
    raise OSError(None, "it is no regular file; copy what it says to one")


def parsed_json(text: str | bytes) -> Any:
    """Return the content of a JSON text, or raise `ValueError`.

    Numbers are finite, no key comes twice, lists and mappings are not nested deeper than 64, and every text can be
    written again.

    Examples
    --------
    >>> parsed_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> parsed_json("[" * 100 + "]" * 100)
    Traceback (most recent call last):
        ...
    ValueError: nested too deeply
    """
    try:
        found = json.loads(
            text.decode("utf-8") if isinstance(text, bytes) else text,
            parse_constant=_refused,
            parse_float=_finite,
            object_pairs_hook=_without_repeats,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    check_json(found)
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused("infinity")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def check_json(content: Any, text: str | None = None) -> None:
    """Raise `ValueError` where lists and mappings are nested too deeply, or a text cannot be written.

    For most content `text`, its JSON in ASCII, is enough to rule out both.

    Examples
    --------
    >>> check_json({"a": [1, 2.5, None]})
    """
    if text is not None and text.count("[") + text.count("{") <= _DEEPEST and "\\ud" not in text:
        return
    level, depth = [content], 0
    while level:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                value.encode("utf-8")  # half a surrogate pair cannot be written
            elif isinstance(value, list | tuple):
                below += value
            elif isinstance(value, dict):
                below += value
                below += value.values()
        level, depth = below, depth + 1
