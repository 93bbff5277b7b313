"""Who should hold which partition, and the way of those that should be with somebody else (protocol section 4).

A holder sees by its own placement that a partition is not its own any more. It sends nothing more from it, carries what
workers have in hand, settles, and names the successor in one compare-and-set; a call tells the successor, which would
find it within a second anyway. Nothing is asked for: an instance that misses a partition looks at its control row.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Iterator

from timerd.core.cluster import holder_of
from timerd.core.instance_machine import shards_of
from timerd.core.partition import PartitionMachine, Phase
from timerd.model.codec import KEEPS_FIELDS, KEY_SHARDS, known_by_all
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, control_key
from timerd.model.storage import BucketEntry
from timerd.ports import Store
from timerd.services.holding.held import Held
from timerd.services.holding.membership import Membership
from timerd.services.holding.peer_view import PeerView
from timerd.services.holding.prolonging import Prolonging
from timerd.services.holding.tries import surely

log = logging.getLogger(__name__)
# A stop does not wait longer for a store that does nothing, nor for one that does: the next holder completes what is
# missing.
LEAVE_S, MOST_LEAVE_S = 5.0, 12.0
# Of these so long for the rows that wait for leases: what is open has to be carried as well.
PROLONG_S = 2.0
# Nor longer than this for successors to have begun.
SUCCEEDED_S = 2.0
LOOK_S = 0.05
NOTHING = frozenset[str]()
# An older release does not know that there are partitions of key shards.
OF_KEYS = frozenset({KEY_SHARDS})


class HandOver:
    """Of one instance. `peers` are told what they may take."""

    def __init__(
        self, held: Held, membership: Membership, store: Store, prolonging: Prolonging, peers: PeerView
    ) -> None:
        self._peers = peers
        self._held = held
        self._membership = membership
        self._store = store
        self._prolonging = prolonging
        self._done: set[Partition] = set()
        # What holders of partitions have to understand that are not held here for that.
        self._needed: dict[Partition, frozenset[str]] = {}
        # Then nothing more is acquired.
        self.is_leaving = False
        # It is about to leave, and what waits for leases has not been carried on.
        self._keeps = False
        # So many look who lives: what they find may place elsewhere what was given to this instance.
        self._looks = 0
        # Handed over at this stop, and for how many milliseconds nothing was sent of it before.
        self._given: dict[Partition, float] = {}

    def place_of(self, partition: Partition) -> str:
        """The instance that should hold it; empty where all are leaving."""
        live = self._membership.live()
        if needs := self._needs_of(partition):
            announced = self._membership.announced()
            # Where nobody understands its rows, it is as good with one as with another.
            live = tuple(name for name in live if needs.issubset(announced.get(name, ()))) or live
        return holder_of(partition, live) if len(live) > 1 else "".join(live)

    def _needs_of(self, partition: Partition) -> frozenset[str]:
        """What its holder has to understand, as far as it is known that not everybody does."""
        machine = self._held.machines.get(partition)
        own = OF_KEYS if partition.is_of_keys else NOTHING
        if machine is None or machine.control is None:
            return own | self._needed.get(partition, NOTHING)
        return own.union(self._lacks(machine), machine.control.rows_need)

    def _lacks(self, machine: PartitionMachine) -> frozenset[str]:
        """To say it in the control row is a new form."""
        lacks = machine.lacks
        return frozenset(lacks) if lacks and KEEPS_FIELDS in known_by_all(self._membership.announced()) else NOTHING

    def is_mine(self, partition: Partition) -> bool:
        """Placed here, and not done yet."""
        return partition not in self._done and self.place_of(partition) == self._membership.name

    def done(self, partition: Partition) -> None:
        """A shard that is over while others of its bucket are not."""
        self._done.add(partition)

    def is_done(self, partition: Partition) -> bool:
        """Whether that is known here."""
        return partition in self._done

    def forget_done(self, known: Iterable[BucketEntry]) -> None:
        if self._done or self._needed:
            open_now = {p for entry in known if not entry.finished for p in shards_of(entry)}
            self._done &= open_now
            self._needed = {partition: needs for partition, needs in self._needed.items() if partition in open_now}

    async def give_due(self, now_ms: int) -> None:
        """What is placed elsewhere by now. What waits there for leases is carried on first, as at a stop."""
        if due := self._due():
            await self._tell_of_leases(self._prolonging.prolong_in([machine.partition for machine, _ in due], now_ms))
            self.begin_due(now_ms)

    def begin_due(self, now_ms: int) -> None:
        for machine, successor in self._due():
            self.begin(machine, successor, now_ms)

    def _due(self) -> list[tuple[PartitionMachine, str]]:
        """With their successors. Who has just come may take one for living who is dead: to that one nothing is given.
        Who leaves has no choice."""
        if self._keeps or (self._looks and not self.is_leaving):
            return []
        held = [each for each in self._held.machines.values() if each.phase in (Phase.LOAD, Phase.HOT)]
        placed = [(each, self.place_of(each.partition)) for each in held]
        return [each for each in placed if each[1] != self._membership.name and self._may_get(each[1])]

    def _may_get(self, successor: str) -> bool:
        return self.is_leaving or not successor or self._membership.has_moved(successor)

    def begin(self, machine: PartitionMachine, successor: str, now_ms: int) -> None:
        effects = machine.hand_over(successor, self._lacks(machine))
        if machine.phase is not Phase.HAND_OVER:
            return
        self._held.events.begins(machine)
        self._held.carry_sent(machine, now_ms)
        self._held.perform(machine, [*effects, *machine.tick(now_ms)])

    def let_go(self, wanted: set[Partition], now_ms: int) -> None:
        """Of backlogs whose workers left. Alone, nobody needs to know."""
        for partition, machine in list(self._held.machines.items()):
            idle = machine.phase is Phase.HOT and not machine.open_rows and machine.is_idle
            if partition.scope == TIME_SCOPE or partition in wanted or not idle:
                continue
            if self._membership.incarnation:
                self.begin(machine, "", now_ms)
            else:
                machine.drop_all()
                self._held.let_go(machine)

    def note_needs(self, machine: PartitionMachine) -> None:
        """Of a partition that is not held here any more, or not at all."""
        if machine.control is not None and machine.control.rows_need:
            self._needed[machine.partition] = frozenset(machine.control.rows_need)

    def remind(self) -> None:
        """Who understands what this instance does not is told again: by itself it does not see that a partition is its
        own, and the notice may have been lost."""
        for partition in self._needed.keys() - self._held.machines.keys():
            place = self.place_of(partition)
            if place not in ("", self._membership.name):
                self._peers.hand_over(self._membership.address_of(place), partition, None)

    def ended(self, machine: PartitionMachine) -> None:
        """Nobody holds it now. Only a stop waits for who takes it over."""
        self.note_needs(machine)
        given_ms = self._held.events.given(machine)
        if self.is_leaving:
            self._given[machine.partition] = given_ms
        if machine.successor:
            address = self._membership.address_of(machine.successor)
            self._peers.hand_over(address, machine.partition, machine.control)

    def keep(self) -> None:
        """From here to `leave` nothing is given away, although all is placed elsewhere as soon as others are told: who
        gives a row away can carry it no more, and knows alone that the lease was extended which it waits for."""
        self._keeps = True

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Nothing is given away until it is known who lives."""
        self._looks += 1
        try:
            yield
        finally:
            self._looks -= 1

    async def leave(self, now_ms: int) -> None:
        """A graceful stop. What nobody takes over is carried and settled, and the next start goes on from there."""
        self._given.clear()
        self.is_leaving = True
        begun_s = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S) as leaving:
                await self._prolong_all(now_ms)
                await self._give_all(now_ms, leaving)
                self._settle_all(now_ms)
                await self._held.until_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SUCCEEDED_S):
                await self._until_succeeded()
        if self._given:
            took_ms = 1e3 * (asyncio.get_running_loop().time() - begun_s)
            last = max(self._given, key=self._given.__getitem__)
            words = "%d partitions were given away in %.0f ms, with those who take over; the longest step: %s, %.0f ms"
            log.info(words, len(self._given), took_ms, last, self._given[last])

    async def _give_all(self, now_ms: int, leaving: asyncio.Timeout) -> None:
        """A store that is only slow is waited for: what workers have comes again from the instance that finds it with
        nobody."""
        loop, known = asyncio.get_running_loop(), self._progress()
        last_s = (leaving.when() or 0.0) + MOST_LEAVE_S - LEAVE_S
        while self._membership.incarnation and self._held.machines:
            self.begin_due(now_ms)
            self._held.tick(now_ms)
            await asyncio.sleep(LOOK_S)
            self._carry_all(now_ms)
            if (progress := self._progress()) != known:
                known = progress
                leaving.reschedule(min(last_s, loop.time() + LEAVE_S))

    def _progress(self) -> list[tuple[Partition, Phase, int]]:
        return [(each.partition, each.phase, each.done_through) for each in self._held.machines.values()]

    async def _prolong_all(self, now_ms: int) -> None:
        try:
            await self._tell_of_leases(self._prolonging.prolong_all(now_ms))
        finally:
            self._keeps = False

    async def _tell_of_leases(self, prolonged: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(PROLONG_S):
                await surely(prolonged)
        except TimeoutError:
            log.warning("the store does not tell in %g s which rows wait for the leases of workers", PROLONG_S)

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
