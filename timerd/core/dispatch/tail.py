"""Deliveries as they happen, for those who look on: what was sent, and how it ended.

It is lossy: a reader is told so many a second, has room for so many lines, and the others are counted. Nothing is kept
while nobody reads. The end of a delivery is told to those who were told of its sending, so that a line can name queue
and worker without a look at anything that dispatch needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from timerd.core.dispatch.settlement import Settlement, task_id_of
from timerd.core.taken import Again, QueueKey, Taken
from timerd.model.identity import TaskId, attempt_of
from timerd.model.settle import Outcome

MOST_READERS = 50
# Lines that wait for one reader.
MOST_WAITING = 1_000
# Deliveries whose end would be told. Of more, those that were sent first are forgotten.
MOST_FOLLOWED = 10_000


class TailKind(IntEnum):
    """As DeliveryEventKind in the proto."""

    SENT = 1
    ACKED = 2
    FAILED = 3
    DEAD = 4
    EXPIRED = 5
    GIVEN_BACK = 6
    CANCELLED = 7


KINDS = {Outcome.ACKED: TailKind.ACKED, Outcome.DEAD: TailKind.DEAD, Outcome.EXPIRED: TailKind.EXPIRED}


class TailLine(NamedTuple):
    """`at_ms`: when it was sent, or its end was known. `next_ms`: when a failed one is due again."""

    at_ms: int
    kind: TailKind
    queue: QueueKey
    task_id: TaskId
    due_ms: int
    sent_ms: int
    attempt: int
    worker: str
    next_ms: int = 0


class TailReader:
    """One who looks on. `queue` empty: all queues of the namespace. `changed` is called when there is more to take."""

    def __init__(self, namespace: str, queue: str, per_second: int, changed: Callable[[], None]) -> None:
        self.left_out = 0
        self._namespace = namespace
        self._queue = queue
        self._per_second = per_second
        self._changed = changed
        self._lines: deque[TailLine] = deque()
        self._second = self._told = 0

    def reads(self, queue: QueueKey) -> bool:
        return queue.namespace == self._namespace and self._queue in ("", queue.queue)

    def allow(self, deliveries: int, now_ms: int) -> int:
        """How many of so many that are sent now are told; the others are left out."""
        if now_ms // 1000 != self._second:
            self._second, self._told = now_ms // 1000, 0
        allowed = min(deliveries, self._per_second - self._told)
        self._told += allowed
        self.left_out += deliveries - allowed
        if allowed < deliveries:
            self._changed()
        return allowed

    def put(self, line: TailLine) -> None:
        if len(self._lines) >= MOST_WAITING:
            self.left_out += 1
        else:
            self._lines.append(line)
        self._changed()

    def take(self) -> tuple[Sequence[TailLine], int]:
        """What came since, in its order, and how many were left out since."""
        lines, self._lines = self._lines, deque()
        left_out, self.left_out = self.left_out, 0
        return lines, left_out


@dataclass(frozen=True, slots=True)
class Followed:
    """A delivery whose end is to be told. `version`: that of its row. `is_cancelled`: its task was, meanwhile."""

    line: TailLine
    version: int
    readers: Sequence[TailReader]
    is_cancelled: bool = False


class Tail:
    """Of what one instance sends. `secret`: what ids are sealed with."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._readers: list[TailReader] = []
        self._followed: dict[bytes, Followed] = {}

    @property
    def is_read(self) -> bool:
        return bool(self._readers)

    @property
    def has_room(self) -> bool:
        """For one more reader."""
        return len(self._readers) < MOST_READERS

    def join(self, reader: TailReader) -> None:
        self._readers.append(reader)

    def leave(self, reader: TailReader) -> None:
        self._readers.remove(reader)
        if not self._readers:
            self._followed.clear()

    def sent(self, queue: QueueKey, taken: Taken, worker: str, now_ms: int) -> None:
        """These rows of one queue were sent to one worker."""
        reading = [reader for reader in self._readers if reader.reads(queue)]
        allowed = [reader.allow(len(taken), now_ms) for reader in reading]
        for row in range(max(allowed, default=0)):
            told = [reader for reader, rows in zip(reading, allowed, strict=True) if row < rows]
            self._tell(queue, taken, row, worker, now_ms, told)

    def cancelled(self, digests: Iterable[bytes]) -> None:
        """These tasks were, while a worker had them: a failure is no failure then, and nothing follows."""
        for digest in digests:
            if (found := self._followed.get(digest)) is not None:
                self._followed[digest] = replace(found, is_cancelled=True)

    def settled(self, settlement: Settlement, now_ms: int) -> None:
        """These deliveries are over, and that is durable."""
        for rows in settlement.acked:
            if not self._followed.keys().isdisjoint(rows.digests):
                for digest in rows.digests:
                    self._end(digest, TailKind.ACKED, now_ms)
        for ended in (*settlement.ended, *settlement.dead):
            self._end(ended.key.digest, KINDS[ended.outcome], now_ms)
        for kind, failed in (
            (TailKind.FAILED, settlement.again),
            (TailKind.EXPIRED, settlement.expired),
            (TailKind.GIVEN_BACK, settlement.back),
        ):
            for each in failed:
                if self._speaks_of_last(each):
                    next_ms = each.position_ms if kind is TailKind.FAILED else 0
                    self._end(each.key.digest, kind, now_ms, next_ms)

    def _tell(
        self, queue: QueueKey, taken: Taken, row: int, worker: str, now_ms: int, readers: Sequence[TailReader]
    ) -> None:
        due_ms, version = taken.positions[row], taken.versions[row]
        task_id = task_id_of(taken, row, due_ms, taken.rows.extra_of(row), self._secret)
        line = TailLine(now_ms, TailKind.SENT, queue, task_id, due_ms, now_ms, attempt_of(version), worker)
        if len(self._followed) >= MOST_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        self._followed.pop(taken.digests[row], None)
        self._followed[taken.digests[row]] = Followed(line, version, readers)
        for reader in readers:
            reader.put(line)

    def _speaks_of_last(self, failed: Again) -> bool:
        """A task may have been sent anew before it was told that the delivery before is over."""
        found = self._followed.get(failed.key.digest)
        if found is None or found.version != failed.key.version:
            return False
        return found.line.sent_ms <= failed.failed_at_ms

    def _end(self, digest: bytes, kind: TailKind, now_ms: int, next_ms: int = 0) -> None:
        found = self._followed.pop(digest, None)
        if found is None:
            return
        if found.is_cancelled and kind is not TailKind.ACKED:
            kind, next_ms = TailKind.CANCELLED, 0
        line = found.line._replace(at_ms=now_ms, kind=kind, next_ms=next_ms)
        for reader in found.readers:
            if reader in self._readers:
                reader.put(line)
