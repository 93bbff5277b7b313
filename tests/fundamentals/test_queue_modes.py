"""Modes of a queue: what is paused starts nothing, what is drained takes nothing in, over restarts too."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import (
    Aborted,
    CancelOutcome,
    Client,
    FailedPrecondition,
    InvalidTask,
    Item,
    ItemOutcome,
    PartlyStored,
    QueueMode,
    RetryPolicy,
    TaskState,
    WaitReason,
)
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery


async def test_nothing_of_a_paused_queue_starts_and_all_of_it_comes_when_it_is_resumed(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await inbox.works("mails", "letters")
    paused = await client.queues.pause("mails", note="the printer burns")
    assert (paused.mode, paused.note, paused.revision, paused.silent) == (QueueMode.PAUSED, "the printer burns", 1, ())
    for n in range(20):
        await client.schedule("mails", b"m%d" % n, delay=n)
    await client.schedule("letters", b"l", delay=5)
    await server.advance(minutes=30)
    assert inbox.payloads == [b"l"]
    resumed = await client.queues.resume("mails")
    assert (resumed.mode, resumed.note, resumed.revision) == (QueueMode.RUNNING, "", 2)
    await server.settle()
    assert sorted(inbox.payloads[1:]) == sorted(b"m%d" % n for n in range(20))
    await client.schedule("mails", b"later", delay=1)
    await server.advance(seconds=1)
    assert inbox.payloads[-1] == b"later"


async def test_a_paused_queue_with_due_tasks_is_no_ailment(server: Server, client: Client) -> None:
    """It is said, but not as what is wrong; of other queues that wait, it is."""
    await client.queues.pause("mails")
    await client.schedule("mails", b"x", delay=1)
    await server.advance(minutes=5)
    info = await client.server_info()
    assert (list(info.advice), info.HasField("oldest_due_time")) == ([], False)
    (note,) = info.notes
    assert note.startswith("The queue 'mails' of the namespace 'default' is paused and has 1 due task:")
    await client.schedule("bills", b"x", delay=1)
    await server.advance(minutes=5)
    info = await client.server_info()
    assert any("due for more than a minute" in sentence for sentence in info.advice)
    assert len(info.notes) == 1


async def test_a_pause_survives_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await client.queues.pause("mails")
    await server.restart()
    await server.advance(minutes=5)
    await server.restart()
    await server.advance(minutes=5)
    assert inbox.got == []
    assert (await client.cancel(task.id)) is CancelOutcome.CANCELLED
    await client.queues.resume("mails")
    await server.advance(minutes=5)
    assert inbox.got == []


async def test_what_a_worker_has_goes_on_and_its_next_attempt_waits(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def fails_once(delivery: Delivery) -> None:
        await server.sleep(seconds=100)
        if delivery.attempt == 1:
            raise RuntimeError("no")

    inbox.after = fails_once
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1, retry=RetryPolicy(initial_backoff=60, jitter=0))
    await server.advance(seconds=2)
    await client.queues.pause("mails")
    await server.advance(seconds=110)
    retrying = await client.get(task.id)
    assert (retrying.state, retrying.attempt) == (TaskState.RETRYING, 1)
    assert retrying.waiting_for is not None
    assert (retrying.waiting_for.reason, retrying.waiting_for.until) == (WaitReason.RETRY, retrying.due_time)
    await server.advance(minutes=10)
    assert inbox.attempts == [1]
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, "timerd queues resume mails" in waiting.description) == (WaitReason.PAUSED, True)
    await client.queues.resume("mails")
    await server.advance(seconds=101)
    assert inbox.attempts == [1, 2]
    assert (await client.get(task.id)).waiting_for is None


async def test_a_pause_with_an_end_ends_by_itself_at_that_instant(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    end = server.now + timedelta(minutes=2, milliseconds=250)
    paused = await client.queues.pause("mails", until=end, note="a move")
    assert paused.until == end
    task = await client.schedule("mails", b"x", delay=1)
    await server.advance(minutes=1)
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until) == (WaitReason.PAUSED, end)
    await server.advance(minutes=2)
    assert inbox.times == [end]
    over = await client.queues.get("mails")
    assert (over.mode, over.until, over.note, over.revision) == (QueueMode.RUNNING, None, "", 1)


@pytest.mark.parametrize("mode", ["drain", "stop"])
async def test_a_queue_that_takes_nothing_in_refuses_before_anything_is_written(
    server: Server, client: Client, inbox: Inbox, mode: str
) -> None:
    await inbox.works("mails")
    await client.schedule("mails", b"before", delay=60)
    await getattr(client.queues, mode)("mails", note="we move to letters")
    for call in (client.schedule("mails", b"x", delay=1), client.schedule_columns("mails", [b"x"], [0])):
        with pytest.raises(FailedPrecondition, match=r"takes no tasks in, .*we move to letters") as refused:
            await call
        assert (refused.value.reason, refused.value.field) == ("QUEUE_SHUT", "template.queue")
    assert len([task async for task in client.list()]) == 1
    await server.advance(minutes=2)
    assert inbox.payloads == ([b"before"] if mode == "drain" else [])
    await client.queues.resume("mails")
    await client.schedule("mails", b"after", delay=0)
    await server.settle()
    assert sorted(inbox.payloads) == [b"after", b"before"]


async def test_of_a_message_of_many_queues_the_others_are_stored(server: Server, client: Client) -> None:
    await client.queues.drain("mails")
    template = {queue: {"queue": queue} for queue in ("mails", "letters")}
    items = [pb.TaskItem(payload=b"x", template=template[queue]) for queue in ("letters", "mails", "letters")]
    for item in items:
        item.delay.FromSeconds(60)
    request = pb.ScheduleBatchRequest(items=pb.TaskItems(items=items), request_id="many")
    # A repeat is told as the first time which are stored, and why the others are not.
    for _ in range(2):
        reply = await client._calls("ScheduleBatch", request, pb.ScheduleBatchResponse)
        assert [ItemOutcome(each.outcome) for each in reply.results] == [
            ItemOutcome.STORED,
            ItemOutcome.NOT_STORED,
            ItemOutcome.STORED,
        ]
        assert reply.results[1].problem.reason == "QUEUE_SHUT"
    assert len([task async for task in client.list()]) == 2
    with pytest.raises((PartlyStored, FailedPrecondition), match="takes no tasks in"):
        await client.schedule_many("mails", [Item(b"x", delay=1)])


async def test_the_repeat_of_a_call_that_was_stored_is_answered_as_the_first_time(
    server: Server, client: Client
) -> None:
    at = server.now + timedelta(minutes=1)
    first = await client.schedule("mails", b"x", at=at, request_id="once")
    await client.queues.stop("mails")
    assert (await client.schedule("mails", b"x", at=at, request_id="once")).id == first.id
    with pytest.raises(FailedPrecondition):
        await client.schedule("mails", b"x", at=at, request_id="twice")
    assert len([task async for task in client.list()]) == 1


async def test_the_repeat_of_a_pause_changes_nothing(server: Server, client: Client) -> None:
    first = await client.queues.pause("mails", note="why", request_id="one")
    assert await client.queues.pause("mails", note="why") == first
    await client.queues.resume("mails")
    again = await client.queues.pause("mails", note="why", request_id="one")
    assert again == first
    assert (await client.queues.get("mails")).mode is QueueMode.RUNNING


async def test_only_the_revision_that_was_seen_is_changed(server: Server, client: Client) -> None:
    seen = await client.queues.pause("mails")
    await client.queues.resume("mails")
    with pytest.raises(Aborted, match="have revision 2 by now, not 1") as refused:
        await client.queues.drain("mails", revision=seen.revision)
    assert refused.value.reason == "REVISION_CHANGED"


async def test_queues_with_rules_are_listed_by_name_and_namespaces_are_apart(server: Server, client: Client) -> None:
    other = server.client(namespace="other")
    for name in ("c", "a", "b"):
        await client.queues.pause(name)
    await other.queues.drain("a")
    assert [(each.name, each.mode) async for each in client.queues.list()] == [
        ("a", QueueMode.PAUSED),
        ("b", QueueMode.PAUSED),
        ("c", QueueMode.PAUSED),
    ]
    assert [(each.name, each.mode) async for each in other.queues.list()] == [("a", QueueMode.DRAINING)]
    unruled = await client.queues.get("unheard-of")
    assert (unruled.mode, unruled.revision) == (QueueMode.RUNNING, 0)


async def test_what_is_due_waits_for_a_worker_where_there_is_none(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=60)
    assert (await client.get(task.id)).waiting_for is None
    await server.advance(minutes=2)
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until) == (WaitReason.WORKER, None)


async def test_what_is_wrong_is_refused_with_a_sentence(server: Server, client: Client) -> None:
    with pytest.raises(InvalidTask, match=r"until is 2029-.*, and it is 2030-.* already: give a later instant"):
        await client.queues.pause("mails", until=server.now - timedelta(days=1))
    with pytest.raises(InvalidTask, match=r"The queue 'a b' is not allowed"):
        await client.queues.pause("a b")
    with pytest.raises(InvalidTask, match="The note has 1025 characters"):
        await client.queues.pause("mails", note="x" * 1_025)
    assert [each async for each in client.queues.list()] == []
