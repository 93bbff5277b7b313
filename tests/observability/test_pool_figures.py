"""The metric of slots, and what people see of pools."""

from __future__ import annotations

from tests.observability.watched_node import watched
from timerd.core.assignment import Pools
from timerd.core.taken import QueueKey
from timerd.observability.collector import exposition
from timerd.observability.pool_figures import MOST_POOLS, OTHERS, PoolFigures, pools_of
from timerd.testing import Server
from timerd.worker import Delivery


async def test_slots_are_counted_by_pool_and_state() -> None:
    async with Server() as server:
        for slots in (2, 3):
            worker = server.worker()
            pool = worker.pool("convert", slots=slots)

            @pool.on("pdf")
            async def pdf(_: Delivery) -> None:
                await server.sleep(minutes=5)

            await worker.start()
        await server.client().schedule("pdf", b"x", delay=1)
        await server.advance(seconds=2)
        with watched(server.node) as observed:
            text = exposition(await observed.figures()).decode()
        shown = (await server.client().overview()).instances[0].workers
    assert 'timerd_slots{namespace="default",pool="convert",state="free"} 4.0' in text
    assert 'timerd_slots{namespace="default",pool="convert",state="taken"} 1.0' in text
    assert sorted((each.pools[0].free, each.pools[0].slots) for each in shown) == [(1, 2), (3, 3)]


def test_many_names_are_one_pool_together() -> None:
    pools = Pools()
    for number in range(MOST_POOLS + 5):
        pools.join(number, f"p{number}", [QueueKey("n", "q")], 2)
        pools.add(number, f"p{number}", 1)
    figures = pools_of(pools)
    assert len(figures) == MOST_POOLS + 1
    assert figures[OTHERS] == PoolFigures(free=5, taken=5)
