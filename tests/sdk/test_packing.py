"""Items that are plain are packed many at a time; what comes out is what one at a time gives."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.sdk.scheduling import bulk
from timerd.sdk.scheduling.batches import Batch
from timerd.sdk.scheduling.bulk import BulkItem, batches_of
from timerd.sdk.values.errors import InvalidTask
from timerd.sdk.values.task_fields import Item, Template
from timerd.v1 import timer_service_pb2 as pb

MOMENTS = st.datetimes(
    datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=5.5))])
)
PAYLOADS = st.one_of(
    st.binary(max_size=40), st.text(max_size=10), st.sampled_from([b"x" * 500_000, bytearray(b"y"), "\ud800"])
)
DUES = st.one_of(MOMENTS, MOMENTS, MOMENTS, st.just(datetime(2030, 1, 1)), st.integers(0, 5), st.just(timedelta(1)))
ITEMS = st.one_of(
    st.tuples(PAYLOADS, DUES),
    st.tuples(st.binary(max_size=9), MOMENTS),
    st.sampled_from([("x",), ("x", 1, 2), "xy", None, ["x", 1], Item("y", delay=3), Item("z", delay=1, key="k")]),
)
PLAIN = st.tuples(st.binary(min_size=150, max_size=200), MOMENTS)


def now_ms() -> int:
    return 1_700_000_000_000


def written(items: list[object]) -> Iterator[bytes | str]:
    """The messages, and the error that ends them."""
    try:
        for batch in batches_of(items, Template("q"), now_ms):  # type: ignore[arg-type]
            request = pb.ScheduleBatchRequest()
            batch.write(request, "n", "r")
            yield request.SerializeToString(deterministic=True)
    except InvalidTask as wrong:
        yield str(wrong)


@given(st.lists(ITEMS, max_size=60), st.integers(0, 40), st.lists(PLAIN, min_size=1, max_size=3))
def test_many_at_a_time_are_what_one_at_a_time_gives(items: list[object], at: int, plain: list[object]) -> None:
    mixed = [*items[:at], *(plain * 400), *items[at:]]
    together = list(written(mixed))
    with patch.object(bulk, "plain_of", lambda _: None):
        assert together == list(written(mixed))


def test_an_instant_between_two_milliseconds_is_rounded_up() -> None:
    second = datetime(2030, 1, 1, tzinfo=UTC)
    items: list[BulkItem] = [(b"x", second + timedelta(microseconds=n)) for n in (0, 1, 999, 1000, 1001)]
    (batch,) = batches_of(items, Template("q"), now_ms)
    start_ms = int(second.timestamp() * 1000)
    assert [ms - start_ms for ms in batch.asked_ms()] == [0, 1, 1, 1, 2]


def test_no_more_is_taken_from_a_feed_than_is_looked_at_together() -> None:
    taken = 0

    def feed() -> Iterator[BulkItem]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 800_000, datetime(2030, 1, 1, tzinfo=UTC)

    batches = batches_of(feed(), Template("q"), now_ms)
    first: Batch = next(batches)
    assert len(first) == 1
    assert taken <= 25


def test_a_buffer_that_is_filled_anew_for_each_item_is_read_before() -> None:
    buffer = bytearray(1)

    def feed() -> Iterator[BulkItem]:
        for n in range(60):
            buffer[0] = n
            yield (buffer if n % 2 else bytes(buffer)), datetime(2030, 1, 1, tzinfo=UTC)  # type: ignore[misc]

    (batch,) = batches_of(feed(), Template("q"), now_ms)
    request = pb.ScheduleBatchRequest()
    batch.write(request, "n", "r")
    assert request.columns.payloads == bytes(range(60))


def test_a_delay_counts_from_when_its_item_comes() -> None:
    clock_ms = 1_000_000

    def feed() -> Iterator[BulkItem]:
        nonlocal clock_ms
        for _ in range(3):
            clock_ms += 1_000
            yield b"x", 5.0

    (batch,) = batches_of(feed(), Template("q"), lambda: clock_ms)
    assert list(batch.asked_ms()) == [1_006_000, 1_007_000, 1_008_000]


@pytest.mark.parametrize("index", [0, 24, 25, 1003])
def test_the_one_that_is_wrong_is_named(index: int) -> None:
    items: list[BulkItem] = [(b"x", datetime(2030, 1, 1, tzinfo=UTC))] * 1100
    items[index] = (b"x", datetime(2030, 1, 1))
    with pytest.raises(InvalidTask, match=rf"\b{index}\b.*no time zone"):
        list(batches_of(items, Template("q"), now_ms))
