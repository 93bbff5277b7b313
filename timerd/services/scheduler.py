"""The shell around the partition machines: holds partitions, performs effects, hands facts back.

One asyncio.Task per effect, never per timer. What a machine decided is in core/partition_machine.py; which partitions
to hold, in core/instance_machine.py; this module only moves bytes between them and the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from timerd.core.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effect,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.holding import Phase, Settings
from timerd.core.insert import ClosedForGood, insert
from timerd.core.instance_machine import InstanceMachine
from timerd.core.memory import Memory
from timerd.core.partition_machine import PartitionMachine
from timerd.core.rehome import rehome, wanderers
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Move, MoveState, control_key, move_key
from timerd.model.rows import RowGroup, concat
from timerd.model.settle import CarryReason
from timerd.model.storage import Append, Cas, CasStatus
from timerd.ports import Store
from timerd.services.engine_time import EngineTime
from timerd.services.finishing import Finishing
from timerd.services.hand_over import HandOver
from timerd.services.membership import Alone, Membership
from timerd.services.merging import make_room, mark_ahead
from timerd.services.opening import Opening
from timerd.services.paging import count_rows, read_page
from timerd.services.performing import Performer, drive
from timerd.services.tickets import Tickets
from timerd.services.tries import Tries

log = logging.getLogger(__name__)
TICK_S = 0.1
RECONCILE_MS = 1_000
RETRY_S = 0.25
SETTLE_EVERY_S = 0.005
Leases = Callable[[RowKey], int | None]


class Scheduler:
    """Runs the machines of one instance. `wake` callbacks are called when rows may be due earlier than was said."""

    def __init__(
        self,
        store: Store,
        time: EngineTime,
        settings: Settings,
        instance: InstanceMachine,
        memory: Memory,
        history_ms: int,
        membership: Membership | None = None,
    ) -> None:
        self.machines: dict[Partition, PartitionMachine] = {}
        self.scopes: dict[int, int] = {}
        self.memory = memory
        self._store = store
        self._time = time
        self._settings = settings
        self._instance = instance
        self._history_ms = history_ms
        self.procedures = Performer(store, self)
        self.membership = membership or Alone(settings.holder)
        self.membership.on_lapse(self.drop_all)
        self.membership.on_change(self.look_soon)
        self.hand_over = HandOver(self, self.membership, store)
        self.finishing = Finishing(store, instance, history_ms)
        self._tasks: set[asyncio.Task[None]] = set()
        self._tickets = Tickets()
        self._reconciled_ms = 0
        self._settling: set[Partition] = set()
        self._settled_s: dict[Partition, float] = {}
        self._wakes: list[Callable[[], None]] = []
        self.opening = Opening(self.wake)
        # Then nothing more is acquired.
        self.is_stopping = False
        self._handlers: dict[type[Effect], Callable[[PartitionMachine, Any], Awaitable[None]]] = {
            ReadControl: self._read_control,
            ChangeControl: self._change_control,
            ReadSettled: self._read_settled,
            ReadPage: self._read_page,
            WriteSettled: self._write_settled,
            WriteCarried: self._write_carried,
            AskMoves: self._ask_moves,
            FailMove: self._fail_move,
            FlagFinishing: self._flag_finishing,
            CountRows: self._count_rows,
        }
        self.lease_of: Leases = lambda _key: None
        # Hears of partitions that another instance has from now on.
        self.gone: Callable[[Partition], None] = lambda _partition: None
        # Hears of rows that were carried on while a worker has them, and knows which wait for that.
        self.carried: Callable[[PartitionMachine, Iterable[RowKey]], None] = lambda _machine, _keys: None
        self.waits: Callable[[RowKey], bool] = lambda _key: False
        # Throttles the loading of missed buckets (G14).
        self.throttle: Callable[[int], Awaitable[None]] | None = None

    # -- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            now_ms = self._time.firing_ms()
            if now_ms is not None and now_ms - self._reconciled_ms >= RECONCILE_MS:
                self._reconciled_ms = now_ms
                await self._surely(self.reconcile(now_ms))
            if now_ms is not None:
                self.tick(now_ms)
            await asyncio.sleep(TICK_S)

    async def step(self, now_ms: int) -> None:
        """What `run` does, once and to its end: for whoever turns the clock by hand."""
        if self._time.is_sure:
            await self._surely(self.reconcile(now_ms))
            self.tick(now_ms)
        await self.until_idle()

    def look_soon(self) -> None:
        self._reconciled_ms = 0

    def tick(self, now_ms: int) -> None:
        for machine in list(self.machines.values()):
            if machine.phase is Phase.HOT:
                self._guard(machine, machine.laggards(now_ms), now_ms, CarryReason.GUARD)
            elif machine.phase is Phase.HAND_OVER:
                self.carry_open(machine, now_ms)
            self.perform(machine, machine.tick(now_ms))

    async def reconcile(self, now_ms: int) -> None:
        """Holds what should be held, lets go of what is done."""
        near_ms = now_ms + self._instance.look_ahead_ms
        catalogue = await self._store.catalogue(TIME_SCOPE, -(1 << 62), near_ms + 1)
        scopes = {s: await self._store.catalogue(s, -(1 << 62), 1 << 62) for s in list(self.scopes)}
        self.hand_over.forget_done(chain(catalogue, *scopes.values()))
        wanted = self._instance.wanted(now_ms, catalogue, scopes, self.hand_over.is_mine)
        for partition in wanted:
            self.hold(partition)
        self.hand_over.begin_due(now_ms)
        self.hand_over.let_go(set(wanted), now_ms)
        await self.finishing.open_backlogs(self.machines.values())

    async def drop_expired(self, now_ms: int) -> None:
        self.procedures.settled.forget()
        await self.finishing.drop_expired(now_ms)

    async def leave(self, now_ms: int) -> None:
        """A graceful stop: what is open is carried to the end of its lease, everything settled, the marks moved."""
        await self.hand_over.leave(now_ms)

    def drop_all(self) -> None:
        """Others may hold it by now: nothing of it is sent or said any more."""
        for machine in list(self.machines.values()):
            machine.lose()
            self._after(machine)

    def on_due(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    # -- what the engine asks -------------------------------------------------------------------------------------

    def hold(self, partition: Partition) -> None:
        if partition in self.machines or self.is_stopping or not self._time.is_sure:
            return
        me = self.membership
        settings = replace(self._settings, address=me.address_of(me.name), incarnation=me.incarnation)
        machine = PartitionMachine(partition, settings, self.memory, me.may_take)
        self.machines[partition] = machine
        self.perform(machine, machine.start())

    def open_backlog(self, scope: int) -> None:
        """A queue has a worker again."""
        self.scopes[scope] = 1
        self.opening.begin(scope)
        self.spawn(self._surely(self._bring_backlog(scope)))

    def hint(self, partition: Partition, rows: RowGroup, source: int, *, may_repeat: bool = False) -> None:
        """Rows were just written: into memory, or hold the partition. From other instances they may come again."""
        machine = self.machines.get(partition)
        if machine is not None:
            machine.hint(rows, source, may_repeat=may_repeat)
            self.wake()
        elif self._is_near(partition) and self.hand_over.is_mine(partition):
            self.hold(partition)

    def wake(self) -> None:
        for wake in self._wakes:
            wake()

    def has_in_hand(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        """Whether a worker has a delivery that this row waits for; `lease_until_ms` is that of the row."""
        machine = self.machines.get(partition)
        if machine is not None and (key.position_ms < machine.floor_ms or machine.log.settled.get(key) is not None):
            return False
        return self.lease_of(key) is not None or self.waits(key) or lease_until_ms > self._time.exact_ms()

    def perform(self, machine: PartitionMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self.spawn(self._attempt(machine, effect))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def settle_soon(self, machine: PartitionMachine) -> None:
        """Writes what ended: at once after a pause, else with what ends in the next milliseconds, for a commit costs
        more than a thousand endings in it."""
        if machine.partition in self._settling:
            return
        self._settling.add(machine.partition)
        loop = asyncio.get_running_loop()
        last_s = self._settled_s.get(machine.partition, 0.0)
        loop.call_at(max(loop.time(), last_s + SETTLE_EVERY_S), self._settle, machine)

    def _settle(self, machine: PartitionMachine) -> None:
        self._settling.discard(machine.partition)
        self._settled_s[machine.partition] = asyncio.get_running_loop().time()
        self.perform(machine, machine.flush())

    def durable(self, machine: PartitionMachine, ticket: int) -> asyncio.Future[None]:
        """Done when the ticket is. Raises NoLongerHeld."""
        return self._tickets.durable(machine, ticket)

    # -- effects --------------------------------------------------------------------------------------------------

    async def _attempt(self, machine: PartitionMachine, effect: Effect) -> None:
        """Until the store has done it, as long as the machine is the one that asked."""
        tries = Tries(f"{type(effect).__name__} of {machine.partition}")
        while self.machines.get(machine.partition) is machine:
            try:
                await self._handlers[type(effect)](machine, effect)
                return
            except (StoreUnavailable, StoreUnknown, ClosedForGood) as error:
                await asyncio.sleep(tries.failed(error))

    async def _read_control(self, machine: PartitionMachine, effect: ReadControl) -> None:
        control, is_finishing = await self.finishing.control_of(effect.partition)
        if control is not None and machine.phase is Phase.ACQUIRE:
            await self.membership.confirm(control)
        self.perform(machine, machine.control_read(control, int(self._time.exact_ms()), is_finishing=is_finishing))
        self._after(machine)

    async def _change_control(self, machine: PartitionMachine, effect: ChangeControl) -> None:
        expected = effect.expected.to_bytes() if effect.expected is not None else None
        change = Cas(control_key(effect.partition), expected, effect.value.to_bytes())
        result = (await self._store.cas([change]))[0]
        if result.status is CasStatus.UNKNOWN:
            # It is read and tried again, which a full disk would answer at once for as long as it is full.
            await asyncio.sleep(RETRY_S)
        self.perform(machine, machine.control_changed(result.status, int(self._time.exact_ms())))
        self._after(machine)

    async def _read_settled(self, machine: PartitionMachine, effect: ReadSettled) -> None:
        records = await self._store.settled(effect.partition)
        self.perform(machine, machine.settled_read(records, int(self._time.exact_ms())))

    async def _read_page(self, machine: PartitionMachine, effect: ReadPage) -> None:
        page = await read_page(self._store, effect, machine.rows.lacking)
        if self.throttle is not None and self._instance.is_missed(effect.partition, int(self._time.exact_ms())):
            await self.throttle(sum(map(len, page.groups)))
        await make_room(machine)
        page = await mark_ahead(machine, page)
        self.perform(machine, machine.page_read(page, int(self._time.exact_ms())))
        if machine.phase is Phase.HOT:
            self.opening.ready(machine.partition)
        if page.groups or machine.phase is Phase.HOT:
            self.wake()

    async def _write_settled(self, machine: PartitionMachine, effect: WriteSettled) -> None:
        await self._store.settle([effect.record], effect.letters)
        # Otherwise another holder may have read the records before this one was among them.
        self._time.check_sure()
        self.perform(machine, machine.settled_written(effect.record))
        self._settled(machine)

    async def _write_carried(self, machine: PartitionMachine, effect: WriteCarried) -> None:
        self._time.check_sure()
        groups, now_ms = _merged(effect.groups), int(self._time.exact_ms())
        await drive(insert(Append(groups), now_ms), self.procedures)
        found = [each for partition, rows in groups for each in wanderers(partition, rows, self._history_ms)]
        if found:
            await drive(rehome(found, now_ms, self._history_ms), self.procedures)
        machine.carried_written(effect.sequence)
        self._settled(machine)

    async def _ask_moves(self, machine: PartitionMachine, effect: AskMoves) -> None:
        asked = {digest: machine.asking(digest) for digest in effect.digests}
        stored = await self._store.read([move_key(d) for d in effect.digests])
        moves = {d: Move.from_bytes(s) if s is not None else None for d, s in zip(effect.digests, stored, strict=True)}
        self.perform(machine, machine.moves_read(moves, asked))
        self.wake()

    async def _fail_move(self, machine: PartitionMachine, effect: FailMove) -> None:
        failed = effect.move.decided(MoveState.FAILED)
        change = Cas(move_key(effect.digest), effect.move.to_bytes(), failed.to_bytes(), failed.expires_at_ms)
        await self._store.cas([change])
        self.perform(machine, machine.recheck(effect.digest))

    async def _flag_finishing(self, machine: PartitionMachine, effect: FlagFinishing) -> None:
        await self._store.finish_bucket(effect.partition.scope, effect.partition.bucket_ms, finished=False)
        self.perform(machine, machine.flagged())

    async def _count_rows(self, machine: PartitionMachine, effect: CountRows) -> None:
        if effect.again:
            await asyncio.sleep(RETRY_S)
        rows, forwards = await count_rows(self._store, effect.partition)
        self.perform(machine, machine.counted(rows, int(self._time.exact_ms()), forwards))

    # -- inside ---------------------------------------------------------------------------------------------------

    async def until_idle(self) -> None:
        """What one effect leads to is performed as well."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _bring_backlog(self, scope: int) -> None:
        entries = await self._store.catalogue(scope, -(1 << 62), 1 << 62)
        partitions = self._instance.backlog({scope: entries}, self.hand_over.is_mine)
        for partition in partitions:
            self.hold(partition)
        loading = [p for p in partitions if p in self.machines and self.machines[p].phase is not Phase.HOT]
        self.opening.expect(scope, loading)

    def _after(self, machine: PartitionMachine) -> None:
        """Lets go of a machine that is over."""
        if not machine.phase.is_over:
            return
        self.opening.ready(machine.partition)
        self.machines.pop(machine.partition, None)
        self._settled_s.pop(machine.partition, None)
        self._tickets.lose(machine)
        if machine.phase is Phase.DONE:
            self.spawn(self._surely(self._finished(machine.partition)))
        elif machine.phase is Phase.HANDED_OVER:
            self.hand_over.ended(machine)
            self.gone(machine.partition)
        elif machine.phase is Phase.LOST and machine.control is not None:
            log.warning("%s is held by another instance now, or will be", machine.partition)
            self.gone(machine.partition)

    async def _finished(self, partition: Partition) -> None:
        if not await self.finishing.finish(partition):
            self.hand_over.done(partition)

    def _is_near(self, partition: Partition) -> bool:
        return partition.scope in self.scopes or self._instance.is_near(partition, int(self._time.exact_ms()))

    def carry_open(self, machine: PartitionMachine, now_ms: int) -> None:
        """What workers have in hand stays with them: the next holder treats it as in flight."""
        self._guard(machine, list(machine.rows.open_before(1 << 62)), now_ms, CarryReason.HAND_OVER)

    def _guard(self, machine: PartitionMachine, keys: Sequence[RowKey], now_ms: int, reason: CarryReason) -> None:
        """Only deliveries that a worker still has are guarded. What has just been settled is open for a turn of the
        loop more, until the delivery machine ends or retries it: carried, it would fire once more."""
        leases = {key: until_ms for key in keys if (until_ms := self.lease_of(key)) is not None}
        if leases:
            machine.guard(leases, now_ms, reason)
            self.carried(machine, leases)

    def _settled(self, machine: PartitionMachine) -> None:
        self._tickets.resolve(machine)
        if machine.phase is Phase.HAND_OVER:
            self.perform(machine, machine.tick(int(self._time.exact_ms())))

    async def _surely(self, work: Awaitable[None]) -> None:
        """Housekeeping that the next round repeats."""
        try:
            await work
        except (StoreUnavailable, StoreUnknown) as error:
            log.warning("the store did not answer: %s", error)


def _merged(groups: Sequence[tuple[Partition, RowGroup]]) -> tuple[tuple[Partition, RowGroup], ...]:
    parts: Mapping[Partition, list[RowGroup]] = defaultdict(list)
    for partition, rows in groups:
        parts[partition].append(rows)
    return tuple((partition, concat(rows)) for partition, rows in parts.items())
