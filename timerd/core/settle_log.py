"""What ended in a partition: from the moment it ends, through the settle record, until `verified` has passed it.

A ticket is the sequence of the record that will carry an ending; it is done when that record, and each row that the
record carries on, is durable. `oldest_ms` holds `verified` back until then. Rows that wait for another holder, who is
silent, hold up no ticket: they have their record, and what ended since would wait as long as he is away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from timerd.core.cancel import KINDS
from timerd.core.carry import backlog_of, carried_row
from timerd.core.effects import Effects, WriteCarried, WriteSettled
from timerd.core.ended_lately import EndedLately
from timerd.core.settled_index import Entries, SettledIndex, keys_of
from timerd.core.verdicts import Verdicts
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_MOVED_IN, RowGroup
from timerd.model.settle import Carry, Outcome, SettleRecord, join_entries, settle_entries
from timerd.model.storage import DeadLetter, Mark

Group = tuple[Partition, RowGroup]


@dataclass(slots=True)
class Batch:
    """What one record says, and the rows to write after it. `together`: of many that ended at once."""

    ended: list[tuple[RowKey, Outcome]] = field(default_factory=list)
    together: list[Entries] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    left: list[RowKey] = field(default_factory=list)

    @property
    def says(self) -> bool:
        """Whether anything ended."""
        return bool(self.ended or self.together)

    @property
    def oldest_ms(self) -> int:
        together_ms = [int(entries["position_ms"].min()) for entries in self.together]
        return min([key.position_ms for key, _ in self.ended] + together_ms)

    def entries(self) -> Entries:
        return join_entries([*([settle_entries(self.ended)] if self.ended else []), *self.together])


class SettleLog:
    """Of one holder of one partition; `token` names it in every record."""

    def __init__(self, partition: Partition, token: int, remembered: int = 0) -> None:
        self.partition = partition
        self.token = token
        self.lately = EndedLately(remembered)
        # What is known to have ended and is not yet below `verified`.
        self.settled = SettledIndex()
        self.carries: dict[RowKey, Carry] = {}
        # Carried by earlier holders, the rows maybe not written yet -> number of the record.
        self.unfinished: dict[RowKey, int] = {}
        self.counts: Counter[int] = Counter()
        self.done_through = -1
        # Rows that went on elsewhere, and the record that says so is not durable yet.
        self.leaving: set[RowKey] = set()
        self._next = Batch()
        self._sequence = 0
        self._writing: SettleRecord | None = None
        self._carrying: dict[int, Batch] = {}
        # Of these, records whose rows wait for a holder that is silent.
        self._delayed: set[int] = set()
        # Places of rows that are written again.
        self._recarried: set[tuple[Partition, RowKey]] = set()

    @property
    def ticket(self) -> int:
        """The sequence of the record that will say what ended last."""
        return self._sequence

    @property
    def last_ticket(self) -> int:
        """Done when all that has ended so far is durable."""
        return self._sequence if self._next.says else self._sequence - 1

    @property
    def newest_ticket(self) -> int:
        """That of what ended a moment ago; one that is done, where that was nothing."""
        return self.ticket if self.has_news else self.done_through

    @property
    def is_idle(self) -> bool:
        return not self._next.says and self._writing is None and not self._carrying

    @property
    def may_be_left(self) -> bool:
        """Idle, but for rows that wait for a silent holder: the next holder goes on with their record (rule K2)."""
        return not self._next.says and self._writing is None and self._delayed.issuperset(self._carrying)

    @property
    def has_news(self) -> bool:
        return self._next.says

    def end(self, ended: Iterable[tuple[RowKey, Outcome]]) -> None:
        endings = list(ended)
        self._next.ended += endings
        self.settled.add(endings)
        self.lately.add(endings)

    def end_together(self, entries: Entries) -> None:
        """Rows that ended together, without an object for each."""
        self._next.together.append(entries)
        self.settled.add_many(entries)
        self.lately.add_together(entries)

    def bury(self, letters: Iterable[DeadLetter]) -> None:
        """Of what has just ended: they become durable with its record."""
        self._next.letters += letters

    def end_met(self, ended: Iterable[tuple[RowKey, Outcome]]) -> None:
        """Of rows that were met with a verdict on them: those may have been ended when it was given."""
        self.end([ending for ending in ended if self.settled.get(ending[0]) is None])

    def carry(self, carries: Sequence[Carry], group: Group) -> None:
        """The record first, then the rows."""
        self.follow(carries)
        self._next.groups.append(group)

    def follow(self, carries: Sequence[Carry]) -> None:
        """Of rows that say what others say, which are carried there."""
        sources = [carry.source for carry in carries]
        self.end([(source, Outcome.CARRIED) for source in sources])
        self.carries.update(zip(sources, carries, strict=True))
        self.lately.went_on(carries)
        self._leave(sources)
        self._next.carries += carries

    def park(self, keys: Sequence[RowKey], group: Group) -> None:
        """As `carry`, for rows that go to their queue's backlog."""
        self.end((key, Outcome.PARKED) for key in keys)
        self._leave(keys)
        self._next.groups.append(group)

    def _leave(self, keys: Sequence[RowKey]) -> None:
        self.leaving.update(keys)
        self._next.left += keys

    def complete(self, rows: RowGroup) -> None:
        """Of loaded rows those that an earlier holder carried on: the record is durable, the new row may not be. Rows
        of one record were written together and are again, so that the store has all of them under one name or none.
        Copies went on as one row."""
        if not self.unfinished:
            return
        for n, key in enumerate(rows.keys()):
            record = self.unfinished.pop(key, None)
            if record is None:
                continue
            group = self._carried(rows, n, key)
            place = group[0], group[1].keys()[0]
            if place not in self._recarried:
                self._recarried.add(place)
                self._carrying.setdefault(-1 - record, Batch()).groups.append(group)

    def _carried(self, rows: RowGroup, n: int, key: RowKey) -> Group:
        carry = self.carries.get(key)
        if carry is not None:
            return carry.target, carried_row(rows, n, self.partition, carry)
        row = rows.one(n)
        return backlog_of(row, self.partition), row

    def recover(self, records: Sequence[SettleRecord], verified_ms: int, counts: Iterable[tuple[int, int]]) -> None:
        """What earlier holders settled at or above `verified`. Of several records of one row the latest counts,
        whatever it says (rule K4): that of a holder which had been taken over may have come late."""
        self.counts.update(dict(counts))
        ordered = sorted(records, key=SettleRecord.order)
        self.lately.load(ordered)
        for number, record in reversed(list(enumerate(ordered))):
            entries = self.settled.without_known(record.entries[record.entries["position_ms"] >= verified_ms])
            self.settled.load(entries)
            parked = entries[entries["outcome"] == Outcome.PARKED]
            went_on = set(keys_of(entries[entries["outcome"] == Outcome.CARRIED])) if record.carries else set()
            carries = {carry.source: carry for carry in record.carries if carry.source in went_on}
            self.carries |= carries
            self.unfinished.update(dict.fromkeys([*carries, *keys_of(parked)], number))

    def flush(self) -> Effects:
        """The next record, unless one is on its way."""
        if self._writing is not None or not self._next.says:
            return []
        batch, self._next = self._next, Batch()
        entries = batch.entries()
        if batch.ended:
            self.settled.seal([key for key, _ in batch.ended], entries[: len(batch.ended)])
        self._writing = SettleRecord(self.partition, self.token, self._sequence, entries, tuple(batch.carries))
        self._carrying[self._sequence] = batch
        self._sequence += 1
        return [WriteSettled(self._writing, tuple(batch.letters))]

    def recarry(self, verdicts: Verdicts, suspended: Collection[bytes]) -> Effects:
        """What earlier holders carried, once all of it is known; with what is said of it where it was."""
        self.unfinished.clear()
        self._recarried.clear()
        left = [(n, batch.groups) for n, batch in self._carrying.items() if n < 0]
        return [WriteCarried(self.partition, n, g, _taken_along(g, verdicts, suspended)) for n, g in left]

    def settled_written(self, sequence: int) -> Effects:
        """The record is durable: now its carried rows, and the next record."""
        self._writing = None
        batch = self._carrying[sequence]
        self.leaving.difference_update(batch.left)
        if batch.groups:
            return [WriteCarried(self.partition, sequence, batch.groups), *self.flush()]
        self._finish(sequence)
        return self.flush()

    def carried_written(self, sequence: int) -> None:
        self._finish(sequence)

    def carried_waits(self, sequence: int) -> None:
        if sequence in self._carrying:
            self._delayed.add(sequence)
            self._count_done()

    def oldest_ms(self) -> int | None:
        """Position of the oldest ending that is not wholly durable."""
        batches = [b for b in (self._next, *self._carrying.values()) if b.says]
        return min((b.oldest_ms for b in batches), default=None)

    @property
    def has_open(self) -> bool:
        """Whether there is one; asked ten times a second."""
        return any(b.says for b in (self._next, *self._carrying.values()))

    @property
    def recovers(self) -> bool:
        """Rows carried by an earlier holder are still being written again: `verified` stays."""
        return any(number < 0 for number in self._carrying)

    @property
    def has_unfinished(self) -> bool:
        """Of an earlier holder: their rows are perhaps still to be met."""
        return bool(self.unfinished) or self.recovers

    def has_left(self, key: RowKey) -> bool:
        """Of a row that went on elsewhere: whether that is durable. Until then a crash leaves it here."""
        return key not in self.leaving

    def forget_below(self, verified_ms: int) -> None:
        """`verified` has passed them: only their count is kept."""
        self.counts.update(self.settled.forget_below(verified_ms))
        for key in [key for key in self.carries if key.position_ms < verified_ms]:
            del self.carries[key]

    def counts_below(self, verified_ms: int) -> tuple[tuple[int, int], ...]:
        """Exactly the rows below `verified`: what the control row keeps, so that a new holder counts each row once."""
        counts = self.counts + self.settled.counts_below(verified_ms)
        return tuple(sorted((int(outcome), n) for outcome, n in counts.items()))

    def count_forwards(self, rows: int, forwards: int) -> None:
        """Rows that point elsewhere and were never taken in because `verified` had passed them: they ended there."""
        ended = self.totals()
        self.counts[Outcome.FORWARDED] += max(0, min(forwards - ended[Outcome.FORWARDED], rows - ended.total()))

    def totals(self) -> Counter[int]:
        """Outcome -> how many rows of the partition ended so."""
        return self.counts + self.settled.counts()

    def _finish(self, sequence: int) -> None:
        del self._carrying[sequence]
        self._delayed.discard(sequence)
        self._count_done()

    def _count_done(self) -> None:
        open_records = [n for n in self._carrying if n >= 0 and n not in self._delayed]
        last = self._sequence - 1 if self._writing is None else self._writing.sequence - 1
        self.done_through = min(open_records) - 1 if open_records else last


def _taken_along(groups: Sequence[Group], verdicts: Verdicts, suspended: Collection[bytes]) -> list[Mark]:
    """The record may have come after its holder was gone: whoever ended or moved the task in between found the row with
    nobody and no record of it, and was answered. His mark is read where the row was, and not where it goes."""
    given: list[Mark] = []
    for partition, row in groups if verdicts or suspended else ():
        key = row.keys()[0]
        outcome, request = verdicts.of(key) or (None, b"")
        if outcome in KINDS:
            given.append(Mark(partition, key, KINDS[outcome], request))
        if key.digest in suspended:
            row.columns["flags"] |= FLAG_MOVED_IN
    return given
