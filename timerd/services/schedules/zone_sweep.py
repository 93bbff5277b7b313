"""Which release of tzdata is in force, and the sweep that arms schedules anew where it says something else
(core/schedules/sweeping.py).

Any instance that has the data in force may sweep: each schedule is armed once. So that two do not go through the same
names, one goes on only with what nobody has moved since it last looked.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from timerd.core.schedules.changes import Name
from timerd.core.schedules.sweeping import Swept, sweep_one, swept_to
from timerd.core.schedules.world import World
from timerd.core.schedules.zones import ask_for_sweep, come_into_force
from timerd.model.errors import Aborted, Invalid, NotUnderstood, StoreUnknown, Unavailable
from timerd.model.schedules import NAME_SLOTS, Schedule, definition_key, named, names_place, schedule_key
from timerd.model.zones import NAMESPACES, UTC, SweptTo, Zones
from timerd.ports import Store
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

# The loop that asks comes every ten seconds.
LOOK_EVERY_MS = 9_000
# Names that are gone through before the progress is noted; how many schedules are armed at a time, and in a second.
PAGE = 100
TOGETHER = 16
ARMED_PER_S = 500.0
_log = logging.getLogger(__name__)


class SweepFigures(NamedTuple):
    """`swept`: names by what was done with them here. `differing`: zones whose instants are left to others. `is_open`:
    a sweep is not at its end."""

    swept: dict[str, int]
    differing: int
    is_open: bool


class ZoneSweep:
    """Of one instance. `is_single`: there is no other one on these data. `holds`: what it brings into force is swept
    when an operator says so. `pause`: how time passes, in seconds. `page`: names until the progress is noted."""

    def __init__(
        self,
        store: Store,
        runner: Performs,
        world: World,
        *,
        is_single: bool,
        holds: bool,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        page: int = PAGE,
    ) -> None:
        assert world.zones is not None
        self.own = world.zones
        self._most = page
        self._store = store
        self._runner = runner
        self.world = world
        self._is_single = is_single
        self._holds = holds
        self._pause = pause
        self._swept: Counter[str] = Counter({each.value: 0 for each in Swept})
        self._seen: object = None
        self._look_at_ms = 0
        self._running = asyncio.Lock()

    @property
    def figures(self) -> SweepFigures:
        known = self.own.known
        is_open = known is not None and bool(known.changed)
        return SweepFigures(dict(self._swept), len(self.own.differing), is_open)

    def sentences(self) -> list[str]:
        """What is to be done about it, for `timerd doctor`."""
        known, differing = self.own.known, self.own.differing
        if known is None:
            return []
        said = []
        if differing:
            said.append(
                f"Its time zones are of tzdata {self.own.version}, and the schedules go by {known.tzdata}, which "
                f"differs for {_shown(differing)}: it leaves their schedules to the other instances. Give it that "
                "release, or, if that release is wrong, `timerd zones sweep` brings its own into force."
            )
        if known.is_held:
            said.append(
                f"tzdata {known.tzdata} changed {_shown(known.changed)}, and the sweep is held: what schedules have "
                "recorded ahead is still by the release before. `timerd zones sweep` begins it."
            )
        return said

    async def begin(self) -> None:
        """Before the instance works. What it has read at its start says whether there is anything to do."""
        if self.own.known is not None and not self.own.is_in_force:
            await self._come_into_force()

    @property
    def is_due(self) -> bool:
        """Whether `step` does anything."""
        is_looking = self.own.known is not None and not self._running.locked()
        return is_looking and self.world.now_ms() >= self._look_at_ms

    async def step(self) -> None:
        """Every ten seconds: whether other data are in force, and whether a sweep is to be gone on with."""
        if self.is_due:
            try:
                await self._step()
            except (Unavailable, StoreUnknown) as error:
                _log.warning("the sweep goes on in a moment: %s", error)

    async def _step(self) -> None:
        self._look_at_ms = self.world.now_ms() + LOOK_EVERY_MS
        zones = await self._come_into_force()
        mark = (zones.generation, zones.swept_to) if zones is not None else None
        is_moved, self._seen = self._seen not in (None, mark), mark
        if zones is not None and self.own.is_in_force and zones.is_sweeping and not is_moved:
            await self.sweep()

    async def ask(self, zones: Collection[str]) -> Zones | None:
        """By an operator. None: no schedule has a zone."""
        asked = await drive(ask_for_sweep(self.own, zones, self.world.now_ms()), self._runner)
        self._look_at_ms = 0
        self._seen = None
        return asked

    async def _come_into_force(self) -> Zones | None:
        before = self.own.known
        taking = come_into_force(self.own, self.world.now_ms(), is_single=self._is_single, is_held=self._holds)
        zones = await drive(taking, self._runner)
        if zones is not None and before is not None and zones.generation > before.generation:
            changed = _shown(zones.changed) if zones.changed else "no zone that schedules use"
            _log.info("tzdata %s is in force; it changed %s", zones.tzdata, changed)
            self._seen = None
        return zones

    async def sweep(self) -> None:
        """To its end, or until other data come into force."""
        if self._running.locked():
            return
        async with self._running:
            zones = self.own.known
            try:
                while zones is not None and zones.is_sweeping and self.own.is_in_force:
                    zones = await self._page(zones)
            except Aborted as error:
                _log.warning("the sweep goes on in a moment: %s", error)
            if zones is not None and not zones.changed:
                _log.info("schedules go by tzdata %s: %d were armed anew", zones.tzdata, zones.armed)

    async def _page(self, zones: Zones) -> Zones | None:
        """The names of one page, THEN the progress."""
        places = await self._names(zones.swept_to)
        concerned = await self._concerned(zones, places)
        armed = 0
        for at in range(0, len(concerned), TOGETHER):
            part = concerned[at : at + TOGETHER]
            said = await asyncio.gather(*(self._one(each, zones) for each in part))
            armed += said.count(Swept.ARMED)
            await self._pause(len(part) / ARMED_PER_S)
        noted = await drive(
            swept_to(self.own, zones, places[-1] if len(places) >= self._most else None, armed), self._runner
        )
        self._seen = (noted.generation, noted.swept_to) if noted is not None else None
        return noted

    async def _one(self, place: SweptTo, zones: Zones) -> Swept:
        schedule_id, uid = named(place.name.encode())
        name = Name(place.namespace, schedule_id)
        try:
            swept = await until_decided(
                lambda: drive(sweep_one(name, uid, zones, self.world), self._runner), CALL_PAUSE_S
            )
        except (Invalid, NotUnderstood) as error:
            # By these data it has no instants, or it is of a later release. It must not keep others from theirs.
            _log.error("the schedule %r cannot be armed anew: %s", schedule_id, error)
            swept = Swept.FAILED
        self._swept[swept.value] += 1
        return swept

    async def _names(self, after: SweptTo) -> list[SweptTo]:
        """The next ones, by namespace, slot and name; fewer than a page: there are no more."""
        found: list[SweptTo] = []
        for namespace in await self._namespaces(after.namespace):
            for slot in range(after.slot if namespace == after.namespace else 0, NAME_SLOTS):
                last = after.name if (namespace, slot) == (after.namespace, after.slot) else ""
                most = self._most - len(found)
                entries = await self._store.list_entries(names_place(namespace, slot), last.encode(), most)
                found += [SweptTo(namespace, slot, entry.key.name.decode()) for entry in entries]
                if len(found) == self._most:
                    return found
        return found

    async def _namespaces(self, first: str) -> list[str]:
        """From this one on."""
        found = [first] if first else []
        after = first.encode()
        while page := await self._store.list_entries(NAMESPACES, after, PAGE):
            after = page[-1].key.name
            found += [entry.key.name.decode() for entry in page]
        return found

    async def _concerned(self, zones: Zones, places: Sequence[SweptTo]) -> list[SweptTo]:
        """Without those that are plainly of other zones, which are read together."""
        names = [(place.namespace, *named(place.name.encode())) for place in places]
        stored = await self._store.read([schedule_key(namespace, each) for namespace, each, _ in names])
        entries = [_read(raw) for raw in stored]
        alive = {
            place: definition_key(namespace, schedule_id, uid, entry.revision, entry.attempt)
            for place, entry, (namespace, schedule_id, uid) in zip(places, entries, names, strict=True)
            if entry is not None and entry.uid == uid and not entry.coming_zone
        }
        found = await self._store.find_entries(list(alive.values()))
        of_others = {
            place
            for place, raw in zip(alive, found, strict=True)
            if raw is not None and _zone_of(raw) not in zones.changed
        }
        self._swept[Swept.LEFT.value] += len(of_others)
        return [place for place in places if place not in of_others]


def _zone_of(definition: bytes) -> str:
    return str(json.loads(definition)["spec"].get("zone", UTC))


def _read(stored: bytes | None) -> Schedule | None:
    """None: it is to be looked at by itself."""
    try:
        return Schedule.from_bytes(stored) if stored is not None else None
    except NotUnderstood:
        return None


def _shown(zones: Iterable[str]) -> str:
    """Some of them."""
    first, *more = sorted(zones)
    return f"{first} and {len(more)} more zones" if len(more) > 1 else " and ".join([first, *more])
