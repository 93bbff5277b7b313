"""Which shard of its bucket a message goes to, and more shards for a bucket that is announced or found hot (protocol
section 2).

The counts of hot buckets are one register, read every two seconds where messages come in. A count may grow while the
bucket is open: what was written before stays in its shard. So that a repeat does not store its rows a second time, a
message for a hot bucket is looked for in the shards of smaller counts first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from timerd.core.cluster import LoadEstimate, shards_for
from timerd.model.columns import distinct
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.first_reply import Times
from timerd.model.identity import digest_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup
from timerd.model.shard_counts import HOT, ShardCounts
from timerd.model.storage import Cas, CasStatus
from timerd.ports import Store
from timerd.services.background import begin

REFRESH_S = 2.0
# What was read longer ago is not used.
STALE_S = 10.0
READ_TIMEOUT_S = 0.5
# Of a message that is looked for: rows travel a hundred in a batch, each of which may have been written or not.
LOOK_EVERY = 50
_log = logging.getLogger(__name__)


class Shards:
    """`instances`: how many share the work. Without `grows` every bucket has the default for ever, and nothing is read:
    one machine with one shard."""

    def __init__(
        self,
        store: Store,
        default: int = 1,
        *,
        grows: bool = False,
        now_ms: Callable[[], int] = lambda: 0,
        instances: Callable[[], int] = lambda: 1,
    ) -> None:
        self._store = store
        self._default = default
        self._grows = grows
        self._now_ms = now_ms
        self._instances = instances
        self._counts = ShardCounts(default)
        self._read_s = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._growing: dict[int, asyncio.Task[None]] = {}
        self._load_estimate = LoadEstimate()

    def count(self, bucket_ms: int) -> int:
        """As far as is known."""
        return self._counts.count(bucket_ms)

    def of(self, prefix: bytes, bucket_ms: int) -> int:
        """The shard of a message that nobody has seen before."""
        return self._counts.shard(prefix, bucket_ms)

    def known(self, prefix: bytes, bucket_ms: int) -> int | None:
        """The shard of a message of one task, where nothing has to be read for it. None: `place` says it."""
        if self._default == 1 and not self._grows:
            return 0
        is_fresh = not self._grows or asyncio.get_running_loop().time() - self._read_s < REFRESH_S
        return self._counts.shard(prefix, bucket_ms) if is_fresh and bucket_ms not in self._counts.hot else None

    async def place(self, prefix: bytes, rows: RowGroup, positions_ms: Times) -> Mapping[int, int]:
        """Bucket -> shard, for all rows of a message."""
        buckets = _buckets(positions_ms)
        if self._default == 1 and not self._grows:
            return dict.fromkeys(buckets, 0)
        counts = await self._fresh() if self._grows else self._counts
        shards = {bucket_ms: counts.shard(prefix, bucket_ms) for bucket_ms in buckets}
        hot = [(b, counts.earlier(prefix, b)) for b in counts.hot.keys() & shards.keys()]
        for bucket_ms, earlier in hot:
            of_bucket = np.flatnonzero((positions_ms >= bucket_ms) & (positions_ms < bucket_ms + BUCKET_MS))
            index = rows.columns["index"]
            keys = [(int(positions_ms[n]), digest_of(prefix, int(index[n]))) for n in of_bucket[::LOOK_EVERY]]
            shards[bucket_ms] = await self._where(bucket_ms, earlier, keys, shards[bucket_ms])
        return shards

    def took_in(self, positions_ms: Times, size_bytes: int) -> None:
        """Rows of one message were stored."""
        if not self._grows:
            return
        buckets, counts = np.unique(positions_ms - positions_ms % BUCKET_MS, return_counts=True)
        for bucket_ms, rows in zip(buckets.tolist(), counts.tolist(), strict=True):
            self._load_estimate.add(bucket_ms, rows, size_bytes * rows // len(positions_ms))
            count = self._counts.count(bucket_ms)
            wanted = self._load_estimate.wanted(bucket_ms, count, self._instances())
            if wanted > count and bucket_ms not in self._growing:
                self._growing[bucket_ms] = begin(self._grow(bucket_ms, wanted), "shards")

    async def announce(self, bucket_ms: int, rows: int, size_bytes: int) -> int:
        """So much is coming; returns how many shards the bucket has now. Messages go there within REFRESH_S."""
        if self._grows:
            wanted = shards_for(rows, size_bytes, self._counts.count(bucket_ms), self._instances())
            await self.grow(bucket_ms, wanted)
        return self._counts.count(bucket_ms)

    async def grow(self, bucket_ms: int, count: int) -> None:
        """Messages that come from now on are spread over `count` shards, where that is more."""
        while True:
            stored = (await self._store.read([HOT]))[0]
            self._counts = ShardCounts.from_bytes(self._default, stored)
            changed = self._counts.with_more(bucket_ms, count, self._now_ms())
            if changed is None:
                return
            result = (await self._store.cas([Cas(HOT, stored, changed.to_bytes())]))[0]
            if result.status is CasStatus.APPLIED:
                self._counts = changed
                return

    async def close(self) -> None:
        tasks = [*self._growing.values(), *([self._reading] if self._reading is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _where(self, bucket_ms: int, earlier: Sequence[int], keys: Sequence[tuple[int, bytes]], now: int) -> int:
        """The first of the earlier shards that has any of the rows."""
        for shard in earlier:
            found = await self._store.find(Partition(TIME_SCOPE, bucket_ms, shard), keys)
            if any(len(each.rows) for each in found):
                return shard
        return now

    async def _fresh(self) -> ShardCounts:
        """As it was a moment ago: while it is read again, others go on with what is known."""
        loop = asyncio.get_running_loop()
        age_s = loop.time() - self._read_s
        if age_s >= REFRESH_S and (self._reading is None or self._reading.done()):
            self._reading = begin(self._read(), "shards")
        if age_s >= STALE_S and self._reading is not None:
            # The rows go to the same store next, and the caller is to hear of its silence once.
            await asyncio.wait([self._reading], timeout=READ_TIMEOUT_S)
        return self._counts

    async def _read(self) -> None:
        begun_s = asyncio.get_running_loop().time()
        try:
            stored = (await self._store.read([HOT]))[0]
        except (StoreUnavailable, StoreUnknown) as error:
            _log.warning("The shard counts of hot buckets are those of before: %s", error)
            return
        self._counts = ShardCounts.from_bytes(self._default, stored)
        self._read_s = begun_s

    async def _grow(self, bucket_ms: int, count: int) -> None:
        try:
            await self.grow(bucket_ms, count)
            _log.info("the bucket of %d has %d shards now", bucket_ms, self._counts.count(bucket_ms))
        except (StoreUnavailable, StoreUnknown) as error:
            _log.warning("The bucket of %d has too few shards, and the store did not take more: %s", bucket_ms, error)
        finally:
            self._growing.pop(bucket_ms, None)


def _buckets(positions_ms: Times) -> list[int]:
    """Each once. For a message of one task, numpy's way costs as much as all else that is done with it."""
    if len(positions_ms) == 1:
        return [bucket_of(int(positions_ms[0]))]
    found: list[int] = (distinct(positions_ms // BUCKET_MS) * BUCKET_MS).tolist()
    return found
