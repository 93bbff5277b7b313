"""By whose data of time zones instants are computed (tests/models/zones.pml).

Instances of one cluster may have different releases of tzdata for a while. One register says whose are in force. An
instance computes the instants of a zone only where its own data say of that zone what those in force say.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import tzinfo
from functools import lru_cache
from itertools import islice
from typing import Protocol

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.core.recurrence import zone_digest
from timerd.model.errors import Invalid, Unavailable
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.model.zones import UTC, ZONES, SweptTo, Zones

SHOWN = 3
# Zones in one change. The digest of each takes a millisecond, in which nothing fires.
MOST_ANNOUNCED = 16


class ZonesDiffer(Unavailable):
    """Instants are left to an instance that has the data in force."""


class ZoneSource(Protocol):
    """What ports.ZoneData has."""

    @property
    def version(self) -> str: ...

    def zone(self, name: str) -> tzinfo: ...


class OwnZones:
    """The data of one instance, and what it has read of the register, if anything."""

    def __init__(self, data: ZoneSource, stored: bytes | None = None) -> None:
        self.version, self.zone = data.version, data.zone
        self.known: Zones | None = None
        # Namespaces that it has announced.
        self.announced: set[str] = set()
        self.digest = lru_cache(maxsize=4096)(self._digest)
        self.read(stored)

    def _digest(self, zone: str, from_ms: int) -> str:
        """Nothing: there is no such zone."""
        try:
            return zone_digest(self.zone(zone), from_ms)
        except Invalid:
            return ""

    def read(self, stored: bytes | None) -> Zones | None:
        """Two reads may come in the other order."""
        if stored is not None:
            read = Zones.from_bytes(stored)
            if self.known is None or read.generation >= self.known.generation:
                self.known = read
        return self.known

    @property
    def is_in_force(self) -> bool:
        return self.known is not None and self.known.tzdata == self.version

    def speaks_of(self, zone: str) -> bool:
        """Whether these data are as good as those in force there."""
        return zone == UTC or self.known is None or zone not in self.known.digests or self._agrees(self.known, zone)

    def may_compute(self, zone: str, generation: int) -> bool:
        """Z3, by what has been read: whether nothing needs to be asked or announced first (`computed_by`)."""
        if zone == UTC:
            return True
        known = self.known
        return (
            known is not None and known.generation >= generation and zone in known.digests and self._agrees(known, zone)
        )

    @property
    def differing(self) -> tuple[str, ...]:
        """The zones in use of which these data say something else than those in force."""
        known = self.known
        if known is None or self.is_in_force:
            return ()
        return tuple(zone for zone in known.digests if not self._agrees(known, zone))

    def _agrees(self, known: Zones, zone: str) -> bool:
        return known.digests.get(zone, "") == self.digest(zone, known.from_ms)

    def check(self, zone: str) -> int:
        """The generation by whose data its instants are computed. Raises ZonesDiffer."""
        known = self.known
        if known is None or not self._agrees(known, zone):
            raise differ(self, zone)
        return known.generation


def differ(own: OwnZones, zone: str) -> ZonesDiffer:
    in_force = own.known.tzdata if own.known is not None else "none"
    return ZonesDiffer(
        f"This instance has the time zones of tzdata {own.version}, and the schedules go by {in_force}, which says "
        f"something else of {zone}: ask another instance, or give this one that release.",
        "TZDATA_DIFFERS",
    )


def computed_by(own: OwnZones | None, zone: str, generation: int, now_ms: int, *, anew: bool = False) -> Procedure[int]:
    """Z3: the generation by whose data the instants of a zone are computed; 0: by any. `generation`: what the schedule
    names; one that is not known here is a reason to read the register. `anew` (Z4): it is read in any case. Raises
    ZonesDiffer."""
    if own is None or zone == UTC:
        return 0
    while anew or own.known is None or own.known.generation < generation or zone not in own.known.digests:
        stored: bytes | None = yield ReadRegister(ZONES)
        own.read(stored)
        anew = False
        if own.known is not None and zone in own.known.digests:
            continue
        digest = own.digest(zone, now_ms if own.known is None else own.known.from_ms)
        if not digest or (own.known is not None and not own.is_in_force):
            break
        known = own.known or Zones(1, own.version, now_ms, {})
        wanted = known.with_zones({zone: digest}).to_bytes()
        result: CasResult = yield TryCas(Cas(ZONES, stored, wanted))
        if result.status is CasStatus.APPLIED:
            own.read(wanted)
    return own.check(zone) if own.known is not None else 0


def computed_together(
    own: OwnZones | None, zones: Collection[str], now_ms: int, *, anew: bool = False
) -> Procedure[dict[str, int]]:
    """As above, of many: the generation of each zone; those are missing that are left to others. `anew`: one read is
    as good for all of them, for nothing is announced after it. Those that nobody has used yet are announced together:
    the first schedules of 400 zones would wait for 400 changes."""
    wanted = {*zones} - {UTC}
    if own is not None and wanted and (anew or not _are_announced(own, wanted)):
        yield from _announced(own, wanted, now_ms)
    generations: dict[str, int] = {}
    for zone in sorted({*zones}):
        with suppress(ZonesDiffer):
            generations[zone] = yield from computed_by(own, zone, 0, now_ms)
    return generations


def _are_announced(own: OwnZones, zones: Collection[str]) -> bool:
    return own.known is not None and all(zone in own.known.digests for zone in zones)


def _announced(own: OwnZones, zones: Collection[str], now_ms: int) -> Procedure[None]:
    """Those of them that may be: the register is read, and says so when this is done."""
    while True:
        stored: bytes | None = yield ReadRegister(ZONES)
        known = own.read(stored)
        if known is not None and not own.is_in_force:
            return
        from_ms = now_ms if known is None else known.from_ms
        there = known.digests if known is not None else {}
        unused = ((zone, own.digest(zone, from_ms)) for zone in sorted(zones) if zone not in there)
        new = dict(islice(((zone, digest) for zone, digest in unused if digest), MOST_ANNOUNCED))
        if not new:
            return
        wanted = (known or Zones(1, own.version, now_ms, {})).with_zones(new).to_bytes()
        yield TryCas(Cas(ZONES, stored, wanted))


def come_into_force(own: OwnZones, now_ms: int, *, is_single: bool, is_held: bool) -> Procedure[Zones | None]:
    """Z1: what the register says when this is done; None: nothing, as no schedule has a zone. Data that are newer come
    into force by themselves, and any do where there is no other instance."""
    while True:
        stored: bytes | None = yield ReadRegister(ZONES)
        known = own.read(stored)
        if known is None or own.is_in_force:
            return known
        if not is_single and (known.is_pinned or own.version < known.tzdata):
            return known
        wanted = in_force(own, known, now_ms, is_held=is_held).to_bytes()
        result: CasResult = yield TryCas(Cas(ZONES, stored, wanted))
        if result.status is CasStatus.APPLIED:
            return own.read(wanted)


def ask_for_sweep(own: OwnZones, zones: Collection[str], now_ms: int) -> Procedure[Zones | None]:
    """By an operator: the data of this instance are in force, whatever others have, and the schedules of these zones
    (none: of those that changed last) are armed anew, once more. None: no schedule has a zone. Raises Invalid."""
    while True:
        stored: bytes | None = yield ReadRegister(ZONES)
        known = own.read(stored)
        if unused := sorted({*zones} - (known.digests.keys() if known is not None else set())):
            raise Invalid(f"No schedule has the zone {unused[0]!r}: name zones that schedules have, or none.", "zones")
        if known is None:
            return None
        asked = in_force(own, known, now_ms, is_held=False)
        named = {*zones} or {*asked.changed} or {*known.last}
        changed = tuple(sorted({*named, *asked.changed}))
        is_pinned = known.is_pinned if known.tzdata == own.version else own.version < known.tzdata
        asked = replace(asked, changed=changed, last=changed, is_pinned=is_pinned)
        wanted = asked.to_bytes()
        result: CasResult = yield TryCas(Cas(ZONES, stored, wanted))
        if result.status is CasStatus.APPLIED:
            return own.read(wanted)


def in_force(own: OwnZones, known: Zones, now_ms: int, *, is_held: bool) -> Zones:
    """What a sweep before has not come to is a matter of this one."""
    differing = {zone for zone in known.digests if own.digest(zone, known.from_ms) != known.digests[zone]}
    changed = tuple(sorted(differing | {*known.changed}))
    return replace(
        known,
        generation=known.generation + 1,
        tzdata=own.version,
        from_ms=now_ms,
        digests={zone: own.digest(zone, now_ms) for zone in known.digests},
        changed=changed,
        swept_to=SweptTo(),
        armed=0,
        last=changed or known.last,
        is_held=is_held and bool(changed),
        is_pinned=False,
    )
