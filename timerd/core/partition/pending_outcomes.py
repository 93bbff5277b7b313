"""The outcomes that wait for their rows: a row that is met later ends as it stands here.

An outcome is given to a whole task, to one generation of it, or to one row. Rows that are not known yet have theirs as
well, because a mark is read before its row and a caller may be faster than a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timerd.core.partition.early_ends import EarlyEnds
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.row_keys import delivery_ids, digests_of
from timerd.model.settle import Outcome

Pending = tuple[Outcome, bytes]
# How a task ends by what a worker said alone: that speaks of one generation, and a task may live again after it.
BY_WORD = frozenset((Outcome.ACKED, Outcome.DEAD))
# No call has marked it, so its record alone tells of it after a crash.
UNMARKED = BY_WORD | {Outcome.EXPIRED}


class PendingOutcomes:
    """Keeps an outcome of a task by its digest, of a generation (UNMARKED) by its delivery id, of a row by its key. A
    move takes an expiry along, so what had expired before it has not after it.
    `early`: the places of rows that perhaps wait. `in_hand`: tasks that a worker had when their outcome was given, by
    digest, with the request that gave it."""

    def __init__(self) -> None:
        self.in_hand: dict[bytes, bytes] = {}
        self.early = EarlyEnds()
        # Of tasks and generations, with the hash of the request that gave it first.
        self._given: dict[bytes, Pending] = {}
        # Whether one of them is of a generation.
        self._has_words = False
        # Of rows. FORWARDED: the row was refused, and is written again elsewhere. Others ended while they waited, and
        # stand here until they are met.
        self._of_rows: dict[RowKey, Outcome] = {}

    def __bool__(self) -> bool:
        return bool(self._given or self._of_rows)

    @classmethod
    def after(cls, before: PendingOutcomes) -> PendingOutcomes:
        """Those of a holder that begins: what was refused `before` stays refused."""
        outcomes = cls()
        outcomes._of_rows = {key: o for key, o in before._of_rows.items() if o is Outcome.FORWARDED}
        return outcomes

    def give(self, key: RowKey, outcome: Outcome, request: bytes) -> bytes:
        """Gives the task an outcome unless it has one. Returns the request that gave it first."""
        known = self.of_task(key)
        if known is not None:
            return known[1]
        of_all = outcome not in UNMARKED
        self._has_words |= not of_all
        self.early.note(key)
        self._given[key.digest if of_all else delivery_id_of(key.digest, key.version)] = outcome, request
        return request

    def give_all(self, keys: Sequence[RowKey], outcome: Outcome, request: bytes) -> None:
        """Gives it to whole tasks that have none."""
        self.early.note_all(keys)
        self._given.update(dict.fromkeys(digests_of(keys), (outcome, request)))

    def refuse(self, keys: Iterable[RowKey]) -> None:
        """These rows are never sent from where they are: their tasks are written again elsewhere."""
        self._of_rows.update(dict.fromkeys(keys, Outcome.FORWARDED))

    def end_unmet(self, key: RowKey, outcome: Outcome) -> None:
        """The row is over while it waits: it is passed over when it is met."""
        self._of_rows.setdefault(key, outcome)
        self.early.note(key)

    def met(self, keys: Iterable[RowKey]) -> None:
        """These rows were met. What refuses a row stays, because the row may be offered again."""
        if self._of_rows:
            for key in keys:
                if self._of_rows.get(key, Outcome.FORWARDED) is not Outcome.FORWARDED:
                    del self._of_rows[key]

    def of_task(self, key: RowKey) -> Pending | None:
        """What was said of the row's task or generation."""
        given = self._given
        if not given:
            return None
        found = given.get(key.digest)
        if found is not None or not self._has_words:
            return found
        return given.get(delivery_id_of(key.digest, key.version))

    def of_row(self, key: RowKey) -> Outcome | None:
        """What was said of this row alone."""
        return self._of_rows.get(key)

    def is_refused(self, key: RowKey) -> bool:
        return self._of_rows.get(key) is Outcome.FORWARDED

    def knows_any(self, keys: Sequence[RowKey], digests: Sequence[bytes]) -> bool:
        """Whether one of the rows has an outcome, by itself or by its task. `digests`: those of the keys."""
        # Mostly there is none of a row, and no key needs to be made to see that.
        return self.knows_any_task(keys, digests) or bool(self._of_rows and not self._of_rows.keys().isdisjoint(keys))

    def knows_any_task(self, keys: Sequence[RowKey], digests: Sequence[bytes]) -> bool:
        """Whether one of the tasks or generations has an outcome."""
        if not self._given:
            return False
        known = self._given.keys()
        return not (known.isdisjoint(digests) and (not self._has_words or known.isdisjoint(delivery_ids(keys))))

    def tasks(self) -> dict[bytes, Pending]:
        """A copy of what was given to tasks and generations, for tests."""
        return dict(self._given)

    def clear_tasks(self) -> None:
        """Forgets what was given to tasks and generations."""
        self._given.clear()
