"""Deliveries in flight: which worker has what, and until when it may keep silent.

What is known of one delivery is a small integer (number of its batch, row in the batch) in one dict; everything else is
shared by the batch, so that a hundred thousand deliveries are no burden for the garbage collector. The dict goes by
short ids: of a first generation, as nearly all are, that is the digest, which is at hand wherever rows are. Leases are
looked at on a coarse grid: a lease is a sign of life, not an appointment.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt

from timerd.core.dispatch.attempt_ends import AttemptEnds
from timerd.core.dispatch.given_back import GivenBack
from timerd.core.dispatch.hand_count import HandCount
from timerd.core.dispatch.queue_stats import QueueStats
from timerd.core.dispatch.stalls import Stalls
from timerd.core.taken import AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import NamedDelivery
from timerd.model.attempts import AttemptEnd
from timerd.model.identity import ATTEMPT_BITS, FIRST_GENERATION, RowKey, delivery_id_of, long_id, short_id
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.rows import DIGEST
from timerd.model.settle import Outcome

# A slot is number * MAX_BATCH_ROWS + row.
MAX_BATCH_ROWS = 1024
LEASE_GRID_MS = 100
# Stretches that are shorter, in the mean, are taken out row by row.
FEW_ROWS = 8
# A stretch of fewer rows has ended row by row: arrays would cost more.
MANY_ROWS = 32
ACKED = "acked"
UNRECEIVED = "it never reached the worker"
# An arena that holds no more than so much for nothing is left as it is.
SLACK_BYTES = 65_536
# The first version of the second generation.
_SECOND = 1 << ATTEMPT_BITS


@dataclass(slots=True)
class Batch:
    """What one worker was sent in one go; lists have one entry a row. `open` counts the rows still in flight, `ids` are
    short ones."""

    number: int
    worker: int
    taken: Taken
    deadline_ms: int
    ids: Sequence[bytes]
    lease_until_ms: list[int]
    open: int
    sent_ms: int
    stats: QueueStats
    hand: HandCount
    # Of each row, where some are ended before `deadline_ms`.
    ends_ms: Sequence[int] | None = None
    # Where handlers of some rows are to say something now and then.
    stalls: Stalls | None = None
    # What the handlers of some rows have said of their progress.
    reports: dict[int, str] | None = None

    @property
    def queue(self) -> QueueKey:
        template = self.taken.rows.template_of(0)
        return QueueKey(template.namespace, template.queue)

    def limit_key(self, row: int) -> str:
        return self.taken.rows.template_of(row).limit_key

    def report(self, row: int, progress: str) -> None:
        if self.reports is None:
            self.reports = {}
        self.reports[row] = progress

    def heard(self, row: int, at_ms: int) -> None:
        """Of the handler of the row."""
        if self.stalls is not None:
            self.stalls.heard(row, at_ms)

    def progress(self, row: int) -> str:
        """The last one; empty: none."""
        return self.reports.get(row, "") if self.reports is not None else ""

    def end_ms(self, row: int) -> int:
        """When the attempt is over, whatever the worker says."""
        return self.deadline_ms if self.ends_ms is None else self.ends_ms[row]

    def over(self, rows: Sequence[int], now_ms: int) -> dict[AttemptEnd, list[int]]:
        """Of rows for which nobody speaks, by reason. Of a worker that is silent nobody knows what its handlers do."""
        out: dict[AttemptEnd, list[int]] = {}
        for row in rows:
            is_silent = self.lease_until_ms[row] <= now_ms
            end = AttemptEnd.LEASE_ENDED if is_silent else AttemptEnd.STALLED
            out.setdefault(AttemptEnd.TIMED_OUT if self.end_ms(row) <= now_ms else end, []).append(row)
        return out

    def silent_ms(self, row: int) -> float:
        """When it is over unless somebody speaks for it before."""
        lease_ms = self.lease_until_ms[row]
        return lease_ms if self.stalls is None else min(lease_ms, self.stalls.until_ms(row))

    def ends_of(self, rows: Sequence[int]) -> AttemptEnds:
        """As they were sent."""
        stalls = None if self.stalls is None else self.stalls.part(rows)
        if self.ends_ms is None:
            return AttemptEnds(self.deadline_ms, stalls=stalls)
        each_ms = [self.ends_ms[row] for row in rows]
        return AttemptEnds(max(each_ms), each_ms, stalls)

    def settled(self, outcome: str, now_ms: int, times: int = 1, *, is_silent: bool = False) -> None:
        """Of so many that are in flight no more. `is_silent`: it is their worker that was not heard of."""
        self.stats.settled(outcome, now_ms - self.sent_ms, times)
        self.hand.end("silent" if is_silent else outcome, times, self.sent_ms, now_ms)

    def key(self, row: int) -> RowKey:
        return self.taken.key(row)

    def acked(self, first: int, stop: int) -> AckedRows:
        """Rows that follow one another."""
        rows, taken = slice(first, stop), self.taken
        return AckedRows(taken.partition, taken.positions[rows], taken.digests[rows], taken.versions[rows])

    def place(self, row: int) -> Place:
        return Place(self.taken.partition, self.key(row))

    def sending(self, row: int) -> NamedDelivery:
        return NamedDelivery(self.taken.versions[row], self.taken.token, self.taken.sending)

    def was_sent_after(self, row: int, said: NamedDelivery) -> bool:
        """Whether that delivery came before this one: an earlier attempt, or the same one by an earlier holder or given
        back since, which was sent again. What is said of it is said by who has it no more."""
        return said[:2] < (self.taken.versions[row], self.taken.token) or self._was_given_back(row, said)

    def is_not_ended_by(self, row: int, said: NamedDelivery) -> bool:
        """As `was_sent_after`, of who says that the task is hopeless: who has it by an earlier holder knows as well."""
        return said.version < self.taken.versions[row] or self._was_given_back(row, said)

    def _was_given_back(self, row: int, said: NamedDelivery) -> bool:
        sending = self.sending(row)
        return said.number != sending.number and said[:2] == sending[:2]


def delivery_ids(taken: Taken) -> bytes:
    """20 bytes for each row, joined: digest and generation."""
    if _are_first(taken):
        return FIRST_GENERATION.join(taken.digests) + FIRST_GENERATION
    return b"".join(each_delivery_id(taken))


def each_delivery_id(taken: Taken) -> list[bytes]:
    if _are_first(taken):
        return [digest + FIRST_GENERATION for digest in taken.digests]
    return [delivery_id_of(digest, version) for digest, version in zip(taken.digests, taken.versions, strict=True)]


def each_short_id(taken: Taken) -> Sequence[bytes]:
    if _are_first(taken):
        return taken.digests
    each = zip(taken.digests, taken.versions, strict=True)
    return [digest if version < _SECOND else delivery_id_of(digest, version) for digest, version in each]


def _are_first(taken: Taken) -> bool:
    """None of many was moved when it was over, as almost none is. To ask that of few is what it saves."""
    return len(taken) > FEW_ROWS and int(taken.rows.columns["version"].max()) < _SECOND


def digest_column(taken: Taken) -> npt.NDArray[np.void]:
    """(n,) of rows.DIGEST."""
    return np.frombuffer(b"".join(taken.digests), DIGEST)


def dealt(taken: Sequence[Taken], shares: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, Taken]]:
    """Hands each worker its number of rows, `most` at a time, without mixing partitions."""
    assert most <= MAX_BATCH_ROWS
    workers = iter(shares)
    worker = left = 0
    for batch in taken:
        at = 0
        while at < len(batch):
            if not left:
                worker, left = next(workers)
            count = min(left, len(batch) - at, most)
            yield worker, batch if count == len(batch) else batch.part(slice(at, at + count))
            at, left = at + count, left - count


class Flights:
    """The registry. A delivery is in it from being sent until it ended, failed or was sent anew."""

    def __init__(self) -> None:
        # short id -> slot
        self._slots: dict[bytes, int] = {}
        self._batches: dict[int, Batch] = {}
        self._held: dict[int, dict[int, None]] = {}
        self._next = 1
        # When to look at which batches again; a batch that is done is skipped.
        self._wheel: dict[int, deque[int]] = {}
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def register(
        self,
        worker: int,
        taken: Taken,
        lease_until_ms: int,
        ends: AttemptEnds,
        sent_ms: int,
        stats: QueueStats,
        hand: HandCount,
    ) -> Batch:
        """The rows are with the worker from now on. An older flight of the same delivery is over."""
        ids = each_short_id(taken)
        count, number = len(ids), self._next
        until_ms = min(lease_until_ms, ends.last_ms)
        each_ms = [until_ms] * count
        if ends.each_ms is not None:
            each_ms = [min(until_ms, end_ms) for end_ms in ends.each_ms]
            until_ms = min(each_ms)
        rest = stats, hand, ends.each_ms, ends.stalls
        batch = Batch(number, worker, taken, ends.last_ms, ids, each_ms, count, sent_ms, *rest)
        if not self._slots.keys().isdisjoint(ids):
            self._give_up([i for i in ids if i in self._slots])
        self._next += 1
        self._batches[number] = batch
        self._held.setdefault(worker, {})[number] = None
        first = number * MAX_BATCH_ROWS
        self._slots.update(zip(ids, range(first, first + count), strict=True))
        self._look_at(number, until_ms if ends.stalls is None else min(until_ms, ends.stalls.first_ms))
        hand.begin(count, sent_ms)
        return batch

    def find(self, delivery_id: bytes) -> tuple[Batch, int] | None:
        slot = self._slots.get(short_id(delivery_id))
        return None if slot is None else (self._batches[slot // MAX_BATCH_ROWS], slot % MAX_BATCH_ROWS)

    def lease_of(self, delivery_id: bytes) -> int | None:
        found = self.find(delivery_id)
        return found[0].lease_until_ms[found[1]] if found is not None else None

    def places(self, ids: Collection[bytes]) -> dict[bytes, Place]:
        """Of those that are in it, where their rows are; mostly none."""
        known = self._slots.keys() & map(short_id, ids)
        return {long_id(each): self._place(self._slots[each]) for each in known}

    def pop(self, delivery_id: bytes) -> tuple[Batch, int] | None:
        """Takes the delivery out; the batch's tables stay usable."""
        return self._pop(short_id(delivery_id))

    def acked(self, ids: Sequence[bytes], now_ms: int) -> tuple[list[Ended], list[AckedRows], list[int]]:
        """`pop` for many, because every ack passes here, by short ids; the last list names those that are not open.
        What was sent together is mostly acked so, and is taken out together."""
        slots = list(map(self._slots.pop, ids, repeat(None)))
        stretches = _stretches(slots)
        if stretches is not None:
            return *self._end_stretches(stretches, now_ms), []
        ended, unknown = self._end_each(slots, now_ms)
        return ended, [], unknown

    def _end_each(self, slots: list[int | None], now_ms: int) -> tuple[list[Ended], list[int]]:
        ended: list[Ended] = []
        unknown: list[int] = []
        batches, append = self._batches, ended.append
        last, counted, outcome = None, 0, Outcome.ACKED
        for at, slot in enumerate(slots):
            if slot is None:
                unknown.append(at)
                continue
            batch, row = batches[slot // MAX_BATCH_ROWS], slot % MAX_BATCH_ROWS
            batch.open -= 1
            if not batch.open:
                self._forget(batch)
            if batch is not last:
                if last is not None:
                    last.settled(ACKED, now_ms, len(ended) - counted)
                last, counted = batch, len(ended)
            taken = batch.taken
            key = RowKey(taken.positions[row], taken.digests[row], taken.versions[row])
            append(Ended(taken.partition, key, outcome))
        if last is not None:
            last.settled(ACKED, now_ms, len(ended) - counted)
        return ended, unknown

    def _end_stretches(self, stretches: list[tuple[int, int]], now_ms: int) -> tuple[list[Ended], list[AckedRows]]:
        """(first slot, how many) each, of one batch."""
        ended: list[Ended] = []
        together: list[AckedRows] = []
        for slot, count in stretches:
            batch, row = self._batches[slot // MAX_BATCH_ROWS], slot % MAX_BATCH_ROWS
            acked = batch.acked(row, row + count)
            if count >= MANY_ROWS:
                together.append(acked)
            else:
                ended += acked.each()
            batch.settled(ACKED, now_ms, count)
            batch.open -= count
            if not batch.open:
                self._forget(batch)
        return ended, together

    def remove(self, batch: Batch, rows: Iterable[int]) -> None:
        self._remove([batch.ids[row] for row in rows])

    def adopt(self, worker: int, batch: Batch, rows: Sequence[int], lease_until_ms: int) -> Batch:
        """Open rows of a batch go over to another worker; the attempt's deadline stays."""
        self._give_up([batch.ids[row] for row in rows])
        part = batch.taken.part(np.array(rows, dtype=np.intp))
        ends = batch.ends_of(rows)
        adopted = self.register(worker, part, lease_until_ms, ends, batch.sent_ms, batch.stats, batch.hand)
        for at, row in enumerate(rows):
            if progress := batch.progress(row):
                adopted.report(at, progress)
        return adopted

    def move_away(self, partition: Partition, ids: Collection[bytes]) -> Iterator[tuple[int, Taken]]:
        """Takes out what is of the partition, and `ids`: (worker, what it has)."""
        also = set(map(short_id, ids))
        for batch in self.all():
            is_there = batch.taken.partition == partition
            # Mostly nothing waits in another partition than it was sent from, and there may be many batches.
            if not is_there and not also:
                continue
            rows = [row for row in self.open_rows(batch) if is_there or batch.ids[row] in also]
            if rows:
                yield batch.worker, batch.taken.part(np.array(rows, dtype=np.intp))
                self._give_up([batch.ids[row] for row in rows])

    def unreceived(self, worker: int, now_ms: int, given_back: GivenBack) -> Iterator[Again]:
        """All that the worker has, as it was: it says that it has none of it."""
        for batch in self.of(worker):
            rows = self.open_rows(batch)
            self.remove(batch, rows)
            batch.settled("released", now_ms, len(rows))
            for row in rows:
                given_back.add(batch.ids[row], batch.sending(row))
                yield Again(batch.taken.partition, batch.key(row), now_ms, now_ms, UNRECEIVED, AttemptEnd.GIVEN_BACK)

    def open_rows(self, batch: Batch) -> list[int]:
        first = batch.number * MAX_BATCH_ROWS
        get = self._slots.get
        return [r for r, i in enumerate(batch.ids) if get(i) == first + r]

    def of(self, worker: int) -> list[Batch]:
        return [self._batches[n] for n in self._held.get(worker, ())]

    def last_lease_ms(self, worker: int, least_ms: int) -> int:
        """When the last lease of what the worker has is over."""
        return max(
            [least_ms, *(batch.lease_until_ms[row] for batch in self.of(worker) for row in self.open_rows(batch))]
        )

    def all(self) -> list[Batch]:
        return list(self._batches.values())

    def next_look_ms(self) -> int | None:
        return self._times[0] if self._times else None

    def expired(self, now_ms: int, most: int) -> list[tuple[Batch, list[int]]]:
        """Batches with open rows for which nobody has spoken by `now_ms`, as of the last step of the grid. With `most`
        rows it is left at that: the others come with the next call."""
        found: list[tuple[Batch, list[int]]] = []
        count = 0
        while count < most and (number := self._next_number(now_ms)) is not None:
            batch = self._batches.get(number)
            if batch is not None and (rows := self._silent(batch, now_ms)):
                found.append((batch, rows))
                count += len(rows)
        return found

    def _next_number(self, now_ms: int) -> int | None:
        """Of a batch that is to be looked at by now; it is taken from the wheel."""
        if not self._times or self._times[0] > now_ms:
            return None
        numbers = self._wheel[self._times[0]]
        number = numbers.popleft()
        if not numbers:
            del self._wheel[heapq.heappop(self._times)]
        return number

    def check(self) -> None:
        """Invariants, for tests."""
        by_batch = {n: len(self.open_rows(b)) for n, b in self._batches.items()}
        assert all(b.open == by_batch[n] > 0 for n, b in self._batches.items())
        assert sum(by_batch.values()) == len(self._slots)
        hands = {id(batch.hand): batch.hand for batch in self._batches.values()}
        for hand in hands.values():
            assert hand.open - hand.brought == sum(b.open for b in self._batches.values() if b.hand.is_part_of(hand))
        assert {n for held in self._held.values() for n in held} == self._batches.keys()
        assert all(n in self._held[b.worker] for n, b in self._batches.items())
        assert all(
            until_ms <= b.end_ms(r) for b in self._batches.values() for r, until_ms in enumerate(b.lease_until_ms)
        )
        assert sorted(self._times) == sorted(self._wheel)
        looked_at = {n for numbers in self._wheel.values() for n in numbers}
        assert self._batches.keys() <= looked_at

    def _silent(self, batch: Batch, now_ms: int) -> list[int]:
        """Rows that are over. The others are looked at again, without keeping the whole batch in memory."""
        alive = self.open_rows(batch)
        ends_ms = [batch.silent_ms(row) for row in alive]
        if rest := [end_ms for end_ms in ends_ms if end_ms > now_ms]:
            self._look_at(batch.number, min(rest))
            _slim(batch, alive)
        return [row for row, end_ms in zip(alive, ends_ms, strict=True) if end_ms <= now_ms]

    def _look_at(self, number: int, at_ms: float) -> None:
        step_ms = -(-int(at_ms) // LEASE_GRID_MS) * LEASE_GRID_MS
        numbers = self._wheel.get(step_ms)
        if numbers is None:
            self._wheel[step_ms] = numbers = deque()
            heapq.heappush(self._times, step_ms)
        numbers.append(number)

    def _place(self, slot: int) -> Place:
        return self._batches[slot // MAX_BATCH_ROWS].place(slot % MAX_BATCH_ROWS)

    def _remove(self, ids: Iterable[bytes]) -> None:
        for each in ids:
            self._pop(each)

    def _give_up(self, ids: Iterable[bytes]) -> None:
        """As `_remove`, of flights that end without a word on what became of them."""
        for each in ids:
            found = self._pop(each)
            if found is not None:
                found[0].hand.end("", 1, found[0].sent_ms, found[0].sent_ms)

    def _pop(self, short: bytes) -> tuple[Batch, int] | None:
        slot = self._slots.pop(short, None)
        if slot is None:
            return None
        batch = self._batches[slot // MAX_BATCH_ROWS]
        batch.open -= 1
        if not batch.open:
            self._forget(batch)
        return batch, slot % MAX_BATCH_ROWS

    def _forget(self, batch: Batch) -> None:
        del self._batches[batch.number]
        held = self._held[batch.worker]
        del held[batch.number]
        if not held:
            del self._held[batch.worker]


def _slim(batch: Batch, alive: list[int]) -> None:
    """Copies the payloads of the open rows out of the arena that they share with many others. Row numbers stay."""
    rows = batch.taken.rows
    lengths = np.zeros(len(rows), rows.columns["length"].dtype)
    lengths[alive] = rows.columns["length"][alive]
    if len(rows.payloads) <= 2 * int(lengths.sum(dtype=np.int64)) + SLACK_BYTES:
        return
    columns = rows.columns.copy()
    columns["length"] = lengths
    slim = replace(rows, columns=columns).compact()
    batch.taken = replace(batch.taken, rows=slim)


def _stretches(slots: list[int | None]) -> list[tuple[int, int]] | None:
    """Slots that follow one another within a batch, as (first, how many). None: they are short, or one is not there."""
    if len(slots) < FEW_ROWS or None in slots:
        return None
    each = np.array(slots, np.int64)
    begins = np.flatnonzero((each[1:] != each[:-1] + 1) | (each[1:] % MAX_BATCH_ROWS == 0)) + 1
    if (len(begins) + 1) * FEW_ROWS > len(slots):
        return None
    begins = np.concatenate(([0], begins))
    return list(zip(each[begins].tolist(), np.diff(begins, append=len(slots)).tolist(), strict=True))
