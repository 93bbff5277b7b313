"""What calls that write tasks of ordering keys tell those who send them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from dataclasses import replace

from timerd.core.ordering import Filed, OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.identity import PREFIX_BYTES, TaskId, mac_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup
from timerd.services.engine.verbs import TaskView

# A write of which nobody heard the end has been met by a sweep, if it was made.
MET_S = 3.0


def id_of(filed: Filed, secret: bytes) -> TaskId:
    """The id of a task that waits for its turn, or has it."""
    rows, row, key = filed.rows, filed.row, filed.key
    template, extra = rows.template_of(row), rows.extra_of(row)
    position_ms, shard = key.position_ms, filed.home.partition.shard
    if extra.home_position_ms >= 0:
        position_ms, shard = extra.home_position_ms, extra.home_shard
    prefix, item = key.digest[:PREFIX_BYTES], int.from_bytes(key.digest[PREFIX_BYTES:], "big")
    home = Partition(TIME_SCOPE, bucket_of(position_ms), shard)
    mac = mac_of(secret, template.namespace, prefix, home, template.scope, template.priority)
    return TaskId(position_ms, shard, template.scope, template.priority, prefix, item, mac)


def has_expired(filed: Filed, now_ms: int) -> bool:
    return 0 < filed.rows.expiry_ms(filed.row) <= now_ms


class Ordering:
    """Of one instance."""

    def __init__(self, keys: OrderKeys) -> None:
        self._keys = keys

    def number(self, rows: RowGroup, now_ms: int) -> None:
        """Gives them their order, in the step that accepts them."""
        base = self._keys.draw(int(rows.columns["index"].max()) + 1, now_ms)
        rows.extras = [replace(e, order_base=base) if e.ordering_key else e for e in rows.extras]

    def before(self, view: TaskView, secret: bytes, now_ms: int) -> TaskId | None:
        """The task of the key that keeps this one from being sent. One that has expired, and was not sent, keeps none:
        it is passed over when its turn comes."""
        if view.template is None:
            return None
        queue = QueueKey(view.template.namespace, view.template.queue)
        found = self._keys.before(queue, view.ordering_key, view.task_id.digest)
        if found is None or (found.key.digest not in self._keys.blocking and has_expired(found, now_ms)):
            return None
        return id_of(found, secret)

    def writing(self, now_ms: int) -> AbstractContextManager[None]:
        """Rows are written at that instant or later: what is due then waits for them."""
        loop = asyncio.get_running_loop()
        return self._keys.writing(now_ms, lambda end: (loop.call_later(MET_S, end), None)[1])
