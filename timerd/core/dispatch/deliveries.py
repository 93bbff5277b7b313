"""What workers have in hand, as far as this instance knows: deliveries that are open here, and rows that wait for one
that was carried on. Partitions are held, handed over and given up by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from timerd.core.dispatch.admission import Admission
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.dispatch.in_hand_gate import InHandGate
from timerd.core.dispatch.redelivery_gate import RETURN_MS, OffloadGate
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.partition import PartitionMachine
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition


class Deliveries:
    """Those of one instance. `machine` knows whom tasks were sent to, `guard` which rows wait for that. `return_ms`: a
    worker that has what was taken over with its lease is heard of within this time."""

    def __init__(self, machine: DeliveryMachine, guard: RedeliveryGuard, return_ms: int = RETURN_MS) -> None:
        self.machine = machine
        self.guard = guard
        self._return_ms = return_ms
        self._stays = OffloadGate(guard, self.lease_end_ms, return_ms)

    @classmethod
    def none(cls) -> Deliveries:
        """Those of an instance that serves no workers."""
        return cls(DeliveryMachine(b"", 0), RedeliveryGuard())

    def lease_of(self, key: RowKey) -> int | None:
        """Until when a worker has a delivery of this row's generation; None: none has."""
        return self.machine.lease_of(key)

    def progress_of(self, key: RowKey) -> str:
        """What the handler that has it here has said of its progress; empty: nothing."""
        return self.machine.progress_of(key)

    def lease_end_ms(self, key: RowKey) -> int:
        """Until when a worker has it, or may have it since it came back with it; 0: nobody does."""
        return max(self.lease_of(key) or 0, self.guard.lease_ms(key))

    def any_in_hand(self, delivery_ids: Collection[bytes]) -> bool:
        """Whether a worker has one of them, or a row waits for one."""
        return bool(self.machine.places(delivery_ids)) or self.guard.any_waits(delivery_ids)

    def is_in_hand(self, key: RowKey) -> bool:
        """Whether a worker has it, or the row stands for a delivery that was carried on while it was in hand."""
        return self.lease_of(key) is not None or self.guard.waits(key)

    def has_begun_again(self, partition: Partition, key: RowKey) -> bool:
        """Whether a worker has what the record of its row says to be over, or another row stands for that delivery.
        That this row stood for one says nothing: it may have ended with another holder."""
        return self.lease_of(key) is not None or self.guard.waits_beyond((partition, key))

    def has_lease(self, key: RowKey, now_ms: float) -> bool:
        """Whether a worker has it, or came back with it and may have it still."""
        return self.lease_of(key) is not None or self.guard.lease_ms(key) > now_ms

    def may_return(self, key: RowKey, since_ms: int, now_ms: int) -> bool:
        """Whether a worker may have this row from before its partition was taken over, and has not been heard of."""
        return key.position_ms <= since_ms and now_ms < since_ms + self._return_ms

    def came_since(self, key: RowKey, since_ms: int) -> bool:
        """Whether a worker came back with that delivery since, and was told that it has it still."""
        return self.machine.before.came_since(key, since_ms)

    def offloading(self) -> Admission:
        """What is asked before rows of a partition go to their queues' backlogs, of those that go together."""
        return Admission((self._stays, InHandGate(self.machine.places)))

    def cancelled(self, key: RowKey) -> None:
        """The task of a row that a worker has was: the worker is told."""
        self.machine.interrupts.cancelled(key)

    def carried(self, machine: PartitionMachine, keys: Iterable[RowKey]) -> None:
        """Rows that workers have were carried on by the machine."""
        self.guard.carried(machine, keys)

    def hold_back(self, leases: Mapping[RowKey, int]) -> None:
        """These rows may be sent again while workers have them: they wait for the end of the leases."""
        self.guard.hold({delivery_id_of(key.digest, key.version): until_ms for key, until_ms in leases.items()})
