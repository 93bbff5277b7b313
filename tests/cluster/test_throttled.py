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


async def test_a_customer_who_was_throttled_waits_and_the_others_go_on() -> None:
    """On the instance that has sent the task; a limit that has a rate is not held for all of them."""
    async with Cluster("a") as cluster:
        worker, seen = cluster.worker("a"), list[str]()

        @worker.on("charges")
        async def charge(delivery: Delivery) -> None:
            seen.append(delivery.payload.decode())
            if seen == ["acme 0"]:
                raise Throttled(60, by_key=True)

        await worker.start()
        client = cluster.client("a")
        await client.queues.put("charges", rate="100/s")
        for n, customer in enumerate(("acme", "acme", "globex")):
            await client.schedule("charges", f"{customer} {n}".encode(), delay=5 + n * 5, limit_key=customer)
        await cluster.advance(seconds=30)
        assert seen == ["acme 0", "globex 2"]
        assert (await client.queues.get("charges")).held_until is None
        await cluster.advance(seconds=60)
        assert sorted(seen) == ["acme 0", "acme 0", "acme 1", "globex 2"]
