"""Shared by all tests."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """Small matrices by the hundred thousand: waking a second BLAS thread for each costs more than it gives."""
    with threadpool_limits(1, user_api="blas"):
        yield
