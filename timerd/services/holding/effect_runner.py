"""What partition machines decide is done here: each effect against the store, again until it is done or the machine is
gone, and what came of it is handed back.

One asyncio.Task per effect, never per timer. What a machine decided is in core/partition/partition_machine.py; this
module only moves bytes between them and the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effect,
    FailMove,
    FlagFinishing,
    PartitionMachine,
    Phase,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.protocol import ClosedForGood, insert_carried, relocate, relocated_rows, tasks_of_ends
from timerd.model.errors import CorruptRow, NotUnderstood, StoreUnavailable, StoreUnknown
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
from timerd.services.holding.procedure_runner import ProcedureRunner
from timerd.services.holding.read_ahead import ReadAhead
from timerd.services.holding.throttle import Throttle
from timerd.services.holding.tries import Tries, surely

log = logging.getLogger(__name__)
RETRY_S = 0.25


class _HalfWay(Exception):
    """A machine raised while it heard a fact."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def _telling() -> Iterator[None]:
    """What the machine hears in here it hears once."""
    try:
        yield
    except Exception as error:
        raise _HalfWay(error) from error


class EffectRunner:
    """Performs those of one instance."""

    def __init__(
        self,
        store: Store,
        time: EngineTime,
        instance: InstanceMachine,
        held: Held,
        procedures: ProcedureRunner,
        membership: Membership,
        hand_over: HandOver,
        finishing: Finishing,
        opening: Opening,
        history_ms: int,
        throttle: Throttle | None,
        secret: bytes = b"",
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
        self._told_gone: list[Callable[[Partition], None]] = []
        self._told_made: list[Callable[[RowGroup], None]] = []
        self._secret = secret
        # Of the loading of missed buckets (G14).
        self._throttle = throttle
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

    def on_gone(self, told: Callable[[Partition], None]) -> None:
        """`told` hears of each partition that another instance has from now on, or has when rows are carried there that
        wait for what workers have: it hears nothing of their leases otherwise."""
        self._told_gone.append(told)

    def on_made(self, told: Callable[[RowGroup], None]) -> None:
        """`told` hears of the tasks that others have made when they ended; of an earlier holder's it has heard."""
        self._told_made.append(told)

    def _gone(self, partition: Partition) -> None:
        for told in self._told_gone:
            told(partition)

    async def attempt(self, machine: PartitionMachine, effect: Effect) -> None:
        """Until the store has done it, as long as the machine is the one that asked. What nobody foresaw is tried a few
        times; a machine that raised while it heard a fact is given up at once, for its state is in doubt."""
        name = type(effect).__name__
        tries = Tries(f"{name} of {machine.partition}")
        while self._held.machines.get(machine.partition) is machine:
            try:
                await self._handlers[type(effect)](machine, effect)
                self._held.failures.done(machine.partition, name)
                return
            except (StoreUnavailable, StoreUnknown, ClosedForGood, NotUnderstood) as error:
                await asyncio.sleep(tries.failed(error))
            except CorruptRow as error:
                # It stays where it is, so that its lag is seen; what mends it needs a restart.
                log.error("%s: %s", machine.partition, error)
                return
            except _HalfWay as error:
                self._held.give_up(machine, name, error.cause)
            except Exception as error:  # noqa: BLE001 - it is noted
                pause_s = tries.failed(error)
                if tries.are_over:
                    self._held.give_up(machine, name, error)
                    return
                self._held.failures.add(machine.partition, name, error, "tries again")
                await asyncio.sleep(pause_s)

    async def _read_control(self, machine: PartitionMachine, effect: ReadControl) -> None:
        control, is_finishing = await self._finishing.control_of(effect.partition)
        if control is not None and machine.phase is Phase.ACQUIRE:
            await self._membership.confirm(control)
        with _telling():
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
        with _telling():
            with self._held.events.watch(machine):
                effects = machine.control_changed(result.status, int(self._time.exact_ms()))
            self._held.perform(machine, effects)
            self.after(machine)

    async def _read_settled(self, machine: PartitionMachine, effect: ReadSettled) -> None:
        records = await self._store.settled(effect.partition)
        with _telling():
            self._held.perform(machine, machine.settled_read(records, int(self._time.exact_ms())))

    async def _read_page(self, machine: PartitionMachine, effect: ReadPage) -> None:
        page = await self._pages.page(machine, effect)
        if self._throttle is not None and self._instance.is_missed(effect.partition, int(self._time.exact_ms())):
            await self._throttle.wait(sum(map(len, page.groups)))
        await keep_pace(machine)
        await make_room(machine)
        page = await mark_ahead(machine, page)
        with _telling():
            with self._held.events.watch(machine):
                effects = machine.page_read(page, int(self._time.exact_ms()))
            self._held.perform(machine, effects)
        if machine.phase is Phase.HOT:
            self._opening.ready(machine.partition)
        if page.groups or machine.phase is Phase.HOT:
            self._held.wake()

    async def _write_settled(self, machine: PartitionMachine, effect: WriteSettled) -> None:
        await self._store.settle([effect.record], effect.dead_letters)
        # Otherwise another holder may have read the records before this one was among them.
        self._time.check_sure()
        with _telling():
            self._held.perform(machine, machine.settled_written(effect.record))
            self._held.written(machine)

    async def _write_carried(self, machine: PartitionMachine, effect: WriteCarried) -> None:
        self._time.check_sure()
        made = await self._made(effect)
        groups, now_ms = _merged([*effect.groups, *made]), int(self._time.exact_ms())
        # Before the rows, for a holder that reads one after the lease that it says has to know by then that it was
        # extended.
        for partition, rows in groups:
            if partition not in self._held.machines and _is_leased(rows):
                self._gone(partition)
        try:
            await drive(insert_carried(Append(groups), now_ms, effect.given), self._procedures)
        except ClosedForGood:
            machine.carried_waits(effect.sequence)
            self._held.written(machine)
            raise
        found = [each for partition, rows in groups for each in relocated_rows(partition, rows, self._history_ms)]
        if found:
            await drive(relocate(found, now_ms, self._history_ms), self._procedures)
        with _telling():
            machine.carried_written(effect.sequence)
            self._held.written(machine)
        for told in self._told_made if effect.sequence >= 0 else ():
            for _, rows in made:
                told(rows)

    async def _made(self, effect: WriteCarried) -> list[tuple[Partition, RowGroup]]:
        """The tasks that these ends make."""
        made = tasks_of_ends(effect.partition, effect.ends, self._secret, effect.unwritten)
        return await drive(made, self._procedures)

    async def _ask_moves(self, machine: PartitionMachine, effect: AskMoves) -> None:
        asked = {digest: machine.asking(digest) for digest in effect.digests}
        stored = await self._store.read([move_key(d) for d in effect.digests])
        moves = dict(_moves(zip(effect.digests, stored, strict=True)))
        with _telling():
            self._held.perform(machine, machine.moves_read(moves, asked))
            self._held.wake()

    async def _fail_move(self, machine: PartitionMachine, effect: FailMove) -> None:
        failed = effect.move.decided(MoveState.FAILED)
        change = Cas(move_key(effect.digest), effect.move.to_bytes(), failed.to_bytes(), failed.expires_at_ms)
        await self._store.cas([change])
        with _telling():
            self._held.perform(machine, machine.recheck([effect.digest]))

    async def _flag_finishing(self, machine: PartitionMachine, effect: FlagFinishing) -> None:
        await self._store.finish_bucket(effect.partition.scope, effect.partition.bucket_ms, finished=False)
        with _telling():
            self._held.perform(machine, machine.flagged())

    async def _count_rows(self, machine: PartitionMachine, effect: CountRows) -> None:
        if effect.again:
            await asyncio.sleep(RETRY_S)
        rows, forwards = await count_rows(self._store, effect.partition)
        with _telling():
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
        elif machine.phase is Phase.REFUSED:
            self._hand_over.note_needs(machine)
        elif machine.phase is Phase.HANDED_OVER:
            self._hand_over.ended(machine)
            self._gone(machine.partition)
        elif machine.phase is Phase.LOST and machine.control is not None:
            log.warning("%s is held by another instance now, or will be", machine.partition)
            self._gone(machine.partition)

    async def _finished(self, partition: Partition) -> None:
        if not await self._finishing.finish(partition):
            self._hand_over.done(partition)


def _moves(stored: Iterable[tuple[bytes, bytes | None]]) -> Iterator[tuple[bytes, Move | None]]:
    """By digest. A task whose register this release does not understand goes on waiting for it."""
    for digest, each in stored:
        try:
            yield digest, Move.from_bytes(each) if each is not None else None
        except NotUnderstood as error:
            log.warning("a task that moved waits: %s", error)


def _is_leased(rows: RowGroup) -> bool:
    """Whether one of them waits for what a worker has."""
    leased = [at for at, extra in enumerate(rows.extras, start=1) if extra.lease_until_ms]
    return bool(leased) and bool(np.isin(rows.columns["extra"], leased).any())


def _merged(groups: Sequence[tuple[Partition, RowGroup]]) -> tuple[tuple[Partition, RowGroup], ...]:
    parts: Mapping[Partition, list[RowGroup]] = defaultdict(list)
    for partition, rows in groups:
        parts[partition].append(rows)
    return tuple((partition, concat(rows)) for partition, rows in parts.items())
