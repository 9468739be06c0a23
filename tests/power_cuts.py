"""What is on the disk after a power cut: the writes of a run are recorded, cut at any point, and played again.

The recording is that of `strace`. Playing it again follows two rules of what a disk may forget. *POSIX*: every write
to a file that was not synchronized after it, and every change of a name whose folder was not. *ext4*: names are changed
in the order they were, and any synchronization brings all earlier changes of names to the disk. After a synchronization
that failed, a later one tells nothing of the same writes: the system may have given them up. Names share the blocks of
their folder, which the next change of a name writes again.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,mkdir,rename,link,unlink,sendto"
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (\d+|-1 \w+ .*\(INJECTED\))")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_PLACE = re.compile(r"^\d+<((?:\\x[0-9a-f]{2})*)>")


def can_trace():
    """Tell whether a process can be traced here."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


ROOT = -2  # the folder of a run, where all others are numbered with its files


@dataclass(frozen=True)
class Step:
    """One call: what it does, to which name in which folder and to which file or folder, with what."""

    kind: str  # mkdir, create, link, rename, unlink, write, truncate, sync, sync_folder, one of both failed, or event
    name: str = ""
    file: int = -1
    at: int = 0
    data: bytes = b""
    other: str = ""
    folder: int = ROOT


NAMES, CONTENT = ("mkdir", "create", "link", "rename", "unlink"), ("write", "truncate")
FAILED = "failed "


def recorded(code, folder, failing=None):
    """Run Python code with the folder as its argument; return its steps there. What it sends are its own marks.

    `failing` is the kind and the number of a call that ends in EIO.
    """
    trace, names, sizes, steps = folder.parent / "trace", {Path(): ROOT}, {}, []
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", trace]
    if failing is not None:
        command += ["-e", f"inject={failing[0]}:error=EIO:when={failing[1]}"]
    subprocess.run([*command, sys.executable, "-c", code, folder], check=True)
    for line in trace.read_text().splitlines():
        found = _LINE.match(line)
        if found:
            steps += _steps(*found.groups(), folder, names, sizes)
    return steps


def _raw(text):
    return bytes.fromhex(text.replace("\\x", ""))


def _steps(call, arguments, answer, folder, names, sizes):
    texts = [_raw(text) for text in _TEXT.findall(arguments)]
    held = _PLACE.match(arguments)
    place = Path((_raw(held[1]) if held else texts[0] if texts else b"").decode(errors="replace"))
    failed = FAILED if answer.startswith("-") else ""
    if call == "sendto":
        return [Step("event", data=texts[-1])]
    if call not in CALLS.split(",") or (failed and call not in ("fsync", "fdatasync")):  # read, or not done
        return []
    if not place.is_relative_to(folder) or place.name.endswith("-shm"):  # shared memory is made anew after a cut
        return []
    place = place.relative_to(folder)
    if call in ("fsync", "fdatasync") and place in names and sizes.get(names[place]) is None:
        return [Step(f"{failed}sync_folder", folder=names[place])]
    where = names.get(place.parent)  # of a folder that was removed nothing is kept
    name, within = place.name, {"folder": where}
    if where is None or not name:
        return []
    if call == "mkdir":
        names[place] = len(sizes)
        sizes[names[place]] = None
        return [Step("mkdir", name, names[place], **within)]
    if call == "openat":
        if "O_CREAT" not in arguments or place in names:
            assert "O_TRUNC" not in arguments, "not played again"
            return []
        names[place] = len(sizes)
        sizes[names[place]] = 0
        return [Step("create", name, names[place], **within)]
    if call in ("link", "rename"):
        other = Path(texts[1].decode()).relative_to(folder)
        assert other.parent == place.parent, "not played again"
        moved = {one: number for one, number in names.items() if one == place or place in one.parents}
        names.update({other / one.relative_to(place): number for one, number in moved.items()})
        if call == "rename":
            for one in moved:
                del names[one]
        return [Step(call, name, names[other], other=other.name, **within)]
    if call == "unlink":
        return [Step("unlink", name, names.pop(place), **within)]
    if place not in names:  # removed while it was open
        return []
    file = names[place]
    if call in ("fsync", "fdatasync"):
        return [Step(f"{failed}sync", name, file)]
    numbers = [int(number) for number in re.findall(r", (\d+)(?=[,)]|$)", arguments)]
    if call == "ftruncate":
        sizes[file] = numbers[-1]
        return [Step("truncate", name, file, numbers[-1])]
    at = numbers[-1] if call == "pwrite64" else sizes[file]  # whole files are written from end to end
    sizes[file] = max(sizes[file], at + int(answer))
    return [Step("write", name, file, at, texts[0][: int(answer)])]


def lost(steps, rule):
    """Return the places of the steps that a cut after the last of them may forget."""
    forgotten = set()
    for place, step in enumerate(steps):
        later = steps[place + 1 :]
        if step.kind in CONTENT:
            tried = [one.kind for one in later if one.file == step.file and one.kind in ("sync", "failed sync")]
            kept = tried[:1] == ["sync"]
        elif step.kind in NAMES:
            synced = any(one.kind in ("sync", "sync_folder") for one in later)
            kept = synced if rule == "ext4" else _name_kept(step, later)
        else:
            kept = True
        if not kept:
            forgotten.add(place)
    return forgotten


def _name_kept(step, later):
    """Tell whether a change of a name must be on the disk after these later steps, by the rule of POSIX."""
    written = True
    for one in later:
        if one.folder == step.folder:
            if one.kind == "sync_folder" and written:
                return True
            # The system may give up what it could not write, until another change of a name writes it again.
            written = one.kind in NAMES or (written and one.kind != "failed sync_folder")
    return False


def forgetful_disks(steps, rule):
    """Yield what may be left of steps: all of them, all that must be, the names alone, the contents alone, halves."""
    may = lost(steps, rule)
    names = sorted(place for place in may if steps[place].kind in NAMES)
    contents = sorted(may - set(names))
    choices = {frozenset(), frozenset(may), frozenset(names), frozenset(contents)}
    choices |= {frozenset(names[half:]) for half in range(len(names))}  # a journal of names forgets from its end
    choices |= {frozenset(contents[half:]) for half in (len(contents) // 2,)}
    if rule == "posix":
        choices |= {frozenset([place]) for place in names}
    for choice in choices:
        yield [step for place, step in enumerate(steps) if place not in choice]


def files_after(steps):
    """Return the files by their paths, as a disk has them that kept these steps; None is a folder."""
    names, contents = {}, {}
    for step in steps:
        key = step.folder, step.name
        if step.kind in ("mkdir", "create"):
            names[key] = step.file
        elif step.kind == "link":
            names[step.folder, step.other] = step.file
        elif step.kind == "rename":
            names.pop(key, None)
            names[step.folder, step.other] = step.file
        elif step.kind == "unlink" and names.get(key) == step.file:
            del names[key]
        elif step.kind in CONTENT:
            content = contents.setdefault(step.file, bytearray())
            size = step.at + len(step.data)
            content.extend(bytes(max(0, size - len(content))))
            content[step.at : size if step.kind == "write" else len(content)] = step.data
    folders = {step.file for step in steps if step.kind == "mkdir"} | {step.folder for step in steps}

    def below(folder, path):
        for (within, name), number in names.items():
            if within == folder:
                is_folder = number in folders
                yield path / name, None if is_folder else bytes(contents.get(number, b""))
                if is_folder:
                    yield from below(number, path / name)

    return dict(below(ROOT, Path()))


def write(files, folder):
    """Make the folder anew, with these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, content in files.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
