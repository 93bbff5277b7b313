"""Schedule calls that came in one turn of the event loop are stored together, and each is answered as it would be
alone.

Those that are plain are columns from here on: judged, stored and answered in one pass (`plain_calls.py`). Another one
that waits for nobody else goes with them. All else goes by itself, as if nobody had come beside it: what is wrong, what
has a key, what is counted against a quota, what is late, what is large. So nothing is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from google.protobuf.message import Message

from timerd.model.errors import Unavailable
from timerd.services.calls.ingest import IngestBudget
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.plain_calls import PlainCalls
from timerd.services.calls.replies import plain_reply, schedule_reply
from timerd.services.calls.requests import Draft
from timerd.services.engine.new_singles import HearsSingles, NewSingles
from timerd.services.engine.verbs import NewTasks, OnAnswer, StoredTasks
from timerd.services.transport.decoding import Received
from timerd.services.transport.status import problem_of
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1.task_pb2 import Problem

# As many share an append: to check and answer them as columns holds the loop for two milliseconds, and so do those that
# are checked one by one.
MOST_CALLS = 256
MOST_CHECKED = 64
# Fewer cost no more one by one than as columns.
FEW_CALLS = 10
# A larger message is parsed already, but its parts are copied, so it is none of many.
MOST_MESSAGE_BYTES = 128 * 1024
ReplyOrProblem: TypeAlias = Message | Problem
OnOutcome: TypeAlias = Callable[[ReplyOrProblem | None], None]
ReceivedCall = Received[wire.ScheduleRequest]


class StoresSingles(Protocol):
    """The engine's `singles`."""

    async def store(self, calls: Sequence[NewTasks], now_ms: int, told: OnAnswer) -> None:
        """Calls of one task each, without keys: each is told of as soon as its own outcome is known."""
        ...

    async def store_plain(self, plain: NewSingles, now_ms: int, told: HearsSingles) -> None:
        """As `store`, of calls that came as columns."""
        ...


class _WaitingCall:
    """`told` hears what becomes of it, once."""

    __slots__ = ("_told", "received")

    def __init__(self, received: ReceivedCall, told: OnOutcome) -> None:
        self.received = received
        self._told: OnOutcome | None = told

    def answer(self, outcome: ReplyOrProblem | None) -> None:
        told, self._told = self._told, None
        if told is not None:
            told(outcome)

    def give_up(self) -> None:
        """Its work was stopped, where it has no answer yet."""
        self.answer(None)


class _Together(NamedTuple):
    """Calls that are stored together: those that are columns, and the drafts of the others."""

    plain: PlainCalls | None
    drafts: Sequence[Draft]
    # The plain ones first.
    calls: Sequence[_WaitingCall]


class _PlainAnswers:
    """Answers calls that came as columns: row n of `tasks` is of call n."""

    def __init__(self, tasks: NewSingles, calls: Sequence[_WaitingCall]) -> None:
        self._calls = calls
        self._fire_at_ms: Sequence[int] = tasks.rows.columns["fire_at_ms"].tolist()

    def stored(self, numbers: Sequence[int], task_ids: Sequence[str]) -> None:
        for number, task_id in zip(numbers, task_ids, strict=True):
            self._calls[number].answer(plain_reply(task_id, self._fire_at_ms[number]))

    def ended(self, number: int, tasks: NewTasks, stored: StoredTasks | Exception) -> None:
        self._calls[number].answer(_outcome(Draft(tasks), stored))

    def failed(self, numbers: Sequence[int], error: Exception) -> None:
        for number in numbers:
            self._calls[number].answer(problem_of(error))


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
        self.tell(received, partial(_settle, answered))
        return answered

    def tell(self, received: ReceivedCall, told: OnOutcome) -> None:
        """As `ask`: `told` hears the outcome; None: it was given up without one."""
        if not self._waiting:
            self._begin()
        self._waiting.append(_WaitingCall(received, told))

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
        now_ms, held = self._trusted_ms(), ExitStack()
        plain = self._plain(asked, now_ms, held) if now_ms is not None and len(asked) >= FEW_CALLS else None
        others = asked if plain is None else _without(asked, plain.numbers)
        self._waiting = others[MOST_CHECKED:] + self._waiting
        if self._waiting:
            self._begin()
        calls = [asked[number] for number in plain.numbers] if plain is not None else []
        drafts = list[Draft]()
        for each in others[:MOST_CHECKED]:
            draft = self._draft(each.received, now_ms, held) if now_ms is not None else None
            if draft is not None:
                drafts.append(draft)
                calls.append(each)
            elif len(asked) == 1:
                await self._by_itself(each)
            else:
                self._start(self._by_itself(each))
        if calls and now_ms is not None:
            await self._answer(_Together(plain, drafts, calls), now_ms, held)

    def _plain(self, asked: Sequence[_WaitingCall], now_ms: int, held: ExitStack) -> PlainCalls | None:
        """As `_draft`, of all that are plain."""
        requests = [each.received.parsed if _is_small(each.received) else None for each in asked]
        try:
            plain = self._change.plain(requests, now_ms)
            if plain is not None:
                sizes_bytes = [asked[number].received.size_bytes for number in plain.numbers]
                held.enter_context(self._ingest.hold_all(sizes_bytes))
        except Exception:  # noqa: BLE001 - one by one they meet the same, and are answered
            return None
        return plain

    def _trusted_ms(self) -> int | None:
        """None: nothing is taken in, and each call hears why."""
        try:
            return self._now_ms()
        except Unavailable:
            return None

    def _draft(self, received: ReceivedCall, now_ms: int, held: ExitStack) -> Draft | None:
        """None: the call goes by itself. Else `held` keeps its place among those that are taken in."""
        if received.parsed is None or not _is_small(received):
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

    async def _answer(self, together: _Together, now_ms: int, held: ExitStack) -> None:
        try:
            late = await self._within(self._store(together, now_ms, held))
            if late is not None:
                for each in together.calls:
                    each.answer(late)
        except Exception as error:  # noqa: BLE001 - told to whose calls it ended
            for each in together.calls:
                each.answer(problem_of(error))
        finally:
            for each in together.calls:
                each.give_up()

    async def _store(self, together: _Together, now_ms: int, held: ExitStack) -> None:
        """To its end, also where the callers have been told that it takes too long."""
        plain, drafts, calls = together
        count = len(calls) - len(drafts)

        def told(number: int, stored: StoredTasks | Exception) -> None:
            calls[count + number].answer(_outcome(drafts[number], stored))

        with held:
            if plain is not None:
                await self._singles.store_plain(plain.tasks, now_ms, _PlainAnswers(plain.tasks, calls))
            # What comes twice in a turn finds its first.
            if drafts:
                await self._singles.store([draft.tasks for draft in drafts], now_ms, told)


def _without(asked: Sequence[_WaitingCall], numbers: Sequence[int]) -> list[_WaitingCall]:
    left_out = frozenset(numbers)
    return [each for number, each in enumerate(asked) if number not in left_out]


def _is_small(received: ReceivedCall) -> bool:
    return received.size_bytes <= MOST_MESSAGE_BYTES


def _settle(answered: asyncio.Future[ReplyOrProblem], outcome: ReplyOrProblem | None) -> None:
    """Its caller may be gone."""
    if outcome is None:
        answered.cancel()
    elif not answered.done():
        answered.set_result(outcome)


def _outcome(draft: Draft, stored: StoredTasks | Exception) -> ReplyOrProblem:
    try:
        if isinstance(stored, Exception):
            raise stored
        return schedule_reply(draft, stored, {})
    except Exception as error:  # noqa: BLE001 - the last line before the wire, as `caught`
        return problem_of(error)
