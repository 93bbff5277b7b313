"""The partitions that this instance holds, each with its machine: what one decides becomes a task, and whoever waits
until something is durable waits here.

How an effect is performed is not known here (services/holding/effector.py), nor which partitions to hold
(services/holding/scheduler.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from timerd.core.effects import Effect
from timerd.core.holding import Phase
from timerd.core.partition_machine import PartitionMachine
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.row_keys import delivery_ids
from timerd.model.settle import CarryReason
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.partition_events import PartitionEvents
from timerd.services.holding.tickets import Tickets
from timerd.services.holding.ticking import Ticking

JUST_SENT_MS = 50
Leases = Callable[[RowKey], int | None]
Attempt = Callable[[PartitionMachine, Effect], Coroutine[Any, Any, None]]


async def _nothing(_machine: PartitionMachine, _effect: Effect) -> None:
    """Until somebody performs."""


async def _nothing_waits(_now_ms: int) -> None:
    """Until somebody carries rows on."""


class Machines(dict[Partition, PartitionMachine]):
    """`changes`: how often one came or went. `by_scope`: the same ones. A queue has tasks in two scopes, of
    thousands."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.by_scope: dict[int, dict[Partition, PartitionMachine]] = {}

    def __setitem__(self, partition: Partition, machine: PartitionMachine) -> None:
        self.changes += 1
        self.by_scope.setdefault(partition.scope, {})[partition] = machine
        super().__setitem__(partition, machine)

    def __delitem__(self, partition: Partition) -> None:
        super().__delitem__(partition)
        self.changes += 1
        machines = self.by_scope[partition.scope]
        del machines[partition]
        if not machines:
            del self.by_scope[partition.scope]

    def clear(self) -> None:
        self.changes += 1
        self.by_scope.clear()
        super().clear()


class Held:
    """Of one instance. `wake` callbacks are called when rows may be due earlier than was said."""

    def __init__(self, time: EngineTime, settle_every_s: float) -> None:
        self.machines = Machines()
        self._ticking = Ticking()
        self.attempt: Attempt = _nothing
        self.events = PartitionEvents()
        self._time = time
        self._settle_every_s = settle_every_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._tickets = Tickets()
        self._settling: set[Partition] = set()
        self._settled_s: dict[Partition, float] = {}
        self._wakes: list[Callable[[], None]] = []
        self.lease_of: Leases = lambda _key: None
        # Those of the delivery ids that have a lease.
        self.in_flight: Callable[[Collection[bytes]], Collection[bytes]] = lambda _ids: ()
        # Hears of rows that were carried on while a worker has them, and knows which wait for that.
        self.carried: Callable[[PartitionMachine, Iterable[RowKey]], None] = lambda _machine, _keys: None
        self.waits: Callable[[RowKey], bool] = lambda _key: False
        # Whether one of these delivery ids is such a row's.
        self.any_waits: Callable[[Collection[bytes]], bool] = lambda _ids: False
        # Until when a worker may have what it came back with; 0: nobody did with that.
        self.held_until_ms: Callable[[RowKey], int] = lambda _key: 0
        # Whether a worker came back with that delivery since, and was told that it has it still.
        self.came_since: Callable[[RowKey, int], bool] = lambda _key, _since_ms: False
        # The rows that wait learn how long those deliveries may be in hand.
        self.prolong: Callable[[int], Awaitable[None]] = _nothing_waits

    def on_due(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def wake(self) -> None:
        for wake in self._wakes:
            wake()

    def tick(self, now_ms: int) -> None:
        for machine in self._ticking.chosen(self.machines.values()):
            if machine.phase is Phase.HOT:
                self._guard(machine, machine.laggards(now_ms), now_ms, CarryReason.GUARD)
            elif machine.phase is Phase.HAND_OVER:
                self.carry_sent(machine, now_ms)
            self.perform(machine, machine.tick(now_ms))

    def perform(self, machine: PartitionMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.spawn(self.attempt(machine, effect))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def until_idle(self) -> None:
        """What one effect leads to is performed as well."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def settle_soon(self, machine: PartitionMachine) -> None:
        """Writes what ended: at once after a pause, else with what ends in the next milliseconds, for a commit costs
        more than a thousand endings in it."""
        if machine.partition in self._settling:
            return
        self._settling.add(machine.partition)
        loop = asyncio.get_running_loop()
        last_s = self._settled_s.get(machine.partition, 0.0)
        loop.call_at(max(loop.time(), last_s + self._settle_every_s), self._settle, machine)

    def _settle(self, machine: PartitionMachine) -> None:
        self._settling.discard(machine.partition)
        if self.machines.get(machine.partition) is machine:
            self._settled_s[machine.partition] = asyncio.get_running_loop().time()
        self.perform(machine, machine.flush())

    def durable(self, machine: PartitionMachine, ticket: int) -> asyncio.Future[None]:
        """Done when the ticket is. Raises NoLongerHeld."""
        return self._tickets.durable(machine, ticket)

    def let_go(self, machine: PartitionMachine) -> None:
        """It is over: who waits for it hears that."""
        if machine.partition in self.machines:
            del self.machines[machine.partition]
        self._settled_s.pop(machine.partition, None)
        self._tickets.lose(machine)

    def written(self, machine: PartitionMachine) -> None:
        self._tickets.resolve(machine)
        if machine.phase is Phase.HAND_OVER:
            self.perform(machine, machine.tick(int(self._time.exact_ms())))

    def has_in_hand(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        """Whether a worker has a delivery that this row waits for; `lease_until_ms` is that of the row."""
        machine = self.machines.get(partition)
        if machine is not None and (key.position_ms < machine.floor_ms or machine.log.settled.get(key) is not None):
            return False
        return self.lease_of(key) is not None or self.waits(key) or lease_until_ms > self._time.exact_ms()

    def has_lease(self, key: RowKey) -> bool:
        """Whether a worker that is known here has a delivery of this row's generation."""
        return self.lease_of(key) is not None or self.held_until_ms(key) > self._time.exact_ms()

    def may_have_in_hand(self, keys: Sequence[RowKey]) -> bool:
        """False: `has_in_hand` says so of each of them, whose rows have no lease themselves."""
        ids = delivery_ids(keys)
        return bool(self.in_flight(ids)) or self.any_waits(ids)

    def carry_open(self, machine: PartitionMachine, now_ms: int) -> None:
        """What workers have in hand stays with them: the next holder treats it as in flight."""
        self._guard(machine, list(machine.rows.open_before(1 << 62)), now_ms, CarryReason.HAND_OVER)

    def carry_sent(self, machine: PartitionMachine, now_ms: int) -> None:
        """As `carry_open`, but what has only just been sent has a moment to end here: an ack that meets a row which has
        left goes the long way."""
        sent_ms = int(self._time.exact_ms()) - JUST_SENT_MS
        self._guard(machine, list(machine.rows.open_since(sent_ms)), now_ms, CarryReason.HAND_OVER)

    def _guard(self, machine: PartitionMachine, keys: Sequence[RowKey], now_ms: int, reason: CarryReason) -> None:
        """Only deliveries that a worker still has are guarded. What has just been settled is open for a turn of the
        loop more, until the delivery machine ends or retries it: carried, it would fire once more."""
        leases = {key: until_ms for key in keys if (until_ms := self.lease_of(key)) is not None}
        if leases:
            machine.guard(leases, now_ms, reason)
            self.carried(machine, leases)
