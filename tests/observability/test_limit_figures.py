"""Limits as metrics."""

from __future__ import annotations

from tests.observability.watched_node import watched
from timerd.client import KeyLimit, KeyRules
from timerd.core.regulation import LimitLabels
from timerd.observability.collector import exposition
from timerd.testing import Server
from timerd.worker import Delivery

STRIPE, OWN = LimitLabels("default", "", "stripe"), LimitLabels("default", "refunds", "")


async def test_what_is_in_hand_and_waits_by_limit() -> None:
    async with Server() as server:
        client, worker = server.client(), server.worker()

        @worker.on("charges", concurrency=16)
        @worker.on("refunds", concurrency=16)
        async def works(_: Delivery) -> None:
            await server.sleep(seconds=60)

        await worker.start()
        await client.limits.put("stripe", max_in_hand=3)
        await client.queues.put("charges", limits=["stripe"])
        await client.queues.put("refunds", limits=["stripe"], rate="1/s", burst=1)
        for queue in ["charges"] * 4 + ["refunds"] * 2:
            await client.schedule(queue, b"", delay=1)
        await server.advance(seconds=10)
        with watched(server.node) as observed:
            figures = await observed.figures()
        stripe, own = figures.limits[STRIPE], figures.limits[OWN]
        assert (stripe.in_hand, stripe.capacity, stripe.waiting) == (3, 3, 3)
        assert (own.capacity, stripe.throttled > 0) == (0, True)
        text = exposition(figures).decode()
        assert 'timerd_limit_in_hand{limit="stripe",namespace="default",queue=""} 3.0' in text
        assert 'timerd_limit_waiting{limit="stripe",namespace="default",queue=""} 3.0' in text
        assert f'timerd_limit_throttled_total{{limit="",namespace="default",queue="refunds"}} {own.throttled}.0' in text


async def test_limit_keys_are_counted_and_none_is_a_label() -> None:
    """Ann may have two, of both queues; Bob has one of his queue, and one task is no customer's."""
    async with Server() as server:
        client, worker = server.client(), server.worker()

        @worker.on("charges", concurrency=16)
        @worker.on("refunds", concurrency=16)
        async def works(_: Delivery) -> None:
            await server.sleep(seconds=60)

        await worker.start()
        await client.limits.put("stripe", max_in_hand=2, keyed=True)
        await client.queues.put("charges", limits=["stripe"], keys=KeyRules(share=1))
        await client.queues.put("refunds", limits=["stripe"], keys=KeyRules(KeyLimit(max_in_hand=1), share=1))
        for queue, limit_key in [("charges", "ann")] * 4 + [("refunds", "bob")] * 3 + [("charges", "")]:
            await client.schedule(queue, b"", delay=1, limit_key=limit_key)
        await server.advance(seconds=10)
        with watched(server.node) as observed:
            figures = await observed.figures()
        stripe, own = figures.limits[STRIPE], figures.key_use[OWN]
        assert (stripe.in_hand, stripe.capacity, stripe.waiting, stripe.throttled > 0) == (3, 0, 2, True)
        assert (own.keys_in_hand, own.keys_held, own.in_hand, own.waiting, own.capacity) == (1, 1, 1, 2, 1)
        text = exposition(figures).decode()
        assert 'timerd_limit_keys{limit="stripe",namespace="default",queue="",state="in_hand"} 2.0' in text
        assert 'timerd_limit_keys{limit="stripe",namespace="default",queue="",state="held"} 1.0' in text
        assert 'timerd_limit_keys{limit="",namespace="default",queue="refunds",state="held"} 1.0' in text
        assert 'timerd_limit_key_capacity{limit="stripe",namespace="default",queue=""} 2.0' in text
        assert '"ann"' not in text
        await client.queues.put("charges", keys=KeyRules(share=1))
        await server.advance(seconds=1)
        with watched(server.node) as observed:
            assert (await observed.figures()).key_use[STRIPE].keys_held == 0


async def test_a_breaker_that_has_opened() -> None:
    async with Server() as server:
        client, worker = server.client(), server.worker()

        @worker.on("charges", concurrency=20)
        async def fails(_: Delivery) -> None:
            raise RuntimeError("503")

        await worker.start()
        await client.queues.put("charges", breaker=True)
        for _ in range(20):
            await client.schedule("charges", b"", delay=1)
        await server.advance(seconds=2)
        with watched(server.node) as observed:
            figures = await observed.figures()
        text = exposition(figures).decode()
        assert 'timerd_breaker_state{namespace="default",queue="charges"} 2.0' in text
        assert 'timerd_breaker_openings_total{namespace="default",queue="charges"} 1.0' in text
