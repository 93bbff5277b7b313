"""From rows to tasks, by a relay and a real server, on both engines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.outbox.made import cancel, move, schedule
from tests.outbox.relaying import DAY_MS, TIMEOUT_S, drained, now_ms, running
from tests.process.waiting import eventually
from timerd.client import CancelOutcome, NotFound, TaskState
from timerd.outbox.messages import rows_in
from timerd.outbox.outcomes import Next, SendOutcome, of_whole
from timerd.outbox.ports import DatabaseAway, OutboxFacts, OutboxStore, Sending
from timerd.outbox.rows import SealedBatch
from timerd.outbox.sending import GrpcSending
from timerd.sdk.values import datetime_of_ms
from timerd.sdk.values.errors import make_error
from timerd.testing import Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """By itself its clock stands in 2030, years ahead of the database's: all requests would be too old."""
    async with Server(start=datetime.now(UTC)) as server:
        yield server


@pytest.fixture
async def sending(server: Server) -> AsyncIterator[GrpcSending]:
    sending = GrpcSending(server.connect_options, TIMEOUT_S)
    yield sending
    await sending.close()


async def test_rows_become_tasks(outbox: OutboxStore, server: Server, sending: GrpcSending) -> None:
    at_ms = now_ms(server) + DAY_MS
    options = '{"labels": {"team": "blue"}, "priority": 3}'
    await outbox.put([schedule(b"1", fire_at_ms=at_ms), schedule(b"2", "ada", fire_at_ms=at_ms, options=options)])
    async with running(outbox, sending):
        await drained(outbox)
    client = server.client()
    found = [task async for task in client.list(queue="mails", include_payload=True)]
    assert [(task.payload, task.fire_at_ms) for task in found] == [(b"1", at_ms), (b"2", at_ms)]
    ada = await client.get(key="ada")
    assert (ada.labels, ada.priority) == ({"team": "blue"}, 3)


async def test_what_is_written_in_a_row_is_done_in_that_order(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    at_ms = now_ms(server) + DAY_MS
    await outbox.put([schedule(b"1", "a", fire_at_ms=at_ms), move("a", at_ms + 1), cancel("a")])
    await outbox.put([schedule(b"2", "a", fire_at_ms=at_ms), move("a", at_ms + 2), move("a", at_ms + 3)])
    async with running(outbox, sending), running(outbox, sending):
        await drained(outbox)
    task = await server.client().get(key="a")
    assert (task.payload, task.fire_at_ms) == (b"2", at_ms + 3)
    assert await outbox.refused(10) == []
    assert await server.client().count(start=datetime_of_ms(0), end=datetime_of_ms(at_ms + DAY_MS)) == 1


async def test_a_cancel_without_a_task_is_done_and_a_move_is_refused(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    await outbox.put([cancel("nobody"), move("nobody", now_ms(server) + DAY_MS)])
    async with running(outbox, sending) as relay:
        await drained(outbox)
    [fact] = await outbox.refused(10)
    assert (fact.refused.row.key, fact.refused.reason) == ("nobody", "NOT_FOUND")
    assert relay.counts["tasks"] == 1


async def test_a_refused_item_holds_up_no_other(outbox: OutboxStore, server: Server, sending: GrpcSending) -> None:
    at_ms = now_ms(server) + DAY_MS
    await server.client().schedule("mails", b"before", key="taken", delay=60)
    await outbox.put([schedule(b"1", "taken", fire_at_ms=at_ms), schedule(b"2", fire_at_ms=at_ms)])
    async with running(outbox, sending):
        await drained(outbox)
    assert [each.refused.reason for each in await outbox.refused(10)] == ["KEY_TAKEN"]
    assert (await server.client().get(key="taken")).payload == b"before"


class Unanswered:
    """Sends by another one, whose first answers are lost on the way back."""

    def __init__(self, sending: Sending, lost: int) -> None:
        self._sending = sending
        self._lost = lost
        self.sent: list[bytes] = []

    async def send(self, batch: SealedBatch) -> SendOutcome:
        self.sent.append(batch.request)
        outcome = await self._sending.send(batch)
        if self._lost:
            self._lost -= 1
            return SendOutcome(Next.AGAIN, why=make_error("UNKNOWN", "The answer was lost.", "", 0, ""))
        return outcome


async def test_the_same_bytes_are_sent_until_they_are_answered(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    at_ms = now_ms(server) + DAY_MS
    await outbox.put([schedule(b"1", "a", fire_at_ms=at_ms), schedule(b"2", fire_at_ms=at_ms)])
    heard = Unanswered(sending, 2)
    async with running(outbox, heard) as relay:
        await drained(outbox)
    assert len(heard.sent) == 3
    assert len(set(heard.sent)) == 1
    assert relay.counts["again"] == 2
    assert len([task async for task in server.client().list(queue="mails")]) == 2


async def test_another_relay_sends_what_one_has_left(outbox: OutboxStore, server: Server, sending: GrpcSending) -> None:
    """It was sent and not let go: the bytes are known, so the cancel that came since stands."""
    await outbox.put([schedule(b"1", "a", fire_at_ms=now_ms(server) + DAY_MS)])
    [batch], _ = await outbox.seal("dead", 0.0)
    assert (await sending.send(batch)).next is Next.DONE
    assert await server.client().cancel(key="a") is CancelOutcome.CANCELLED
    await outbox.put([schedule(b"2", "a", fire_at_ms=now_ms(server) + DAY_MS)])
    async with running(outbox, sending) as relay:
        await drained(outbox)
    assert relay.counts["taken over"] == 1
    assert (await server.client().get(key="a")).payload == b"2"


async def test_a_late_repeat_of_a_cancel_spares_the_next_task_of_the_key(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    """A relay stood still with the message on its way: X5, while the server remembers."""
    await outbox.put([cancel("a")])
    [late], _ = await outbox.seal("stalled", 0.0)
    async with running(outbox, sending):
        await drained(outbox)
        await outbox.put([schedule(b"1", "a", fire_at_ms=now_ms(server) + DAY_MS)])
        await drained(outbox)
    assert (await sending.send(late)).next is Next.DONE
    assert (await server.client().get(key="a")).state is TaskState.PENDING


async def test_no_send_is_carried_out_that_the_server_may_have_forgotten(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    """X5: a send that comes more than a day late is known by its task that is there still, or it is refused."""
    await outbox.put([schedule(b"1", "a", fire_at_ms=now_ms(server) + 30 * DAY_MS), cancel("b")])
    [late, cancelled], _ = await outbox.seal("stalled", 60.0)
    assert (await sending.send(late)).next is Next.DONE
    await server.client().cancel(key="a")
    await server.advance(days=3)
    await server.client().schedule("mails", b"2", key="b", delay=60)
    assert (await sending.send(cancelled)).next is Next.ANEW
    await sending.send(late)
    assert [task.key async for task in server.client().list(queue="mails")] == ["b"]


async def test_what_waited_for_more_than_a_day_is_made_anew(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    """The database's clock is three days behind the server's, so all its requests are that old: the new one as well,
    and nothing is lost of it."""
    await outbox.put([schedule(b"1", "a", fire_at_ms=now_ms(server) + 30 * DAY_MS)])
    await server.advance(days=3)
    async with running(outbox, sending) as relay:

        async def was_made_anew() -> bool:
            return relay.counts["anew"] >= 2

        await eventually(was_made_anew, "it is made anew")
    with pytest.raises(NotFound):
        await server.client().get(key="a")
    [batch] = (await outbox.facts()).sealed
    assert batch.tasks == 1


class RefusesOne:
    """A server that refuses a message as a whole for one of its rows."""

    def __init__(self, sending: Sending, bad: bytes) -> None:
        self._sending = sending
        self._bad = bad

    async def send(self, batch: SealedBatch) -> SendOutcome:
        if any(row.payload == self._bad for row in rows_in(batch)):
            return of_whole(batch, make_error("INVALID_ARGUMENT", "One of them is bad.", "INVALID", 0, ""))
        return await self._sending.send(batch)


async def test_a_batch_is_halved_down_to_the_row_that_is_bad(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    at_ms = now_ms(server) + DAY_MS
    await outbox.put([schedule(b"%d" % number, f"k{number}", fire_at_ms=at_ms) for number in range(21)])
    await outbox.put([cancel("k3")])
    async with running(outbox, RefusesOne(sending, b"7")):
        await drained(outbox)
    assert [each.refused.row.payload for each in await outbox.refused(10)] == [b"7"]
    left = {task.key async for task in server.client().list(queue="mails")}
    assert left == {f"k{number}" for number in range(21)} - {"k3", "k7"}


class Away:
    """A database that fails now and then, before or after it has done what it was asked."""

    def __init__(self, outbox: OutboxStore, failures: Sequence[str]) -> None:
        self._outbox = outbox
        self._failures = [*failures]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        method: Callable[..., Awaitable[Any]] = getattr(self._outbox, name)

        async def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
            answer = await method(*given, **named)
            if self._failures and self._failures[0] == name and answer not in (None, ([], 0), []):
                self._failures.pop(0)
                raise DatabaseAway("The answer to the commit was lost.")
            return answer

        return run


async def test_a_commit_whose_answer_was_lost_is_found(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    """At once, and not when the lease is over."""
    await outbox.put([schedule(b"1", "a", fire_at_ms=now_ms(server) + DAY_MS)])
    away: Any = Away(outbox, ["seal", "take_over"])
    async with running(away, sending):
        await drained(outbox)
    assert (await server.client().get(key="a")).payload == b"1"
    assert not away._failures


async def test_a_row_waits_for_what_another_relay_has_of_its_key(
    outbox: OutboxStore, server: Server, sending: GrpcSending
) -> None:
    at_ms = now_ms(server) + DAY_MS
    await outbox.put([schedule(b"1", "a", fire_at_ms=at_ms)])
    [lower], _ = await outbox.seal("another", 60.0)
    await outbox.put([cancel("a"), schedule(b"2", fire_at_ms=at_ms), schedule(b"3", "b", fire_at_ms=at_ms)])
    async with running(outbox, sending):

        async def two_are_there() -> bool:
            facts = await outbox.facts()
            return (facts.rows, _numbers(facts)) == (1, [lower.no])

        await eventually(two_are_there, "what has another key, or none, waits for nobody")
        await sending.send(lower)
        await outbox.done(lower, [])
        await drained(outbox)
    left = [task.payload async for task in server.client().list(queue="mails", include_payload=True)]
    assert sorted(left) == [b"2", b"3"]


def _numbers(facts: OutboxFacts) -> Collection[int]:
    return [each.no for each in facts.sealed]
