"""Ends of tasks, told to the callers that wait for them.

Who waits is noted *before* the task is looked up, and an end is told *after* it is durable: none falls in between. What
another instance has recorded it tells of (services/peers/shared_ends.py), and what it does not tell is found by looking
again, less and less often.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from timerd.core.dispatch import Settlement
from timerd.model.errors import Overloaded, StoreUnavailable, Unavailable
from timerd.model.identity import TaskId
from timerd.model.settle import Outcome
from timerd.services.engine.verbs import ENDED, State, TaskView

# Callers that wait at one instance.
MOST_WAITS = 10_000
FIRST_LOOK_S = 0.1
LAST_LOOK_S = 5.0
# What is less than it is no time to wait: a timer would be over at once.
LEAST_S = 0.001
# So long the last look may take, where the store is in trouble: a little more than one request to it.
LOOK_LIMIT_S = 2.25
OVER = frozenset({*ENDED.values(), State.FINISHED})
# Raises what verbs.get raises.
GetTask = Callable[[], Awaitable[TaskView]]


class EndsElsewhere(Protocol):
    """They wait for ends as well, and hear of those that callers here wait for."""

    @property
    def is_asked(self) -> bool:
        """Whether one of them waits for anything."""
        ...

    def ask(self, digest: bytes) -> asyncio.Future[None] | None:
        """Done when they have been asked to tell of the task's end, or do not answer; None: there are none."""
        ...

    def tell(self, digests: Iterable[bytes]) -> None:
        """Those of them that have asked. Nobody waits for this, and it may be lost."""
        ...


class NoEndsElsewhere:
    """Implements EndsElsewhere where there are none."""

    is_asked = False

    def ask(self, digest: bytes) -> None:
        """There is nobody to ask."""

    def tell(self, digests: Iterable[bytes]) -> None:
        """There is nobody to tell."""


@dataclass(slots=True, eq=False)
class NotedWait:
    """Of one caller. `asked`: the other instances have been, or do not answer. `result`: what its first attempt was
    acknowledged with here, which is kept; `is_acked`: the task has ended with that attempt."""

    digest: bytes
    asked: asyncio.Future[None] | None
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    result: bytes | None = None
    is_acked: bool = False


class TaskEnds:
    """Of one instance."""

    def __init__(self) -> None:
        self._waits: defaultdict[bytes, set[NotedWait]] = defaultdict(set)
        self._count = 0
        self._is_stopped = False
        self._others: EndsElsewhere = NoEndsElsewhere()

    def share_with(self, others: EndsElsewhere) -> None:
        self._others = others

    @property
    def waiting(self) -> int:
        return self._count

    @property
    def awaited(self) -> Set[bytes]:
        """Digests of the tasks that callers wait for, as they are whenever it is looked at."""
        return self._waits.keys()

    async def wait(self, task: TaskId, look: GetTask, timeout_s: float) -> TaskView:
        """Until it has ended, or as it is after the time-out. Raises Overloaded, Unavailable, StoreUnavailable."""
        with self.noted(task.digest) as wait:
            return await self.until_over(wait, look, timeout_s)

    async def until_over(
        self, wait: NotedWait, look: GetTask, timeout_s: float, *, may_be_over: bool = True
    ) -> TaskView:
        """As `wait`, of one that is noted. `may_be_over`: it may have ended before it was. Else nobody looks before
        something is heard."""
        until_s = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(until_s + LOOK_LIMIT_S):
                return await self._looking(wait, look, until_s, looks_first=may_be_over or timeout_s <= 0)
        except TimeoutError:
            raise StoreUnavailable(
                "The store does not answer. Repeat the call.", "STORE_UNAVAILABLE", retry_after_ms=1_000
            ) from None

    async def _looking(self, wait: NotedWait, look: GetTask, until_s: float, *, looks_first: bool) -> TaskView:
        loop, again_s = asyncio.get_running_loop(), FIRST_LOOK_S
        if looks_first and wait.asked is not None:
            # So that what ends after the look is told here.
            await asyncio.wait([wait.asked], timeout=FIRST_LOOK_S)
        looks = looks_first
        while True:
            self._check_serving()
            if looks:
                wait.heard.clear()
                view = await look()
                if view.state in OVER or until_s - loop.time() < LEAST_S:
                    return view
            with suppress(TimeoutError):
                async with asyncio.timeout(min(again_s, max(0.0, until_s - loop.time()))):
                    await wait.heard.wait()
            again_s, looks = min(2 * again_s, LAST_LOOK_S), True
            # Who was silent, has forgotten it, or has come since.
            self._others.ask(wait.digest)

    @contextmanager
    def noted(self, digest: bytes) -> Iterator[NotedWait]:
        """While it is entered, what is heard of the task is kept for it. Raises Overloaded, Unavailable."""
        self._check_serving()
        if self._count >= MOST_WAITS:
            raise Overloaded(
                f"{MOST_WAITS:,} callers wait for the end of a task at this instance, and more are not taken: repeat "
                "the call in a while.",
                "TOO_MANY_WAITS",
                retry_after_ms=1_000,
            )
        wait = NotedWait(digest, self._others.ask(digest))
        self._waits[digest].add(wait)
        self._count += 1
        try:
            yield wait
        finally:
            self._count -= 1
            self._waits[digest].discard(wait)
            if not self._waits[digest]:
                del self._waits[digest]

    def _check_serving(self) -> None:
        if self._is_stopped:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)

    async def first_attempt_acked(self, wait: NotedWait, timeout_s: float) -> bool:
        """Whether a task that is new since it was noted has ended so: `wait.result` is then all that is kept. False:
        that was not heard soon, or is not all, so somebody has to look. Where there are other instances they may keep
        a result as well, and the first one stands."""
        if not isinstance(self._others, NoEndsElsewhere):
            return False
        with suppress(TimeoutError):
            # Not `wait_for`, which begins a task for each.
            async with asyncio.timeout(min(FIRST_LOOK_S, timeout_s)):
                await wait.heard.wait()
        return wait.is_acked

    def kept(self, digest: bytes, result: bytes) -> None:
        """The first attempt of the task was acknowledged with this, which is durable."""
        for wait in self._waits.get(digest, ()):
            wait.result = wait.result if wait.result is not None else result

    def settled(self, settlement: Settlement) -> None:
        """It is durable. What goes on after a failure has ended where it was cancelled."""
        if self._waits:
            self._note_acks(settlement)
        if self._waits or self._others.is_asked:
            self.told([*chain(settlement.ended_digests(), (failed.key.digest for failed in settlement.again))])

    def _note_acks(self, settlement: Settlement) -> None:
        """Of first attempts. Few wait, and much may end."""
        waited = self._waits.keys()
        acked = [rows.each() for rows in settlement.acked if not waited.isdisjoint(rows.digests)]
        for _, key, outcome in chain(settlement.ended, *acked):
            if key.digest in self._waits and key.version == 0 and outcome is Outcome.ACKED:
                for wait in self._waits[key.digest]:
                    wait.is_acked = True

    def told(self, digests: Iterable[bytes]) -> None:
        """They have ended, or may have."""
        if self._others.is_asked:
            digests = list(digests)
            self._others.tell(digests)
        self.heard(digests)

    def heard(self, digests: Iterable[bytes]) -> None:
        """As `told`, by another instance, which tells everybody itself."""
        if not self._waits:
            return
        for digest in digests:
            for wait in self._waits.get(digest, ()):
                wait.heard.set()

    def stop(self) -> None:
        """The server is going away: callers that wait are told so."""
        self._is_stopped = True
        self.heard(list(self._waits))
