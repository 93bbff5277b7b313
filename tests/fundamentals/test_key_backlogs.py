"""A customer with more tasks than there is memory for, beside others with a few: theirs are not behind it in the
store."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, Item, KeyRules, TaskOptions
from timerd.core.partition import memory
from timerd.testing import Server
from timerd.testing.async_server import CONFIG

KIB = 1 << 10
NOISY = 3_000


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """With memory for a few hundred tasks."""
    small = replace(CONFIG, memory_budget_bytes=128 * KIB, data=tmp_path / "data")
    with patch.object(memory, "SMALLEST_SHARE_BYTES", 64 * KIB):
        async with Server(data=tmp_path / "data", config=small) as running:
            yield running


async def schedule(client: Client, customer: str, count: int, at: datetime, every_ms: int = 0) -> None:
    items = [
        Item(b"%s %d %s" % (customer.encode(), n, b"." * 100), at=at + timedelta(milliseconds=n * every_ms))
        for n in range(count)
    ]
    await client.schedule_many("mail", items, options=TaskOptions(limit_key=customer))


def customers(inbox: Inbox) -> list[str]:
    return [payload.split()[0].decode() for payload in inbox.payloads]


async def test_others_are_among_the_first_beside_more_than_memory_holds(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """All are due when the worker comes, those of the others last."""
    await client.queues.put("mail", keys=KeyRules(share=1))
    at = server.now + timedelta(minutes=1)
    await schedule(client, "noisy", NOISY, at, every_ms=10)
    for n in range(10):
        await schedule(client, f"quiet{n}", 3, at + timedelta(seconds=40))
    await server.advance(minutes=2)
    await inbox.works("mail", concurrency=10)
    await server.advance(seconds=30)
    came = customers(inbox)
    last = max(n for n, customer in enumerate(came) if customer != "noisy")
    assert last < 200
    assert Counter(came) == {"noisy": NOISY, **{f"quiet{n}": 3 for n in range(10)}}
    assert len(set(inbox.payloads)) == len(came)
    await ledger(server)
