"""The key shards that this instance keeps, and how far their partitions are known to it (rules O1, O6 of
tests/models/order.pml).

Of the instances of a cluster one alone sends the tasks of a key: the keeper of its key shard, by the register of that.
What partitions a shard has is in the catalogue, which names each before its first row. So a look that began after the
register was taken, after a row was due, and after it was met here, has found every partition with a row that was stored
by then and comes before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from timerd.core.taken import LAST
from timerd.model.key_shards import ShardKeeper

NOTHING_MS = -LAST


class KeptShards:
    """Of one instance; by the number of the shard."""

    def __init__(self) -> None:
        self._kept: dict[int, ShardKeeper] = {}
        # How many looks had begun when it was taken, or a partition of it that another instance had held.
        self._taken_at: dict[int, int] = {}
        # Until when workers have deliveries of tasks that are over, of partitions that are held no more.
        self._owed_ms: dict[int, int] = {}
        self._begun = self._ended = 0
        self._begun_ms = NOTHING_MS
        # When the last look began that has ended.
        self.looked_ms = NOTHING_MS

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._kept))

    def __contains__(self, shard: int) -> bool:
        return shard in self._kept

    def keeper(self, shard: int) -> ShardKeeper | None:
        """As it stands in the register; None: this instance does not keep it."""
        return self._kept.get(shard)

    def taken(self, shard: int, keeper: ShardKeeper) -> None:
        """The register names this instance."""
        self._kept[shard], self._taken_at[shard] = keeper, self._begun

    def acquired(self, shard: int) -> None:
        """A partition of it is held from now on: who held it before may have noted that keys stand still."""
        if shard in self._kept:
            self._taken_at[shard] = self._begun

    def left(self, shard: int) -> None:
        self._kept.pop(shard, None)

    def owe(self, shard: int, until_ms: int) -> None:
        """Nothing of the shard is to start before that instant."""
        self._owed_ms[shard] = max(until_ms, self.owed_ms(shard))

    def owed_ms(self, shard: int) -> int:
        return self._owed_ms.get(shard, 0)

    def told(self, shard: int) -> None:
        """The register says until when: who keeps the shard next goes by it."""
        self._owed_ms.pop(shard, None)

    def lapse(self) -> None:
        """The lease was lost: others may keep them by now."""
        self._kept.clear()

    def begin_look(self, now_ms: int) -> None:
        """The catalogue is about to be read."""
        self._begun, self._begun_ms = self._begun + 1, now_ms

    def looked(self) -> None:
        """All that it names is held here, or is to be."""
        self._ended, self.looked_ms = self._begun, self._begun_ms

    @property
    def begun(self) -> int:
        """How many looks have begun."""
        return self._begun

    def has_looked_since(self, begun: int) -> bool:
        """Whether one has ended that began when so many had."""
        return self._ended > begun

    def known_ms(self, shard: int) -> int:
        """Which partitions have rows before that instant is known."""
        keeper = self._kept.get(shard)
        if keeper is None or not self.has_looked_since(self._taken_at[shard]):
            return NOTHING_MS
        return self.looked_ms if self.looked_ms >= max(keeper.from_ms, self.owed_ms(shard)) else NOTHING_MS
