"""A whole server on a real store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.engines.keyspace import Keyspace, opened
from timerd.adapters.alarm import make_alarm
from timerd.adapters.clocks import SystemClock
from timerd.bootstrap import assemble
from timerd.config import ServerConfig
from timerd.services.node import Node


async def started(keyspace: Keyspace) -> Node:
    clock = SystemClock()
    store = await opened(keyspace.settings, lambda: int(clock.wall_ms()))
    node = await assemble(ServerConfig(listen="127.0.0.1:0"), store, clock, make_alarm, "timerd-test")
    await node.start()
    return node


@pytest.fixture
async def node(keyspace: Keyspace) -> AsyncIterator[Node]:
    node = await started(keyspace)
    yield node
    with contextlib.suppress(asyncio.CancelledError):
        await node.stop(drain_ms=1_000)
