"""Who waits for the end of a task misses none, and never waits for longer than asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from timerd.core.dispatch import Settlement
from timerd.core.taken import AckedRows, Ended
from timerd.model.errors import Overloaded, StoreUnavailable, Unavailable
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.settle import Outcome
from timerd.services.calls import task_ends
from timerd.services.calls.task_ends import TaskEnds
from timerd.services.engine.verbs import State, TaskView

TASK = TaskId(0, 0, 0, 0, b"p" * 12, 1, b"m" * 8)
HERE = Partition(TIME_SCOPE, 0, 0)


def view(state: State) -> TaskView:
    return TaskView(TASK, state, 0, 0)


async def test_an_end_between_the_look_and_the_wait_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded, and told, while the first look is still under way with what it has read before."""
    monkeypatch.setattr(task_ends, "FIRST_LOOK_S", 60.0)
    ends, state = TaskEnds(), State.IN_FLIGHT
    looks = 0

    async def look() -> TaskView:
        nonlocal looks, state
        looks += 1
        read = state
        if looks == 1:
            state = State.ACKED
            ends.told([TASK.digest])
        await asyncio.sleep(0)
        return view(read)

    async with asyncio.timeout(5):
        found = await ends.wait(TASK, look, 60.0)
    assert (found.state, looks) == (State.ACKED, 2)


async def test_what_nobody_tells_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_ends, "FIRST_LOOK_S", 0.001)
    states = iter([State.PENDING, State.IN_FLIGHT, State.FINISHED])

    async def look() -> TaskView:
        return view(next(states))

    assert (await TaskEnds().wait(TASK, look, 60.0)).state is State.FINISHED


async def test_a_server_that_goes_away_keeps_nobody() -> None:
    ends = TaskEnds()

    async def look() -> TaskView:
        return view(State.PENDING)

    waiting = asyncio.create_task(ends.wait(TASK, look, 60.0))
    while not ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    ends.stop()
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await ends.wait(TASK, look, 60.0)
    assert ends.waiting == 0


async def test_more_than_it_has_room_for_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_ends, "MOST_WAITS", 1)
    ends = TaskEnds()

    async def look() -> TaskView:
        return view(State.PENDING)

    waiting = asyncio.create_task(ends.wait(TASK, look, 60.0))
    while not ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="repeat the call"):
        await ends.wait(TASK, look, 60.0)
    waiting.cancel()


async def test_a_store_that_does_not_answer_keeps_nobody_beyond_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_ends, "LOOK_LIMIT_S", 0.01)
    ends = TaskEnds()

    async def look() -> TaskView:
        await asyncio.Event().wait()
        raise AssertionError

    async with asyncio.timeout(60):
        with pytest.raises(StoreUnavailable, match="The store does not answer"):
            await ends.wait(TASK, look, 0.01)
    assert ends.waiting == 0


async def test_what_was_heard_before_the_first_look_is_not_waited_for() -> None:
    """It is known that nothing had ended when the wait was noted, so nobody looks before something is heard."""
    ends, looks = TaskEnds(), 0

    async def look() -> TaskView:
        nonlocal looks
        looks += 1
        return view(State.ACKED)

    with ends.noted(TASK.digest) as wait:
        ends.told([TASK.digest])
        async with asyncio.timeout(30):
            assert (await ends.until_over(wait, look, 600.0, may_be_over=False)).state is State.ACKED
    assert looks == 1


def acked(version: int, *, side_by_side: bool) -> Settlement:
    """An ack of the attempt, alone or of rows that were sent together."""
    if side_by_side:
        return Settlement(acked=[AckedRows(HERE, [0, 0], [b"other" * 3 + b".", TASK.digest], [0, version])])
    return Settlement(ended=[Ended(HERE, RowKey(0, TASK.digest, version), Outcome.ACKED)])


@pytest.mark.parametrize("side_by_side", [True, False])
async def test_what_a_first_attempt_was_acknowledged_with_is_known_without_a_look(side_by_side: bool) -> None:
    ends = TaskEnds()
    with ends.noted(TASK.digest) as wait:
        ends.kept(TASK.digest, b"six")
        ends.kept(TASK.digest, b"said again")
        ends.settled(acked(0, side_by_side=side_by_side))
        assert await ends.first_attempt_acked(wait, 60.0)
        assert wait.result == b"six"


async def test_a_result_that_is_empty_stands_as_any_other() -> None:
    ends = TaskEnds()
    with ends.noted(TASK.digest) as wait:
        ends.kept(TASK.digest, b"")
        ends.kept(TASK.digest, b"said again")
        assert wait.result == b""


async def test_that_a_first_attempt_has_no_result_is_known_as_well() -> None:
    ends = TaskEnds()
    with ends.noted(TASK.digest) as wait:
        ends.settled(acked(0, side_by_side=False))
        assert await ends.first_attempt_acked(wait, 60.0)
        assert wait.result is None


@pytest.mark.parametrize("side_by_side", [True, False])
async def test_of_a_later_attempt_somebody_has_to_look_what_was_before(side_by_side: bool) -> None:
    """The first one was taken for lost once its result was kept."""
    ends = TaskEnds()
    with ends.noted(TASK.digest) as wait:
        ends.kept(TASK.digest, b"six")
        ends.settled(acked(1, side_by_side=side_by_side))
        assert not await ends.first_attempt_acked(wait, 60.0)


async def test_beside_other_instances_somebody_always_looks() -> None:
    """They may have kept another result of the same attempt before."""

    class Others:
        is_asked = False

        def ask(self, _: bytes) -> None:
            return None

        def tell(self, _: Iterable[bytes]) -> None:
            """They hear nothing."""

    ends = TaskEnds()
    ends.share_with(Others())
    with ends.noted(TASK.digest) as wait:
        ends.kept(TASK.digest, b"six")
        ends.settled(acked(0, side_by_side=False))
        assert not await ends.first_attempt_acked(wait, 60.0)
