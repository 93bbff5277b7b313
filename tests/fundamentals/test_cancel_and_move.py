"""Changing one's mind: cancel and reschedule, before and after the task has fired."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, FailedPrecondition, NotFound, TaskState, TimerdError
from timerd.testing import Server
from timerd.testing.async_server import CONFIG
from timerd.worker import Delivery

HOUR = timedelta(hours=1)


async def test_a_cancelled_task_never_comes(server: Server, client: Client, inbox: Inbox) -> None:
    """CANCELLED means that no delivery starts any more."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=3600)
    assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    assert (await client.get(task.id)).state is TaskState.CANCELLED
    await server.advance(hours=2)
    assert inbox.got == []
    assert await ledger(server) == {"inserted": 1, "cancelled": 1}


async def test_a_cancel_in_the_last_millisecond_counts(server: Server, client: Client, inbox: Inbox) -> None:
    """Also where the task is loaded and about to fire."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(milliseconds=59_999)
    assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    await server.advance(hours=1)
    assert inbox.got == []
    assert await ledger(server) == {"inserted": 1, "cancelled": 1}


async def test_a_second_cancel_says_that_it_was_cancelled(server: Server, client: Client) -> None:
    """ALREADY_CANCELLED is another caller's cancel; a repeat of the same request says CANCELLED again."""
    task = await client.schedule("mails", b"x", delay=3600)
    assert await client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED
    assert await client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_CANCELLED
    await server.advance(hours=2)
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_CANCELLED


@pytest.mark.parametrize("delay", [60, 86_400])
async def test_what_was_purged_is_not_cancelled_as_well(server: Server, client: Client, delay: int) -> None:
    """ALREADY_CANCELLED, and it stays PURGED: an hour that is loaded, and one that is not."""
    task = await client.schedule("mails", b"x", delay=delay)
    assert await client.purge(start=server.now, end=server.now + timedelta(days=2), queue="mails", force=True) == 1
    for _ in range(2):
        assert await client.cancel(task.id, request_id="mine") is CancelOutcome.ALREADY_CANCELLED
        assert (await client.get(task.id)).state is TaskState.PURGED
    await server.advance(seconds=delay)
    assert await ledger(server) == {"inserted": 1, "purged": 1}


async def test_a_cancel_after_the_task_fired_says_so(server: Server, client: Client, inbox: Inbox) -> None:
    """ALREADY_FIRED, minutes and hours after the acknowledgement."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=1)
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
    await server.advance(hours=5)
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
    assert (await client.get(task.id)).state is TaskState.ACKED
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_a_task_in_hand_is_in_flight(server: Server, client: Client, inbox: Inbox) -> None:
    """IN_FLIGHT: a worker has it. The cancel stops its retries."""

    async def fails_after_a_minute(_: Delivery) -> None:
        await server.sleep(minutes=1)
        raise RuntimeError("no luck")

    inbox.after = fails_after_a_minute
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=10)
    await server.advance(seconds=20)
    assert (await client.get(task.id)).state is TaskState.IN_FLIGHT
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    await server.advance(hours=1)
    assert inbox.payloads == [b"x"]
    assert (await client.get(task.id)).state is TaskState.CANCELLED
    assert await ledger(server) == {"inserted": 1, "cancelled": 1}


@pytest.mark.parametrize("hours", [0.02, 0.5, 5, 20])
async def test_reschedule_earlier_and_later(server: Server, client: Client, inbox: Inbox, hours: float) -> None:
    """The task comes once, at its new instant; its id stays."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=2 * 3600)
    wanted = server.now + timedelta(hours=hours)
    assert await client.reschedule(task.id, at=wanted) == wanted
    assert (await client.get(task.id)).fire_time == wanted
    await server.advance(hours=hours + 0.5)
    assert inbox.times == [wanted]
    assert inbox.got[0].delivery.task_id == task.id
    await server.advance_to(max(server.now, task.fire_time))
    assert await ledger(server) == {"inserted": 2, "moved": 1, "acked": 1}


async def test_moved_three_times_then_cancelled(server: Server, client: Client, inbox: Inbox) -> None:
    """Later, earlier, later, cancelled: nothing comes, and the first id answers until history_retention is over."""
    await inbox.works("mails")
    start = server.now
    task = await client.schedule("mails", b"x", at=start + 2 * HOUR)
    for hours in (5, 1, 3):
        await client.reschedule(task.id, at=start + hours * HOUR)
    assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    await server.advance(hours=20)
    assert inbox.got == []
    assert (await client.get(task.id)).state is TaskState.CANCELLED
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_CANCELLED
    await server.advance(hours=48)
    assert (await client.get(task.id)).state is TaskState.FINISHED
    assert await client.cancel(task.id) is CancelOutcome.FINISHED


@pytest.mark.parametrize(
    ("history_days", "state", "again", "refusal"),
    [
        (10, TaskState.CANCELLED, CancelOutcome.ALREADY_CANCELLED, FailedPrecondition),
        (1, TaskState.FINISHED, CancelOutcome.FINISHED, NotFound),
    ],
)
async def test_an_id_is_asked_two_days_after_three_moves_and_a_cancel(
    tmp_path: Path, history_days: int, state: TaskState, again: CancelOutcome, refusal: type[TimerdError]
) -> None:
    """Moved later, earlier than at first, and later again, with a restart after each: the first id tells the end as
    long as it is kept, and that it is over afterwards; the task never comes."""
    config = replace(CONFIG, history_retention_ms=history_days * 86_400_000)
    async with Server(data=tmp_path / "data", config=config) as server:
        client, inbox = server.client(), Inbox(server)
        await inbox.works("mails")
        start = server.now
        task = await client.schedule("mails", b"x", at=start + 2 * HOUR)
        for hours in (5, 1, 3):
            await client.reschedule(task.id, at=start + hours * HOUR)
            await server.restart()
            assert (await client.get(task.id)).fire_time == start + hours * HOUR
        assert await client.cancel(task.id) is CancelOutcome.CANCELLED
        await server.advance(days=2)
        assert (await client.get(task.id)).state is state
        assert await client.cancel(task.id) is again
        with pytest.raises(refusal):
            await client.reschedule(task.id, delay=60)
        await server.advance(hours=1)
        assert inbox.got == []


async def test_a_task_that_fired_cannot_be_moved(server: Server, client: Client, inbox: Inbox) -> None:
    """A reschedule that comes too late is refused with a sentence; the task is not delivered again."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=2)
    with pytest.raises(FailedPrecondition):
        await client.reschedule(task.id, delay=60)
    await server.advance(hours=1)
    assert inbox.payloads == [b"x"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_a_repeated_move_is_one_move_and_other_content_is_another(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """The same request_id with the same time answers as the first time; with another time the task is moved again."""
    await inbox.works("mails")
    start = server.now
    task = await client.schedule("mails", b"x", delay=60)
    for minutes in (10, 10, 20):
        at = start + timedelta(minutes=minutes)
        assert await client.reschedule(task.id, at=at, request_id="r") == at
    await server.advance(minutes=30)
    assert inbox.times == [start + timedelta(minutes=20)]


async def test_fire_now(server: Server, client: Client, inbox: Inbox) -> None:
    """FireNow brings a far task at once, and only once."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=timedelta(days=300))
    await client.fire_now(task.id)
    await server.settle()
    assert inbox.times == [server.now]
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED


async def test_an_id_that_was_never_given_is_not_found(server: Server, client: Client) -> None:
    """Foreign or invented ids: NOT_FOUND, whatever is asked."""
    task = await client.schedule("mails", b"x", delay=60)
    async with Server() as other:
        stranger = other.client()
        assert await stranger.cancel(task.id) is CancelOutcome.NOT_FOUND
        with pytest.raises(NotFound):
            await stranger.get(task.id)


async def test_a_move_to_now_that_took_too_long_to_be_written_is_a_move_to_what_is_now_by_then(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All before the holder's last mark is over: a row that is written there is refused, however often it is tried."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=200)
    await client.schedule_many("mails", [(b"%d" % n, server.now + timedelta(seconds=n)) for n in range(100)])
    await server.advance(seconds=50)
    time = server.node.time
    seen_ms: list[int] = []

    def slow() -> int:
        late_ms = 5_000 if len(seen_ms) < 3 else 0
        seen_ms.append(accepting_ms() - late_ms)
        return seen_ms[-1]

    accepting_ms = time.accepting_ms
    monkeypatch.setattr(time, "accepting_ms", slow)
    await client.reschedule(task.id, at=server.now - timedelta(seconds=7))
    assert len(seen_ms) > 3, "the first tries are refused"
    await server.advance(milliseconds=1)
    assert inbox.payloads.count(b"x") == 1
