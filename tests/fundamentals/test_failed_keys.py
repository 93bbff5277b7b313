"""What becomes of an ordering key when a task of it fails: HALT and PASS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask, NotFound, OnFailure, RetryPolicy, WaitReason
from timerd.model.identity import parse_task_id
from timerd.testing import Server
from timerd.worker import Delivery, OrderFence, Reject, Retry

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


async def test_a_redriven_one_is_the_next_of_its_key(server: Server, client: Client, inbox: Inbox) -> None:
    """It stands where it stood, and so does its fence: nothing of the key has started since."""
    first, *_ = await halted(server, client, inbox)
    inbox.after = None
    assert await client.redrive([first]) == 1
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"0", b"1", b"2"]
    fences = [each.delivery.order_fence for each in inbox.got if each.delivery.ordering_key == "a"]
    assert fences == sorted(fence for fence in fences if fence is not None)
    assert await client.queues.keys("docs") == ()
    await server.restart()
    await client.schedule("docs", b"later", delay=1, ordering_key="a")
    await server.advance(minutes=1)
    assert inbox.payloads[-1] == b"later"
    await ledger(server)


async def test_a_redriven_one_is_the_next_over_its_retries_and_a_restart(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """The others wait for its end, wherever it is by then. Nobody skips it: it is dead no more."""
    failed = [b"0"]

    async def works(delivery: Delivery) -> None:
        if delivery.payload in failed:
            failed.remove(delivery.payload)
            raise Retry(60)

    first, *_ = await halted(server, client, inbox)
    inbox.after = works
    assert await client.redrive([first]) == 1
    await server.advance(seconds=1)
    assert inbox.payloads[2:] == [b"0"]
    with pytest.raises(NotFound, match="No task halts"):
        await client.queues.skip_key("docs", "a")
    await server.restart()
    await inbox.works("docs")
    await server.advance(minutes=5)
    assert inbox.payloads[2:] == [b"0", b"0", b"1", b"2"]
    fences = [each.delivery.order_fence for each in inbox.got if each.delivery.ordering_key == "a"]
    assert fences == sorted(fence for fence in fences if fence is not None)
    await ledger(server)


async def test_one_that_is_redriven_and_fails_again_halts_its_key_again(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """A repeat of the call that gave it life says so, and lets nothing go."""
    first, *_ = await halted(server, client, inbox)
    task, engine = parse_task_id(first), server.node.engine
    assert task is not None
    for _ in range(2):
        assert await engine.redrive("default", "once", [task], engine.now_ms()) == [True]
        await server.advance(minutes=1)
        assert inbox.payloads[2:] == [b"0"]
        assert [each.task_id for each in await client.queues.keys("docs") if each.halted] == [first]
    await server.restart()
    await inbox.works("docs")
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"0"]
    inbox.after = None
    assert await client.redrive([first]) == 1
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"0", b"0", b"1", b"2"]
    await ledger(server)


@pytest.mark.parametrize("how", ["cancel", "move"])
async def test_of_a_redriven_one_that_leaves_its_place_the_others_go_on(
    server: Server, client: Client, inbox: Inbox, how: str
) -> None:
    first, *_ = await halted(server, client, inbox)
    await client.queues.pause("docs")
    assert await client.redrive([first]) == 1
    await server.advance(seconds=2)
    if how == "cancel":
        await client.cancel(first)
    else:
        await client.reschedule(first, delay=3600)
    await client.queues.resume("docs")
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"1", b"2"]
    inbox.after = None
    await server.advance(minutes=60)
    assert inbox.payloads[4:] == ([] if how == "cancel" else [b"0"])
    await ledger(server)


async def test_after_a_skip_a_redriven_one_comes_behind_what_waits(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Others have started since, and fences never go back."""
    first, *_ = await halted(server, client, inbox)
    inbox.after = None
    await client.queues.pause("docs")
    await client.queues.skip_key("docs", "a")
    assert await client.redrive([first]) == 1
    await client.queues.resume("docs")
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"1", b"2", b"0"]
    await ledger(server)


async def test_a_redriven_one_is_the_next_when_its_row_is_forgotten(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """After a weekend: its dead letter knows where it stood."""
    first, *_ = await halted(server, client, inbox)
    inbox.after = None
    for _ in range(3):
        await server.advance(hours=20)
    assert await client.redrive([first]) == 1
    await server.advance(minutes=1)
    assert inbox.payloads[2:] == [b"0", b"1", b"2"]
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
