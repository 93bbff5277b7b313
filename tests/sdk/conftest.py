"""A fake server and a client of it for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sdk.fake_server import FakeServer
from timerd import Client


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    fake = FakeServer()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with Client(server.target, timeout=20) as connected:
        yield connected
