"""Two releases of the data of time zones: the later one takes the summer time from Utopia, and leaves Arcadia alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from timerd.core.protocol import Request
from timerd.model.errors import Invalid
from timerd.services.holding.driving import Performs

# A summer begins here, in both releases of Arcadia, and in the first one of Utopia.
SUMMER = datetime(2030, 4, 1, 1)
CHANGED, UNCHANGED = "Mundus/Utopia", "Mundus/Arcadia"


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

    def __init__(self, version: str, *, utopia_has_summer: bool) -> None:
        self.version = version
        self._zones: dict[str, tzinfo] = {
            "UTC": UTC,
            CHANGED: SummerFrom(has_summer=utopia_has_summer),
            UNCHANGED: SummerFrom(has_summer=True),
        }

    def zone(self, name: str) -> tzinfo:
        if name not in self._zones:
            raise Invalid(f"There is no time zone {name!r}.", "zone")
        return self._zones[name]


OLD, NEW = Release("2030a", utopia_has_summer=True), Release("2030b", utopia_has_summer=False)


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """Implements services.holding.driving.Performs. It is gone when so many requests have been performed."""

    def __init__(self, performer: Performs, most: int) -> None:
        self._performer = performer
        self._left = most

    async def perform(self, request: Request) -> object:
        answer = await self._performer.perform(request)
        self._left -= 1
        if self._left < 0:
            raise Killed
        return answer
