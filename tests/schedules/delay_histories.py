"""Histories of a schedule with a fixed delay: each task comes so long after the end of the one before, and goes on to
come, whatever dies and is changed on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.property.world import done
from tests.schedules.histories import EVERY_MS, NAME, START_MS, Broken, Process, Row, definition
from tests.schedules.overlap_histories import OverlapHistory
from timerd.core.protocol import AppendRows
from timerd.model.occurrences import Reason
from timerd.model.overlap import Overlap
from timerd.model.recurrence import Spec
from timerd.model.registers import Move, MoveState, move_key
from timerd.model.schedules import Definition, Schedule, ScheduleState

# In which a task comes, where nothing is in its way: a delay, a look at its end, and how far time goes at once.
WITHIN_MS = 60_000


@dataclass
class DelayHistory(OverlapHistory):
    """`overlap` is SKIP."""

    def definition(self, kind: int) -> Definition:
        return replace(definition(kind, Overlap.SKIP), spec=Spec((), fixed_delay_ms=EVERY_MS[kind]))

    def _appended(self, process: Process, request: AppendRows) -> None:
        before = set(self.rows)
        super()._appended(process, request)
        for key in self.rows.keys() - before:
            row = self.rows[key]
            if _is_of_spec(row):
                self._judge_delay(row)

    def _judge_delay(self, row: Row) -> None:
        delay_ms = EVERY_MS[next(force.kind for force in self.forces if force.revision == row.said.revision)]
        ended_ms = max(self.durable_ms.values(), default=START_MS)
        if row.said.instant_ms < ended_ms + delay_ms:
            at_ms = row.said.instant_ms - START_MS
            raise Broken(f"{at_ms} comes less than {delay_ms} after the end at {ended_ms - START_MS}")

    def _judge(self, before: Schedule, after: Schedule) -> None:
        if after.overlap.waiting or after.overlap.skipped or after.missed:
            raise Broken("an instant was passed over, or waits")

    def _check(self) -> None:
        if not self.forces:
            raise Broken("it was never created")
        [stored] = done(self.store.read([NAME.key]))
        assert stored is not None
        entry = Schedule.from_bytes(stored)
        alive = [row for row in self.rows.values() if _is_of_spec(row) and not self._is_withdrawn(row)]
        if len(alive) != entry.created:
            raise Broken(f"{entry.created} were created, there are {len(alive)}")
        last_ms = max((row.said.instant_ms for row in alive), default=0)
        if entry.state is ScheduleState.DONE:
            raise Broken("it has ended, and has no end")
        if entry.state is ScheduleState.ACTIVE and last_ms < self.rest_ms - WITHIN_MS:
            raise Broken(f"the last one was at {last_ms - START_MS}")

    def _is_withdrawn(self, row: Row) -> bool:
        [stored] = done(self.store.read([move_key(row.key.digest)]))
        return stored is not None and Move.from_bytes(stored).state is MoveState.MOVED


def _is_of_spec(row: Row) -> bool:
    return row.said.reason != Reason.TRIGGER


def played(seed: int, **settings: Any) -> DelayHistory:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = DelayHistory(seed, overlap=Overlap.SKIP, **settings)
    history.play()
    return history
