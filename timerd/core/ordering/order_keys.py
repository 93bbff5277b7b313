"""Which task of an ordering key is the next one, over all partitions of an instance.

The rows of a key are filed here when they are met, in the order of (position, order_seq), and only the first one waits
in its due queue. What has been sent blocks its key until its end is durable, or until its row is filed again: as the
next attempt, which keeps its place, or given back unsent. So nothing that is blocked is looked at until something of
its key ends. A queue without keys pays for none of this.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, KeysView, Set
from contextlib import contextmanager
from itertools import count

import numpy as np

from timerd.core.ordering.halts import Halts
from timerd.core.ordering.kept_shards import NOTHING_MS, KeptShards
from timerd.core.ordering.key_counts import KeyCounts, KeyPhase, RowsBehind
from timerd.core.ordering.lines import Filed, Give, KeyFacts, Line
from timerd.core.taken import LAST, QueueKey
from timerd.model.halts import Halt
from timerd.model.identity import RowKey, TaskId
from timerd.model.ordering import OnFailure, OrderFence, OrderPlace, first_of, place_of
from timerd.model.partition import Partition, key_shard_of
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome

# The task lives on in another row, or may do so.
_LEFT = frozenset({Outcome.MOVED, Outcome.FORWARDED})


class OrderKeys:
    """Of one instance."""

    def __init__(self) -> None:
        # There is no other instance.
        self.is_single = True
        self._lines: dict[tuple[QueueKey, str], Line] = {}
        # By digest: what keeps its key from going on.
        self._blocking: dict[bytes, Filed] = {}
        # Acked by an older attempt while a worker has a later one: until when that has it.
        self._held_ms: dict[bytes, int] = {}
        # Of these, tasks whose end is durable.
        self._over: set[bytes] = set()
        self._numbers = count()
        self._last_seq = 0
        self.first_seq = LAST
        self._writes: dict[int, int] = {}
        self._counts = KeyCounts()
        self._given: Callable[[], None] = lambda: None
        self.halts = Halts()
        # In a cluster: which keys are sent from here; by digest the fences of what was; when the last one was started.
        self.kept_shards = KeptShards()
        self.fences: dict[bytes, OrderFence] = {}
        self.started_ms = 0
        self.awaited_ms = -LAST  # When a row last waited until it was known to be the first.
        self._lease_of: Callable[[RowKey], int | None] = lambda _: None
        self.on_failure: Callable[[QueueKey], OnFailure] = lambda _: OnFailure.HOLD

    def __len__(self) -> int:
        """How many keys have something in memory."""
        return len(self._lines)

    def on_given(self, given: Callable[[], None]) -> None:
        """`given` is called when rows may be sent that waited for their key."""
        self._given = given

    def asks(self, lease_of: Callable[[RowKey], int | None]) -> None:
        """Until when a worker has a delivery of a row's generation; None: none has."""
        self._lease_of = lease_of

    def goes_by(self, on_failure: Callable[[QueueKey], OnFailure]) -> None:
        """What becomes of the keys of a queue when a task of theirs fails."""
        self.on_failure = on_failure

    # -- accepting ------------------------------------------------------------------------------------------------

    def draw(self, tasks: int, now_ms: int) -> int:
        """The first of so many numbers, which are greater than all before."""
        first = max(self._last_seq + 1, first_of(now_ms))
        self.first_seq = min(self.first_seq, first)
        self._last_seq = first + tasks - 1
        return first

    def begin_write(self, now_ms: int) -> int:
        """Rows of keys may be written at that instant or later: until `end_write` nothing that is due then is sent."""
        number = self.number()
        self._writes[number] = now_ms
        return number

    def end_write(self, number: int) -> None:
        self._writes.pop(number, None)

    @contextmanager
    def writing(self, now_ms: int, later: Callable[[Callable[[], None]], None]) -> Iterator[None]:
        """What has failed may be written all the same: `later` ends that write when a sweep has met it."""
        number = self.begin_write(now_ms)
        try:
            yield
        except BaseException:
            later(lambda: self.end_write(number))
            raise
        self.end_write(number)

    def written_ms(self) -> int:
        """What is before it is written, or never will be."""
        return min(self._writes.values(), default=LAST)

    # -- which one is next ----------------------------------------------------------------------------------------

    def line(self, queue: QueueKey, ordering_key: str) -> Line:
        name = queue, ordering_key
        found = self._lines.get(name)
        if found is None:
            found = self._lines[name] = Line(queue, ordering_key)
        return found

    def has(self, queue: QueueKey, ordering_key: str) -> bool:
        """Whether the key has something in memory."""
        return (queue, ordering_key) in self._lines

    def number(self) -> int:
        """Another one each time."""
        return next(self._numbers)

    def push(self, filed: Filed, position_ms: int) -> None:
        """`position_ms`: by which it goes, which may be an earlier one than that of its row. What a worker has, by the
        row, is the next in any case: in a cluster a task may come late, and stand before what has been started."""
        is_with_worker = filed.home.partition.is_of_keys and filed.is_leased
        entry = NOTHING_MS if is_with_worker else position_ms, filed.seq, self.number(), filed
        heapq.heappush(filed.line.heap, entry)
        filed.line.waiting += 1
        sent = self._blocking.get(filed.key.digest)
        # Another row of the task, which was written again, says nothing of the one that was sent.
        if sent is not None and (sent.key == filed.key or sent.key.version < filed.key.version):
            self._unblock(sent)
        if self.halts.tasks:
            place, revives = OrderPlace(position_ms, filed.seq), filed.home.partition.is_of_keys
            self.halts.met(filed.line.queue, filed.line.ordering_key, filed.key, place, revives=revives)
        self._count(filed.line)

    def gone(self, filed: Filed) -> None:
        """It waits no more."""
        filed.is_gone = True
        filed.line.waiting -= 1
        self._count(filed.line)

    def is_next(self, filed: Filed) -> bool:
        line = filed.line
        if line.blocked or line.first() is not filed:
            return False
        if not self.halts.tasks:
            return True
        place = OrderPlace(line.heap[0][0], filed.seq)
        return self.halts.lets_go(line.queue, line.ordering_key, filed.key.digest, place)

    def block(self, filed: Filed) -> None:
        """It is sent, or ends: nothing else of its key is sent until that is durable."""
        digest = filed.key.digest
        if digest not in self._blocking:
            self._blocking[digest] = filed
            filed.line.blocked += 1
            self._count(filed.line)

    def start(self, filed: Filed, now_ms: int) -> None:
        """It is sent by the keeper of its key shard: the fence is greater than that of whatever was sent before."""
        self.block(filed)
        self.started_ms = max(self.started_ms, now_ms)
        self.fences[filed.key.digest] = OrderFence(self.started_ms, self.number(), filed.key.version)

    def begin_after(self, last_ms: int) -> None:
        """By then an earlier keeper of a key shard has started its last one."""
        self.started_ms = max(self.started_ms, last_ms + 1)

    def hold(self, digest: bytes, until_ms: int) -> None:
        """Another attempt has ended the task, and a worker has this one until then (rule O7)."""
        if digest in self._blocking:
            self._held_ms[digest] = until_ms

    def free(self, keys: Iterable[RowKey]) -> None:
        """These rows have ended, durably, or are where they go: what they kept goes on."""
        lines: list[Line] = []
        for key in keys:
            filed = self._blocking.get(key.digest)
            if filed is None or filed.key != key:
                continue
            if key.digest in self._held_ms:
                self._over.add(key.digest)
            else:
                lines.append(self._unblock(filed))
        self.give(lines)

    def end(self, rows: Iterable[tuple[RowKey, Outcome]]) -> None:
        """As `free`, of rows that have ended so; also what their tasks have kept halted goes on. A row that a move has
        left, or never came to, is not the end of its task."""
        ended = list(rows)
        for key, _ in ended:
            self._outlasted(key)
        over = [halt for key, how in ended if how not in _LEFT and (halt := self.halts.ended(key)) is not None]
        self.free(key for key, _ in ended)
        for halt in over:
            self._go_on(halt)

    def knows(self, halt: Halt) -> bool:
        """Whether the task that halts its key is sent, ends or waits here."""
        digest = TaskId.from_bytes(halt.task_id).digest
        line = self._lines.get((QueueKey(halt.namespace, halt.queue), halt.ordering_key))
        first = line.first() if line is not None else None
        return digest in self._blocking or (first is not None and first.key.digest == digest)

    def place_of(self, halt: Halt) -> OrderPlace | None:
        """Where the task that halts its key waits here; None: it does not."""
        digest = TaskId.from_bytes(halt.task_id).digest
        line = self._lines.get((QueueKey(halt.namespace, halt.queue), halt.ordering_key))
        waiting = line.heap if line is not None else ()
        found = (OrderPlace(ms, seq) for ms, seq, _, filed in waiting if filed.key.digest == digest)
        return next(found, None)

    @property
    def watched(self) -> Set[bytes]:
        """Digests of tasks whose ends let others go on."""
        return self._blocking.keys() | self.halts.living if self.halts.living else self._blocking.keys()

    @property
    def blocking(self) -> KeysView[bytes]:
        """Digests of what has been sent, or ends."""
        return self._blocking.keys()

    def keeps_back(self, digests: Iterable[bytes]) -> bool:
        """Whether others of its key wait for the end of one of these tasks."""
        blocking = self._blocking
        return bool(blocking) and any(d in blocking and blocking[d].line.waiting for d in digests)

    def halt(self, halt: Halt) -> None:
        """Nothing of the key is sent until it is resumed; it was noted, or died before this instance began."""
        self.halts.add(halt)

    def resume(self, halt: Halt) -> None:
        """This task halts its key no more, durably."""
        self.halts.remove(halt)
        self._go_on(halt)

    def _go_on(self, halt: Halt) -> None:
        line = self._lines.get((QueueKey(halt.namespace, halt.queue), halt.ordering_key))
        self.give([line] if line is not None else [])

    def lapse(self, now_ms: int) -> None:
        """Leases that are over."""
        over = [self._blocking[each] for each in self._over if self._held_ms[each] <= now_ms]
        self.give([self._unblock(filed) for filed in over])

    def give(self, lines: Iterable[Line]) -> None:
        """The first row of each, if nothing keeps it, goes to its due queue."""
        parts: dict[tuple[int, int, int], list[Filed]] = {}
        for line in lines:
            first = line.first()
            if first is None:
                self._forget(line)
            elif self.is_next(first) and not first.is_given:
                first.turn(is_given=True)
                parts.setdefault((id(first.home), id(first.rows), first.until_ms), []).append(first)
        for part in parts.values():
            home, rows = part[0].home, part[0].rows
            home.give(rows.select(np.array([each.row for each in part], np.intp)), part[0].until_ms)
        if parts:
            self._given()

    def drop(self, home: OrderedRows) -> None:
        """The partition is let go of: what was sent of it is read again, by the next holder."""
        gone = [filed for filed in self._blocking.values() if filed.home is home]
        shard = home.partition.shard
        for filed in gone if home.partition.is_of_keys else ():
            if (until_ms := self._held_ms.get(filed.key.digest)) is not None:
                self.kept_shards.owe(shard, until_ms)
        self.give([self._unblock(filed) for filed in gone])

    # -- for people -----------------------------------------------------------------------------------------------

    def facts(self, queue: QueueKey, most: int) -> list[KeyFacts]:
        """Of the keys of the queue that have most in memory."""
        sent = {id(filed.line): filed for filed in self._blocking.values()}
        found = [line for line in self._lines.values() if line.queue == queue]
        longest = heapq.nlargest(most, found, key=lambda line: len(line.heap))
        return [KeyFacts(line.ordering_key, line.waiting, sent.get(id(line)), line.first()) for line in longest]

    def before(self, queue: QueueKey, ordering_key: str, digest: bytes) -> Filed | None:
        """The task that keeps this one of the key from being sent; None: none does."""
        line = self._lines.get((queue, ordering_key))
        if line is None:
            return None
        sent = next((filed for filed in self._blocking.values() if filed.line is line), None)
        found = sent or line.first()
        return found if found is not None and found.key.digest != digest else None

    def oldest_ms(self, besides: Container[QueueKey]) -> int | None:
        """Position of the oldest row that waits of a key which does not stand still, but in these queues."""
        halted = self.halts.names()
        goes = (line for name, line in self._lines.items() if name not in halted and name[0] not in besides)
        firsts = (line.first() for line in goes)
        return min((first.key.position_ms for first in firsts if first is not None), default=None)

    def is_kept(self, queue: QueueKey, ordering_key: str) -> bool:
        """Whether the tasks of the key are sent from here: in a cluster by who keeps its key shard."""
        return self.is_single or key_shard_of(*queue, ordering_key) in self.kept_shards

    def counts(self) -> dict[tuple[QueueKey, KeyPhase], int]:
        """By queue and phase, how many keys; each is in one phase."""
        found = dict(self._counts.all())
        for queue, ordering_key in self.halts.names():
            if not self.is_kept(queue, ordering_key):
                continue
            line = self._lines.get((queue, ordering_key))
            if line is not None and line.counted is not None:
                found[queue, line.counted] -= 1
            found[queue, KeyPhase.HALTED] = found.get((queue, KeyPhase.HALTED), 0) + 1
        return found

    # -- inside ---------------------------------------------------------------------------------------------------

    def _outlasted(self, key: RowKey) -> None:
        """Another instance may have heard that an earlier attempt has ended the task, while a worker has this one."""
        filed = self._blocking.get(key.digest)
        if filed is None or not filed.home.partition.is_of_keys or key.digest in self._held_ms:
            return
        if (until_ms := self._lease_of(filed.key)) is not None:
            self.hold(key.digest, until_ms)

    def _unblock(self, filed: Filed) -> Line:
        digest = filed.key.digest
        del self._blocking[digest]
        self._held_ms.pop(digest, None)
        self.fences.pop(digest, None)
        self._over.discard(digest)
        filed.line.blocked -= 1
        self._count(filed.line)
        return filed.line

    def _count(self, line: Line) -> None:
        if (phase := line.phase()) is not line.counted:
            self._counts.turn(line.queue, line.counted, phase)
            line.counted = phase

    def _forget(self, line: Line) -> None:
        if not line.blocked:
            self._lines.pop((line.queue, line.ordering_key), None)


class OrderedRows:
    """Those of one partition, but for what has been sent. `give`: rows go to the due queue, not to be sent before an
    instant. `is_open`: whether the very row has been sent."""

    def __init__(self, partition: Partition, keys: OrderKeys, give: Give, is_open: Callable[[RowKey], bool]) -> None:
        self.partition = partition
        self.order_keys = keys
        self.give = give
        self._is_open = is_open
        self._filed: dict[RowKey, Filed] = {}
        self._oldest: list[tuple[int, int, Filed]] = []
        self.behind = RowsBehind()
        self.size_bytes = 0
        # Position of the last row of it that waited until it was known to be the first.
        self.awaited_ms = -LAST

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._filed

    def file(self, rows: RowGroup, until_ms: int = 0) -> None:
        """These rows wait for their turn. They may come again, and may have been held until then in between."""
        lines: dict[int, Line] = {}
        own = rows.compact() if len(rows) else rows
        for row, key in enumerate(own.keys()):
            known = self._filed.get(key)
            if known is not None and until_ms:
                known.until_ms = until_ms
                lines[id(known.line)] = known.line
            if known is not None or self._is_open(key):
                continue
            template, extra = own.template_of(row), own.extra_of(row)
            line = self.order_keys.line(QueueKey(template.namespace, template.queue), extra.ordering_key)
            place = place_of(own, row)
            filed = Filed(key, place.order_seq, own, row, max(until_ms, extra.not_before_ms), line, self)
            filed.met_at = self.order_keys.kept_shards.begun
            self._filed[key] = filed
            self.size_bytes += filed.size_bytes
            entry = key.position_ms, self.order_keys.number(), filed
            heapq.heappush(self._oldest, entry)
            self.behind.add(entry)
            self.order_keys.push(filed, place.position_ms)
            lines[id(line)] = line
        self.order_keys.give(lines.values())

    def find(self, key: RowKey) -> Filed | None:
        return self._filed.get(key)

    def remove(self, filed: Filed) -> None:
        """It waits here no more; its key goes on when it is told so."""
        del self._filed[filed.key]
        if not filed.is_given:
            self.behind.more(filed, -1)
        self.order_keys.gone(filed)
        self.size_bytes -= filed.size_bytes

    def over(self, keys: Iterable[RowKey]) -> None:
        """Of these, which end, those that wait here keep their keys until that is durable."""
        for key in keys if self._filed else ():
            if (filed := self._filed.get(key)) is not None:
                self.remove(filed)
                self.order_keys.block(filed)

    def said_over(self, keys: Iterable[RowKey]) -> None:
        """Of these, which end when they are met, those that wait here are due no more."""
        for filed in filter(None, map(self._filed.get, keys if self._filed else ())):
            self.behind.over(filed)

    def take_out(self, until_ms: int) -> None:
        """All rows up to that instant go to the due queue, for none of them is sent from here."""
        found = [each for each in self._filed.values() if each.key.position_ms <= until_ms]
        for filed in found:
            self.remove(filed)
            if not filed.is_given:
                self.give(filed.rows.one(filed.row), 0)
        lines = {id(filed.line): filed.line for filed in found}
        self.order_keys.give(lines.values())

    def given(self) -> list[Filed]:
        """What waits in the due queue."""
        return [filed for filed in self._filed.values() if filed.is_given]

    def oldest_ms(self) -> int | None:
        while self._oldest and self._oldest[0][2].is_gone:
            heapq.heappop(self._oldest)
        return self._oldest[0][0] if self._oldest else None

    def drop_all(self) -> None:
        """The partition is held no more."""
        for filed in self._filed.values():
            self.order_keys.gone(filed)
        lines = {id(filed.line): filed.line for filed in self._filed.values()}
        self._filed.clear()
        self._oldest.clear()
        self.behind.clear()
        self.size_bytes = 0
        self.order_keys.drop(self)
        self.order_keys.give(lines.values())
