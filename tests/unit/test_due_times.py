"""What is due is found without a look at all queues, whatever was said of them before."""

from __future__ import annotations

import math
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from timerd.core.dispatch.due_times import SLACK, DueTimes
from timerd.core.taken import QueueKey

QUEUES = [QueueKey("default", f"queue-{n}") for n in range(12)]
TIMES = st.one_of(st.integers(0, 30), st.just(math.inf))
SAID = st.tuples(st.sampled_from(["set", "rest", "resume", "forget"]), st.sampled_from(QUEUES), TIMES)


@given(st.lists(SAID, max_size=80), st.integers(0, 30))
def test_it_is_what_a_look_at_each_would_find(said: list[tuple[str, QueueKey, float]], until_ms: int) -> None:
    times = DueTimes()
    known: dict[QueueKey, float] = {}
    resting: set[QueueKey] = set()
    for what, queue, due_ms in said:
        if what == "set":
            times.set(queue, due_ms)
            known[queue] = due_ms
            resting.discard(queue)
        elif what == "rest":
            times.rest(queue)
            resting.add(queue)
        elif what == "resume":
            assert times.resume(queue) == (queue in known)
            resting.discard(queue)
        else:
            times.forget(queue)
            known.pop(queue, None)
            resting.discard(queue)
        awake = {queue: ms for queue, ms in known.items() if queue not in resting}
        assert times.next_ms() == min(awake.values(), default=math.inf)
        assert len(times) == len(known)
    due = {queue for queue, ms in awake.items() if ms <= until_ms} if said else set()
    assert sorted(times.due(until_ms)) == sorted(due)
    assert times.count(until_ms, 3) == min(3, len(due))


def test_of_many_queues_those_are_looked_at_that_are_due() -> None:
    times = DueTimes()
    for n in range(2_000):
        times.set(QueueKey("default", f"{n}"), 1_000 + n)
    with patch.object(DueTimes, "_holds", autospec=True, side_effect=DueTimes._holds) as looked:
        assert len(times.due(1_003)) == 4
        assert times.count(9_000, 5) == 5
    assert looked.call_count <= 10


def test_what_was_said_before_is_not_kept() -> None:
    times = DueTimes()
    times.set(QUEUES[0], 0)
    for n in range(2_000):
        times.set(QUEUES[1], 5_000 - n)
    assert len(times._heap) <= SLACK + 8
    assert times.due(5_000) == [QUEUES[0], QUEUES[1]]
