"""Tasks of one ordering key: one at a time, in order, through failures, long waits and restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, FailedPrecondition, Item, RetryPolicy, TaskState, WaitReason
from timerd.testing import Server
from timerd.worker import Delivery, OrderFence, Reject, Retry

QUICK = RetryPolicy(max_attempts=3, initial_backoff=20, multiplier=1, jitter=0)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


@dataclass
class Desk:
    """A handler that works for a while, and sees that it is alone with its key and never goes back."""

    server: Server
    seconds: float = 5.0
    open: dict[str, bytes] = field(default_factory=dict)
    fences: dict[str, OrderFence] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    fails: set[bytes] = field(default_factory=set)

    async def __call__(self, delivery: Delivery) -> None:
        key, fence = delivery.ordering_key, delivery.order_fence
        assert fence is not None
        if key in self.open:
            self.wrong.append(f"{delivery.payload!r} beside {self.open[key]!r}")
        if fence < self.fences.get(key, fence):
            self.wrong.append(f"{delivery.payload!r} goes back")
        self.open[key], self.fences[key] = delivery.payload, fence
        try:
            await self.server.sleep(seconds=self.seconds)
            if delivery.payload in self.fails:
                self.fails.discard(delivery.payload)
                raise RuntimeError("not yet")
        finally:
            self.open.pop(key, None)


async def begun(server: Server, inbox: Inbox, seconds: float = 5.0) -> Desk:
    desk = Desk(server, seconds)
    inbox.after = desk
    await inbox.works("docs")
    return desk


async def test_they_come_one_at_a_time_in_the_order_of_the_calls(server: Server, client: Client, inbox: Inbox) -> None:
    """Twenty for the same instant, with workers for sixteen at a time."""
    desk = await begun(server, inbox)
    at = server.now + timedelta(minutes=1)
    for n in range(20):
        await client.schedule("docs", b"%d" % n, at=at, ordering_key="doc-42")
    await server.advance(minutes=3)
    assert inbox.payloads == [b"%d" % n for n in range(20)]
    assert inbox.times[0] == at
    assert not desk.wrong
    assert inbox.times[-1] - at >= timedelta(seconds=19 * 5)
    await ledger(server)


async def test_keys_do_not_wait_for_each_other(server: Server, client: Client, inbox: Inbox) -> None:
    """Ten keys of one message, and what has none, start at once; the second round of each key follows."""
    desk = Desk(server)
    at = server.now + timedelta(minutes=1)

    async def works(delivery: Delivery) -> None:
        if delivery.ordering_key:
            await desk(delivery)

    inbox.after = works
    await inbox.works("docs")
    items = [Item(b"%d.%d" % (n % 10, n // 10), at=at, ordering_key=f"doc-{n % 10}") for n in range(20)]
    await client.schedule_many("docs", [*items, Item(b"free", at=at)])
    await server.advance(minutes=3)
    assert sorted(inbox.payloads[:11]) == sorted([*(b"%d.0" % n for n in range(10)), b"free"])
    assert set(inbox.times[:11]) == {at}
    assert sorted(inbox.payloads[11:]) == [b"%d.1" % n for n in range(10)]
    assert not desk.wrong


async def test_a_failed_one_keeps_its_key_waiting_for_its_retries(server: Server, client: Client, inbox: Inbox) -> None:
    """HOLD: the others of the key come after the retry, another key goes on."""
    desk = await begun(server, inbox, seconds=0.0)
    desk.fails = {b"a1"}
    at = server.now + timedelta(minutes=1)
    first = await client.schedule("docs", b"a1", at=at, ordering_key="a", retry=QUICK)
    await client.schedule("docs", b"a2", at=at + timedelta(seconds=5), ordering_key="a")
    await client.schedule("docs", b"b1", at=at + timedelta(seconds=5), ordering_key="b")
    await server.advance(seconds=70)
    assert inbox.payloads == [b"a1", b"b1"]
    assert (await client.get(first.id)).state is TaskState.RETRYING
    await server.advance(seconds=30)
    assert inbox.payloads == [b"a1", b"b1", b"a1", b"a2"]
    assert timedelta(seconds=20) <= inbox.times[2] - at < timedelta(seconds=21)
    assert inbox.attempts == [1, 1, 2, 1]
    assert not desk.wrong
    await ledger(server)


async def test_a_task_says_for_which_one_it_waits(server: Server, client: Client, inbox: Inbox) -> None:
    """Behind one in hand, and behind one that waits for its retry."""
    desk = await begun(server, inbox)
    desk.fails = {b"1"}
    first = await client.schedule("docs", b"1", delay=60, ordering_key="a", retry=QUICK)
    second = await client.schedule("docs", b"2", delay=60, ordering_key="a")
    for seconds in (62, 10):
        await server.advance(seconds=seconds)
        waiting = (await client.get(second.id)).waiting_for
        assert waiting is not None
        assert (waiting.reason, waiting.task_id) == (WaitReason.KEY, first.id)
    retrying = (await client.get(first.id)).waiting_for
    assert retrying is not None
    assert retrying.reason is WaitReason.RETRY


async def test_after_a_dead_letter_the_key_goes_on_and_a_redriven_one_comes_behind(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """What has been started since has smaller fences than the redriven task."""
    desk = Desk(server, 0.0)
    refused = {b"1"}

    async def works(delivery: Delivery) -> None:
        await desk(delivery)
        if delivery.payload in refused:
            refused.discard(delivery.payload)
            raise Reject("no")

    inbox.after = works
    await inbox.works("docs")
    for n in range(3):
        await client.schedule("docs", b"%d" % n, delay=60, ordering_key="a")
    await server.advance(minutes=2)
    assert inbox.payloads == [b"0", b"1", b"2"]
    await client.redrive(queue="docs")
    await server.advance(minutes=1)
    assert inbox.payloads == [b"0", b"1", b"2", b"1"]
    assert not desk.wrong


async def test_what_is_not_due_blocks_nobody_and_a_moved_one_has_its_place_by_its_new_time(
    server: Server, client: Client, inbox: Inbox
) -> None:
    desk = await begun(server, inbox, seconds=0.0)
    far = await client.schedule("docs", b"far", delay=timedelta(days=2), ordering_key="a")
    await client.schedule("docs", b"near", delay=60, ordering_key="a")
    await server.advance(minutes=2)
    assert inbox.payloads == [b"near"]
    await client.schedule("docs", b"next", delay=60, ordering_key="a")
    await client.reschedule(far.id, delay=30)
    await server.advance(minutes=2)
    assert inbox.payloads == [b"near", b"far", b"next"]
    assert not desk.wrong


async def test_of_two_that_are_moved_in_one_moment_the_fence_of_the_second_is_larger(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Also where the first one was moved more often, so that its version is larger."""
    desk = await begun(server, inbox, seconds=0.0)
    first, second = [await client.schedule("docs", payload, delay=60, ordering_key="d") for payload in (b"a", b"b")]
    sooner = (await client.get(first.id)).due_time - timedelta(seconds=40)
    for task, instant in ((first, sooner + timedelta(seconds=1)), (first, sooner), (second, sooner)):
        await client.reschedule(task.id, at=instant)
    await server.advance(seconds=60)
    assert inbox.payloads == [b"a", b"b"]
    assert not desk.wrong


async def test_a_cancelled_one_is_passed_over(server: Server, client: Client, inbox: Inbox) -> None:
    """One that waits behind another, and one that waits for its retry: the key goes on at once."""
    desk = await begun(server, inbox, seconds=5.0)
    desk.fails = {b"0"}
    patient = RetryPolicy(initial_backoff=3600, jitter=0)
    tasks = [await client.schedule("docs", b"%d" % n, delay=60, ordering_key="a", retry=patient) for n in range(4)]
    await server.advance(seconds=63)
    assert (await client.cancel(tasks[2].id)) is CancelOutcome.CANCELLED
    await server.advance(seconds=30)
    assert inbox.payloads == [b"0"]
    assert (await client.cancel(tasks[0].id)) is CancelOutcome.CANCELLED
    await server.advance(seconds=30)
    assert inbox.payloads == [b"0", b"1", b"3"]
    assert not desk.wrong
    await ledger(server)


async def test_what_has_expired_is_not_said_to_come_before(server: Server, client: Client) -> None:
    """No worker is there, so nobody has passed it over yet."""
    first = await client.schedule("docs", b"1", delay=0, ordering_key="a", expire_after=60)
    second = await client.schedule("docs", b"2", delay=0, ordering_key="a")
    await server.advance(seconds=1)
    waiting = (await client.get(second.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.task_id) == (WaitReason.KEY, first.id)
    await server.advance(seconds=61)
    waiting = (await client.get(second.id)).waiting_for
    assert waiting is not None
    assert waiting.reason is WaitReason.WORKER


async def test_a_retry_of_a_key_is_not_moved(server: Server, client: Client) -> None:
    """Its key would stand still until the attempt is due. A cancel lets the key go on."""
    worker, seen = server.worker(), list[bytes]()

    @worker.on("docs")
    async def fails(delivery: Delivery) -> None:
        seen.append(delivery.payload)
        if delivery.payload == b"head":
            raise Retry(3_600)

    async with server.working(worker):
        head = await client.schedule("docs", b"head", delay=0, ordering_key="a")
        await client.schedule("docs", b"next", delay=0, ordering_key="a")
        await server.advance(seconds=1)
        for move in (client.reschedule(head.id, delay=1), client.fire_now(head.id)):
            with pytest.raises(FailedPrecondition, match="cancel it, and schedule a new one") as refused:
                await move
            assert refused.value.reason == "RETRIES_IN_ORDER"
        assert seen == [b"head"]
        await client.cancel(head.id)
        await server.advance(seconds=1)
    assert seen == [b"head", b"next"]


async def test_order_holds_over_hours_without_workers(server: Server, client: Client, inbox: Inbox) -> None:
    """They went to the backlog of their queue, and come from there."""
    times = [server.now + timedelta(minutes=7 * n) for n in range(1, 31)]
    order = sorted(range(30), key=lambda n: n * 7919 % 1009)
    await client.schedule_many("docs", [Item(b"%d" % n, at=times[n], ordering_key="a") for n in order])
    await server.advance(hours=6)
    assert not server.node.scheduler.memory.order_keys
    desk = await begun(server, inbox, seconds=0.0)
    await server.advance(minutes=2)
    assert inbox.payloads == [b"%d" % n for n in range(30)]
    assert not desk.wrong
    await ledger(server)


async def test_order_holds_over_restarts(server: Server, client: Client, inbox: Inbox) -> None:
    """One is in hand at each of them, one waits for a retry; the worker comes back with what it has."""
    desk = await begun(server, inbox, seconds=40.0)
    desk.fails = {b"2", b"5"}
    tasks = []
    for n in range(10):
        tasks.append(await client.schedule("docs", b"%d" % n, delay=60 + 5 * n, ordering_key="a", retry=QUICK))
    for seconds in (70, 100, 95, 130):
        await server.advance(seconds=seconds)
        await server.restart()
    await server.advance(hours=1)
    numbers = [int(each) for each in inbox.payloads]

    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == list(range(10))
    assert inbox.payloads.count(b"2") == inbox.payloads.count(b"5") == 2
    assert not desk.wrong
    await ledger(server)


async def test_a_handler_that_takes_longer_than_rows_stay_in_their_bucket(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """After ten minutes its row goes to the backlog, at its place; those behind it follow."""
    desk = await begun(server, inbox, seconds=660.0)
    for n in range(2):
        await client.schedule("docs", b"%d" % n, delay=60 + n, ordering_key="a")
    await server.advance(minutes=30)
    assert inbox.payloads == [b"0", b"1"]
    assert not desk.wrong
    assert all(b - a >= timedelta(minutes=11) for a, b in pairwise(inbox.times))
    await ledger(server)
