"""Who should hold which partition, and the way of those that should be with somebody else (protocol section 4).

A holder sees by its own placement that a partition is not its own any more. It sends nothing more from it, carries what
workers have in hand, settles, and names the successor in one compare-and-set; a call tells the successor, which would
find it within a second anyway. Nothing is asked for: an instance that misses a partition looks at its control row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from timerd.core.holding import Phase
from timerd.core.instance_machine import shards_of
from timerd.core.partition_machine import PartitionMachine
from timerd.core.placement import holder_of
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, control_key
from timerd.model.storage import BucketEntry
from timerd.ports import Store
from timerd.services.holding.held import Held
from timerd.services.holding.membership import Membership
from timerd.services.holding.tries import surely

log = logging.getLogger(__name__)
# A stop does not wait longer for a store that does not answer: the next holder completes what is missing.
LEAVE_S = 5.0
# Of these so long for the rows that wait for leases: what is open has to be carried as well.
PROLONG_S = 2.0
# Nor longer than this for successors to have begun.
SUCCEEDED_S = 2.0
LOOK_S = 0.05


class Notices(Protocol):
    """Nobody waits for these, and they may be lost."""

    def hand_over(self, address: str, partitions: Sequence[Partition]) -> None: ...


class Silence:
    """Where there is nobody to tell."""

    def hand_over(self, address: str, partitions: Sequence[Partition]) -> None:
        """It is found without."""


class HandOver:
    """Of one instance."""

    def __init__(self, held: Held, membership: Membership, store: Store) -> None:
        self.notices: Notices = Silence()
        self._held = held
        self._membership = membership
        self._store = store
        self._done: set[Partition] = set()
        # Then nothing more is acquired.
        self.is_leaving = False
        # It is about to leave, and what waits for leases has not been carried on.
        self._keeps = False
        # Handed over at this stop.
        self._given: list[Partition] = []

    def place_of(self, partition: Partition) -> str:
        """The instance that should hold it; empty where all are leaving."""
        live = self._membership.live()
        return holder_of(partition, live) if len(live) > 1 else "".join(live)

    def is_mine(self, partition: Partition) -> bool:
        """Placed here, and not done yet."""
        return partition not in self._done and self.place_of(partition) == self._membership.name

    def done(self, partition: Partition) -> None:
        """A shard that is over while others of its bucket are not."""
        self._done.add(partition)

    def forget_done(self, known: Iterable[BucketEntry]) -> None:
        if self._done:
            self._done &= {p for entry in known if not entry.finished for p in shards_of(entry)}

    def begin_due(self, now_ms: int) -> None:
        """What is placed elsewhere by now. Who has just come may take one for living who is dead: to that one nothing
        is given. Who leaves has no choice."""
        if self._keeps:
            return
        for machine in list(self._held.machines.values()):
            successor = self.place_of(machine.partition)
            if machine.phase not in (Phase.LOAD, Phase.HOT) or successor == self._membership.name:
                continue
            if self.is_leaving or not successor or self._membership.has_moved(successor):
                self.begin(machine, successor, now_ms)

    def begin(self, machine: PartitionMachine, successor: str, now_ms: int) -> None:
        effects = machine.hand_over(successor)
        if machine.phase is not Phase.HAND_OVER:
            return
        log.info("%s is handed over to %s", machine.partition, successor or "whoever needs it")
        self._held.carry_sent(machine, now_ms)
        self._held.perform(machine, [*effects, *machine.tick(now_ms)])

    def let_go(self, wanted: set[Partition], now_ms: int) -> None:
        """Of backlogs whose workers left. Alone, nobody needs to know."""
        for partition, machine in list(self._held.machines.items()):
            idle = machine.phase is Phase.HOT and not machine.rows.open and machine.log.is_idle
            if partition.scope == TIME_SCOPE or partition in wanted or not idle:
                continue
            if self._membership.incarnation:
                self.begin(machine, "", now_ms)
            else:
                machine.rows.drop_all()
                self._held.let_go(machine)

    def ended(self, machine: PartitionMachine) -> None:
        """Nobody holds it now. Only a stop waits for who takes it over."""
        if self.is_leaving:
            self._given.append(machine.partition)
        if machine.successor:
            self.notices.hand_over(self._membership.address_of(machine.successor), [machine.partition])

    def keep(self) -> None:
        """From here to `leave` nothing is given away, although all is placed elsewhere as soon as others are told: who
        gives a row away can carry it no more, and knows alone that the lease was extended which it waits for."""
        self._keeps = True

    async def leave(self, now_ms: int) -> None:
        """A graceful stop. What nobody takes over is carried and settled, and the next start goes on from there."""
        self._given.clear()
        self.is_leaving = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._prolong(now_ms)
                while self._membership.incarnation and self._held.machines:
                    self.begin_due(now_ms)
                    self._held.tick(now_ms)
                    await asyncio.sleep(LOOK_S)
                    self._carry_all(now_ms)
                self._settle_all(now_ms)
                await self._held.until_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUCCEEDED_S):
                await self._until_succeeded()

    async def _prolong(self, now_ms: int) -> None:
        try:
            async with asyncio.timeout(PROLONG_S):
                await surely(self._held.prolong(now_ms))
        except TimeoutError:
            log.warning("the store does not tell in %g s which rows wait for the leases of workers", PROLONG_S)
        finally:
            self._keeps = False

    def _carry_all(self, now_ms: int) -> None:
        """What had only just been sent has had its moment, whatever the clock says."""
        for machine in list(self._held.machines.values()):
            if machine.phase is Phase.HAND_OVER:
                self._held.carry_open(machine, now_ms)

    def _settle_all(self, now_ms: int) -> None:
        for machine in list(self._held.machines.values()):
            self._held.carry_open(machine, now_ms)
            self._held.perform(machine, machine.flush())

    async def _until_succeeded(self) -> None:
        """Those who were named hold what they were given."""
        left = [p for p in self._given if self.place_of(p)]
        while left:
            stored = await self._store.read([control_key(p) for p in left])
            left = [p for p, raw in zip(left, stored, strict=True) if raw and not Control.from_bytes(raw).holder]
            if left:
                await asyncio.sleep(LOOK_S)
