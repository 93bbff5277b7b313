"""Settle records that are not wholly durable: the one that is being filled, the one that is being written, and those
whose requeued rows are being written.

The log sequence number (lsn) of an ending is the sequence of the record that will carry it. It is done when that
record, and each row that the record requeues, is durable. Rows that wait for another holder, who is silent, hold up no
lsn: they have their record, and what ended since would wait as long as that holder is away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import chain

from timerd.core.partition.settled_index import Entries, keys_of
from timerd.core.taken import LAST
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, Outcome, join_entries, settle_entries
from timerd.model.storage import DeadLetter

# The task goes on in another row.
_ONWARD = frozenset({Outcome.CARRIED, Outcome.PARKED})
CarriedGroup = tuple[Partition, RowGroup]


@dataclass(slots=True)
class RecordBatch:
    """What one record says, and the rows to write after it. `together`: of many that ended at once; `left`: rows that
    went on elsewhere; `notes`: see `unsent_note`; `last_attempts`: see `last_attempt_of`; `ends`: see `end_note`."""

    ended: list[tuple[RowKey, Outcome]] = field(default_factory=list)
    together: list[Entries] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    groups: list[CarriedGroup] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    left: list[RowKey] = field(default_factory=list)
    notes: list[RowKey] = field(default_factory=list)
    last_attempts: list[Carry] = field(default_factory=list)
    ends: list[Carry] = field(default_factory=list)

    @property
    def says(self) -> bool:
        """Whether anything ended."""
        return bool(self.ended or self.together)

    @property
    def oldest_ms(self) -> int:
        together_ms = [int(entries["position_ms"].min()) for entries in self.together]
        return min([key.position_ms for key, _ in self.ended] + together_ms)

    def entries(self) -> Entries:
        ended = [*self.ended, *((note, Outcome.ACKED) for note in self.notes)]
        return join_entries([*([settle_entries(ended)] if ended else []), *self.together])


class OpenRecords:
    """Those of one holder of one partition. `next` is being filled. Records of earlier holders, whose rows are written
    again, have negative numbers."""

    def __init__(self) -> None:
        self.next = RecordBatch()
        self.done_through = -1
        # Rows that went on elsewhere, and the record that says so is not durable yet.
        self.leaving: set[RowKey] = set()
        self._sequence = 0
        self._is_writing = False
        self._written: dict[int, RecordBatch] = {}
        # Of these, records whose rows wait for a holder that is silent.
        self._delayed: set[int] = set()

    @property
    def lsn(self) -> int:
        """The sequence of the record that will say what ended last."""
        return self._sequence

    @property
    def last_lsn(self) -> int:
        """Done when all that has ended so far is durable."""
        return self._sequence if self.next.says else self._sequence - 1

    @property
    def newest_lsn(self) -> int:
        """That of what ended a moment ago; one that is done, where that was nothing."""
        return self._sequence if self.next.says else self.done_through

    @property
    def is_idle(self) -> bool:
        return not (self.next.says or self._is_writing or self._written)

    @property
    def may_be_left(self) -> bool:
        """Idle, but for rows that wait for a silent holder: the next holder goes on with their record (rule K2)."""
        return not (self.next.says or self._is_writing) and self._delayed.issuperset(self._written)

    @property
    def redoes(self) -> bool:
        """Whether rows that an earlier holder requeued are still being written again."""
        return any(number < 0 for number in self._written)

    @property
    def has_endings(self) -> bool:
        """Whether there is one; asked ten times a second."""
        return any(batch.says for batch in (self.next, *self._written.values()))

    def oldest_ms(self) -> int | None:
        """Position of the oldest ending that is not wholly durable."""
        batches = [batch for batch in (self.next, *self._written.values()) if batch.says]
        return min((batch.oldest_ms for batch in batches), default=None)

    def leave(self, keys: list[RowKey]) -> None:
        """The next record says that these rows went on elsewhere."""
        self.leaving.update(keys)
        self.next.left += keys

    def begin(self) -> tuple[int, RecordBatch] | None:
        """The next record is written from now on. None: it says nothing, or another one is on its way."""
        if self._is_writing or not self.next.says:
            return None
        batch, self.next = self.next, RecordBatch()
        number = self._sequence
        self._written[number] = batch
        self._is_writing, self._sequence = True, number + 1
        return number, batch

    def written(self, number: int) -> RecordBatch:
        """The record is durable. With no rows that it requeues, and no ends that make tasks, it is done."""
        self._is_writing = False
        batch = self._written[number]
        self.leaving.difference_update(batch.left)
        if not (batch.groups or batch.ends):
            self.finish(number)
        return batch

    def finish(self, number: int) -> None:
        """The record, and all that it requeues, is durable."""
        del self._written[number]
        self._delayed.discard(number)
        self._count_done()

    def delay(self, number: int) -> None:
        """The record's rows wait for a silent holder."""
        if number in self._written:
            self._delayed.add(number)
            self._count_done()

    def has(self, number: int) -> bool:
        return number in self._written

    def groups_of(self, number: int) -> list[CarriedGroup]:
        """The rows that the record requeues."""
        return self._written[number].groups

    def unwritten(self, target: Partition, keys: Set[RowKey]) -> list[RowGroup]:
        """Of rows that are being requeued to that partition those that have ended before they were written."""
        found: list[RowGroup] = []
        for partition, rows in chain.from_iterable(batch.groups for batch in self._written.values()):
            if partition == target and any(template.on_end for template in rows.templates):
                found += [rows.one(row) for row, key in enumerate(rows.keys()) if key in keys]
        return found

    def rows_ended(self, number: int, among: Set[bytes]) -> list[tuple[RowKey, Outcome]]:
        """Of these tasks the rows that this record says are over, and how."""
        batch = self._written[number]
        ended = [each for each in batch.ended if each[0].digest in among and each[1] not in _ONWARD]
        for entries in batch.together:
            each = zip(keys_of(entries), entries["outcome"].tolist(), strict=True)
            ended += [(key, Outcome(outcome)) for key, outcome in each if key.digest in among]
        return ended

    def keys_gone(self, number: int) -> list[RowKey]:
        """Rows that this record requeues."""
        batch = self._written.get(number)
        return [carry.source for carry in batch.carries] if batch is not None else []

    def leaving_ms(self, scope: int) -> int:
        """Position of the first row that is on its way to that backlog; LAST: none is."""
        batches = [self.next, *self._written.values()]
        groups = [rows for batch in batches for partition, rows in batch.groups if partition.scope == scope]
        return min((int(rows.columns["position_ms"].min()) for rows in groups), default=LAST)

    def redo(self, record: int, group: CarriedGroup) -> None:
        """A row that this record of an earlier holder requeued is to be written again."""
        self._written.setdefault(-1 - record, RecordBatch()).groups.append(group)

    def redo_ends(self, record: int, notes: Iterable[Carry]) -> None:
        """This record of an earlier holder says that these ends make tasks, which may not be there."""
        if some := list(notes):
            self._written.setdefault(-1 - record, RecordBatch()).ends += some

    def redone(self) -> Iterator[tuple[int, RecordBatch]]:
        """What is written again, by record."""
        return ((number, batch) for number, batch in self._written.items() if number < 0)

    def _count_done(self) -> None:
        open_records = [n for n in self._written if n >= 0 and n not in self._delayed]
        last = self._sequence - 2 if self._is_writing else self._sequence - 1
        self.done_through = min(open_records) - 1 if open_records else last
