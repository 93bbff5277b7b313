"""What a worker says of a delivery, by how its task stands: docs/understand/protocol.md, section 6, row by row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc.aio
import pytest

from tests.services.raw_worker import ACK, NACK, REJECT, RELEASE, RawWorker
from timerd.client import Client, TaskState
from timerd.testing import Server
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceStub

LEASE_MS = 2_000
SAID = {"ack": ACK, "nack": NACK, "reject": REJECT, "release": RELEASE}


@dataclass
class Story:
    """One task and two workers; `first` and `second` are the tokens of its deliveries."""

    server: Server
    client: Client
    stub: Any
    task_id: str = ""
    first: bytes = b""
    second: bytes = b""

    async def worker(self, tasks: int = 1) -> RawWorker:
        worker = RawWorker(self.stub.Work())
        await worker.open(pb.Open(credits=[pb.Credit(queue="q", tasks=tasks)], lease_ms=LEASE_MS))
        return worker

    async def deliver(self) -> bytes:
        worker = await self.worker()
        return (await worker.deliver()).ack_tokens

    async def say(self, action: pb.SettleAction, token: bytes, delay_ms: int | None = None) -> pb.SettleConfirmed:
        worker = await self.worker(0)
        await worker.settle(action, token, delay_ms=delay_ms, error="no")
        confirmed = await worker.confirmed()
        worker.call.cancel()
        return confirmed

    async def state(self) -> TaskState:
        return (await self.client.get(self.task_id)).state


async def in_hand(_: Story) -> None:
    """As it was sent."""


async def sent_again(story: Story) -> None:
    await story.say(NACK, story.first, 0)
    story.second = await story.deliver()


async def waiting(story: Story) -> None:
    await story.say(NACK, story.first, 3_600_000)


async def given_back(story: Story) -> None:
    await story.say(RELEASE, story.first)


async def given_back_and_sent_again(story: Story) -> None:
    await story.say(RELEASE, story.first)
    story.second = await story.deliver()


async def acked(story: Story) -> None:
    await story.say(ACK, story.first)


async def dead(story: Story) -> None:
    await story.say(REJECT, story.first)


async def cancelled(story: Story) -> None:
    await waiting(story)
    await story.client.cancel(story.task_id)


async def moved(story: Story) -> None:
    await waiting(story)
    await story.client.reschedule(story.task_id, delay=timedelta(hours=2))


async def redriven(story: Story) -> None:
    await dead(story)
    await story.client.redrive([story.task_id])


How = Callable[[Story], Awaitable[None]]
# How the task stands, what is said by the first token -> for which state it is refused, what the task is then.
TABLE: dict[How, dict[str, tuple[TaskState | None, TaskState]]] = {
    in_hand: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.RETRYING),
        "reject": (None, TaskState.DEAD),
        "release": (None, TaskState.PENDING),
    },
    sent_again: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.IN_FLIGHT),
        "reject": (TaskState.PENDING, TaskState.IN_FLIGHT),
        "release": (None, TaskState.IN_FLIGHT),
    },
    waiting: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.RETRYING),
        "reject": (TaskState.PENDING, TaskState.RETRYING),
        "release": (None, TaskState.RETRYING),
    },
    given_back: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.PENDING),
        "reject": (TaskState.PENDING, TaskState.PENDING),
        "release": (None, TaskState.PENDING),
    },
    given_back_and_sent_again: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.IN_FLIGHT),
        "reject": (TaskState.PENDING, TaskState.IN_FLIGHT),
        "release": (None, TaskState.IN_FLIGHT),
    },
    acked: {
        "ack": (None, TaskState.ACKED),
        "nack": (None, TaskState.ACKED),
        "reject": (TaskState.ACKED, TaskState.ACKED),
        "release": (None, TaskState.ACKED),
    },
    dead: {
        "ack": (TaskState.DEAD, TaskState.DEAD),
        "nack": (None, TaskState.DEAD),
        "reject": (None, TaskState.DEAD),
        "release": (None, TaskState.DEAD),
    },
    cancelled: {
        "ack": (TaskState.CANCELLED, TaskState.CANCELLED),
        "nack": (None, TaskState.CANCELLED),
        "reject": (TaskState.CANCELLED, TaskState.CANCELLED),
        "release": (None, TaskState.CANCELLED),
    },
    moved: {
        "ack": (TaskState.PENDING, TaskState.PENDING),
        "nack": (None, TaskState.PENDING),
        "reject": (TaskState.PENDING, TaskState.PENDING),
        "release": (None, TaskState.PENDING),
    },
    redriven: {
        "ack": (TaskState.DEAD, TaskState.PENDING),
        "nack": (None, TaskState.PENDING),
        "reject": (TaskState.PENDING, TaskState.PENDING),
        "release": (None, TaskState.PENDING),
    },
}
CASES = [(how, said) for how, row in TABLE.items() for said in row]


@pytest.fixture
async def story(server: Server, client: Client) -> AsyncIterator[Story]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        story = Story(server, client, WorkServiceStub(channel))
        story.task_id = (await client.schedule("q", b"x", delay=0)).id
        story.first = await story.deliver()
        yield story


@pytest.mark.parametrize(("how", "said"), CASES, ids=[f"{how.__name__}-{said}" for how, said in CASES])
async def test_what_is_said_is_confirmed_only_where_it_is_so(story: Story, how: How, said: str) -> None:
    why, after = TABLE[how][said]
    await how(story)
    confirmed = await story.say(SAID[said], story.first, 3_600_000 if said == "nack" else None)
    assert (list(confirmed.refused), list(confirmed.states)) == (([], []) if why is None else ([0], [int(why)]))
    assert confirmed.problem.reason == ("" if why is None else "NOT_SETTLED")
    assert await story.state() is after


async def test_a_reject_by_a_token_that_another_worker_has_too_leaves_that_ones_ack_unconfirmed(story: Story) -> None:
    """The one who was asked first decides; the other one hears as what the task has ended."""
    assert not (await story.say(REJECT, story.first)).refused
    confirmed = await story.say(ACK, story.first)
    assert (list(confirmed.refused), list(confirmed.states)) == ([0], [int(TaskState.DEAD)])
    assert "became a dead letter" in confirmed.problem.message
    assert await story.state() is TaskState.DEAD


@pytest.mark.parametrize("said", ["nack", "reject", "release"])
async def test_what_the_first_of_two_deliveries_says_does_not_end_the_second(story: Story, said: str) -> None:
    await sent_again(story)
    await story.say(SAID[said], story.first)
    assert not (await story.say(ACK, story.second)).refused
    assert await story.state() is TaskState.ACKED


@pytest.mark.parametrize("minutes", [1, 60])
async def test_an_attempt_that_never_began_is_not_counted_where_the_one_before_is_acked_late(
    story: Story, minutes: int
) -> None:
    """Whether its place is held by then or not; also when its instant has passed, and after a restart."""
    await story.say(NACK, story.first, minutes * 60_000)
    assert not (await story.say(ACK, story.first)).refused
    assert await shown(story) == (TaskState.ACKED, 1)
    await story.server.advance(minutes=minutes + 1)
    assert await shown(story) == (TaskState.ACKED, 1)
    await story.server.restart()
    assert await shown(story) == (TaskState.ACKED, 1)


async def test_a_handler_that_began_once_is_one_attempt_whatever_its_row_went_through(story: Story) -> None:
    """A graceful restart, and the limit of 10 minutes: the row was carried on as an attempt that nobody was sent."""
    await story.server.restart()
    async with grpc.aio.insecure_channel(story.server.address) as channel:
        story.stub = WorkServiceStub(channel)
        worker = RawWorker(story.stub.Work())
        await worker.open(pb.Open(resume=story.first, credits=[pb.Credit(queue="q", tasks=1)], lease_ms=60_000))
        assert await shown(story) == (TaskState.IN_FLIGHT, 1)
        for _ in range(25):
            await story.server.advance(seconds=30)
            await worker.extend(story.first)
            assert await worker.has_nothing()
        assert await shown(story) == (TaskState.IN_FLIGHT, 1)
        assert not (await story.say(ACK, story.first)).refused
        assert await shown(story) == (TaskState.ACKED, 1)
    await story.server.restart()
    assert await shown(story) == (TaskState.ACKED, 1)


async def test_an_attempt_that_began_is_counted_though_its_row_had_waited_for_another_delivery(story: Story) -> None:
    await story.server.restart()
    async with grpc.aio.insecure_channel(story.server.address) as channel:
        story.stub = WorkServiceStub(channel)
        await story.server.advance(seconds=10)
        story.second = await story.deliver()
        assert await shown(story) == (TaskState.IN_FLIGHT, 2)
        assert not (await story.say(ACK, story.second)).refused
        assert await shown(story) == (TaskState.ACKED, 2)
    await story.server.restart()
    assert await shown(story) == (TaskState.ACKED, 2)


async def shown(story: Story) -> tuple[TaskState, int]:
    """As `get` says it, and `list`."""
    one = await story.client.get(story.task_id)
    since = datetime.fromtimestamp(0, UTC)
    [listed] = [each async for each in story.client.list(start=since, queue="q", states=[one.state])]
    assert (listed.state, listed.attempt) == (one.state, one.attempt)
    return one.state, one.attempt


async def test_what_is_over_is_extended_by_nobody(story: Story) -> None:
    await dead(story)
    worker = await story.worker(0)
    await worker.extend(story.first)
    assert (await worker.next()).extended.lost == story.first
