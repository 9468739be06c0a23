"""Shared by all tests."""

import hypothesis
import pytest
from threadpoolctl import threadpool_limits

# The same examples every time, so that a run tells about the change and not about chance;
# `pytest --hypothesis-profile default` looks for new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Small matrices by the hundred thousand: waking a second BLAS thread for each costs more than it gives."""
    with threadpool_limits(1, user_api="blas"):
        yield
