"""Reschedule, FireNow and Redrive, which are moves: tried again where another call came in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from timerd.core.lookup import from_letter, locate
from timerd.core.move import Wish, move_task
from timerd.model.errors import Aborted, NotFound, NotStored, Precondition, StoreUnknown, Unavailable
from timerd.model.identity import TaskId
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.holding.driving import Performs, after_a_write, drive

# Between tries, in all longer than a partition takes to be taken over: until then nobody takes its rows in.
PAUSES_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)


class Moving:
    """The engine's verbs that give a task another instant."""

    def __init__(self, store: Store, performer: Performs, retention_ms: int, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._store = store
        self._performer = performer
        self._retention_ms = retention_ms

    async def move(self, task: TaskId, request: str, fire_at_ms: int, revive: DeadLetter | None = None) -> int:
        """The new fire time. An ABORTED move is tried again, at what is now by then: the other one may have lost as
        well, or there was no holder yet."""
        for pause_s in PAUSES_S:
            try:
                return await self._try(task, request, fire_at_ms, revive)
            except Aborted:
                await asyncio.sleep(pause_s)
        return await self._try(task, request, fire_at_ms, revive)

    async def redrive(self, tasks: Sequence[TaskId], request: str) -> list[bool | NotStored]:
        """One that cannot live again (it was cancelled, another task has its key) holds up no other."""
        answers: list[bool | NotStored] = []
        for task in tasks:
            try:
                answers.append(await self._redrive(task, request))
            except (Precondition, NotFound, Aborted) as refused:
                answers.append(refused)
            except Unavailable as error:
                if any(answer is True for answer in answers):
                    raise StoreUnknown("The store went away after some tasks were redriven.") from error
                raise
        return answers

    async def _try(self, task: TaskId, request: str, fire_at_ms: int, revive: DeadLetter | None) -> int:
        wish = Wish(request, fire_at_ms, self._now_ms(), self._retention_ms, revive)
        return await drive(move_task(task, wish), self._performer)

    async def _redrive(self, task: TaskId, request: str) -> bool:
        letters = await self._store.letters([task.to_bytes()])
        here = await drive(locate(task), self._performer)
        if here.rows is None and letters:
            here = from_letter(here, letters[0])
        if letters and here.ending.outcome is Outcome.DEAD:
            await self.move(task, request, self._now_ms(), letters[0])
        elif here.move is None or here.move.request != request:
            return False
        with after_a_write():
            await self._store.exhume([task.to_bytes()])
        return True
