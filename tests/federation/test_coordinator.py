"""The reference coordinator over HTTP: what it refuses, that a kill loses nothing, and that it releases once."""

import http.client
import json
import os
import socket
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from eigenveil import Release, load_release
from eigenveil.errors import ReleaseFileError
from eigenveil.federation import Coordinator, FederationError, Round, SiteKeys, combine, coordinator, send, wire
from helpers import refused, start_child
from made_rounds import contributions, drafted, joined, needs_cryptography, site_rows

needs_cryptography()


@contextmanager
def served(agreed, folder):
    collecting = Coordinator(agreed, folder)
    with collecting.server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collecting, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def ask(address, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


@pytest.fixture
def made(tmp_path):
    agreed, keys = joined(drafted(), tmp_path)
    secrets = {name: SiteKeys.load(file) for name, file in keys.items()}
    files = contributions(agreed, keys, tmp_path, site_rows())
    return agreed, [file.read_bytes() for file in files.values()], secrets


def test_a_round_is_collected_and_released_once(made, tmp_path):
    agreed, sent, _ = made
    with served(agreed, tmp_path / "state") as (collecting, address):
        assert Round.from_json(ask(address, "GET", "/round")[1].decode()) == agreed
        assert ask(address, "GET", "/release")[0] == 404
        send(sent[0], address)
        send(sent[0], address)  # whose acknowledgement was lost
        status = json.loads(ask(address, "GET", "/status")[1])
        assert status["missing"] == ["site 1", "site 2"]
        assert not status["released"]
        (tmp_path / "file").write_bytes(sent[1])
        send(tmp_path / "file", address)
        send(sent[2], address + "/")
        code, released = ask(address, "GET", "/release")
        assert code == 200
        assert json.loads(ask(address, "GET", "/status")[1])["released"]
        send(sent[2], address)
        assert collecting.release.read_bytes() == released
    release = load_release(collecting.release)
    assert (release.integers["matrix"] == combine(agreed, sent).integers["matrix"]).all()
    # Started again, it is as it was.
    with served(agreed, tmp_path / "state") as (again, address):
        assert again.missing == ()
        assert ask(address, "GET", "/release")[1] == released


def test_what_it_refuses_and_that_it_goes_on(made, tmp_path):
    agreed, sent, secrets = made
    other, keys = joined(drafted(), tmp_path)
    (tmp_path / "other").mkdir()
    foreign = contributions(other, keys, tmp_path / "other", site_rows())["site 0"]
    words = wire.opened(agreed, sent[0]).words
    different = wire.sealed(agreed, 0, words + 1, False, secrets["site 0"].signing)
    forged = wire.sealed(agreed, 1, words, False, secrets["site 0"].signing)
    with served(agreed, tmp_path / "state") as (collecting, address):
        send(sent[0], address)
        for content, code, reason in [
            (b"garbage", 400, "malformed"),
            (b"", 400, "malformed"),
            (sent[1][:-1], 400, "malformed"),
            (foreign.read_bytes(), 403, "foreign"),
            (forged, 403, "forged"),
            (different, 409, "repeated"),
            (sent[1] + b"\0", 413, "malformed"),
            (bytes(10**6), 413, "malformed"),
        ]:
            status, answer = ask(address, "POST", "/contributions", content)
            assert (status, json.loads(answer)["refused"]) == (code, reason)
        assert ask(address, "POST", "/elsewhere", sent[1])[0] == 404
        assert ask(address, "POST", "/contributions", None, {"Content-Length": "-5"})[0] == 413
        assert ask(address, "POST", "/contributions", None, {"Content-Length": "9" * 5000})[0] == 413
        assert collecting.missing == ("site 1", "site 2")
        assert sorted(path.name for path in collecting.folder.iterdir()) == ["0000.contribution", "round.json"]
        with refused(FederationError) as told:
            send(forged, address)
        assert "forged" in str(told.value)
        for content in sent[1:]:
            send(content, address)
        assert collecting.release.exists()
    with refused(FederationError):
        send(sent[0], address)  # nobody is there any more
    with refused(FederationError):
        Coordinator(other, tmp_path / "state")


def test_a_client_that_stalls_stops_nobody(made, tmp_path, monkeypatch):
    agreed, sent, _ = made
    monkeypatch.setattr(coordinator._Handler, "timeout", 0.5)
    with served(agreed, tmp_path / "state") as (collecting, address):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as stalled:
            stalled.sendall(f"POST /contributions HTTP/1.1\r\nContent-Length: {len(sent[0])}\r\n\r\nEVF1".encode())
            for content in sent:
                send(content, address)
        assert collecting.release.exists()


def test_a_release_that_could_not_be_written_is_written_when_the_last_one_is_sent_again(made, tmp_path, monkeypatch):
    agreed, sent, _ = made

    def full(*_):
        raise ReleaseFileError("The release cannot be written to here: no space left on device.")

    with served(agreed, tmp_path / "state") as (collecting, address):
        for content in sent[:2]:
            send(content, address)
        monkeypatch.setattr(Release, "save", full)
        assert ask(address, "POST", "/contributions", sent[2])[0] == 503
        monkeypatch.undo()
        assert not collecting.release.exists()
        send(sent[2], address)
        assert collecting.release.exists()


def test_after_the_deadline_a_contribution_is_late_and_the_missing_are_named(tmp_path, monkeypatch):
    agreed, keys = joined(drafted(deadline=(datetime.now(UTC) + timedelta(hours=1)).isoformat()), tmp_path)
    sent = [file.read_bytes() for file in contributions(agreed, keys, tmp_path, site_rows()).values()]
    with served(agreed, tmp_path / "state") as (collecting, address):
        send(sent[0], address)
        monkeypatch.setattr(type(agreed.terms), "is_over", True)
        assert ask(address, "POST", "/contributions", sent[1])[0] == 410
        send(sent[0], address)  # it has that one
        status = json.loads(ask(address, "GET", "/status")[1])
        assert status["over"]
        assert status["missing"] == ["site 1", "site 2"]
        assert not collecting.release.exists()


def test_a_sum_out_of_range_is_told_and_not_released(made, tmp_path):
    agreed, sent, secrets = made
    words = wire.opened(agreed, sent[0]).words + 2**61
    with served(agreed, tmp_path / "state") as (collecting, address):
        send(wire.sealed(agreed, 0, words, False, secrets["site 0"].signing), address)
        for content in sent[1:]:
            send(content, address)
        status = json.loads(ask(address, "GET", "/status")[1])
        assert not status["released"]
        assert "fresh keys" in status["failure"]
        assert not collecting.release.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_at_any_step_it_has_all_that_it_acknowledged(made, tmp_path):
    """A child stores contributions until it is killed; what it reported as stored is there, whole, and is resumed."""
    agreed, sent, _ = made
    folder = tmp_path / "state"
    read, write = os.pipe()

    def store():
        collecting = Coordinator(agreed, folder)
        for place, content in enumerate(sent[:2]):
            collecting.add(content)
            os.write(write, bytes([place]))
        os.write(write, b"\xff")
        while True:  # until it is killed
            threading.Event().wait(60)

    child = start_child(store)
    acknowledged = os.read(read, 1)
    assert child.kill()
    (folder / ".0002.contribution.123.part").write_bytes(sent[2][:100])  # what a kill in the middle leaves
    again = Coordinator(agreed, folder)
    assert agreed.sites[acknowledged[0]] not in again.missing
    for content in sent:
        again.add(content)
    assert again.release.exists()
    os.close(read)
    os.close(write)


def test_a_request_that_never_ends_and_one_too_many_are_hung_up_on(made, tmp_path):
    agreed, *_ = made
    collecting = Coordinator(agreed, tmp_path / "state")
    handler = type("Handler", (coordinator._Handler,), {"coordinator": collecting})
    with coordinator._Server(("127.0.0.1", 0), handler, most=1, seconds=0.2) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with socket.create_connection(server.server_address) as slow:
                slow.sendall(b"POST /contributions HTTP/1.1\r\nX-a: ")  # and then a byte from time to time, for ever
                with socket.create_connection(server.server_address) as other:
                    assert other.recv(1) == b""  # hung up on at once: one is being served
                assert slow.recv(100) == b""  # hung up on when its time is over
            with server._free:  # until the slow one is let go
                pass
            assert ask(f"http://127.0.0.1:{server.server_port}", "GET", "/status")[0] == 200
        finally:
            server.shutdown()
            thread.join()
