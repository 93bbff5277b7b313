"""The relay: seals what is in the outbox, sends it until it is answered, and lets it go.

Any number of relays may run. What keeps tasks from being lost or doubled is in the bytes of a sealed batch, so a lease
only keeps two relays from doing the same work. A relay never ends because the database or the server is away.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from timerd.outbox.elsewhere import BatchesElsewhere
from timerd.outbox.held_up import HeldUp
from timerd.outbox.in_hand import BatchesInHand
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.ports import DatabaseAway, DatabaseWrong, OutboxStore, Sending
from timerd.outbox.rows import SealedBatch
from timerd.outbox.sealing import MOST_ROWS
from timerd.sdk.transport import Backoff

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
    """`run` until `stop`; `counts` says what it did: tasks, batches, again, anew, halved, refused. `sent` and `refused`
    are rows by namespace."""

    def __init__(self, store: OutboxStore, sending: Sending, options: RelayOptions = RelayOptions()) -> None:
        self.owner = secrets.token_hex(8)
        self.counts: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._store = store
        self._sending = sending
        self._options = options
        self._in_hand = BatchesInHand()
        self._elsewhere = BatchesElsewhere(lambda numbers: self._there(partial(store.read, numbers)))
        self._held_up = HeldUp()
        self._sent = asyncio.Semaphore(MOST_SENT)
        # Held while batches appear in the database that are not in hand yet.
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
    def held_up(self) -> Mapping[str, int]:
        """Namespaces that the server takes nothing of for now -> how many rows are sealed of them here."""
        tasks = self._in_hand.tasks()
        return {namespace: tasks[namespace] for namespace in self._held_up.names()}

    async def _look(self) -> None:
        """Goes on at once while much waits, and while as much is in hand as may be when something of that is over."""
        self._ended_one.clear()
        if self._in_hand.count(without=self._held_up.names()) >= MOST_IN_HAND:
            await self._ended_one.wait()
        elif await self._there(self._seal) < MOST_ROWS // 2:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._options.poll_s)

    async def _seal(self) -> int:
        async with self._appearing:
            batch, taken = await self._store.seal(self.owner, self._options.lease_s, self._held_up.names())
            if batch is not None:
                self._carry([batch])
        return taken

    def _carry(self, batches: Iterable[SealedBatch]) -> None:
        for batch in batches:
            task = asyncio.create_task(self._carried_through(batch))
            self._in_hand.add(batch, task)
            task.add_done_callback(partial(self._ended, batch.no))

    def _ended(self, no: int, task: asyncio.Task[None]) -> None:
        """One that met a mistake of ours is in the database still, and is taken over from there."""
        self._in_hand.remove(no)
        self._ended_one.set()
        if not task.cancelled() and (mistake := task.exception()) is not None:
            log.error("Batch %d met an unexpected error and is tried again.", no, exc_info=mistake)

    async def _carried_through(self, batch: SealedBatch) -> None:
        if batch.is_ordered:
            await self._turn(batch)
        await self._until_over(batch)

    async def _turn(self, batch: SealedBatch) -> None:
        """Until no lower number is left that it waits for, of this relay or another (X3)."""
        while True:
            if before := self._in_hand.before(batch.no):
                await asyncio.wait(before, return_when=asyncio.FIRST_COMPLETED)
                continue
            # As they are at this look: one that is taken over while the database is away is to be waited for.
            in_hand = self._in_hand.numbers()
            lower = await self._there(partial(self._store.lower, batch, in_hand))
            if not await self._elsewhere.hold_up(batch, self._in_hand.keys(batch.no), lower):
                return
            await asyncio.sleep(self._options.poll_s)

    async def _until_over(self, batch: SealedBatch) -> None:
        """Sends the same bytes until the server has answered them (X2)."""
        backoff, away = Backoff(longest_s=LONGEST_PAUSE_S), Backoff()
        while True:
            async with self._sent:
                outcome = await self._sending.send(batch)
            self._hear(batch.namespace, outcome)
            if outcome.next is Next.DONE:
                return await self._finish(batch, outcome)
            self._note(batch, outcome)
            if outcome.next is Next.HALVES:
                return await self._halve(batch)
            if outcome.next is Next.ANEW:
                made = await self._there(partial(self._store.anew, batch))
                if made is None:
                    return None
                batch = made
            # A server that is away is asked as often as a client of it would.
            pause_s = (away if outcome.why and outcome.why.code == "UNAVAILABLE" else backoff).next_s()
            pause_s = max(pause_s, (outcome.why and outcome.why.retry_after) or 0.0)
            await self._held_up.rest(batch.namespace, pause_s)

    def _hear(self, namespace: str, outcome: SendOutcome) -> None:
        """Whether the namespace is held up from here on, or no longer."""
        if not self._held_up.heard(namespace, outcome.why):
            return
        self._ended_one.set()
        if self._held_up.why(namespace) is None:
            log.warning("The namespace %r goes on.", namespace)

    def _note(self, batch: SealedBatch, outcome: SendOutcome) -> None:
        self.counts[{Next.AGAIN: "again", Next.ANEW: "anew"}.get(outcome.next, "halved")] += 1
        if self._held_up.why(batch.namespace) is None:
            self._tell(f"A batch was not taken: {outcome.why}")
        else:
            self._tell(f"The namespace {batch.namespace!r} is held up, and no other: {outcome.why}")

    async def _finish(self, batch: SealedBatch, outcome: SendOutcome) -> None:
        await self._there(lambda: self._store.done(batch, outcome.refused))
        self.counts["batches"] += 1
        self.counts["tasks"] += batch.tasks - len(outcome.refused)
        self.counts["refused"] += len(outcome.refused)
        self.sent[batch.namespace] += batch.tasks - len(outcome.refused)
        self.refused[batch.namespace] += len(outcome.refused)
        for each in outcome.refused[:1]:
            log.warning("%d of batch %d are refused, the first: %s", len(outcome.refused), batch.no, each.problem)

    async def _halve(self, batch: SealedBatch) -> None:
        async with self._appearing:
            self._carry(await self._there(lambda: self._store.halve(batch, self.owner, self._options.lease_s)))

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
        if tasks := self._in_hand.sendings():
            await asyncio.wait(tasks, timeout=_STOP_S)
        tasks = self._in_hand.sendings()
        for task in tasks:
            task.cancel()
        await asyncio.gather(keeping, *tasks, return_exceptions=True)
        with suppress(DatabaseAway, DatabaseWrong):
            await self._store.keep(self.owner, 0.0)
