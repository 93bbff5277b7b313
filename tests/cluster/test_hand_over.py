"""Instances come, leave and die under a schedule: everything fires, on time where nobody died, and nobody who was
away goes on with what is not his any more."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from tests.cluster.crowd import QUEUE, Crowd
from timerd.client import CancelOutcome
from timerd.core.cluster.membership import Timing
from timerd.core.cluster.placement import holder_of
from timerd.core.partition.holding import Phase
from timerd.model.partition import Partition
from timerd.sdk.values.times import datetime_of_ms
from timerd.services.work import moving_away
from timerd.testing.cluster import Running
from timerd.worker import Delivery

TTL_S = Timing().ttl_ms / 1000


async def until(crowd: Crowd, moment: datetime) -> None:
    await crowd.cluster.advance(moment - crowd.cluster.now)


def token_of(holder: Running, partition: Partition) -> int:
    control = holder.node.scheduler.machines[partition].control
    assert control is not None
    return control.token


async def test_each_partition_is_where_it_is_placed_and_fires_there() -> None:
    async with Crowd() as crowd:
        await crowd.plan(80, timedelta(minutes=20))
        await crowd.cluster.advance(minutes=22)
        assert not crowd.missing
        assert not crowd.twice
        assert max(crowd.lateness_s()) == 0
        assert {name for _, _, name in crowd.got} == set(crowd.names)


async def test_a_dead_holder_is_replaced_within_its_lease_and_five_seconds() -> None:
    async with Crowd() as crowd:
        bucket = crowd.bucket_of("b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=20))
        await crowd.plan(80, timedelta(minutes=4))
        await crowd.cluster.advance(minutes=1)
        assert await crowd.cluster.holders(bucket) == ["b"]
        await crowd.kill("b")
        await crowd.cluster.advance(minutes=9)
        assert not crowd.missing
        assert min(crowd.lateness_s()) >= 0
        assert TTL_S / 2 < max(crowd.lateness_s()) <= TTL_S + 5


async def test_two_of_three_die_at_once() -> None:
    async with Crowd() as crowd:
        await crowd.plan(80, timedelta(minutes=12), name="c")
        await crowd.cluster.advance(minutes=2)
        await crowd.kill("a")
        await crowd.kill("b")
        await crowd.cluster.advance(minutes=15)
        assert not crowd.missing
        assert max(crowd.lateness_s()) <= TTL_S + 5
        assert crowd.cluster.instances["c"].member.live() == ("c",)


async def test_who_joins_takes_its_share_and_nothing_comes_twice_or_late() -> None:
    async with Crowd(("a",)) as crowd:
        bucket = crowd.bucket_that(lambda p: holder_of(p, ("a", "b")) == "b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=10))
        await crowd.plan(80, timedelta(minutes=4))
        await crowd.cluster.advance(minutes=1)
        assert await crowd.cluster.holders(bucket) == ["a"]
        await crowd.cluster.add("b")
        await crowd.works("b")
        await crowd.cluster.advance(seconds=5)
        assert await crowd.cluster.holders(bucket) == ["b"]
        await crowd.cluster.advance(minutes=6)
        assert (crowd.missing, crowd.twice) == (set(), [])
        assert max(crowd.lateness_s()) <= 1


async def test_who_joins_gives_nothing_to_one_that_died_before_it_came() -> None:
    """It is still on the roster, and the newcomer cannot know yet that it is dead."""
    async with Crowd(("a", "b")) as crowd:
        bucket = crowd.bucket_that(
            lambda p: holder_of(p, ("a", "c")) == "c" and holder_of(p, ("a", "b", "c")) == "b" and p != crowd.current()
        )
        await until(crowd, datetime_of_ms(bucket.bucket_ms) - timedelta(minutes=4))
        await crowd.kill("b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=10))
        await crowd.plan(80, timedelta(minutes=1))
        await crowd.cluster.advance(seconds=5)
        assert await crowd.cluster.holders(bucket) == ["a"]
        await crowd.cluster.add("c")
        await crowd.works("c")
        assert "b" in crowd.cluster.instances["c"].member.live()
        await crowd.cluster.advance(minutes=2)
        assert await crowd.cluster.holders(bucket) == ["c"]
        assert (crowd.missing, crowd.twice) == (set(), [])
        assert max(crowd.lateness_s()) <= 1


async def test_who_leaves_hands_over_with_its_deliveries_in_hand() -> None:
    """Each takes three seconds of work. The worker goes on with what it has, and finds another home with it."""
    async with Crowd(("a", "b")) as crowd:

        async def works(_: Delivery) -> None:
            await crowd.cluster.sleep(seconds=3)

        crowd.after = works
        bucket = crowd.bucket_of("b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=10))
        await crowd.plan(80, timedelta(minutes=1))
        await crowd.cluster.advance(seconds=30)
        assert crowd.cluster.instances["b"].node.delivery.in_flight >= 3
        async with asyncio.timeout(60):
            # Who has another home is not waited for: what is due for that worker would come late by as much.
            await crowd.cluster.stop("b", drain_ms=600_000)
        assert await crowd.cluster.holders(bucket) == ["a"]
        await crowd.cluster.advance(minutes=2)
        assert (crowd.missing, crowd.twice) == (set(), [])
        assert max(crowd.lateness_s()) <= 1


async def test_a_cancel_that_is_repeated_after_a_hand_over_still_says_in_flight() -> None:
    """The holder that gave the delivery away has written that its retries have ended."""
    async with Crowd(("a", "b")) as crowd:

        async def works(_: Delivery) -> None:
            await crowd.cluster.sleep(seconds=50)

        crowd.after = works
        bucket = crowd.bucket_of("b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=10))
        client = crowd.cluster.client("a")
        task = await client.schedule(QUEUE, b"x", delay=3)
        await crowd.cluster.advance(seconds=5)
        assert await client.cancel(task.id, request_id="mine") is CancelOutcome.IN_FLIGHT
        await crowd.cluster.stop("b", drain_ms=0)
        await crowd.cluster.advance(seconds=2)
        assert await client.cancel(task.id, request_id="mine") is CancelOutcome.IN_FLIGHT


async def test_who_leaves_answers_callers_until_it_hangs_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They stay connected while it waits for workers, and are not to wait with it."""
    monkeypatch.setattr(moving_away, "MOVE_ON_MS", 3_000)
    async with Crowd(("a", "b")) as crowd:

        async def works(_: Delivery) -> None:
            await crowd.cluster.sleep(seconds=50)

        crowd.after = works
        for name in crowd.names:
            await crowd.workers.pop(name).stop()
        await crowd.works("b")
        await crowd.plan(20, timedelta(seconds=1))
        await crowd.cluster.advance(seconds=5)
        b, client = crowd.cluster.instances["b"], crowd.cluster.client("b")
        is_leaving = asyncio.Event()
        b.member.on_change(is_leaving.set)
        stopping = asyncio.create_task(crowd.cluster.stop("b", drain_ms=3_000))
        await is_leaving.wait()
        task = await client.schedule(QUEUE, b"while it leaves", delay=120)
        assert await client.cancel(task.id) is CancelOutcome.CANCELLED
        await crowd.workers.pop("b").kill()
        await stopping


async def test_who_was_paused_beyond_its_lease_drops_everything_and_begins_again() -> None:
    async with Crowd() as crowd:
        bucket = crowd.bucket_of("b")
        await until(crowd, datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=20))
        await crowd.plan(80, timedelta(minutes=3))
        await crowd.cluster.advance(seconds=30)
        b = crowd.cluster.instances["b"]
        incarnation, token = b.member.incarnation, token_of(b, bucket)
        crowd.cluster.freeze("b")
        await crowd.cluster.advance(seconds=20)
        successor = (await crowd.cluster.holders(bucket))[0]
        assert successor in ("a", "c")
        machine = b.node.scheduler.machines[bucket]
        crowd.cluster.thaw("b")
        assert b.node.time.firing_ms() is None
        await crowd.cluster.settle()
        assert machine.phase is Phase.LOST
        assert b.member.incarnation != incarnation
        await crowd.cluster.advance(seconds=10)
        assert await crowd.cluster.holders(bucket) == ["b"]
        assert token_of(b, bucket) > token + 1
        await crowd.cluster.advance(minutes=4)
        assert not crowd.missing
        assert max(crowd.lateness_s()) <= TTL_S + 5
