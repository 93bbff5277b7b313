"""What waits behind an ordering key or a limit key is due like anything else, and who looks sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

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
