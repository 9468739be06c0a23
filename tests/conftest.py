"""Shared by all tests."""

import signal
from functools import cache

import hypothesis
import pytest
from _pytest.doctest import DoctestModule
from randomgen import AESCounter
from threadpoolctl import threadpool_limits
from typer.main import get_command

from eigenveil.estimators import plan
from eigenveil.sampling import randomness

# The same examples every time, so that a run tells about the change and not about chance;
# `pytest --hypothesis-profile default` looks for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

# A shell may have started the tests in the background with SIGINT ignored, and what they start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Examples stand in the docstrings of `src`; to look for some in every test takes as long as all the rest."""
    found = yield
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_runtest_setup():
    """Routes are made once for the same parameters; a test may have changed the numbers by which they are made."""
    plan._all_routes.cache_clear()


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Small matrices by the hundred thousand: waking a second BLAS thread for each costs more than it gives."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(autouse=True, scope="session")
def one_command_line():
    """Typer makes all commands anew for every call, which takes ten times as long as most calls: here once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command), raising=False)
        yield


@pytest.fixture
def noise_that_repeats(monkeypatch):
    """Every release has the same noise, for tests of what is shown around it: no seed is needed where none is taken."""
    monkeypatch.setattr(randomness, "_fresh_aes", lambda: AESCounter(key=1))
