"""What calls that write tasks of ordering keys tell those who send them."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import NamedTuple

from timerd.core.ordering import Filed, KeyFacts, KeyPhase, OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.halts import Halt
from timerd.model.identity import PREFIX_BYTES, TaskId, mac_of
from timerd.model.ordering import key_shards_of, numbered
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup
from timerd.services.holding.halting import Halting

# A write of which nobody heard the end has been met by a sweep, if it was made.
MET_S = 3.0
_SINCE = attrgetter("since_ms")


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


def _task_of(halt: Halt) -> TaskId:
    return TaskId.from_bytes(halt.task_id)


def has_expired(filed: Filed, now_ms: int) -> bool:
    return 0 < filed.rows.expiry_ms(filed.row) <= now_ms


class KeyState(NamedTuple):
    """Of one key: how many of its tasks wait in memory, and for which. `until_ms`: when that may start; 0: it has
    started, or may start now."""

    key: str
    waiting: int
    task: TaskId | None
    until_ms: int
    halt: Halt | None = None


class Before(NamedTuple):
    """What keeps a task of a key from being sent. `is_halted`: that has failed for good, and the key stands still."""

    task: TaskId | None
    is_halted: bool = False


NONE_BEFORE = Before(None)


class Ordering:
    """Of one instance."""

    def __init__(self, keys: OrderKeys, halting: Halting, secret: bytes, *, in_cluster: bool = False) -> None:
        self._in_cluster = in_cluster
        self._keys = keys
        self._halting = halting
        self._secret = secret

    def number(self, rows: RowGroup, now_ms: int) -> None:
        """Gives them their order, in the step that accepts them."""
        base = self._keys.draw(int(rows.columns["index"].max()) + 1, now_ms)
        rows.extras = [numbered(extra, base, in_cluster=self._in_cluster) for extra in rows.extras]

    def drawn(self, now_ms: int) -> int:
        """The number of a task that gets a place anew: above all that were drawn until then, on any instance."""
        return self._keys.draw(1, now_ms + 1)

    def shards(self, rows: RowGroup) -> dict[int, int]:
        """Row -> key shard, of those that have an ordering key, where there is a cluster."""
        return key_shards_of(rows) if self._in_cluster and rows.extras else {}

    def keeps(self, queue: QueueKey, ordering_key: str) -> bool:
        """Whether this instance sends the tasks of the key."""
        return self._keys.is_kept(queue, ordering_key)

    def before(self, queue: QueueKey, ordering_key: str, digest: bytes, now_ms: int) -> Before:
        """The task of the key that keeps this one from being sent. One that has expired, and was not sent, keeps none:
        it is passed over when its turn comes. Of a key that this instance does not keep it knows none."""
        if not self.keeps(queue, ordering_key):
            return NONE_BEFORE
        if (halt := self._keys.halts.find(queue, ordering_key)) is not None:
            return Before(_task_of(halt), is_halted=True)
        found = self._keys.before(queue, ordering_key, digest)
        if found is None or (found.key.digest not in self._keys.blocking and has_expired(found, now_ms)):
            return NONE_BEFORE
        return Before(id_of(found, self._secret))

    def states(self, queue: QueueKey, most: int) -> list[KeyState]:
        """Keys of the queue, of a cluster those that this instance keeps: which stand still for the longest, then which
        have the most in memory."""
        facts = {each.ordering_key: each for each in self._keys.facts(queue, most)}
        of_queue = (each for each in self._keys.halts if (each.namespace, each.queue) == queue)
        halts = sorted((each for each in of_queue if self._keys.is_kept(queue, each.ordering_key)), key=_SINCE)
        first = {halt.ordering_key: halt for halt in reversed(halts)}
        halted = [KeyState(key, self._waiting(queue, key), _task_of(halt), 0, halt) for key, halt in first.items()]
        halted.sort(key=lambda each: each.halt.since_ms if each.halt is not None else 0)
        others = (self._state(each) for key, each in facts.items() if key not in first)
        return [*halted, *others][:most]

    def halted(self, queue: QueueKey) -> int:
        return self._keys.counts().get((queue, KeyPhase.HALTED), 0)

    async def halt(self, queue: QueueKey, ordering_key: str, task_id: str) -> Halt | None:
        """What halts the key; with an id only if it is that one. A task that lives again halts nothing."""
        halt = await self._halting.find(queue, ordering_key)
        return None if halt is None or task_id not in ("", str(_task_of(halt))) else halt

    async def skip(self, halt: Halt) -> None:
        await self._halting.resume(halt)

    def _waiting(self, queue: QueueKey, key: str) -> int:
        return self._keys.line(queue, key).waiting if self._keys.has(queue, key) else 0

    def _state(self, facts: KeyFacts) -> KeyState:
        found = facts.sent or facts.first
        task = id_of(found, self._secret) if found is not None else None
        until_ms = facts.first.until_ms if facts.first is not None and facts.sent is None else 0
        return KeyState(facts.ordering_key, facts.waiting, task, until_ms)

    def writing(self, now_ms: int) -> AbstractContextManager[None]:
        """Rows are written at that instant or later: what is due then waits for them."""
        loop = asyncio.get_running_loop()
        return self._keys.writing(now_ms, lambda end: (loop.call_later(MET_S, end), None)[1])
