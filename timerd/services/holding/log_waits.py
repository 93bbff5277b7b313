"""Who waits until something that ended is durable, by the log sequence number (lsn) of the record that says so."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from timerd.core.partition import PartitionMachine
from timerd.model.errors import StoreUnknown


class NoLongerHeld(StoreUnknown):
    """The partition has another holder: whether it was still written may be looked up."""


class LogWaits:
    def __init__(self) -> None:
        self._waiting: dict[PartitionMachine, list[tuple[int, asyncio.Future[None]]]] = defaultdict(list)

    def durable(self, machine: PartitionMachine, lsn: int) -> asyncio.Future[None]:
        """Done when the records up to that log sequence number are durable."""
        future = asyncio.get_running_loop().create_future()
        if lsn <= machine.done_through:
            future.set_result(None)
        elif machine.phase.is_over:
            _refuse(future, machine)
        else:
            self._waiting[machine].append((lsn, future))
        return future

    def resolve(self, machine: PartitionMachine) -> None:
        for lsn, future in self._waiting.pop(machine, []):
            if lsn > machine.done_through:
                self._waiting[machine].append((lsn, future))
            elif not future.done():
                future.set_result(None)

    def lose(self, machine: PartitionMachine) -> None:
        """It will not be this holder who writes it."""
        for _, future in self._waiting.pop(machine, []):
            if not future.done():
                _refuse(future, machine)


def _refuse(future: asyncio.Future[None], machine: PartitionMachine) -> None:
    future.set_exception(NoLongerHeld(f"{machine.partition} is held by another instance now."))
    # Nobody may be waiting.
    future.exception()
