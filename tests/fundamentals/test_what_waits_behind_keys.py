"""What waits behind an ordering key or a limit key is due like anything else, and who looks sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from tests.observability.watched_node import watched
from timerd.client import Client, KeyLimit, KeyRules
from timerd.core.ordering import KeyPhase
from timerd.core.taken import QueueKey
from timerd.observability.collector import exposition
from timerd.observability.figures import Figures
from timerd.testing import Server
from timerd.worker import Delivery, Reject

DOCS, MAILS = QueueKey("default", "docs"), QueueKey("default", "mails")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


async def figures(server: Server) -> Figures:
    with watched(server.node) as observed:
        return await observed.figures()


async def due(server: Server, client: Client, queue: QueueKey) -> tuple[int, int]:
    """(as the metrics say it, as the page and `timerd top` do)."""
    shown = {each.queue: each.due for each in (await client.overview()).queues}
    return (await figures(server)).due[queue], shown[queue.queue]


async def test_what_waits_behind_an_ordering_key_is_due(server: Server, client: Client, inbox: Inbox) -> None:
    """In memory it is before as well: it is due when its time has come, and no more when it is in hand."""

    async def works(_: Delivery) -> None:
        await server.sleep(seconds=20)

    inbox.after = works
    await inbox.works("docs")
    for n in range(5):
        await client.schedule("docs", b"%d" % n, delay=10 + (20 if n == 4 else 0), ordering_key="a")
    assert await due(server, client, DOCS) == (0, 0)
    await server.advance(seconds=11)
    assert inbox.payloads == [b"0"]
    assert await due(server, client, DOCS) == (3, 3)
    await server.advance(seconds=20)
    assert inbox.payloads == [b"0", b"1"]
    assert await due(server, client, DOCS) == (3, 3)
    found = await figures(server)
    assert found.keys == {(DOCS, KeyPhase.WAITING): 0, (DOCS, KeyPhase.IN_HAND): 1, (DOCS, KeyPhase.HALTED): 0}
    assert found.loaded == 3
    await server.advance(minutes=5)
    assert await due(server, client, DOCS) == (0, 0)
    assert not (await figures(server)).keys


async def test_what_waits_behind_a_limit_key_is_due(server: Server, client: Client, inbox: Inbox) -> None:
    async def works(_: Delivery) -> None:
        await server.sleep(seconds=100)

    inbox.after = works
    await client.queues.put("mails", keys=KeyRules(KeyLimit(max_in_hand=1)))
    await inbox.works("mails")
    for _ in range(4):
        await client.schedule("mails", b"", delay=1, limit_key="acme")
    await server.advance(seconds=10)
    assert len(inbox.payloads) == 1
    assert await due(server, client, MAILS) == (3, 3)


@pytest.mark.parametrize("how", ["cancelled", "expired"])
@pytest.mark.parametrize("key", ["ordering_key", "limit_key"])
async def test_what_is_over_behind_a_key_is_due_no_more(
    server: Server, client: Client, inbox: Inbox, how: str, key: str
) -> None:
    """It ends when its turn comes, which nobody has to wait for who adds workers."""

    async def works(_: Delivery) -> None:
        await server.sleep(seconds=200)

    inbox.after = works
    await client.queues.put("docs", keys=KeyRules(KeyLimit(max_in_hand=1)))
    await inbox.works("docs")
    fields: Any = {key: "acme"}
    await client.schedule("docs", b"first", delay=1, **fields)
    tasks = [await client.schedule("docs", b"over", delay=2, expire_after=30, **fields) for _ in range(2)]
    last = await client.schedule("docs", b"last", delay=3, **fields)
    await server.advance(seconds=10)
    assert await due(server, client, DOCS) == (3, 3)
    if how == "cancelled":
        for task in tasks:
            await client.cancel(task.id)
    await server.advance(seconds=1 if how == "cancelled" else 30)
    assert await due(server, client, DOCS) == (1, 1)
    await client.cancel(last.id)
    await server.advance(seconds=1)
    assert await due(server, client, DOCS) == (0, 0)
    await server.advance(minutes=10)
    assert inbox.payloads == [b"first"]
    assert await due(server, client, DOCS) == (0, 0)


@pytest.mark.parametrize("key", ["ordering_key", "limit_key"])
async def test_what_was_cancelled_long_before_is_never_due(
    server: Server, client: Client, inbox: Inbox, key: str
) -> None:
    """Nobody held it then: it is read with its mark."""

    async def works(_: Delivery) -> None:
        await server.sleep(seconds=100)

    inbox.after = works
    await client.queues.put("docs", keys=KeyRules(KeyLimit(max_in_hand=1)))
    await inbox.works("docs")
    fields: Any = {key: "acme"}
    at = server.now + timedelta(hours=2)
    for n in range(4):
        task = await client.schedule("docs", b"%d" % n, at=at + timedelta(seconds=n), **fields)
        if n in (1, 2):
            await client.cancel(task.id)
    await server.advance(at + timedelta(seconds=20) - server.now)
    assert inbox.payloads == [b"0"]
    assert await due(server, client, DOCS) == (1, 1)


@pytest.mark.parametrize("key", ["ordering_key", "limit_key"])
async def test_the_oldest_that_is_due_is_none_that_is_over(server: Server, client: Client, key: str) -> None:
    fields: Any = {key: "acme"}
    at = server.now + timedelta(seconds=5)
    gone = [await client.schedule("docs", b"", at=at, **fields) for _ in range(2)]
    await client.schedule("docs", b"", at=at, expire_after=20, **fields)
    await client.schedule("docs", b"", at=at + timedelta(seconds=5), **fields)
    await server.advance(seconds=10)
    for task in gone:
        await client.cancel(task.id)
    await server.advance(seconds=30)
    assert await due(server, client, DOCS) == (1, 1)
    assert (await client.server_info()).oldest_due_time.ToDatetime(UTC) == at + timedelta(seconds=5)


async def test_a_halted_key_is_a_finding_with_what_to_type(server: Server, client: Client, inbox: Inbox) -> None:
    """Nobody is told to add workers for what waits behind it."""

    async def rejects(delivery: Delivery) -> None:
        if delivery.payload == b"0":
            raise Reject("no")

    inbox.after = rejects
    await client.queues.put("docs", ordering="halt")
    await inbox.works("docs")
    for n in range(3):
        await client.schedule("docs", b"%d" % n, delay=1, ordering_key="order 7")
    await client.schedule("docs", b"other", delay=1, ordering_key="b")
    await server.advance(minutes=3)
    info = await client.server_info()
    [advice] = info.advice
    assert advice.startswith("The ordering key 'order 7' of the queue 'docs' stands still since 20")
    assert "`timerd keys resume docs 'order 7'` tries that one again" in advice
    assert "`timerd keys skip docs 'order 7'` goes on without it" in advice
    assert not info.HasField("oldest_due_time")
    assert await due(server, client, DOCS) == (2, 2)
    found = await figures(server)
    assert found.keys == {(DOCS, KeyPhase.WAITING): 0, (DOCS, KeyPhase.IN_HAND): 0, (DOCS, KeyPhase.HALTED): 1}
    assert 'timerd_keys{namespace="default",queue="docs",state="halted"} 1.0' in exposition(found).decode()
    await client.schedule("docs", b"late", delay=0, ordering_key="c")
    await client.queues.skip_key("docs", "order 7")
    await server.advance(minutes=1)
    assert (await client.server_info()).advice == []


async def test_of_many_halted_keys_some_are_named(server: Server, client: Client, inbox: Inbox) -> None:
    async def rejects(_: Delivery) -> None:
        raise Reject("no")

    inbox.after = rejects
    await client.queues.put("docs", ordering="halt")
    await inbox.works("docs")
    for n in range(8):
        await client.schedule("docs", b"", delay=1 + n, ordering_key=f"doc-{n}")
    await server.advance(minutes=1)
    advice = (await client.server_info()).advice
    assert len(advice) == 6
    assert "'doc-0'" in advice[0]
    assert advice[-1] == "3 more ordering keys stand still: see `timerd keys list docs`."
