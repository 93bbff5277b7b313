"""The server of these tests is a process, as a user starts it; so is Redis."""

from collections.abc import Iterator

import pytest

from tests.engines.finding import NotFound, own_redis
from tests.process.conftest import children, server

__all__ = ["children", "server"]


@pytest.fixture
def broker() -> Iterator[str]:
    """The URL of a Redis that only this test has."""
    try:
        running = own_redis()
    except NotFound as why:
        pytest.skip(str(why))
    running.start()
    yield running.url
    running.stop()
