"""Damage is refused or harmless: bits, pages and whole files of ledgers and collections; full disks; odd reports."""

import os
import resource
import shutil
import signal
import zlib

import numpy as np
import pytest

from eigenveil.accounting import PrivacyLedger
from eigenveil.errors import EigenveilError, LedgerError
from eigenveil.guarantee import Guarantee
from eigenveil.local import Aggregator, CollectionError, LocalProtocol, Refusal, encode_many
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


def protocol():
    return LocalProtocol(2, 2.0)


def reports(n):
    return encode_many(protocol(), [[1.0, 0.0]] * n)


def collection_bytes(path, sent):
    with Aggregator(protocol(), path) as collection:
        collection.add_many([*sent, b"junk"])
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


def believed_collections(path, contents, whole, sent):
    """As `believed_ledgers`: every report counts once, and the sums are those that were."""
    put(database(path), whole)
    with Aggregator.open(path) as honest:
        expected, refusals = honest.totals, 0
    for content in contents:
        put(database(path), content)
        if content == whole:
            continue
        try:
            with Aggregator.open(path) as collection:
                found = collection.totals
                assert (found.sums == expected.sums).all()
                assert (found.n_reports, found.ones, found.n_seeded) == (len(sent), expected.ones, 0)
                assert collection.refused == {"malformed": 1}
                assert collection.add(sent[-1]) is Refusal.REPEATED
                assert collection.release().n_rows == len(sent)
        except EigenveilError as error:
            assert_one_sentence(error)
            refusals += 1
    return refusals


@pytest.mark.parametrize("composition", ["basic", pytest.param("zcdp", marks=pytest.mark.heavy)])
def test_a_changed_bit_or_page_never_lets_more_be_spent(path, composition, noted):
    whole = ledger_bytes(path, composition)
    places = np.random.default_rng().choice(8 * len(whole), 150, replace=False)
    assert believed_ledgers(path, bits(whole, places.tolist()), whole) > 0
    assert believed_ledgers(path, lost_pages(whole), whole) > 0
    noted("changed bits of ledgers", places.size)


@pytest.mark.heavy
@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_no_changed_bit_of_a_ledger_lets_more_be_spent(path, composition, noted):
    whole = ledger_bytes(path, composition)
    # Every bit of the head of the file, and of all that is not zero.
    used = [place for place in range(8 * len(whole)) if place < 800 or whole[place // 8]]
    assert believed_ledgers(path, bits(whole, used), whole) > len(used) / 2
    noted("changed bits of ledgers", len(used))


def test_a_changed_bit_or_page_of_a_collection_counts_nothing_again(path, noted):
    sent = reports(300)  # identifiers on several pages
    whole = collection_bytes(path, sent)
    places = np.random.default_rng().choice(8 * len(whole), 150, replace=False)
    assert believed_collections(path, bits(whole, places.tolist()), whole, sent) > 0
    assert believed_collections(path, lost_pages(whole), whole, sent) > 0
    noted("changed bits of collections", places.size)


@pytest.mark.heavy
def test_no_changed_bit_of_a_collection_counts_anything_again(path, noted):
    sent = reports(20)
    whole = collection_bytes(path, sent)
    used = [place for place in range(8 * len(whole)) if place < 800 or whole[place // 8]]
    assert believed_collections(path, bits(whole, used), whole, sent) > len(used) / 2
    noted("changed bits of collections", len(used))


def test_control_a_collection_without_its_seal_is_believed(path):
    # A changed count, with the seal that belongs to it: what the seal is for.
    sent = reports(5)
    collection_bytes(path, sent)
    with Aggregator.open(path) as collection:
        store = collection._store
        store.connection.execute("UPDATE collection SET ones = ones + 1")
        with refused(CollectionError):
            store.totals()
        from eigenveil.local import store as collection_file

        collection_file.seal(store.connection, int(collection_file.read_state(store.connection).ids, 16))
        assert store.totals().n_reports == 5


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


@pytest.mark.parametrize("harm", HARM)
def test_a_collection_harmed_under_an_open_handle_is_refused(path, harm):
    sent = reports(4)
    collection_bytes(path, sent[:3])
    copy = path.with_name("copy")
    shutil.copy(database(path), copy)
    with Aggregator.open(path) as collection:
        harm(database(path), copy)
        for attempt in (lambda: collection.add(sent[3]), lambda: collection.totals, collection.release):
            with refused(CollectionError):
                attempt()
    if harm is not swapped:
        for attempt in (lambda: Aggregator.open(path), lambda: Aggregator(LocalProtocol(2, 1.0), path)):
            with refused(CollectionError):
                attempt()


@pytest.mark.parametrize("kind", ["ledger", "collection"])
def test_a_relative_path_stays_the_file_that_was_opened(tmp_path, monkeypatch, kind):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    monkeypatch.chdir(first)
    if kind == "ledger":
        ledger = PrivacyLedger.create("file", epsilon=1.0, data_set="study")
        shutil.copytree(first, second)  # the same book, and a second budget
        monkeypatch.chdir(second)
        ledger.spend(Guarantee(0.5), "here")
        assert len(PrivacyLedger(first / "file").entries()) == 1
        assert PrivacyLedger(second / "file").entries() == []
    else:
        with Aggregator(protocol(), "file") as collection:
            second.mkdir()
            monkeypatch.chdir(second)
            assert collection.add_many(reports(2)).accepted == 2
        assert list(second.iterdir()) == []
        with Aggregator.open(first / "file") as collection:
            assert collection.n_reports == 2


_held = []  # open until the process ends


def killed_without_what_stands_beside(path, sent, mode=None):
    """Count reports in a process that is killed, with every file beside the collection removed; return how many."""

    def add():
        _held.append(Aggregator(protocol(), path))
        if mode is not None:
            _held[0]._store.connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        for report in sent:
            assert _held[0].add(report) is None
            for beside in set(path.iterdir()) - {database(path)}:
                beside.unlink()

    in_child(add)
    with Aggregator.open(path) as collection:
        return collection.n_reports


def test_what_was_acknowledged_stands_in_no_file_that_could_be_deleted_beside(path):
    assert killed_without_what_stands_beside(path, reports(5)) == 5


def test_control_a_write_ahead_log_loses_what_was_acknowledged(path):
    assert killed_without_what_stands_beside(path, reports(5), "WAL") < 5


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


def test_a_full_disk_counts_a_report_once_or_not_at_all(path):
    sent, outcomes = reports(40), set()
    collection_bytes(path, sent[:3])
    acknowledged = 3
    for size in [*range(0, 60_000, 4000), 1 << 20]:

        def add(report=sent[acknowledged]):
            with Aggregator.open(path) as collection:
                return collection.add(report)

        answer = with_room_for(size, add)
        outcomes.add(type(answer))
        acknowledged += answer is None
        with Aggregator.open(path) as collection:
            assert collection.n_reports == acknowledged
    assert outcomes == {CollectionError, type(None)}


# Reports that somebody changed.


def mutated(report, rng):
    changed = bytearray(report)
    for _ in range(int(rng.integers(1, 4))):
        changed[int(rng.integers(len(changed)))] ^= int(rng.integers(1, 256))
    if rng.random() < 0.3:
        changed = changed[: int(rng.integers(len(changed)))] + rng.bytes(int(rng.integers(0, 9)))
    if len(changed) > 4 and rng.random() < 0.7:  # with a checksum that is right
        changed[-4:] = zlib.crc32(bytes(changed[:-4])).to_bytes(4, "little")
    return bytes(changed)


def mutate_many(times):
    rng, kinds = np.random.default_rng(), set()
    collection, sent = Aggregator(protocol()), reports(50)
    for number in range(times // 50):
        tally = collection.add_many(mutated(report, rng) for report in sent)
        kinds |= set(tally.refused)
        assert tally.accepted + sum(tally.refused.values()) == 50
        assert collection.n_reports + sum(collection.refused.values()) == 50 * (number + 1)
    # What was accepted is in range: no report pulls more than one may.
    assert np.abs(collection.totals.sums).max() <= collection.n_reports * 2**32
    assert {"malformed", "foreign"} <= kinds


def test_mutated_reports_are_counted_by_reason(noted):
    mutate_many(1000)
    noted("changed reports", 1000)


@pytest.mark.heavy
def test_many_mutated_reports_are_counted_by_reason(noted):
    mutate_many(250_000)
    noted("changed reports", 250_000)
