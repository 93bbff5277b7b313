"""The pages of a partition for its holder. Where most is known already: keys first, bodies of what memory lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from timerd.core.partition import ReadPage, keys_in
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import MarkKind, Page
from timerd.ports import Rows

# The loop takes a page in in 2 to 3 ms.
PAGE_BYTES = 512 << 10
# So many times that of a queue that is brought in again: a page becomes one run, 4,000 rows of 200 bytes in a
# millisecond, and fewer runs cost less to take from.
AGAIN_TIMES = 2
# Of more than that the page is read once more, with all its bodies: that takes one request.
FEW_ROWS = 200


async def read_page(
    store: Rows, read: ReadPage, lacking: Callable[[RowGroup], RowGroup], page_bytes: int = 0, *, is_again: bool = False
) -> Page:
    """`lacking`: of rows by their keys, those that memory does not have. `is_again`: of a queue that is reloaded."""
    page_bytes = page_bytes or PAGE_BYTES * (AGAIN_TIMES if is_again else 1)
    stretch = (read.partition, read.lo_ms, read.hi_ms, read.cursor, page_bytes)
    if not read.keys_first:
        return await store.scan(*stretch)
    page = await store.scan(*stretch, keys_only=True)
    lacked = [rows for group in page.groups if len(rows := lacking(group))]
    if sum(map(len, lacked)) > FEW_ROWS or sum(int(rows.columns["length"].sum()) for rows in lacked) > page_bytes:
        return await store.scan(*stretch)
    return replace(page, groups=await _with_bodies(store, read, lacked) if lacked else [])


async def _with_bodies(store: Rows, read: ReadPage, lacked: Sequence[RowGroup]) -> list[RowGroup]:
    """What is found under these keys may be more: other versions, that are not lacked or on another page."""
    keys = [(key.position_ms, key.digest) for rows in lacked for key in rows.keys()]
    groups = [found.rows for found in await store.find(read.partition, list(dict.fromkeys(keys))) if len(found.rows)]
    wanted = [rows.select(np.flatnonzero(keys_in(rows, lacked))) for rows in groups]
    return [rows for rows in wanted if len(rows)]


async def count_rows(store: Rows, partition: Partition) -> tuple[int, int]:
    """All rows, by their keys, and how many of them point elsewhere."""
    cursor = rows = forwards = 0
    done = False
    while not done:
        lo_ms, hi_ms = partition.bucket_ms, partition.end_ms
        page = await store.scan(partition, lo_ms, hi_ms, cursor, PAGE_BYTES, keys_only=True)
        rows += sum(map(len, page.groups))
        forwards += sum(mark.kind == MarkKind.FORWARD for mark in page.marks)
        cursor, done = page.cursor, page.done
    return rows, forwards
