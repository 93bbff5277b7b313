"""A worker is told on which of its deliveries the work is for nothing: at once, and with each sign of life later."""

from __future__ import annotations

import pytest

from tests.services.raw_worker import ACK, NACK, RawWorker, Rig, rig
from tests.unit.deliveries import QUEUE, taken_of, tokens_of
from timerd.core.taken import Taken
from timerd.model.errors import StoreUnavailable
from timerd.model.task import RetryPolicy, Template
from timerd.services.engine.verbs import State
from timerd.v1 import work_service_pb2 as pb

__all__ = ["rig"]

ONCE = Template("default", "mail", retry=RetryPolicy(max_attempts=1))
ENDING = Template("default", "mail", expire_after_ms=3_000)
CANCELLED, EXPIRED = pb.INTERRUPT_REASON_CANCELLED, pb.INTERRUPT_REASON_EXPIRED
LOST = pb.INTERRUPT_REASON_LOST


def cancel(rig: Rig, taken: Taken) -> None:
    """As the holder of its row does when a worker has it."""
    rig.delivery.machine.interrupts.cancelled(taken.key(0))


async def told(worker: RawWorker) -> tuple[pb.InterruptReason, bytes]:
    response = await worker.next()
    assert response.WhichOneof("response") == "interrupt", response
    return response.interrupt.reason, response.interrupt.ack_tokens


async def delivered(rig: Rig, taken: Taken, *, lease_ms: int = 0) -> tuple[RawWorker, bytes]:
    rig.firing.put(taken)
    worker = await rig.worker(("mail", len(taken)), lease_ms=lease_ms)
    return worker, (await worker.deliver()).ack_tokens


async def test_at_once_and_after_each_sign_of_life_until_it_is_settled(rig: Rig) -> None:
    taken = taken_of(range(2))
    worker, tokens = await delivered(rig, taken)
    cancel(rig, taken)
    cancel(rig, taken)
    assert await told(worker) == (CANCELLED, tokens[:64])
    assert await worker.has_nothing(), "the other task was not cancelled, and once is enough"
    for _ in range(2):
        await worker.extend(tokens)
        assert await told(worker) == (CANCELLED, tokens[:64])
    await worker.settle(ACK, tokens[:64])
    assert await worker.confirmed() == pb.SettleConfirmed(sequence=5)
    assert len(rig.firing.ended) == 1, "it was acknowledged as ever"
    await worker.extend(tokens)
    assert (await worker.next()).extended.lost == tokens[:64]


async def test_what_was_said_on_a_broken_stream_is_said_on_the_next_one(rig: Rig) -> None:
    taken = taken_of(range(1))
    worker, tokens = await delivered(rig, taken)
    worker.call.cancel()
    await rig.settle_down()
    cancel(rig, taken)
    back = await rig.worker(resume=tokens)
    assert back.opened.lost == b""
    assert await told(back) == (CANCELLED, tokens), "as it comes back"
    await back.extend(tokens)
    assert await told(back) == (CANCELLED, tokens)


async def test_who_has_it_no_more_is_told_that_alone(rig: Rig) -> None:
    old = taken_of(range(1))
    worker, tokens = await delivered(rig, taken_of(range(1), version=1))
    cancel(rig, old)
    assert await told(worker) == (CANCELLED, tokens)
    await worker.extend(tokens_of(old))
    assert (await worker.next()).extended.lost == tokens_of(old)
    assert await worker.has_nothing()


async def test_an_only_attempt_that_ends_by_it_leaves_no_dead_letter(rig: Rig) -> None:
    """Its row goes on as the next attempt, which its holder ends as cancelled."""
    taken = taken_of(range(2), ONCE)
    worker, tokens = await delivered(rig, taken)
    cancel(rig, taken)
    await told(worker)
    await worker.settle(NACK, tokens, error="no")
    await worker.confirmed()
    assert [each.key for each in rig.firing.failed] == [taken.key(0)]
    assert len(rig.firing.dead_letters) == 1, "of the other one"
    stats = rig.delivery.queue_stats.of(QUEUE)
    assert (stats.outcomes["interrupted"], stats.outcomes["failed"]) == (1, 1)


async def test_whose_time_is_over_is_told_why(rig: Rig) -> None:
    worker, tokens = await delivered(rig, taken_of(range(1), ENDING))
    await rig.advance(5_001)
    assert await told(worker) == (EXPIRED, tokens)


async def test_whose_lease_is_over_is_told_that_it_lost_the_task(rig: Rig) -> None:
    worker, tokens = await delivered(rig, taken_of(range(1)), lease_ms=1_000)
    await rig.advance(1_100)
    assert await told(worker) == (LOST, tokens)


async def test_of_what_was_cancelled_the_end_of_the_lease_says_nothing_else(rig: Rig) -> None:
    taken = taken_of(range(1))
    worker, tokens = await delivered(rig, taken, lease_ms=1_000)
    cancel(rig, taken)
    assert await told(worker) == (CANCELLED, tokens)
    await rig.advance(1_100)
    assert await worker.has_nothing()


@pytest.mark.parametrize(
    ("state", "reason"),
    [(State.CANCELLED, CANCELLED), (State.PURGED, CANCELLED), (State.EXPIRED, EXPIRED)],
)
async def test_of_what_is_from_before_a_restart_the_store_knows(
    rig: Rig, state: State, reason: pb.InterruptReason
) -> None:
    tokens = tokens_of(taken_of(range(2)))
    rig.firing.states[taken_of(range(1)).digests[0]] = state
    worker = await rig.worker(resume=tokens)
    assert await told(worker) == (reason, tokens[:64]), "as it comes back"
    for _ in range(2):
        await worker.extend(tokens)
        assert await told(worker) == (reason, tokens[:64])


async def test_what_the_store_does_not_say_is_asked_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = taken_of(range(1))
    tokens = tokens_of(taken)
    rig.firing.states[taken.digests[0]] = State.CANCELLED

    async def fails(_: object) -> State:
        raise StoreUnavailable("The store does not answer.", "STORE_UNAVAILABLE")

    with monkeypatch.context() as away:
        away.setattr(rig.firing, "state_of", fails)
        worker = await rig.worker(resume=tokens)
        await worker.extend(tokens)
        assert await worker.has_nothing()
    await worker.extend(tokens)
    assert await told(worker) == (CANCELLED, tokens)


async def test_who_polls_hears_of_it_when_it_extends(rig: Rig) -> None:
    taken = taken_of(range(2))
    rig.firing.put(taken)
    tasks = (await rig.stub.Receive(pb.ReceiveRequest(queue="mail", max_tasks=2))).tasks
    cancel(rig, taken)
    asked = pb.ExtendRequest(ack_tokens=[task.ack_token for task in tasks])
    for _ in range(2):
        extended = await rig.stub.Extend(asked)
        assert list(extended.lost) == []
        assert list(extended.interrupts) == [pb.Interrupt(ack_tokens=tasks[0].ack_token, reason=CANCELLED)]
    await rig.stub.Finish(pb.FinishRequest(ack_tokens=[tasks[0].ack_token], action=ACK))
    assert [each.key for each in rig.firing.ended] == [taken.key(0)]
    assert not (await rig.stub.Extend(asked)).interrupts
