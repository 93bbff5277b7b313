"""Tasks that are only worth something for a while: expire_time and soft_expire_time."""

from __future__ import annotations

from datetime import timedelta

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, TaskState
from timerd.testing import Server


async def test_after_its_expire_time_a_task_is_not_delivered(server: Server, client: Client, inbox: Inbox) -> None:
    """Nobody worked the queue in time: the worker that comes later does not get it, and it is reported EXPIRED."""
    start = server.now
    task = await client.schedule("mails", b"x", delay=60, expire_at=start + timedelta(minutes=5))
    await server.advance(minutes=6)
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.got == []
    assert (await client.get(task.id)).state is TaskState.EXPIRED
    assert await ledger(server) == {"inserted": 1, "expired": 1}


async def test_before_its_expire_time_a_task_is_delivered(server: Server, client: Client, inbox: Inbox) -> None:
    """An expire_time changes nothing for a task that is taken in time."""
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60, expire_at=server.now + timedelta(seconds=61))
    await server.advance(minutes=6)
    assert inbox.payloads == [b"x"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_an_expired_task_is_not_tried_again(server: Server, client: Client, inbox: Inbox) -> None:
    """A retry that would come after the expire_time does not."""

    async def fails(_: object) -> None:
        raise RuntimeError("no luck")

    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_at=server.now + timedelta(minutes=2))
    await server.advance(hours=2)
    assert inbox.got
    assert max(inbox.times) < server.now - timedelta(hours=2) + timedelta(minutes=2)
    assert (await client.get(task.id)).state is TaskState.EXPIRED
    assert await client.cancel(task.id) is not CancelOutcome.CANCELLED
    counts = await ledger(server)
    assert counts["expired"] == 1


async def test_after_its_soft_expire_time_a_task_is_marked_late(server: Server, client: Client, inbox: Inbox) -> None:
    """It is delivered all the same, and the handler can see it."""
    soft = server.now + timedelta(minutes=5)
    await client.schedule("mails", b"x", delay=60, soft_expire_at=soft)
    await client.schedule("mails", b"y", delay=60)
    await server.advance(minutes=6)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert {each.payload: each.delivery.late for each in inbox.got} == {b"x": True, b"y": False}
    assert await ledger(server) == {"inserted": 2, "acked": 2}
