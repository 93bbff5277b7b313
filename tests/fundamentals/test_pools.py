"""Pools on a whole server: the SDK, rules of queues, restarts, several instances."""

from __future__ import annotations

from timerd.client import KeyLimit, KeyRules
from timerd.testing import Cluster, Server
from timerd.worker import Delivery

TAKES_S = 10


class Converters:
    """A worker whose handlers take ten seconds, and what it has in hand."""

    def __init__(self, server: Server | Cluster, slots: int, *queues: str, home: str = "") -> None:
        self._server = server
        self.worker = server.worker(home) if isinstance(server, Cluster) else server.worker()
        self.begun: list[str] = []
        self.now = self.most = 0
        pool = self.worker.pool("convert", slots=slots)
        for queue in queues:
            pool.on(queue)(self._handle)

    async def _handle(self, delivery: Delivery) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.append(delivery.payload.decode())
        try:
            await self._server.sleep(seconds=TAKES_S)
        finally:
            self.now -= 1


async def test_a_freed_slot_gets_the_most_urgent_task_of_all_queues_of_the_pool() -> None:
    async with Server() as server:
        two, client = Converters(server, 1, "pdf", "excel"), server.client()
        for queue, priority, delay in (("pdf", 0, 1), ("pdf", 9, 2), ("excel", 0, 3), ("excel", 4, 4)):
            await client.schedule(queue, f"{queue} {priority}", delay=delay, priority=priority)
        await two.worker.start()
        await server.advance(seconds=60)
        assert two.begun == ["pdf 0", "pdf 9", "excel 4", "excel 0"]
        assert two.most == 1


async def test_a_task_of_a_paused_queue_holds_no_slot_and_takes_one_when_it_goes_on() -> None:
    async with Server() as server:
        two, client = Converters(server, 1, "pdf", "excel"), server.client()
        await client.queues.pause("pdf")
        await client.schedule("pdf", b"pdf", delay=1, priority=9)
        await client.schedule("excel", b"excel", delay=2)
        await two.worker.start()
        await server.advance(seconds=60)
        assert two.begun == ["excel"]
        await client.queues.resume("pdf")
        await server.advance(seconds=1)
        assert two.begun == ["excel", "pdf"]


async def test_a_task_that_waits_for_its_key_or_a_limit_leaves_the_slot_to_others() -> None:
    async with Server() as server:
        two, client = Converters(server, 3, "pdf", "excel"), server.client()
        await client.queues.put("excel", max_in_hand=1)
        for number in range(2):
            await client.schedule("pdf", f"pdf {number}", delay=1, ordering_key="doc-1", priority=9)
            await client.schedule("excel", f"excel {number}", delay=1, priority=9)
        await client.schedule("pdf", b"other", delay=2)
        await two.worker.start()
        await server.advance(seconds=5)
        assert sorted(two.begun) == ["excel 0", "other", "pdf 0"]
        await server.advance(seconds=TAKES_S)
        assert sorted(two.begun[3:]) == ["excel 1", "pdf 1"]
        assert two.most == 3


async def test_limit_keys_take_turns_in_the_slots_of_a_pool_each_within_its_limit() -> None:
    async with Server() as server:
        two, client = Converters(server, 3, "pdf", "excel"), server.client()
        await client.queues.put("pdf", keys=KeyRules(KeyLimit(max_in_hand=1), share=1))
        for number in range(4):
            await client.schedule("pdf", f"acme {number}", delay=1, limit_key="acme")
        await client.schedule("pdf", b"globex", delay=2, limit_key="globex")
        await client.schedule("excel", b"excel", delay=3)
        await two.worker.start()
        await server.advance(seconds=5)
        assert sorted(two.begun) == ["acme 0", "excel", "globex"]
        await server.advance(seconds=4 * TAKES_S)
        assert sorted(two.begun) == ["acme 0", "acme 1", "acme 2", "acme 3", "excel", "globex"]
        assert two.most == 3


async def test_a_key_that_waited_for_its_rate_gets_a_slot_when_it_may_go_on() -> None:
    async with Server() as server:
        two, client = Converters(server, 3, "pdf", "excel"), server.client()
        await client.queues.put("pdf", keys=KeyRules(KeyLimit(rate="1/s", burst=1), share=1))
        for number in range(3):
            await client.schedule("pdf", f"acme {number}", delay=1, limit_key="acme")
        await two.worker.start()
        for count in (1, 2, 3):
            await server.advance(seconds=1)
            assert len(two.begun) == count


async def test_after_a_restart_the_slots_in_use_stay_in_use() -> None:
    async with Server() as server:
        two, client = Converters(server, 2, "pdf", "excel"), server.client()
        for number in range(4):
            await client.schedule("pdf" if number % 2 else "excel", str(number), delay=1)
        await two.worker.start()
        await server.advance(seconds=2)
        assert len(two.begun) == 2
        await server.restart()
        await server.advance(seconds=2)
        assert len(two.begun) == 2
        await server.advance(seconds=30)
        assert sorted(two.begun) == ["0", "1", "2", "3"]
        assert two.most == 2


async def test_plain_functions_share_the_slots_as_well() -> None:
    async with Server() as server:
        worker, client, done = server.worker(), server.client(), list[str]()
        pool = worker.pool("convert", slots=2)

        @pool.on("pdf", timeout=30)
        def pdf(delivery: Delivery) -> None:
            done.append(delivery.queue)

        pool.on("excel")(pdf)
        await client.schedule_many("pdf", [(b"x", 1)] * 50)
        await client.schedule_many("excel", [(b"x", 1)] * 50)
        await worker.start()
        await server.advance(seconds=2)
        assert (done.count("pdf"), done.count("excel")) == (50, 50)


async def test_with_three_instances_a_worker_has_no_more_in_hand_than_it_has_slots() -> None:
    """The tasks are of several buckets, and so of several holders."""
    async with Cluster("a", "b", "c") as cluster:
        two, client = Converters(cluster, 2, "pdf", "excel", home="a"), cluster.client("b")
        for number in range(12):
            await client.schedule("pdf" if number % 2 else "excel", str(number), delay=30 + number * 100)
        await cluster.advance(minutes=21)
        await two.worker.start()
        await cluster.advance(minutes=2)
        assert sorted(two.begun, key=int) == [str(number) for number in range(12)]
        assert two.most == 2


async def test_what_a_killed_instance_had_comes_to_the_slots_of_another_one() -> None:
    async with Cluster("a", "b") as cluster:
        two, client = Converters(cluster, 2, "pdf", "excel", home="a"), cluster.client("a")
        for number in range(6):
            await client.schedule("pdf" if number % 2 else "excel", str(number), delay=600 + number * 100)
        await two.worker.start()
        await cluster.advance(minutes=9)
        await cluster.kill("b")
        await cluster.advance(minutes=12)
        assert sorted(set(two.begun), key=int) == [str(number) for number in range(6)]
        assert two.most <= 2
