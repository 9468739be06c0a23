"""Runs for a disk that fails, which tell what they have acknowledged; and what is wrong with what they leave behind.

A run that is refused tries once more, as people do. Each begins in an empty folder.
"""

import contextlib
import io
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from eigenveil import PrivacyLedger, RowBound, SecondMoments, load_release, release
from eigenveil.cli import app
from eigenveil.cli.messages import run as run_command
from eigenveil.errors import EigenveilError
from eigenveil.federation import Round, SiteKeys, contribute
from eigenveil.mechanisms import MECHANISMS
from made_rounds import contributions, drafted, joined, site_rows

TRIES = 2


def tried(tell, step):
    """Do a step, and once more where it is refused; return whether it was done."""
    for _ in range(TRIES):
        try:
            step()
        except EigenveilError as error:
            tell(f"refused: {error}")
        else:
            return True
    return False


# Fits with a ledger, each saved over the release before.


def moments():
    return SecondMoments(RowBound(1.0, bits=8), 2).update(np.eye(2))


def opened_or_made(path):
    return PrivacyLedger(path) if path.exists() else PrivacyLedger.create(path, epsilon=4.0, data_set="study")


def fits(folder, tell):
    mechanism, rows = MECHANISMS["laplace"](epsilon=0.125, n_features=2), moments()

    def fit():
        drawn = release(mechanism, rows, ledger=opened_or_made(folder / "ledger"))
        tell(f"given: {drawn.origin.ledger_entry}")
        drawn.save(folder / "release.npz")
        tell(f"saved: {drawn.origin.ledger_entry}")

    for _ in range(2):
        tried(tell, fit)


def told_numbers(told, word):
    return [int(text.removeprefix(f"{word}: ")) for text in told if text.startswith(f"{word}: ")]


def entries_in(path):
    try:
        return [entry.entry for entry in PrivacyLedger(path).entries()]
    except EigenveilError:
        return []


def wrong_with_fits(folder, told):
    given, saved = told_numbers(told, "given"), told_numbers(told, "saved")
    paid = entries_in(folder / "ledger")
    found = [] if set(given) <= set(paid) else ["a release without its spend"]
    if len(set(given)) < len(given):
        found.append("two releases name one spend")
    if saved:
        try:
            entry = load_release(folder / "release.npz").origin.ledger_entry
        except EigenveilError:
            entry = None
        # That of a later fit may be there: whole, though its writer could not be sure of it.
        if entry not in given or entry < saved[-1]:
            found.append("a saved release is gone")
    return found


# One site of a round, from its keys to its contribution; and whoever collects those of all sites.


@cache
def closed_round():
    folder = Path(tempfile.mkdtemp())
    try:
        agreed, keys = joined(drafted(2), folder)
        own = SiteKeys.load(keys[agreed.sites[0]])
        return agreed, own, [file.read_bytes() for file in contributions(agreed, keys, folder, site_rows(2)).values()]
    finally:
        shutil.rmtree(folder)


def contributes(folder, tell):
    agreed, own, _ = closed_round()
    keys, rows = folder / "own.key", site_rows(2)[0]

    def take_part():
        if not keys.exists():
            own.save(keys)
        agreed.save(folder / "round.json")
        assert Round.load(folder / "round.json").fingerprint == agreed.fingerprint
        contribute(agreed, keys, rows, folder / "own.contribution", ledger=opened_or_made(folder / "ledger"))
        tell("contributed: 1")

    tried(tell, take_part)


def wrong_with_site(folder, told):
    written = (folder / "own.contribution").exists()
    found = ["a contribution without its spend"] if written and not entries_in(folder / "ledger") else []
    if told_numbers(told, "contributed") and not written:
        found.append("a contribution is gone")
    if written and (folder / "own.key").exists():
        found.append("keys that were used can be used again")
    return found


# The command line.


def commands(folder, tell):
    table, rows, ledger, out = (folder / name for name in ("table.npy", "rows.csv", "ledger", "release.npz"))
    try:
        np.save(table, np.tile(np.eye(2), (20, 1)))
        rows.write_text("1,0\n0,1\n")
    except OSError:  # it was the test's own
        return
    sums = ("--protocol", folder / "protocol.json", "--totals", folder / "totals.npz")
    fit = ("pca", table, "-k", 1, "--epsilon", 0.5, "--norm-bound", 1, "--ledger", ledger, "-o", out)
    for words in (
        ("ledger", "create", ledger, "--epsilon", 2, "--data-set", "study"),
        (*fit, "--yes", "--force"),
        ("show", out),
        ("export", out, "-o", folder / "release.json", "--force"),
        ("local", "params", "--features", 2, "--epsilon", 1, "-o", folder / "protocol.json", "--force"),
        ("local", "encode", folder / "protocol.json", rows, "-o", folder / "reports", "--force", "--yes"),
        ("local", "aggregate", folder / "reports", *sums, "--release", folder / "local.npz", "--force"),
    ):
        for _ in range(TRIES):
            code, told = command(*words, *(() if "encode" in words else ("--quiet",)))  # bars have threads
            tell(f"{words[0]} {words[1] if words[0] in ('ledger', 'local') else ''} {code}: {told}")
            if not code:
                break


def command(*words):
    """Run a command as a terminal does; return its code, and what it says beside its result."""
    sys.argv = ["eigenveil", *map(str, words)]
    code = 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            run_command(app)
        except SystemExit as end:
            code = end.code or 0
    return code, said.getvalue()


def wrong_with_commands(folder, told):
    found = []
    for text in told:
        said = text.partition(": ")[2]
        if "unexpected" in said or "Traceback" in said or "Error" in said:
            found.append(f"no sentence: {text}")
    if (folder / "release.npz").exists() and not entries_in(folder / "ledger"):
        found.append("a release without its spend")
    return found


RUNS = {
    "fits": (fits, wrong_with_fits),
    "contributes": (contributes, wrong_with_site),
    "commands": (commands, wrong_with_commands),
}
"""What is run, and what is wrong with what it leaves."""
