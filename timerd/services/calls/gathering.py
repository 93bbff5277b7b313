"""Schedule calls that came in one turn of the event loop are stored together, and each is answered as it would be
alone.

A call that waits for nobody else goes with the others. All else goes by itself, as if nobody had come beside it: what
is wrong, what has a key, what is counted against a quota, what is late, what is large. So nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from contextvars import Context
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import Message

from timerd.model.errors import Unavailable
from timerd.services.calls.ingest import IngestBudget
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.replies import schedule_reply
from timerd.services.calls.requests import Draft
from timerd.services.engine.verbs import NewTasks, OnAnswer, StoredTasks
from timerd.services.transport.decoding import Received
from timerd.services.transport.status import problem_of
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1.task_pb2 import Problem

# As many share an append: to check and answer them holds the loop for two milliseconds.
MOST_CALLS = 64
# A larger message is parsed already, but its parts are copied, so it is none of many.
MOST_MESSAGE_BYTES = 128 * 1024
ReplyOrProblem = Message | Problem
ReceivedCall = Received[wire.ScheduleRequest]


class StoresSingles(Protocol):
    """The engine's `singles`."""

    async def store(self, calls: Sequence[NewTasks], now_ms: int, told: OnAnswer) -> None:
        """Calls of one task each, without keys: each is told of as soon as its own outcome is known."""
        ...


class _WaitingCall(NamedTuple):
    received: ReceivedCall
    answered: asyncio.Future[ReplyOrProblem]

    def answer(self, outcome: ReplyOrProblem) -> None:
        """Its caller may be gone."""
        if not self.answered.done():
            self.answered.set_result(outcome)

    def give_up(self) -> None:
        """Its work was stopped, where it has no answer yet."""
        self.answered.cancel()


class Gathering:
    """`answer_one` answers a call by itself; `within` bounds how long callers wait for the store: its result is None,
    or what is said in the place of one. `start` runs what is carried through although its caller hangs up."""

    def __init__(
        self,
        change: Mutations,
        now_ms: Callable[[], int],
        singles: StoresSingles,
        ingest: IngestBudget,
        answer_one: Callable[[ReceivedCall], Awaitable[ReplyOrProblem]],
        within: Callable[[Coroutine[Any, Any, None]], Awaitable[Problem | None]],
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        self._change = change
        self._now_ms = now_ms
        self._singles = singles
        self._ingest = ingest
        self._answer_one = answer_one
        self._within = within
        self._start = start
        self._waiting: list[_WaitingCall] = []

    def ask(self, received: ReceivedCall) -> asyncio.Future[ReplyOrProblem]:
        """The outcome of a call. Who no longer waits for it stops nothing."""
        answered: asyncio.Future[ReplyOrProblem] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._begin()
        self._waiting.append(_WaitingCall(received, answered))
        return answered

    def _begin(self) -> None:
        """Behind all who come in this turn. What one caller may do is not what another may: so it is nobody's."""
        Context().run(self._start, self._set_out()).add_done_callback(self._is_over)

    def _is_over(self, begun: asyncio.Task[None]) -> None:
        """Who waits for a turn that was given up before it began waits for nothing."""
        if begun.cancelled():
            for each in self._waiting:
                each.give_up()
            self._waiting = []

    async def _set_out(self) -> None:
        asked, self._waiting = self._waiting[:MOST_CALLS], self._waiting[MOST_CALLS:]
        if self._waiting:
            self._begin()
        now_ms = self._trusted_ms()
        held, together = ExitStack(), list[tuple[_WaitingCall, Draft]]()
        for each in asked:
            draft = self._draft(each.received, now_ms, held) if now_ms is not None else None
            if draft is not None:
                together.append((each, draft))
            elif len(asked) == 1:
                await self._by_itself(each)
            else:
                self._start(self._by_itself(each))
        if together and now_ms is not None:
            await self._answer(together, now_ms, held)

    def _trusted_ms(self) -> int | None:
        """None: nothing is taken in, and each call hears why."""
        try:
            return self._now_ms()
        except Unavailable:
            return None

    def _draft(self, received: ReceivedCall, now_ms: int, held: ExitStack) -> Draft | None:
        """None: the call goes by itself. Else `held` keeps its place among those that are taken in."""
        if received.parsed is None or received.size_bytes > MOST_MESSAGE_BYTES:
            return None
        try:
            draft = self._change.single(received.parsed, now_ms)
            if draft is not None:
                held.enter_context(self._ingest.hold(received.size_bytes))
        except Exception:  # noqa: BLE001 - by itself it meets the same, and is answered
            return None
        return draft

    async def _by_itself(self, each: _WaitingCall) -> None:
        try:
            each.answer(await self._answer_one(each.received))
        finally:
            each.give_up()

    async def _answer(self, together: Sequence[tuple[_WaitingCall, Draft]], now_ms: int, held: ExitStack) -> None:
        def told(number: int, stored: StoredTasks | Exception) -> None:
            each, draft = together[number]
            each.answer(_outcome(draft, stored))

        try:
            late = await self._within(self._store([draft.tasks for _, draft in together], now_ms, told, held))
            if late is not None:
                for each, _ in together:
                    each.answer(late)
        except Exception as error:  # noqa: BLE001 - told to whose calls it ended
            for each, _ in together:
                each.answer(problem_of(error))
        finally:
            for each, _ in together:
                each.give_up()

    async def _store(self, calls: Sequence[NewTasks], now_ms: int, told: OnAnswer, held: ExitStack) -> None:
        """To its end, also where the callers have been told that it takes too long."""
        with held:
            await self._singles.store(calls, now_ms, told)


def _outcome(draft: Draft, stored: StoredTasks | Exception) -> ReplyOrProblem:
    try:
        if isinstance(stored, Exception):
            raise stored
        return schedule_reply(draft, stored, {})
    except Exception as error:  # noqa: BLE001 - the last line before the wire, as `caught`
        return problem_of(error)
