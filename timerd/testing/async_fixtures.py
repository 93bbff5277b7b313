"""The fixtures for tests that are coroutines, run by pytest-asyncio or by anyio's plugin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

# In its strict mode pytest-asyncio runs the fixtures that it has made itself.
if TYPE_CHECKING or "pytest_asyncio" not in sys.modules:
    fixture = pytest.fixture
else:
    from pytest_asyncio import fixture

if TYPE_CHECKING:
    from timerd.client import Client
    from timerd.testing import Server, ServerKeywords


@fixture
async def timerd_async_server(timerd_server_options: ServerKeywords) -> AsyncIterator[Server]:
    """A test server whose clock the test turns: `await timerd_async_server.advance(hours=3)`."""
    from timerd.testing import Server

    async with Server(**timerd_server_options) as server:
        yield server


@pytest.fixture
def timerd_async_client(timerd_async_server: Server) -> Client:
    """A client of `timerd_async_server`: `await timerd_async_client.schedule("mails", b"hello", delay=3600)`."""
    return timerd_async_server.client()
