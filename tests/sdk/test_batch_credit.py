"""A lane of batches asks for more while its handler is faster than messages are, and for less when it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.fake_server import FakeServer, deliver_of
from tests.sdk.worker_rig import running
from timerd import Delivery, Worker
from timerd.sdk.working.batch_credit import BatchCredit


def test_it_begins_with_a_batch_more_than_its_handlers_take() -> None:
    assert BatchCredit(1_000, 1).tasks == 2_000
    assert BatchCredit(10, 3).tasks == 40


def test_a_fast_handler_gets_four_times_as_much_at_most() -> None:
    credit = BatchCredit(1_000, 1)
    assert (credit.ran(1_000, 0.005), credit.tasks) == (2_000, 4_000)
    assert (credit.ran(1_000, 0.0), credit.tasks) == (4_000, 8_000)
    assert (credit.ran(1_000, 0.0001), credit.tasks) == (0, 8_000)


def test_what_was_given_on_top_is_given_back_as_batches_end() -> None:
    credit = BatchCredit(1_000, 1)
    credit.ran(1_000, 0.0)
    assert [credit.ran(1_000, 1.0) for _ in range(7)] == [-1_000] * 6 + [0]
    assert credit.tasks == 2_000


def test_how_fast_it_is_with_less_than_it_could_take_says_nothing() -> None:
    credit = BatchCredit(1_000, 1)
    assert credit.ran(999, 0.0) == 0
    credit.ran(1_000, 0.0)
    assert credit.ran(1, 0.001) == 0
    # But that it is slow does.
    assert credit.ran(1, 0.1) == -1


@given(
    st.integers(1, 5_000),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(1, 5_000), st.floats(0, 100)), max_size=50),
)
def test_it_stays_between_its_bounds(max_size: int, concurrency: int, runs: list[tuple[int, float]]) -> None:
    credit = BatchCredit(max_size, concurrency)
    least = credit.tasks
    for given_tasks, took_s in runs:
        before, tasks = credit.tasks, min(given_tasks, max_size)
        change = credit.ran(tasks, took_s)
        assert change >= -tasks
        assert credit.tasks == before + change
        assert least <= credit.tasks <= 4 * least


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What each handler takes, in seconds: the last one is changed by the test."""
    took_s = [0.0]

    def readings() -> Iterator[float]:
        at_s = 0.0
        while True:
            yield at_s
            at_s += took_s[-1]
            yield at_s

    monkeypatch.setattr("timerd.sdk.working.time_limits.monotonic", readings().__next__)
    return took_s


async def test_a_worker_that_becomes_slow_has_no_more_than_at_first(server: FakeServer, clock: list[float]) -> None:
    worker, ended = Worker(server.target), 0

    @worker.on_batch("q", max_size=4)
    async def handle(deliveries: list[Delivery]) -> None:
        nonlocal ended
        ended += 1

    async def batch(number: int, credit: int) -> None:
        """Waits until so many have ended and the server has that credit."""
        server.work.put(deliver_of("q", [b"a"] * 4))
        await server.work.until(lambda: len(server.work.tokens()) == 4 * number)
        await server.work.until(lambda: server.work.credit["q"] == credit)

    async with running(worker):
        await batch(1, 32)
        await batch(2, 32)
        clock.append(60.0)
        for number, credit in enumerate([28, 24, 20, 16, 12, 8, 8], start=3):
            await batch(number, credit)
    assert ended == 9
