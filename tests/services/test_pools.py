"""Pools on the Work stream: slots that several queues share, and whose task each gets."""

from __future__ import annotations

import pytest

from tests.services.pooled import delivered, tasks
from tests.services.raw_worker import ACK, RELEASE, RawWorker, Rig, rig, serving
from timerd.core.dispatch import Allowance, Slice
from timerd.core.taken import QueueKey
from timerd.services.dispatch import due_looks
from timerd.v1 import work_service_pb2 as pb

__all__ = ["rig"]

CONVERT = pb.Pool(name="convert", queues=["pdf", "excel"], slots=2)


async def test_queues_share_the_slots_of_a_pool_and_never_take_more(rig: Rig) -> None:
    rig.firing.put(tasks("pdf", range(5), waited_ms=10))
    rig.firing.put(tasks("excel", range(5)))
    worker = await rig.worker(pools=[CONVERT])
    assert worker.opened.knows_pools
    assert await worker.has_nothing(), "no slot is free before the worker says so"
    await rig.settle_down()
    assert rig.delivery.is_idle, "what has no slot is not looked at"
    await worker.free(2)
    assert await delivered(worker, 2) == ["pdf", "pdf"]
    await worker.free(1)
    assert await delivered(worker, 1) == ["pdf"]
    assert await worker.has_nothing()
    await rig.settle_down()
    assert rig.delivery.is_idle
    await worker.free(1_000)
    assert len(await delivered(worker, 2)) == 2, "a pool has no more free slots than it has slots"
    assert await worker.has_nothing()


@pytest.mark.parametrize(("waited_ms", "queue"), [(319_999, "excel"), (320_001, "pdf")])
async def test_a_freed_slot_gets_the_task_of_the_greatest_score(rig: Rig, waited_ms: int, queue: str) -> None:
    rig.firing.put(tasks("excel", range(1), priority=5))
    rig.firing.put(tasks("pdf", range(1), waited_ms=waited_ms))
    worker = await rig.worker(pools=[CONVERT])
    await worker.free(1)
    assert await delivered(worker, 1) == [queue]
    assert await worker.has_nothing()


async def test_what_two_queues_have_due_is_sent_in_the_order_of_both(rig: Rig) -> None:
    for number in range(8):
        rig.firing.put(tasks("pdf" if number % 2 else "excel", range(number, number + 1), waited_ms=1_000 - number))
    worker = await rig.worker(pools=[pb.Pool(name="convert", queues=["pdf", "excel"], slots=8)])
    await worker.free(8)
    assert await delivered(worker, 8) == ["excel", "pdf"] * 4


async def test_a_rare_type_passes_one_that_many_slots_can_run(rig: Rig) -> None:
    only_pdf = await rig.worker(pools=[pb.Pool(name="plain", queues=["pdf"], slots=99)])
    versatile = await rig.worker(pools=[pb.Pool(name="convert", queues=["pdf", "excel"], slots=1)])
    rig.firing.put(tasks("pdf", range(1), waited_ms=30_000))
    rig.firing.put(tasks("excel", range(1)))
    await versatile.free(1)
    assert await delivered(versatile, 1) == ["excel"]
    assert await versatile.has_nothing()
    await only_pdf.free(1, "plain")
    assert await delivered(only_pdf, 1) == ["pdf"]


async def test_a_task_goes_to_the_worker_that_can_do_least_else(rig: Rig) -> None:
    versatile = await rig.worker(pools=[CONVERT])
    await versatile.free(2)
    plain = await rig.worker(pools=[pb.Pool(name="plain", queues=["pdf"], slots=2)])
    await plain.free(2, "plain")
    await rig.settle_down()
    rig.firing.put(tasks("pdf", range(3)))
    assert [len((await worker.deliver()).fire_at_ms) for worker in (plain, versatile)] == [2, 1]
    rig.firing.put(tasks("excel", range(1)))
    assert await delivered(versatile, 1) == ["excel"]


async def test_what_is_due_later_takes_a_free_slot_when_it_is_due(rig: Rig) -> None:
    worker = await rig.worker(pools=[CONVERT])
    await worker.free(2)
    rig.firing.put(tasks("pdf", range(1), waited_ms=-500))
    assert await worker.has_nothing()
    await rig.advance(500)
    assert await delivered(worker, 1) == ["pdf"]


class Shut:
    """A limit that lets nothing of a queue go until the test opens it."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.is_open = False

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        is_shut = queue.queue == self.queue and not self.is_open
        return Allowance(0, now_ms + 1_000) if is_shut else Allowance(tasks, now_ms)

    def sent(self, sent: Slice) -> float:
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """Nothing is kept."""


async def test_a_row_that_waits_for_a_limit_holds_no_slot() -> None:
    shut = Shut("pdf")
    async with serving(shut) as rig:
        rig.firing.put(tasks("pdf", range(1), waited_ms=60_000))
        rig.firing.put(tasks("excel", range(2)))
        worker = await rig.worker(pools=[CONVERT])
        for _ in range(2):
            await worker.free(1)
            assert await delivered(worker, 1) == ["excel"]
        await worker.free(1)
        assert await worker.has_nothing()
        await rig.settle_down()
        assert rig.delivery.is_idle, "it is looked at when the limit says so"
        shut.is_open = True
        await rig.advance(1_000)
        assert await delivered(worker, 1) == ["pdf"]


async def test_slots_leave_with_their_stream_and_what_they_had_comes_again(rig: Rig) -> None:
    rig.firing.put(tasks("pdf", range(3)))
    lost = await rig.worker(pools=[CONVERT])
    await lost.free(2)
    assert await delivered(lost, 2) == ["pdf", "pdf"]
    lost.call.cancel()
    await rig.settle_down()
    assert not rig.delivery.machine.capacity.pools
    other = await rig.worker(pools=[CONVERT])
    await other.free(2)
    assert await delivered(other, 1) == ["pdf"], "the grace of the others is not over"
    await rig.advance(2_000)
    assert await delivered(other, 1) == ["pdf"], "one slot was left"
    assert await other.has_nothing()
    await other.free(2)
    assert await delivered(other, 1) == ["pdf"]
    rig.delivery.machine.check()


async def test_a_worker_that_stops_gets_nothing_more(rig: Rig) -> None:
    worker = await rig.worker(pools=[CONVERT])
    await worker.free(2)
    await worker.settle(RELEASE, b"")
    await worker.confirmed()
    rig.firing.put(tasks("pdf", range(1)))
    assert await worker.has_nothing()


async def test_credit_and_pools_stand_side_by_side(rig: Rig) -> None:
    plain = await rig.worker(("pdf", 2))
    pooled = await rig.worker(pools=[CONVERT])
    await pooled.free(2)
    await rig.settle_down()
    rig.firing.put(tasks("pdf", range(6)))
    assert await delivered(plain, 2) == await delivered(pooled, 2) == ["pdf", "pdf"]
    assert await plain.has_nothing()
    await pooled.free(1)
    assert await delivered(pooled, 1) == ["pdf"]
    await plain.credit("pdf", 1)
    assert await delivered(plain, 1) == ["pdf"]


async def test_credit_for_a_pool_may_come_with_what_it_acknowledges(rig: Rig) -> None:
    rig.firing.put(tasks("pdf", range(1)))
    worker = await rig.worker(pools=[CONVERT])
    await worker.free(1)
    tokens = (await worker.deliver()).ack_tokens
    rig.firing.put(tasks("excel", range(1)))
    credits = [pb.Credit(pool="convert", tasks=1)]
    await worker.call.write(
        pb.WorkRequest(settle=pb.Settle(sequence=1, action=ACK, ack_tokens=tokens, credits=credits))
    )
    assert {(await worker.next()).WhichOneof("response") for _ in range(2)} == {"confirmed", "deliver"}


async def test_a_server_that_goes_away_fills_no_slot(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    # As with so many queues that not all of them are looked at in each round.
    monkeypatch.setattr(due_looks, "LOOKED_AT", 0)
    worker = await rig.worker(pools=[CONVERT])
    await worker.free(2)
    rig.firing.put(tasks("pdf", range(1), waited_ms=-500))
    await rig.settle_down()
    await rig.delivery.drain(10)
    await rig.advance(500)
    assert rig.delivery.in_flight == 0
    assert rig.delivery.is_idle, "what is due is not looked at again and again"


PDF_TWICE = [CONVERT, pb.Pool(name="other", queues=["pdf"], slots=1)]


@pytest.mark.parametrize(
    ("opening", "sentence"),
    [
        (pb.Open(pools=PDF_TWICE), "The queue 'pdf' is in the pools 'convert' and 'other': name it in one of them."),
        (pb.Open(pools=[CONVERT, CONVERT]), "Two pools of the worker have the same name: give each its own."),
        (pb.Open(pools=[pb.Pool(name="p", queues=["pdf"])]), "The pool 'p' has 0 slots: give 1 to 1,000,000."),
        (pb.Open(pools=[pb.Pool(name="p", slots=1)]), "The pool 'p' has no queues: name those that share its slots."),
        (
            pb.Open(pools=[pb.Pool(name="p", queues=["pdf", "pdf"], slots=1)]),
            "The pool 'p' names a queue twice: name each once.",
        ),
        (pb.Open(pools=[pb.Pool(queues=["pdf"], slots=1)]), "A pool has no name: give it one"),
        (
            pb.Open(pools=[CONVERT], credits=[pb.Credit(queue="pdf", tasks=1)]),
            "The queue 'pdf' is in the pool 'convert': give credit for the pool instead.",
        ),
        (pb.Open(credits=[pb.Credit(pool="p", tasks=1)]), "The worker has not declared a pool 'p'"),
        (
            pb.Open(pools=[CONVERT], credits=[pb.Credit(pool="convert", queue="pdf", tasks=1)]),
            "A credit is for a queue or for a pool: leave one of them out.",
        ),
    ],
)
async def test_a_wrong_pool_is_refused_in_a_sentence(rig: Rig, opening: pb.Open, sentence: str) -> None:
    worker = RawWorker(rig.stub.Work())
    await worker.call.write(pb.WorkRequest(open=opening))
    assert sentence in await worker.refusal()


async def test_credit_for_a_queue_of_a_pool_is_refused_later_as_well(rig: Rig) -> None:
    worker = await rig.worker(pools=[CONVERT])
    await worker.credit("excel", 1)
    assert "give credit for the pool instead" in await worker.refusal()
