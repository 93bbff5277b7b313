"""Tasks as columns: the same messages as item by item, tasks that are made when they are looked at, clear refusals."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.fake_server import FakeServer
from timerd import Client
from timerd.client import InvalidTask, ItemOutcome, PartlyStored
from timerd.sdk.scheduling import columns
from timerd.sdk.scheduling.columns import Tasks, batches_of_columns
from timerd.sdk.values.task_fields import Template
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime(2031, 5, 1, tzinfo=UTC)
SOON_MS = int(SOON.timestamp() * 1000)
PAYLOADS = st.one_of(
    st.binary(max_size=9), st.text(max_size=5), st.sampled_from([b"x" * 400_000, bytearray(b"y"), "\ud800", None])
)


async def test_columns_are_stored_as_items_would_be(client: Client, server: FakeServer) -> None:
    payloads, dues = [b"%d" % n for n in range(2500)], [SOON_MS + 7 * n for n in range(2500)]
    tasks = await client.schedule_columns("q", payloads, dues, priority=3)
    by_columns, server.timers.received[:] = server.timers.requests(), []
    items = [(payload, SOON + timedelta(milliseconds=7 * n)) for n, payload in enumerate(payloads)]
    await client.schedule_many("q", items, priority=3)
    for one, other in zip(by_columns, server.timers.requests(), strict=True):
        one.schedule.request_id = other.schedule.request_id
        one.sequence = other.sequence
        # Without keys there are no conflicts.
        other.schedule.template.ClearField("on_conflict")
        assert one == other
    assert [task.fire_at_ms for task in tasks] == dues
    assert len({task.id for task in tasks}) == 2500


async def test_tasks_are_a_sequence(client: Client) -> None:
    dues = [SOON_MS + n for n in range(2100)]
    tasks = await client.schedule_columns("q", [b"x"] * 2100, dues)
    assert len(tasks) == 2100
    assert (tasks[0].fire_at_ms, tasks[1000].fire_at_ms, tasks[-1].fire_at_ms) == (dues[0], dues[1000], dues[-1])
    assert [task.fire_at_ms for task in tasks[998:1002]] == dues[998:1002]
    assert tasks[999].id == list(tasks)[999].id
    with pytest.raises(IndexError):
        tasks[2100]
    assert repr(tasks) == "<2100 tasks>"


@pytest.mark.parametrize(
    "column",
    [
        *(array("q", [SOON_MS, 0]), np.array([SOON_MS, 0]), np.array([SOON_MS, 0], np.uint64), (SOON_MS, 0)),
        [np.int64(SOON_MS), np.int32(0)],
    ],
)
async def test_instants_may_be_in_any_column_of_whole_numbers(client: Client, column: Sequence[int]) -> None:
    assert [task.fire_at_ms for task in await client.schedule_columns("q", ["ä", b"b"], column)] == [SOON_MS, 0]


class Labelled:
    """A column of a table as pandas has it: asked for one entry it goes by label, and by place where that is said."""

    def __init__(self, entries: list[Any]) -> None:
        self.iloc = entries

    def __len__(self) -> int:
        return len(self.iloc)

    def __getitem__(self, label: int) -> object:
        return list(reversed(self.iloc))[label]


async def test_columns_of_a_table_go_by_place(client: Client, server: FakeServer) -> None:
    payloads, dues = Labelled(["first", b"second", b"third"]), Labelled([SOON_MS + 2, SOON_MS + 1, SOON_MS])
    tasks = await client.schedule_columns("q", payloads, dues)  # type: ignore[arg-type]
    assert server.timers.payloads == [b"first", b"second", b"third"]
    assert [task.fire_at_ms for task in tasks] == [SOON_MS + 2, SOON_MS + 1, SOON_MS]


async def test_a_task_is_the_same_however_often_it_is_looked_at(client: Client) -> None:
    tasks = await client.schedule_columns("q", [b"x"] * 1500, [SOON_MS] * 1500)
    assert tasks[1200] == tasks[1200] != tasks[1201]
    assert tasks[1200] in tasks
    assert (tasks.index(tasks[1200]), tasks.count(tasks[7]), len(set(tasks) | set(tasks))) == (1200, 1, 1500)


async def test_messages_are_filled_also_where_payloads_are_large(client: Client, server: FakeServer) -> None:
    await client.schedule_columns("q", [b"x" * 950] * 3000, [SOON_MS] * 3000)
    sizes = [len(request.schedule.columns.fire_at_ms) for request in server.timers.requests()]
    assert sizes == [946, 946, 946, 162]


async def test_who_fails_to_give_the_next_item_hears_what_is_stored(client: Client) -> None:
    def items() -> Iterator[tuple[bytes, datetime]]:
        for _ in range(1500):
            yield b"x", SOON
        raise OSError("the file has ended")

    with pytest.raises(PartlyStored, match=r"1000 of 1000 .*the file has ended") as partly:
        await client.schedule_many("q", items())
    assert len({task.id for task in partly.value.tasks}) == 1000
    with pytest.raises(OSError, match="the file has ended"):
        await client.schedule_many("q", islice(items(), 1499, None))


async def test_nothing_is_done_without_a_message(client: Client, server: FakeServer) -> None:
    assert not await client.schedule_columns("q", [], [])
    assert server.timers.received == []


@pytest.mark.parametrize(
    ("payloads", "dues", "sentence"),
    [
        ([b"x"], [], "`at_ms` has 0 entries and `payloads` has 1"),
        ((n for n in [b"x"]), [1], "`payloads` must be a list, with one entry for each task"),
        (b"x", [1], "`payloads` must be a list"),
        ([b"x"], 1, "`at_ms` must be a list"),
        ([b"x"] * 1002, [*[1] * 1001, 1.5], "Item 1001: `at_ms` must be whole milliseconds since 1970"),
        ([b"x"], [-1], "Item 0: `at_ms` must be whole milliseconds"),
        ([b"x"], [True], "Item 0: `at_ms` must be whole milliseconds"),
        ([b"x"], [SOON], "Item 0: `at_ms` must be whole milliseconds"),
        ([b"x"], [1 << 60], "Item 0: .*up to the year 9999"),
        ([b"x"], np.array([5], "m8[ns]"), "Item 0: `at_ms` must be whole milliseconds"),
        ([b"x"], np.array([5], "M8[ms]"), "Item 0: `at_ms` must be whole milliseconds"),
        ([b"x"], np.array(5), "`at_ms` must be a list"),
        ([b"x"], {0: 5}, "`at_ms` must be a list"),
        (deque([b"x"]), [5], "`payloads` must be a list"),
        ([b"x", 5], [1, 1], "Item 1: "),
        ([b"x", bytes(1 << 21)], [1, 1], "Item 1: "),
    ],
)
async def test_what_is_wrong_is_said(
    client: Client, payloads: list[bytes | str], dues: list[int], sentence: str
) -> None:
    with pytest.raises((InvalidTask, PartlyStored), match=sentence):
        await client.schedule_columns("q", payloads, dues)


async def test_one_bad_task_does_not_stop_the_others(client: Client, server: FakeServer) -> None:
    refused = task_pb2.Problem(code=3, message="Too far ahead.", reason="TOO_FAR")
    server.timers.item_results = {1: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_NOT_STORED, problem=refused)}
    with pytest.raises(PartlyStored, match=r"1999 of 2000 .*Item 1: Too far ahead") as partly:
        await client.schedule_columns("q", [b"x"] * 2000, [SOON_MS] * 2000)
    assert [n for n, t in enumerate(partly.value.tasks) if t.outcome is not ItemOutcome.STORED] == [1]


def written(payloads: list[Any], dues: list[int]) -> list[bytes | str]:
    """The tasks in their messages, and the error that ends them."""
    out: list[bytes | str] = []
    try:
        for batch in batches_of_columns(payloads, dues, Template("q"), lambda: SOON_MS):
            request = pb.ScheduleBatchRequest()
            batch.write(request, "n", "r")
            out.append(request.SerializeToString(deterministic=True))
    except InvalidTask as wrong:
        out.append(str(wrong))
    return out


@given(st.lists(PAYLOADS, max_size=8), st.integers(0, 1500), st.sampled_from([1, 950]))
def test_whole_messages_are_what_one_by_one_gives(some: list[Any], plain: int, size_bytes: int) -> None:
    payloads = [*[b"p" * size_bytes] * plain, *some, *[b"q"] * 1700]
    dues = [SOON_MS + n for n in range(len(payloads))]
    together = written(payloads, dues)
    with patch.object(columns, "plain_payloads", lambda _: None):
        assert together == written(payloads, dues)


def test_empty_parts_are_no_part() -> None:
    assert list(Tasks([(), ()])) == []
