"""Two releases of the data of time zones: the later one takes the summer time from Utopia, leaves Arcadia as it is, and
knows nothing of Atlantis."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from timerd.core.protocol import Request, TryCas, TryCasMany
from timerd.core.recurrence import Recurrence, recurrence
from timerd.core.schedules.world import World
from timerd.core.schedules.zones import OwnZones
from timerd.model.errors import Invalid
from timerd.model.registers import Table
from timerd.model.schedules import Definition
from timerd.model.zones import ZONES
from timerd.services.holding.driving import Performs
from timerd.testing import Server

# A summer begins here, in both releases of Arcadia, and in the first one of Utopia.
SUMMER = datetime(2030, 4, 1, 1)
CHANGED, UNCHANGED, GONE = "Mundus/Utopia", "Mundus/Arcadia", "Mundus/Atlantis"


class SummerFrom(tzinfo):
    """An hour ahead of UTC, and two from `SUMMER` on, where there is one."""

    def __init__(self, *, has_summer: bool) -> None:
        self._has_summer = has_summer

    def utcoffset(self, at: datetime | None) -> timedelta:
        assert at is not None
        wall = at.replace(tzinfo=None)
        return timedelta(hours=2 if self._has_summer and wall >= SUMMER + timedelta(hours=1) else 1)

    def dst(self, at: datetime | None) -> timedelta:
        return self.utcoffset(at) - timedelta(hours=1)

    def tzname(self, at: datetime | None) -> str:
        return "summer" if self.dst(at) else "winter"

    def fromutc(self, at: datetime) -> datetime:
        is_summer = self._has_summer and at.replace(tzinfo=None) >= SUMMER
        return at + timedelta(hours=2 if is_summer else 1)


class Release:
    """Implements timerd.ports.ZoneData."""

    def __init__(self, version: str, *, is_old: bool) -> None:
        self.version = version
        self._zones: dict[str, tzinfo] = {
            "UTC": UTC,
            CHANGED: SummerFrom(has_summer=is_old),
            UNCHANGED: SummerFrom(has_summer=True),
        }
        if is_old:
            self._zones[GONE] = UTC

    def zone(self, name: str) -> tzinfo:
        if name not in self._zones:
            raise Invalid(f"There is no time zone {name!r}.", "zone")
        return self._zones[name]


OLD, NEW = Release("2030a", is_old=True), Release("2030b", is_old=False)


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """Implements services.holding.driving.Performs. It is gone when so many requests have been performed."""

    def __init__(self, runner: Performs, most: int) -> None:
        self._runner = runner
        self._left = most

    async def perform(self, request: Request) -> object:
        answer = await self._runner.perform(request)
        self._left -= 1
        if self._left < 0:
            raise Killed
        return answer


class Stopped:
    """Implements services.holding.driving.Performs. It stands still before a compare-and-set of a schedule, or of
    many, the `nth` of them, until it may go on."""

    def __init__(self, runner: Performs, nth: int = 1) -> None:
        self.is_there, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._runner = runner
        self._left = nth

    async def perform(self, request: Request) -> object:
        is_one = isinstance(request, TryCas) and request.change.key.table is Table.SCHEDULES
        if is_one or isinstance(request, TryCasMany):
            self._left -= 1
            if not self._left:
                self.is_there.set()
                await self.may_go_on.wait()
        return await self._runner.perform(request)


class Counting:
    """Implements services.holding.driving.Performs. It counts the changes of the register of time zones."""

    def __init__(self, runner: Performs) -> None:
        self.changes = 0
        self._runner = runner

    async def perform(self, request: Request) -> object:
        self.changes += isinstance(request, TryCas) and request.change.key == ZONES
        return await self._runner.perform(request)


def world_of(server: Server, release: Release, stored: bytes | None) -> World:
    """That of an instance with these data, beside the server."""
    node = server.node
    assert node.zone_sweep is not None

    def times(schedule_id: str, it: Definition) -> Recurrence:
        return recurrence(it.spec, release.zone(it.spec.zone), schedule_id.encode())

    return replace(node.zone_sweep.world, zones=OwnZones(release, stored), times=times)
