"""Fixtures for pytest, which knows them wherever timerd is installed: `timerd_server`, `timerd_client` and others.

A pytest whose tests use none of them imports nothing for them: a fixture imports what it needs when it is used. Those
for asyncio stand in `async_fixtures`, for they are made by the plugin that runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from timerd.client import SyncClient
    from timerd.testing import ServerKeywords, SyncServer


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """By now the plugin that runs coroutines is here, if there is one, so that they can be made by it."""
    from timerd.testing import async_fixtures

    config.pluginmanager.register(async_fixtures)


@pytest.fixture
def timerd_server_options() -> ServerKeywords:
    """The keywords with which `timerd_server` and `timerd_async_server` are made, as `{"start": ...}`: define a fixture
    of this name to choose others."""
    return {}


@pytest.fixture
def timerd_server(timerd_server_options: ServerKeywords) -> Iterator[SyncServer]:
    """A test server for tests without asyncio, whose clock the test turns: `timerd_server.advance(hours=3)`."""
    from timerd.testing import SyncServer

    with SyncServer(**timerd_server_options) as server:
        yield server


@pytest.fixture
def timerd_client(timerd_server: SyncServer) -> SyncClient:
    """A client of `timerd_server`: `timerd_client.schedule("mails", b"hello", delay=3600)`."""
    return timerd_server.client
