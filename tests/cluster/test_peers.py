"""Callers speak to one instance, another one holds the task: it fires at its instant all the same, and a cancel or a
move tells the truth."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.cluster.peer_rig import Pair, bucket_on, hints_are_lost, holder_hangs
from timerd.client import CancelOutcome, FailedPrecondition, TaskState
from timerd.model.errors import Unavailable
from timerd.sdk.values.times import datetime_of_ms
from timerd.worker import Delivery

SECOND = timedelta(seconds=1)


async def test_what_one_instance_stores_fires_on_time_at_the_other() -> None:
    """The hint is faster than the sweep: 250 ms are enough."""
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        at = pair.cluster.now + timedelta(milliseconds=250)
        await pair.client.schedule("q", b"x", at=at)
        await pair.hinted(rows=2)
        await pair.cluster.advance(seconds=2)
        assert pair.got == [(b"x", at)]


async def test_the_first_row_of_a_bucket_makes_its_instance_hold_it() -> None:
    """Nobody held it before the hint."""
    async with Pair() as pair:
        await pair.works()
        at = pair.cluster.now + timedelta(milliseconds=250)
        await pair.client.schedule("q", b"x", at=at)
        await pair.hinted()
        assert await pair.cluster.holders(pair.bucket) == ["b"]
        await pair.cluster.advance(seconds=2)
        assert pair.got == [(b"x", at)]


async def test_without_any_hint_it_comes_with_the_next_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """G12: nothing lost, nothing doubled, a second late."""
    hints_are_lost(monkeypatch)
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        at = pair.cluster.now + timedelta(milliseconds=250)
        await pair.client.schedule("q", b"x", at=at)
        await pair.cluster.advance(seconds=10)
        [(payload, when)] = pair.got
        assert payload == b"x"
        assert at < when <= at + 2 * SECOND


async def test_many_rows_at_once_are_hinted_together() -> None:
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        at = pair.cluster.now + timedelta(milliseconds=250)
        await pair.client.schedule_many("q", [(str(n), at) for n in range(500)])
        await pair.hinted(rows=501)
        await pair.cluster.advance(seconds=2)
        assert sorted(pair.got) == sorted((str(n).encode(), at) for n in range(500))


# -- below closing --------------------------------------------------------------------------------------------------


async def test_a_row_below_closing_is_taken_in_by_the_holder_elsewhere() -> None:
    """A caller's instance is half a second behind; the holder has closed that instant, and has something older in
    hand, so it can still take the row in."""
    async with Pair() as pair:
        client = await pair.b_holds()

        async def holds_on(delivery: Delivery) -> None:
            if delivery.payload == b"held":
                await pair.cluster.sleep(seconds=60)

        await pair.works(after=holds_on)
        await client.schedule("q", b"held", delay=0)
        await pair.cluster.advance(seconds=3)
        pair.cluster.instances["a"].turned.clock.now_ms -= 500
        task = await pair.client.schedule("q", b"late", delay=0)
        await pair.cluster.advance(seconds=1)
        assert pair.payloads == [b"held", b"late"]
        assert pair.got[1][1] == pair.cluster.now - SECOND
        assert (await pair.client.get(task.id)).state is TaskState.ACKED


async def test_below_the_floor_it_is_written_again_and_comes_once() -> None:
    async with Pair() as pair:
        client = await pair.b_holds()
        await pair.works()
        await client.schedule("q", b"first", delay=0)
        await pair.cluster.advance(seconds=3)
        pair.cluster.instances["a"].turned.clock.now_ms -= 2_500
        task = await pair.client.schedule("q", b"late", delay=0)
        await pair.cluster.advance(seconds=3)
        assert pair.payloads == [b"first", b"late"]
        assert (await pair.client.get(task.id)).state is TaskState.ACKED


async def test_a_holder_that_hangs_does_not_hold_up_what_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is not waited for longer than the deadline: the row is written again where nothing is closed."""
    async with Pair() as pair:
        client = await pair.b_holds()
        await pair.works()
        await client.schedule("q", b"first", delay=0)
        await pair.cluster.advance(seconds=3)
        holder_hangs(monkeypatch)
        pair.cluster.instances["a"].turned.clock.now_ms -= 2_500
        await pair.client.schedule("q", b"late", delay=0)
        await pair.cluster.advance(seconds=3)
        assert pair.payloads == [b"first", b"late"]


# -- cancel ---------------------------------------------------------------------------------------------------------


async def test_a_cancel_through_the_other_instance_counts_to_the_last_millisecond() -> None:
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        task = await pair.client.schedule("q", b"x", delay=5)
        await pair.cluster.advance(milliseconds=4_999)
        assert await pair.client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED
        assert await pair.client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED
        assert await pair.client.cancel(task.id) is CancelOutcome.ALREADY_CANCELLED
        await pair.cluster.advance(seconds=10)
        assert pair.got == []
        assert (await pair.client.get(task.id)).state is TaskState.CANCELLED


async def test_a_task_in_hand_elsewhere_is_in_flight_then_fired() -> None:
    async with Pair() as pair:
        await pair.b_holds()

        async def works_a_minute(_: Delivery) -> None:
            await pair.cluster.sleep(seconds=20)

        await pair.works(after=works_a_minute)
        tasks = [await pair.client.schedule("q", b"x", delay=1) for _ in range(2)]
        await pair.hinted(rows=3)
        await pair.cluster.advance(seconds=5)
        assert await pair.client.cancel(tasks[0].id) is CancelOutcome.IN_FLIGHT
        await pair.cluster.advance(seconds=30)
        assert len(pair.got) == 2
        assert await pair.client.cancel(tasks[1].id) is CancelOutcome.ALREADY_FIRED


async def test_between_two_holders_what_was_handed_over_in_hand_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one has not begun: nobody holds it, but the worker has it all the same."""
    monkeypatch.setattr("timerd.services.holding.hand_over.SUCCEEDED_S", 0.05)
    async with Pair() as pair:
        await pair.b_holds()

        async def works_on(_: Delivery) -> None:
            await pair.cluster.sleep(seconds=20)

        await pair.works("a", after=works_on)
        task = await pair.client.schedule("q", b"x", delay=1)
        await pair.hinted(rows=2)
        await pair.cluster.advance(seconds=5)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair.cluster.instances["a"].node.scheduler, "hold", lambda *_: None)
            await pair.cluster.stop("b")
            assert await pair.cluster.holders(pair.bucket) == [""]
            assert await pair.client.cancel(task.id) is CancelOutcome.IN_FLIGHT
        await pair.cluster.advance(seconds=60)
        assert pair.payloads == [b"x"]


async def test_a_thousand_are_cancelled_with_one_question() -> None:
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        tasks = await pair.client.schedule_many("q", [(b"x", pair.in_a_second())] * 1_000)
        await pair.hinted(rows=1_001)
        assert set(await pair.client.cancel_many([t.id for t in tasks])) == {CancelOutcome.CANCELLED}
        await pair.cluster.advance(seconds=5)
        assert pair.got == []


async def test_tasks_of_many_hours_are_cancelled_side_by_side() -> None:
    """Some are held by the one instance, some by the other, most by nobody."""
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        due = [(b"x", pair.cluster.now + n * timedelta(minutes=2)) for n in range(1, 200)]
        tasks = await pair.client.schedule_many("q", due)
        said = await pair.client.cancel_many([task.id for task in (*tasks, tasks[0])])
        assert list(said) == [CancelOutcome.CANCELLED] * 200
        assert set(await pair.client.cancel_many([t.id for t in tasks])) == {CancelOutcome.ALREADY_CANCELLED}


async def test_what_nobody_holds_is_cancelled_without_asking_anybody() -> None:
    """Hours ahead."""
    async with Pair() as pair:
        await pair.cluster.kill("b")
        task = await pair.client.schedule("q", b"x", delay=7_200)
        assert await pair.client.cancel(task.id) is CancelOutcome.CANCELLED


# -- move -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["a", "b"])
async def test_a_task_is_moved_from_one_instance_to_another(to: str) -> None:
    """Also within one that is not the caller's: it comes once, at its new instant."""
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works("a")
        await pair.works("b")
        task = await pair.client.schedule("q", b"x", delay=5)
        await pair.hinted(rows=2)
        bucket = bucket_on(to, after=datetime_of_ms(pair.bucket.bucket_ms))
        wanted = max(datetime_of_ms(bucket.bucket_ms) + 7 * SECOND, pair.cluster.now + 10 * SECOND)
        assert await pair.client.reschedule(task.id, at=wanted) == wanted
        await pair.cluster.advance(wanted - pair.cluster.now + 5 * SECOND)
        assert pair.got == [(b"x", wanted)]


async def test_what_is_in_hand_elsewhere_cannot_be_moved() -> None:
    async with Pair() as pair:
        await pair.b_holds()

        async def works_a_minute(_: Delivery) -> None:
            await pair.cluster.sleep(seconds=20)

        await pair.works(after=works_a_minute)
        task = await pair.client.schedule("q", b"x", delay=1)
        await pair.cluster.advance(seconds=4)
        with pytest.raises(FailedPrecondition, match="is with a worker"):
            await pair.client.reschedule(task.id, delay=60)
        await pair.cluster.advance(seconds=90)
        assert pair.payloads == [b"x"]


# -- a holder that does not answer ----------------------------------------------------------------------------------


async def test_a_dead_holder_leaves_a_cancel_pending_until_its_lease_is_over() -> None:
    """PENDING: the mark is durable, and whoever takes the partition reads it. A repeat says CANCELLED."""
    async with Pair() as pair:
        await pair.b_holds()
        tasks = [await pair.client.schedule("q", b"x", delay=60) for _ in range(3)]
        await pair.cluster.kill("b")
        assert await pair.client.cancel(tasks[0].id, request_id="mine") is CancelOutcome.PENDING
        assert set(await pair.client.cancel_many([t.id for t in tasks])) == {CancelOutcome.PENDING}
        await pair.works("a")
        await pair.cluster.advance(seconds=20)
        assert await pair.client.cancel(tasks[0].id, request_id="mine") is CancelOutcome.CANCELLED
        await pair.cluster.advance(seconds=60)
        assert pair.got == []


async def test_a_task_of_a_dead_holder_keeps_its_instant_when_it_is_to_be_moved() -> None:
    """UNAVAILABLE says that nothing was changed; when another one holds it, it works."""
    async with Pair() as pair:
        await pair.b_holds()
        task = await pair.client.schedule("q", b"x", delay=60)
        await pair.cluster.kill("b")
        with pytest.raises(Unavailable, match="does not answer") as refused:
            await pair.moves_at_once(task.id, seconds=30)
        assert refused.value.reason == "HOLDER_SILENT"
        await pair.works("a")
        await pair.cluster.advance(seconds=20)
        moved = await pair.client.reschedule(task.id, delay=20)
        await pair.cluster.advance(seconds=90)
        assert pair.got == [(b"x", moved)]


async def test_a_holder_that_hangs_is_as_good_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may send the task before it meets the mark; here it does not."""
    monkeypatch.setattr("timerd.services.peers.peers.SILENCE_S", 0.0)
    async with Pair() as pair:
        await pair.b_holds()
        await pair.works()
        tasks = [await pair.client.schedule("q", b"x", delay=10) for _ in range(2)]
        with monkeypatch.context() as patch:
            holder_hangs(patch)
            assert await pair.client.cancel(tasks[0].id, request_id="mine") is CancelOutcome.PENDING
            with pytest.raises(Unavailable, match="does not answer"):
                await pair.moves_at_once(tasks[1].id, seconds=60)
        await pair.cluster.advance(seconds=5)
        assert await pair.client.cancel(tasks[0].id, request_id="mine") is CancelOutcome.CANCELLED
        await pair.cluster.advance(seconds=30)
        assert pair.payloads == [b"x"]


async def test_a_holder_that_comes_back_at_another_address_is_found_there() -> None:
    """What its earlier life held, nobody holds: the answer is CANCELLED, not PENDING."""
    async with Pair() as pair:
        await pair.b_holds()
        task = await pair.client.schedule("q", b"x", delay=100)
        await pair.cluster.kill("b")
        await pair.cluster.add("b")
        assert await pair.client.cancel(task.id) is CancelOutcome.CANCELLED
        await pair.works("a")
        await pair.works("b")
        await pair.cluster.advance(seconds=120)
        assert pair.got == []


# -- look -----------------------------------------------------------------------------------------------------------


async def test_any_instance_says_that_a_task_is_with_a_worker() -> None:
    async with Pair() as pair:
        await pair.b_holds()

        async def works_a_while(_: Delivery) -> None:
            await pair.cluster.sleep(seconds=20)

        await pair.works(after=works_a_while)
        task = await pair.client.schedule("q", b"x", delay=1)
        assert (await pair.client.get(task.id)).state is TaskState.PENDING
        await pair.cluster.advance(seconds=5)
        assert (await pair.client.get(task.id)).state is TaskState.IN_FLIGHT
        await pair.cluster.advance(seconds=30)
        assert (await pair.client.get(task.id)).state is TaskState.ACKED
