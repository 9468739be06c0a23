"""Several threads at one estimator, one file and one ledger."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from eigenveil import PrivacyLedger, PrivatePCA
from eigenveil.errors import EigenveilError, InvalidParameterError
from eigenveil.estimators import base
from eigenveil.files import whole_file
from eigenveil.guarantee import Guarantee
from helpers import assert_one_sentence

pytestmark = pytest.mark.filterwarnings("ignore::eigenveil.errors.NoiseWarning")
ROWS = np.random.default_rng(1).normal(size=(200, 3))


def at_once(function, threads=8):
    """Run a function in several threads that begin together; return what each returned, or its error."""
    gate = threading.Barrier(threads)

    def begin(number):
        gate.wait()
        try:
            return function(number)
        except EigenveilError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begin, range(threads)))


def test_one_estimator_in_eight_threads_is_fitted_by_one_at_a_time(tmp_path, monkeypatch):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=1e6, data_set="study")
    model, drawn, inside = PrivatePCA(1, epsilon=1.0, norm_bound=3.0, ledger=ledger), [], []
    honest = base.gate.draw

    def watched(*arguments, **options):
        inside.append(threading.get_ident())
        assert len(inside) == 1, "two threads are drawing for one estimator"
        release = honest(*arguments, **options)
        drawn.append(release.origin.ledger_entry)
        inside.remove(threading.get_ident())
        return release

    monkeypatch.setattr(base.gate, "draw", watched)
    for _ in range(3):
        answers = at_once(lambda _: model.fit(ROWS))
        refusals = [answer for answer in answers if answer is not model]
        assert all(isinstance(answer, InvalidParameterError) for answer in refusals)
        for answer in refusals:
            assert_one_sentence(answer)
        assert len(refusals) < 8
    paid = [entry.entry for entry in ledger.entries()]
    assert sorted(drawn) == paid  # each release names its own entry, and what was refused has spent nothing
    assert model.release_.origin.ledger_entry in paid
    assert model.fit(ROWS) is model  # nothing is left behind


def test_an_estimator_for_each_thread_pays_for_each_release(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=10.0, data_set="study")
    fit = lambda _: PrivatePCA(1, epsilon=1.0, norm_bound=3.0, ledger=ledger).fit(ROWS)  # noqa: E731
    named = [model.release_.origin.ledger_entry for model in at_once(fit)]
    assert sorted(named) == [entry.entry for entry in ledger.entries()] == list(range(1, 9))


def test_one_handle_of_a_ledger_in_eight_threads(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", epsilon=100.0, data_set="study")

    def spend_and_read(_):
        made = [ledger.spend(Guarantee(0.125), "look").entry for _ in range(4)]
        return made, len(ledger.entries())

    answers = at_once(spend_and_read)
    assert sorted(entry for made, _ in answers for entry in made) == list(range(1, 33))


def test_threads_that_save_to_one_name_show_whole_files_only(tmp_path):
    path = tmp_path / "file"
    contents = {bytes([number]) * 200_000 for number in range(8)}
    with whole_file(path) as file:
        file.write(min(contents))
    wrong, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            if path.read_bytes() not in contents:
                wrong.append("half a file")

    def save(number):
        for _ in range(5):
            with whole_file(path) as file:
                for _ in range(20):
                    file.write(bytes([number]) * 10_000)

    reader = threading.Thread(target=read)
    reader.start()
    answers = at_once(save)
    ended.set()
    reader.join()
    assert answers == [None] * 8
    assert wrong == []
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
