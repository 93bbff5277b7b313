"""Keys of the caller's choice: one living task for each, and three ways to meet it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import AlreadyExists, CancelOutcome, Client, TaskState
from timerd.model.errors import NotStored
from timerd.services.engine.key_lines import KeyLines
from timerd.services.engine.keying import Keying
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import timer_service_pb2_grpc
from timerd.v1.task_pb2 import (
    CONFLICT_POLICY_REPLACE,
    ITEM_OUTCOME_NOT_STORED,
    ITEM_OUTCOME_STORED,
    TaskTemplate,
)
from timerd.worker import Delivery, Retry


async def test_reject_is_the_default(server: Server, client: Client, inbox: Inbox) -> None:
    """A second task with the same key is refused, and the first one is not touched."""
    await inbox.works("mails")
    await client.schedule("mails", b"one", delay=60, key="order-1")
    with pytest.raises(AlreadyExists):
        await client.schedule("mails", b"two", delay=60, key="order-1")
    await server.advance(hours=1)
    assert inbox.payloads == [b"one"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_keep_answers_with_the_task_that_is_there(server: Server, client: Client, inbox: Inbox) -> None:
    """KEEP: the same id, nothing stored."""
    await inbox.works("mails")
    first = await client.schedule("mails", b"one", delay=60, key="order-1")
    second = await client.schedule("mails", b"two", delay=90, key="order-1", on_conflict="keep")
    assert second.id == first.id
    await server.advance(hours=1)
    assert inbox.payloads == [b"one"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_replace_puts_the_new_task_in_its_place(server: Server, client: Client, inbox: Inbox) -> None:
    """REPLACE: the old one never comes, the new one comes at its time."""
    await inbox.works("mails")
    at = server.now + timedelta(minutes=30)
    await client.schedule("mails", b"one", delay=60, key="order-1")
    await client.schedule("mails", b"two", at=at, key="order-1", on_conflict="replace")
    await server.advance(hours=1)
    assert (inbox.payloads, inbox.times) == ([b"two"], [at])
    await ledger(server)


async def test_a_key_finds_its_task(server: Server, client: Client) -> None:
    """Get, reschedule and cancel take the key instead of the id."""
    task = await client.schedule("mails", b"x", delay=60, key="order-1")
    assert (await client.get(key="order-1")).id == task.id
    wanted = server.now + timedelta(hours=5)
    assert await client.reschedule(key="order-1", at=wanted) == wanted
    assert (await client.get(key="order-1")).fire_time == wanted
    assert await client.cancel(key="order-1") is CancelOutcome.CANCELLED
    assert (await client.get(task.id)).state is TaskState.CANCELLED


@pytest.mark.parametrize("policy", ["keep", "reject", "replace"])
async def test_a_key_is_free_again_when_its_task_has_ended(
    server: Server, client: Client, inbox: Inbox, policy: str
) -> None:
    """After the acknowledgement the key may be used anew, under every policy."""
    await inbox.works("mails")
    await client.schedule("mails", b"one", delay=60, key="order-1")
    await server.advance(minutes=5)
    await client.schedule("mails", b"two", delay=60, key="order-1", on_conflict=policy)
    await server.advance(minutes=5)
    assert inbox.payloads == [b"one", b"two"]
    assert await ledger(server) == {"inserted": 2, "acked": 2}


activate = Keying.activate


async def activate_later(keying: Keying, *given: Any, **named: Any) -> Mapping[int, NotStored]:  # noqa: ANN401 - as it has them
    """Others have some turns before, in which they may take a key that is reserved."""
    for _ in range(10):
        await asyncio.sleep(0)
    return await activate(keying, *given, **named)


async def test_a_batch_that_loses_the_race_for_a_key_says_so_of_that_task_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls that replace each other at one moment: each keeps its task without a key, one has the key in the end, also
    when the losers ask again. They are as calls of several instances, which stand in no line and share no trips."""
    monkeypatch.setattr(KeyLines, "place", lambda *_: nullcontext())
    monkeypatch.setattr(server.node.engine._keying, "_runner", server.node.scheduler.procedures)
    monkeypatch.setattr(Keying, "activate", activate_later)
    at = Timestamp(seconds=int(server.now.timestamp()) + 3_600)
    replacing = TaskTemplate(queue="q", on_conflict=CONFLICT_POLICY_REPLACE)
    items = [
        pb.TaskItem(fire_time=at, key="k", payload=b"keyed", template=replacing),
        pb.TaskItem(fire_time=at, payload=b"plain"),
    ]
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = timer_service_pb2_grpc.TimerServiceStub(channel)

        async def ask(n: int) -> pb.ScheduleBatchResponse:
            batch = pb.TaskItems(items=items)
            request = pb.ScheduleBatchRequest(template=TaskTemplate(queue="q"), items=batch, request_id=f"request {n}")
            reply: pb.ScheduleBatchResponse = await stub.ScheduleBatch(request)
            return reply

        replies: list[pb.ScheduleBatchResponse] = []
        # Calls that came one after the other on a busy machine do not race.
        while len(replies) < 400 and not any(reply.stored == 1 for reply in replies):
            replies += await asyncio.gather(*map(ask, range(len(replies), len(replies) + 20)))
        alive = (await stub.Get(pb.GetRequest(key="k"))).task.task_id
        repeats = [await ask(n) for n, reply in enumerate(replies) if reply.stored == 1]
        assert (await stub.Get(pb.GetRequest(key="k"))).task.task_id == alive
    assert [reply.results[1].outcome for reply in replies] == [ITEM_OUTCOME_STORED] * len(replies)
    lost = [reply for reply in replies if reply.stored == 1]
    assert lost, "somebody lost"
    for reply in lost + repeats:
        assert reply.results[0].outcome == ITEM_OUTCOME_NOT_STORED
        assert "took the key" in reply.results[0].problem.message or "is taken" in reply.results[0].problem.message
    kept = [reply.results[0].task_id for reply in replies if reply.stored == 2]
    assert alive in kept


async def test_a_key_is_kept_as_long_as_its_task_wherever_it_goes(tmp_path: Path) -> None:
    """Moved by a month, or retried for weeks: nobody else gets the key before it has ended."""

    async def fails(_: Delivery) -> None:
        raise Retry(3 * 86_400)

    async with Server(data=tmp_path / "data") as server:
        client, inbox = server.client(), Inbox(server)
        inbox.after = fails
        await inbox.works("mails")
        moved = await client.schedule("mails", b"moved", delay=60, key="moved")
        retried = await client.schedule("mails", b"retried", delay=60, key="retried")
        await client.reschedule(moved.id, delay=30 * 86_400)
        for _ in range(4):
            await server.advance(days=5)
            for task, key in ((moved, "moved"), (retried, "retried")):
                assert (await client.schedule("mails", b"", delay=60, key=key, on_conflict="keep")).id == task.id
