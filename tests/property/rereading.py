"""The store in RAM as an engine without cursors: nothing that was written has a name, and each scan brings the rows of
its range again, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.property.ordered_pages import cut
from tests.property.world import OneCommitStore
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Append, Appended, Found, Page

# A page has as many rows and marks as would have this size.
ROW_BYTES = 200


class RereadingStore(OneCommitStore):
    traits = replace(OneCommitStore.traits, has_cursors=False, pages_in_order=True)

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        return [replace(appended, sources={}) for appended in await super().append(messages)]

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        whole = await super().scan(partition, lo_ms, hi_ms, 0, 1 << 60, keys_only=keys_only)
        return cut(whole, cursor, max(1, limit_bytes // ROW_BYTES))

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        return [replace(found, rows=_nameless(found.rows)) for found in await super().find(partition, keys)]


def _nameless(group: RowGroup) -> RowGroup:
    """Without its name."""
    return replace(group.select(np.arange(len(group))), source=0)
