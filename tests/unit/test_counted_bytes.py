"""The budget of memory (guarantee G13) counts what waiting rows really take, also what not all of them have."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from timerd.core.due_queue.due_queue import DueQueue
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Extra, Template

ROWS = 4_000
Tables = tuple[list[Template], list[Extra]]


def template(**given: object) -> Template:
    return Template.from_json({"namespace": "default", "queue": "mails", **given})


def traces() -> Tables:
    return [template(traceparent=f"00-{n:032x}-{n:016x}-01") for n in range(1, ROWS + 1)], []


def labels() -> Tables:
    return [template(labels=[[f"name {n} {m}", f"{n:0100}"] for m in range(4)]) for n in range(ROWS)], []


def keys() -> Tables:
    return [template()], [Extra.from_json({"key": f"flight {n}"}) for n in range(ROWS)]


def errors() -> Tables:
    return [template()], [Extra.from_json({"key": f"{n}", "last_error": f"{n:02000}"}) for n in range(ROWS)]


def histories() -> Tables:
    return [template()], [Extra.from_json({"key": f"{n}", "history": f"{n:02000}"}) for n in range(ROWS)]


def group(templates: list[Template], extras: list[Extra]) -> RowGroup:
    columns = np.zeros(ROWS, ROW)
    columns["position_ms"] = columns["index"] = np.arange(ROWS)
    if len(templates) > 1:
        columns["template"] = np.arange(ROWS)
    if extras:
        columns["extra"] = np.arange(1, ROWS + 1)
    return RowGroup(columns, np.zeros(1, PREFIX), templates, b"", extras)


@pytest.mark.parametrize("made", [traces, labels, keys, errors, histories], ids=lambda made: made.__name__)
def test_what_each_row_has_of_its_own_is_counted(made: Callable[[], Tables]) -> None:
    gc.collect()
    tracemalloc.start()
    due = DueQueue()
    due.add(group(*made()))
    gc.collect()
    taken_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.9 < due.size_bytes / taken_bytes < 2.5


def test_it_goes_when_the_rows_go() -> None:
    due = DueQueue()
    due.add(group(*traces()))
    [queue] = due.queues()
    before = due.size_bytes
    due.take(queue, ROWS // 2, ROWS)
    assert due.size_bytes == pytest.approx(before / 2, rel=0.01)
    due.take(queue, ROWS, ROWS)
    assert due.size_bytes == 0


def test_what_all_share_is_not_counted_for_each() -> None:
    due = DueQueue()
    due.add(group([template()], []))
    assert due.size_bytes == ROWS * ROW.itemsize


def test_rows_that_are_due_are_told_from_those_that_are_not() -> None:
    due = DueQueue()
    due.add(group([template()], []))
    [queue] = due.queues()
    assert [due.due_rows(queue, ms, ROWS) for ms in (-1, 0, 999, ROWS)] == [0, 1, 1_000, ROWS]
    due.take(queue, 600, 999)
    assert [due.due_rows(queue, 999, most) for most in (ROWS, 10)] == [400, 10]
