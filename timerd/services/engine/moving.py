"""Reschedule, FireNow and Redrive, which are moves: tried again where another call came in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from timerd.core.protocol import REQUEST_MEMORY_MS, Wish, from_letter, locate, move_task, moved_before
from timerd.model.errors import (
    Aborted,
    NotFound,
    NotStored,
    Overtaken,
    Precondition,
    StoreUnavailable,
    StoreUnknown,
    Unavailable,
)
from timerd.model.identity import TaskId, generation_of
from timerd.model.ordering import OrderPlace
from timerd.model.registers import Move, MoveState
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.engine.ordering import Ordering
from timerd.services.engine.verbs import AskedMove
from timerd.services.holding.driving import Performs, after_a_write, drive
from timerd.services.holding.driving_many import drive_many
from timerd.services.holding.halting import Halting

# Between tries, in all longer than a partition takes to be taken over: until then nobody takes its rows in.
PAUSES_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)

# Of the dead letters of one call so many at a time: they share the commits of the store.
AT_ONCE = 32
# Of the moves of one call, which take their steps together. More would keep the loop from others for milliseconds.
MOVES_AT_ONCE = 250
# A move's task and call: its digest and request.
MoveName = tuple[bytes, str]
AnswerOfOne = TypeVar("AnswerOfOne")


class Refused(NamedTuple):
    """An answer, where an exception would be an error of the call."""

    why: NotStored


class _BegunMove(NamedTuple):
    """One of a call of many."""

    task: TaskId
    wish: Wish
    running: asyncio.Future[int]


class Moving:
    """The engine's verbs that give a task another instant. `now_ms` takes calls in, or refuses them; `time_ms` is the
    time alone."""

    def __init__(
        self,
        store: Store,
        runner: Performs,
        retention_ms: int,
        now_ms: Callable[[], int],
        time_ms: Callable[[], int],
        ordering: Ordering,
        halting: Halting,
    ) -> None:
        self._halting = halting
        self._ordering = ordering
        self._now_ms = now_ms
        self._time_ms = time_ms
        self._store = store
        self._runner = runner
        # Longer than a call is remembered at the least: so its register is.
        self._kept_ms = max(retention_ms, REQUEST_MEMORY_MS)
        # Its try that runs.
        self._running: dict[MoveName, asyncio.Future[int]] = {}
        # Those of calls of many.
        self._carrying: set[asyncio.Task[None]] = set()

    async def move(
        self,
        task: TaskId,
        request: str,
        fire_at_ms: int,
        asked_ms: int,
        revive: DeadLetter | None = None,
        place: OrderPlace | None = None,
    ) -> int:
        """The new fire time. A try that comes while another one of the call runs here is answered with it: side by side
        they would fail each other."""
        named = task.digest, request
        running = self._running.get(named)
        if running is None:
            wish = Wish(request, fire_at_ms, 0, self._kept_ms, revive, asked_ms, self._time_ms, place)
            running = self._runs(named, asyncio.ensure_future(self._move(task, wish)))
        return await asyncio.shield(running)

    def _runs(self, named: MoveName, running: asyncio.Future[int]) -> asyncio.Future[int]:
        self._running[named] = running
        running.add_done_callback(partial(self._over, named))
        return running

    def _over(self, named: MoveName, running: asyncio.Future[int]) -> None:
        self._running.pop(named, None)
        if not running.cancelled():
            # Nobody may have waited for it to its end.
            running.exception()

    async def _move(self, task: TaskId, wish: Wish, first: Exception | None = None) -> int:
        """What is refused may have been carried out by another try of the call meanwhile. `first`: what the first try
        came to, where there was one."""
        try:
            return await self._until_decided(task, wish, first)
        except (Aborted, NotFound, Precondition):
            moved_ms = await self.moved_before(task, wish.request)
            if moved_ms is None:
                raise
            return moved_ms

    async def move_all(self, moves: Sequence[AskedMove]) -> list[int | NotStored]:
        """Of different tasks. One that keeps its instant holds up no other."""
        answers: list[int | NotStored] = []
        for at in range(0, len(moves), MOVES_AT_ONCE):
            running = map(asyncio.shield, self._begin(moves[at : at + MOVES_AT_ONCE]))
            _tell(answers, map(_as_answer, await asyncio.gather(*running, return_exceptions=True)))
        return answers

    def _begin(self, moves: Sequence[AskedMove]) -> list[asyncio.Future[int]]:
        """They take their steps together, but for those of which another try runs."""
        loop, begun, running = asyncio.get_running_loop(), list[_BegunMove](), list[asyncio.Future[int]]()
        for asked in moves:
            named = asked.task.digest, asked.request
            if named not in self._running:
                own = self._runs(named, loop.create_future())
                wish = Wish(asked.request, asked.fire_at_ms, 0, self._kept_ms, None, asked.asked_ms, self._time_ms)
                begun.append(_BegunMove(asked.task, wish, own))
            running.append(self._running[named])
        if begun:
            carrying = asyncio.ensure_future(self._carry_out(begun))
            self._carrying.add(carrying)
            carrying.add_done_callback(partial(self._carried, begun))
        return running

    def _carried(self, begun: Sequence[_BegunMove], carrying: asyncio.Task[None]) -> None:
        """Nobody waits for what was stopped in the midst."""
        self._carrying.discard(carrying)
        for each in begun:
            each.running.cancel()

    async def _carry_out(self, begun: Sequence[_BegunMove]) -> None:
        """One that is not moved by the first try goes on by itself."""
        later = []
        for each, said in zip(begun, await self._first_try(begun), strict=True):
            if isinstance(said, int):
                each.running.set_result(said)
            else:
                later.append(self._go_on(each, said))
        await asyncio.gather(*later)

    async def _first_try(self, begun: Sequence[_BegunMove]) -> list[int | Exception]:
        try:
            now_ms = self._now_ms()
            steps = [move_task(each.task, self._timed(each.wish, now_ms)) for each in begun]
            with self._ordering.writing(now_ms):
                return await drive_many(steps, self._runner)
        except Exception as error:  # noqa: BLE001 - told to each
            return [error] * len(begun)

    async def _go_on(self, begun: _BegunMove, first: Exception) -> None:
        try:
            begun.running.set_result(await self._move(begun.task, begun.wish, first))
        except Exception as error:  # noqa: BLE001 - told to who waits
            begun.running.set_exception(error)

    async def _until_decided(self, task: TaskId, wish: Wish, first: Exception | None) -> int:
        """An ABORTED move is tried again, at what is now by then: the other one may have lost as well, or there was no
        holder yet."""
        for pause_s in PAUSES_S:
            try:
                return await self._try(task, wish, first)
            except Aborted:
                first = None
                await asyncio.sleep(pause_s)
        return await self._try(task, wish)

    async def moved_before(self, task: TaskId, request: str) -> int | None:
        """What the call with that hash was answered, if it was carried out."""
        here = await drive(locate(task), self._runner)
        return await self._answer(task, here.move, request)

    async def _answer(self, task: TaskId, move: Move | None, request: str) -> int | None:
        if move is None:
            return None
        return await drive(moved_before(task.digest, move, request), self._runner)

    async def redrive(self, tasks: Sequence[TaskId], request: str, asked_ms: int) -> list[bool | NotStored]:
        """One that cannot live again (it was cancelled, another task has its key) holds up no other."""
        return await _side_by_side([partial(self._redriven, task, request, asked_ms) for task in tasks], AT_ONCE)

    async def _redriven(self, task: TaskId, request: str, asked_ms: int) -> bool | Refused:
        """Whether the task lives again, or why it cannot."""
        try:
            return await self._redrive(task, request, asked_ms)
        except (Precondition, NotFound, Aborted, Overtaken) as refused:
            return Refused(refused)

    async def _try(self, task: TaskId, wish: Wish, before: Exception | None = None) -> int:
        """`before`: what it has come to already."""
        if before is not None:
            raise before
        now_ms = self._now_ms()
        moving = move_task(task, self._timed(wish, now_ms))
        with self._ordering.writing(now_ms):
            return await drive(moving, self._runner)

    def _timed(self, wish: Wish, now_ms: int) -> Wish:
        """With a place of its own among what comes at that instant."""
        return replace(wish, now_ms=now_ms, order_seq=self._ordering.drawn(now_ms))

    async def _redrive(self, task: TaskId, request: str, asked_ms: int) -> bool:
        dead_letters = await self._store.get_dead_letters([task.to_bytes()])
        here = await drive(locate(task), self._runner)
        if here.rows is None and dead_letters:
            here = from_letter(here, dead_letters[0])
        move = here.move
        if move is not None and (await self._answer(task, move, request)) is not None:
            await self._take_dead_letter(task, move.generation + (move.state is not MoveState.MOVED))
            return True
        if not dead_letters or here.ending.outcome is not Outcome.DEAD:
            # Another try of the call may have been faster meanwhile.
            return (await self.moved_before(task, request)) is not None
        generation = move.generation if move is not None else 0
        async with self._halting.reviving(dead_letters[0]) as place:
            await self.move(task, request, self._now_ms(), asked_ms, dead_letters[0], place)
        await self._take_dead_letter(task, generation + 1)
        return True

    async def _take_dead_letter(self, task: TaskId, generation: int) -> None:
        """Removes the dead letter of a life before that generation. The task may have died again meanwhile: the letter
        of that life stays."""
        with after_a_write():
            taken = await self._store.take_dead_letters([task.to_bytes()])
            later = [letter for letter in taken if generation_of(letter.key.version) >= generation]
            if later:
                await self._store.put_dead_letters(later)


async def _side_by_side(
    work: Sequence[Callable[[], Awaitable[AnswerOfOne | Refused]]], at_once: int
) -> list[AnswerOfOne | NotStored]:
    """Raises StoreUnknown where the store goes away after some of it was done."""
    answers: list[AnswerOfOne | NotStored] = []
    for at in range(0, len(work), at_once):
        _tell(answers, await asyncio.gather(*(each() for each in work[at : at + at_once]), return_exceptions=True))
    return answers


def _tell(answers: list[AnswerOfOne | NotStored], said: Iterable[AnswerOfOne | Refused | BaseException]) -> None:
    """Adds them. Raises StoreUnknown where the store goes away after some of it was done."""
    known = list(said)
    answers += [
        each.why if isinstance(each, Refused) else each for each in known if not isinstance(each, BaseException)
    ]
    for error in (each for each in known if isinstance(each, BaseException)):
        if isinstance(error, Unavailable) and any(map(_is_done, answers)):
            raise StoreUnknown("The store went away after some of the tasks were changed.") from error
        raise error


def _as_answer(said: int | BaseException) -> int | Refused | BaseException:
    """What one of the moves is refused for is no error of the call."""
    if isinstance(said, Precondition | NotFound | Aborted | Overtaken | Unavailable):
        return said if isinstance(said, StoreUnavailable) else Refused(said)
    return said


def _is_done(answer: object) -> bool:
    return answer is not False and not isinstance(answer, NotStored)
