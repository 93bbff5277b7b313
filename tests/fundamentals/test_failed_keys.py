"""What becomes of an ordering key when a task of it fails: HALT and PASS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask, NotFound, OnFailure, RetryPolicy, WaitReason
from timerd.testing import Server
from timerd.worker import Delivery, OrderFence, Reject

QUICK = RetryPolicy(max_attempts=3, initial_backoff=20, multiplier=1, jitter=0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


class Refusing:
    """A handler that rejects some payloads."""

    def __init__(self, *payloads: bytes) -> None:
        self.payloads = set(payloads)

    async def __call__(self, delivery: Delivery) -> None:
        if delivery.payload in self.payloads:
            raise Reject("no")


async def halted(server: Server, client: Client, inbox: Inbox) -> list[str]:
    """The ids of three tasks of a key, of which the first one has failed for good."""
    await client.queues.put("docs", ordering="halt")
    inbox.after = Refusing(b"0")
    await inbox.works("docs")
    tasks = [await client.schedule("docs", b"%d" % n, delay=60 + n, ordering_key="a") for n in range(3)]
    await client.schedule("docs", b"other", delay=61, ordering_key="b")
    await server.advance(minutes=2)
    assert inbox.payloads == [b"0", b"other"]
    return [task.id for task in tasks]


async def test_a_dead_letter_halts_its_key_and_whoever_waits_says_so(
    server: Server, client: Client, inbox: Inbox
) -> None:
    first, second, _ = await halted(server, client, inbox)
    waiting = (await client.get(second)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.task_id) == (WaitReason.KEY, first)
    assert "has failed for good, and its ordering key 'a' stands still since" in waiting.description
    [key] = await client.queues.keys("docs")
    assert (key.key, key.halted, key.task_id, key.waiting) == ("a", True, first, 2)
    assert key.since is not None


async def test_it_halts_over_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    first, *_ = await halted(server, client, inbox)
    await server.restart()
    await server.advance(minutes=20)
    assert inbox.payloads == [b"0", b"other"]
    assert [each.task_id for each in await client.queues.keys("docs") if each.halted] == [first]
    await client.queues.skip_key("docs", "a", task_id=first)
    await server.advance(minutes=1)
    assert inbox.payloads == [b"0", b"other", b"1", b"2"]
    await ledger(server)


async def test_who_skips_names_what_halts(server: Server, client: Client, inbox: Inbox) -> None:
    """The dead letter stays one. Another task goes on halting the key."""
    first, second, _ = await halted(server, client, inbox)
    inbox.after = Refusing(b"1")
    with pytest.raises(NotFound, match="does not halt the ordering key 'a'"):
        await client.queues.skip_key("docs", "a", task_id=second)
    assert await client.queues.skip_key("docs", "a", task_id=first, request_id="once") == first
    await server.advance(seconds=5)
    assert inbox.payloads[2:] == [b"1"]
    assert await client.queues.skip_key("docs", "a", task_id=first, request_id="once") == first
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"1"]
    assert [each.task.id async for each in client.dead_letters("docs")] == [first, second]
    with pytest.raises(NotFound, match="No task halts the ordering key 'c'"):
        await client.queues.skip_key("docs", "c")


async def test_a_redriven_one_lets_its_key_go_on(server: Server, client: Client, inbox: Inbox) -> None:
    """It comes behind what waits: it has its place by its new time."""
    first, *_ = await halted(server, client, inbox)
    inbox.after = None
    assert await client.redrive([first]) == 1
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"1", b"2", b"0"]
    assert await client.queues.keys("docs") == ()
    await server.restart()
    await client.schedule("docs", b"later", delay=1, ordering_key="a")
    await server.advance(minutes=1)
    assert inbox.payloads[-1] == b"later"
    await ledger(server)


async def test_the_others_pass_one_that_waits_for_its_retry(server: Server, client: Client, inbox: Inbox) -> None:
    """One at a time all the same, and fences never go back."""
    fences: list[OrderFence] = []
    failed = {b"0"}

    async def works(delivery: Delivery) -> None:
        assert delivery.order_fence is not None
        fences.append(delivery.order_fence)
        if delivery.payload in failed:
            failed.discard(delivery.payload)
            raise RuntimeError("not yet")

    await client.queues.put("docs", ordering="pass")
    inbox.after = works
    await inbox.works("docs")
    for n in range(3):
        await client.schedule("docs", b"%d" % n, delay=60, ordering_key="a", retry=QUICK)
    await server.advance(seconds=62)
    assert inbox.payloads == [b"0", b"1", b"2"]
    await server.advance(seconds=30)
    assert inbox.payloads == [b"0", b"1", b"2", b"0"]
    assert inbox.times[3] - inbox.times[0] >= timedelta(seconds=20)
    assert fences == sorted(fences)
    await ledger(server)


async def test_the_policy_is_changed_while_tasks_wait(server: Server, client: Client, inbox: Inbox) -> None:
    """A put that says nothing of it leaves it. What halts already goes on halting."""
    await halted(server, client, inbox)
    assert (await client.queues.put("docs", max_in_hand=5)).ordering is OnFailure.HALT
    assert (await client.queues.put("docs", ordering="hold")).ordering is OnFailure.HOLD
    await server.advance(minutes=1)
    assert len(inbox.payloads) == 2
    await client.queues.skip_key("docs", "a")
    inbox.after = Refusing(b"1")
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"1", b"2"]
    with pytest.raises(InvalidTask, match="use 'hold', 'halt' or 'pass'"):
        await client.queues.put("docs", ordering="never")
