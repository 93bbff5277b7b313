"""Pools where the tasks of their queues are held by several instances: a slot is lent for one task, or used here."""

from __future__ import annotations

from tests.cluster.relays import Cluster
from tests.services.pooled import delivered, tasks
from tests.services.raw_worker import ACK, RawWorker
from timerd.core.dispatch.grants import LOAN_MS
from timerd.core.taken import QueueKey
from timerd.v1 import work_service_pb2 as pb

PDF = QueueKey("default", "pdf")


async def pooled(cluster: Cluster, home: str, slots: int) -> RawWorker:
    """A worker whose slots are all free."""
    pool = pb.Pool(name="convert", queues=["pdf", "excel"], slots=slots)
    worker = await cluster.worker(home, pools=[pool])
    await worker.free(slots)
    await cluster.settle_down()
    return worker


def free(cluster: Cluster, home: str) -> int:
    return cluster[home].delivery.machine.capacity.pools.free(PDF)


async def test_a_slot_serves_tasks_that_other_instances_hold_and_no_more_than_it_can() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await pooled(cluster, "A", 3)
        for at, (name, queue) in enumerate(zip("ABC", ("pdf", "excel", "pdf"), strict=True)):
            cluster[name].firing.put(tasks(queue, range(10 * at, 10 * at + 4)))
        assert len(await delivered(worker, 3)) == 3
        assert await worker.has_nothing()
        await cluster.settle_down()
        assert (sum(cluster.in_flight("ABC")), free(cluster, "A")) == (3, 0)
        for _ in range(9):
            await worker.free(1)
            assert len(await delivered(worker, 1)) == 1
            assert await worker.has_nothing()
        await worker.free(3)
        await cluster.settle_down()
        assert (sum(cluster.in_flight("ABC")), free(cluster, "A")) == (12, 3)


async def test_who_has_waited_longest_is_first_whoever_holds_it() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await pooled(cluster, "A", 1)
        cluster["A"].firing.put(tasks("excel", range(1), waited_ms=1_000))
        assert await delivered(worker, 1) == ["excel"]
        cluster["A"].firing.put(tasks("excel", range(1, 2), waited_ms=2_000))
        cluster["B"].firing.put(tasks("pdf", range(2), waited_ms=3_000))
        cluster["C"].firing.put(tasks("excel", range(9, 10), waited_ms=2_500))
        await cluster.settle_down()
        found = []
        for _ in range(4):
            await worker.free(1)
            found += await delivered(worker, 1)
        assert found == ["pdf", "pdf", "excel", "excel"]
        assert cluster.in_flight("ABC") == [2, 2, 1]


async def test_an_ack_of_what_came_from_elsewhere_frees_its_slot_at_home() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await pooled(cluster, "A", 1)
        cluster["B"].firing.put(tasks("pdf", range(2)))
        for _ in range(2):
            await worker.settle(ACK, (await worker.deliver()).ack_tokens)
            assert not (await worker.confirmed()).HasField("problem")
            assert await worker.has_nothing(), "its handler may still run"
            await worker.free(1)
        await cluster.settle_down()
        assert (free(cluster, "A"), len(cluster["B"].firing.ended)) == (1, 2)


async def test_a_slot_that_was_lent_and_not_used_goes_to_the_next_one() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await pooled(cluster, "A", 1)
        cluster["B"].firing.put(tasks("pdf", range(1), waited_ms=-8))
        await cluster.settle_down()
        assert free(cluster, "A") == 0, "it is B's for a task that is due in 8 ms"
        cluster["A"].firing.put(tasks("excel", range(1)))
        assert await worker.has_nothing()
        cluster["B"].firing.waiting.clear()
        await cluster.advance(1)
        assert await delivered(worker, 1) == ["excel"]


async def test_who_keeps_a_slot_for_too_long_loses_it_and_comes_last() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await pooled(cluster, "A", 1)
        cluster["B"].firing.put(tasks("pdf", range(3), waited_ms=-8))
        await cluster.settle_down()
        # B does not trust its clock.
        cluster["B"].firing.now_ms = None
        cluster["A"].firing.put(tasks("excel", range(1), waited_ms=-LOAN_MS))
        cluster["A"].firing.turn_clock(LOAN_MS)
        assert await delivered(worker, 1) == ["excel"]


async def test_slots_that_were_lent_to_a_peer_come_back_when_its_stream_breaks() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await pooled(cluster, "A", 2)
        cluster["B"].firing.put(tasks("pdf", range(2), waited_ms=-8))
        await cluster.settle_down()
        assert free(cluster, "A") == 0
        await cluster.kill("B")
        assert free(cluster, "A") == 2
        cluster["A"].firing.put(tasks("pdf", range(5, 9)))
        assert await delivered(worker, 2) == ["pdf", "pdf"]
        assert await worker.has_nothing()


async def test_a_worker_that_is_gone_leaves_no_slot_anywhere() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await pooled(cluster, "A", 2)
        cluster["B"].firing.put(tasks("pdf", range(2), waited_ms=-8))
        await cluster.settle_down()
        worker.call.cancel()
        await cluster.settle_down()
        await cluster.advance(LOAN_MS)
        assert [cluster[name].delivery.machine.wanted(PDF) for name in "AB"] == [0, 0]
        other = await pooled(cluster, "A", 1)
        assert await delivered(other, 1) == ["pdf"]
        assert await other.has_nothing()
        cluster["A"].delivery.machine.check()


async def test_two_homes_lend_their_own_slots() -> None:
    async with Cluster("A", "B", "C") as cluster:
        workers = [await pooled(cluster, name, 1) for name in "AB"]
        cluster["C"].firing.put(tasks("pdf", range(4)))
        for worker in workers:
            assert await delivered(worker, 1) == ["pdf"]
            assert await worker.has_nothing()
        await cluster.settle_down()
        assert cluster.in_flight("ABC") == [0, 0, 2]
