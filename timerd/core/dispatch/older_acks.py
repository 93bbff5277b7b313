"""Acks and rejects that end a task while a worker has a later delivery of it: that worker keeps its ordering key (rule
O7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from timerd.core.dispatch.flights import Batch, Flights
from timerd.model.ack_token import NamedDelivery


class OlderAck(Protocol):
    """Who waits for what a worker has, although its task has ended."""

    def __len__(self) -> int:
        """How many keys there are."""
        ...

    def hold(self, digest: bytes, until_ms: int) -> None:
        """The worker has it until then."""
        ...


def tell_older(flights: Flights, named: Iterable[tuple[bytes, NamedDelivery]], told: OlderAck) -> None:
    """Of these acks those by an attempt that is not the one in flight."""
    for delivery_id, said in named:
        if (found := flights.find(delivery_id)) is not None:
            tell_if_older(*found, said, told)


def tell_if_older(batch: Batch, row: int, said: NamedDelivery, told: OlderAck) -> None:
    """Of an ack or a reject that ends the task of this row."""
    if batch.was_sent_after(row, said):
        told.hold(batch.taken.digests[row], batch.lease_until_ms[row])
