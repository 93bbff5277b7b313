"""The sink of the canaries of an instance (services/health/canary.py): it takes them and acknowledges them itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from timerd.core.dispatch import LATENESS_BOUNDS_MS, Action, Assignment, Histogram, InterruptReason
from timerd.core.taken import CANARY, Taken
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens

# Of each canary: its payload.
NAME_BYTES = 16
LEASE_MS = 30_000
# What other instances left is taken as well.
CREDIT = 100


class Flight:
    """One canary: when it came, and the word on its ack (empty: it is durable)."""

    def __init__(self, name: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.delivered: asyncio.Future[str] = loop.create_future()
        self.settled: asyncio.Future[str] = loop.create_future()


class CanaryWorker:
    """Implements services.dispatch.ports.Sink. What lies in the backlog of its queue is too old to be of use."""

    counts_as_worker = False
    takes_backlog = False

    def __init__(self, delivery: Delivery, now_ms: Callable[[], float]) -> None:
        self.number = delivery.next_number()
        self.namespace = CANARY.namespace
        self.closing = False
        self.lateness_ms = Histogram(LATENESS_BOUNDS_MS)
        self._delivery = delivery
        self._now_ms = now_ms
        self._flights: dict[bytes, Flight] = {}
        # Settles that are not confirmed yet.
        self._settling: dict[int, list[Flight]] = {}
        self._sequence = 0

    def join(self) -> None:
        self._delivery.join(self, CANARY.namespace, LEASE_MS)
        self._delivery.credit(self, CANARY.queue, CREDIT)

    def expect(self, flight: Flight) -> None:
        self._flights[flight.name] = flight

    def forget(self, flight: Flight) -> None:
        self._flights.pop(flight.name, None)

    def deliver(self, assignment: Assignment) -> Sent:
        """The round of delivery that calls this goes on first."""
        taken = assignment.taken
        now_ms, last_ms = self._now_ms(), int(taken.rows.columns["fire_at_ms"].max())
        self.lateness_ms.add(max(0.0, now_ms - last_ms), len(taken))
        asyncio.get_running_loop().call_soon(self._take, taken)
        return Sent(1, len(taken) * NAME_BYTES)

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """Each settle is confirmed by itself."""

    def confirm(self, confirmation: Confirmation) -> None:
        for flight in self._settling.pop(confirmation.sequence, ()):
            if not flight.settled.done():
                flight.settled.set_result(confirmation.problem)

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """It is done with what it gets at once."""

    def go_away(self) -> None:
        """What it has is acknowledged by then."""

    def _take(self, taken: Taken) -> None:
        names = [taken.rows.payload(row) for row in range(len(taken))]
        known = [flight for name in names if (flight := self._flights.get(name)) is not None]
        for flight in known:
            if not flight.delivered.done():
                flight.delivered.set_result("")
        self._sequence += 1
        self._settling[self._sequence] = known
        tokens = ack_tokens(taken, self._delivery.secret)
        self._delivery.settle(self, self._sequence, Action.ACK, tokens, None, "")
        self._delivery.credit(self, CANARY.queue, len(taken))
