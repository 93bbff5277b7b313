"""Large payloads of runs that wait lie on pages of their own, which go back to the kernel with the run."""

from __future__ import annotations

import errno
import mmap
import weakref

import numpy as np
import pytest

from timerd.core.due_queue.due_queue import LARGEST_MERGE_ROWS, DueQueue
from timerd.core.due_queue.lean_run import lean
from timerd.core.due_queue.own_pages import LEAST_BYTES, on_own_pages
from timerd.core.taken import QueueKey
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template

QUEUE = QueueKey("default", "mails")


def rows_of(payload_bytes: int) -> RowGroup:
    """As many as are merged with nothing any more."""
    columns = np.zeros(LARGEST_MERGE_ROWS, ROW)
    columns["position_ms"] = columns["fire_at_ms"] = np.arange(len(columns))
    columns["length"], columns["offset"] = payload_bytes, payload_bytes * np.arange(len(columns))
    payloads = b"".join(n.to_bytes(payload_bytes) for n in range(len(columns)))
    return RowGroup(columns, np.frombuffer(b"prefix--0001", PREFIX), [Template(*QUEUE)], payloads, [])


def test_only_what_is_large_is_copied() -> None:
    small, large = bytes(LEAST_BYTES - 1), bytes(range(256)) * (LEAST_BYTES // 256)
    assert on_own_pages(small) is small
    copied = on_own_pages(large)
    assert isinstance(copied, memoryview)
    assert isinstance(copied.obj, mmap.mmap)
    assert copied == large
    with pytest.raises(TypeError, match="read-only"):
        copied[0] = 1


def test_where_no_mapping_is_to_be_had_it_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> mmap.mmap:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("timerd.core.due_queue.own_pages.mmap.mmap", refused)
    large = bytes(LEAST_BYTES)
    assert on_own_pages(large) is large


def test_the_pages_go_with_the_last_of_the_run() -> None:
    run = lean(rows_of(200))
    assert isinstance(run.shared.payloads, memoryview)
    pages = weakref.ref(run.shared.payloads.obj)
    taken = run.select(slice(3, 5))
    del run
    assert pages() is not None
    assert [taken.payload(n) for n in (0, 1)] == [n.to_bytes(200) for n in (3, 4)]
    del taken
    assert pages() is None


def test_what_a_queue_gives_is_what_it_was_given() -> None:
    due, rows = DueQueue(), rows_of(200)
    due.add(rows)
    taken = due.take(QUEUE, len(rows), len(rows))
    assert taken is not None
    assert taken.compact().payloads == rows.payloads
    assert not due.rows
