"""What is said of received tasks: those of a part of the time, and what a rate of service does not explain."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from benchmarks.bench import Receiver
from benchmarks.child import Answer
from benchmarks.figures import BenchmarkFailed
from benchmarks.processes import Child
from benchmarks.received import Received

# So far from 1970 that rounding would show.
NOW_MS = 1_800_000_000_000
RATE_PER_S = 500_000
EACH_MS = 1e3 / RATE_PER_S


def received(*tasks: tuple[float, float]) -> Received:
    """Each due then, and as late."""
    dues_ms = [NOW_MS + round(due_ms) for due_ms, _ in tasks]
    return Received(array("q", dues_ms), array("d", [late_ms for _, late_ms in tasks]), array("Q", range(len(tasks))))


def drained(due_ms: float, count: int) -> list[tuple[float, float]]:
    return [(due_ms, n * EACH_MS) for n in range(1, count + 1)]


def near(ms: float) -> object:
    """To a fifth of a task's share."""
    return pytest.approx(ms, abs=EACH_MS / 5)


def test_a_burst_that_is_drained_at_the_rate_is_explained() -> None:
    burst = received(*drained(0, 100_000))
    assert burst.unexplained_ms(RATE_PER_S) == near(0)
    # At twice the rate the last one should have been there in half the time.
    assert burst.unexplained_ms(2 * RATE_PER_S) == near(100)


def test_one_task_that_is_delayed_is_told_by_how_much() -> None:
    tasks = drained(0, 1_000)
    tasks[300] = (0, tasks[300][1] + 50)
    # Of one burst nobody can say which was to be the last, so what is missed is counted from that.
    assert received(*tasks).unexplained_ms(RATE_PER_S) == near(50 - 699 * EACH_MS)
    steady = [(float(n), EACH_MS) for n in range(1_000)]
    steady[300] = (300, EACH_MS + 50)
    assert received(*steady).unexplained_ms(RATE_PER_S) == near(50)


def test_who_waits_behind_a_burst_is_explained_and_who_comes_after_it_is_not() -> None:
    # 1,000 take 2 ms: who is due after 1 ms waits for the last of them, who is due after 10 ms for nobody.
    burst = drained(0, 1_000)
    assert received(*burst, (1, 1 + EACH_MS)).unexplained_ms(RATE_PER_S) == near(0)
    assert received(*burst, (10, 1 + EACH_MS)).unexplained_ms(RATE_PER_S) == near(1)


def test_the_order_is_that_of_the_due_instants() -> None:
    tasks = [*drained(0, 10), (50.0, EACH_MS), (90.0, 30.0)]
    assert received(*reversed(tasks)).unexplained_ms(RATE_PER_S) == near(30 - EACH_MS)


def test_quicker_than_the_rate_is_below_nothing() -> None:
    assert received((0, 1.0), (1_000, 1.0)).unexplained_ms(100) == near(1 - 10)
    assert received().unexplained_ms(100) == 0


def test_a_part_has_what_was_due_in_it() -> None:
    told = received(*((float(n), n / 10) for n in range(100)), (55.0, -1.0))
    part = told.due_between(NOW_MS + 50, NOW_MS + 59)
    assert (part["received"], part["distinct"], part["early"]) == (11, 11, 1)
    assert (part["first_ms"], part["p50_ms"], part["max_ms"]) == (-1.0, 5.4, 5.9)
    assert told.due_between(NOW_MS + 50.5, NOW_MS + 51.5)["received"] == 1
    assert told.due_between(NOW_MS + 200, NOW_MS + 300)["received"] == 0


class Answering(Child):
    """A worker that collected these."""

    def __init__(self, collected: Received) -> None:
        self._collected = collected

    async def ask(self, do: str, **arguments: object) -> Answer:
        return self._collected.due_between(**arguments)  # type: ignore[arg-type]


def test_a_part_in_which_nothing_was_due_has_no_figure() -> None:
    worker = Receiver(Answering(received((0, 1.0))))
    assert asyncio.run(worker.due_between(NOW_MS, NOW_MS))["received"] == 1
    with pytest.raises(BenchmarkFailed, match=r"^No task was due in the 100 ms that are asked about\.$"):
        asyncio.run(worker.due_between(NOW_MS + 1, NOW_MS + 101))
