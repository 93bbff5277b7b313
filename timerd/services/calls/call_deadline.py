"""How long a caller is kept waiting while the store is in trouble: for a whole call, however many steps it has.

Each request to the store has a time limit, but a call has several, waits for those of others, and settles what is
unknown by asking again. A call that is slow because much is asked of a store that answers is waited for. Where a step
of its own has failed, or the store has answered nobody for a second, it is told after the limit, and what it had begun
is carried through: its repeat finds a settled state (guarantees G2, G11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, cast

from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.storage import CasResult, CasStatus
from timerd.ports import Store
from timerd.services.transport.status import problem_of

# A little more than one request to the store may take; callers hear within 2.5 s.
LIMIT_S = 2.25
SILENT_S = 1.0
LOOK_S = 0.05
# They change nothing, so what is not known of them is not stored.
READS = frozenset(
    {
        *("Get", "Wait", "List", "Count", "ListDeadLetters", "GetServerInfo", "GetCluster", "GetPartition"),
        *("GetOverview", "GetLoad", "ListAuditedCalls"),
        *("GetSchedule", "ListSchedules", "PreviewSchedule"),
    }
)
Start = Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


@dataclass(slots=True)
class _Call:
    has_failed: bool = False


_CALL: ContextVar[_Call | None] = ContextVar("call", default=None)


class CallDeadline:
    """The deadline of the calls of one server. `now_s` counts on whatever the wall clock does."""

    def __init__(self, limit_s: float = inf, now_s: Callable[[], float] = monotonic) -> None:
        self.is_limited = limit_s < inf
        self._limit_s = limit_s
        self._now_s = now_s
        self._answered_s = -inf
        # Since then.
        self._has_failed = False

    def watch(self, store: Store) -> Store:
        """The same store, listened to."""
        return cast(Store, _Heard(store, self)) if self.is_limited else store

    async def outcome(self, name: str, work: Coroutine[Any, Any, Any], start: Start) -> Any:  # noqa: ANN401 - its result
        """Of the call of that name, or what is said in its place."""
        try:
            return await self.result(name, work, start)
        except (StoreUnavailable, StoreUnknown) as given_up:
            return problem_of(given_up)

    async def result(self, name: str, work: Coroutine[Any, Any, Any], start: Start) -> Any:  # noqa: ANN401 - its result
        """As `outcome`. Raises StoreUnavailable, StoreUnknown, and what the work raises."""
        call = _Call()
        task, wait_s = start(_within(call, work)), self._limit_s
        while not (await asyncio.wait([task], timeout=wait_s))[0]:
            if call.has_failed or self._is_silent:
                # It goes on, and nobody hears what becomes of it.
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
                raise _given_up(name)
            wait_s = LOOK_S
        return task.result()

    @property
    def _is_silent(self) -> bool:
        return self._has_failed and self._now_s() - self._answered_s >= SILENT_S

    def answered(self) -> None:
        self._answered_s, self._has_failed = self._now_s(), False

    def failed(self) -> None:
        self._has_failed = True
        if (call := _CALL.get()) is not None:
            call.has_failed = True


async def _within(call: _Call, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever it gives
    _CALL.set(call)
    return await work


def _given_up(name: str) -> StoreUnavailable | StoreUnknown:
    if name in READS:
        return StoreUnavailable(
            "The store does not answer. Repeat the call.", "STORE_UNAVAILABLE", retry_after_ms=1_000
        )
    return StoreUnknown(f"{name} was not answered by the store in time.")


class _Heard:
    def __init__(self, store: Store, call_deadline: CallDeadline) -> None:
        self._store = store
        self._call_deadline = call_deadline

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        method = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(method):
            return method
        heard = self._heard(method, tells=name == "cas")
        # Asked for once.
        setattr(self, name, heard)
        return heard

    def _heard(self, method: Callable[..., Awaitable[Any]], *, tells: bool) -> Callable[..., Awaitable[Any]]:
        """`tells`: it says what is unknown instead of raising."""
        call_deadline = self._call_deadline

        async def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
            try:
                answer = await method(*given, **named)
            except (StoreUnavailable, StoreUnknown):
                call_deadline.failed()
                raise
            if tells and _has_unknown(answer):
                call_deadline.failed()
            else:
                call_deadline.answered()
            return answer

        return run


def _has_unknown(results: Sequence[CasResult]) -> bool:
    return any(each.status is CasStatus.UNKNOWN for each in results)
