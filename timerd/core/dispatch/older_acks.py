"""Acks that end a task while a worker has a later delivery of it: that worker keeps its ordering key (rule O7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from timerd.core.dispatch.flights import Flights
from timerd.model.ack_token import NamedDelivery


class OlderAck(Protocol):
    """Who waits for what a worker has, although its task has ended."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        ...

    def hold(self, digest: bytes, until_ms: int) -> None:
        """The worker has it until then."""
        ...


def tell_older(flights: Flights, named: Iterable[tuple[bytes, NamedDelivery]], told: OlderAck) -> None:
    """Of these acks those by an attempt that is not the one in flight."""
    for delivery_id, said in named:
        found = flights.find(delivery_id)
        if found is not None and found[0].was_sent_after(found[1], said):
            batch, row = found
            told.hold(batch.taken.digests[row], batch.lease_until_ms[row])
