"""What a reply says of the homes of a message: buckets in their order, whatever order they were found in."""

from __future__ import annotations

import numpy as np

from timerd.model.identity import mac_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.services.engine.placed_ids import PlacedIds

SECRET, MESSAGE = bytes(range(32)), bytes(12)
TEMPLATE = Template("n", "q", 3)


def test_homes_are_told_in_the_order_of_their_buckets() -> None:
    rows = RowGroup(np.zeros(2, ROW), np.zeros(1, PREFIX), [TEMPLATE], b"", [])
    found = {5 * BUCKET_MS: 1, 2 * BUCKET_MS: 0}
    ids = PlacedIds(SECRET, MESSAGE, rows, np.array([5, 2]) * BUCKET_MS, found)
    shards, macs = ids.homes()
    assert list(shards.items()) == [(2 * BUCKET_MS, 0), (5 * BUCKET_MS, 1)]
    homes = [Partition(TIME_SCOPE, bucket_ms, shard) for bucket_ms, shard in shards.items()]
    assert macs == b"".join(mac_of(SECRET, "n", MESSAGE, home, TEMPLATE.scope, 3) for home in homes)
