"""Damage is refused or harmless: bits, pages and whole files of ledgers; full disks."""

import os
import resource
import shutil
import signal

import numpy as np
import pytest

from eigenveil.accounting import PrivacyLedger
from eigenveil.errors import EigenveilError, LedgerError
from eigenveil.guarantee import Guarantee
from helpers import assert_one_sentence, database, in_child, put, refused

PAGE = 4096


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def ledger_bytes(path, composition="basic"):
    ledger = PrivacyLedger.create(path, epsilon=1.0, delta=1e-6, composition=composition, data_set="study")
    for _ in range(3):
        ledger.spend(Guarantee(0.125), "look")
    return database(path).read_bytes()


def bits(content, places):
    """Yield the content with one bit changed, for each of some places."""
    for place in places:
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        yield changed


def lost_pages(content):
    """Yield the content with a page of zeros, with one of noise, with one exchanged, and cut off at one."""
    noise = np.random.default_rng(3).bytes(PAGE)
    for start in range(0, len(content), PAGE):
        for page in (bytes(PAGE), noise, content[PAGE : 2 * PAGE]):
            yield content[:start] + page + content[start + PAGE :]
        yield content[:start]


def believed_ledgers(path, contents, whole):
    """Use damaged ledgers; return how many were refused, and fail where one tells or allows anything else."""
    put(database(path), whole)
    honest = PrivacyLedger(path)
    expected, refusals = (honest.entries(), honest.spent, honest.remaining), 0
    for content in contents:
        put(database(path), content)
        if content == whole:
            continue
        try:
            ledger = PrivacyLedger(path)
            assert (ledger.entries(), ledger.spent, ledger.remaining) == expected
            entry = ledger.spend(Guarantee(0.125), "one more")
            assert PrivacyLedger(path).entries() == [*expected[0], entry]
        except EigenveilError as error:
            assert_one_sentence(error)
            refusals += 1
    return refusals


@pytest.mark.parametrize("composition", ["basic", pytest.param("zcdp", marks=pytest.mark.heavy)])
def test_a_changed_bit_or_page_never_lets_more_be_spent(path, composition):
    whole = ledger_bytes(path, composition)
    places = np.random.default_rng().choice(8 * len(whole), 150, replace=False)
    assert believed_ledgers(path, bits(whole, places.tolist()), whole) > 0
    assert believed_ledgers(path, lost_pages(whole), whole) > 0


@pytest.mark.heavy
@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_no_changed_bit_of_a_ledger_lets_more_be_spent(path, composition):
    whole = ledger_bytes(path, composition)
    # Every bit of the head of the file, and of all that is not zero.
    used = [place for place in range(8 * len(whole)) if place < 800 or whole[place // 8]]
    assert believed_ledgers(path, bits(whole, used), whole) > len(used) / 2


# Another file under an open handle.


def emptied(path, copy):
    path.write_bytes(b"")


def cut_short(path, copy):
    os.truncate(path, PAGE)


def swapped(path, copy):
    os.replace(copy, path)


def removed(path, copy):
    path.unlink()


HARM = [emptied, cut_short, swapped, removed]


@pytest.mark.parametrize("harm", HARM)
def test_a_ledger_harmed_under_an_open_handle_is_refused(path, harm):
    ledger_bytes(path)
    ledger, copy = PrivacyLedger(path), path.with_name("copy")
    shutil.copy(database(path), copy)
    harm(database(path), copy)
    for attempt in (lambda: ledger.spend(Guarantee(0.125), "more"), ledger.entries, lambda: ledger.remaining):
        with refused(LedgerError):
            attempt()


def test_a_relative_path_stays_the_file_that_was_opened(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    monkeypatch.chdir(first)
    ledger = PrivacyLedger.create("file", epsilon=1.0, data_set="study")
    shutil.copytree(first, second)  # the same book, and a second budget
    monkeypatch.chdir(second)
    ledger.spend(Guarantee(0.5), "here")
    assert len(PrivacyLedger(first / "file").entries()) == 1
    assert PrivacyLedger(second / "file").entries() == []


def test_a_handle_that_met_damage_leaves_no_file_open_and_no_lock(path):
    whole = ledger_bytes(path)
    kept = []  # the errors, with all frames that they came through
    for content in lost_pages(whole):
        put(database(path), content)
        try:
            PrivacyLedger(path).spend(Guarantee(0.125), "one more")
        except EigenveilError as error:
            kept.append(error)
    assert kept
    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert str(database(path)) not in held
    put(database(path), whole)
    assert PrivacyLedger(path).spend(Guarantee(0.125), "no lock is held").entry == 4


# A disk that is full.


def with_room_for(size, function):
    """Run in a child whose files cannot grow beyond a size."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return function()

    return in_child(limited, expected=(EigenveilError,))


def test_a_full_disk_spends_nothing_or_all(path):
    ledger_bytes(path)
    before, outcomes = PrivacyLedger(path).entries(), set()
    for size in [*range(0, 24_000, 1500), 1 << 20]:
        answer = with_room_for(size, lambda: PrivacyLedger(path).spend(Guarantee(1e-6), "small").entry)
        after = PrivacyLedger(path).entries()
        outcomes.add(type(answer))
        if isinstance(answer, EigenveilError):
            assert_one_sentence(answer)
            assert after == before
        else:
            assert [entry.entry for entry in after] == [*(entry.entry for entry in before), answer]
        before = after
    assert outcomes == {LedgerError, int}
