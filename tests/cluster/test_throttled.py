"""A handler that was throttled on several instances: the instance that has sent the task holds the queue."""

from __future__ import annotations

from timerd.testing import Cluster
from timerd.worker import Delivery, Throttled


async def test_what_was_throttled_comes_again_with_the_same_attempt_whoever_has_sent_it() -> None:
    """Its worker's home is another instance than the one that holds most of the tasks; no attempt is used up."""
    async with Cluster("a", "b") as cluster:
        worker, seen = cluster.worker("a"), list[tuple[bytes, int]]()

        @worker.on("charges")
        async def charge(delivery: Delivery) -> None:
            seen.append((delivery.payload, delivery.attempt))
            if len([each for each in seen if each[0] == delivery.payload]) == 1:
                raise Throttled(5)

        await worker.start()
        client = cluster.client("b")
        tasks = [await client.schedule("charges", b"%d" % n, delay=20 + n * 300) for n in range(4)]
        await cluster.advance(minutes=22)
        assert sorted(seen) == sorted([(b"%d" % n, 1) for n in range(4)] * 2)
        assert {(await client.get(task.id)).state.name for task in tasks} == {"ACKED"}
