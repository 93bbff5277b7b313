"""Tasks that make another one when they end: `on_end`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, EndedTask, InvalidTask, Item, RetryPolicy, TaskInfo, TaskKeywords, TaskState
from timerd.model import codec
from timerd.model.errors import StoreUnavailable
from timerd.model.identity import parse_task_id
from timerd.services.holding.effect_runner import EffectRunner
from timerd.testing import Cluster, Server
from timerd.worker import Delivery, Reject

ONCE = RetryPolicy(max_attempts=1)
END: TaskKeywords = {"on_end": "ends"}


class Ends:
    """What the handler of the queue `ends` hears."""

    def __init__(self, server: Server) -> None:
        self.heard: list[EndedTask] = []
        self.deliveries: list[Delivery] = []
        self.worker = server.worker()
        self.worker.on("ends")(self)

    async def __call__(self, delivery: Delivery) -> None:
        assert delivery.ended is not None
        self.heard.append(delivery.ended)
        self.deliveries.append(delivery)

    @property
    def outcomes(self) -> list[TaskState]:
        return [each.outcome for each in self.heard]


@pytest.fixture
async def ends(server: Server) -> Ends:
    ends = Ends(server)
    await ends.worker.start()
    return ends


async def refuse(_: Delivery) -> None:
    raise Reject("there is no such street")


async def test_what_is_acknowledged_tells_who_it_was(server: Server, client: Client, inbox: Inbox, ends: Ends) -> None:
    await inbox.works("mails")
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    given: TaskKeywords = {"labels": {"tenant": "7"}, "limit_key": "acme", "traceparent": trace, **END}
    task = await client.schedule("mails", b"x", delay=60, key="ada", **given)
    assert (await client.get(task.id)).on_end == "ends"
    await server.advance(minutes=2)
    [heard] = ends.heard
    assert (heard.outcome, heard.task_id, heard.queue, heard.key) == (TaskState.ACKED, task.id, "mails", "ada")
    assert (heard.labels, heard.attempt, heard.last_error) == ({"tenant": "7"}, 1, "")
    assert heard.delivery_id == inbox.got[0].delivery.delivery_id
    assert heard.fire_time == task.fire_time <= heard.end_time <= server.now
    [delivery] = ends.deliveries
    assert delivery.traceparent == trace
    assert delivery.lateness < timedelta(seconds=1)
    assert (await client.get(heard.task_id)).state is TaskState.ACKED


async def test_each_way_to_end_tells_of_itself(server: Server, client: Client, inbox: Inbox, ends: Ends) -> None:
    inbox.after = refuse
    await inbox.works("mails")
    dead = await client.schedule("mails", b"x", delay=10, **END)
    expired = await client.schedule("nobody", b"x", delay=20, expire_after=10, on_end="ends")
    cancelled = await client.schedule("mails", b"x", delay=90, **END)
    purged = await client.schedule("letters", b"x", delay=90, **END)
    await client.cancel(cancelled.id)
    await client.purge(queue="letters", start=server.now, end=server.now + timedelta(minutes=5), force=True)
    await server.advance(seconds=15)
    assert {each.task_id: each.outcome for each in ends.heard} == {
        dead.id: TaskState.DEAD,
        cancelled.id: TaskState.CANCELLED,
        purged.id: TaskState.PURGED,
    }
    [letter] = [each for each in ends.heard if each.outcome is TaskState.DEAD]
    assert (letter.attempt, letter.last_error) == (1, "there is no such street")
    await server.advance(seconds=30)
    await Inbox(server).works("nobody")
    await server.advance(seconds=1)
    assert (ends.heard[3:][0].task_id, ends.outcomes[3:]) == (expired.id, [TaskState.EXPIRED])


async def test_who_dies_between_the_end_and_its_task_has_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is durable, and the instance cannot insert anything more."""
    heard: list[str] = []
    tried = asyncio.Event()

    async def hear(delivery: Delivery) -> None:
        assert delivery.ended is not None
        heard.append(delivery.ended.task_id)

    async def ack(_: Delivery) -> None:
        return

    async def fails(*_: object) -> None:
        tried.set()
        raise StoreUnavailable("no", "STORE_UNAVAILABLE")

    async with Cluster("a", "b") as cluster:
        worker = cluster.worker("a", "b")
        worker.on("mails")(ack)
        worker.on("ends")(hear)
        await worker.start()
        task = await cluster.client("a").schedule("mails", b"x", delay=1, **END)
        with monkeypatch.context() as dying:
            dying.setattr(EffectRunner, "_made", fails)
            advancing = asyncio.create_task(cluster.advance(seconds=3))
            await tried.wait()
            advancing.cancel()
            await asyncio.wait([advancing])
            home = parse_task_id(task.id)
            assert home is not None
            [holder] = await cluster.holders(home.home)
            await cluster.kill(holder)
        assert heard == []
        await cluster.advance(minutes=2)
        assert heard == [task.id]


async def test_restarts_after_the_end_make_no_second_one(
    server: Server, client: Client, inbox: Inbox, ends: Ends
) -> None:
    """An older task is open, so that each holder meets the end again."""
    await client.schedule("slow", b"x", delay=1)
    await inbox.works("mails")
    await client.schedule_many("mails", [Item(b"%d" % n, delay=2) for n in range(5)], **END)
    await server.advance(seconds=5)
    for _ in range(3):
        await server.restart()
        await server.advance(seconds=20)
    assert len(ends.heard) == len({each.task_id for each in ends.heard}) == 5
    await Inbox(server).works("slow")
    counts = await ledger(server)
    assert counts["acked"] == 11


async def test_its_queue_refuses_nobody(server: Server, client: Client, inbox: Inbox, ends: Ends) -> None:
    """The task was taken in with all that follows from it: what takes nothing in from callers takes this."""
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60, **END)
    await client.queues.stop("ends")
    await server.advance(minutes=2)
    assert ends.heard == []
    [waits] = [each async for each in client.list(queue="ends", start=server.now - timedelta(hours=1), end=server.now)]
    assert isinstance(waits, TaskInfo)
    assert (waits.state, waits.on_end) == (TaskState.PENDING, "")
    await client.queues.resume("ends")
    await server.settle()
    assert ends.outcomes == [TaskState.ACKED]


async def test_a_life_after_a_dead_letter_has_an_end_of_its_own(
    server: Server, client: Client, inbox: Inbox, ends: Ends
) -> None:
    inbox.after = refuse
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1, retry=ONCE, on_end="ends")
    await server.advance(seconds=5)
    inbox.after = None
    await client.redrive([task.id])
    await server.advance(minutes=1)
    assert ends.outcomes == [TaskState.DEAD, TaskState.ACKED]
    assert len({each.delivery_id for each in ends.heard}) == 2
    assert {each.task_id for each in ends.heard} == {task.id}


async def test_a_task_that_has_moved_ends_once(server: Server, client: Client, inbox: Inbox, ends: Ends) -> None:
    first = await client.schedule("mails", b"x", delay=60, **END)
    second = await client.schedule("mails", b"x", delay=60, **END)
    for task in (first, second):
        await client.reschedule(task.id, delay=120)
    await client.cancel(first.id)
    await server.advance(minutes=1)
    assert [each.task_id for each in ends.heard] == [first.id]
    await inbox.works("mails")
    await server.advance(minutes=3)
    assert [each.task_id for each in ends.heard] == [first.id, second.id]


async def test_what_is_cancelled_far_ahead_tells_when_its_time_has_come(
    server: Server, client: Client, ends: Ends
) -> None:
    """Nobody has it in memory before."""
    task = await client.schedule("mails", b"x", delay=timedelta(days=2), **END)
    await client.cancel(task.id)
    await server.advance(minutes=10)
    assert ends.heard == []
    await server.advance(days=2)
    assert [(each.task_id, each.outcome) for each in ends.heard] == [(task.id, TaskState.CANCELLED)]


async def test_others_of_the_message_tell_nothing(server: Server, client: Client, inbox: Inbox, ends: Ends) -> None:
    await inbox.works("mails")
    tasks = await client.schedule_many("mails", [Item(b"a", delay=1), Item(b"b", delay=1, on_end="ends")])
    await server.advance(seconds=5)
    assert [each.task_id for each in ends.heard] == [tasks[1].id]


async def test_a_name_that_is_none_is_refused(client: Client) -> None:
    with pytest.raises(InvalidTask, match="'two words' is not allowed") as refused:
        await client.schedule("mails", b"x", delay=1, on_end="two words")
    assert refused.value.field == "template.on_end"


async def test_whoever_holds_the_task_and_is_killed_its_end_is_told_once() -> None:
    async with Cluster("a", "b", "c") as cluster:
        worker, heard = cluster.worker("b", "c"), list[str]()

        @worker.on("mails")
        async def send(_: Delivery) -> None:
            return

        @worker.on("ends")
        async def hear(delivery: Delivery) -> None:
            assert delivery.ended is not None
            heard.append(delivery.ended.task_id)

        await worker.start()
        tasks = [await cluster.client("b").schedule("mails", b"x", delay=5 + 40 * n, **END) for n in range(8)]
        await cluster.advance(minutes=2)
        await cluster.kill("a")
        await cluster.advance(minutes=8)
    assert sorted(heard) == sorted(task.id for task in tasks)


async def test_while_an_instance_does_not_know_it_no_task_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end the task and tell nobody."""
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.ON_END})
            await cluster.add("b")
        await cluster.advance(seconds=5)
        with pytest.raises(Exception, match="Not every instance knows on_end: b is of an older release"):
            await cluster.client("a").schedule("mails", b"1", delay=60, **END)
        await cluster.client("a").schedule("mails", b"1", delay=60)
