"""The callers: they ask what the plan says at the time it says, and write down what they were answered.

Nobody waits for anybody else's answer; the SDK repeats what a killed server left unanswered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from timerd.client import Aborted, CancelOutcome, Client, ItemOutcome, PartlyStored, Task, TimerdError
from timerd.demo.plan import Plan, PlannedChange, Wanted
from timerd.demo.records import CallRecord, CallVerb, LogWriter, now_ms

Planned = TypeVar("Planned", Wanted, PlannedChange)
QUEUE = "demo"
_CHUNK = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OUTCOMES = {ItemOutcome.STORED: "OK", ItemOutcome.NOT_STORED: "NOT_STORED", ItemOutcome.UNKNOWN: "UNKNOWN"}
# A move that met another one's debris is told to try again.
_MOVE_TRIES = 5


@dataclass(slots=True)
class Answered:
    """How far the callers are; read by the progress display."""

    schedules: int = 0
    cancels: int = 0
    moves: int = 0
    unanswered: int = 0


@dataclass(slots=True)
class Callers:
    client: Client
    log: LogWriter
    start_ms: int
    answered: Answered = field(default_factory=Answered)
    _task_ids: dict[int, str] = field(default_factory=dict)

    async def run(self, plan: Plan) -> None:
        async with asyncio.TaskGroup() as group:
            for at in range(0, len(plan.bulk), _CHUNK):
                group.create_task(self._schedule_chunk(plan.bulk[at : at + _CHUNK]))
            group.create_task(self._pace(plan.singles, self._schedule_one, group))
            group.create_task(self._pace(plan.changes, self._change, group))

    async def _pace(
        self, steps: Iterable[Planned], act: Callable[[Planned], Coroutine[None, None, None]], group: asyncio.TaskGroup
    ) -> None:
        """Each at its time, whether or not those before it have been answered."""
        for step in steps:
            await asyncio.sleep(max(0.0, (self.start_ms + step.ask_ms - now_ms()) / 1000))
            group.create_task(act(step))

    def _moment(self, offset_ms: int) -> datetime:
        return _EPOCH + timedelta(milliseconds=self.start_ms + offset_ms)

    async def _schedule_chunk(self, chunk: Sequence[Wanted]) -> None:
        asked_ms = now_ms()
        items = [(str(wanted.number), self._moment(wanted.fire_ms)) for wanted in chunk]
        try:
            tasks = await self.client.schedule_many(QUEUE, items)
        except PartlyStored as error:
            tasks = error.tasks
        except TimerdError as error:
            return self._note_unstored(chunk, asked_ms, error)
        self._note_stored(chunk, asked_ms, tasks)

    async def _schedule_one(self, wanted: Wanted) -> None:
        asked_ms = now_ms()
        self.answered.unanswered += 1
        try:
            task = await self.client.schedule(QUEUE, str(wanted.number), at=self._moment(wanted.fire_ms))
        except TimerdError as error:
            self._note_unstored([wanted], asked_ms, error)
        else:
            self._note_stored([wanted], asked_ms, [task])
        finally:
            self.answered.unanswered -= 1

    def _note_stored(self, chunk: Sequence[Wanted], asked_ms: float, tasks: Sequence[Task]) -> None:
        answered_ms = now_ms()
        calls = []
        for wanted, task in zip(chunk, tasks, strict=True):
            self._task_ids[wanted.number] = task.id
            outcome = _OUTCOMES.get(task.outcome, task.outcome.name)
            calls.append(
                CallRecord("schedule", wanted.number, asked_ms, answered_ms, outcome, task.id, task.fire_at_ms)
            )
        self.log.write(calls)
        self.answered.schedules += len(calls)

    def _note_unstored(self, chunk: Sequence[Wanted], asked_ms: float, error: TimerdError) -> None:
        answered_ms, outcome = now_ms(), outcome_of(error)
        self.log.write(
            CallRecord("schedule", each.number, asked_ms, answered_ms, outcome, "", self.start_ms + each.fire_ms)
            for each in chunk
        )
        self.answered.schedules += len(chunk)

    async def _change(self, change: PlannedChange) -> None:
        task_id = self._task_ids.get(change.number)
        if task_id is None:
            # Its schedule call has no answer yet: nobody can name the task.
            return
        asked_ms = now_ms()
        self.answered.unanswered += 1
        if change.verb == "cancel":
            outcome, fire_at_ms = await self._cancel(task_id), 0
            self.answered.cancels += 1
        else:
            outcome, fire_at_ms = await self._move(task_id, self.start_ms + change.fire_ms)
            self.answered.moves += 1
        self.answered.unanswered -= 1
        verb: CallVerb = change.verb
        self.log.write([CallRecord(verb, change.number, asked_ms, now_ms(), outcome, task_id, fire_at_ms)])

    async def _cancel(self, task_id: str) -> str:
        try:
            outcome: CancelOutcome = await self.client.cancel(task_id)
        except TimerdError as error:
            return outcome_of(error)
        return outcome.name

    async def _move(self, task_id: str, fire_at_ms: int) -> tuple[str, int]:
        wanted = _EPOCH + timedelta(milliseconds=fire_at_ms)
        for attempt in range(_MOVE_TRIES):
            try:
                moved = await self.client.reschedule(task_id, at=wanted)
            except Aborted as error:
                if attempt == _MOVE_TRIES - 1:
                    return outcome_of(error), fire_at_ms
            except TimerdError as error:
                return outcome_of(error), fire_at_ms
            else:
                return "OK", round((moved - _EPOCH) / timedelta(milliseconds=1))
        return "UNKNOWN", fire_at_ms


def outcome_of(error: TimerdError) -> str:
    """An error without a reason of timerd's own leaves the outcome unknown (guarantee G2)."""
    return error.code if error.reason else "UNKNOWN"
