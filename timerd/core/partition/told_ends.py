"""Which rows of a partition make a task when they end (`on_end`), and the notes of that in the settle record
(rule K5 of docs/understand/protocol.md).

The record first, then the task: a note in the record says that the row's end makes one, and where that stands. So the
end and its task become durable together, and a holder that dies between the two is completed by the next one, which
reads the note. The shell reads the row again from the store, and inserts the task as what is carried (WriteCarried).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from timerd.core.partition.recent_ends import FOR_GOOD, RecentEnds
from timerd.core.partition.settled_index import EndedRow, Entries, keys_of
from timerd.model.identity import PREFIX_BYTES, delivery_id_of
from timerd.model.partition import FIRST_KEY_SHARD, TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, Outcome, end_note, ended_key
from timerd.model.storage import DeadLetter

# In a set.
_MESSAGE_BYTES = 100


class ToldEnds:
    """Of one holder of one partition. Remembered are messages that have such a task: some 100 bytes each."""

    def __init__(self, partition: Partition) -> None:
        self._shard = partition.shard if partition.shard < FIRST_KEY_SHARD else 0
        self._messages: set[bytes] = set()
        self._now_ms = 0
        # What the next record says.
        self._ended: list[EndedRow] = []

    def __bool__(self) -> bool:
        """Whether any row was met that makes a task."""
        return bool(self._messages)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return len(self._messages) * _MESSAGE_BYTES

    def tick(self, now_ms: int) -> None:
        """What ends now makes a task that is due now."""
        self._now_ms = max(self._now_ms, now_ms)

    def meet(self, groups: Iterable[RowGroup]) -> None:
        """Rows of the partition, before anything can be said of their ends."""
        for rows in groups:
            kinds = [kind for kind, template in enumerate(rows.templates) if template.on_end]
            if kinds:
                mine = rows.columns["prefix"][np.isin(rows.columns["template"], kinds)]
                self._messages.update(rows.prefixes[np.unique(mine)].tolist())

    def end(self, ended: Iterable[EndedRow], before: RecentEnds) -> None:
        """These rows are over, each task of them once. `before`: what ended by another row was told then."""
        seen = {delivery_id_of(key.digest, key.version) for key, _ in self._ended}
        for key, outcome in ended:
            if outcome not in FOR_GOOD or key.digest[:PREFIX_BYTES] not in self._messages:
                continue
            delivery_id = delivery_id_of(key.digest, key.version)
            if delivery_id not in seen and not isinstance(before.otherwise(key), Outcome):
                seen.add(delivery_id)
                self._ended.append((key, outcome))

    def end_together(self, entries: Entries, before: RecentEnds) -> None:
        """As `end`."""
        self.end(zip(keys_of(entries), map(Outcome, entries["outcome"].tolist()), strict=True), before)

    def notes(self, dead_letters: Sequence[DeadLetter]) -> list[Carry]:
        """For the record that says what has ended since the last one."""
        if not self._ended:
            return []
        errors = {letter.key: letter.last_error for letter in dead_letters}
        target = Partition(TIME_SCOPE, bucket_of(self._now_ms), self._shard)
        ended, self._ended = self._ended, []
        return [end_note(key, outcome, target, self._now_ms, errors.get(key, "")) for key, outcome in ended]


def standing(notes: Sequence[Carry], entries: Entries) -> Iterator[Carry]:
    """Of the carries of a record the notes of these rows, of whose ends it says the last word (rule K4)."""
    keys = set(keys_of(entries)) if notes else ()
    return (note for note in notes if ended_key(note) in keys)
