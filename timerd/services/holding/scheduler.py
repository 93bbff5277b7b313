"""Which partitions this instance holds, from one second to the next, and what its other parts ask of it for that.

What a machine decided is in core/partition/partition_machine.py, which partitions to hold in core/instance_machine.py;
how effects are performed in services/holding/effect_runner.py.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from timerd.core.dispatch import Deliveries
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition import Effect, HoldingSettings, Memory, PartitionMachine, Phase
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition, scope_of
from timerd.model.registers import Control
from timerd.model.rows import RowGroup
from timerd.model.storage import BucketEntry
from timerd.ports import Store
from timerd.services.holding.effect_runner import EffectRunner
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.finishing import Finishing, open_backlogs
from timerd.services.holding.halted_tasks import HaltedTasks
from timerd.services.holding.halting import Halting
from timerd.services.holding.hand_over import HandOver
from timerd.services.holding.held import Held
from timerd.services.holding.key_keeping import KeyKeeping
from timerd.services.holding.membership import Membership
from timerd.services.holding.opening import Opening
from timerd.services.holding.procedure_runner import PeersOf, ProcedureRunner
from timerd.services.holding.prolonging import Prolonging
from timerd.services.holding.read_through import ReadThrough
from timerd.services.holding.row_finder import RowFinder
from timerd.services.holding.single_instance import SingleInstance
from timerd.services.holding.throttle import Throttle
from timerd.services.holding.tries import surely

TICK_S = 0.1
RECONCILE_MS = 1_000
# While a missed bucket is loaded: the next one waits for it.
CATCH_UP_MS = 100
# While a task of an ordering key waits until it is known to be the first one.
AWAITED_MS = 200
# A missed bucket with no more rows than this is as good as done.
FEW_ROWS = 1_000
# The catalogue is asked for the backlogs of so many queues one by one.
FEW_SCOPES = 16


class Scheduler:
    """Of one instance. Without `peers` there is no other one."""

    def __init__(
        self,
        store: Store,
        time: EngineTime,
        settings: HoldingSettings,
        instance: InstanceMachine,
        memory: Memory,
        history_ms: int,
        membership: Membership | None = None,
        deliveries: Deliveries | None = None,
        throttle: Throttle | None = None,
        peers: PeersOf | None = None,
        secret: bytes = b"",
    ) -> None:
        # Of queues that have workers.
        self.scopes: dict[int, QueueKey] = {}
        self.memory = memory
        self._store = store
        self._time = time
        self._settings = settings
        self._instance = instance
        self._to_bring: set[int] = set()
        self._reconciled_ms, self._reconcile_every_ms = 0, RECONCILE_MS
        self.deliveries = deliveries or Deliveries.none()
        self.held = held = Held(time, settings.settle_every_ms / 1000, self.deliveries, self._attempt)
        self.machines = held.machines
        self.procedures = ProcedureRunner(store, held, self.hint, peers)
        self.finder = RowFinder(store, held.machines, self.procedures)
        self.membership = membership or SingleInstance(settings.holder)
        self.membership.on_lapse(self.drop_all)
        self.membership.on_change(self.look_soon)
        prolonging = Prolonging(held, self.deliveries, self.finder.look, store)
        self.hand_over = HandOver(held, self.membership, store, prolonging, self.procedures.others)
        keys, hand_over = memory.order_keys, self.hand_over
        keys.asks(self.deliveries.lease_of)
        self.read_through = ReadThrough(held.machines, hand_over.is_mine, keys.kept_shards, hand_over.is_done)
        self._key_keeping = KeyKeeping(keys, store, self.membership, hand_over, held.machines)
        memory.order_keys.on_given(held.wake)
        memory.limit_keys.on_given(held.wake, held.machines.gives)
        keys.is_single = is_single = self.procedures.others.is_single
        self.halting = Halting(keys, store, HaltedTasks(store, self.procedures).find, is_single=is_single)
        self.opening = Opening(self._opened)
        self.finishing = finishing = Finishing(store, instance, history_ms)
        self.effect_runner = EffectRunner(
            store,
            time,
            instance,
            held,
            self.procedures,
            self.membership,
            self.hand_over,
            finishing,
            self.opening,
            history_ms,
            throttle,
            secret,
        )

    # -- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            now_ms = self._time.firing_ms()
            if now_ms is not None and now_ms - self._reconciled_ms >= self._look_every_ms():
                self._reconciled_ms = now_ms
                await surely(self.reconcile(now_ms))
            if now_ms is not None:
                self._tick(now_ms)
            await asyncio.sleep(TICK_S)

    async def step(self, now_ms: int) -> None:
        """What `run` does, once and to its end: for tests that turn the clock by hand."""
        if self._time.is_sure:
            await surely(self.reconcile(now_ms))
            self._tick(now_ms)
        await self.held.until_idle()

    def _tick(self, now_ms: int) -> None:
        self.held.tick(now_ms)
        self.memory.order_keys.lapse(now_ms)

    def _look_every_ms(self) -> int:
        keys = self.memory.order_keys
        is_awaited = keys.awaited_ms >= keys.kept_shards.looked_ms
        return min(AWAITED_MS, self._reconcile_every_ms) if is_awaited else self._reconcile_every_ms

    def look_soon(self) -> None:
        self._reconciled_ms = 0

    async def reconcile(self, now_ms: int) -> None:
        """Holds what should be held, lets go of what is done."""
        if not self.memory.order_keys.halts.is_read:
            await self.halting.read()
        near_ms = now_ms + self._instance.look_ahead_ms
        self.read_through.begin_look(now_ms)
        await self.halting.look()
        asked = list(self.scopes)
        catalogue = await self._store.catalogue(TIME_SCOPE, -(1 << 62), near_ms + 1)
        scopes = await self._backlogs(asked)
        self.hand_over.forget_done(chain(catalogue, *scopes.values()))
        mine = self.hand_over.is_mine
        wanted = self._instance.wanted(now_ms, catalogue, scopes, mine, self._is_loaded, self._is_small)
        for partition in wanted:
            self.hold(partition)
        self.read_through.looked(catalogue, scopes, asked)
        missed = (p for p in wanted if p.scope == TIME_SCOPE and self._instance.is_missed(p, now_ms))
        self._reconcile_every_ms = RECONCILE_MS if all(map(self._is_loaded, missed)) else CATCH_UP_MS
        self.held.foreign_rows()
        await self.hand_over.give_due(now_ms)
        self.hand_over.let_go(set(wanted), now_ms)
        self.hand_over.remind()
        open_backlogs(self.machines.values(), catalogue)
        await self.halting.tend()
        if not self.procedures.others.is_single:
            await self._key_keeping.step(wanted)

    async def drop_expired(self, now_ms: int) -> None:
        self.procedures.settled.forget()
        await self.finishing.drop_expired(now_ms)

    async def leave(self, now_ms: int) -> None:
        """A graceful stop: what is open is carried to the end of its lease, everything settled, the marks moved."""
        await self.hand_over.leave(now_ms)
        await surely(self._key_keeping.leave())

    def drop_all(self) -> None:
        """Others may hold it by now: nothing of it is sent or said any more."""
        self.memory.order_keys.kept_shards.lapse()
        for machine in list(self.machines.values()):
            self.held.events.dropped(machine)
            machine.lose()
            self.effect_runner.after(machine)

    # -- what the engine asks -------------------------------------------------------------------------------------

    def hold(self, partition: Partition, control: Control | None = None) -> None:
        """`control`: its row, as its last holder says that it left it. The compare-and-set shows whether it is so."""
        if partition in self.machines or self.hand_over.is_leaving or not self._time.is_sure:
            return
        me = self.membership
        settings = replace(self._settings, address=me.address_of(me.name), incarnation=me.incarnation)
        machine = PartitionMachine(partition, settings, self.memory, me.may_take)
        self.machines[partition] = machine
        self.held.events.begins(machine)
        known = control is not None and not control.holder
        now_ms = int(self._time.exact_ms())
        self.held.perform(machine, machine.control_read(control, now_ms) if known else machine.start())

    def open_backlog(self, queue: QueueKey) -> None:
        """A queue has a worker again."""
        scope = scope_of(*queue)
        self.scopes[scope] = queue
        self.read_through.opened(scope)
        self.opening.begin(scope)
        self._to_bring.add(scope)
        self.held.spawn(surely(self._bring_backlog(scope)))

    def hint(self, partition: Partition, rows: RowGroup, source: int, may_repeat: bool = False) -> None:
        """Rows were just written: into memory, or hold the partition. From other instances they may come again."""
        machine = self.machines.get(partition)
        if machine is not None:
            machine.hint(rows, source, may_repeat=may_repeat or not self._settings.traits.knows_repeats)
            self.held.wake()
        elif self._is_near(partition) and self.hand_over.is_mine(partition):
            self.hold(partition)

    def receive(self, partition: Partition, control: Control | None = None) -> None:
        """A holder has let go of it for this instance."""
        self.held.spawn(surely(self._receive(partition, control)))

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _attempt(self, machine: PartitionMachine, effect: Effect) -> None:
        await self.effect_runner.attempt(machine, effect)

    def _opened(self, scope: int) -> None:
        """The queue may be delivered."""
        if (queue := self.scopes.get(scope)) is not None:
            self.memory.touched.add(queue)
        self.held.wake()

    async def _bring_backlog(self, scope: int) -> None:
        """Of many queues that a worker has named in one message all at once."""
        if scope not in self._to_bring:
            return
        scopes = [scope] if len(self._to_bring) <= FEW_SCOPES else list(self._to_bring)
        self._to_bring.difference_update(scopes)
        found = await self._backlogs(scopes)
        for each in scopes:
            partitions = self._instance.backlog({each: found.get(each, ())}, self.hand_over.is_mine)
            for partition in partitions:
                self.hold(partition)
            loading = [p for p in partitions if p in self.machines and self.machines[p].phase is not Phase.HOT]
            self.opening.expect(each, loading)

    async def _backlogs(self, scopes: Sequence[int]) -> dict[int, Sequence[BucketEntry]]:
        """Those of many queues by one read: it is made each second."""
        if len(scopes) <= FEW_SCOPES:
            return {scope: await self._store.catalogue(scope, -(1 << 62), 1 << 62) for scope in scopes}
        wanted, found = set(scopes), defaultdict[int, list[BucketEntry]](list)
        for entry in await self._store.catalogue(None, -(1 << 62), 1 << 62):
            if entry.scope in wanted:
                found[entry.scope].append(entry)
        return dict(found)

    async def _receive(self, partition: Partition, control: Control | None) -> None:
        """If it is leaving, that is to be known before anything is given away: else it would be handed back to it."""
        with self.hand_over.looking():
            self.hold(partition, control)
            await self.membership.refresh()
            # An earlier try may have met the last holder.
            self.hold(partition)

    def _is_loaded(self, partition: Partition) -> bool:
        machine = self.machines.get(partition)
        return machine is not None and machine.phase.is_loaded

    def _is_small(self, partition: Partition) -> bool:
        machine = self.machines.get(partition)
        return machine is None or machine.waiting_rows <= FEW_ROWS

    def _is_near(self, partition: Partition) -> bool:
        return partition.scope in self.scopes or self._instance.is_near(partition, int(self._time.exact_ms()))
