"""What `timerd doctor` shows of the engine, and what it advises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from timerd.config import ServerConfig
from timerd.core.dispatch import LATENESS_BOUNDS_MS
from timerd.core.instance_machine import shards_of
from timerd.core.ledger import Ledger
from timerd.core.partition import PartitionMachine
from timerd.core.taken import QueueKey
from timerd.model.counted import counted
from timerd.model.halts import Halt
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, control_key
from timerd.model.regulations import Mode
from timerd.model.storage import BucketEntry, StoreFacts
from timerd.ports import Store
from timerd.services.engine.key_advice import halted_advice
from timerd.services.engine.verbs import EngineFacts
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler

LOW_DISK_BYTES = 1 << 30
LATE_MS = 60_000
# More sentences of one kind than this help nobody.
MOST_NAMED = 5
ModeOf = Callable[[QueueKey, int], Mode]


def _always_running(_queue: QueueKey, _now_ms: int) -> Mode:
    return Mode.RUNNING


class Facts:
    """Reads the control rows of the buckets that are kept; a call a minute is plenty."""

    def __init__(self, store: Store, scheduler: Scheduler, time: EngineTime, config: ServerConfig) -> None:
        self._store = store
        self._scheduler = scheduler
        self._time = time
        self._config = config
        self._started_ms = int(time.exact_ms())
        self._mode: ModeOf = _always_running

    def go_by(self, mode: ModeOf) -> None:
        """What the rules of queues say."""
        self._mode = mode

    async def read(self) -> EngineFacts:
        store = await self._store.facts()
        entries = await self._store.catalogue(None, -(1 << 62), int(self._time.exact_ms()) + 1)
        ledger = await self._ledger(entries)
        machines = list(self._scheduler.machines.values())
        kept_back = self._kept_back(machines)
        oldest_ms = self._oldest_ms(machines, kept_back) or 0
        memory = self._scheduler.memory
        return EngineFacts(
            durability=store.durability,
            store=store.name,
            engine_ms=self._time.exact_ms(),
            clock_offset_ms=self._time.difference_ms,
            clock_trusted=self._time.trusted,
            disk_free_bytes=store.free_bytes,
            disk_used_bytes=store.used_bytes,
            ledger=ledger.named(),
            partitions_open=len(machines),
            memory_used_bytes=memory.used_bytes,
            memory_budget_bytes=memory.budget_bytes,
            loaded=sum(m.waiting_rows for m in machines),
            oldest_due_ms=oldest_ms,
            started_ms=self._started_ms,
            lateness_bounds_ms=LATENESS_BOUNDS_MS,
            lateness_counts=self._scheduler.deliveries.machine.queue_stats.lateness_counts(),
            advice=self._advice(store, ledger, oldest_ms, await self._scheduler.halting.standing()),
            notes=self._notes(machines, kept_back),
            backlogs=self._backlogs(entries),
        )

    def _backlogs(self, entries: Iterable[BucketEntry]) -> Mapping[int, int]:
        """What a worker takes is in memory, so only the scopes of queues without one have any."""
        left = {TIME_SCOPE, *self._scheduler.scopes}
        return Counter(entry.scope for entry in entries if not entry.finished and entry.scope not in left)

    def _oldest_ms(self, machines: Sequence[PartitionMachine], kept_back: Container[QueueKey]) -> int | None:
        """Position of the oldest row that is not over, but for what somebody keeps back: these queues, and keys that
        stand still."""
        keys = self._scheduler.memory.order_keys
        now_ms = int(self._time.exact_ms())
        if not kept_back and not keys.halts.names():
            return min((ms for m in machines if (ms := m.oldest_standing_ms(now_ms)) is not None), default=None)
        sending = ((m, queue) for m in machines for queue in m.queues() if queue not in kept_back)
        waiting = [machine.oldest_waiting_of(queue, now_ms) for machine, queue in sending]
        in_hand = [key.position_ms for machine in machines for key in machine.open_keys()]
        found = (*waiting, keys.oldest_ms(kept_back), *in_hand)
        return min((ms for ms in found if ms is not None), default=None)

    def _kept_back(self, machines: Sequence[PartitionMachine]) -> Mapping[QueueKey, Mode]:
        """Queues with tasks in memory that send nothing, because somebody wants it so."""
        now_ms = int(self._time.exact_ms())
        queues = {queue for machine in machines for queue in machine.queues() if not queue.is_internal}
        return {queue: mode for queue in queues if not (mode := self._mode(queue, now_ms)).sends}

    def _notes(self, machines: Sequence[PartitionMachine], kept_back: Mapping[QueueKey, Mode]) -> list[str]:
        now_ms = int(self._time.exact_ms())
        due = {queue: sum(m.all_due(queue, now_ms) for m in machines) for queue in sorted(kept_back)}
        said = [
            f"The queue {queue.queue!r} of the namespace {queue.namespace!r} is {kept_back[queue]} and has "
            f"{counted(rows, 'due task')}: `timerd queues show` says why, and `timerd queues resume` lets them go."
            for queue, rows in due.items()
            if rows
        ]
        more = len(said) - MOST_NAMED
        others = f"{counted(more, 'more queue', 'do')} not send what is due."
        return [*said[:MOST_NAMED], *([others] if more > 0 else [])]

    async def _ledger(self, entries: Iterable[BucketEntry]) -> Ledger:
        """Held buckets from memory, others from their control rows: also what is being taken, whose memory is empty."""
        ledger = Ledger()
        places = {partition for entry in entries for partition in shards_of(entry)}
        read: set[Partition] = set()
        controls: list[Control] = []
        # One that is let go of meanwhile is read as well, one that is taken meanwhile counts as it was read.
        while unheld := places - read - self._counting().keys():
            read |= unheld
            stored = await self._store.read([control_key(p) for p in unheld])
            controls += [Control.from_bytes(raw) for raw in stored if raw is not None]
        held: Counter[int] = Counter()
        for partition, machine in self._counting().items():
            if partition not in read:
                held.update(machine.totals())
        ledger.add_finished([c for c in controls if c.finished])
        for control in (c for c in controls if not c.finished):
            held.update(dict(control.counts))
        ledger.add_open(held)
        return ledger

    def _counting(self) -> dict[Partition, PartitionMachine]:
        return {p: machine for p, machine in self._scheduler.machines.items() if machine.phase.counts_ends}

    def _advice(self, store: StoreFacts, ledger: Ledger, oldest_ms: int, halts: Sequence[Halt]) -> list[str]:
        said = []
        if not self._time.trusted:
            said.append(f"{self._time.doubt} Check the machine's time service.")
        said += store.advice
        if self._store.traits.sees_disk and store.free_bytes < LOW_DISK_BYTES:
            said.append(f"Only {store.free_bytes >> 20} MiB of disk are free: make room, or schedules will be refused.")
        said += [
            f"{damage} Copy the data directory, then restore a backup or schedule those tasks again, and look at the "
            "disk's health."
            for damage in store.corrupt[:MOST_NAMED]
        ]
        if len(store.corrupt) > MOST_NAMED:
            others = counted(len(store.corrupt) - MOST_NAMED, "more part")
            said.append(f"Damaged are {others} of the data as well: the log names them.")
        if ledger.unexplained:
            said.append(
                f"{counted(ledger.unexplained, 'row')} of finished buckets ended nobody knows how: a writer died "
                "before an OK, or a task was missed. Compare with your own records."
            )
        if rows := self._scheduler.held.foreign_rows():
            said.append(
                f"{counted(rows, 'row', 'were')} written by a later release with what this one does not understand "
                f"({', '.join(self._scheduler.held.foreign_needs())}), to wait until this instance is upgraded."
            )
        said += halted_advice(halts, MOST_NAMED)
        if oldest_ms and oldest_ms < self._time.exact_ms() - LATE_MS:
            said.append(
                "A task has been due for more than a minute: is a worker of its queue connected, and has it credit?"
            )
        return said
