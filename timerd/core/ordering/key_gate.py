"""May this row of an ordering key be sent? The last gate of all: what it lets pass blocks its key.

A row passes that is the first of its key, when nothing else of the key is sent or ends, and when nothing that comes
before it can still turn up: it stands before all that has not been read or written yet (rules O1, O4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from timerd.core.gates import ALL_MAY, KEPT, DueBatch, End, Fate, Fates, Hold
from timerd.core.ordering.lines import Filed
from timerd.core.ordering.order_keys import OrderedRows, OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_ORDERED

# A row that may not be the first is looked at again after this; in a cluster after the longer one, for it takes changes
# at the store to know.
LOOK_MS, LOOK_OF_SHARDS_MS = 10, 50
FiledIn = Callable[[Partition], OrderedRows | None]


class KeyGate:
    """`home`: what waits in a partition. `known_ms`: before that instant every row of the queue has been read that is
    in a partition of the same key shard.
    `heard_by_ms`: by then workers have come back with what they have from before a restart."""

    def __init__(
        self,
        keys: OrderKeys,
        home: FiledIn,
        known_ms: Callable[[QueueKey, Partition], int],
        heard_by_ms: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._home = home
        self._known_ms = known_ms
        self._heard_by_ms = heard_by_ms

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        if not self._keys:
            return ALL_MAY
        ordered = np.flatnonzero(batch.due.rows.columns["flags"] & FLAG_ORDERED)
        home = self._home(batch.due.partition)
        if not len(ordered) or home is None:
            return ALL_MAY
        template = batch.due.rows.template_of(0)
        partition = batch.due.partition
        sure_ms = self._known_ms(QueueKey(template.namespace, template.queue), partition)
        if not partition.is_of_keys:
            sure_ms = min(sure_ms, self._keys.written_ms())
        fates: dict[int, Fate] = {}
        for row in ordered.tolist():
            if (fate := self._fate(batch, row, home, sure_ms, now_ms)) is not None:
                fates[row] = fate
        return fates

    def _fate(self, batch: DueBatch, row: int, home: OrderedRows, sure_ms: int, now_ms: int) -> Fate | None:
        key = batch.key(row)
        filed, said = home.find(key), batch.fates.get(row)
        if said is not None:
            self._leaves(filed, home, said)
            return None
        if filed is None:
            # It ended where it stood, or came by another way: it waits for its turn.
            home.file(batch.due.rows.one(row))
            return KEPT
        filed.turn(is_given=False)
        if not self._keys.is_next(filed):
            self._keys.give([filed.line])
            return KEPT
        if (until_ms := self._unsure_until_ms(filed, key, sure_ms, now_ms)) > now_ms:
            return Hold(until_ms)
        home.remove(filed)
        if home.partition.is_of_keys:
            self._keys.start(filed, now_ms)
        else:
            self._keys.block(filed)
        return None

    def _unsure_until_ms(self, filed: Filed, key: RowKey, sure_ms: int, now_ms: int) -> int:
        """When to look again whether it is the first; now: it is."""
        if filed.home.partition.is_of_keys and not self._is_sure(filed, key, sure_ms):
            filed.home.awaited_ms = max(filed.home.awaited_ms, key.position_ms)
            self._keys.awaited_ms = now_ms
            return now_ms + LOOK_OF_SHARDS_MS
        if key.position_ms >= sure_ms or not self._keys.halts.is_read:
            return now_ms + LOOK_MS
        return int(max(now_ms, self._heard_by_ms())) if filed.seq < self._keys.first_seq else now_ms

    def _is_sure(self, filed: Filed, key: RowKey, sure_ms: int) -> bool:
        return key.position_ms < sure_ms and self._keys.kept_shards.has_looked_since(filed.met_at)

    def _leaves(self, filed: Filed | None, home: OrderedRows, said: Fate) -> None:
        """Another gate has objected. What ends keeps its key until that is durable; what is held stays where it is."""
        if filed is None:
            return
        filed.turn(is_given=False)
        if isinstance(said, Hold):
            return
        home.remove(filed)
        if isinstance(said, End):
            self._keys.block(filed)
        else:
            self._keys.give([filed.line])
