"""A whole service in one room: store, partition machines and procedures, with every effect on its way as long as the
test likes, in any order, and an oracle that knows only what callers and workers were told.

The store is performed in one step and its answer is heard in another, so anything may come in between. A crash forgets
all that is on its way; a new set of machines starts from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import InstanceMachine
from timerd.core.ledger import Ledger
from timerd.core.partition.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effect,
    Effects,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.cancel_many import EndedMany, end_many
from timerd.core.protocol.insertion import ClosedForGood, Inserted, insert, insert_carried
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    AskToEndMany,
    FindVacant,
    Procedure,
    Request,
    Together,
    Vacant,
)
from timerd.core.protocol.told_ends import tasks_of_ends
from timerd.core.taken import Again, Ended, QueueKey
from timerd.model.errors import Aborted, Precondition
from timerd.model.identity import RowKey, TaskId, digest_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control, Move, MoveState, control_key, move_key
from timerd.model.rows import FLAG_CARRIED, PREFIX, ROW, RowGroup, concat
from timerd.model.settle import CarryReason, Outcome
from timerd.model.shard_counts import ShardCounts
from timerd.model.spread import Spread
from timerd.model.storage import Append, BucketEntry, Cas, CasStatus, MarkKind
from timerd.model.task import Template
from timerd.services.holding.finishing import open_backlogs
from timerd.services.holding.held import Machines
from timerd.services.holding.paging import read_page
from timerd.services.holding.procedure_runner import ProcedureRunner

START_MS = 1_800_000_000_000
QUEUES = (QueueKey("default", "a"), QueueKey("default", "b"))
TEMPLATES = [Template("default", "a"), Template("default", "b"), Template("default", "a", 3)]
TEMPLATES += [Template("default", "a", on_end="ends")]
LEASE_MS = 4_000
PAGE_BYTES = 250
Result = TypeVar("Result")


def done(work: Coroutine[Any, Any, Result]) -> Result:
    """The memory store never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        return cast(Result, stop.value)
    raise AssertionError("it waits")


class OneCommitStore(MemoryStore):
    """Rows that are written together have one name, as in a group commit."""

    shared = 0

    def _next(self) -> int:
        if self.shared:
            return self.shared
        return super()._next()

    def _write(self, partition: Partition, group: RowGroup) -> int:
        source = super()._write(partition, group)
        groups = self._partitions[partition].groups
        if len(groups) > 1 and groups[-1].source == groups[-2].source:
            joined = concat(groups[-2:])
            order = np.argsort(joined.columns["position_ms"], kind="stable")
            groups[-2:] = [replace(joined.select(order), source=source)]
        return source

    def begin_commit(self) -> None:
        self.shared = super()._next()

    def end_commit(self) -> None:
        self.shared = 0


class OneByOne(ProcedureRunner):
    """What may be asked for at the same time is asked for one after the other."""

    knows_all = True

    async def _together(self, request: Together) -> list[object]:
        return [await self.perform(each) for each in request.requests]

    async def _find_vacant(self, request: FindVacant) -> Vacant | None:
        """Also as one who cannot know what others hold."""
        return await super()._find_vacant(request) if self.knows_all else None


class TightMemory(Memory):
    """A queue may keep a few rows of each partition."""

    def share_bytes(self, queue: QueueKey, own_bytes: int) -> int:
        return self.budget_bytes


@dataclass
class Task:
    """What callers and workers know of one."""

    id: TaskId
    fire_at_ms: set[int]
    stored: bool = False
    acked: bool = False
    # No delivery may start any more.
    over: bool = False
    lease_until_ms: int = 0
    key: RowKey | None = None
    partition: Partition | None = None
    moving: int = 0
    deliveries: int = 0
    # What a crash left open: an ack or a cancel that was not answered.
    asked: bool = False


@dataclass
class World:
    budget_bytes: int = 1 << 30
    lag_ms: int = 600_000
    now_ms: int = START_MS + 10_000
    store: OneCommitStore = field(default_factory=OneCommitStore)
    machines: Machines = field(default_factory=Machines)
    tasks: dict[bytes, Task] = field(default_factory=dict)
    # On their way; the request where it is one that may share a commit.
    pending: list[tuple[object, Callable[[], None]]] = field(default_factory=list)
    confirming: list[tuple[PartitionMachine, int, Task]] = field(default_factory=list)
    scopes: set[int] = field(default_factory=set)
    shard_counts: ShardCounts = field(default_factory=lambda: ShardCounts(1))
    # As in a cluster whose instances do not reach each other: the sweeps find every row.
    loses_hints: bool = False
    unknown: int = 0
    crashes: int = 0
    messages: int = 0
    inserting: int = 0
    # A row was written late while its partition was counted, so the count may know it as unexplained.
    counted_early: bool = False

    def __post_init__(self) -> None:
        self.memory = TightMemory(self.budget_bytes)
        self.instance = InstanceMachine(60_000)
        self.settings = HoldingSettings("me", max_mark_lag_ms=self.lag_ms, traits=self.store.traits)
        self.runner = OneByOne(self.store, cast(Any, self), cast(Any, self.hint))
        self.scopes = {TEMPLATES[0].scope, TEMPLATES[1].scope}

    # -- what a scheduler is asked for ----------------------------------------------------------------------------

    def hint(self, partition: Partition, rows: RowGroup, source: int, may_repeat: bool = False) -> None:
        if self.loses_hints:
            return
        if partition in self.machines:
            self.machines[partition].hint(rows, source, may_repeat=may_repeat)
        elif self.instance.is_near(partition, self.now_ms):
            self.hold(partition)

    def settle_soon(self, machine: PartitionMachine) -> None:
        self.perform(machine, machine.flush())

    def has_lease(self, key: RowKey, lease_until_ms: int = 0) -> bool:
        """What a worker has is open here, or its row waits for it."""
        return lease_until_ms > self.now_ms

    def has_in_hand(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        return lease_until_ms > self.now_ms

    def has_begun_again(self, partition: Partition, key: RowKey) -> bool:
        """There are no workers."""
        return False

    def interrupt(self, key: RowKey) -> None:
        """Nobody is told: there are no workers."""

    def may_have_in_hand(self, keys: Sequence[RowKey]) -> bool:
        """What a worker has is open here, and asked for as that."""
        return False

    def wake(self) -> None:
        """Nobody sleeps."""

    def perform(self, machine: PartitionMachine, effects: Effects) -> None:
        for effect in effects:
            self.pending.append((effect, lambda effect=effect: self._perform(machine, effect)))  # type: ignore[misc]

    def hold(self, partition: Partition) -> None:
        if partition not in self.machines:
            machine = PartitionMachine(partition, self.settings, self.memory)
            self.machines[partition] = machine
            self.perform(machine, machine.start())

    # -- time and chance ------------------------------------------------------------------------------------------

    def run(self, picks: Sequence[int]) -> None:
        """Some of what is on its way, in the order that the picks say."""
        for pick in picks:
            if self.pending:
                request, action = self.pending.pop(pick % len(self.pending))
                if isinstance(request, AppendRows) and pick % 2:
                    self._commit(action)
                else:
                    action()
        self._confirm()

    def _commit(self, first: Callable[[], None]) -> None:
        """All rows that are on their way to the store share a commit."""
        others = [p for p in self.pending if isinstance(p[0], AppendRows)]
        self.pending = [p for p in self.pending if not isinstance(p[0], AppendRows)]
        self.store.begin_commit()
        for action in [first, *(action for _, action in others)]:
            action()
        self.store.end_commit()

    def settle_down(self) -> None:
        for _ in range(5_000):
            if not self.pending:
                self._confirm()
                return
            self.run([0])
        raise AssertionError("it never comes to rest")

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.tick()

    def tick(self) -> None:
        for machine in list(self.machines.values()):
            if machine.phase is Phase.HOT:
                late = machine.laggards(self.now_ms)
                leases = {key: self.tasks[key.digest].lease_until_ms or self.now_ms for key in late}
                machine.guard(leases, self.now_ms, CarryReason.GUARD)
            elif machine.phase is Phase.HAND_OVER:
                self._carry_open(machine)
            self.perform(machine, machine.tick(self.now_ms))
        self.reconcile()

    def hot(self) -> list[PartitionMachine]:
        return [machine for machine in self.machines.values() if machine.phase is Phase.HOT]

    def hand_over(self, machine: PartitionMachine) -> None:
        """What workers have in hand stays with them; the next holder knows of it only what is in the store."""
        effects = machine.hand_over("the next one")
        self._carry_open(machine)
        self.perform(machine, [*effects, *machine.tick(self.now_ms)])

    def _carry_open(self, machine: PartitionMachine) -> None:
        keys = list(machine.open_keys())
        leases = {key: self.tasks[key.digest].lease_until_ms or self.now_ms for key in keys}
        machine.guard(leases, self.now_ms, CarryReason.HAND_OVER)

    def reconcile(self) -> None:
        catalogue = done(self.store.catalogue(TIME_SCOPE, -(1 << 62), self.now_ms + 60_001))
        scopes = {s: done(self.store.catalogue(s, -(1 << 62), 1 << 62)) for s in sorted(self.scopes)}
        for partition in self.instance.wanted(self.now_ms, catalogue, scopes):
            self.hold(partition)
        open_backlogs(self.machines.values(), catalogue)

    def crash(self) -> None:
        """Whatever was told to nobody is unknown; what was told holds."""
        self.crashes += 1
        self.machines.clear()
        self.pending.clear()
        self.confirming.clear()
        self.inserting = 0
        self.memory.used_bytes = 0
        for task in self.tasks.values():
            task.lease_until_ms, task.key, task.moving = 0, None, 0

    # -- callers --------------------------------------------------------------------------------------------------

    def insert(self, delays_ms: Sequence[int], template: int) -> None:
        self.messages += 1
        prefix = b"m%011d" % self.messages
        columns = np.zeros(len(delays_ms), ROW)
        columns["index"] = np.arange(len(delays_ms))
        columns["position_ms"] = columns["fire_at_ms"] = self.now_ms + np.array(delays_ms)
        rows = RowGroup(columns, np.frombuffer(prefix, PREFIX), [TEMPLATES[template]], b"", [])
        positions = columns["position_ms"].tolist()
        shards = {bucket_of(ms): self.shard_counts.shard(prefix, bucket_of(ms)) for ms in positions}
        spread = Spread(TIME_SCOPE, 0, rows.select(np.argsort(columns["position_ms"], kind="stable")), shards)
        groups = tuple((partition, part.compact()) for partition, part in spread.parts())
        scope, priority = TEMPLATES[template].scope, TEMPLATES[template].priority
        for n, position_ms in enumerate(positions):
            task = TaskId(position_ms, shards[bucket_of(position_ms)], scope, priority, prefix, n, b"-" * 8)
            self.tasks[task.digest] = Task(task, {position_ms})

        def stored(said: Inserted) -> None:
            self.inserting -= 1
            for n, position_ms in enumerate(positions):
                digest = digest_of(prefix, n)
                task = self.tasks[digest]
                placed_ms = said.moved.get((position_ms, digest), position_ms)
                task.id, task.stored = task.id._replace(position_ms=placed_ms), True

        self.inserting += 1
        # Every other message comes in one piece, also where somebody holds its partitions.
        whole = Append((), prefix, b"yes", spread)
        message = Append(groups, prefix, b"yes") if self.messages % 2 else whole
        self.drive(insert(message, self.now_ms), stored)

    def grow(self, after_ms: int, count: int) -> None:
        """A bucket has more shards from now on."""
        bucket_ms = bucket_of(self.now_ms + after_ms)
        self.shard_counts = self.shard_counts.with_more(bucket_ms, count, self.now_ms) or self.shard_counts

    def cancel(self, task: Task) -> None:
        task.asked = True

        def said(answer: Cancelled) -> None:
            assert answer is not Cancelled.NOT_FOUND, task
            if answer is Cancelled.ALREADY_FIRED:
                assert task.deliveries, task
            if answer in (Cancelled.CANCELLED, Cancelled.IN_FLIGHT):
                task.over = True

        self.drive(end_task(task.id, Outcome.CANCELLED, b"cancel"), said)

    def cancel_many(self, tasks: Sequence[Task]) -> None:
        """Together as far as it goes, else each by itself."""
        for task in tasks:
            task.asked = True

        def said(ended: EndedMany) -> None:
            for task, answer in zip(tasks, ended.said, strict=True):
                if answer is None:
                    self.cancel(task)
                elif answer in (Cancelled.CANCELLED, Cancelled.IN_FLIGHT):
                    task.over = True

        self.drive(end_many([task.id for task in tasks], Outcome.CANCELLED, b"cancel"), said)

    def move(self, task: Task, delay_ms: int) -> None:
        wish = Wish(f"{self.now_ms}-{self.messages}", self.now_ms + delay_ms, self.now_ms, 86_400_000)
        self.messages += 1
        task.moving += 1
        task.fire_at_ms.add(wish.fire_at_ms)

        def said(fire_at_ms: int) -> None:
            task.moving -= 1
            if not task.moving:
                task.fire_at_ms = {fire_at_ms}

        def failed(error: Exception) -> None:
            assert isinstance(error, Aborted | Precondition), error
            task.moving -= 1

        self.drive(move_task(task.id, wish), said, failed)

    def drive(
        self,
        procedure: Procedure[Result],
        said: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """A request is performed in one step, its answer heard in another."""

        def go(send: Callable[[], Request]) -> None:
            try:
                request = send()
            except StopIteration as stop:
                said(stop.value)
                return
            except (Aborted, ClosedForGood, Precondition) as error:
                if failed is None:
                    raise
                failed(error)
                return
            self.pending.append((request, lambda: perform(request)))

        def perform(request: Request) -> None:
            if isinstance(request, AskToEnd | AskToEndMany) and not self._has_left(request):
                self.pending.append((request, lambda: perform(request)))
                return
            answer = done(self.runner.perform(request))
            self.pending.append((None, lambda: go(lambda: procedure.send(answer))))

        go(lambda: next(procedure))

    def _has_left(self, request: AskToEnd | AskToEndMany) -> bool:
        """Else the call waits until it is durable that the row went elsewhere."""
        machine = self.machines.get(request.partition)
        keys = [request.key] if isinstance(request, AskToEnd) else request.keys
        return machine is None or all(map(machine.has_left, keys))

    # -- workers --------------------------------------------------------------------------------------------------

    def take(self, queue: QueueKey, limit: int) -> None:
        for machine in list(self.machines.values()):
            taken = machine.take(queue, limit, self.now_ms)
            for n, key in enumerate(taken.rows.keys() if taken else []):
                assert taken is not None
                task = self.tasks[key.digest]
                columns = taken.rows.columns
                if columns["flags"][n] & FLAG_CARRIED and task.lease_until_ms > self.now_ms:
                    machine.guard({key: task.lease_until_ms}, self.now_ms, CarryReason.GUARD, was_sent=False)
                else:
                    self._delivered(task, key, taken.partition, int(columns["fire_at_ms"][n]))
            self.perform(machine, machine.flush())

    def _delivered(self, task: Task, key: RowKey, partition: Partition, fire_at_ms: int) -> None:
        assert fire_at_ms <= self.now_ms, f"early: {task}"
        assert not task.over, f"after CANCELLED: {task}"
        assert not task.acked, f"after its ack was confirmed: {task}"
        assert task.lease_until_ms <= self.now_ms, f"twice: {task}"
        assert fire_at_ms in task.fire_at_ms, f"not where it was moved to: {task}"
        task.lease_until_ms, task.key, task.partition = self.now_ms + LEASE_MS, key, partition
        task.deliveries += 1

    def in_hand(self) -> list[Task]:
        return [t for t in self.tasks.values() if t.key is not None]

    def ack(self, task: Task) -> None:
        assert task.key is not None
        assert task.partition is not None
        machine = self.machines.get(task.partition)
        ended = Ended(task.partition, task.key, Outcome.ACKED)
        lsn, missing = machine.end([ended]) if machine is not None else (0, [ended])
        task.key, task.asked = None, True
        if missing or machine is None:
            self.drive(end_task(task.id, Outcome.ACKED, b"late ack"), lambda said: self._acked_late(task, said))
        else:
            task.lease_until_ms = 1 << 62
            self.confirming.append((machine, lsn, task))
            self.perform(machine, machine.flush())

    def _acked_late(self, task: Task, said: Cancelled) -> None:
        assert said is not Cancelled.NOT_FOUND, task
        if said in (Cancelled.CANCELLED, Cancelled.ALREADY_FIRED):
            task.acked = True
        else:
            task.over = True

    def nack(self, task: Task, delay_ms: int) -> None:
        """Also what a lease that ends without a sign of life does."""
        assert task.key is not None
        assert task.partition is not None
        machine = self.machines.get(task.partition)
        if machine is not None and machine.is_open(task.key):
            position_ms = max(task.key.position_ms, self.now_ms) + delay_ms
            machine.again([Again(task.partition, task.key, position_ms, self.now_ms, "no")])
            task.lease_until_ms = 0
            self.perform(machine, machine.flush())
        task.key = None

    def expire(self) -> None:
        for task in self.in_hand():
            if task.lease_until_ms <= self.now_ms:
                self.nack(task, 0)

    def _confirm(self) -> None:
        left = []
        for machine, lsn, task in self.confirming:
            if machine.done_through >= lsn:
                task.acked = True
            else:
                left.append((machine, lsn, task))
        self.confirming = left

    # -- the end --------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Every worker acknowledges, every partition is finished; nothing that was stored may be missing."""
        for _ in range(400):
            self.settle_down()
            self.expire()
            for queue in QUEUES:
                self.take(queue, 100)
            for task in self.in_hand():
                self.ack(task)
            self.settle_down()
            if self._is_finished():
                break
            self.advance(20_000)
        assert self._is_finished(), [(p, m.phase, m.control) for p, m in self.machines.items()]
        for task in self.tasks.values():
            if task.stored and not (task.acked or task.over):
                assert self.crashes, f"lost: {task}"
                assert task.asked, f"lost: {task}"
                self.drive(end_task(task.id, Outcome.CANCELLED, b"check"), self._is_over)
        self.settle_down()
        self._balance()

    def _is_over(self, said: Cancelled) -> None:
        """A task that nobody ended would be cancelled now."""
        assert said in (Cancelled.ALREADY_CANCELLED, Cancelled.ALREADY_FIRED), said

    def _is_finished(self) -> bool:
        everything = done(self.store.catalogue(None, -(1 << 62), 1 << 62))
        return all(entry.finished for entry in everything)

    def _balance(self) -> None:
        ledger = Ledger()
        for entry in done(self.store.catalogue(None, -(1 << 62), 1 << 62)):
            stored = done(self.store.read([control_key(shard) for shard in _shards(entry)]))
            ledger.add_finished([Control.from_bytes(control) for control in stored if control is not None])
        if self.crashes or self.counted_early:
            assert ledger.unexplained >= 0, ledger.named()
        else:
            assert ledger.unexplained == 0, ledger.named()

    # -- effects --------------------------------------------------------------------------------------------------

    def _perform(self, machine: PartitionMachine, effect: Effect) -> None:
        """The store's part; the machine hears of it later."""
        hear = self._at_the_store(machine, effect)
        self.pending.append((None, lambda: self._heard(machine, hear)))

    def _heard(self, machine: PartitionMachine, hear: Callable[[], Effects]) -> None:
        if self.machines.get(machine.partition) is not machine:
            return
        before = machine.control
        self.perform(machine, hear())
        if before is not None and machine.control is not None:
            assert machine.control.closing_ms >= before.closing_ms
            assert machine.control.verified_ms >= before.verified_ms
            not_yet_ms = max(self.now_ms, machine.partition.bucket_ms)
            assert machine.control.closing_ms <= not_yet_ms or self._is_flagged(machine.partition)
        assert machine.phase is not Phase.LOST
        if machine.phase is Phase.HANDED_OVER:
            del self.machines[machine.partition]
        if machine.phase is Phase.DONE:
            del self.machines[machine.partition]
            self._finish(machine.partition)

    def _is_flagged(self, partition: Partition) -> bool:
        entries = done(self.store.catalogue(partition.scope, partition.bucket_ms, partition.bucket_ms + 1))
        return any(entry.finishing for entry in entries)

    def _finish(self, partition: Partition) -> None:
        """With the last of the shards that are in the catalogue now."""
        scope, bucket_ms, _ = partition
        shards = [p for entry in done(self.store.catalogue(scope, bucket_ms, bucket_ms + 1)) for p in _shards(entry)]
        controls = done(self.store.read([control_key(shard) for shard in shards]))
        if all(stored is not None and Control.from_bytes(stored).finished for stored in controls):
            done(self.store.finish_bucket(scope, bucket_ms, finished=True))

    def _at_the_store(self, machine: PartitionMachine, effect: Effect) -> Callable[[], Effects]:  # noqa: PLR0911
        store = self.store
        match effect:
            case ReadControl(partition):
                [stored] = done(store.read([control_key(partition)]))
                control = Control.from_bytes(stored) if stored is not None else None
                flag = partition.shard > 0 and self._is_flagged(partition)
                return lambda: machine.control_read(control, self.now_ms, is_finishing=flag)
            case ChangeControl():
                return self._cas(machine, effect)
            case ReadSettled(partition):
                records = done(store.settled(partition))
                return lambda: machine.settled_read(records, self.now_ms)
            case ReadPage():
                page = done(read_page(store, effect, machine.lacking, PAGE_BYTES))
                return lambda: machine.page_read(page, self.now_ms)
            case WriteSettled(record):
                done(store.settle([record]))
                return lambda: machine.settled_written(record)
            case WriteCarried():
                self._carry(machine, effect)
                return list
            case AskMoves(_, digests):
                asked = {digest: machine.asking(digest) for digest in digests}
                raw = done(store.read([move_key(d) for d in digests]))
                moves = {d: Move.from_bytes(m) if m is not None else None for d, m in zip(digests, raw, strict=True)}
                return lambda: machine.moves_read(moves, asked)
            case FailMove(_, digest, move):
                failed = move.decided(MoveState.FAILED)
                done(store.cas([Cas(move_key(digest), move.to_bytes(), failed.to_bytes())]))
                return lambda: machine.recheck([digest])
            case FlagFinishing(partition):
                done(store.finish_bucket(partition.scope, partition.bucket_ms, finished=False))
                return machine.flagged
            case CountRows(partition):
                page = done(store.scan(partition, partition.bucket_ms, partition.end_ms, 0, 1 << 40, keys_only=True))
                self.counted_early |= self.inserting > 0
                rows = sum(map(len, page.groups))
                forwards = sum(m.kind == MarkKind.FORWARD for m in page.marks)
                return lambda: machine.counted(rows, self.now_ms, forwards)

    def _cas(self, machine: PartitionMachine, effect: ChangeControl) -> Callable[[], Effects]:
        expected = effect.expected.to_bytes() if effect.expected is not None else None
        unknown, self.unknown = self.unknown, 0
        if unknown == 2:
            return lambda: machine.control_changed(CasStatus.UNKNOWN, self.now_ms)
        change = Cas(control_key(effect.partition), expected, effect.value.to_bytes())
        status = CasStatus.UNKNOWN if unknown else done(self.store.cas([change]))[0].status
        if unknown:
            done(self.store.cas([change]))
        return lambda: machine.control_changed(status, self.now_ms)

    def _carry(self, machine: PartitionMachine, effect: WriteCarried) -> None:
        ends = tasks_of_ends(effect.partition, effect.ends, b"secret", effect.unwritten)
        self.drive(ends, lambda made: self._insert_carried(machine, effect, [*effect.groups, *made]))

    def _insert_carried(
        self, machine: PartitionMachine, effect: WriteCarried, groups: Sequence[tuple[Partition, RowGroup]]
    ) -> None:
        parts: dict[Partition, list[RowGroup]] = {}
        for partition, rows in groups:
            parts.setdefault(partition, []).append(rows)
        message = Append(tuple((p, concat(g)) for p, g in parts.items()))

        def written(_: None) -> None:
            if self.machines.get(machine.partition) is machine:
                machine.carried_written(effect.sequence)

        self.drive(insert_carried(message, self.now_ms, effect.given), written, lambda _: self._carry(machine, effect))


def _shards(entry: BucketEntry) -> list[Partition]:
    return [Partition(entry.scope, entry.bucket_ms, shard) for shard in range(entry.shard_count)]
