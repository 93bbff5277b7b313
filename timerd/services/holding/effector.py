"""What partition machines decide is done here: each effect against the store, again until it is done or the machine is
gone, and what came of it is handed back.

One asyncio.Task per effect, never per timer. What a machine decided is in core/partition_machine.py; this module only
moves bytes between them and the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

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
from timerd.core.holding import Phase
from timerd.core.insert import ClosedForGood, insert_carried
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition_machine import PartitionMachine
from timerd.core.rehome import rehome, wanderers
from timerd.model.errors import CorruptRow, StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import Move, MoveState, control_key, move_key
from timerd.model.rows import RowGroup, concat
from timerd.model.storage import Append, Cas, CasStatus
from timerd.ports import Store
from timerd.services.holding.driving import drive
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.finishing import Finishing
from timerd.services.holding.hand_over import HandOver
from timerd.services.holding.held import Held
from timerd.services.holding.membership import Membership
from timerd.services.holding.merging import keep_pace, make_room, mark_ahead
from timerd.services.holding.opening import Opening
from timerd.services.holding.paging import count_rows
from timerd.services.holding.performing import Performer
from timerd.services.holding.read_ahead import ReadAhead
from timerd.services.holding.tries import Tries, surely

log = logging.getLogger(__name__)
RETRY_S = 0.25


class Effector:
    """Performs those of one instance."""

    def __init__(
        self,
        store: Store,
        time: EngineTime,
        instance: InstanceMachine,
        held: Held,
        procedures: Performer,
        membership: Membership,
        hand_over: HandOver,
        finishing: Finishing,
        opening: Opening,
        history_ms: int,
    ) -> None:
        self._store = store
        self._time = time
        self._instance = instance
        self._held = held
        self._procedures = procedures
        self._membership = membership
        self._hand_over = hand_over
        self._finishing = finishing
        self._opening = opening
        self._pages = ReadAhead(store, held.spawn)
        self._history_ms = history_ms
        # Hears of partitions that another instance has from now on, or has when rows are carried there that wait for
        # what workers have: it hears nothing of their leases otherwise.
        self.gone: Callable[[Partition], None] = lambda _partition: None
        # Throttles the loading of missed buckets (G14).
        self.throttle: Callable[[int], Awaitable[None]] | None = None
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
        held.attempt = self._attempt

    async def _attempt(self, machine: PartitionMachine, effect: Effect) -> None:
        """Until the store has done it, as long as the machine is the one that asked."""
        tries = Tries(f"{type(effect).__name__} of {machine.partition}")
        while self._held.machines.get(machine.partition) is machine:
            try:
                await self._handlers[type(effect)](machine, effect)
                return
            except (StoreUnavailable, StoreUnknown, ClosedForGood) as error:
                await asyncio.sleep(tries.failed(error))
            except CorruptRow as error:
                # It stays where it is, so that its lag is seen; what mends it needs a restart.
                log.error("%s: %s", machine.partition, error)
                return

    async def _read_control(self, machine: PartitionMachine, effect: ReadControl) -> None:
        control, is_finishing = await self._finishing.control_of(effect.partition)
        if control is not None and machine.phase is Phase.ACQUIRE:
            await self._membership.confirm(control)
        with self._held.events.watch(machine):
            effects = machine.control_read(control, int(self._time.exact_ms()), is_finishing=is_finishing)
        self._held.perform(machine, effects)
        self.after(machine)

    async def _change_control(self, machine: PartitionMachine, effect: ChangeControl) -> None:
        self._held.events.asking(machine, effect)
        expected = effect.expected.to_bytes() if effect.expected is not None else None
        change = Cas(control_key(effect.partition), expected, effect.value.to_bytes())
        result = (await self._store.cas([change]))[0]
        if result.status is CasStatus.UNKNOWN:
            # It is read and tried again, which a full disk would answer at once for as long as it is full.
            await asyncio.sleep(RETRY_S)
        with self._held.events.watch(machine):
            effects = machine.control_changed(result.status, int(self._time.exact_ms()))
        self._held.perform(machine, effects)
        self.after(machine)

    async def _read_settled(self, machine: PartitionMachine, effect: ReadSettled) -> None:
        records = await self._store.settled(effect.partition)
        self._held.perform(machine, machine.settled_read(records, int(self._time.exact_ms())))

    async def _read_page(self, machine: PartitionMachine, effect: ReadPage) -> None:
        page = await self._pages.page(machine, effect)
        if self.throttle is not None and self._instance.is_missed(effect.partition, int(self._time.exact_ms())):
            await self.throttle(sum(map(len, page.groups)))
        await keep_pace(machine)
        await make_room(machine)
        page = await mark_ahead(machine, page)
        with self._held.events.watch(machine):
            effects = machine.page_read(page, int(self._time.exact_ms()))
        self._held.perform(machine, effects)
        if machine.phase is Phase.HOT:
            self._opening.ready(machine.partition)
        if page.groups or machine.phase is Phase.HOT:
            self._held.wake()

    async def _write_settled(self, machine: PartitionMachine, effect: WriteSettled) -> None:
        await self._store.settle([effect.record], effect.letters)
        # Otherwise another holder may have read the records before this one was among them.
        self._time.check_sure()
        self._held.perform(machine, machine.settled_written(effect.record))
        self._held.written(machine)

    async def _write_carried(self, machine: PartitionMachine, effect: WriteCarried) -> None:
        self._time.check_sure()
        groups, now_ms = _merged(effect.groups), int(self._time.exact_ms())
        # Before the rows, for whoever reads one after the lease that it says has to know by then that it was extended.
        for partition, rows in groups:
            if partition not in self._held.machines and _is_leased(rows):
                self.gone(partition)
        try:
            await drive(insert_carried(Append(groups), now_ms, effect.given), self._procedures)
        except ClosedForGood:
            machine.log.carried_waits(effect.sequence)
            self._held.written(machine)
            raise
        found = [each for partition, rows in groups for each in wanderers(partition, rows, self._history_ms)]
        if found:
            await drive(rehome(found, now_ms, self._history_ms), self._procedures)
        machine.carried_written(effect.sequence)
        self._held.written(machine)

    async def _ask_moves(self, machine: PartitionMachine, effect: AskMoves) -> None:
        asked = {digest: machine.asking(digest) for digest in effect.digests}
        stored = await self._store.read([move_key(d) for d in effect.digests])
        moves = {d: Move.from_bytes(s) if s is not None else None for d, s in zip(effect.digests, stored, strict=True)}
        self._held.perform(machine, machine.moves_read(moves, asked))
        self._held.wake()

    async def _fail_move(self, machine: PartitionMachine, effect: FailMove) -> None:
        failed = effect.move.decided(MoveState.FAILED)
        change = Cas(move_key(effect.digest), effect.move.to_bytes(), failed.to_bytes(), failed.expires_at_ms)
        await self._store.cas([change])
        self._held.perform(machine, machine.recheck(effect.digest))

    async def _flag_finishing(self, machine: PartitionMachine, effect: FlagFinishing) -> None:
        await self._store.finish_bucket(effect.partition.scope, effect.partition.bucket_ms, finished=False)
        self._held.perform(machine, machine.flagged())

    async def _count_rows(self, machine: PartitionMachine, effect: CountRows) -> None:
        if effect.again:
            await asyncio.sleep(RETRY_S)
        rows, forwards = await count_rows(self._store, effect.partition)
        self._held.perform(machine, machine.counted(rows, int(self._time.exact_ms()), forwards))

    def after(self, machine: PartitionMachine) -> None:
        """Lets go of a machine that is over: once, for what it had asked for may be answered when the partition is held
        anew, and has the next machine by then."""
        if not machine.phase.is_over or self._held.machines.get(machine.partition) is not machine:
            return
        self._opening.ready(machine.partition)
        self._held.let_go(machine)
        if machine.phase is Phase.DONE:
            self._held.spawn(surely(self._finished(machine.partition)))
        elif machine.phase is Phase.HANDED_OVER:
            self._hand_over.ended(machine)
            self.gone(machine.partition)
        elif machine.phase is Phase.LOST and machine.control is not None:
            log.warning("%s is held by another instance now, or will be", machine.partition)
            self.gone(machine.partition)

    async def _finished(self, partition: Partition) -> None:
        if not await self._finishing.finish(partition):
            self._hand_over.done(partition)


def _is_leased(rows: RowGroup) -> bool:
    """Whether one of them waits for what a worker has."""
    leased = [at for at, extra in enumerate(rows.extras, start=1) if extra.lease_until_ms]
    return bool(leased) and bool(np.isin(rows.columns["extra"], leased).any())


def _merged(groups: Sequence[tuple[Partition, RowGroup]]) -> tuple[tuple[Partition, RowGroup], ...]:
    parts: Mapping[Partition, list[RowGroup]] = defaultdict(list)
    for partition, rows in groups:
        parts[partition].append(rows)
    return tuple((partition, concat(rows)) for partition, rows in parts.items())
