"""The credit of a sink goes by the breaker of its target: what waits for a target in trouble is not taken in hand, and
can go on waiting for days."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from timerd.core.sinks.breaker import Breaker
from timerd.core.taken import QueueKey
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Sink


class TargetCredit:
    """Of one sink with one queue. `open_count`: how many of its tasks are in hand."""

    def __init__(
        self, sink: Sink, queue: QueueKey, delivery: Delivery, breaker: Breaker, open_count: Callable[[], int]
    ) -> None:
        self._sink = sink
        self._queue = queue
        self._delivery = delivery
        self._breaker = breaker
        self._open_count = open_count
        # What dispatch may still send.
        self._granted = 0
        self._later: asyncio.TimerHandle | None = None

    def used(self, tasks: int) -> None:
        """So many were sent."""
        self._granted -= tasks

    def balance(self) -> None:
        """Brings the credit to what the breaker allows."""
        if self._sink.closing:
            return
        allowed = self._breaker.room(loop_ms())
        room = max(0, allowed.most - self._open_count())
        if room < self._granted:
            self._delivery.machine.withdraw(self._sink.number, self._queue)
            self._granted = 0
        if room > self._granted:
            self._delivery.credit(self._sink, self._queue.queue, room - self._granted)
        self._granted = room
        self._ask_again(allowed.next_ms)

    def close(self) -> None:
        self._delivery.machine.withdraw(self._sink.number, self._queue)
        if self._later is not None:
            self._later.cancel()

    def _ask_again(self, at_ms: float) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if at_ms < float("inf"):
            loop = asyncio.get_running_loop()
            # A moment later: timers of the loop may ring a little early.
            self._later = loop.call_at((at_ms + 1) / 1_000, self.balance)


def loop_ms() -> int:
    """The loop's own clock, which is never stepped."""
    return int(asyncio.get_running_loop().time() * 1_000)
