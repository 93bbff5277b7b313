"""Time zones from the tzdata package, never from the files of the machine: all instances of a release know the same."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

from timerd.model.errors import Invalid


class UnknownZone(Invalid):
    """The package has no zone of that name."""


def tzdata_version() -> str:
    """As the IANA names its releases: 2026a."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All that `zone` knows, old names included."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def _near(name: str) -> list[str]:
    """What may be meant. In Etc/GMT+1 the sign says the opposite of what people mean by GMT+1."""
    names = {each.casefold(): each for each in zone_names() if not each.startswith("Etc/GMT")}
    return [names[each] for each in get_close_matches(name.strip().casefold(), names, n=3)]


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """One object for each name, by whose identity what is computed of it is kept. Raises UnknownZone, with names that
    are near."""
    if name not in zone_names():
        near = _near(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "give one such as Europe/Berlin or UTC."
        raise UnknownZone(f"There is no time zone {name[:64]!r} in tzdata {tzdata_version()}: {hint}", "zone")
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


class TzdataPackage:
    """Implements ports.ZoneData."""

    @property
    def version(self) -> str:
        return tzdata_version()

    def zone(self, name: str) -> ZoneInfo:
        return zone(name)
