"""Clocks and leases for schedulers that are tested without a server."""

from __future__ import annotations

from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.model.identity import RowKey
from timerd.services.holding.engine_time import EngineTime
from timerd.testing import SimClock

START_MS = 1_800_000_000_000


def trusted_time() -> EngineTime:
    return EngineTime(SimClock(START_MS), LeaseTrust.always())


class Leased(Deliveries):
    """All of them are with workers until then."""

    def __init__(self, until_ms: int) -> None:
        super().__init__(DeliveryMachine(b"", 0), RedeliveryGuard())
        self._until_ms = until_ms

    def lease_of(self, key: RowKey) -> int | None:
        return self._until_ms
