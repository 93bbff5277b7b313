"""Dead letters that nobody will redrive go for good, after it was said how many these are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, TaskState
from timerd.sdk.values.times import timestamp_of_ms
from timerd.services.calls import dead_letter_purge
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery, Reject

HOUR = timedelta(hours=1)


async def refuse(_delivery: Delivery) -> None:
    raise Reject("no")


async def letters(server: Server, client: Client, inbox: Inbox, **numbers: int) -> list[str]:
    """Ids, a minute apart."""
    inbox.after = refuse
    await inbox.works(*numbers)
    ids: list[str] = []
    for queue, number in numbers.items():
        for _ in range(number):
            ids.append((await client.schedule(queue, b"x", delay=30, key=f"{queue}-{len(ids)}")).id)
            await server.advance(minutes=1)
    return ids


async def left(client: Client) -> list[str]:
    return [letter.task.id async for letter in client.dead_letters()]


async def test_a_dry_run_says_how_many_there_are_and_removes_none(server: Server, client: Client, inbox: Inbox) -> None:
    ids = await letters(server, client, inbox, mails=3, calls=2)
    said = await client.purge_dead_letters("mails")
    assert (int(said), said.dry_run, said.staying) == (3, True, 0)
    assert await client.purge_dead_letters() == 5
    assert await left(client) == ids


async def test_what_is_purged_is_gone_and_lives_no_more(server: Server, client: Client, inbox: Inbox) -> None:
    ids = await letters(server, client, inbox, mails=3, calls=2)
    said = await client.purge_dead_letters("mails", force=True)
    assert (int(said), said.dry_run) == (3, False)
    assert await left(client) == ids[3:]
    assert (await client.get(ids[0])).state is TaskState.DEAD
    assert (await client.redrive(ids[:1])).missing == (ids[0],)
    assert await client.purge_dead_letters("mails", force=True) == 0
    # Its key is free, as that of every task that is over.
    await client.schedule("mails", b"", delay=60, key="mails-0")


async def test_only_what_died_in_the_range_is_purged(server: Server, client: Client, inbox: Inbox) -> None:
    ids = await letters(server, client, inbox, mails=3)
    died = [letter.death_time async for letter in client.dead_letters()]
    assert await client.purge_dead_letters(start=died[1], end=died[2], force=True) == 1
    assert await left(client) == [ids[0], ids[2]]


async def test_what_is_in_another_namespace_stays(server: Server, client: Client, inbox: Inbox) -> None:
    await letters(server, client, inbox, mails=1)
    other = server.client(namespace="other")
    assert await other.purge_dead_letters("mails", force=True) == 0
    assert len(await left(client)) == 1


async def test_more_than_a_page_goes_page_by_page(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_purge, "READ_AT_ONCE", 2)
    await letters(server, client, inbox, mails=5)
    assert await client.purge_dead_letters("mails") == 5
    assert await client.purge_dead_letters("mails", force=True) == 5
    assert await left(client) == []


async def test_a_repeat_of_a_purge_is_answered_alike_and_removes_nothing_more(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await letters(server, client, inbox, mails=1)
    now_ms = int(server.now.timestamp() * 1000)
    request = pb.PurgeDeadLettersRequest(
        queue="mails", force=True, request_id="once", request_time=timestamp_of_ms(now_ms)
    )
    ask = client._calls
    first = await ask("PurgeDeadLetters", request, pb.PurgeDeadLettersResponse)
    await client.schedule("mails", b"", delay=30)
    await server.advance(minutes=1)
    again = await ask("PurgeDeadLetters", request, pb.PurgeDeadLettersResponse)
    assert (first.purged, again.purged) == (1, 1)
    assert len(await left(client)) == 1


async def test_what_has_died_again_meanwhile_stays(server: Server, client: Client, inbox: Inbox) -> None:
    """A purge removes what it has read, and not the letter of a later life."""
    [task_id] = await letters(server, client, inbox, mails=1)
    engine = server.node.engine
    read = await engine.dead_letters("default", "mails", 0, 1 << 60, b"", 10)
    assert await client.redrive([task_id]) == 1
    await server.advance(minutes=1)
    assert await engine.purge_dead_letters(read) == 0
    assert await left(client) == [task_id]


async def test_what_halts_its_ordering_key_stays_until_the_key_goes_on(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await client.queues.put("docs", ordering="halt")
    inbox.after = refuse
    await inbox.works("docs")
    first, second = [await client.schedule("docs", b"%d" % n, delay=60 + n, ordering_key="a") for n in range(2)]
    await server.advance(minutes=2)
    said = await client.purge_dead_letters("docs", force=True)
    assert (int(said), said.staying) == (0, 1)
    assert await left(client) == [first.id]
    inbox.after = None
    await client.queues.skip_key("docs", "a", task_id=first.id)
    assert await client.purge_dead_letters("docs", force=True) == 1
    await server.advance(minutes=1)
    assert inbox.payloads == [b"0", b"1"]
    assert (await client.get(second.id)).state is TaskState.ACKED


async def test_all_of_them_at_once_are_not_purged_by_mistake(client: Client) -> None:
    with pytest.raises(InvalidTask, match="give `queue`, `start` or `end`"):
        await client.purge_dead_letters(force=True)
