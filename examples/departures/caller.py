"""The caller: stores the reminders of a day, then moves and cancels them as the facts become known.

Everything it asks and is answered goes into its log; it decides nothing by the answers but whether it can ask on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Literal

from examples.departures.data import Flight
from examples.departures.facts import Fact, Pace, facts_of, reminder_ms
from examples.departures.logs import Call, LogWriter, Plan, now_ms
from timerd import Client, Task, TimerdError
from timerd.client import PartlyStored

Verb = Literal["schedule", "move", "cancel"]
# A status with this code says that the task has fired or ended; the code is what the oracle reads.
_UNKNOWN = ("UNKNOWN", "")


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def refusal(error: TimerdError) -> tuple[str, str]:
    """Outcome and reason. Only an error that names a reason says that nothing was done."""
    return ("REFUSED", error.code) if error.reason else _UNKNOWN


class Caller:
    """One replay."""

    def __init__(self, client: Client, plan: Plan, log: LogWriter, progress: Callable[[], None]) -> None:
        self._client = client
        self._plan = plan
        self._pace = Pace(plan.data_start_ms, plan.wall_start_ms, plan.speed)
        self._log = log
        # Called after each fact.
        self._progress = progress
        self._task_ids: dict[str, str] = {}

    async def store_reminders(self, flights: Sequence[Flight]) -> None:
        due = [self._pace.wall_ms(reminder_ms(flight, self._plan.lead_ms)) for flight in flights]
        items = [(flight.flight_id, moment(at_ms)) for flight, at_ms in zip(flights, due, strict=True)]
        asked_ms = now_ms()
        try:
            tasks = await self._client.schedule_many(self._plan.queue, items)
        except PartlyStored as partly:
            tasks = partly.tasks
        answered_ms = now_ms()
        self._log.write(
            _stored(flight, task, asked_ms, answered_ms, at_ms)
            for flight, task, at_ms in zip(flights, tasks, due, strict=False)
        )
        self._task_ids = {flight.flight_id: task.id for flight, task in zip(flights, tasks, strict=False) if task.id}

    async def follow(self, flights: Sequence[Flight]) -> None:
        """Until the last fact is answered."""
        async with asyncio.TaskGroup() as group:
            for flight in flights:
                facts = facts_of(flight, self._plan.lead_ms)
                if facts and flight.flight_id in self._task_ids:
                    group.create_task(self._follow_flight(facts))

    async def _follow_flight(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            await asyncio.sleep((self._pace.wall_ms(fact.known_ms) - now_ms()) / 1000)
            await (self._move(fact) if fact.verb == "move" else self._cancel(fact))
            self._progress()

    async def _move(self, fact: Fact) -> None:
        wanted_ms, task_id = self._pace.wall_ms(fact.reminder_ms), self._task_ids[fact.flight_id]

        async def ask() -> tuple[str, int]:
            fire_time = await self._client.reschedule(task_id, at=moment(wanted_ms))
            return "OK", round(fire_time.timestamp() * 1000)

        await self._ask(fact, "move", wanted_ms, ask)

    async def _cancel(self, fact: Fact) -> None:
        async def ask() -> tuple[str, int]:
            outcome = await self._client.cancel(self._task_ids[fact.flight_id])
            return outcome.name, 0

        await self._ask(fact, "cancel", 0, ask)

    async def _ask(self, fact: Fact, verb: Verb, wanted_ms: int, ask: Callable[[], Awaitable[tuple[str, int]]]) -> None:
        asked_ms, reason, fire_at_ms = now_ms(), "", 0
        try:
            outcome, fire_at_ms = await ask()
        except TimerdError as error:
            outcome, reason = refusal(error)
        task_id = self._task_ids[fact.flight_id]
        call = Call(fact.flight_id, verb, asked_ms, now_ms(), outcome, reason, task_id, wanted_ms, fire_at_ms)
        self._log.write([call])


def _stored(flight: Flight, task: Task, asked_ms: float, answered_ms: float, wanted_ms: int) -> Call:
    if task.error is None:
        outcome, reason, fire_at_ms = "OK", "", task.fire_at_ms
    else:
        (outcome, reason), fire_at_ms = refusal(task.error), 0
    return Call(flight.flight_id, "schedule", asked_ms, answered_ms, outcome, reason, task.id, wanted_ms, fire_at_ms)
