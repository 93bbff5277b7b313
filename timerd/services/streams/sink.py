"""The sink of one stream: due tasks are appended to it, and what it has taken is acknowledged.

It is a worker like others, so leases, retries, expiry, cancels and the backlog are those of every queue. One round of
entries is under way at a time, with all that came meanwhile in the next: so entries stand in the order in which the
tasks were sent, and a stream that is slow gets larger rounds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from timerd.core.dispatch import Action, Assignment, InterruptReason
from timerd.core.sinks.breaker import Breaker, TargetHealth, TargetState
from timerd.core.sinks.trouble import TargetTrouble, trouble_of
from timerd.core.taken import QueueKey
from timerd.model.counted import counted
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.model.streams import StreamAway, StreamEntry, StreamTarget
from timerd.ports import StreamWriter
from timerd.services.background import begin, note
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.sinks.target_credit import TargetCredit, loop_ms
from timerd.services.streams.entries import entry_of

LEASE_MS = 30_000
EXTEND_EVERY_S = 8.0
ROUND_ENTRIES = 500
# What one error may take of the history of its tasks.
ERROR_CHARS = 512
_log = logging.getLogger("timerd.streams")


class OpenEntry(NamedTuple):
    """One that is not known to be in the stream."""

    token: bytes
    entry: StreamEntry


class StreamSink:
    """Implements services.dispatch.ports.Sink. `outcomes` counts what has become of entries."""

    counts_as_worker = False
    takes_backlog = True

    def __init__(self, delivery: Delivery, target: StreamTarget, writer: StreamWriter) -> None:
        self.number = delivery.next_number()
        self.namespace = target.namespace
        self.closing = False
        self.target = target
        self.outcomes: Counter[str] = Counter()
        self._delivery = delivery
        self._writer = writer
        # A round is many tasks, and each would use up an attempt.
        self._breaker = Breaker(target.in_flight, failures=1)
        self._waiting: deque[OpenEntry] = deque()
        self._under_way: Sequence[OpenEntry] = ()
        self._credit = TargetCredit(self, self.queue, delivery, self._breaker, self._open_count)
        self._sequence = 0
        self._why = ""
        self._appending: asyncio.Task[None] | None = None
        self._extending: asyncio.Task[None] | None = None

    @property
    def queue(self) -> QueueKey:
        return QueueKey(self.target.namespace, self.target.queue)

    @property
    def state(self) -> TargetState:
        return self._breaker.state

    def trouble(self) -> TargetTrouble | None:
        """None: its stream takes entries."""
        return trouble_of("stream", self._breaker, self._why, loop_ms())

    def join(self) -> None:
        self._delivery.join(self, self.namespace, LEASE_MS, called="stream")
        self._credit.balance()

    async def close(self) -> None:
        """What the round under way did is unknown, and its tasks come again when their leases are over; what has not
        begun goes back as it was."""
        self.closing = True
        self._credit.close()
        self._give_back()
        for each in (self._appending, self._extending):
            if each is not None:
                each.cancel()
                with suppress(asyncio.CancelledError):
                    await each
        await self._writer.close()

    # -- what dispatch asks ---------------------------------------------------------------------------------------

    def deliver(self, assignment: Assignment) -> Sent:
        taken, secret = assignment.taken, self._delivery.secret
        tokens = ack_tokens(taken, secret)
        sent_bytes = 0
        for row in range(len(taken)):
            entry = entry_of(taken, row, secret)
            self._waiting.append(OpenEntry(tokens[row * ACK_TOKEN_BYTES : (row + 1) * ACK_TOKEN_BYTES], entry))
            sent_bytes += len(entry.fields["payload"])
        self._credit.used(len(taken))
        if self._appending is None or self._appending.done():
            self._appending = begin(self._append_all(), "streams")
        if self._extending is None or self._extending.done():
            self._extending = begin(self._extend(), "streams")
        return Sent(1, sent_bytes)

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """What is not confirmed comes again."""

    def confirm(self, confirmation: Confirmation) -> None:
        """What is not confirmed comes again."""

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """What is in hand goes on to its end: it takes a moment."""

    def go_away(self) -> None:
        """What is in hand goes on to its end."""

    # -- rounds ---------------------------------------------------------------------------------------------------

    def _open_count(self) -> int:
        return len(self._waiting) + len(self._under_way)

    async def _extend(self) -> None:
        while self._open_count():
            await asyncio.sleep(EXTEND_EVERY_S)
            self._delivery.extend(self, b"".join(each.token for each in (*self._under_way, *self._waiting)))

    async def _append_all(self) -> None:
        while self._waiting:
            count = min(ROUND_ENTRIES, len(self._waiting))
            self._under_way = [self._waiting.popleft() for _ in range(count)]
            said = await self._append([each.entry for each in self._under_way])
            done, self._under_way = self._under_way, ()
            self._hear(said)
            # First: what goes back must not come again at once.
            self._credit.balance()
            self._settle_all(done, said)
            if self.state is not TargetState.OK:
                self._give_back()

    async def _append(self, entries: Sequence[StreamEntry]) -> Sequence[str]:
        """For each why the stream did not take it; empty: it did."""
        try:
            return await self._writer.append(entries)
        except StreamAway as error:
            return [str(error)] * len(entries)
        except Exception as error:  # noqa: BLE001 - noted, and tried again
            note("streams", error, f"{len(entries)} tasks of the queue {self.target.queue!r} are appended again")
            return [f"No answer: {type(error).__name__}."] * len(entries)

    def _settle_all(self, done: Sequence[OpenEntry], said: Sequence[str]) -> None:
        taken = [each for each, why in zip(done, said, strict=True) if not why]
        if taken:
            self._settle(Action.ACK, taken, "")
        for reason in dict.fromkeys(filter(None, said)):
            failed = [each for each, why in zip(done, said, strict=True) if why == reason]
            self._settle(Action.NACK, failed, reason[:ERROR_CHARS])
        self.outcomes["acked"] += len(taken)
        self.outcomes["failed"] += len(done) - len(taken)

    def _give_back(self) -> None:
        """What has not begun waits in its queue, and the attempt does not count."""
        if self._waiting:
            unbegun, self._waiting = self._waiting, deque()
            self._settle(Action.RELEASE, unbegun, "")

    def _settle(self, action: Action, entries: Collection[OpenEntry], error: str) -> None:
        self._sequence += 1
        self._delivery.settle(self, self._sequence, action, b"".join(each.token for each in entries), None, error)

    def _hear(self, said: Sequence[str]) -> None:
        """A round of which nothing was taken is a failure of the stream."""
        before, self._why = self._breaker.state, said[0] if all(said) else ""
        health = TargetHealth.FAILING if all(said) else TargetHealth.HEALTHY
        self._breaker.heard(health, None, loop_ms())
        if self._breaker.state is before:
            return
        where = f"{self.target.namespace}/{self.target.queue}"
        if self._breaker.state is TargetState.OK:
            _log.info("the stream of %s takes entries again", where)
        else:
            _log.warning(
                "the stream of %s took none of %s, so its tasks wait, and one is tried now and then: %s",
                where,
                counted(len(said), "entry"),
                self._why,
            )
