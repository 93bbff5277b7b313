"""What ended in a partition: from the moment it ends, through the settle record, until `verified` has passed it.

`oldest_ms` holds `verified` back until an ending is wholly durable (core/partition/open_records.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from timerd.core.partition.effects import Effects, WriteCarried, WriteSettled
from timerd.core.partition.open_records import CarriedGroup, OpenRecords, RecordBatch
from timerd.core.partition.pending_outcomes import PendingOutcomes
from timerd.core.partition.recent_ends import RecentEnds
from timerd.core.partition.requeues import Requeues
from timerd.core.partition.settled_index import Entries, SettledIndex, keys_of
from timerd.core.partition.told_ends import ToldEnds, standing
from timerd.model.identity import RowKey
from timerd.model.outcomes import mark_kind
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_MOVED_IN, RowGroup
from timerd.model.settle import Carry, Outcome, SettleRecord, ended_key, last_attempt_of, unsent_note
from timerd.model.storage import DeadLetter, Mark


class SettleLog:
    """Of one holder of one partition; `token` names it in every record."""

    def __init__(self, partition: Partition, token: int, remembered: int = 0) -> None:
        self.partition = partition
        self.token = token
        # What is known to have ended and is not yet below `verified`.
        self.settled = SettledIndex()
        self.recent_ends = RecentEnds(remembered)
        self.told = ToldEnds(partition)
        self.requeues = Requeues(partition)
        self.records = OpenRecords()
        self.counts: Counter[int] = Counter()

    def end(self, ended: Iterable[tuple[RowKey, Outcome]]) -> None:
        endings = list(ended)
        self.records.next.ended += endings
        if self.told:
            self.told.end(endings, self.recent_ends)
        self.settled.add(endings)
        self.recent_ends.add(endings)

    def end_together(self, entries: Entries) -> None:
        """Rows that ended together, without an object for each."""
        self.records.next.together.append(entries)
        if self.told:
            self.told.end_together(entries, self.recent_ends)
        self.settled.add_many(entries)
        self.recent_ends.add_together(entries)

    def put_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Of what has just ended: they become durable with its record."""
        self.records.next.dead_letters += dead_letters

    def end_met(self, ended: Iterable[tuple[RowKey, Outcome]]) -> None:
        """Of rows that were met with an outcome pending: those may have been ended when it was given."""
        self.end([ending for ending in ended if self.settled.get(ending[0]) is None])

    def end_unsent(self, keys: Sequence[RowKey]) -> None:
        """They were acked, each by the word of an earlier attempt, while they waited."""
        self.end([(key, Outcome.ACKED) for key in keys])
        self.records.next.notes += [unsent_note(self.partition, key) for key in keys]

    def note_attempts(self, failed: Iterable[Carry]) -> None:
        """Of what has just ended: how the attempts failed with which it did, each as a carry of its row."""
        self.records.next.last_attempts += [c._replace(source=last_attempt_of(c.source)) for c in failed]

    def carry(self, carries: Sequence[Carry], group: CarriedGroup) -> None:
        """The record first, then the rows."""
        self.follow(carries)
        self.records.next.groups.append(group)

    def follow(self, carries: Sequence[Carry]) -> None:
        """Of rows that say what others say, which are carried there."""
        sources = [carry.source for carry in carries]
        self.end([(source, Outcome.CARRIED) for source in sources])
        self.requeues.add(carries)
        self.recent_ends.went_on(carries)
        self.records.leave(sources)
        self.records.next.carries += carries

    def offload(self, keys: Sequence[RowKey], group: CarriedGroup) -> None:
        """As `carry`, for rows that go to their queue's backlog."""
        self.end((key, Outcome.PARKED) for key in keys)
        self.records.leave(list(keys))
        self.records.next.groups.append(group)

    def complete(self, rows: RowGroup) -> None:
        """Of loaded rows those that an earlier holder carried on: the record is durable, the new row may not be. Rows
        of one record were written together and are again, so that the store has all of them under one name or none."""
        for record, group in self.requeues.meet(rows):
            self.records.redo(record, group)

    def recover(self, records: Sequence[SettleRecord], verified_ms: int, counts: Iterable[tuple[int, int]]) -> None:
        """What earlier holders settled at or above `verified`. Of several records of one row the latest counts,
        whatever it says (rule K4): that of a holder which had been taken over may have come late."""
        self.counts.update(dict(counts))
        ordered = sorted(records, key=SettleRecord.order)
        self.recent_ends.load(ordered)
        for number, record in reversed(list(enumerate(ordered))):
            entries = self.settled.without_known(record.entries[record.entries["position_ms"] >= verified_ms])
            self.settled.load(entries)
            parked = entries[entries["outcome"] == Outcome.PARKED]
            went_on = set(keys_of(entries[entries["outcome"] == Outcome.CARRIED])) if record.carries else set()
            self.requeues.load([c for c in record.carries if c.source in went_on], keys_of(parked), number)
            self.records.redo_ends(number, standing([c for c in record.carries if c.ended], entries))

    def flush(self, now_ms: int = 0) -> Effects:
        """The next record, unless one is on its way."""
        self.told.tick(now_ms)
        begun = self.records.begin()
        if begun is None:
            return []
        sequence, batch = begun
        entries = batch.entries()
        if batch.ended:
            self.settled.seal([key for key, _ in batch.ended], entries[: len(batch.ended)])
        batch.ends.extend(self.told.notes(batch.dead_letters))
        carries = *batch.carries, *batch.last_attempts, *batch.ends
        record = SettleRecord(self.partition, self.token, sequence, entries, carries)
        return [WriteSettled(record, tuple(batch.dead_letters))]

    def redo_requeues(self, outcomes: PendingOutcomes, blocked: Collection[bytes]) -> Effects:
        """What earlier holders carried, once all of it is known; with what is said of it where it was."""
        self.requeues.all_met()
        redone = self.records.redone()
        given = ((n, batch, _taken_along(batch.groups, outcomes, blocked)) for n, batch in redone)
        return [self._write(n, batch, marks) for n, batch, marks in given]

    def settled_written(self, sequence: int) -> Effects:
        """The record is durable: now its carried rows, the tasks that its ends make, and the next record."""
        batch = self.records.written(sequence)
        carried = [self._write(sequence, batch)] if batch.groups or batch.ends else []
        return [*carried, *self.flush()]

    def _write(self, number: int, batch: RecordBatch, given: Sequence[Mark] = ()) -> WriteCarried:
        """A retry that ends at once makes its task as well, though its row may be on its way to the store."""
        ended = {ended_key(note) for note in batch.ends}
        unwritten = self.records.unwritten(self.partition, ended) if ended else ()
        return WriteCarried(self.partition, number, batch.groups, given, batch.ends, unwritten)

    @property
    def has_unfinished(self) -> bool:
        """Of an earlier holder: their rows are perhaps still to be met."""
        return self.requeues.has_incomplete or self.records.redoes

    def forget_below(self, verified_ms: int) -> None:
        """`verified` has passed them: only their count is kept."""
        self.counts.update(self.settled.forget_below(verified_ms))
        self.requeues.forget_below(verified_ms)

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


def _taken_along(groups: Sequence[CarriedGroup], outcomes: PendingOutcomes, blocked: Collection[bytes]) -> list[Mark]:
    """The record may have come after its holder was gone: a call that ended or moved the task in between found the row
    with nobody and no record of it, and was answered. Its mark is read where the row was, and not where it goes."""
    given: list[Mark] = []
    for partition, row in groups if outcomes or blocked else ():
        key = row.keys()[0]
        outcome, request = outcomes.of_task(key) or (None, b"")
        if outcome is not None and (kind := mark_kind(outcome)) is not None:
            given.append(Mark(partition, key, kind, request))
        if key.digest in blocked:
            row.columns["flags"] |= FLAG_MOVED_IN
    return given
