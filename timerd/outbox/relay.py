"""The relay: seals what is in the outbox, sends it until it is answered, and lets it go.

Any number of relays may run. What keeps tasks from being lost or doubled is in the bytes of a sealed batch, so a lease
only keeps two relays from doing the same work. A relay never ends because the database or the server is away.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from timerd.outbox.held_up import QUOTA, HeldBatch, HeldUp
from timerd.outbox.in_hand import BatchesInHand
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.ports import DatabaseAway, DatabaseWrong, OutboxStore, Sending
from timerd.outbox.rows import RefusedRow, SealedBatch
from timerd.outbox.sealing import MOST_ROWS, QualifiedName
from timerd.sdk.transport import Backoff
from timerd.sdk.values import TimerdError

# Sealed batches that one relay has, and those that it sends at a time.
MOST_IN_HAND, MOST_SENT = 8, 4
LONGEST_PAUSE_S = 30.0
_LONGEST_DATABASE_PAUSE_S = 5.0
_STOP_S = 10.0
_QUIET_S = 30.0
T = TypeVar("T")
log = logging.getLogger("timerd.outbox")


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """`lease_s`: after so long another relay sends what this one has. `poll_s`: between two looks at an empty one."""

    lease_s: float = 60.0
    poll_s: float = 0.05


class Relay:
    """`run` until `stop`; `counts` says what it did: tasks, batches, again, anew, halved, rest, refused. `sent` and
    `refused` are rows by namespace."""

    def __init__(self, store: OutboxStore, sending: Sending, options: RelayOptions = RelayOptions()) -> None:
        self.owner = secrets.token_hex(8)
        self.counts: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._store = store
        self._sending = sending
        self._options = options
        self._in_hand = BatchesInHand()
        self._held_up = HeldUp()
        self._sent = asyncio.Semaphore(MOST_SENT)
        # HeldBatch while batches appear in the database that are not in hand yet.
        self._appearing = asyncio.Lock()
        self._ended_one = asyncio.Event()
        self._stopping = asyncio.Event()
        # What was logged of late, and when.
        self._told: dict[str, float] = {}

    async def run(self) -> None:
        keeping = asyncio.create_task(self._keep())
        try:
            while not self._stopping.is_set():
                await self._look()
        finally:
            await self._leave(keeping)

    async def stop(self) -> None:
        """What is being sent is waited for, as long as that does not take long."""
        self._stopping.set()
        self._ended_one.set()

    @property
    def held_up(self) -> list[HeldBatch]:
        """Batches that this relay has in hand and the server does not take for now."""
        return self._held_up.batches()

    async def _look(self) -> None:
        """Goes on at once while much waits. Else when all that is in hand is over, whose keys are free then: with each
        one that ends, a few rows would go at a time."""
        self._ended_one.clear()
        if self._in_hand.count(without=self._held_up.numbers()) >= MOST_IN_HAND:
            await self._ended_one.wait()
        elif await self._there(self._seal) < MOST_ROWS // 2:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rest(), self._options.poll_s)

    async def _rest(self) -> None:
        if not self._in_hand.count(without=self._held_up.numbers()):
            await self._stopping.wait()
        while self._in_hand.count(without=self._held_up.numbers()) and not self._stopping.is_set():
            self._ended_one.clear()
            await self._ended_one.wait()

    async def _seal(self) -> int:
        async with self._appearing:
            batches, taken = await self._store.seal(self.owner, self._options.lease_s, self._held_up.left_out())
            self._carry(batches)
        return taken

    def _carry(self, batches: Iterable[SealedBatch]) -> None:
        for batch in batches:
            task = asyncio.create_task(self._until_over(batch))
            self._in_hand.add(batch, task)
            task.add_done_callback(partial(self._ended, batch.no))

    def _ended(self, no: int, task: asyncio.Task[None]) -> None:
        """One that met a mistake of ours is in the database still, and is taken over from there."""
        self._in_hand.remove(no)
        self._held_up.forget(no)
        self._ended_one.set()
        if not task.cancelled() and (mistake := task.exception()) is not None:
            log.error("Batch %d met an unexpected error and is tried again.", no, exc_info=mistake)

    async def _until_over(self, batch: SealedBatch) -> None:
        """Sends the same bytes until the server has answered them (X2)."""
        backoff, away = Backoff(longest_s=LONGEST_PAUSE_S), Backoff()
        while True:
            async with self._sent:
                outcome = await self._sending.send(batch)
            told = self._held_up.why(batch.no)
            self._hear(batch, outcome)
            if outcome.next is Next.DONE:
                return await self._finish(batch, outcome)
            self._note(outcome)
            if outcome.next in (Next.HALVES, Next.REST):
                return await self._replace(batch, outcome)
            if outcome.next is Next.ANEW:
                made = await self._there(partial(self._store.anew, batch))
                if made is None:
                    return None
                batch = made
            await self._pause(batch, outcome.why, away if _is_away(outcome.why) else backoff, told)

    async def _pause(
        self, batch: SealedBatch, why: TimerdError | None, backoff: Backoff, told: TimerdError | None
    ) -> None:
        """`told`: what it was held up by before."""
        held_by = self._held_up.why(batch.no)
        if str(held_by or "") != str(told or ""):
            await self._there(partial(self._store.note, batch, str(held_by or "")))
        told_s = (why and why.retry_after) or 0.0
        is_known = why is not None and why.reason == QUOTA
        await self._held_up.rest(batch.no, told_s if told_s and is_known else max(backoff.next_s(), told_s))

    def _hear(self, batch: SealedBatch, outcome: SendOutcome) -> None:
        """What is held up from here on, or no longer."""
        changed = self._held_up.heard(batch, outcome)
        if changed:
            self._ended_one.set()
        for name in sorted(changed - self._held_up.names()):
            self._tell(f"{_called(name)} goes on.")
        for name in sorted(changed & self._held_up.names()):
            self._tell(f"{_called(name)} is held up, and no other: {outcome.why}")

    def _note(self, outcome: SendOutcome) -> None:
        self.counts[{Next.HALVES: "halved"}.get(outcome.next, outcome.next.name.lower())] += 1
        self._tell(f"A batch was not taken: {outcome.why}")

    async def _finish(self, batch: SealedBatch, outcome: SendOutcome) -> None:
        await self._there(lambda: self._store.done(batch, outcome.refused))
        self._count(batch, batch.tasks, outcome.refused)

    def _count(self, batch: SealedBatch, over: int, refused: Sequence[RefusedRow]) -> None:
        """`over`: how many of its rows were taken or refused."""
        self.counts["batches"] += 1
        self.counts["tasks"] += over - len(refused)
        self.counts["refused"] += len(refused)
        self.sent[batch.namespace] += over - len(refused)
        self.refused[batch.namespace] += len(refused)
        for each in refused[:1]:
            log.warning("%d of batch %d are refused, the first: %s", len(refused), batch.no, each.problem)

    async def _replace(self, batch: SealedBatch, outcome: SendOutcome) -> None:
        """By other batches: its halves, or what is left of it."""
        mine = (self.owner, self._options.lease_s)
        async with self._appearing:
            if outcome.next is Next.HALVES:
                return self._carry(await self._there(lambda: self._store.halve(batch, *mine)))
            self._carry(await self._there(lambda: self._store.rest(batch, outcome, *mine)))
        self._count(batch, batch.tasks - len(outcome.left), outcome.refused)

    async def _keep(self) -> None:
        """Leases go on, and those of relays that died are taken over."""
        while True:
            await self._there(self._take_over)
            await self._there(lambda: self._store.keep(self.owner, self._options.lease_s))
            await asyncio.sleep(min(1.0, self._options.lease_s / 4))

    async def _take_over(self) -> None:
        async with self._appearing:
            batches = await self._store.take_over(self.owner, self._options.lease_s, self._in_hand.numbers())
            self.counts["taken over"] += len(batches)
            self._carry(batches)

    async def _there(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of the database, however long it is away."""
        backoff = Backoff(longest_s=_LONGEST_DATABASE_PAUSE_S)
        while True:
            try:
                answer = await ask()
            except (DatabaseAway, DatabaseWrong) as away:
                self._tell(str(away))
                await asyncio.sleep(backoff.next_s())
            else:
                return answer

    def _tell(self, said: str) -> None:
        """The same words at most once in a while."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told.get(said, -_QUIET_S) >= _QUIET_S:
            self._told = {each: at_s for each, at_s in self._told.items() if now_s - at_s < _QUIET_S} | {said: now_s}
            log.warning("%s", said)

    async def _leave(self, keeping: asyncio.Task[None]) -> None:
        """What is under way has its time; the rest is free for other relays at once."""
        keeping.cancel()
        if tasks := self._in_hand.sendings(without=self._held_up.numbers()):
            await asyncio.wait(tasks, timeout=_STOP_S)
        tasks = self._in_hand.sendings()
        for task in tasks:
            task.cancel()
        await asyncio.gather(keeping, *tasks, return_exceptions=True)
        with suppress(DatabaseAway, DatabaseWrong):
            await self._store.keep(self.owner, 0.0)


def _is_away(why: TimerdError | None) -> bool:
    """A server that is away is asked as often as a client of it would."""
    return why is not None and why.code == "UNAVAILABLE"


def _called(name: QualifiedName) -> str:
    namespace, queue = name
    return f"The queue {queue!r} of the namespace {namespace!r}" if queue else f"The namespace {namespace!r}"
