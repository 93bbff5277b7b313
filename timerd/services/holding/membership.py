"""The shell of membership: says every two seconds that this instance lives, and looks who else does.

A single instance has the same interface (`single_instance.py`), so nothing else asks whether there is a cluster.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Protocol

from timerd.core.cluster import HeldBy, LeaseTrust, Members, Predecessor, Timing, beat, claim, enlist, look
from timerd.core.protocol import Procedure
from timerd.model import codec
from timerd.model.errors import StartupError, StoreUnavailable, StoreUnknown
from timerd.model.instance import InstanceEntry, InstanceState, instance_key
from timerd.ports import Clock, Registers
from timerd.services.background import note
from timerd.services.holding.driving import Returned, drive
from timerd.services.holding.registers import RegisterRunner

log = logging.getLogger(__name__)
# After an error, and while a predecessor is watched: parts of a heartbeat.
SOON = 8


class Membership(Protocol):
    """What the rest of an instance knows of the cluster."""

    @property
    def name(self) -> str: ...

    @property
    def incarnation(self) -> int:
        """Another one after each time in which the lease was not sure."""
        ...

    @property
    def trust(self) -> LeaseTrust: ...

    @property
    def events(self) -> Mapping[str, int]:
        """How often the lease was `renewed`, not renewed (`failed`), and over (`lapsed`)."""
        ...

    def lease_age_ms(self) -> float:
        """Of the last sign of life; 0 where nobody needs one."""
        ...

    def live(self) -> tuple[str, ...]:
        """The instances that partitions are placed on, sorted; with this one unless it is leaving."""
        ...

    def present(self) -> tuple[str, ...]:
        """The other instances that live, also those that are leaving."""
        ...

    def incarnations(self) -> Mapping[str, int]:
        """Of all instances that live, this one among them."""
        ...

    def has_moved(self, name: str) -> bool:
        """Whether it has given a sign of life since this instance came."""
        ...

    def is_dead(self, entry: InstanceEntry) -> bool:
        """Whether the one whose register says so has given no sign of life for longer than it is believed."""
        ...

    def announced(self) -> Mapping[str, Collection[str]]:
        """What each instance that lives understands of stored forms, this one among them (model/codec.py)."""
        ...

    def address_of(self, name: str) -> str:
        """Empty where it is not known."""
        ...

    def incarnation_at(self, address: str) -> tuple[str, int] | None:
        """Who lives there, by its name and incarnation; None where that is not known."""
        ...

    def on_change(self, changed: Callable[[], None]) -> None:
        """`live` is another one."""
        ...

    def on_lapse(self, lapsed: Callable[[], None]) -> None:
        """The lease was not sure: what was held until now must be dropped before this returns."""
        ...

    def on_oust(self, ousted: Callable[[], None]) -> None:
        """The name has got another owner: this instance cannot go on."""
        ...

    def may_take(self, held: HeldBy) -> bool:
        """Whether the holder that is named there may be succeeded, as far as `confirm` or `step` has seen."""
        ...

    async def confirm(self, held: HeldBy) -> None:
        """Looks at the named holder once more, after the register was read."""
        ...

    async def refresh(self) -> None:
        """Looks now who lives."""
        ...

    async def join(self, address: str) -> None:
        """Raises StartupError where another living instance has the name."""
        ...

    async def step(self) -> None:
        """What is due now."""
        ...

    async def run(self) -> None:
        """Until cancelled."""
        ...

    async def leaving(self) -> None:
        """Gets nothing new from here on."""
        ...

    async def left(self) -> None:
        """Holds nothing any more."""
        ...


class Member:
    """One of several instances on one store. `sleep` is how time passes before it has joined."""

    def __init__(
        self,
        name: str,
        store: Registers,
        clock: Clock,
        timing: Timing,
        new_incarnation: Callable[[], int] = lambda: secrets.randbits(48) | 1,
        knows: Collection[str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.timing = timing
        self.trust = LeaseTrust(timing.ttl_ms)
        self.events: Counter[str] = Counter(renewed=0, failed=0, lapsed=0)
        self.members = Members(name, timing)
        self._sleep = sleep
        self._store = store
        self._runner = RegisterRunner(store)
        self._clock = clock
        self._new_incarnation = new_incarnation
        self._wanted = InstanceEntry(name, "", new_incarnation(), 0, knows=tuple(sorted(knows or codec.CAPABILITIES)))
        # As it stands in the register; None: not joined.
        self._stored: InstanceEntry | None = None
        self._predecessor: Predecessor | None = None
        self._beat_at_ms = self._look_at_ms = 0.0
        self._is_renewing, self._beating = False, asyncio.Lock()
        self._is_leaving = self._is_cordoned = False
        self._refreshing: asyncio.Future[None] | None = None
        self._shown: tuple[str, ...] = ()
        self._changed: list[Callable[[], None]] = []
        self._lapsed: list[Callable[[], None]] = []
        self._ousted: list[Callable[[], None]] = []

    @property
    def incarnation(self) -> int:
        return self._wanted.incarnation

    def lease_age_ms(self) -> float:
        return self.trust.age_ms(self._clock.boot_ms()) if self._stored is not None else 0.0

    def live(self) -> tuple[str, ...]:
        own = [self.name] if self._wanted.state is InstanceState.SERVING else []
        return tuple(sorted([*own, *self.members.others()]))

    def present(self) -> tuple[str, ...]:
        return tuple(self.members.present())

    def incarnations(self) -> Mapping[str, int]:
        return self.members.incarnations() | {self.name: self.incarnation}

    def has_moved(self, name: str) -> bool:
        return self.members.has_moved(name)

    def is_dead(self, entry: InstanceEntry) -> bool:
        return self.members.is_dead(entry)

    def announced(self) -> Mapping[str, Collection[str]]:
        return self.members.announced() | {self.name: self._wanted.knows}

    def address_of(self, name: str) -> str:
        entry = self._stored if name == self.name else self.members.entry(name)
        return entry.address if entry is not None else ""

    def incarnation_at(self, address: str) -> tuple[str, int] | None:
        entries = (self.members.entry(name) for name in self.members.present())
        found = (entry for entry in entries if entry is not None and entry.address == address)
        return next(((entry.name, entry.incarnation) for entry in found), None)

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def on_lapse(self, lapsed: Callable[[], None]) -> None:
        self._lapsed.append(lapsed)

    def on_oust(self, ousted: Callable[[], None]) -> None:
        self._ousted.append(ousted)

    def may_take(self, held: HeldBy) -> bool:
        return self._stored is not None and self.members.may_take(held)

    async def confirm(self, held: HeldBy) -> None:
        if held.holder in ("", self.name):
            return
        if self.members.entry(held.holder) is None or self.members.may_take(held):
            await self._read(held.holder)

    async def refresh(self) -> None:
        """Those who ask at the same time share one look."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.ensure_future(self._surely(self._look()))
        await asyncio.shield(self._refreshing)

    # -- joining and leaving --------------------------------------------------------------------------------------

    async def join(self, address: str) -> None:
        while True:
            if await self._try_join(address):
                return
            await self._sleep(self.timing.heartbeat_ms / SOON / 1000)

    async def _try_join(self, address: str) -> bool:
        """False: an earlier instance of this name may still live."""
        started_ms = self._clock.boot_ms()
        stored = (await self._store.read([instance_key(self.name)]))[0]
        before = InstanceEntry.from_bytes(stored) if stored is not None else None
        if before is not None and before.state is not InstanceState.LEFT and not self._is_over(before, started_ms):
            return False
        counter = before.counter + 1 if before is not None else 1
        me = replace(self._wanted, address=address, counter=counter, beat_at_ms=int(self._clock.wall_ms()))
        claimed_ms = self._clock.boot_ms()
        if not await self._drive(claim(me, stored)):
            raise StartupError(self._taken("at the same moment"))
        self._wanted = self._stored = me
        await self._drive(enlist([self.name]))
        self.trust.heartbeat(claimed_ms)
        self._beat_at_ms = claimed_ms + self.timing.heartbeat_ms
        await self._look()
        return True

    async def leaving(self) -> None:
        self._is_leaving = True
        await self._say_state()

    async def cordon(self, *, cordoned: bool) -> None:
        """What it held is dropped, for its clock is wrong, and it gets nothing until the clock is right."""
        if cordoned and self._stored is not None:
            self._begin_anew()
        self._is_cordoned = cordoned
        await self._say_state()

    async def _say_state(self) -> None:
        is_serving = not (self._is_leaving or self._is_cordoned)
        self._wanted = replace(self._wanted, state=InstanceState.SERVING if is_serving else InstanceState.LEAVING)
        self._tell()
        if self._stored is not None:
            await self._surely(self._beat())

    async def left(self) -> None:
        if self._stored is not None:
            # Nobody asks what one understands that is gone; programs that do not know the field go on from here.
            self._wanted = replace(self._wanted, state=InstanceState.LEFT, knows=())
            await self._surely(self._beat())
            await self._surely(self._drive(enlist([], [self.name])))
            self._stored = None

    # -- while it lives -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """A look that takes long must not hold up a sign of life."""
        await asyncio.gather(self._whenever(self._beat_if_due), self._whenever(self._look_if_due))

    async def step(self) -> None:
        await self._beat_if_due()
        await self._look_if_due()

    async def _whenever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await work()
            await asyncio.sleep(self.timing.heartbeat_ms / SOON / 1000)

    async def _beat_if_due(self) -> None:
        if self._stored is not None and self._clock.boot_ms() >= self._beat_at_ms:
            await self._surely(self._beat())

    async def _look_if_due(self) -> None:
        if self._stored is not None and self._clock.boot_ms() >= self._look_at_ms:
            await self._surely(self._look())

    async def _beat(self) -> None:
        """Times count from its start. One that was on its way while the lease ended is worth nothing: others may have
        taken over meanwhile. One at a time, or a late one takes the incarnation of the next for another owner's."""
        async with self._beating:
            started_ms = self._clock.boot_ms()
            was_sure = self.trust.is_trusted(started_ms)
            if not was_sure:
                self._lapse()
            if self._stored is None:
                return
            stored = await self._beat_once(self._stored)
            if stored is None:
                self._oust()
                return
            self._stored = stored
            self._is_renewing = False
            self.events["renewed"] += 1
            if not was_sure or self.trust.is_trusted(self._clock.boot_ms()):
                self.trust.heartbeat(started_ms)
                self._beat_at_ms = started_ms + self.timing.heartbeat_ms

    async def _beat_once(self, stored: InstanceEntry) -> InstanceEntry | None:
        try:
            return await self._drive(beat(stored, replace(self._wanted, beat_at_ms=int(self._clock.wall_ms()))))
        except (StoreUnavailable, StoreUnknown):
            self.events["failed"] += 1
            raise

    async def _look(self) -> None:
        started_ms = self._clock.boot_ms()
        roster, stored = await self._drive(look(self.name, self.members.watched()))
        ended_ms = self._clock.boot_ms()
        self.members.looked(roster, stored, started_ms, ended_ms)
        dead_ms = self.members.next_look_ms()
        next_ms = started_ms + self.timing.heartbeat_ms
        self._look_at_ms = next_ms if dead_ms is None else max(min(next_ms, dead_ms), started_ms + 1)
        self._tell()
        forgotten = self.members.forgotten()
        if forgotten or self.name not in roster:
            await self._drive(enlist([self.name], forgotten))

    async def _read(self, name: str) -> None:
        started_ms = self._clock.boot_ms()
        stored = (await self._store.read([instance_key(name)]))[0]
        self.members.read(name, stored, started_ms, self._clock.boot_ms())
        self._tell()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        """What was held is dropped before the new incarnation is published: from then on others may take it."""
        if self._is_renewing:
            return
        self._is_renewing = True
        self.events["lapsed"] += 1
        log.warning(
            "the store has not confirmed for %d ms that this instance lives: it drops what it held", self._ttl_ms
        )
        self._begin_anew()

    def _begin_anew(self) -> None:
        for lapsed in self._lapsed:
            lapsed()
        self._wanted = replace(self._wanted, incarnation=self._new_incarnation())

    def _oust(self) -> None:
        log.error(self._taken("meanwhile"))
        self._stored = None
        for told in (*self._lapsed, *self._ousted):
            told()

    def _tell(self) -> None:
        live = self.live()
        if live != self._shown:
            self._shown = live
            log.info("the instances are now %s", ", ".join(live) or "none")
            for changed in self._changed:
                changed()

    def _is_over(self, before: InstanceEntry, started_ms: float) -> bool:
        if self._predecessor is None:
            self._predecessor = Predecessor(before, self.timing)
            log.info(
                "an earlier instance named %s has not said that it left: its lease is waited for, %g s",
                self.name,
                self.timing.ttl_ms / 1000,
            )
        if self._predecessor.lives(before, started_ms, self._clock.boot_ms()):
            raise StartupError(self._taken(f"at {before.address or 'another address'}"))
        return self._predecessor.is_dead

    def _taken(self, where: str) -> str:
        return (
            f"Another living instance is named {self.name!r} ({where}): names are unique in a cluster, so start this "
            "one with another --name, or stop the other one first."
        )

    @property
    def _ttl_ms(self) -> int:
        return self.timing.ttl_ms

    async def _drive(self, procedure: Procedure[Returned]) -> Returned:
        return await drive(procedure, self._runner)

    async def _surely(self, work: Awaitable[object]) -> None:
        """It is tried again in a moment."""
        try:
            await work
        except (StoreUnavailable, StoreUnknown) as error:
            log.warning("membership: %s; trying again", error)
        except Exception as error:  # noqa: BLE001 - it is noted
            note("membership", error, "tries again")
