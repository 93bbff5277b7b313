"""The partitions that this instance holds, each with its machine: what one decides becomes a task, and a caller that
waits until something is durable waits here.

How an effect is performed is not known here (services/holding/effect_runner.py), nor which partitions to hold
(services/holding/scheduler.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from timerd.core.dispatch import Deliveries
from timerd.core.partition import Effect, PartitionMachine, Phase
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.row_keys import delivery_ids
from timerd.model.settle import CarryReason
from timerd.services.background import begin
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.failures import Failures
from timerd.services.holding.log_waits import LogWaits
from timerd.services.holding.partition_events import PartitionEvents
from timerd.services.holding.ticking import Ticking

log = logging.getLogger(__name__)
JUST_SENT_MS = 50
Attempt = Callable[[PartitionMachine, Effect], Coroutine[Any, Any, None]]


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

    def gives(self, partition: Partition) -> bool:
        """Whether its rows are sent now."""
        machine = self.get(partition)
        return machine is not None and machine.phase is Phase.HOT

    def clear(self) -> None:
        self.changes += 1
        self.by_scope.clear()
        super().clear()


class Held:
    """Of one instance. `attempt` performs what a machine decided. `wake` callbacks are called when rows may be due
    earlier than was said."""

    def __init__(self, time: EngineTime, settle_every_s: float, deliveries: Deliveries, attempt: Attempt) -> None:
        self.machines = Machines()
        self._ticking = Ticking()
        self._attempt = attempt
        self.events, self.failures = PartitionEvents(), Failures()
        self._time = time
        self._deliveries = deliveries
        self._settle_every_s = settle_every_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._log_waits = LogWaits()
        self._settling: dict[Partition, asyncio.TimerHandle] = {}
        self._settled_s: dict[Partition, float] = {}
        self._wakes: list[Callable[[], None]] = []
        # Needs of rows that this release does not understand.
        self._told: set[str] = set()

    def foreign_rows(self) -> int:
        """How many rows wait for a release that understands them. What they need is said in the log once."""
        lacks = self.foreign_needs()
        if not self._told.issuperset(lacks):
            self._told.update(lacks)
            log.warning(
                "rows of a later release need what this one does not understand (%s): they wait for an instance that "
                "does, so upgrade this one",
                ", ".join(lacks),
            )
        return sum(machine.foreign_rows for machine in self.machines.values())

    def foreign_needs(self) -> list[str]:
        return sorted({need for machine in self.machines.values() for need in machine.lacks})

    def on_due(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def wake(self) -> None:
        for wake in self._wakes:
            wake()

    def tick(self, now_ms: int) -> None:
        for machine in self._ticking.chosen(self.machines.values()):
            with self._given_up(machine, "tick"):
                self._tick(machine, now_ms)

    def _tick(self, machine: PartitionMachine, now_ms: int) -> None:
        if machine.phase is Phase.HOT:
            self._guard(machine, machine.laggards(now_ms), now_ms, CarryReason.GUARD)
        elif machine.phase is Phase.HAND_OVER:
            self.carry_sent(machine, now_ms)
        admission = self._deliveries.offloading()
        effects = machine.tick(now_ms, (admission,))
        self._deliveries.carried(machine, admission.requeued())
        self.perform(machine, effects)

    @contextmanager
    def _given_up(self, machine: PartitionMachine, work: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - it is noted
            self.give_up(machine, work, error)

    def give_up(self, machine: PartitionMachine, work: str, error: BaseException) -> None:
        """A machine that cannot go on, or whose state is in doubt. The partition is acquired anew, from what the store
        has; what workers have of it stays with them."""
        self.failures.add(machine.partition, work, error, "is given up, and acquired anew")
        leases = {key: self._deliveries.lease_of(key) for key in machine.open_keys()}
        self._deliveries.hold_back({key: until_ms for key, until_ms in leases.items() if until_ms is not None})
        self.events.counts["given_up"] += 1
        self.events.dropped(machine)
        try:
            machine.lose()
        finally:
            self.let_go(machine)

    def perform(self, machine: PartitionMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.spawn(self._attempt(machine, effect))

    def spawn(self, work: Coroutine[Any, Any, None], name: str = "partitions") -> None:
        task = begin(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def until_idle(self) -> None:
        """What one effect leads to is performed as well."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def settle_soon(self, machine: PartitionMachine, *, is_awaited: bool = False) -> None:
        """Writes what ended: at once after a pause, else with what ends in the next milliseconds, for a commit costs
        more than a thousand endings in it. `is_awaited`: something waits for one of them, so it is at once."""
        loop, waiting = asyncio.get_running_loop(), self._settling.get(machine.partition)
        if waiting is not None and not (is_awaited and waiting.when() > loop.time()):
            return
        if waiting is not None:
            waiting.cancel()
        due_s = loop.time()
        if not is_awaited:
            due_s = max(due_s, self._settled_s.get(machine.partition, 0.0) + self._settle_every_s)
        self._settling[machine.partition] = loop.call_at(due_s, self._settle, machine)

    def _settle(self, machine: PartitionMachine) -> None:
        self._settling.pop(machine.partition, None)
        if self.machines.get(machine.partition) is machine:
            self._settled_s[machine.partition] = asyncio.get_running_loop().time()
        with self._given_up(machine, "flush"):
            self.perform(machine, machine.flush(int(self._time.exact_ms())))

    def durable(self, machine: PartitionMachine, lsn: int) -> asyncio.Future[None]:
        """Done when the records up to that log sequence number are durable. Raises NoLongerHeld."""
        return self._log_waits.durable(machine, lsn)

    def let_go(self, machine: PartitionMachine) -> None:
        """It is over: who waits for it hears that."""
        if machine.partition in self.machines:
            del self.machines[machine.partition]
        self._settled_s.pop(machine.partition, None)
        self._log_waits.lose(machine)

    def written(self, machine: PartitionMachine) -> None:
        self._log_waits.resolve(machine)
        if machine.phase is Phase.HAND_OVER:
            self.perform(machine, machine.tick(int(self._time.exact_ms())))

    def has_in_hand(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        """Whether a worker has a delivery that this row waits for; `lease_until_ms` is that of the row."""
        machine = self.machines.get(partition)
        if machine is not None and (key.position_ms < machine.floor_ms or machine.recorded(key) is not None):
            return False
        return self._deliveries.is_in_hand(key) or lease_until_ms > self._time.exact_ms()

    def has_begun_again(self, partition: Partition, key: RowKey) -> bool:
        """Whether a worker has what the record of its row says to be over, as far as this instance knows."""
        return self._deliveries.has_begun_again(partition, key)

    def has_lease(self, key: RowKey, lease_until_ms: int = 0) -> bool:
        """Whether a worker that is known here has a delivery of this row's generation. `lease_until_ms`: the row itself
        waits for one until then."""
        now_ms = self._time.exact_ms()
        return lease_until_ms > now_ms or self._deliveries.has_lease(key, now_ms)

    def may_return(self, partition: Partition, key: RowKey) -> bool | None:
        """Whether a worker has a delivery of this row, or may come back with one: it was due before this instance held
        the partition. None: it does not hold it, and knows of no delivery."""
        now_ms, machine = int(self._time.exact_ms()), self.machines.get(partition)
        if self._deliveries.has_lease(key, now_ms):
            return True
        if machine is None:
            return None
        return self._deliveries.may_return(key, machine.since_ms or now_ms, now_ms)

    def interrupt(self, key: RowKey) -> None:
        """The task was cancelled while a worker had it."""
        self._deliveries.cancelled(key)

    def may_have_in_hand(self, keys: Sequence[RowKey]) -> bool:
        """False: `has_in_hand` says so of each of them, whose rows have no lease themselves."""
        return self._deliveries.any_in_hand(delivery_ids(keys))

    def carry_open(self, machine: PartitionMachine, now_ms: int) -> None:
        """What workers have in hand stays with them: the next holder treats it as in flight."""
        self._guard(machine, machine.open_keys(), now_ms, CarryReason.HAND_OVER)

    def carry_sent(self, machine: PartitionMachine, now_ms: int) -> None:
        """As `carry_open`, but what has only just been sent has a moment to end here: an ack that meets a row which has
        left goes the long way."""
        sent_ms = int(self._time.exact_ms()) - JUST_SENT_MS
        self._guard(machine, machine.open_since(sent_ms), now_ms, CarryReason.HAND_OVER)

    def _guard(self, machine: PartitionMachine, keys: Sequence[RowKey], now_ms: int, reason: CarryReason) -> None:
        """Only deliveries that a worker still has are guarded. What has just been settled is open for a turn of the
        loop more, until the delivery machine ends or retries it: carried, it would fire once more."""
        leases = {key: until_ms for key in keys if (until_ms := self._deliveries.lease_of(key)) is not None}
        if leases:
            machine.guard(leases, now_ms, reason)
            self._deliveries.carried(machine, leases)
