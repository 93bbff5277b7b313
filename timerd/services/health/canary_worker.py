"""The worker that takes the canaries of its instance (services/health/canary.py): a stream that leads nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from timerd.core.settlement import Action
from timerd.core.taken import CANARY
from timerd.core.tally import LATENESS_BOUNDS_MS, Histogram
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.services.work.delivery import Delivery
from timerd.v1 import work_service_pb2 as pb

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
    """Implements services.desk.Outlet. It serves its queue without its backlog: what is that old is of no use."""

    def __init__(self, delivery: Delivery, now_ms: Callable[[], float]) -> None:
        self.number = delivery.next_number()
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
        # It is nobody's worker.
        self._delivery.relayed += 1
        self._delivery.machine.credit(self.number, CANARY.queue, CREDIT)
        self._delivery.wake()

    def expect(self, flight: Flight) -> None:
        self._flights[flight.name] = flight

    def forget(self, flight: Flight) -> None:
        self._flights.pop(flight.name, None)

    def push(self, response: pb.WorkResponse, size_bytes: int = 0) -> None:
        """The round of delivery that calls this goes on first."""
        if response.WhichOneof("response") == "deliver":
            now_ms, fire_at_ms = self._now_ms(), response.deliver.fire_at_ms
            self.lateness_ms.add(max(0.0, now_ms - max(fire_at_ms)), len(fire_at_ms))
            asyncio.get_running_loop().call_soon(self._take, response.deliver)

    def block_if_full(self) -> bool:
        return False

    def owe(self) -> None:
        """Each settle is confirmed by itself."""

    def confirm(self, confirmed: pb.SettleConfirmed) -> None:
        problem = confirmed.problem.message or ("It was refused." if confirmed.refused else "")
        for flight in self._settling.pop(confirmed.sequence, ()):
            if not flight.settled.done():
                flight.settled.set_result(problem)

    def _take(self, deliver: pb.Deliver) -> None:
        payloads, count = deliver.payloads, len(deliver.ack_tokens) // ACK_TOKEN_BYTES
        names = [payloads[at : at + NAME_BYTES] for at in range(0, len(payloads), NAME_BYTES)]
        known = [flight for name in names if (flight := self._flights.get(name)) is not None]
        for flight in known:
            if not flight.delivered.done():
                flight.delivered.set_result("")
        self._sequence += 1
        self._settling[self._sequence] = known
        self._delivery.settle(self, self._sequence, Action.ACK, deliver.ack_tokens, None, "")
        self._delivery.machine.credit(self.number, CANARY.queue, count)
        self._delivery.wake()
